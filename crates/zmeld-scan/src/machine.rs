//! The machine in front of us, as far as a scan and its advice need to know it.

use std::fs;
use std::path::Path;

use serde::Serialize;
use zmeld_advice::module::{ModulePresence, ModuleSigns};
use zmeld_linux::cpuinfo;
use zmeld_linux::hibernation;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::Host;

/// RAM, processors, kernel, and the compressed swap that there is.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct MachineFacts {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// The first processor's model name.
    pub processor: String,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of RAM (`MemTotal`).
    pub ram_bytes: u64,
    /// Bytes of RAM that could be had without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// Codecs that the kernel's zram offers; empty where there is no zram.
    pub zram_codecs: Vec<String>,
    /// Active swap, as `/proc/swaps` lists it.
    pub swaps: Vec<SwapInUse>,
    /// Whether zswap compresses pages in front of the swap devices; absent where
    /// the kernel has no zswap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zswap_enabled: Option<bool>,
    /// zswap's codec; empty where the kernel has no zswap.
    #[serde(skip)]
    pub zswap_compressor: String,
    /// Percent of RAM that zswap's pool may take.
    #[serde(skip)]
    pub zswap_max_pool_percent: Option<u64>,
    /// What keeps zswap's pages; absent where the kernel has no choice.
    #[serde(skip)]
    pub zswap_zpool: Option<String>,
    /// Whether the kernel's same-page merging (KSM) runs; absent where the kernel
    /// has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ksm_runs: Option<bool>,
    /// The swap partition that it hibernates to, where nothing is swapped to it.
    #[serde(skip)]
    pub resume_from: Option<String>,
    /// Its size in bytes.
    #[serde(skip)]
    pub resume_bytes: Option<u64>,
    /// The kernel's zram.
    pub zram: ModulePresence,
    /// The module zmeld.
    pub zmeld: ModulePresence,
}

/// An active swap device or file.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct SwapInUse {
    /// Its line in `/proc/swaps`.
    #[serde(flatten)]
    pub area: SwapArea,
    /// What a zram device says of itself; absent for other swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zram: Option<ZramInUse>,
}

/// A zram device in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ZramInUse {
    /// Its codec.
    pub codec: String,
    /// Bytes of pages that it holds (`orig_data_size`).
    pub data_bytes: u64,
    /// Memory that it takes for them (`mem_used_total`).
    pub memory_used_bytes: u64,
    /// Memory that it may take; 0: all there is.
    pub memory_limit_bytes: u64,
}

impl MachineFacts {
    /// Looks at the machine. What cannot be read stays empty.
    pub fn here() -> MachineFacts {
        let memory = fs::read_to_string(meminfo::PATH).unwrap_or_default();
        let memory = Meminfo::new(&memory);
        let kernel = read_line("/proc/sys/kernel/osrelease");
        let dep = fs::read_to_string(format!("/lib/modules/{kernel}/modules.dep")).ok();
        let resume_from = idle_resume(&Host::here());
        MachineFacts {
            resume_bytes: resume_from
                .as_ref()
                .and_then(|path| hibernation::size_bytes(&Host::here(), Path::new(path))),
            zram: presence("zram", dep.as_deref()),
            zmeld: presence("zmeld", dep.as_deref()),
            kernel,
            processor: processor(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: memory.total_bytes().unwrap_or(0),
            available_bytes: memory.available_bytes().unwrap_or(0),
            zram_codecs: zram_codecs(Path::new("/sys/block")),
            swaps: swaps(
                &fs::read_to_string("/proc/swaps").unwrap_or_default(),
                Path::new("/sys/block"),
            ),
            zswap_enabled: switch("/sys/module/zswap/parameters/enabled"),
            zswap_compressor: read_line("/sys/module/zswap/parameters/compressor"),
            zswap_max_pool_percent: read_line("/sys/module/zswap/parameters/max_pool_percent")
                .parse()
                .ok(),
            zswap_zpool: Some(read_line("/sys/module/zswap/parameters/zpool"))
                .filter(|name| !name.is_empty()),
            ksm_runs: switch("/sys/kernel/mm/ksm/run"),
            resume_from,
        }
    }

    /// Whether the kernel's zram has that codec; `None` where there is no zram to ask.
    /// No zram has zword: it comes with the module zmeld.
    pub fn offers(&self, codec: &str) -> Option<bool> {
        if codec == "zword" {
            return Some(false);
        }
        (!self.zram_codecs.is_empty()).then(|| self.zram_codecs.iter().any(|name| name == codec))
    }
}

fn idle_resume(host: &Host) -> Option<String> {
    let path = hibernation::partition(host)?;
    let is_on = host.swap_on(&path).ok()?.is_some();
    (!is_on).then(|| path.display().to_string())
}

fn presence(driver: &str, dep: Option<&str>) -> ModulePresence {
    let signs = ModuleSigns {
        ready: Path::new(&format!("/sys/class/{driver}-control/hot_add")).exists(),
        loads_modules: Path::new("/proc/modules").exists(),
        dep,
    };
    ModulePresence::judge(driver, signs)
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    cpuinfo::model_name(&text)
        .unwrap_or(std::env::consts::ARCH)
        .to_owned()
}

/// The names in any zram device's `comp_algorithm`: `[lzo-rle] lzo lz4`.
fn zram_codecs(blocks: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(blocks) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("zram"))
        .find_map(|entry| fs::read_to_string(entry.path().join("comp_algorithm")).ok())
        .map(|text| {
            text.split_whitespace()
                .map(|name| name.trim_matches(['[', ']']).to_owned())
                .collect()
        })
        .unwrap_or_default()
}

