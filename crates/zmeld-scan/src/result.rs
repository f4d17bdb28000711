//! The result of a scan, as it goes into JSON. Schema `zmeld.scan/3`: a field is
//! never taken away or given another meaning within a version.

use std::collections::BTreeMap;

use crate::memory::{Counted, Skipped, ALL_PROCESSES};
use serde::Serialize;
use zmeld_config::advice::{size, Recommendation};
use zmeld_store::Geometry;

use crate::facts::MachineFacts;
use crate::histogram::Histogram;

/// Pages by what they are. `total` is the sum of the other four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PageCounts {
    /// Pages read; pages shared by fork count once.
    pub total: u64,
    /// Pages of zeros.
    pub zero: u64,
    /// Pages that repeat one machine word other than zero.
    pub same_filled: u64,
    /// Distinct contents among the others: what a melding store keeps.
    pub unique: u64,
    /// Pages that melding would drop.
    pub duplicate: u64,
}

impl PageCounts {
    /// Pages that have to be compressed where nothing is melded.
    pub fn compressible(&self) -> u64 {
        self.unique + self.duplicate
    }

    /// Pages that a device is given, with those of zeros or without.
    pub(crate) fn given(&self, with_zeros: bool) -> u64 {
        self.total - if with_zeros { 0 } else { self.zero }
    }
}

/// How compression was measured.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct SampleResult {
    /// Every distinct content was compressed; there is no sampling error.
    pub full: bool,
    /// Contents that were compressed.
    pub contents_measured: u64,
    /// The widest of the codecs' intervals: half a 95 % confidence interval of
    /// the ratio, as a share of the ratio.
    pub interval: f64,
}

/// How long a codec took, with all processors busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CodecTimes {
    /// Speed on one core, decimal megabytes of pages a second.
    pub compress_mb_per_s: f64,
    /// The same for decompressing.
    pub decompress_mb_per_s: f64,
    /// Time for a page: half are faster.
    pub compress_ns_median: u64,
    /// Time for a page: 99 in 100 are faster.
    pub compress_ns_p99: u64,
    /// Time for a page: half are faster.
    pub decompress_ns_median: u64,
    /// Time for a page: 99 in 100 are faster.
    pub decompress_ns_p99: u64,
}

impl CodecTimes {
    pub(crate) fn of(
        compress: &Histogram,
        decompress: &Histogram,
        geometry: &Geometry,
    ) -> CodecTimes {
        let page_size = geometry.page_size() as usize;
        CodecTimes {
            compress_mb_per_s: compress.mb_per_s(page_size),
            decompress_mb_per_s: decompress.mb_per_s(page_size),
            compress_ns_median: compress.quantile(0.5),
            compress_ns_p99: compress.quantile(0.99),
            decompress_ns_median: decompress.quantile(0.5),
            decompress_ns_p99: decompress.quantile(0.99),
        }
    }
}

/// One codec on these pages.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct CodecResult {
    /// The codec, with its level if that is not the default.
    pub codec: String,
    /// Whether the running kernel's zram has it; absent where there is no zram.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<bool>,
    /// Pages whose compressed size is known, through an equal page or their own.
    pub pages_measured: u64,
    /// zram's compr_data_size (column 2 of mm_stat) for these pages.
    pub compressed_bytes: u64,
    /// zram's mem_used_total (column 3 of mm_stat) for these pages.
    pub memory_used_bytes: u64,
    /// The first after melding.
    pub melded_compressed_bytes: u64,
    /// The second after melding and compaction, with what the shares take beside the
    /// pool: 24 bytes for each content that stands in several pages.
    pub melded_memory_used_bytes: u64,
    /// Pages kept raw, without melding.
    pub incompressible_pages: u64,
    /// The same after melding.
    pub melded_incompressible_pages: u64,
    /// The others by compressed size, without melding: up to a 32nd of a page, up to two 32nds, and so on.
    pub pages_by_size: Vec<u64>,
    /// Bytes of pages for each byte of `compressed_bytes`, same-filled pages left out; 0 where none
    /// was measured.
    pub ratio: f64,
    /// Half a 95 % confidence interval of `ratio`, in the ratio's unit; 0 when all was compressed.
    pub ratio_interval: f64,
    /// Memory of these pages in a device that is full of such pages: the share
    /// of whole spans that is theirs. Less than `memory_used_bytes` where there
    /// are few pages, since those leave spans partly empty.
    pub memory_at_scale_bytes: u64,
    /// The same after melding, with what the shares take.
    pub melded_memory_at_scale_bytes: u64,
    /// Bytes that a device full of such pages is given for each byte of memory
    /// that it uses.
    pub effective_ratio: f64,
    /// How long it took.
    #[serde(flatten)]
    pub times: CodecTimes,
    /// Gains of devices of several sizes.
    pub gains: Vec<Gain>,
}

