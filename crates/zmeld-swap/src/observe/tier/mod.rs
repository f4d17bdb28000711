//! All places where pages can be, as one table, and what is recommended of each kind.

use serde::Serialize;
use zmeld_config::advice::codec::JUDGED_FROM;
use zmeld_config::advice::{Recommendation, TierKind};
use zmeld_config::{Comments, Kind, RamDriver};
use zmeld_linux::headroom::{ratio, Sum};

use crate::observe::applied::Applied;
use crate::observe::recommend::UserChoice;
use zmeld_config::advice::machine::Machine;

use super::{Device, Melding, Observation, Swap};

mod disk;
mod ram;
mod zswap;

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

/// The ratio of so many pages; of fewer than tell something, none.
fn judged(pages_bytes: u64, used_bytes: u64) -> Option<f64> {
    ratio(pages_bytes, used_bytes).filter(|_| pages_bytes >= JUDGED_FROM)
}

/// Inputs of a recommended tier.
pub(crate) struct Inputs<'a> {
    pub machine: &'a Machine,
    pub choice: &'a UserChoice,
    pub advised: &'a Recommendation,
    pub comments: Comments,
}

/// The name that a recommended one gets in the configuration.
pub(crate) fn name(kind: TierKind) -> &'static str {
    match kind {
        TierKind::Zram | TierKind::Zmeld => "fast",
        TierKind::Zswap => "cache",
        TierKind::Disk => "disk",
    }
}

/// A recommended one, with comments that say why it is so.
pub(crate) fn recommended(kind: TierKind, inputs: &mut Inputs<'_>) -> Result<Kind, String> {
    match kind {
        TierKind::Zram | TierKind::Zmeld => ram::recommended(inputs),
        TierKind::Zswap => zswap::recommended(inputs),
        TierKind::Disk => disk::recommended(inputs),
    }
}

impl TierState {
    /// Adds the room that it has; false where its ratio is not known yet.
    pub(crate) fn add_room(&self, sum: &mut Sum) -> bool {
        let left = |used: Option<u64>| self.size_bytes.saturating_sub(used.unwrap_or(0));
        match self.kind {
            ObservedKind::Zram | ObservedKind::Zmeld | ObservedKind::Device => {
                return ram::add_room(self, sum);
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
        swaps.sort_by_key(|swap| std::cmp::Reverse(swap.area.priority));
        let area = |swap: &Swap| ram::area(self, swap).unwrap_or_else(|| disk::area(swap));
        let areas = swaps.into_iter().map(area);
        let in_front = zswap::in_front(self).into_iter();
        in_front.chain(areas).chain(ram::unused(self)).collect()
    }

    /// The same, with the names that the configuration has for what `zmeld up` set
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
