//! RAM as a monitor shows it: what programs use, what compression takes, and what is left.

use serde::Serialize;

use super::observation::Observation;

/// Use of RAM, in bytes. The next three add up to `total_bytes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Accounting {
    /// RAM that the kernel manages (`MemTotal`).
    pub total_bytes: u64,
    /// RAM available without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// RAM of compressed pages: the pools of zram, zmeld and zswap (without root from Linux 5.19),
    /// and the devices' tables. Monitors that know no compression show it as used by programs.
    pub compression_bytes: u64,
    /// The rest: programs, and what the kernel cannot give back.
    pub programs_bytes: u64,
    /// The pages that compression holds in RAM, as they are uncompressed. `programs_bytes`
    /// and these are what programs use in all, but for what is on drives; less
    /// `compression_bytes`, these are the saving.
    pub compressed_pages_bytes: u64,
}

impl Observation {
    /// Use of RAM. Devices count whether they are swap or not.
    pub fn accounting(&self) -> Accounting {
        let zswap = self.zswap.as_ref();
        let zswap = zswap.map_or((0, 0), |it| (it.memory_used_bytes, it.stored_bytes));
        let devices = self.devices.iter().map(|device| {
            let pool = device.held.unwrap_or_default().memory_used_bytes;
            let table = device.metadata_bytes(self.page_size);
            (pool.saturating_add(table), device.in_memory_bytes())
        });
        let all = devices.chain([zswap]);
        let (takes, pages) = all.fold((0u64, 0u64), |sum, it| {
            (sum.0.saturating_add(it.0), sum.1.saturating_add(it.1))
        });
        let total_bytes = self.memory.total_bytes;
        let available_bytes = self.memory.available_bytes.min(total_bytes);
        let used = total_bytes - available_bytes;
        // Counters are read one after the other: a pool may have grown meanwhile.
        let compression_bytes = takes.min(used);
        Accounting {
            total_bytes,
            available_bytes,
            compression_bytes,
            programs_bytes: used - compression_bytes,
            compressed_pages_bytes: pages,
        }
    }
}
