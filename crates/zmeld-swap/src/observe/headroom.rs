//! How much more memory programs can take before the kernel has to end one.
//!
//! Free swap misleads: a compressed device can have room for pages and none in RAM.
//! What counts are the pages that still fit. Beyond what can be had without swapping,
//! each page that a program gains puts another one into swap. On a drive that one
//! takes no RAM. In a compressed device whose pages take 1/r of their size it takes
//! 1/r of it again, so that a device that takes X more bytes of pages gives X (1 - 1/r).
//! X ends where the device does, where its memory limit does (what is left of the
//! limit, times r), and where compressed pages fill all RAM that pages of programs are
//! in (that RAM, times r). r is that of the pages that the device holds now; where it
//! holds none it is not known, and the device counts for nothing.

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
    /// By swap on drives.
    pub disk_bytes: u64,
    /// Compressed devices whose ratio is not known, since nothing is in them yet.
    pub unknown: Vec<String>,
}

impl Observation {
    /// How much more programs can take, all in all.
    pub fn headroom(&self) -> Headroom {
        let memory = &self.memory;
        let mut room = Headroom {
            available_bytes: memory.available_bytes,
            ..Headroom::default()
        };
        // RAM that compressed pages can come to fill.
        let mut ram = memory
            .available_bytes
            .saturating_add(memory.anonymous_bytes) as f64;
        for tier in self.tiers() {
            let free = tier
                .used_bytes
                .map(|used| tier.size_bytes.saturating_sub(used));
            match (tier.kind, free) {
                (TierKind::Zram | TierKind::Zmeld, Some(free)) => {
                    let Some(ratio) = tier.ratio else {
                        room.unknown.push(tier.name.clone());
                        continue;
                    };
                    let pages = free as f64;
                    let pages = pages.min(limit_left(&tier) * ratio).min(ram * ratio);
                    let gained = pages * (1.0 - 1.0 / ratio);
                    ram -= pages / ratio;
                    room.compressed_bytes += gained.max(0.0) as u64;
                }
                // What zswap holds has its place on a drive as well.
                (TierKind::Disk | TierKind::EncryptedDisk, Some(free)) => {
                    room.disk_bytes = room.disk_bytes.saturating_add(free);
                }
                _ => {}
            }
        }
        room.bytes = room
            .available_bytes
            .saturating_add(room.compressed_bytes)
            .saturating_add(room.disk_bytes);
        room
    }
}

/// RAM that a device may still take.
fn limit_left(tier: &TierState) -> f64 {
    match (tier.limit_bytes, tier.memory_used_bytes) {
        (Some(limit), Some(used)) => limit.saturating_sub(used) as f64,
        _ => f64::INFINITY,
    }
}
