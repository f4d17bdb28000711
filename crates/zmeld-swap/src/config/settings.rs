//! Tunables, the rules of `zmeld watch`, metrics.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Bytes, GuardRule, Percent, ReclaimRule, Span};

/// The kernel's tunables; what is not given is left alone, but for reading ahead where all
/// swap is in RAM. The names are the kernel's, below `/proc/sys/vm` where nothing else is
/// said.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunables {
    /// How anonymous pages and cached files are weighed, 0 to 200.
    pub swappiness: Option<Swappiness>,
    /// How many pages are read at once: 2 to the power of it, 0 to 10 (`page-cluster`).
    pub page_cluster: Option<u8>,
    /// How far the watermarks are apart, in ten-thousandths of memory, 1 to 3000.
    pub watermark_scale_factor: Option<u16>,
    /// How much is reclaimed beyond the watermark when memory is fragmented,
    /// in ten-thousandths of it; 0 is off.
    pub watermark_boost_factor: Option<u32>,
    /// How hard free memory is kept in one piece, 0 to 100.
    pub compaction_proactiveness: Option<u8>,
    /// How readily names and inodes are dropped, 100 being even, 0 to 1000.
    pub vfs_cache_pressure: Option<u16>,
    /// How much memory is kept free (`min_free_kbytes`, there in KiB).
    pub min_free: Option<Bytes>,
}

/// A tunable that is given as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunable {
    /// Its name below `/proc/sys/vm`.
    pub name: &'static str,
    /// What is written.
    pub value: u64,
    /// What it is for.
    pub purpose: &'static str,
}

impl Tunables {
    /// What is given as a number, `swappiness` first; one that is to be measured is
    /// not among them.
    pub fn values(&self) -> Vec<Tunable> {
        let swappiness = match self.swappiness {
            Some(Swappiness::Value(value)) => Some(u64::from(value)),
            Some(Swappiness::Auto) | None => None,
        };
        let all = [
            (
                "swappiness",
                swappiness,
                "how pages and cached files are weighed",
            ),
            (
                "page-cluster",
                self.page_cluster.map(u64::from),
                "what is compressed is not read faster in a row",
            ),
            (
                "watermark_scale_factor",
                self.watermark_scale_factor.map(u64::from),
                "reclaim begins earlier, and in the background",
            ),
            (
                "watermark_boost_factor",
                self.watermark_boost_factor.map(u64::from),
                "how much is reclaimed against fragmentation",
            ),
            (
                "compaction_proactiveness",
                self.compaction_proactiveness.map(u64::from),
                "how hard free memory is kept in one piece",
            ),
            (
                "vfs_cache_pressure",
                self.vfs_cache_pressure.map(u64::from),
                "how readily names and inodes are dropped",
            ),
            (
                "min_free_kbytes",
                self.min_free.map(|bytes| bytes.0 / 1024),
                "memory for what cannot wait",
            ),
        ];
        let given = all.into_iter().filter_map(|(name, value, purpose)| {
            Some(Tunable {
                name,
                value: value?,
                purpose,
            })
        });
        given.collect()
    }
}

/// A value of `vm.swappiness`, or how to find one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Swappiness {
    /// 200 k / (k + 1), where random I/O on swap was measured to be k times as
    /// fast as on the file system. Text: `auto`.
    Auto,
    /// 0 to 200.
    Value(u8),
}

/// What `zmeld watch` does, and when. Without rules it does nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Watch {
    /// How often it looks.
    pub interval: Span,
    /// It does nothing while tasks waited for a processor more than this share
    /// of the last 10 s (`/proc/pressure/cpu`, `some avg10`).
    pub cpu_pressure_max: Percent,
    /// Compress pages again.
    pub recompress: Option<RecompressRule>,
    /// Write pages to the backing device.
    pub writeback: Option<WritebackRule>,
    /// Meld identical pages.
    pub meld: Option<MeldRule>,
    /// Reclaim idle memory before it is needed.
    #[serde(default)]
    pub reclaim: Option<ReclaimRule>,
    /// Act before the machine freezes (`zmeld-guard`).
    #[serde(default)]
    pub guard: Option<GuardRule>,
    /// Only log what would be done.
    pub dry_run: bool,
}

impl Default for Watch {
    fn default() -> Self {
        Watch {
            interval: Span::seconds(60),
            cpu_pressure_max: Percent::whole(20),
            recompress: None,
            writeback: None,
            meld: None,
            reclaim: None,
            guard: None,
            dry_run: false,
        }
    }
}

impl Watch {
    /// Whether there is any rule.
    pub fn has_rules(&self) -> bool {
        !self.rules().is_empty()
    }

    /// Whether the guard has no rule to make room with.
    pub(crate) fn is_guard_alone(&self) -> bool {
        self.guard.is_some() && !self.has_rules()
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Those not touched for a while.
    Idle,
    /// Those that did not compress.
    Huge,
    /// Those that did not compress and were not touched for a while.
    HugeIdle,
}

/// When pages are compressed again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecompressRule {
    /// Which pages.
    pub pages: Which,
    /// Not touched for so long; for idle pages.
    pub idle_after: Span,
    /// Not more often than that.
    pub every: Span,
    /// Only objects of at least so many bytes, 0 to 4096.
    pub threshold: Bytes,
    /// At most so many pages at a time; without, no limit (`max_pages`, Linux 6.16).
    pub max_pages: Option<u64>,
}

impl Default for RecompressRule {
    fn default() -> Self {
        RecompressRule {
            pages: Which::Idle,
            idle_after: Span::seconds(3_600),
            every: Span::seconds(600),
            threshold: Bytes(0),
            max_pages: None,
        }
    }
}

/// When pages are written to the backing device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WritebackRule {
    /// Which pages.
    pub pages: Which,
    /// Not touched for so long; for idle pages.
    pub idle_after: Span,
    /// Not more often than that.
    pub every: Span,
    /// Only while the device uses at least this share of its memory limit; for
    /// a device without a limit, of its size.
    pub above: Percent,
    /// At most so much at a time.
    pub at_most: Bytes,
}

impl Default for WritebackRule {
    fn default() -> Self {
        WritebackRule {
            pages: Which::HugeIdle,
            idle_after: Span::seconds(4 * 3_600),
            every: Span::seconds(3_600),
            above: Percent::whole(0),
            at_most: Bytes(256 << 20),
        }
    }
}

/// When identical pages are melded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeldRule {
    /// Not more often than that.
    pub every: Span,
    /// Only if a sample finds at least this share of the pages to be duplicates.
    pub duplicates_min: Percent,
}

impl Default for MeldRule {
    fn default() -> Self {
        MeldRule {
            every: Span::seconds(600),
            // What a scan and a status call worth it.
            duplicates_min: Percent::whole((100.0 * zmeld_advice::meld::WORTH).round() as u32),
        }
    }
}

/// Where figures are offered to a monitoring system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// The file that `zmeld watch` writes for node_exporter's textfile collector.
    pub textfile: Option<PathBuf>,
    /// Whether those figures are among them that tell whether a page had a twin.
    #[serde(default)]
    pub melding: bool,
}
