//! Every key once: where it stands, what it takes, what it is without it.
//!
//! The reader refuses what is not here, and `docs/configuration.md` has to
//! mention every one.

/// A key of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The table that it stands in.
    pub section: Section,
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What it is when it is not given.
    pub default: &'static str,
}

/// A table of the configuration. The keys of a tier depend on its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// `[tier.NAME.writeback]`.
    Writeback,
    /// An element of `recompress`.
    Recompression,
    /// `[tunables]`.
    Tunables,
    /// `[watch]`.
    Watch,
    /// `[watch.recompress]`.
    WatchRecompress,
    /// `[watch.writeback]`.
    WatchWriteback,
    /// `[watch.meld]`.
    WatchMeld,
    /// `[watch.reclaim]`.
    WatchReclaim,
    /// `[watch.guard]`.
    WatchGuard,
    /// `[metrics]`.
    Metrics,
}

impl Section {
    /// For whom the key is, where it is written in another tier's table.
    pub(super) fn kinds(self) -> &'static str {
        match self {
            Section::Swapped => "zram, zmeld and disk tiers",
            Section::Ram => "zram and zmeld tiers",
            Section::Zmeld => "zmeld tiers",
            Section::Zswap => "zswap tiers",
            Section::Disk => "disk tiers",
            _ => "another table",
        }
    }
}

const fn key(
    section: Section,
    name: &'static str,
    takes: &'static str,
    default: &'static str,
) -> Key {
    Key {
        section,
        name,
        takes,
        default,
    }
}

const CODEC: &str = "NAME[:LEVEL][,dict=FILE]";
const DEVICE: &str = "path, UUID=, LABEL=, PARTUUID= or PARTLABEL=";
const ENCRYPTION: &str = "none, luks or random";
const SIZE: &str = "50%, 4GiB, min(50%, 4GiB) or ufpr";
const PAGES: &str = "idle, huge or huge_idle";
const GROUPS: &str = "list of control groups";
const LEFT: &str = "left alone";
const NO_LIMIT: &str = "no limit";

/// Keys that the last version had, by their section, and what to do instead: they are
/// ignored with a notice, so that no machine boots without swap for one.
pub(super) const REMOVED: &[(Section, &str, &str)] = &[
    (
        Section::Watch,
        "survey",
        "enable zmeld-survey.timer, or run zmeld scan --survey PLACE --every 1d",
    ),
    (
        Section::Metrics,
        "listen",
        "write textfile, which node_exporter reads",
    ),
];

/// Findings that the last version had, which `accept` may still name.
pub(super) const REMOVED_FINDINGS: &[&str] = &["survey-failed", "public-metrics"];

