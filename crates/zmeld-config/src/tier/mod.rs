//! The tiers: where swapped pages live.
//!
//! A kind of tier is a module with its settings, which are a table of keys; [`Kind`] asks them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::advice::TierKind;
use serde::{Deserialize, Serialize};

use super::check::{in_ram, Check};
use super::keys::Section;
use super::named::{named, Named};
use super::read::{OpenTable, Reader};
use super::section::{kernel_values, section, KernelValue, KeyValue, Keys, Row, Setting, Table};
use super::size::text_form;
use super::*;

mod disk;
mod ram;
mod zswap;

pub use disk::{DiskSwap, Source};
pub use ram::{CheckWrites, MeldMode, RamDevice, RamDriver, Writeback};
pub use zswap::{compressor, Zpool, Zswap};

/// One place for swapped pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tier {
    /// Its name: in messages, in the journal, in `/dev/mapper/zmeld-NAME`.
    pub name: TierName,
    /// A missing or failing device does not stop the others, nor a boot.
    pub optional: bool,
    /// Its kind.
    pub kind: Kind,
}

/// A tier's backing storage.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The table in the tier's that says it, with a dot: "" or "writeback.".
    pub table: &'static str,
    /// The block device; none where it is a file.
    pub device: Option<&'a Location>,
    /// The path of either.
    pub path: PathBuf,
    /// How what is written is kept from whoever reads the drive.
    pub encryption: &'a Encryption,
    /// How long a boot waits for the drive.
    pub timeout: Span,
    /// Whether the tier can do without it.
    pub is_dispensable: bool,
}

/// A tier's name: a letter or digit, then letters, digits, `-` or `_`, at most 32.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct TierName(String);

impl TierName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TierName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !fits {
            return Err(format!(
                "{text:?} cannot name a tier; use up to 32 letters, digits, \"-\" and \"_\", the \
                 first a letter or digit"
            ));
        }
        Ok(TierName(text.to_owned()))
    }
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_form!(TierName);

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
            TierKind::Zram => Kind::Ram(RamDevice::default()),
            TierKind::Zmeld => Kind::Ram(RamDevice {
                driver: RamDriver::Zmeld,
                meld: MeldMode::Manual,
                ..RamDevice::default()
            }),
            TierKind::Zswap => Kind::Zswap(Zswap::default()),
            TierKind::Disk => Kind::Disk(DiskSwap::default()),
        }
    }

    pub(super) fn take(&mut self, reader: &mut Reader, open: &OpenTable<'_>) {
        match self {
            Kind::Ram(device) => device.take(reader, open),
            Kind::Zswap(zswap) => zswap.take(reader, open),
            Kind::Disk(disk) => disk.take(reader, open),
        }
    }

    pub(super) fn lines(&self) -> Vec<KeyValue> {
        match self {
            Kind::Ram(device) => device.lines(),
            Kind::Zswap(zswap) => zswap.lines(),
            Kind::Disk(disk) => disk.lines(),
        }
    }

    /// Sections of its keys.
    pub(super) fn sections(&self) -> &'static [Section] {
        match self.kind() {
            TierKind::Zram => &[Section::Tier, Section::Swapped, Section::Ram],
            TierKind::Zmeld => &[
                Section::Tier,
                Section::Swapped,
                Section::Ram,
                Section::Zmeld,
            ],
            TierKind::Zswap => &[Section::Tier, Section::Zswap],
            TierKind::Disk => &[Section::Tier, Section::Swapped, Section::Disk],
        }
    }

    /// Finds what is wrong with it, and with others beside it. `key` is the tier's.
    pub(super) fn check(&self, key: &str, tier: &Tier, config: &Config, check: &mut Check<'_>) {
        match self {
            Kind::Ram(device) => device.check(key, check),
            Kind::Zswap(_) => zswap::check(key, tier, config, check),
            Kind::Disk(disk) => disk.check(key, tier, check),
        }
    }

    /// Its kind in the file.
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

    /// How it is swapped to; none where it stands in front of swap areas.
    pub fn swap(&self) -> Option<&Swap> {
        match self {
            Kind::Ram(device) => Some(&device.swap),
            Kind::Zswap(_) => None,
            Kind::Disk(disk) => Some(&disk.swap),
        }
    }

    /// The same, to be changed.
    pub fn swap_mut(&mut self) -> Option<&mut Swap> {
        match self {
            Kind::Ram(device) => Some(&mut device.swap),
            Kind::Zswap(_) => None,
            Kind::Disk(disk) => Some(&mut disk.swap),
        }
    }

    /// Codec of its pages; none where that is the kernel's choice, or they are not compressed.
    pub fn codec(&self) -> Option<Codec> {
        match self {
            Kind::Ram(device) => device.codec.first().cloned(),
            Kind::Zswap(zswap) => zswap.compressor.as_deref().map(Codec::new),
            Kind::Disk(_) => None,
        }
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

    /// The device in RAM, where it is one.
    pub fn ram(&self) -> Option<&RamDevice> {
        match self {
            Kind::Ram(device) => Some(device),
            _ => None,
        }
    }

    /// The same, to be changed.
    pub fn ram_mut(&mut self) -> Option<&mut RamDevice> {
        match self {
            Kind::Ram(device) => Some(device),
            _ => None,
        }
    }
}

/// Names of `kind`.
impl Named for TierKind {
    const ALL: &'static [(&'static str, Self)] = &TierKind::NAMES;
}

section! {
    /// How an area is swapped to.
    #[derive(Copy, Eq)]
    pub struct Swap in Swapped {
        /// 0 to 32767, the higher first; -1 lets the kernel choose. Without, the
        /// order of the tiers decides: see [`super::Config::areas`].
        priority: Option<i16>, range(-1, 32_767), without("by the order of the tiers");
        /// Which freed pages the device is told of.
        discard: Discard;
    }
}

/// It has the keys of each tier that is swapped to.
impl Setting for Swap {
    fn read(_: &Row<Self>, reader: &mut Reader, open: &OpenTable<'_>) -> Option<Self> {
        let mut swap = Swap::default();
        swap.take(reader, open);
        Some(swap)
    }

    fn lines(&self, _: &Row<Self>) -> Vec<KeyValue> {
        self.rows()
    }
}

named! {
    /// Which freed pages a swap device is told of (`swapon --discard`).
    #[derive(Default)]
    pub enum Discard {
        /// None. RAM devices hear of freed pages on their own.
        #[default]
        None = "none",
        /// The whole area, once, when it is switched on.
        Once = "once",
        /// Clusters of pages as they are freed.
        Pages = "pages",
        /// Both.
        Both = "both",
    }
}

/// The key `optional` of tiers that are swapped to.
pub(super) const OPTIONAL: Row<bool> = Row::new(Section::Swapped, "optional");

/// How long a boot waits for a drive that is not given another time.
pub const TIMEOUT: Span = Span::seconds(30);
