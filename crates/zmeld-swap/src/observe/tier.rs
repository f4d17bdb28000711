//! All places where pages can be, as one table.

use std::cmp::Reverse;

use serde::Serialize;
use zmeld_config::advice::codec::JUDGED_FROM;
use zmeld_config::RamDriver;
use zmeld_linux::headroom::{ratio, Sum};

use super::applied::Applied;
use super::device::{Device, Melding};
use super::observation::{Observation, Swap};

/// The kind of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservedKind {
    /// A zram device used for swap.
    Zram,
    /// A zmeld device used for swap.
    Zmeld,
    /// A zram or zmeld device that is not swap.
    #[default]
    Device,
    /// The compressed cache in front of swap.
    Zswap,
    /// Swap on a drive.
    Disk,
    /// Swap on an encrypted drive.
    EncryptedDisk,
    /// Swap in a file, or below layers, that stands on RAM again.
    OnRam,
}

impl ObservedKind {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            ObservedKind::Zram => "zram",
            ObservedKind::Zmeld => "zmeld",
            ObservedKind::Device => "device",
            ObservedKind::Zswap => "zswap",
            ObservedKind::Disk => "disk",
            ObservedKind::EncryptedDisk => "encrypted disk",
            ObservedKind::OnRam => "on RAM",
        }
    }
}

/// A row of the table. Unknown fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TierState {
    /// The device's name, the swap file's path, or `zswap`.
    pub name: String,
    /// The tier of the configuration that `zmeld up` made it for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up_as: Option<String>,
    /// Its kind.
    pub kind: ObservedKind,
    /// The codec that new pages are compressed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// How much can be written to it; of zswap, how much RAM its pool may take.
    pub size_bytes: u64,
    /// Used as `/proc/swaps` counts it; absent where it is not swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Pages that it holds, uncompressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// Their compressed size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed_bytes: Option<u64>,
    /// RAM that the objects really take, in whole pages of the allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// RAM that the table of slots takes beside that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_bytes: Option<u64>,
    /// Pages in RAM over the RAM that they take; absent below 16 MiB of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Pages kept as one machine word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_filled_bytes: Option<u64>,
    /// Pages kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incompressible_bytes: Option<u64>,
    /// Compressed bytes that melding saves now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub melded_bytes: Option<u64>,
    /// Pages on the backing device or, for zswap, written on to disk since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writeback_bytes: Option<u64>,
    /// The most RAM that it may take; absent: all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Its priority among swap areas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

impl TierState {
    /// Adds the room that it has; false where its ratio is not known yet.
    pub(crate) fn add_room(&self, sum: &mut Sum) -> bool {
        let left = |used: Option<u64>| self.size_bytes.saturating_sub(used.unwrap_or(0));
        match self.kind {
            ObservedKind::Zram | ObservedKind::Zmeld | ObservedKind::Device => {
                return add_device_room(self, sum);
            }
            ObservedKind::Zswap => {
                let ratio = self.ratio.unwrap_or(1.0);
                sum.pool(left(self.memory_used_bytes), ratio);
            }
            ObservedKind::Disk | ObservedKind::EncryptedDisk => sum.drive(left(self.used_bytes)),
            // It frees as little as it takes there.
            ObservedKind::OnRam => {}
        }
        true
    }
}

impl Observation {
    /// The tiers in the order in which a page being swapped out meets them: zswap,
    /// then swap by falling priority; at last devices that are not swap.
    pub fn tiers(&self) -> Vec<TierState> {
        let mut swaps: Vec<&Swap> = self.swaps.iter().collect();
        swaps.sort_by_key(|swap| Reverse(swap.area.priority));
        let area = |swap: &Swap| device_area(self, swap).unwrap_or_else(|| disk_area(swap));
        let areas = swaps.into_iter().map(area);
        let in_front = zswap_in_front(self).into_iter();
        in_front.chain(areas).chain(unused_devices(self)).collect()
    }

    /// [`Self::tiers`], with the names that the configuration has for what `zmeld up` set
    /// up.
    pub fn named_tiers(&self, applied: Option<&Applied>) -> Vec<TierState> {
        let mut tiers = self.tiers();
        for tier in &mut tiers {
            let part = applied.and_then(|applied| match tier.kind {
                ObservedKind::Zswap => applied.zswap(),
                _ => {
                    let mut swaps = self.swaps.iter();
                    let swap = swaps.find(|swap| swap.area.name() == tier.name)?;
                    applied.tier_on(&swap.area.shown())
                }
            });
            tier.set_up_as = part.map(|part| part.name.clone());
        }
        tiers
    }
}

