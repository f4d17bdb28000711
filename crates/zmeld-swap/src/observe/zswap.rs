//! zswap: the compressed cache in front of the swap devices.

use std::collections::BTreeMap;

use serde::Serialize;
use zmeld_linux::compressed::{pool_max_bytes, ZSWAP};
use zmeld_linux::{counters, Host};

use super::device::ENCODE_ERRORS;
use super::reader::Reader;
use super::system::Memory;

/// zswap's parameters and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Zswap {
    /// Whether it takes pages.
    pub enabled: bool,
    /// Its codec.
    pub compressor: String,
    /// The codec that the kernel's command line names for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressor_at_boot: Option<String>,
    /// Its allocator; absent where the kernel leaves no choice (6.18 and later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Percent of RAM that its pool may take.
    pub max_pool_percent: u64,
    /// Percent of that limit below which it takes pages again once it was full.
    pub accept_threshold_percent: u64,
    /// Whether cold pages are written on to disk under pressure (Linux 6.8 and later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrinker: Option<bool>,
    /// Pages that it holds, uncompressed.
    pub stored_bytes: u64,
    /// Memory that its pool takes.
    pub memory_used_bytes: u64,
    /// Those of them that did not compress; absent where the kernel does not keep such
    /// (6.18) or does not tell this user (7.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incompressible_bytes: Option<u64>,
    /// The counters in debugfs, by name (`/sys/kernel/debug/zswap`), with `encode_errors` of
    /// zword.ko; empty where only root may read them.
    pub counters: BTreeMap<String, u64>,
}

const COUNTERS: &str = "/sys/kernel/debug/zswap";
/// Pages that zword.ko encoded wrongly, for whichever zswap or zram it did.
const OF_ZWORD: &str = "/sys/kernel/debug/zword/encode_errors";
/// Totals of all control groups, readable by anybody.
const OF_GROUPS: &str = "/sys/fs/cgroup/memory.stat";

impl Zswap {
    /// The most that its pool may take, in bytes.
    pub fn limit_bytes(&self, memory: &Memory) -> u64 {
        pool_max_bytes(memory.total_bytes, self.max_pool_percent)
    }

    /// Size of its pool, in bytes, as far as the kernel tells.
    pub fn pool_bytes(host: &Host, memory: &Memory) -> u64 {
        // Before Linux 5.19 only debugfs knows.
        let counter = || host.number(format!("{COUNTERS}/pool_total_size")).ok()?;
        memory.zswap_bytes.or_else(counter).unwrap_or(0)
    }

    /// Reads it; `None` where the kernel has no zswap. `memory` has what it holds.
    pub(super) fn read(reader: &mut Reader, memory: &Memory, page_size: u64) -> Option<Zswap> {
        if !reader.exists(ZSWAP) {
            return None;
        }
        let at = |name: &str| format!("{ZSWAP}/{name}");
        let names = reader.names(COUNTERS).into_iter();
        let paths = names.map(|name| (format!("{COUNTERS}/{name}"), name));
        let of_zword = reader.exists(OF_ZWORD);
        let of_zword = of_zword.then(|| (OF_ZWORD.to_owned(), ENCODE_ERRORS.to_owned()));
        let counters: BTreeMap<String, u64> = paths
            .chain(of_zword)
            .filter_map(|(path, name)| Some((name, reader.number(&path)?)))
            .collect();
        let counter = |name: &str| counters.get(name).copied();
        // Before Linux 5.19 only debugfs knows.
        let stored_bytes = memory
            .zswapped_bytes
            .or_else(|| Some(counter("stored_pages")?.saturating_mul(page_size)));
        let incompressible_bytes = match counter("stored_incompressible_pages") {
            Some(pages) => Some(pages.saturating_mul(page_size)),
            None => reader
                .optional(OF_GROUPS)
                .and_then(|text| counters::value(&text, "zswap_incomp")),
        };
        let line = reader.line("/proc/cmdline").unwrap_or_default();
        let words = line.split_whitespace();
        // The last one counts.
        let at_boot = words
            .filter_map(|word| word.strip_prefix("zswap.compressor="))
            .next_back();
        Some(Zswap {
            compressor_at_boot: at_boot.map(str::to_owned),
            enabled: reader.switch(&at("enabled")).unwrap_or(false),
            compressor: reader.line(&at("compressor")).unwrap_or_default(),
            pool: reader.line(&at("zpool")),
            max_pool_percent: reader.number(&at("max_pool_percent")).unwrap_or(0),
            accept_threshold_percent: reader.number(&at("accept_threshold_percent")).unwrap_or(0),
            shrinker: reader
                .exists(&at("shrinker_enabled"))
                .then(|| reader.switch(&at("shrinker_enabled")).unwrap_or(false)),
            stored_bytes: stored_bytes.unwrap_or(0),
            memory_used_bytes: Zswap::pool_bytes(reader.host(), memory),
            incompressible_bytes,
            counters,
        })
    }
}