/// A zram device of one size, full of pages like these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Gain {
    /// Disk size in percent of RAM.
    pub disksize_percent: u32,
    /// Disk size in bytes.
    pub disksize_bytes: u64,
    /// Memory that the full device takes, its table included.
    pub memory_bytes: u64,
    /// RAM gained when it is full; negative where it costs more than it gives.
    pub gained_bytes: i64,
    /// The same of a zmeld device, with melding.
    pub melded_gained_bytes: i64,
    /// Memory of the machine in all before it runs out: RAM plus the gain.
    pub holds_bytes: i64,
}

/// Something that was not read.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct SkippedResult {
    /// Why.
    pub reason: String,
    /// How much.
    #[serde(flatten)]
    pub skipped: Skipped,
}

/// Pages of one kind of memory by coldness.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ColdResult {
    /// "page": each page was watched; "mapping": only sums for each mapping.
    pub precision: String,
    /// How long memory was watched, in seconds.
    pub seconds: f64,
    /// Pages in RAM, those not touched, and those delivered to this scan, by kind.
    pub by_kind: BTreeMap<String, [u64; 3]>,
    /// The three sums.
    pub total: [u64; 3],
}

/// Duplicates to meld.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Duplicates {
    /// Contents that stand in more than one page.
    pub groups: u64,
    /// Pages that melding would drop because the same owner has the content already.
    pub within_owner_pages: u64,
    /// Pages that melding would drop because another owner has the content.
    pub between_owners_pages: u64,
    /// Pages that melding would drop, by the kind of memory that they are in.
    pub by_kind: BTreeMap<String, u64>,
}

/// The processes of one name in one control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Program {
    /// Its name, as `/proc/PID/comm` has it.
    pub program: String,
    /// The control group's path; empty where there is none, or it had ended.
    pub group: String,
    /// How many processes.
    pub processes: u64,
    /// Bytes of pages, without those of zeros and of one repeated word. Pages shared by fork count
    /// once.
    pub bytes: u64,
    /// Of these, in pages whose content stands elsewhere, too: melding would drop them.
    pub duplicate_bytes: u64,
    /// RAM that they would take in a device that is full of such pages, without melding; absent where
    /// too few were compressed to tell. From the sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed_bytes: Option<u64>,
}

impl Program {
    /// Bytes saved by compression.
    pub fn saved_bytes(&self) -> Option<u64> {
        Some(self.bytes.saturating_sub(self.compressed_bytes?))
    }

    /// How many times smaller.
    pub fn ratio(&self) -> Option<f64> {
        let compressed = self.compressed_bytes.filter(|it| *it > 0)?;
        Some(self.bytes as f64 / compressed as f64)
    }
}

/// How a sentence of advice is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdviceKind {
    /// Do this.
    Do,
    /// There is nothing to gain here.
    Nothing,
    /// Take care.
    Warning,
    /// Good to know.
    Note,
}

/// A sentence or two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Advice {
    /// How it is meant.
    pub kind: AdviceKind,
    /// Its topic: "codec", "size", "meld", "zeros", "need", "shared", "privilege", "setup".
    pub topic: String,
    /// The sentence.
    pub text: String,
    /// The command that does it, for root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

impl Advice {
    /// A sentence without a command.
    pub fn new(kind: AdviceKind, topic: &str, text: impl Into<String>) -> Advice {
        Advice {
            kind,
            topic: topic.to_owned(),
            text: text.into(),
            commands: Vec::new(),
        }
    }
}

