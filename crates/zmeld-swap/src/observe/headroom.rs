//! How much more memory programs can take before the kernel has to end one.
//!
//! Free swap misleads: a compressed device can have room for pages and none in RAM.
//! What counts are the pages that still fit. Beyond what can be had without swapping,
//! each page that a program gains puts another one into swap. On a drive that one
//! takes no RAM. In a compressed device whose pages take 1/r of their size it takes
//! 1/r of it again, so that a device that takes X more bytes of pages gives X (1 - 1/r).
//! X ends where the device does, where its memory limit does (what is left of the
//! limit, times r), and where compressed pages fill all RAM that pages of programs are
//! in (that RAM, times r). r is that of the pages that the device holds now, without
//! those of one value, of which some hundreds say nothing of others; where it holds less
//! than a codec is judged from, r is not known, and the device counts for nothing. On the
//! way to a drive zswap's pool takes RAM, as much as it may.

use serde::Serialize;

use super::{Observation, TierKind, TierState};

/// What programs can take, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
        let mut room = Headroom {
            available_bytes: memory.available_bytes,
            ..Headroom::default()
        };
        let mut pool = 0_u64;
        // RAM that compressed pages can come to fill.
        let mut ram = memory
            .available_bytes
            .saturating_add(memory.anonymous_bytes) as f64;
        for tier in tiers {
            let free = tier
                .used_bytes
                .map(|used| tier.size_bytes.saturating_sub(used));
            match (tier.kind, free) {
                (TierKind::Zram | TierKind::Zmeld, Some(free)) => {
                    let Some(ratio) = judged_ratio(tier) else {
                        room.unknown.push(tier.name.clone());
                        continue;
                    };
                    let pages = free as f64;
                    let pages = pages.min(limit_left(tier) * ratio).min(ram * ratio);
                    let gained = pages * (1.0 - 1.0 / ratio);
                    ram -= pages / ratio;
                    room.compressed_bytes += gained.max(0.0) as u64;
                }
                (TierKind::Disk | TierKind::EncryptedDisk, Some(free)) => {
                    room.disk_bytes = room.disk_bytes.saturating_add(free);
                }
                (TierKind::Zswap, _) => pool = pool.saturating_add(pool_left(tier)),
                _ => {}
            }
        }
        room.disk_bytes = room.disk_bytes.saturating_sub(pool);
        room.bytes = room
            .available_bytes
            .saturating_add(room.compressed_bytes)
            .saturating_add(room.disk_bytes);
        room
    }
}

/// The ratio of pages that were compressed, where there are enough of them.
fn judged_ratio(tier: &TierState) -> Option<f64> {
    let stored = tier.stored_bytes?;
    let elsewhere = [tier.same_filled_bytes, tier.writeback_bytes];
    let stored = elsewhere
        .into_iter()
        .flatten()
        .fold(stored, u64::saturating_sub);
    let used = tier.memory_used_bytes?;
    (stored >= zmeld_advice::codec::JUDGED_FROM && used > 0).then(|| stored as f64 / used as f64)
}

/// RAM that zswap's pool may still take.
fn pool_left(tier: &TierState) -> u64 {
    let used = tier.memory_used_bytes.unwrap_or(0);
    tier.size_bytes.saturating_sub(used)
}

/// RAM that a device may still take.
fn limit_left(tier: &TierState) -> f64 {
    match (tier.limit_bytes, tier.memory_used_bytes) {
        (Some(limit), Some(used)) => limit.saturating_sub(used) as f64,
        _ => f64::INFINITY,
    }
}
