//! Tunables, the rules of `zmeld watch`, metrics.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use smart_default::SmartDefault;
use zmeld_linux::amount::Parse;

use super::key::{absolute, Number};
use super::{Bytes, GroupPattern, Percent, Span};

/// The kernel's tunables; what is not given is left alone, but for reading ahead where all
/// swap is in RAM. The kernel's names are those below `/proc/sys/vm`.
#[derive(
    Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default, deny_unknown_fields)]
pub struct Tunables {
    /// How pages and cached files are weighed, 100 being even; [`"auto"`](setup.md#swappiness)
    /// measures.
    pub swappiness: Option<Swappiness>,
    /// How many pages are read at once, as a power of 2. `accept = ["read-ahead"]` leaves it
    /// alone.
    pub page_cluster: Option<Number<u8, 0, 10>>,
    /// How early reclaim begins, in ten-thousandths of memory; higher is earlier.
    pub watermark_scale_factor: Option<Number<u16, 1, 3000>>,
    /// How much is reclaimed against fragmentation, 10000 being the high watermark.
    pub watermark_boost_factor: Option<Number<u32, 0, 100000>>,
    /// How hard free memory is kept in one piece.
    pub compaction_proactiveness: Option<Number<u8, 0, 100>>,
    /// How readily names and inodes are dropped; 100 is even.
    pub vfs_cache_pressure: Option<Number<u16, 0, 1000>>,
    /// Memory for what cannot wait, `vm.min_free_kbytes`; warned of from 5 % of RAM, refused from
    /// 1/8.
    pub min_free: Option<Bytes>,
}

/// A value of `vm.swappiness`, or how to find one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    rename_all = "lowercase",
    expecting = "write \"auto\", or 0 to 200 without quotes"
)]
pub enum Swappiness {
    /// 200 k / (k + 1), where random I/O on swap was measured to be k times as
    /// fast as on the file system. Text: `auto`.
    Auto,
    /// 0 to 200.
    #[serde(untagged)]
    Value(Number<u8, 0, 200>),
}

/// Settings of `zmeld watch`. Without rules it does nothing.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// How often it looks.
    #[default(Span::seconds(60))]
    pub interval: Span,
    /// It only makes room while tasks waited for a processor more than this share of the last 10 s.
    #[default(Percent::whole(20))]
    pub cpu_pressure_max: Percent,
    /// Compress pages again.
    pub recompress: Option<RecompressRule>,
    /// Write pages to the backing device.
    pub writeback: Option<WritebackRule>,
    /// Meld identical pages.
    pub meld: Option<MeldRule>,
    /// Reclaim idle memory before it is needed.
    pub reclaim: Option<ReclaimRule>,
    /// Act before the machine freezes (`zmeld-guard`).
    pub guard: Option<GuardRule>,
    /// Only log what would be done.
    pub dry_run: bool,
}

impl Watch {
    /// Whether there is any rule.
    pub fn has_rules(&self) -> bool {
        !self.rules().is_empty()
    }

    /// The names of the rules that there are; the guard has a service of its own.
    pub fn rules(&self) -> Vec<&'static str> {
        let all = [
            ("recompress", self.recompress.is_some()),
            ("writeback", self.writeback.is_some()),
            ("meld", self.meld.is_some()),
            ("reclaim", self.reclaim.is_some()),
        ];
        all.into_iter().filter(|it| it.1).map(|it| it.0).collect()
    }
}

/// Which pages a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageFilter {
    /// Those not touched for a while.
    Idle,
    /// Those that did not compress.
    Huge,
    /// Those that did not compress and were not touched for a while.
    HugeIdle,
}

/// When pages are compressed again.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RecompressRule {
    /// Whether it is carried out: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// Huge: those that did not compress.
    #[default(PageFilter::Idle)]
    pub pages: PageFilter,
    /// Not touched for so long.
    #[default(Span::seconds(3_600))]
    pub idle_after: Span,
    /// Not more often than that.
    #[default(Span::seconds(600))]
    pub every: Span,
    /// Only objects of at least so many bytes.
    #[default(Bytes(0))]
    #[serde(deserialize_with = "part_of_page")]
    pub threshold: Bytes,
    /// At most so many pages at a time (Linux 6.10).
    pub max_pages: Option<Number<u64, 1, { i64::MAX }>>,
}

fn part_of_page<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    deserializer.deserialize_str(Parse(|text| {
        let why = match Bytes::parse(text, String::new) {
            Ok(bytes) if bytes <= Bytes(4_096) => return Ok(bytes),
            Ok(_) => "more than a page",
            Err(_) => "not a size",
        };
        Err(format!("{text:?} is {why}; write \"0\" to \"4KiB\""))
    }))
}

