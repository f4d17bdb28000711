//! The tiers: where swapped pages live.
//!
//! A kind of tier is a module with its keys and their check; [`Kind`] asks them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use smart_default::SmartDefault;

use super::check::{in_ram, Check};
use super::encryption::cipher_key;
use super::key::{absolute, by, within};
use super::settings::kernel_values;
use super::*;
use zmeld_linux::text_form;

mod disk;
mod ram;
mod zswap;

pub use disk::{DiskSwap, Source};
pub use ram::{CheckWrites, MeldMode, RamDevice, RamDriver, Size, Writeback};
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
    pub encryption: Encryption,
    /// How long a boot waits for the drive.
    pub timeout: Span,
    /// Whether the tier can do without it.
    pub is_dispensable: bool,
}

/// A tier's name: a letter or digit, then letters, digits, `-` or `_`, at most 32.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
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

text_form!(TierName: str::parse);

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

/// How a tier is swapped to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default, deny_unknown_fields)]
pub struct Swap {
    /// Whether it is set up: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// A missing or failing device does not stop the others, nor a boot.
    pub optional: bool,
    /// 0 to 32767, the higher first; -1 lets the kernel choose. Without, the
    /// order of the tiers decides: see [`super::Config::areas`].
    #[serde(deserialize_with = "within::<-1, 32767, _, _>")]
    pub priority: Option<i16>,
    /// Which freed pages the device is told of.
    pub discard: Discard,
}

/// Which freed pages a swap device is told of (`swapon --discard`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// None. RAM devices hear of freed pages on their own.
    #[default]
    None,
    /// The whole area, once, when it is switched on.
    Once,
    /// Clusters of pages as they are freed.
    Pages,
    /// Both.
    Both,
}

/// How long a boot waits for a drive that is not given another time.
pub const TIMEOUT: Span = Span::seconds(30);
