//! How much more memory programs can take before the kernel has to end one: the sum that
//! the guard acts by ([`zmeld_linux::headroom`]).

use serde::Serialize;
use zmeld_linux::headroom::Sum;

use super::observation::Observation;
use super::tier::TierState;

/// Memory for programs, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Headroom {
    /// All of it.
    pub bytes: u64,
    /// Without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// By compressing pages in RAM, at the ratio of those that are there.
    pub compressed_bytes: u64,
    /// By swap on drives, without what zswap's pool takes.
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
            if !tier.add_room(&mut sum) {
                unknown.push(tier.name.clone());
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