/// When pages are written to the backing device.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WritebackRule {
    /// Whether it is carried out: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// Which pages.
    #[default(PageFilter::HugeIdle)]
    pub pages: PageFilter,
    /// Not touched for so long; for idle pages.
    #[default(Span::seconds(4 * 3_600))]
    pub idle_after: Span,
    /// Not more often than that.
    #[default(Span::seconds(3_600))]
    pub every: Span,
    /// Only while the device uses this share of its memory limit, else of its size.
    #[default(Percent::whole(0))]
    pub above: Percent,
    /// So much at a time.
    #[default(Bytes(256 << 20))]
    pub at_most: Bytes,
}

/// When identical pages are melded.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MeldRule {
    /// Whether it is carried out: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// Not more often than that.
    #[default(Span::seconds(600))]
    pub every: Span,
    /// Only if a sample finds so many duplicates.
    #[default(Percent::whole((100.0 * crate::advice::meld::WORTH).round() as u32))]
    pub duplicates_min: Percent,
}

/// From which control groups memory is reclaimed, and what that may cost.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReclaimRule {
    /// Whether it is carried out: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// From these, with what is below.
    #[default("/".parse().into_iter().collect())]
    pub groups: Vec<GroupPattern>,
    /// Never from these, nor from what is below.
    pub protect: Vec<GroupPattern>,
    /// Nor from groups with a thread of real-time priority, such as sound.
    #[default = true]
    pub protect_real_time: bool,
    /// Only what was not touched for so long.
    #[default(Span::seconds(60))]
    pub idle_after: Span,
    /// How often a little is reclaimed.
    #[default(Span::seconds(5))]
    pub every: Span,
    /// How much of a group's memory at a time, at first.
    #[default(Percent::of_hundredths(10))]
    pub step: Percent,
    /// How much of the time tasks of a group may wait for memory.
    ///
    /// `some` of `memory.pressure` since the last look: what TMO holds its services to.
    #[default(Percent::of_hundredths(10))]
    pub pressure_max: Percent,
    /// How much of a group's memory may come back within a minute.
    ///
    /// `workingset_refault_*` of `memory.stat`: what g-swap holds its machines to.
    #[default(Percent::of_hundredths(20))]
    pub refault_max: Percent,
}

/// Actions before a machine freezes.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GuardRule {
    /// Whether it is carried out: a drop-in may switch it off.
    #[default = true]
    pub enabled: bool,
    /// Headroom, of what programs can have, below which the other rules act at once; 4 GiB at most.
    #[default(Percent::whole(15))]
    pub room_below: Percent,
    /// Headroom below which processes are ended, 1 GiB at most ([when](guard-rules.md#when)).
    #[default(Percent::whole(10))]
    pub end_below: Percent,
    /// Share of the last 10 s in which all tasks waited; above it processes are ended, too, where
    /// less than `end_below` is available without swapping.
    ///
    /// `full` of `/proc/pressure/memory`. By default systemd-oomd's limit for a group, there for 30
    /// s.
    #[default(Percent::whole(60))]
    pub stalled_above: Percent,
    /// What may be ended, with what is below; without any, all that is not protected.
    pub end: Vec<GroupPattern>,
    /// Never these, nor what is below.
    pub protect: Vec<GroupPattern>,
    /// From SIGTERM to SIGKILL.
    #[default(Span::seconds(3))]
    #[serde(deserialize_with = "grace")]
    pub grace: Span,
    /// A program with its path, and its arguments, [run as `nobody`](guard.md) after something was
    /// ended.
    pub on_end: Vec<String>,
}

/// Memory is gone long before a minute is over.
fn grace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
    deserializer.deserialize_str(Parse(|text| {
        match (text.parse::<Span>(), text.parse::<u32>()) {
            (Ok(span), _) if span <= Span::seconds(60) => Ok(span),
            (_, Ok(1..=60)) => Err(format!("{text:?} is not a time; write \"{text}s\"")),
            (Ok(_), _) => Err(format!(
                "{text:?}: memory is gone long before; write \"1min\" at most"
            )),
            _ => Err(format!("{text:?} is not a time; write \"1s\" to \"1min\"")),
        }
    }))
}

/// Export of figures to a monitoring system.
#[derive(
    Debug, Clone, PartialEq, Eq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// `zmeld watch` writes it for node_exporter; its name ends in `.prom`.
    #[serde(deserialize_with = "absolute")]
    pub textfile: Option<PathBuf>,
    /// Adds the counters of melding, which tell [whether a page had a
    /// twin](melding.md#what-files-tell).
    pub melding: bool,
}
