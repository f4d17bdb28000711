//! The machine in front of us, as far as a scan and its advice need to know it.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// RAM, processors, kernel, and the compressed swap that there is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Machine {
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
    pub swaps: Vec<Swap>,
}

/// An active swap device or file.
#[derive(Clone, Debug, Serialize)]
pub struct Swap {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Its priority.
    pub priority: i64,
}

impl Machine {
    /// Looks at the machine. What cannot be read stays empty.
    pub fn here() -> Machine {
        use procfs::Current;
        let memory = procfs::Meminfo::current().ok();
        Machine {
            kernel: read_line("/proc/sys/kernel/osrelease"),
            processor: processor(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: memory.as_ref().map_or(0, |memory| memory.mem_total),
            available_bytes: memory
                .as_ref()
                .and_then(|memory| memory.mem_available)
                .unwrap_or(0),
            zram_codecs: zram_codecs(Path::new("/sys/block")),
            swaps: swaps(),
        }
    }

    /// Whether the kernel's zram has that codec; `None` where there is no zram to ask.
    pub fn offers(&self, codec: &str) -> Option<bool> {
        (!self.zram_codecs.is_empty()).then(|| self.zram_codecs.iter().any(|name| name == codec))
    }
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("model name"))
        .and_then(|rest| rest.split_once(':'))
        .map(|(_, name)| name.trim().to_owned())
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
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

fn swaps() -> Vec<Swap> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [path, _, size, used, priority] = fields[..] else {
                return None;
            };
            Some(Swap {
                path: path.to_owned(),
                size_bytes: size.parse::<u64>().ok()? * 1024,
                used_bytes: used.parse::<u64>().ok()? * 1024,
                priority: priority.parse().ok()?,
            })
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
    fn this_machine_has_ram_and_a_kernel() {
        let machine = Machine::here();
        assert!(machine.ram_bytes > 1 << 20);
        assert!(machine.processors > 0);
        assert!(crate::kernel::Version::parse(&machine.kernel).is_some());
    }
}
