//! What is wanted: the configuration in `/etc/zmeld.toml` and its drop-ins.
//!
//! A [`Config`] is a list of [`Tier`]s, fastest first, with the kernel's
//! tunables, the rules of `zmeld watch` and where metrics go. It says nothing
//! about the machine: sizes may be shares of a RAM that is not known yet, and
//! a device may be named by a tag that nothing carries.
//!
//! `docs/configuration.md` is the reference for whoever writes the file.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`size`] | amounts: bytes, shares of RAM, times, each with its text form |
//! | [`codec`] | codecs and their parameters |
//! | [`location`] | how a device or file is named |
//! | [`tier`] | zram, zmeld, zswap and disk tiers |
//! | [`settings`] | tunables, the rules of `zmeld watch`, metrics |
//! | [`trap`] | known traps, and how to say that one is meant |

use serde::{Deserialize, Serialize};

pub mod codec;
pub mod location;
pub mod settings;
pub mod size;
pub mod tier;
pub mod trap;

pub use codec::{Codec, Recompression};
pub use location::{Location, Tag};
pub use settings::{
    MeldRule, Metrics, RecompressRule, Swappiness, Tunables, Watch, Which, WritebackRule,
};
pub use size::{Bytes, Percent, Size, Span};
pub use tier::{
    Cipher, Discard, DiskSwap, Encryption, Kind, MeldMode, RamDevice, RamDriver, Source, Swap,
    Tier, TierName, Writeback, Zpool, Zswap,
};
pub use trap::Trap;

/// All that is wanted of a machine's swap.
///
/// The default is empty: no tiers, nothing tuned, nothing watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The tiers, the fastest first. Names are unique.
    pub tiers: Vec<Tier>,
    /// The kernel's tunables that are to be set.
    pub tunables: Tunables,
    /// What `zmeld watch` does, and when.
    pub watch: Watch,
    /// Where figures are offered to a monitoring system.
    pub metrics: Metrics,
    /// Traps that are meant: neither refused nor warned of.
    pub accept: Vec<Trap>,
}

impl Config {
    /// The tier of that name.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.name.as_str() == name)
    }

    /// The zswap tier: there is at most one.
    pub fn zswap(&self) -> Option<&Zswap> {
        self.tiers.iter().find_map(|tier| match &tier.kind {
            Kind::Zswap(zswap) => Some(zswap),
            _ => None,
        })
    }

    /// Every swap area with the priority it gets, in the order of the tiers.
    ///
    /// An area without a priority of its own gets the one that keeps the order
    /// of the tiers: 100 for the first area, and ten less for each after it,
    /// but always less than the area before it. zswap has none: it stands in
    /// front of all of them. -1 lets the kernel choose.
    pub fn areas(&self) -> Vec<(&Tier, &Swap, i16)> {
        let mut next = 100;
        let mut areas = Vec::new();
        for tier in &self.tiers {
            let Some(swap) = tier.swap() else { continue };
            let priority = swap.priority.unwrap_or(next);
            if priority >= 0 {
                next = next.min((priority - 10).max(0));
            }
            areas.push((tier, swap, priority));
        }
        areas
    }
}

/// The nearest of what there is, or all of it: the way out where a name is wrong.
pub(crate) fn choices(wrong: &str, names: &[&str]) -> String {
    match nearest(wrong, names) {
        Some(name) => format!("did you mean {name:?}?"),
        None => format!("there are: {}", names.join(", ")),
    }
}

/// The name that was most likely meant, if one is near enough.
pub(crate) fn nearest<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    names
        .iter()
        .map(|name| (strsim::jaro_winkler(wrong, name), *name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}
