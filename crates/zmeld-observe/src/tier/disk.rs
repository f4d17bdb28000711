//! Swap on drives and in files, with whatever else nobody takes.

use zmeld_config::{DiskSwap, Location, Source};

use super::*;

pub struct Disk;

impl ObservedTier for Disk {
    fn area(&self, _: &Observation, swap: &Swap) -> Option<TierState> {
        let area = &swap.area;
        Some(TierState {
            name: area.name().into_owned(),
            kind: match swap.stand.is_encrypted() {
                _ if swap.stand.ram_below().is_some() => ObservedKind::OnRam,
                true => ObservedKind::EncryptedDisk,
                false => ObservedKind::Disk,
            },
            size_bytes: area.size_bytes,
            used_bytes: Some(area.used_bytes),
            priority: Some(area.priority),
            ..TierState::default()
        })
    }

    fn add_room(&self, tier: &TierState, sum: &mut Sum) -> bool {
        // What stands on RAM again frees as little as it takes there.
        if tier.kind == ObservedKind::OnRam {
            return true;
        }
        sum.drive(tier.size_bytes.saturating_sub(tier.used_bytes.unwrap_or(0)));
        true
    }

    fn name(&self) -> &'static str {
        "disk"
    }

    fn recommended(&self, inputs: &mut Inputs<'_>) -> Result<Kind, String> {
        let place = inputs.choice.place.clone();
        let place = place.ok_or("a disk tier needs --device: a partition, or a file and --size")?;
        let source = match place {
            Location::Path(path) if !path.starts_with("/dev") => Source::File {
                path,
                size: inputs.choice.size,
            },
            device => Source::Device(device),
        };
        Ok(Kind::from(DiskSwap {
            source,
            ..DiskSwap::default()
        }))
    }
}