/// A file that says `Y`, `1` or otherwise; `None` where it is not there.
fn switch(path: &str) -> Option<bool> {
    let text = fs::read_to_string(path).ok()?;
    Some(matches!(text.trim(), "Y" | "y" | "1"))
}

/// What the device behind a swap path says, if it is a zram device.
fn zram(path: &str, blocks: &Path) -> Option<ZramInUse> {
    let name = path.strip_prefix("/dev/")?;
    if !name.starts_with("zram") {
        return None;
    }
    let read = |attribute| fs::read_to_string(blocks.join(name).join(attribute)).ok();
    let stat: Vec<u64> = read("mm_stat")?
        .split_whitespace()
        .map_while(|column| column.parse().ok())
        .collect();
    let codec = read("comp_algorithm")?
        .split_whitespace()
        .find_map(|name| name.strip_prefix('[')?.strip_suffix(']').map(str::to_owned))?;
    Some(ZramInUse {
        codec,
        data_bytes: *stat.first()?,
        memory_used_bytes: *stat.get(2)?,
        memory_limit_bytes: *stat.get(3)?,
    })
}

fn swaps(list: &str, blocks: &Path) -> Vec<SwapInUse> {
    zmeld_linux::swaps::parse(list)
        .flatten()
        .map(|area| SwapInUse {
            zram: zram(&area.shown(), blocks),
            area,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zram_names_its_codecs() {
        let dir = tempfile::tempdir().unwrap();
        assert!(zram_codecs(dir.path()).is_empty());
        fs::create_dir(dir.path().join("zram3")).unwrap();
        fs::write(
            dir.path().join("zram3/comp_algorithm"),
            "lzo [lzo-rle] lz4 zstd\n",
        )
        .unwrap();
        assert_eq!(zram_codecs(dir.path()), ["lzo", "lzo-rle", "lz4", "zstd"]);
    }

    #[test]
    fn no_zram_offers_zword() {
        let mut machine = MachineFacts::here();
        machine.zram_codecs = Vec::new();
        assert_eq!(machine.offers("lz4"), None);
        assert_eq!(machine.offers("zword"), Some(false));
        machine.zram_codecs = vec!["lz4".to_owned()];
        assert_eq!(machine.offers("lz4"), Some(true));
        assert_eq!(machine.offers("zword"), Some(false));
    }

    #[test]
    fn swap_on_zram_says_what_it_holds() {
        let dir = tempfile::tempdir().unwrap();
        let list = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram3 partition 1024 512 100\n/swapfile file 2048 0 -2\n";
        let device = dir.path().join("zram3");
        fs::create_dir(&device).unwrap();
        assert_eq!(swaps(list, dir.path())[0].zram, None);
        fs::write(device.join("comp_algorithm"), "lzo [lz4] zstd\n").unwrap();
        fs::write(device.join("mm_stat"), " 8192 300 4096 1048576 9 0 0 0 0\n").unwrap();
        let found = swaps(list, dir.path());
        let zram = ZramInUse {
            codec: "lz4".to_owned(),
            data_bytes: 8192,
            memory_used_bytes: 4096,
            memory_limit_bytes: 1 << 20,
        };
        assert_eq!(found[0].zram, Some(zram));
        assert_eq!(
            (found[0].area.size_bytes, found[0].area.used_bytes),
            (1 << 20, 1 << 19)
        );
        assert_eq!((found[1].area.priority, &found[1].zram), (-2, &None));
    }

    #[test]
    fn this_machine_has_ram_and_a_kernel() {
        let machine = MachineFacts::here();
        assert!(machine.ram_bytes > 1 << 20);
        assert!(machine.processors > 0);
        assert!(zmeld_linux::KernelVersion::parse(&machine.kernel).is_some());
    }
}
