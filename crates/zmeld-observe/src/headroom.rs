//! How much more memory programs can take before the kernel has to end one: the sum that
//! the guard acts by ([`zmeld_linux::headroom`]).

use serde::Serialize;
use zmeld_linux::headroom::{ratio, Sum};

use super::{Observation, ObservedKind, TierState};

/// What programs can take, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Headroom {
    /// All of it.
    pub bytes: u64,
    /// Without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// By compressing pages in RAM, at the ratio of those that are there.
    pub compressed_bytes: u64,
    /// By swap on drives, less what zswap's pool may take on the way there.
    pub disk_bytes: u64,
    /// Compressed devices whose ratio is not known, since too little is in them yet.
    pub unknown: Vec<String>,
}

impl Observation {
    /// How much more programs can take, all in all, with these tiers of it.
    pub fn headroom(&self, tiers: &[TierState]) -> Headroom {
        let memory = &self.memory;
        let mut sum = Sum::new(memory.available_bytes, memory.anonymous_bytes);
        let mut unknown = Vec::new();
        for tier in tiers {
            let used = tier.memory_used_bytes.unwrap_or(0);
            let free = tier
                .used_bytes
                .map(|used| tier.size_bytes.saturating_sub(used));
            match (tier.kind, free) {
                (ObservedKind::Zram | ObservedKind::Zmeld, Some(free)) => match tier.judged_ratio()
                {
                    Some(ratio) => {
                        let left = tier.limit_bytes.map(|limit| limit.saturating_sub(used));
                        sum.compressed(free, ratio, left);
                    }
                    None => unknown.push(tier.name.clone()),
                },
                (ObservedKind::Disk | ObservedKind::EncryptedDisk, Some(free)) => sum.drive(free),
                (ObservedKind::Zswap, _) => sum.pool(tier.size_bytes.saturating_sub(used)),
                _ => {}
            }
        }
        Headroom {
            bytes: sum.bytes(),
            available_bytes: sum.available_bytes(),
            compressed_bytes: sum.compressed_bytes(),
            disk_bytes: sum.disk_bytes(),
            unknown,
        }
    }
}

impl TierState {
    fn judged_ratio(&self) -> Option<f64> {
        let elsewhere = [self.same_filled_bytes, self.writeback_bytes];
        let elsewhere = elsewhere.into_iter().flatten();
        let elsewhere = elsewhere.fold(0, u64::saturating_add);
        let pages = self.stored_bytes?.saturating_sub(elsewhere);
        let is_enough = pages >= zmeld_advice::codec::JUDGED_FROM;
        ratio(pages, self.memory_used_bytes?).filter(|_| is_enough)
    }
}
