//! Every key once: where it stands, what it is without it.
//!
//! The reader refuses what is not here, and `docs/keys.md` has to
//! mention every one.

use std::sync::LazyLock;

use crate::advice::TierKind;

use super::section::{KeyValue, Keys, WrittenValue};
use super::tier::OPTIONAL;
use super::*;

/// A key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The table that it stands in.
    pub section: Section,
    /// Its name.
    pub name: &'static str,
    /// Its default.
    pub default: String,
}

/// A table of the configuration. The keys of a tier depend on its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // Most are called as their table.
pub enum Section {
    /// Outside of all tables.
    Top,
    /// `[tier.NAME]`, whatever its kind.
    Tier,
    /// `[tier.NAME]` with a kind that is swapped to: zram, zmeld, disk.
    Swapped,
    /// `[tier.NAME]` with the kind zram or zmeld.
    Ram,
    /// `[tier.NAME]` with the kind zmeld.
    Zmeld,
    /// `[tier.NAME]` with the kind zswap.
    Zswap,
    /// `[tier.NAME]` with the kind disk.
    Disk,
    Writeback,
    /// An element of `recompress`.
    Recompression,
    Tunables,
    Watch,
    WatchRecompress,
    WatchWriteback,
    WatchMeld,
    WatchReclaim,
    WatchGuard,
    Metrics,
}

/// All keys, in the order in which they are documented.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let key = |section, name, default: &str| Key {
        section,
        name,
        default: default.to_owned(),
    };
    let enabled = |section| key(section, "enabled", "true");
    let tiers = "those that are set up, or suit the machine";
    let mut keys = vec![
        key(Section::Top, "tier", tiers),
        key(Section::Tier, "kind", "has to be given"),
        enabled(Section::Tier),
    ];
    let mut described = |lines: Vec<KeyValue>| {
        for line in lines {
            let key = Key::of(line);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    };
    described(Config::default().rows());
    described(OPTIONAL.lines(&false));
    described(Swap::default().rows());
    for (_, kind) in TierKind::NAMES {
        described(Kind::bare(kind).lines());
    }
    described(Writeback::default().rows());
    described(Recompression::default().rows());
    described(Tunables::default().rows());
    described(Watch::default().rows());
    described(RecompressRule::default().rows());
    described(WritebackRule::default().rows());
    described(MeldRule::default().rows());
    described(ReclaimRule::default().rows());
    described(GuardRule::default().rows());
    described(Metrics::default().rows());
    keys.extend(RULES.map(enabled));
    keys
});

const RULES: [Section; 5] = [
    Section::WatchRecompress,
    Section::WatchWriteback,
    Section::WatchMeld,
    Section::WatchReclaim,
    Section::WatchGuard,
];

impl Key {
    fn of(line: KeyValue) -> Key {
        let default = match line.written {
            _ if !line.key.without.is_empty() => line.key.without.to_owned(),
            WrittenValue::Value(toml::Value::String(text)) => text,
            WrittenValue::Value(value) => value.to_string(),
            WrittenValue::Nothing | WrittenValue::Table(_) => "left alone".to_owned(),
        };
        Key {
            section: line.key.section,
            name: line.key.name,
            default,
        }
    }
}

/// The names of the keys that stand in one of those sections.
pub(super) fn names(sections: &[Section]) -> Vec<&'static str> {
    KEYS.iter()
        .filter(|key| sections.contains(&key.section))
        .map(|key| key.name)
        .collect()
}
