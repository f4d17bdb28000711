//! The machine as a plan needs to know it. Reading it changes nothing.

use procfs::FromRead;
use serde::Serialize;
use zmeld_scan::kernel::Version;

use crate::error::Error;
use crate::kernel::{ActiveSwap, Host};
use crate::steps::Driver;

/// Where zswap's parameters are.
pub const ZSWAP: &str = "/sys/module/zswap/parameters";

/// RAM, swap and what the kernel offers.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// RAM that the kernel manages (`MemTotal`), in bytes.
    pub ram_bytes: u64,
    /// What could be had without swapping (`MemAvailable`), in bytes.
    pub available_bytes: u64,
    /// The active swap areas.
    pub swaps: Vec<Area>,
    /// The kernel's zram.
    pub zram: Feature,
    /// The module zmeld.
    pub zmeld: Feature,
    /// The kernel's zswap; none where it was built without.
    pub zswap: Option<Zswap>,
    /// What says that the machine hibernates; none where nothing does.
    pub hibernation: Option<String>,
}

/// An active swap area, in JSON's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Area {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Its priority.
    pub priority: i32,
}

impl From<&ActiveSwap> for Area {
    fn from(swap: &ActiveSwap) -> Area {
        Area {
            path: swap.path.display().to_string(),
            size_bytes: swap.size_bytes,
            used_bytes: swap.used_bytes,
            priority: swap.priority,
        }
    }
}

/// A driver of compressed devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Feature {
    /// Whether it can make devices now; if not, its module has to be loaded.
    pub ready: bool,
    /// The codecs that it offers, as far as a device shows them; empty where
    /// there is no device to ask.
    pub codecs: Vec<String>,
}

/// zswap's parameters. What a kernel does not have is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Zswap {
    /// Whether it takes pages.
    pub enabled: bool,
    /// Its codec.
    pub compressor: String,
    /// Its pool, where there is a choice.
    pub zpool: Option<String>,
}

impl Machine {
    /// Looks at a machine.
    ///
    /// # Errors
    /// When the memory or the swap areas cannot be read.
    pub fn read(host: &Host) -> Result<Machine, Error> {
        let memory = memory(host)?;
        Ok(Machine {
            kernel: host
                .read_optional("/proc/sys/kernel/osrelease")?
                .unwrap_or_default(),
            ram_bytes: memory.mem_total,
            available_bytes: memory.mem_available.unwrap_or(memory.mem_free),
            swaps: host.swaps()?.iter().map(Area::from).collect(),
            zram: Feature::read(host, Driver::Zram)?,
            zmeld: Feature::read(host, Driver::Zmeld)?,
            zswap: zswap(host)?,
            hibernation: hibernation(host)?,
        })
    }

    /// The driver's state.
    pub fn feature(&self, driver: Driver) -> &Feature {
        match driver {
            Driver::Zram => &self.zram,
            Driver::Zmeld => &self.zmeld,
        }
    }

    /// Whether the kernel is at least that one; an unreadable release is a new one.
    pub fn kernel_from(&self, major: u32, minor: u32) -> bool {
        Version::parse(&self.kernel).is_none_or(|it| it >= Version { major, minor })
    }
}

/// `/proc/meminfo`.
///
/// # Errors
/// When it is not what the kernel writes.
pub fn memory(host: &Host) -> Result<procfs::Meminfo, Error> {
    let path = "/proc/meminfo";
    let text = host.read(path)?;
    let memory = procfs::Meminfo::from_read(text.as_bytes())
        // The library's own words are lines of its sources.
        .map_err(|_| Error::malformed(path, "cannot be understood: no kernel writes it so"))?;
    if memory.mem_total == 0 {
        return Err(Error::malformed(path, "says that there is no memory"));
    }
    Ok(memory)
}

impl Feature {
    fn read(host: &Host, driver: Driver) -> Result<Feature, Error> {
        let mut codecs = Vec::new();
        for number in driver.numbers(host)? {
            let path = format!("/sys/block/{}{number}/comp_algorithm", driver.name());
            if let Some(text) = host.read_optional(path)? {
                codecs = text
                    .split_whitespace()
                    .map(|word| word.trim_matches(['[', ']']).to_owned())
                    .collect();
                break;
            }
        }
        Ok(Feature {
            ready: host.exists(driver.control().join("hot_add")),
            codecs,
        })
    }
}

