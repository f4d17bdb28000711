//! The machine as a plan needs to know it. Reading it changes nothing.

use std::path::Path;

use serde::Serialize;
use zmeld_linux::compressed::{choices, chosen};
use zmeld_linux::crypto::{takes_unlisted, ZWORD};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::swaps::{self, SwapArea};
use zmeld_linux::{hibernation, Host, HostError, KernelVersion};
use zmeld_report::units::bytes;

use crate::advice::active::{ActiveSwap, ZswapFacts};
use crate::advice::module::ModulePresence;
use crate::tier::RamDriver;

/// RAM, swap and what the kernel offers.
#[derive(Debug, Clone, Default, Serialize, schemars::JsonSchema)]
pub struct Machine {
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// RAM that the kernel manages (`MemTotal`), in bytes.
    pub ram_bytes: u64,
    /// Memory available without swapping (`MemAvailable`), in bytes.
    pub available_bytes: u64,
    /// The active swap areas.
    pub swaps: Vec<SwapArea>,
    /// Those of them that are compressed devices in RAM, with what they were set to.
    pub compressed: Vec<ActiveSwap>,
    /// The kernel's zram.
    pub zram: Feature,
    /// The module zmeld.
    pub zmeld: Feature,
    /// The kernel's zswap; none where it was built without.
    pub zswap: Option<ZswapFacts>,
    /// Evidence that the machine hibernates; none where nothing says so.
    pub hibernation: Option<String>,
    /// The swap partition that it hibernates to, where nothing is swapped to it.
    #[serde(skip)]
    pub resume_from: Option<String>,
    /// Its size in bytes; none where nobody can tell.
    #[serde(skip)]
    pub resume_bytes: Option<u64>,
    /// How large an image the kernel aims at; none where it does not say.
    #[serde(skip)]
    pub image_bytes: Option<u64>,
    /// Whether programs get folios below a huge page that can be read back from swap whole.
    #[serde(skip)]
    pub has_large_folios: bool,
}

/// A driver of compressed devices.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Feature {
    /// Whether it can make devices now; if not, its module has to be loaded.
    pub ready: bool,
    /// Its presence.
    pub presence: ModulePresence,
    /// The codecs that it offers, as far as a device shows them; empty where
    /// there is no device to ask.
    pub codecs: Vec<String>,
    /// Whether it is zram and takes zword.
    #[serde(skip)]
    pub takes_zword: bool,
    /// The attributes of such a device; empty where there is none to look at.
    #[serde(skip)]
    pub attributes: Vec<String>,
}

impl Machine {
    pub fn read(host: &Host) -> Result<Machine, HostError> {
        let memory = memory(host)?;
        let kernel = host
            .read_optional("/proc/sys/kernel/osrelease")?
            .unwrap_or_default();
        // An unreadable list leaves open which modules there are.
        let dep = host.read_optional(format!("/lib/modules/{kernel}/modules.dep"));
        let dep = dep.ok().flatten();
        let swaps = host.swaps()?;
        let resume_from = hibernation::idle(host)?;
        let zswap = ZswapFacts::read(host, &kernel)?;
        let in_ram = swaps.iter().filter(|swap| swap.is_in_ram());
        let compressed = in_ram.map(|swap| ActiveSwap::read(host, swap));
        let compressed = compressed.collect::<Result<_, _>>()?;
        Ok(Machine {
            resume_bytes: resume_from
                .as_ref()
                .and_then(|path| host.device_bytes(Path::new(path))),
            image_bytes: host.number("/sys/power/image_size")?,
            has_large_folios: has_large_folios(host)?,
            kernel,
            ram_bytes: memory.total_bytes,
            available_bytes: memory.available_bytes,
            compressed,
            swaps,
            zram: Feature::read(host, RamDriver::Zram, dep.as_deref())?,
            zmeld: Feature::read(host, RamDriver::Zmeld, dep.as_deref())?,
            zswap,
            hibernation: hibernation::read(host)?.map(|resume| resume.to_string()),
            resume_from,
        })
    }

    /// The state of a driver.
    pub fn feature(&self, driver: RamDriver) -> &Feature {
        match driver {
            RamDriver::Zmeld => &self.zmeld,
            RamDriver::Zram => &self.zram,
        }
    }

    /// Whether a driver has the codec. None where no device shows which it has; of
    /// zword, which no kernel's own zram has, it is known even so.
    pub fn offers(&self, driver: RamDriver, codec: &str) -> Option<bool> {
        let feature = self.feature(driver);
        match &feature.codecs[..] {
            [] => (driver == RamDriver::Zram && codec == ZWORD).then_some(feature.takes_zword),
            there => Some(there.iter().any(|it| it == codec)),
        }
    }

    /// Whether the kernel is at least that one; an unreadable release is a new one.
    pub fn kernel_from(&self, major: u32, minor: u32) -> bool {
        KernelVersion::parse(&self.kernel).is_none_or(|it| it >= KernelVersion::new(major, minor))
    }
}

const FOLIOS: &str = "/sys/kernel/mm/transparent_hugepage";

