//! Swap on drives and in files, with whatever else nobody takes.

use zmeld_config::{DiskSwap, Kind, Location};

use super::inputs::Inputs;
use super::state::{ObservedKind, TierState};
use crate::observe::observation::Swap;

/// An area that is no device in RAM.
pub(super) fn area(swap: &Swap) -> TierState {
    let area = &swap.area;
    TierState {
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
    }
}

pub(super) fn recommended(inputs: &Inputs<'_>) -> Result<Kind, String> {
    let place = inputs.choice.place.clone();
    let place = place.ok_or("a disk tier needs --device: a partition, or a file and --size")?;
    let mut disk = DiskSwap::default();
    match place {
        Location::Path(path) if !path.starts_with("/dev") => {
            (disk.file, disk.size) = (Some(path), inputs.choice.size);
        }
        device => disk.device = Some(device),
    }
    Ok(Kind::Disk(disk))
}
