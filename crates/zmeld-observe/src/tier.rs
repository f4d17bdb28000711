//! All places where pages can be, as one table.

use serde::Serialize;
use zmeld_config::RamDriver;
use zmeld_linux::headroom::ratio;

use crate::applied::Applied;

use super::{Device, Observation, Swap};

/// What kind of place a tier is.
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
        }
    }
}

/// A row of the table. What a tier cannot know is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TierState {
    /// The device's name, the swap file's path, or `zswap`.
    pub name: String,
    /// The tier of the configuration that `zmeld up` made it for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up_as: Option<String>,
    /// What it is.
    pub kind: ObservedKind,
    /// The codec that new pages are compressed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// How much can be written to it.
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
    /// Pages in RAM over the RAM that they take.
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

impl Observation {
    /// The tiers in the order in which a page being swapped out meets them: zswap,
    /// then swap by falling priority; at last devices that are not swap.
    pub fn tiers(&self) -> Vec<TierState> {
        let mut tiers = Vec::new();
        tiers.extend(self.zswap_tier());
        let mut swaps: Vec<&Swap> = self.swaps.iter().collect();
        swaps.sort_by_key(|swap| std::cmp::Reverse(swap.area.priority));
        tiers.extend(swaps.into_iter().map(|swap| self.swap_tier(swap)));
        let others = self
            .devices
            .iter()
            .filter(|device| device.initialised && self.swap_on(device).is_none());
        tiers.extend(others.map(|device| self.device_tier(device)));
        tiers
    }

    /// The same, with the names that the configuration has for what `zmeld up` set
    /// up.
    pub fn named_tiers(&self, applied: Option<&Applied>) -> Vec<TierState> {
        let mut tiers = self.tiers();
        for tier in &mut tiers {
            let part = applied.and_then(|applied| match tier.kind {
                ObservedKind::Zswap => applied.zswap(),
                _ => {
                    let swap = self
                        .swaps
                        .iter()
                        .find(|swap| swap.area.name() == tier.name)?;
                    applied.tier_on(&swap.area.shown())
                }
            });
            tier.set_up_as = part.map(|part| part.name.clone());
        }
        tiers
    }

    fn zswap_tier(&self) -> Option<TierState> {
        let zswap = self.zswap.as_ref()?;
        // Switched off, it still holds what went in before.
        if !zswap.enabled && zswap.stored_bytes == 0 {
            return None;
        }
        let pages = |name: &str| {
            let pages = zswap.counters.get(name)?;
            Some(pages.saturating_mul(self.page_size))
        };
        let limit = zswap.limit_bytes(&self.memory);
        Some(TierState {
            name: "zswap".to_owned(),
            kind: ObservedKind::Zswap,
            codec: Some(zswap.compressor.clone()),
            size_bytes: limit,
            stored_bytes: Some(zswap.stored_bytes),
            memory_used_bytes: Some(zswap.memory_used_bytes),
            ratio: ratio(zswap.stored_bytes, zswap.memory_used_bytes),
            same_filled_bytes: pages("same_filled_pages"),
            incompressible_bytes: zswap.incompressible_bytes,
            writeback_bytes: self
                .activity
                .zswap_written_back_pages
                .map(|pages| pages.saturating_mul(self.page_size))
                .or_else(|| pages("written_back_pages")),
            limit_bytes: Some(limit),
            ..TierState::default()
        })
    }

    fn swap_tier(&self, swap: &Swap) -> TierState {
        let area = &swap.area;
        if let Some(device) = self.device_of(swap) {
            return TierState {
                kind: match device.driver {
                    RamDriver::Zram => ObservedKind::Zram,
                    RamDriver::Zmeld => ObservedKind::Zmeld,
                },
                used_bytes: Some(area.used_bytes),
                priority: Some(area.priority),
                ..self.device_tier(device)
            };
        }
        TierState {
            name: area.name().into_owned(),
            kind: match swap.stand.is_encrypted() {
                true => ObservedKind::EncryptedDisk,
                false => ObservedKind::Disk,
            },
            size_bytes: area.size_bytes,
            used_bytes: Some(area.used_bytes),
            priority: Some(area.priority),
            ..TierState::default()
        }
    }

    fn device_tier(&self, device: &Device) -> TierState {
        let held = device.held;
        let pages = |pages: u64| pages.saturating_mul(self.page_size);
        TierState {
            name: device.name.clone(),
            codec: Some(device.codec.clone()).filter(|codec| !codec.is_empty()),
            size_bytes: device.size_bytes,
            stored_bytes: held.map(|held| held.stored_bytes),
            compressed_bytes: held.map(|held| held.compressed_bytes),
            memory_used_bytes: held.map(|held| held.memory_used_bytes),
            metadata_bytes: Some(device.metadata_bytes(self.page_size)),
            ratio: held.and_then(|held| ratio(device.in_memory_bytes(), held.memory_used_bytes)),
            same_filled_bytes: held.map(|held| pages(held.same_filled_pages)),
            incompressible_bytes: held.map(|held| pages(held.incompressible_pages)),
            melded_bytes: device
                .melding
                .as_ref()
                .filter(|melding| melding.is_told())
                .map(super::Melding::melded_bytes),
            writeback_bytes: device
                .backing
                .as_ref()
                .and(device.backed.map(|backed| backed.held_bytes)),
            limit_bytes: held.map(|held| held.limit_bytes).filter(|&limit| limit > 0),
            ..TierState::default()
        }
    }
}
