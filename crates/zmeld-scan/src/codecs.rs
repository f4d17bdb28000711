//! Measuring codecs page by page: size, times, and that what comes back is the page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::Serialize;
use zmeld_store::{fill_word, Codec, CodecSpec, Geometry, Stream};

use crate::error::ScanError;
use crate::histogram::Histogram;
use crate::predict::CompressionSums;
use crate::progress::ScanProgress;
use crate::result::CodecTimes;

/// A codec to measure, ready, under the name that results call it by.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name: with its level if that is not the default.
    pub name: String,
    pub codec: Codec,
}

impl Candidate {
    pub fn open(spec: &CodecSpec) -> Result<Candidate, ScanError> {
        Ok(Candidate {
            name: spec.to_string(),
            codec: spec.open()?,
        })
    }

    pub fn open_all(specs: &[CodecSpec]) -> Result<Vec<Candidate>, ScanError> {
        specs.iter().map(Candidate::open).collect()
    }
}

/// One worker's context of one codec, with what it has measured so far.
pub struct CodecMeasurement {
    name: String,
    stream: Stream,
    object: Vec<u8>,
    back: Vec<u8>,
    huge_size: usize,
    pub(crate) compress: Histogram,
    pub(crate) decompress: Histogram,
}

impl CodecMeasurement {
    /// A context for pages of that geometry.
    pub fn new(candidate: &Candidate, geometry: &Geometry) -> Result<CodecMeasurement, ScanError> {
        let page_size = geometry.page_size() as usize;
        Ok(CodecMeasurement {
            name: candidate.name.clone(),
            stream: Stream::new(&candidate.codec.for_pages(page_size)?)?,
            object: vec![0; 2 * page_size],
            back: vec![0; page_size],
            huge_size: geometry.huge_size() as usize,
            compress: Histogram::new(),
            decompress: Histogram::new(),
        })
    }

    /// Bytes that the store would keep for the page. The round trip is verified.
    pub fn measure(&mut self, page: &[u8]) -> Result<u32, ScanError> {
        let begin = Instant::now();
        let size = self.stream.compress(page, &mut self.object);
        self.compress.add(nanoseconds(begin));
        let Ok(size) = size else {
            return Ok(page.len() as u32);
        };
        let begin = Instant::now();
        let result = self.stream.decompress(&self.object[..size], &mut self.back);
        self.decompress.add(nanoseconds(begin));
        if result.is_err() || self.back != page {
            return Err(ScanError::Integrity {
                codec: self.name.clone(),
            });
        }
        Ok(if size >= self.huge_size {
            page.len() as u32
        } else {
            size as u32
        })
    }
}

fn nanoseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// How a codec did on the pages of a file, page by page.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct CodecReport {
    /// The codec, with its level if that is not the default.
    pub codec: String,
    /// Pages measured: all but the same-filled ones.
    pub pages_measured: u64,
    /// Bytes that a store keeps for them, incompressible pages whole.
    pub compressed_bytes: u64,
    /// Memory that these take in the kernel's pool, each size class in whole spans.
    pub memory_used_bytes: u64,
    /// Memory that these take in a pool so full that partly filled spans do not count, as a scan
    /// predicts it.
    pub memory_at_scale_bytes: u64,
    /// Their bytes divided by `compressed_bytes`.
    pub ratio: f64,
    /// Pages that are kept raw.
    pub incompressible_pages: u64,
    /// How long it took.
    #[serde(flatten)]
    pub times: CodecTimes,
}

/// Pages that a codec takes at a time.
const PAGES_AT_ONCE: usize = 16;

/// Compresses and decompresses every page with every codec, in this thread alone, so that
/// times are those of an idle machine. `pages` is a whole number of the pages of that
/// geometry; the same-filled ones, which a store does not compress, are passed over.
pub fn measure_pages(
    pages: &[u8],
    candidates: &[Candidate],
    geometry: &Geometry,
    stop: &AtomicBool,
    progress: &ScanProgress,
) -> Result<Vec<CodecReport>, ScanError> {
    let page_size = geometry.page_size() as usize;
    progress.start(Some((pages.len() / page_size) as u64));
    let begin = |candidate| {
        let bench = CodecMeasurement::new(candidate, geometry)?;
        Ok((bench, CompressionSums::new(geometry)))
    };
    let all = candidates.iter().map(begin);
    let mut all = all.collect::<Result<Vec<_>, ScanError>>()?;
    for chunk in pages.chunks(PAGES_AT_ONCE * page_size) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // Codec by codec, so that each finds its tables in the processor's caches, as
        // it would where it is the only one.
        for (bench, tally) in &mut all {
            let pages = chunk.chunks_exact(page_size);
            for page in pages.filter(|page| fill_word(page).is_none()) {
                tally.add(geometry, bench.measure(page)?, 1.0);
            }
        }
        progress.advance(chunk.len() / page_size);
    }
    let reports = all.iter();
    Ok(reports
        .map(|(bench, tally)| report(bench, tally, geometry))
        .collect())
}

fn report(bench: &CodecMeasurement, tally: &CompressionSums, geometry: &Geometry) -> CodecReport {
    let bytes = tally.pages * f64::from(geometry.page_size());
    CodecReport {
        codec: bench.name.clone(),
        pages_measured: tally.pages as u64,
        compressed_bytes: tally.bytes as u64,
        memory_used_bytes: tally.memory_used(geometry),
        memory_at_scale_bytes: tally.memory_at_scale(geometry).round() as u64,
        ratio: bytes / tally.bytes.max(1.0),
        incompressible_pages: tally.raw as u64,
        times: CodecTimes::of(&bench.compress, &bench.decompress, geometry),
    }
}
