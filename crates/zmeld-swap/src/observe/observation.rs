//! Everything at one instant.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::damon::DamonReclaim;
use super::device::{self, Device, Mounts};
use super::disk::BlockStack;
use super::facts::Facts;
use super::guarded::{self, Guarded};
use super::lately::{self, Lately};
use super::reader::{Reader, Warning};
use super::reclaimed::{self, Reclaimed};
use super::system::{self, Activity, Hibernation, LimitedGroup, Memory, Tunables};
use super::zswap::Zswap;
use zmeld_linux::pressure::Pressure;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::{Host, KernelVersion};

/// Everything at one instant. Sizes are bytes unless a name says pages.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Observation {
    /// The kernel's release.
    pub kernel: String,
    /// Bytes of a page.
    pub page_size: u64,
    /// RAM and swap as a whole.
    pub memory: Memory,
    /// Counters since boot.
    pub activity: Activity,
    /// Pressure; absent where the kernel does not measure it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// Swap areas with what they stand on.
    pub swaps: Vec<Swap>,
    /// zram and zmeld devices, used or not.
    pub devices: Vec<Device>,
    /// zswap; absent where the kernel has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zswap: Option<Zswap>,
    /// Settings of the swap code.
    pub tunables: Tunables,
    /// Whether and where the machine hibernates to.
    pub hibernation: Hibernation,
    /// Control groups that limit memory or swap, or where that was felt.
    pub groups: Vec<LimitedGroup>,
    /// Recent events.
    pub lately: Lately,
    /// Proactive reclaim by `zmeld watch`; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<Reclaimed>,
    /// The note of its guard; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<Guarded>,
    /// Other services that end programs when memory is short.
    pub other_guards: Vec<String>,
    /// By what DAMON reclaims memory ahead of time.
    pub damon_reclaim: Vec<DamonReclaim>,
    /// Problems of reading.
    pub warnings: Vec<Warning>,
    /// Facts for a way out.
    #[serde(skip)]
    pub facts: Facts,
    /// When it was read.
    #[serde(skip)]
    pub at: Instant,
}

/// A swap area and what it stands on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Swap {
    /// Its line in `/proc/swaps`.
    #[serde(flatten)]
    pub area: SwapArea,
    /// Layers below it.
    pub stand: BlockStack,
    /// Of a file, whether somebody but root may read or write it, or it is not root's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_others: bool,
}

impl Observation {
    /// Reads everything below the host's root, pages being `page_size` bytes.
    pub fn read(host: &Host, page_size: u64) -> Observation {
        let at = Instant::now();
        let mut reader = Reader::new(host);
        let memory = system::memory(&mut reader);
        let activity = system::activity(&mut reader);
        let mounts = Mounts::read(&mut reader);
        let devices = device::devices(&mut reader, &mounts);
        let zswap = Zswap::read(&mut reader, &memory, page_size);
        let swaps = system::swaps(&mut reader);
        let swaps = swaps
            .into_iter()
            .map(|area| Swap {
                stand: BlockStack::read(&mut reader, &area, &mounts),
                is_others: area.is_file && is_others(host, &area.path),
                area,
            })
            .collect();
        let groups = system::groups(&mut reader);
        let kills = activity.oom_kills;
        let lately = lately::read(&mut reader, kills, groups.as_deref(), &devices);
        let reclaim = reclaimed::read(&mut reader);
        let guard = guarded::read(&mut reader);
        Observation {
            kernel: system::kernel(&mut reader),
            page_size: page_size.max(1),
            memory,
            activity,
            pressure: system::pressure(&mut reader),
            swaps,
            devices,
            zswap,
            tunables: system::tunables(&mut reader),
            hibernation: system::hibernation(&mut reader),
            groups: groups.unwrap_or_default(),
            lately,
            reclaim,
            guard,
            other_guards: guarded::others(&reader),
            damon_reclaim: DamonReclaim::read(host),
            facts: Facts::read(host),
            warnings: reader.warnings,
            at,
        }
    }

    /// This machine, now.
    pub fn here() -> Observation {
        Observation::read(&Host::here(), rustix::param::page_size() as u64)
    }

    /// The compressed device with that name.
    pub fn device(&self, name: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// The compressed device that a swap area is, if it is one.
    pub fn device_of(&self, swap: &Swap) -> Option<&Device> {
        self.device(swap.area.device()?)
    }

    /// The swap area on a compressed device, if it is one.
    pub fn swap_on(&self, device: &Device) -> Option<&Swap> {
        self.swaps
            .iter()
            .find(|swap| swap.area.device() == Some(&device.name))
    }

    /// Size of all swap areas together.
    pub fn swap_size_bytes(&self) -> u64 {
        let sizes = self.swaps.iter().map(|swap| swap.area.size_bytes);
        sizes
            .fold(0u64, u64::saturating_add)
            .max(self.memory.swap_total_bytes)
    }

    /// Whether an area is being switched off: the kernel's sum has only its used part by then.
    pub fn is_switching_off(&self) -> bool {
        (1..self.swap_size_bytes()).contains(&self.memory.swap_total_bytes)
    }

    /// Whether the swap layer keeps pages of zeros to itself, so that they do not
    /// reach a device: from Linux 6.12 on.
    pub fn swap_keeps_zeros(&self) -> bool {
        KernelVersion::parse(&self.kernel) >= Some(KernelVersion::new(6, 12))
    }
}

/// Whether a file is for others than root. An unreadable one is not.
fn is_others(host: &Host, path: &Path) -> bool {
    let meta = host.tree().metadata(path);
    meta.is_ok_and(|meta| meta.mode() & 0o077 != 0 || meta.uid() != 0)
}