/// All keys, in the order in which they are documented and written.
pub const KEYS: &[Key] = &[
    key(
        Section::Top,
        "tier",
        "one table a tier",
        "those that are set up, or suit the machine",
    ),
    key(Section::Top, "tunables", "a table", "nothing is tuned"),
    key(Section::Top, "watch", "a table", "no rules"),
    key(Section::Top, "metrics", "a table", "no metrics"),
    key(Section::Top, "accept", "list of traps", "[]"),
    key(
        Section::Tier,
        "kind",
        "zram, zmeld, zswap or disk",
        "has to be given",
    ),
    key(Section::Tier, "enabled", "true or false", "true"),
    key(Section::Swapped, "optional", "true or false", "false"),
    key(
        Section::Swapped,
        "priority",
        "-1 to 32767",
        "by the order of the tiers",
    ),
    key(
        Section::Swapped,
        "discard",
        "none, once, pages or both",
        "none",
    ),
    key(Section::Ram, "size", SIZE, "50%"),
    key(Section::Ram, "memory_limit", SIZE, NO_LIMIT),
    key(
        Section::Ram,
        "codec",
        "NAME[:LEVEL][,dict=FILE], or a list of them",
        "the kernel's default",
    ),
    key(
        Section::Ram,
        "recompress",
        "list of codecs, or of tables",
        "[]",
    ),
    key(Section::Ram, "writeback", "a table", "no backing device"),
    key(
        Section::Zmeld,
        "meld",
        "off, manual, auto or inline",
        "manual",
    ),
    key(Section::Zmeld, "check_writes", "auto, on or off", LEFT),
    key(Section::Zswap, "compressor", "name of a codec", LEFT),
    key(Section::Zswap, "zpool", "zbud, z3fold or zsmalloc", LEFT),
    key(Section::Zswap, "max_pool_percent", "1 to 100", LEFT),
    key(Section::Zswap, "accept_threshold_percent", "0 to 100", LEFT),
    key(Section::Zswap, "shrinker", "true or false", LEFT),
    key(Section::Zswap, "same_filled", "true or false", LEFT),
    key(
        Section::Disk,
        "device",
        DEVICE,
        "device or file has to be given",
    ),
    key(
        Section::Disk,
        "file",
        "absolute path",
        "device or file has to be given",
    ),
    key(Section::Disk, "size", SIZE, "the file has to be there"),
    key(Section::Disk, "format", "true or false", "false"),
    key(Section::Disk, "encryption", ENCRYPTION, "none"),
    key(
        Section::Disk,
        "key_file",
        "absolute path",
        "has to be given with luks",
    ),
    key(
        Section::Disk,
        "cipher",
        "as cryptsetup takes it",
        "aes-xts-plain64",
    ),
    key(Section::Disk, "key_size", "bits", "512"),
    key(Section::Disk, "hibernation", "true or false", "false"),
    key(Section::Disk, "timeout", "30s, 5min", "30s"),
    key(Section::Writeback, "device", DEVICE, "has to be given"),
    key(Section::Writeback, "encryption", "none or random", "none"),
    key(
        Section::Writeback,
        "cipher",
        "as cryptsetup takes it",
        "aes-xts-plain64",
    ),
    key(Section::Writeback, "key_size", "bits", "512"),
    key(Section::Writeback, "daily_limit", "2GiB", NO_LIMIT),
    key(Section::Writeback, "compressed", "true or false", "false"),
    key(Section::Writeback, "optional", "true or false", "false"),
    key(Section::Writeback, "timeout", "30s, 5min", "30s"),
    key(Section::Recompression, "codec", CODEC, "has to be given"),
    key(
        Section::Recompression,
        "priority",
        "1 to 3",
        "has to be given",
    ),
    key(
        Section::Tunables,
        "swappiness",
        "\"auto\" or 0 to 200",
        LEFT,
    ),
    key(Section::Tunables, "page_cluster", "0 to 10", LEFT),
    key(
        Section::Tunables,
        "watermark_scale_factor",
        "1 to 3000",
        LEFT,
    ),
    key(
        Section::Tunables,
        "watermark_boost_factor",
        "0 to 100000",
        LEFT,
    ),
    key(
        Section::Tunables,
        "compaction_proactiveness",
        "0 to 100",
        LEFT,
    ),
    key(Section::Tunables, "vfs_cache_pressure", "0 to 1000", LEFT),
    key(Section::Tunables, "min_free", "64MiB", LEFT),
    key(Section::Watch, "interval", "30s, 5min", "1min"),
    key(Section::Watch, "cpu_pressure_max", "20%", "20%"),
    key(Section::Watch, "dry_run", "true or false", "false"),
    key(Section::Watch, "recompress", "a table", "no rule"),
    key(Section::Watch, "writeback", "a table", "no rule"),
    key(Section::Watch, "meld", "a table", "no rule"),
    key(Section::Watch, "reclaim", "a table", "no rule"),
    key(Section::Watch, "guard", "a table", "no rule"),
    key(Section::WatchRecompress, "enabled", "true or false", "true"),
    key(Section::WatchRecompress, "pages", PAGES, "idle"),
    key(Section::WatchRecompress, "idle_after", "1h", "1h"),
    key(Section::WatchRecompress, "every", "10min", "10min"),
    key(Section::WatchRecompress, "threshold", "0 to 4KiB", "0"),
    key(
        Section::WatchRecompress,
        "max_pages",
        "number of pages",
        NO_LIMIT,
    ),
    key(Section::WatchWriteback, "enabled", "true or false", "true"),
    key(Section::WatchWriteback, "pages", PAGES, "huge_idle"),
    key(Section::WatchWriteback, "idle_after", "4h", "4h"),
    key(Section::WatchWriteback, "every", "1h", "1h"),
    key(Section::WatchWriteback, "above", "0% to 100%", "0%"),
    key(Section::WatchWriteback, "at_most", "256MiB", "256MiB"),
    key(Section::WatchMeld, "enabled", "true or false", "true"),
    key(Section::WatchMeld, "every", "10min", "10min"),
    key(Section::WatchMeld, "duplicates_min", "0% to 100%", "5%"),
    key(Section::WatchReclaim, "enabled", "true or false", "true"),
    key(Section::WatchReclaim, "groups", GROUPS, "[\"/\"]"),
    key(Section::WatchReclaim, "protect", GROUPS, "[]"),
    key(
        Section::WatchReclaim,
        "protect_real_time",
        "true or false",
        "true",
    ),
    key(
        Section::WatchReclaim,
        "mechanism",
        "auto, lru_gen or memory.reclaim",
        "auto",
    ),
    key(Section::WatchReclaim, "idle_after", "1min", "1min"),
    key(Section::WatchReclaim, "every", "5s", "5s"),
    key(Section::WatchReclaim, "step", "0% to 100%", "0.1%"),
    key(Section::WatchReclaim, "pressure_max", "0% to 100%", "0.1%"),
    key(Section::WatchReclaim, "comeback_max", "0% to 100%", "0.2%"),
    key(Section::WatchGuard, "enabled", "true or false", "true"),
    key(Section::WatchGuard, "room_below", "0% to 100%", "10%"),
    key(Section::WatchGuard, "end_below", "0% to 100%", "3%"),
    key(Section::WatchGuard, "stalled_max", "0% to 100%", "60%"),
    key(Section::WatchGuard, "end", GROUPS, "[]"),
    key(Section::WatchGuard, "protect", GROUPS, "[]"),
    key(
        Section::WatchGuard,
        "protect_real_time",
        "true or false",
        "true",
    ),
    key(
        Section::WatchGuard,
        "protect_sessions",
        "true or false",
        "true",
    ),
    key(Section::WatchGuard, "protected_max", "0% to 100%", "25%"),
    key(Section::WatchGuard, "grace", "3s", "3s"),
    key(
        Section::Metrics,
        "textfile",
        "absolute path ending in .prom",
        "no file",
    ),
    key(Section::Metrics, "melding", "true or false", "false"),
];

/// The names of the keys that stand in one of those sections.
pub(super) fn names(sections: &[Section]) -> Vec<&'static str> {
    KEYS.iter()
        .filter(|key| sections.contains(&key.section))
        .map(|key| key.name)
        .collect()
}
