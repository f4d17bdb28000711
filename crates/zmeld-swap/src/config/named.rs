//! Choices that have a name in the configuration.

use super::{CheckWrites, Discard, Mechanism, MeldMode, RamDriver, Which, Zpool};

/// A choice among few, each with its name.
pub(crate) trait Named: Copy + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [(&'static str, Self)];

    /// The one with that name, or what there is.
    fn named(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!(
                "{text:?} is none of its values; {}",
                super::choices(text, &names)
            )
        })
    }

    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, value)| *value == self);
        found.map_or("", |(name, _)| name)
    }
}

/// What `kind` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindName {
    Ram(RamDriver),
    Zswap,
    Disk,
}

impl Named for KindName {
    const ALL: &'static [(&'static str, Self)] = &[
        ("zram", KindName::Ram(RamDriver::Zram)),
        ("zmeld", KindName::Ram(RamDriver::Zmeld)),
        ("zswap", KindName::Zswap),
        ("disk", KindName::Disk),
    ];
}

/// What `encryption` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EncryptionName {
    None,
    Luks,
    Random,
}

impl Named for EncryptionName {
    const ALL: &'static [(&'static str, Self)] = &[
        ("none", EncryptionName::None),
        ("luks", EncryptionName::Luks),
        ("random", EncryptionName::Random),
    ];
}

impl Named for Discard {
    const ALL: &'static [(&'static str, Self)] = &[
        ("none", Discard::None),
        ("once", Discard::Once),
        ("pages", Discard::Pages),
        ("both", Discard::Both),
    ];
}

impl Named for MeldMode {
    const ALL: &'static [(&'static str, Self)] = &[
        ("off", MeldMode::Off),
        ("manual", MeldMode::Manual),
        ("auto", MeldMode::Auto),
        ("inline", MeldMode::Inline),
    ];
}

impl Named for CheckWrites {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", CheckWrites::Auto),
        ("on", CheckWrites::On),
        ("off", CheckWrites::Off),
    ];
}

impl Named for Mechanism {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", Mechanism::Auto),
        ("lru_gen", Mechanism::LruGen),
        ("memory.reclaim", Mechanism::MemoryReclaim),
    ];
}

impl Named for Zpool {
    const ALL: &'static [(&'static str, Self)] = &[
        ("zbud", Zpool::Zbud),
        ("z3fold", Zpool::Z3fold),
        ("zsmalloc", Zpool::Zsmalloc),
    ];
}

impl Named for Which {
    const ALL: &'static [(&'static str, Self)] = &[
        ("idle", Which::Idle),
        ("huge", Which::Huge),
        ("huge_idle", Which::HugeIdle),
    ];
}
