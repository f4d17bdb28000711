//! The tiers: where swapped pages live.
//!
//! A kind of tier is a module with its keys and their check; [`Kind`] asks them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::check::Check;
use crate::key::Named;

mod disk;
mod ram;
mod swap;
mod zswap;

pub use disk::{DiskSwap, Source};
pub use ram::{CheckWrites, MeldMode, RamDevice, RamDriver, Size, SlotTable, Writeback};
pub use swap::{Discard, Place, Swap, TierName};
pub use zswap::{compressor, Zpool, Zswap};

/// One place for swapped pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tier {
    /// Its name: in messages, in the journal, in `/dev/mapper/zmeld-NAME`.
    pub name: TierName,
    /// How it is swapped to; of zswap, which stands in front of swap areas, nothing is said.
    pub swap: Swap,
    /// Its kind.
    pub kind: Kind,
}

impl Tier {
    /// One that is swapped to as any is.
    pub fn new(name: TierName, kind: Kind) -> Tier {
        let swap = Swap::default();
        Tier { name, swap, kind }
    }
}

/// Kind of a tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A compressed block device in RAM.
    Ram(RamDevice),
    /// The kernel's compressed cache in front of disk swap.
    Zswap(Zswap),
    /// A partition, a file or a logical volume.
    Disk(DiskSwap),
}

impl Kind {
    /// One of which nothing else is said.
    pub(super) fn bare(kind: TierKind) -> Kind {
        match kind {
            TierKind::Zram | TierKind::Zmeld => Kind::Ram(RamDevice::default()),
            TierKind::Zswap => Kind::Zswap(Zswap::default()),
            TierKind::Disk => Kind::Disk(DiskSwap::default()),
        }
    }

    /// Finds what is wrong with it, and with others beside it. `key` is the tier's.
    pub(super) fn check(&self, key: &str, tier: &Tier, all: &[Tier], check: &mut Check<'_>) {
        match self {
            Kind::Ram(device) => device.check(key, check),
            Kind::Zswap(_) => {
                let first = all.iter().find(|it| matches!(it.kind, Kind::Zswap(_)));
                let is_second = first.is_some_and(|first| first.name != tier.name);
                let in_ram = all.iter().find(|it| it.kind.ram().is_some());
                zswap::check(key, is_second, in_ram.map(|it| &it.name), check);
            }
            Kind::Disk(disk) => disk.check(key, &tier.swap, check),
        }
    }

    pub fn kind(&self) -> TierKind {
        match self {
            Kind::Ram(device) => match device.driver {
                RamDriver::Zram => TierKind::Zram,
                RamDriver::Zmeld => TierKind::Zmeld,
            },
            Kind::Zswap(_) => TierKind::Zswap,
            Kind::Disk(_) => TierKind::Disk,
        }
    }

    /// Whether it is swap on a drive or in a file: its pages are not in RAM.
    pub fn is_on_disk(&self) -> bool {
        self.kind().is_on_disk()
    }

    /// Its backing storage, if any.
    pub fn place(&self) -> Option<Place<'_>> {
        match self {
            Kind::Ram(device) => device.place(),
            Kind::Zswap(_) => None,
            Kind::Disk(disk) => Some(disk.place()),
        }
    }

    /// Files and folders that have to be there before it is set up.
    pub fn files(&self) -> Vec<&Path> {
        match self {
            Kind::Ram(device) => device.files(),
            Kind::Zswap(_) => Vec::new(),
            Kind::Disk(disk) => disk.files(),
        }
    }

    pub fn ram(&self) -> Option<&RamDevice> {
        match self {
            Kind::Ram(device) => Some(device),
            _ => None,
        }
    }

    /// [`Kind::ram`], to be changed.
    pub fn ram_mut(&mut self) -> Option<&mut RamDevice> {
        match self {
            Kind::Ram(device) => Some(device),
            _ => None,
        }
    }
}

/// Kinds of tiers, as a configuration names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TierKind {
    /// A zram device.
    Zram,
    /// A zmeld device.
    Zmeld,
    /// zswap in front of the disk swap that there is.
    Zswap,
    /// Swap on a drive or in a file; never advised.
    Disk,
}

impl TierKind {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        Named::name(self)
    }

    /// Its driver, where it is a device in RAM.
    pub fn driver(self) -> Option<RamDriver> {
        match self {
            TierKind::Zram => Some(RamDriver::Zram),
            TierKind::Zmeld => Some(RamDriver::Zmeld),
            TierKind::Zswap | TierKind::Disk => None,
        }
    }

    /// Whether it is a device in RAM.
    pub fn is_in_ram(self) -> bool {
        self.driver().is_some()
    }

    /// Whether it is a cache in front of swap areas.
    pub fn is_in_front(self) -> bool {
        self == TierKind::Zswap
    }

    /// Whether its pages are not in RAM.
    pub fn is_on_disk(self) -> bool {
        self == TierKind::Disk
    }
}

/// Names of `kind`.
impl Named for TierKind {
    const ALL: &'static [(&'static str, Self)] = &[
        ("zram", TierKind::Zram),
        ("zmeld", TierKind::Zmeld),
        ("zswap", TierKind::Zswap),
        ("disk", TierKind::Disk),
    ];
}
