//! From sums and counts to a result.

use crate::memory::{Coldness, Skipped, Visit};
use zmeld_config::advice::{meld, size};
use zmeld_config::{RamDriver, SlotTable};
use zmeld_store::SHARE_BYTES;

use crate::codecs::Candidate;
use crate::facts::MachineFacts;
use crate::histogram::Histogram;
use crate::kernel::PoolModel;
use crate::predict::{self, CompressionSums, Overlap};
use crate::result::{
    CodecResult, CodecTimes, ColdResult, Gain, PageCounts, SampleResult, SkippedResult,
};

/// Sums of one codec when all reading is done.
pub(crate) struct CodecSums {
    pub contents: CompressionSums,
    pub repeats: CompressionSums,
    pub overlap: Overlap,
    pub compress: Histogram,
    pub decompress: Histogram,
}

impl CodecSums {
    /// The two sums for all pages: distinct contents, and all of them.
    pub fn totals(&self, pages: &PageCounts) -> (CompressionSums, CompressionSums) {
        let scale = |all: u64, tally: &CompressionSums| {
            if tally.pages > 0.0 {
                all as f64 / tally.pages
            } else {
                0.0
            }
        };
        let contents = self.contents.scaled(scale(pages.unique, &self.contents));
        let repeats = if self.repeats.pages > 0.0 {
            self.repeats.scaled(scale(pages.duplicate, &self.repeats))
        } else {
            // None was drawn: they are few, and taken to be like the others.
            self.contents.scaled(scale(pages.duplicate, &self.contents))
        };
        let mut all = contents.clone();
        all.merge(&repeats);
        (contents, all)
    }

    /// Half a 95 % confidence interval of all compressed bytes, as a share of them.
    pub fn interval(&self, pages: &PageCounts) -> f64 {
        let (_, all) = self.totals(pages);
        let half_width = predict::half_width(
            (&self.contents, pages.unique),
            (&self.repeats, pages.duplicate),
            &self.overlap,
        );
        half_width / all.bytes.max(1.0)
    }
}

pub(crate) fn codec_result(
    candidate: &Candidate,
    measured: &CodecSums,
    pages: &PageCounts,
    shares: u64,
    pool: &PoolModel,
    machine: &MachineFacts,
) -> CodecResult {
    let geometry = &pool.geometry;
    let shared = shares * SHARE_BYTES;
    let (contents, all) = measured.totals(pages);
    let compressed = all.bytes.round() as u64;
    let memory_used = all.memory_used(geometry);
    let melded_compressed = contents.bytes.round() as u64;
    let melded_used = contents.memory_used(geometry) + shared;
    let page = u64::from(geometry.page_size());
    // Of pages of which none was compressed nothing is known.
    let ratio = match compressed {
        0 => 0.0,
        bytes => (pages.compressible() * page) as f64 / bytes as f64,
    };
    let given = match all.pages == 0.0 && pages.compressible() > 0 {
        true => 0,
        false => pages.given(!pool.swap_keeps_zeros),
    };
    let credited = given * page;
    let at_scale = all.memory_at_scale(geometry);
    let melded_at_scale = contents.memory_at_scale(geometry) + shared as f64;
    let effective = credited as f64 / at_scale.max(1.0);
    CodecResult {
        codec: candidate.name.clone(),
        offered: machine
            .facts
            .offers(RamDriver::Zram, candidate.codec.name()),
        pages_measured: (measured.contents.pages + measured.repeats.pages).round() as u64,
        compressed_bytes: compressed,
        memory_used_bytes: memory_used,
        melded_compressed_bytes: melded_compressed,
        melded_memory_used_bytes: melded_used,
        incompressible_pages: all.raw.round() as u64,
        melded_incompressible_pages: contents.raw.round() as u64,
        pages_by_size: all.by_size.map(|count| count.round() as u64).to_vec(),
        ratio,
        ratio_interval: ratio * measured.interval(pages),
        memory_at_scale_bytes: at_scale.round() as u64,
        melded_memory_at_scale_bytes: melded_at_scale.round() as u64,
        effective_ratio: effective,
        times: CodecTimes::of(&measured.compress, &measured.decompress, geometry),
        gains: gains(machine.ram_bytes, page, credited, at_scale, melded_at_scale),
    }
}

fn gains(ram: u64, page: u64, credited: u64, at_scale: f64, melded_at_scale: f64) -> Vec<Gain> {
    if credited == 0 {
        return Vec::new();
    }
    // The ratio that advice counts on, so that table and advice say the same.
    let stored = 1.0 / size::rounded(credited as f64 / at_scale.max(1.0)).max(1.0);
    let melded = stored * melded_at_scale / at_scale.max(1.0);
    let gain = |percent: u32| {
        let disksize = ram / 100 * u64::from(percent) / page * page;
        let table = |driver| SlotTable::new(driver, meld::advised(driver), page);
        let gained = size::gained(table(RamDriver::Zram), disksize, stored);
        let melded_gained = size::gained(table(RamDriver::Zmeld), disksize, melded);
        Gain {
            disksize_percent: percent,
            disksize_bytes: disksize,
            memory_bytes: (disksize as i64 - gained) as u64,
            gained_bytes: gained,
            melded_gained_bytes: melded_gained,
            holds_bytes: ram as i64 + gained,
        }
    };
    // All sizes that are advised.
    [25, 50, 75, 100].map(gain).to_vec()
}

/// The sample, and the precision of its ratios.
pub(crate) fn sample_result(
    full: bool,
    (contents_measured, contents): (u64, u64),
    codecs: &[CodecResult],
) -> SampleResult {
    let interval = codecs
        .iter()
        .map(|codec| codec.ratio_interval / codec.ratio.max(f64::MIN_POSITIVE))
        .fold(0.0, f64::max);
    SampleResult {
        // A sample of all is none.
        full: full || contents_measured >= contents && interval == 0.0,
        contents_measured,
        interval,
    }
}

pub(crate) fn cold(visit: &Visit) -> Option<ColdResult> {
    let cold = visit.cold.as_ref()?;
    let total = cold.total();
    Some(ColdResult {
        precision: match cold.coldness {
            Coldness::PerPage => "page",
            Coldness::PerMapping => "mapping",
        }
        .to_owned(),
        seconds: cold.waited.as_secs_f64(),
        by_kind: cold
            .pages
            .iter()
            .map(|(kind, pages)| {
                let counts = [pages.resident, pages.cold, pages.delivered];
                (kind.as_str().to_owned(), counts)
            })
            .collect(),
        total: [total.resident, total.cold, total.delivered],
    })
}

pub(crate) fn skipped(visit: &Visit) -> Vec<SkippedResult> {
    visit
        .skipped
        .iter()
        .filter(|(_, skipped)| *skipped != Skipped::default())
        .map(|(reason, skipped)| SkippedResult {
            reason: reason.to_string(),
            skipped,
        })
        .collect()
}
