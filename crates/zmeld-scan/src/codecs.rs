//! Measuring codecs page by page: size, times, and that what comes back is the page.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
    /// The codec.
    pub codec: Codec,
}

impl Candidate {
    /// Opens the codec that the spec names.
    pub fn open(spec: &CodecSpec) -> Result<Candidate, ScanError> {
        Ok(Candidate {
            name: spec.to_string(),
            codec: spec.open()?,
        })
    }

    /// Opens all of them.
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
    /// Memory that these take in the kernel's pool.
    pub memory_used_bytes: u64,
    /// Their bytes divided by `compressed_bytes`.
    pub ratio: f64,
    /// Pages that are kept raw.
    pub incompressible_pages: u64,
    /// How long it took.
    #[serde(flatten)]
    pub times: CodecTimes,
}

/// Pages that a thread takes at a time.
const PAGES_AT_ONCE: usize = 16;

/// Compresses and decompresses every page with every codec. `pages` is a whole
/// number of the pages of that geometry; the same-filled ones, which a store does not
/// compress, are passed over.
pub fn measure_pages(
    pages: &[u8],
    candidates: &[Candidate],
    geometry: &Geometry,
    threads: usize,
    stop: &AtomicBool,
    progress: &ScanProgress,
) -> Result<Vec<CodecReport>, ScanError> {
    type Worker = Vec<(CodecMeasurement, CompressionSums)>;
    let page_size = geometry.page_size() as usize;
    let chunks: Vec<&[u8]> = pages.chunks(PAGES_AT_ONCE * page_size).collect();
    progress.start(Some((pages.len() / page_size) as u64));
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let work = || -> Result<Worker, ScanError> {
        let sums = CompressionSums::new(geometry);
        let begin = |candidate| Ok((CodecMeasurement::new(candidate, geometry)?, sums.clone()));
        let mut worker = candidates
            .iter()
            .map(begin)
            .collect::<Result<Worker, ScanError>>()?;
        while !stop.load(Ordering::Relaxed) && !failed.load(Ordering::Relaxed) {
            let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) else {
                break;
            };
            // Codec by codec, so that each finds its tables in the processor's caches, as
            // it would where it is the only one.
            for (bench, tally) in &mut worker {
                let pages = chunk.chunks_exact(page_size);
                for page in pages.filter(|page| fill_word(page).is_none()) {
                    tally.add(geometry, bench.measure(page)?, 1.0);
                }
            }
            progress.advance(chunk.len() / page_size);
        }
        Ok(worker)
    };
    let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    let mut all: Vec<Worker> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let ended = running.into_iter().map(|thread| match thread.join() {
            Ok(worker) => worker,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Result<_, ScanError>>()
    })?;
    let mut sum = all.pop().expect("at least one worker");
    for worker in &all {
        for ((bench, tally), (its_bench, its_tally)) in sum.iter_mut().zip(worker) {
            bench.compress.merge(&its_bench.compress);
            bench.decompress.merge(&its_bench.decompress);
            tally.merge(its_tally);
        }
    }
    let reports = sum.iter();
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
        ratio: bytes / tally.bytes.max(1.0),
        incompressible_pages: tally.raw as u64,
        times: CodecTimes::of(&bench.compress, &bench.decompress, geometry),
    }
}
