//! All places where pages can be, as one table, and what is recommended of each kind.
//!
//! A kind of tier is a module that answers as an `ObservedTier`.

use serde::Serialize;
use zmeld_advice::{Recommendation, TierKind};
use zmeld_config::{Comments, Kind, RamDriver};
use zmeld_linux::headroom::{ratio, Sum};

use crate::applied::Applied;
use crate::machine::Machine;
use crate::recommend::Choice;

use super::{Device, Melding, Observation, Swap};

mod disk;
mod ram;
mod zswap;

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

/// What is asked of a kind of tier.
pub(crate) trait ObservedTier {
    /// What takes pages before swap areas do.
    fn in_front(&self, _: &Observation) -> Option<TierState> {
        None
    }

    /// A swap area, where it is of this kind.
    fn area(&self, _: &Observation, _: &Swap) -> Option<TierState> {
        None
    }

    /// What is set up and not swapped to.
    fn unused(&self, _: &Observation) -> Vec<TierState> {
        Vec::new()
    }

    /// Adds the room that such a tier has; false where its ratio is not known yet.
    fn add_room(&self, tier: &TierState, sum: &mut Sum) -> bool;

    /// The name that a recommended one gets in the configuration.
    fn name(&self) -> &'static str;

    /// A recommended one, with comments that say why it is so.
    fn recommended(&self, inputs: &mut Inputs<'_>) -> Result<Kind, String>;
}

/// What a recommended tier follows from.
pub(crate) struct Inputs<'a> {
    pub machine: &'a Machine,
    pub choice: &'a Choice,
    pub advised: &'a Recommendation,
    pub comments: Comments,
}

/// All kinds. An area is of the first that takes it: a disk takes any.
const KINDS: [&dyn ObservedTier; 3] = [&zswap::InFront, &ram::Ram, &disk::Disk];

/// What answers for a kind.
pub(crate) fn of(kind: TierKind) -> &'static dyn ObservedTier {
    match kind {
        TierKind::Zram | TierKind::Zmeld => &ram::Ram,
        TierKind::Zswap => &zswap::InFront,
        TierKind::Disk => &disk::Disk,
    }
}

impl ObservedKind {
    pub(crate) fn tier_type(self) -> &'static dyn ObservedTier {
        match self {
            ObservedKind::Zram | ObservedKind::Zmeld | ObservedKind::Device => &ram::Ram,
            ObservedKind::Zswap => &zswap::InFront,
            ObservedKind::Disk | ObservedKind::EncryptedDisk | ObservedKind::OnRam => &disk::Disk,
        }
    }
}

impl Observation {
    /// The tiers in the order in which a page being swapped out meets them: zswap,
    /// then swap by falling priority; at last devices that are not swap.
    pub fn tiers(&self) -> Vec<TierState> {
        let mut swaps: Vec<&Swap> = self.swaps.iter().collect();
        swaps.sort_by_key(|swap| std::cmp::Reverse(swap.area.priority));
        let area = |swap: &Swap| KINDS.iter().find_map(|kind| kind.area(self, swap));
        let in_front = KINDS.iter().filter_map(|kind| kind.in_front(self));
        let areas = swaps.into_iter().filter_map(area);
        let unused = KINDS.iter().flat_map(|kind| kind.unused(self));
        in_front.chain(areas).chain(unused).collect()
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
