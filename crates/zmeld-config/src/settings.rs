//! Tunables, the rules of `zmeld watch`, metrics. A row is a key: see `section.rs`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::named::named;
use super::section::{kernel_values, section, KernelValue, Table};
use super::{Bytes, GroupPattern, Percent, ReclaimRule, Span};

section! {
    /// The kernel's tunables; what is not given is left alone, but for reading ahead where all
    /// swap is in RAM. The kernel's names are those below `/proc/sys/vm`.
    #[derive(Eq)]
    pub struct Tunables in Tunables {
        /// How anonymous pages and cached files are weighed, 0 to 200.
        swappiness: Option<Swappiness>, kernel("swappiness", "how pages and cached files are weighed");
        /// How many pages are read at once: 2 to the power of it.
        page_cluster: Option<u8>, range(0, 10), kernel("page-cluster", "pages read at once, as a power of 2");
        /// How far the watermarks are apart, in ten-thousandths of memory.
        watermark_scale_factor: Option<u16>, range(1, 3_000), kernel("watermark_scale_factor", "how early reclaim begins");
        /// How much is reclaimed beyond the watermark when memory is fragmented,
        /// in ten-thousandths of it; 0 is off.
        watermark_boost_factor: Option<u32>, range(0, 100_000), kernel("watermark_boost_factor", "how much is reclaimed against fragmentation");
        /// How hard free memory is kept in one piece.
        compaction_proactiveness: Option<u8>, range(0, 100), kernel("compaction_proactiveness", "how hard free memory is kept in one piece");
        /// How readily names and inodes are dropped, 100 being even.
        vfs_cache_pressure: Option<u16>, range(0, 1_000), kernel("vfs_cache_pressure", "how readily names and inodes are dropped");
        /// How much memory is kept free.
        min_free: Option<Bytes>, kernel("min_free_kbytes", "memory for what cannot wait");
    }
}

impl Tunables {
    /// Tunables given as a number, `swappiness` first; one that is to be measured is not among
    /// them.
    pub fn values(&self) -> Vec<KernelValue> {
        kernel_values(self)
    }
}

/// A value of `vm.swappiness`, or how to find one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Swappiness {
    /// 200 k / (k + 1), where random I/O on swap was measured to be k times as
    /// fast as on the file system. Text: `auto`.
    Auto,
    /// 0 to 200.
    Value(u8),
}

section! {
    /// Settings of `zmeld watch`. Without rules it does nothing.
    pub struct Watch in Watch {
        /// How often it looks.
        interval: Span = Span::seconds(60);
        /// It does nothing while tasks waited for a processor more than this share
        /// of the last 10 s (`/proc/pressure/cpu`, `some avg10`).
        cpu_pressure_max: Percent = Percent::whole(20);
        /// Compress pages again.
        recompress: Option<RecompressRule>, without("no rule");
        /// Write pages to the backing device.
        writeback: Option<WritebackRule>, without("no rule");
        /// Meld identical pages.
        meld: Option<MeldRule>, without("no rule");
        /// Reclaim idle memory before it is needed.
        reclaim: Option<ReclaimRule>, without("no rule");
        /// Act before the machine freezes (`zmeld-guard`).
        guard: Option<GuardRule>, without("no rule");
        /// Only log what would be done.
        dry_run: bool;
    }
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

named! {
    /// Which pages a rule is for.
    pub enum PageFilter {
        /// Those not touched for a while.
        Idle = "idle",
        /// Those that did not compress.
        Huge = "huge",
        /// Those that did not compress and were not touched for a while.
        HugeIdle = "huge_idle",
    }
}

section! {
    /// When pages are compressed again.
    pub struct RecompressRule in WatchRecompress {
        /// Which pages.
        pages: PageFilter = PageFilter::Idle, always();
        /// Not touched for so long; for idle pages.
        idle_after: Span = Span::seconds(3_600), always();
        /// Not more often than that.
        every: Span = Span::seconds(600), always();
        /// Only objects of at least so many bytes, 0 to 4096.
        threshold: Bytes = Bytes(0), by(part_of_page);
        /// At most so many pages at a time; without, no limit (`max_pages`, Linux 6.10).
        max_pages: Option<u64>, range(1, i64::MAX), without("no limit");
    }
}

fn part_of_page(text: &str) -> Result<Bytes, String> {
    match text.parse()? {
        bytes if bytes > Bytes(4_096) => {
            Err(format!("{text:?} is more than a page; write 0 to 4KiB"))
        }
        bytes => Ok(bytes),
    }
}

section! {
    /// When pages are written to the backing device.
    pub struct WritebackRule in WatchWriteback {
        /// Which pages.
        pages: PageFilter = PageFilter::HugeIdle, always();
        /// Not touched for so long; for idle pages.
        idle_after: Span = Span::seconds(4 * 3_600), always();
        /// Not more often than that.
        every: Span = Span::seconds(3_600), always();
        /// Only while the device uses at least this share of its memory limit; for
        /// a device without a limit, of its size.
        above: Percent = Percent::whole(0);
        /// At most so much at a time.
        at_most: Bytes = Bytes(256 << 20), always();
    }
}

section! {
    /// When identical pages are melded.
    pub struct MeldRule in WatchMeld {
        /// Not more often than that.
        every: Span = Span::seconds(600), always();
        /// Only if a sample finds at least this share of the pages to be duplicates: what
        /// a scan and a status call worth it.
        duplicates_min: Percent = Percent::whole((100.0 * crate::advice::meld::WORTH).round() as u32), always();
    }
}

section! {
    /// Actions before a machine freezes.
    #[serde(default, deny_unknown_fields)]
    pub struct GuardRule in WatchGuard {
        /// Room is made where programs can take less than this share of what they can have more,
        /// or where what they can take is gone within ten seconds at today's rate.
        room_below: Percent = Percent::whole(15), always();
        /// Processes are ended where they can take less than this share.
        end_below: Percent = Percent::whole(10), always();
        /// Or where less than that is available without swapping and all tasks waited for memory
        /// this share of the last ten seconds (`/proc/pressure/memory`, `full`). By default
        /// systemd-oomd's limit for a group, there for 30 s.
        stalled_above: Percent = Percent::whole(60), always();
        /// Owners or groups that may be ended, each with what is below it; without any, all that is
        /// not protected.
        end: Vec<GroupPattern>;
        /// Never these, nor what is below them.
        protect: Vec<GroupPattern>;
        /// How long a process has from SIGTERM to SIGKILL.
        grace: Span = Span::seconds(3), always();
        /// A program and its arguments, run as nobody after something was ended, with the facts in
        /// its environment.
        on_end: Vec<String>;
    }
}

section! {
    /// Export of figures to a monitoring system.
    #[derive(Eq)]
    #[serde(default)]
    pub struct Metrics in Metrics {
        /// The file that `zmeld watch` writes for node_exporter's textfile collector.
        textfile: Option<PathBuf>, without("no file");
        /// Whether figures that tell if a page had a twin are among them.
        melding: bool;
    }
}

impl Table for Tunables {}
impl Table for Watch {}
impl Table for RecompressRule {}
impl Table for WritebackRule {}
impl Table for MeldRule {}
impl Table for ReclaimRule {}
impl Table for GuardRule {}
impl Table for Metrics {}