/// The tier in front of swap areas.
fn zswap_in_front(of: &Observation) -> Option<TierState> {
    let zswap = of.zswap.as_ref()?;
    // Switched off, it still holds what went in before.
    if !zswap.enabled && zswap.stored_bytes == 0 {
        return None;
    }
    let pages = |name: &str| {
        let pages = zswap.counters.get(name)?;
        Some(pages.saturating_mul(of.page_size))
    };
    let limit = zswap.limit_bytes(&of.memory);
    Some(TierState {
        name: "zswap".to_owned(),
        kind: ObservedKind::Zswap,
        codec: Some(zswap.compressor.clone()),
        size_bytes: limit,
        stored_bytes: Some(zswap.stored_bytes),
        memory_used_bytes: Some(zswap.memory_used_bytes),
        ratio: judged(zswap.stored_bytes, zswap.memory_used_bytes),
        same_filled_bytes: pages("same_filled_pages"),
        incompressible_bytes: zswap.incompressible_bytes,
        writeback_bytes: of
            .activity
            .zswap_written_back_pages
            .map(|pages| pages.saturating_mul(of.page_size))
            .or_else(|| pages("written_back_pages")),
        limit_bytes: Some(limit),
        ..TierState::default()
    })
}

/// An area, where it is a device in RAM.
fn device_area(of: &Observation, swap: &Swap) -> Option<TierState> {
    let device = of.device_of(swap)?;
    Some(TierState {
        kind: match device.driver {
            RamDriver::Zram => ObservedKind::Zram,
            RamDriver::Zmeld => ObservedKind::Zmeld,
        },
        used_bytes: Some(swap.area.used_bytes),
        priority: Some(swap.area.priority),
        ..device_state(of, device)
    })
}

/// Devices that are set up and not swapped to.
fn unused_devices(of: &Observation) -> Vec<TierState> {
    let devices = of.devices.iter();
    let unused = devices.filter(|it| it.initialised && of.swap_on(it).is_none());
    unused.map(|device| device_state(of, device)).collect()
}

/// Adds its room; false where its ratio is not known yet.
fn add_device_room(tier: &TierState, sum: &mut Sum) -> bool {
    let Some(in_use) = tier.used_bytes else {
        return true;
    };
    let used = tier.memory_used_bytes.unwrap_or(0);
    let left = tier.limit_bytes.map(|limit| limit.saturating_sub(used));
    let ratio = judged_ratio(tier);
    if let Some(ratio) = ratio {
        sum.compressed(tier.size_bytes.saturating_sub(in_use), ratio, left);
    }
    ratio.is_some()
}

/// An area that is no device in RAM.
fn disk_area(swap: &Swap) -> TierState {
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

fn device_state(of: &Observation, device: &Device) -> TierState {
    let held = device.held;
    let pages = |pages: u64| pages.saturating_mul(of.page_size);
    TierState {
        name: device.name.clone(),
        codec: Some(device.codec.clone()).filter(|codec| !codec.is_empty()),
        size_bytes: device.size_bytes,
        stored_bytes: held.map(|held| held.stored_bytes),
        compressed_bytes: held.map(|held| held.compressed_bytes),
        memory_used_bytes: held.map(|held| held.memory_used_bytes),
        metadata_bytes: Some(device.metadata_bytes(of.page_size)),
        ratio: held.and_then(|held| judged(device.in_memory_bytes(), held.memory_used_bytes)),
        same_filled_bytes: held.map(|held| pages(held.same_filled_pages)),
        incompressible_bytes: held.map(|held| pages(held.incompressible_pages)),
        melded_bytes: device
            .melding
            .as_ref()
            .filter(|melding| melding.is_told())
            .map(Melding::melded_bytes),
        writeback_bytes: device
            .backing
            .as_ref()
            .and(device.backed.map(|backed| backed.held_bytes)),
        limit_bytes: held.map(|held| held.limit_bytes).filter(|&limit| limit > 0),
        ..TierState::default()
    }
}

/// The ratio of its pages, where it holds enough of them to judge by.
fn judged_ratio(tier: &TierState) -> Option<f64> {
    let elsewhere = [tier.same_filled_bytes, tier.writeback_bytes];
    let elsewhere = elsewhere.into_iter().flatten();
    let elsewhere = elsewhere.fold(0, u64::saturating_add);
    let pages = tier.stored_bytes?.saturating_sub(elsewhere);
    judged(pages, tier.memory_used_bytes?)
}

/// The ratio of so many pages; of fewer than tell something, none.
pub(crate) fn judged(pages_bytes: u64, used_bytes: u64) -> Option<f64> {
    ratio(pages_bytes, used_bytes).filter(|_| pages_bytes >= JUDGED_FROM)
}
