//! The kernel's counters before and after a run, and what the machine is.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use zmeld_linux::{cpuinfo, process, Host};
use zmeld_swap::observe::{Io, Memory, MmStat};

use crate::limit::{keyed, stalls};

/// The machine that an experiment ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HostFacts {
    /// Its processor.
    pub processor: String,
    /// How many of them.
    pub processors: usize,
    /// RAM, bytes.
    pub ram_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// The kernel's command line, which sets zswap among others.
    pub boot_parameters: String,
    /// Version of control groups that has the memory controller.
    pub cgroup_version: u8,
    /// Tunables by name, as they were during the experiment.
    pub tunables: BTreeMap<String, String>,
}

impl HostFacts {
    pub fn here(cgroup_version: u8) -> HostFacts {
        let first = |path: &str| Host::here().read(path).unwrap_or_default();
        let info = first("/proc/cpuinfo");
        let processor = cpuinfo::model_name(&info).unwrap_or("unknown");
        let tunables = [
            "/proc/sys/vm/swappiness",
            "/proc/sys/vm/page-cluster",
            "/proc/sys/vm/watermark_scale_factor",
            "/proc/sys/vm/overcommit_memory",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/module/zswap/parameters/enabled",
        ];
        HostFacts {
            processor: processor.to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: memory().total_bytes,
            kernel: first("/proc/sys/kernel/osrelease"),
            boot_parameters: first("/proc/cmdline"),
            cgroup_version,
            tunables: tunables
                .iter()
                .filter(|path| Path::new(path).exists())
                .map(|path| {
                    let name = path.rsplit('/').next().unwrap_or(path);
                    (name.to_owned(), first(path))
                })
                .collect(),
        }
    }
}

/// `/proc/meminfo` now.
pub fn memory() -> Memory {
    Memory::parse(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

/// Counters by name: `vm_*` are those of `/proc/vmstat`, `stall_*_s` pressure, `kswapd_cpu_s` the reclaim daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Counters(pub BTreeMap<String, f64>);

const VMSTAT: &str = "\
    pswpin pswpout swpin_zero swpout_zero pgfault pgmajfault pgscan_kswapd \
    pgscan_direct pgscan_anon pgscan_file pgsteal_kswapd pgsteal_direct \
    pgsteal_anon pgsteal_file workingset_refault_anon workingset_refault_file \
    workingset_activate_anon allocstall_normal allocstall_movable compact_stall \
    oom_kill zswpin zswpout zswpwb thp_swpout thp_swpout_fallback pgpgin pgpgout";

impl Counters {
    /// Reads them now. `kswapd` are the reclaim daemons, from [`reclaim_daemons`].
    pub fn read(kswapd: &[u32]) -> Counters {
        let mut all = BTreeMap::new();
        let vmstat = keyed(&fs::read_to_string("/proc/vmstat").unwrap_or_default());
        for name in VMSTAT.split(' ') {
            all.extend(vmstat.get(name).map(|&value| (format!("vm_{name}"), value)));
        }
        all.extend(stalls(|what| Path::new("/proc/pressure").join(what)));
        let cpu = kswapd
            .iter()
            .filter_map(|pid| processor_seconds(*pid))
            .sum();
        all.insert("kswapd_cpu_s".to_owned(), cpu);
        Counters(all)
    }

    /// Increase since then.
    pub fn since(&self, before: &Counters) -> Counters {
        let gone = |name: &String| before.0.get(name).copied().unwrap_or(0.0);
        Counters(
            self.0
                .iter()
                .map(|(name, value)| (name.clone(), value - gone(name)))
                .collect(),
        )
    }

    /// One of them; 0 where the kernel has none.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }
}

/// The processes named `kswapd0` and so on.
pub fn reclaim_daemons() -> Vec<u32> {
    let host = Host::here();
    let mut pids = host.processes().unwrap_or_default();
    let name = |pid: &u32| host.read(format!("/proc/{pid}/comm"));
    pids.retain(|pid| name(pid).is_ok_and(|name| name.starts_with("kswapd")));
    pids
}

/// User and system time.
fn processor_seconds(pid: u32) -> Option<f64> {
    process::processor_seconds(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Contents and failures of a compressed device: `mm_stat` and `io_stat`, by name; empty for
/// another device.
pub fn device(name: &str) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut note = |name: &str, value: u64| all.insert(name.to_owned(), value as f64);
    if let Some(held) = held(name) {
        note("original_bytes", held.stored_bytes);
        note("compressed_bytes", held.compressed_bytes);
        note("memory_used_bytes", held.memory_used_bytes);
        note("memory_limit_bytes", held.limit_bytes);
        note("memory_used_max_bytes", held.memory_used_max_bytes);
        note("same_pages", held.same_filled_pages);
        note("pages_compacted", held.compacted_pages);
        note("huge_pages", held.incompressible_pages);
        note("huge_pages_since", held.incompressible_since_pages);
    }
    if let Some(io) = Io::parse(&attribute(name, "io_stat")) {
        note("failed_reads", io.failed_reads);
        note("failed_writes", io.failed_writes);
        note("notify_free", io.freed_pages);
    }
    all
}

/// Contents of a compressed device; none for another device.
pub fn held(name: &str) -> Option<MmStat> {
    MmStat::parse(&attribute(name, "mm_stat"))
}

/// Requests to a block device since it was made, which for a loop device is before the run.
pub fn requests(name: &str) -> Counters {
    // Documentation/block/stat.rst: requests, merges, sectors, milliseconds.
    const NAMES: &str =
        "reads read_merges read_sectors read_ms writes write_merges write_sectors write_ms";
    let text = attribute(name, "stat");
    let values = text.split_whitespace().filter_map(|word| word.parse().ok());
    Counters(NAMES.split(' ').map(str::to_owned).zip(values).collect())
}

fn attribute(device: &str, name: &str) -> String {
    fs::read_to_string(format!("/sys/block/{device}/{name}")).unwrap_or_default()
}