fn zswap(host: &Host) -> Result<Option<Zswap>, Error> {
    let Some(enabled) = host.read_optional(format!("{ZSWAP}/enabled"))? else {
        return Ok(None);
    };
    Ok(Some(Zswap {
        enabled: enabled == "Y" || enabled == "1",
        compressor: host
            .read_optional(format!("{ZSWAP}/compressor"))?
            .unwrap_or_default(),
        zpool: host.read_optional(format!("{ZSWAP}/zpool"))?,
    }))
}

/// A machine that hibernates says where to resume from: on the kernel's command
/// line, or by what an initramfs wrote into `/sys/power/resume`.
fn hibernation(host: &Host) -> Result<Option<String>, Error> {
    let line = host.read_optional("/proc/cmdline")?.unwrap_or_default();
    let mut words = line.split_whitespace();
    if words
        .clone()
        .any(|word| word == "noresume" || word == "nohibernate")
    {
        return Ok(None);
    }
    if let Some(word) = words.find(|word| word.starts_with("resume=") && word.len() > 7) {
        return Ok(Some(format!("{word} on the kernel's command line")));
    }
    let device = host.read_optional("/sys/power/resume")?;
    Ok(device
        .filter(|device| device != "0:0" && !device.is_empty())
        .map(|device| format!("{device} in /sys/power/resume")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        for (path, text) in files {
            let path = host.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, host)
    }

    const MEMINFO: &str =
        "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 500 kB\nBuffers: 0 kB\n\
        Cached: 0 kB\nSwapCached: 0 kB\nActive: 0 kB\nInactive: 0 kB\nSwapTotal: 0 kB\n\
        SwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 0 kB\nSlab: 0 kB\n\
        Committed_AS: 0 kB\nVmallocTotal: 0 kB\nVmallocUsed: 0 kB\nVmallocChunk: 0 kB\n";

    #[test]
    fn a_machine_is_read() {
        let (_dir, host) = tree(&[
            ("/proc/meminfo", MEMINFO),
            ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            ("/proc/cmdline", "quiet resume=UUID=12 ro\n"),
            ("/sys/class/zram-control/hot_add", ""),
            ("/sys/block/zram0/comp_algorithm", "lzo [lzo-rle] lz4\n"),
            ("/sys/module/zswap/parameters/enabled", "Y\n"),
            ("/sys/module/zswap/parameters/compressor", "lzo\n"),
            ("/sys/module/zswap/parameters/zpool", "zbud\n"),
        ]);
        let machine = Machine::read(&host).unwrap();
        assert_eq!(machine.ram_bytes, 1_024_000);
        assert_eq!(machine.available_bytes, 512_000);
        assert!(machine.zram.ready && !machine.zmeld.ready);
        assert_eq!(machine.zram.codecs, ["lzo", "lzo-rle", "lz4"]);
        let zswap = machine.zswap.clone().unwrap();
        assert!(zswap.enabled);
        assert_eq!(zswap.zpool.as_deref(), Some("zbud"));
        assert!(machine.hibernation.clone().unwrap().contains("UUID=12"));
        assert!(machine.kernel_from(5, 8) && !machine.kernel_from(6, 2));
    }

    #[test]
    fn hostile_memory_is_refused_in_one_line() {
        for text in [
            "",
            "MemTotal: kB\n",
            "MemTotal: 0 kB\n",
            "\u{1b}[2J\0\0",
            "MemTotal: 99999999999999999999999 kB\n",
        ] {
            let (_dir, host) = tree(&[("/proc/meminfo", text)]);
            let err = Machine::read(&host).unwrap_err().to_string();
            assert!(err.starts_with("/proc/meminfo "), "{err}");
            assert!(!err.contains('\n'), "{err}");
        }
        let (_dir, host) = tree(&[]);
        let err = Machine::read(&host).unwrap_err().to_string();
        assert!(err.starts_with("cannot read /proc/meminfo"), "{err}");
    }

    #[test]
    fn a_machine_that_does_not_resume_does_not_hibernate() {
        for (line, power) in [
            ("quiet", "0:0"),
            ("resume=/dev/sda2 noresume", "8:2"),
            ("resume=", ""),
        ] {
            let (_dir, host) = tree(&[
                ("/proc/meminfo", MEMINFO),
                ("/proc/cmdline", line),
                ("/sys/power/resume", power),
            ]);
            assert_eq!(Machine::read(&host).unwrap().hibernation, None, "{line}");
        }
    }
}