/// The result of a scan.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct ScanResult {
    /// The source of the pages, in words.
    pub source: String,
    /// Bytes of a page.
    pub page_size: u64,
    /// Stopped before everything was read: all figures are of what was.
    pub interrupted: bool,
    /// Pages by what they are.
    pub pages: PageCounts,
    /// Pages by where they were.
    pub memory: Counted,
    /// Equal pages.
    pub duplicates: Duplicates,
    /// Programs by what compressing would save, the most first; empty where no process was read.
    pub programs: Vec<Program>,
    /// How compression was measured.
    pub sample: SampleResult,
    /// Each codec.
    pub codecs: Vec<CodecResult>,
    /// The codec that the advice is about, by its name in `codecs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommended: Option<String>,
    /// The recommended set-up for a machine with such pages; absent where they say too little,
    /// or that there is nothing to gain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendation: Option<Recommendation>,
    /// Advice.
    pub advice: Vec<Advice>,
    /// How much was cold, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdResult>,
    /// Pages that were not read.
    pub skipped: Vec<SkippedResult>,
    /// Limits of accuracy.
    pub notes: Vec<String>,
    /// RAM that gains and advice are for, in bytes.
    pub ram_bytes: u64,
    /// Whether pages of zeros are credited to the device: kernels from 6.12 on
    /// never pass them to it.
    pub zero_pages_credited: bool,
    /// Longest chain of pages in the predicted pool (`CONFIG_ZSMALLOC_CHAIN_SIZE`).
    pub pool_chain: u32,
    /// Time for one fingerprint on this machine, in nanoseconds.
    pub fingerprint_ns: u64,
    /// The machine.
    pub machine: MachineFacts,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Threads that read.
    pub threads: usize,
}

impl ScanResult {
    /// Whether no process of others was left out for want of rights.
    pub fn is_whole(&self) -> bool {
        !self.advice.iter().any(|it| it.topic == "privilege")
    }

    /// Bytes of the pages that a gain is predicted from.
    pub(crate) fn measured_bytes(&self) -> u64 {
        self.pages.compressible() * self.page_size
    }

    /// Whether so little of RAM was measured that neither a size nor a gain follows from it.
    pub fn is_too_little(&self) -> bool {
        size::is_too_little(self.measured_bytes(), self.ram_bytes)
    }

    /// Whether it is of chosen processes, which do not tell what the machine would gain.
    pub fn is_of_some_processes(&self) -> bool {
        self.memory.processes > 0 && self.source != ALL_PROCESSES
    }

    /// Whether a size and a gain of the machine follow from it.
    pub fn speaks_for_machine(&self) -> bool {
        !self.is_too_little() && !self.is_of_some_processes()
    }

    /// The codec that figures in sentences are of: the one that is advised, else the best. None
    /// where no page was measured.
    pub(crate) fn told_codec(&self) -> Option<&CodecResult> {
        let is_advised = |codec: &&CodecResult| Some(&codec.codec) == self.recommended.as_ref();
        let advised = self.measured_codecs().find(is_advised);
        advised.or_else(|| self.best_codec())
    }

    /// The best that the kernel has; of all, where it has none of them.
    pub fn best_codec(&self) -> Option<&CodecResult> {
        let rank = |codec: &CodecResult| (codec.offered != Some(false), codec.effective_ratio);
        self.measured_codecs().max_by(|a, b| {
            let ((a_there, a_ratio), (b_there, b_ratio)) = (rank(a), rank(b));
            a_there.cmp(&b_there).then(a_ratio.total_cmp(&b_ratio))
        })
    }

    fn measured_codecs(&self) -> impl Iterator<Item = &CodecResult> {
        self.codecs.iter().filter(|it| it.pages_measured > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{CodecResult, Program, ScanResult};

    #[test]
    fn the_best_codec_is_one_that_the_kernel_has_where_it_has_any() {
        let codec = |name: &str, effective_ratio, offered| CodecResult {
            codec: name.to_owned(),
            pages_measured: 1,
            effective_ratio,
            offered,
            ..CodecResult::default()
        };
        let best = |codecs: &[CodecResult]| {
            let codecs = codecs.to_vec();
            let result = ScanResult {
                codecs,
                ..ScanResult::default()
            };
            result.best_codec().map(|it| it.codec.clone())
        };
        let all = [
            codec("lz4", 1.5, None),
            codec("lzo-rle", 1.7, Some(true)),
            codec("zstd", 2.3, Some(false)),
        ];
        assert_eq!(best(&all).as_deref(), Some("lzo-rle"));
        assert_eq!(best(&all[2..]).as_deref(), Some("zstd"));
        assert_eq!(best(&[]), None);
    }

    #[test]
    fn a_program_saves_all_but_what_it_takes() {
        for (compressed_bytes, saved, ratio) in [
            (Some(4 << 20), Some(8 << 20), Some(3.0)),
            (Some(12 << 20), Some(0), Some(1.0)),
            (Some(0), Some(12 << 20), None),
            (None, None, None),
        ] {
            let program = Program {
                bytes: 12 << 20,
                compressed_bytes,
                ..Program::default()
            };
            assert_eq!((program.saved_bytes(), program.ratio()), (saved, ratio));
        }
    }
}
