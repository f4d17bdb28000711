//! All places where pages can be, as one table, and what is recommended of each kind.

use zmeld_config::advice::TierKind;
use zmeld_config::Kind;
use zmeld_linux::headroom::Sum;

use crate::observe::applied::Applied;
use crate::observe::observation::{Observation, Swap};

mod disk;
mod inputs;
mod ram;
mod state;
mod zswap;

pub use inputs::UserChoice;
pub(crate) use inputs::{name, Inputs};
pub(crate) use state::judged;
pub use state::{ObservedKind, TierState};

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
