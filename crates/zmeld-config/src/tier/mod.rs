//! The tiers: where swapped pages live.
//!
//! A kind of tier is a module: its settings, which are a table of keys, and what it answers
//! as a [`TierType`]. Its line in `kinds!` makes it known, and its name in `TierKind`.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zmeld_advice::TierKind;

use super::check::{in_ram, Check};
use super::keys::Section;
use super::named::{named, Named};
use super::read::{Open, Reader};
use super::section::{kernel_values, section, KernelValue, Keys, Line, Row, Setting, Table};
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
    /// What it is.
    pub kind: Kind,
}

/// What is asked of a tier's settings, whatever its kind.
pub trait TierType: Any {
    /// Settings with each key at its default.
    fn bare(_: TierKind) -> Self
    where
        Self: Default + Sized,
    {
        Self::default()
    }

    /// What the file calls it.
    fn kind(&self) -> TierKind;

    /// Where its keys stand.
    fn sections(&self) -> &'static [Section];

    /// How it is swapped to; none where it stands in front of swap areas.
    fn swap(&self) -> Option<&Swap> {
        None
    }

    /// The same, to be changed.
    fn swap_mut(&mut self) -> Option<&mut Swap> {
        None
    }

    /// What its pages are compressed with; none where that is the kernel's choice, or they
    /// are not.
    fn codec(&self) -> Option<Codec> {
        None
    }

    /// Where pages of it leave RAM.
    fn place(&self) -> Option<Place<'_>> {
        None
    }

    /// Whether it is swap on a drive or in a file: its pages are not in RAM.
    fn is_on_disk(&self) -> bool {
        self.kind().is_on_disk()
    }

    /// Files and folders that have to be there before it is set up.
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Finds what is wrong with it, and with others beside it. `key` is the tier's.
    fn check(&self, key: &str, tier: &Tier, config: &Config, check: &mut Check<'_>);
}

/// Where pages leave RAM.
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

/// The kinds: the enum, and who answers for each of them.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($settings:ty), $($called:ident)|*;)*) => {
        /// What a tier is.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum Kind {
            $($(#[$doc])* $kind($settings),)*
        }

        $(impl From<$settings> for Kind {
            fn from(settings: $settings) -> Kind {
                Kind::$kind(settings)
            }
        })*

        impl Deref for Kind {
            type Target = dyn TierType;

            fn deref(&self) -> &dyn TierType {
                match self {
                    $(Kind::$kind(settings) => settings,)*
                }
            }
        }

        impl DerefMut for Kind {
            fn deref_mut(&mut self) -> &mut dyn TierType {
                match self {
                    $(Kind::$kind(settings) => settings,)*
                }
            }
        }

        impl Kind {
            /// One of which nothing else is said.
            pub(super) fn bare(kind: TierKind) -> Kind {
                match kind {
                    $($(TierKind::$called)|* => <$settings>::bare(kind).into(),)*
                }
            }

            pub(super) fn take(&mut self, reader: &mut Reader, open: &Open<'_>) {
                match self {
                    $(Kind::$kind(settings) => settings.take(reader, open),)*
                }
            }

            pub(super) fn lines(&self) -> Vec<Line> {
                match self {
                    $(Kind::$kind(settings) => settings.lines(),)*
                }
            }
        }
    };
}

kinds! {
    /// A compressed block device in RAM.
    Ram(RamDevice), Zram | Zmeld;
    /// The kernel's compressed cache in front of disk swap.
    Zswap(Zswap), Zswap;
    /// A partition, a file or a logical volume.
    Disk(DiskSwap), Disk;
}

impl Kind {
    /// The settings, where they are of that type.
    pub fn get<T: TierType>(&self) -> Option<&T> {
        let settings: &dyn Any = &**self;
        settings.downcast_ref()
    }

    /// The same, to be changed.
    pub fn get_mut<T: TierType>(&mut self) -> Option<&mut T> {
        let settings: &mut dyn Any = &mut **self;
        settings.downcast_mut()
    }
}

/// What `kind` says.
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
    fn read(_: &Row<Self>, reader: &mut Reader, open: &Open<'_>) -> Option<Self> {
        let mut swap = Swap::default();
        swap.take(reader, open);
        Some(swap)
    }

    fn lines(&self, _: &Row<Self>) -> Vec<Line> {
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

/// Whether each tier that is swapped to is optional.
pub(super) const OPTIONAL: Row<bool> = Row::new(Section::Swapped, "optional");

/// How long a boot waits for a drive that is not given another time.
pub const TIMEOUT: Span = Span::seconds(30);