/// A kernel that can read them back counts them (`swpin`); a huge page comes back in pages.
fn has_large_folios(host: &Host) -> Result<bool, HostError> {
    let huge = host.number(format!("{FOLIOS}/hpage_pmd_size"))?;
    let huge = format!("hugepages-{}kB", huge.unwrap_or(0) >> 10);
    let mut sizes = host.list(FOLIOS)?;
    sizes.retain(|size| *size != huge && host.exists(format!("{FOLIOS}/{size}/stats/swpin")));
    let enabled = |folder: &str| -> Result<String, HostError> {
        let text = host.read_optional(format!("{folder}/enabled"))?;
        Ok(text
            .as_deref()
            .and_then(chosen)
            .unwrap_or("never")
            .to_owned())
    };
    for size in sizes {
        let given = match enabled(&format!("{FOLIOS}/{size}"))? {
            own if own == "inherit" => enabled(FOLIOS)?,
            own => own,
        };
        if given != "never" {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `/proc/meminfo`.
pub fn memory(host: &Host) -> Result<Ram, HostError> {
    let path = meminfo::PATH;
    let text = host.read(path)?;
    let memory = Meminfo::new(&text);
    let missing = || {
        HostError::malformed(
            path,
            "has no MemTotal or no MemFree, which every kernel writes",
        )
    };
    Ok(Ram {
        total_bytes: memory.total_bytes().ok_or_else(missing)?,
        available_bytes: memory.available_bytes().ok_or_else(missing)?,
    })
}

/// A sentence where memory is not short: half of RAM is available, and nothing is swapped out.
pub fn not_short(available_bytes: u64, ram_bytes: u64, is_swapped: bool) -> Option<String> {
    (!is_swapped && available_bytes as f64 >= 0.5 * ram_bytes as f64).then(|| {
        format!(
            "Memory is not short here now: {} of {} are available without swapping. Compressed \
             swap gains when that changes.",
            bytes(available_bytes),
            bytes(ram_bytes)
        )
    })
}

/// How much memory there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ram {
    /// Managed by the kernel.
    pub total_bytes: u64,
    /// Available without swapping.
    pub available_bytes: u64,
}

impl Feature {
    fn read(host: &Host, driver: RamDriver, dep: Option<&str>) -> Result<Feature, HostError> {
        let mut codecs = Vec::new();
        let mut attributes = Vec::new();
        let mut device = None;
        for name in host.list("/sys/block")? {
            // A device of zmeld.ko may bear zram's name.
            let is_of = name.starts_with(driver.name())
                || driver == RamDriver::Zmeld && RamDriver::of(host, &name) == driver;
            if !is_of || !swaps::is_compressed(&name) {
                continue;
            }
            if let Some(text) = host.read_optional(format!("/sys/block/{name}/comp_algorithm"))? {
                codecs = choices(&text);
                attributes = host.list(format!("/sys/block/{name}"))?;
                device = Some(name);
                break;
            }
        }
        let takes_zword = driver == RamDriver::Zram
            && takes_unlisted(host, device.as_deref(), ZWORD).unwrap_or(false);
        if takes_zword && device.is_some() {
            codecs.push(ZWORD.to_owned());
        }
        // A tree may lack the control class; a device has its driver all the same.
        let presence = match device {
            Some(_) => ModulePresence::Ready,
            None => ModulePresence::read(host, driver.name(), dep),
        };
        Ok(Feature {
            ready: presence == ModulePresence::Ready,
            presence,
            codecs,
            takes_zword,
            attributes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folios_count_below_a_huge_page_and_where_they_come_back() {
        for (size, enabled, stat, expected) in [
            ("64", "[always] never", "swpin", true),
            ("64", "always [never]", "swpin", false),
            ("64", "[always] never", "swpout", false),
            ("2048", "[always] never", "swpin", false),
            ("64", "[inherit] never", "swpin", false),
        ] {
            let at = format!("{FOLIOS}/hugepages-{size}kB");
            let (_dir, host) = Host::planted(&[
                (&format!("{FOLIOS}/hpage_pmd_size"), "2097152"),
                (&format!("{at}/enabled"), enabled),
                (&format!("{at}/stats/{stat}"), "0"),
            ]);
            assert_eq!(has_large_folios(&host).unwrap(), expected, "{at} {enabled}");
        }
    }

    #[test]
    fn without_a_device_only_of_zword_it_is_known_whether_zram_has_it() {
        let crypto = ("/proc/crypto", "name : zword\ntype : scomp\n");
        let device = ("/sys/block/zram0/comp_algorithm", "[lz4] zstd");
        let new = ("/sys/block/zram0/algorithm_params", "");
        for (release, files, zword, zstd) in [
            ("6.11.0", &[crypto][..], Some(true), None),
            ("6.11.0", &[], Some(false), None),
            ("6.12.0", &[crypto], Some(false), None),
            ("6.11.0", &[crypto, device], Some(true), Some(true)),
            ("6.12.0", &[crypto, device, new], Some(false), Some(true)),
        ] {
            let (_dir, host) = Host::planted(files);
            host.plant("/proc/sys/kernel/osrelease", release);
            let machine = Machine {
                zram: Feature::read(&host, RamDriver::Zram, None).unwrap(),
                ..Machine::default()
            };
            let offers = ["zword", "zstd"].map(|codec| machine.offers(RamDriver::Zram, codec));
            assert_eq!(offers, [zword, zstd], "{release} {files:?}");
            assert_eq!(machine.offers(RamDriver::Zmeld, "zword"), None);
        }
    }

    #[test]
    fn a_kernel_is_from_a_version_on() {
        for (kernel, from_6_19) in [
            ("6.18.12", false),
            ("6.9.0-generic", false),
            ("6.19.0-rc1", true),
            ("7.2.0", true),
            ("unreadable", true),
        ] {
            let machine = Machine {
                kernel: kernel.to_owned(),
                ..Machine::default()
            };
            assert_eq!(machine.kernel_from(6, 19), from_6_19, "{kernel}");
        }
    }
}
