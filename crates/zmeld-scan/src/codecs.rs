//! Measuring codecs page by page: size, times, and that what comes back is the page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use serde::Serialize;
use zmeld_memory::Source;
use zmeld_store::{fill_word, page_size, Codec, CodecSpec, Geometry, Stream};

use crate::histogram::Histogram;
use crate::predict::Tally;
use crate::scan::{Progress, ScanError, Workers};

/// A codec as it was asked for, opened.
#[derive(Clone)]
pub(crate) struct Candidate {
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
pub(crate) struct Bench {
    name: String,
    stream: Stream,
    object: Vec<u8>,
    back: Vec<u8>,
    huge_size: usize,
    pub compress: Histogram,
    pub decompress: Histogram,
}

impl Bench {
    pub fn new(candidate: &Candidate, huge_size: u32) -> Result<Bench, ScanError> {
        Ok(Bench {
            name: candidate.name.clone(),
            stream: Stream::new(&candidate.codec)?,
            object: vec![0; 2 * page_size()],
            back: vec![0; page_size()],
            huge_size: huge_size as usize,
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
#[derive(Clone, Debug, Serialize)]
pub struct CodecReport {
    /// The codec, with level and dictionary if they are not the defaults.
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

struct Worker {
    benches: Vec<Bench>,
    tallies: Vec<Tally>,
    same_filled: u64,
}

/// Compresses and decompresses every page of a source with every codec.
/// Returns a report for each and the number of same-filled pages, which a store
/// does not compress.
///
/// # Errors
/// When the source cannot be read, a codec cannot be had, or a page does not
/// come back as it was.
pub fn measure_pages(
    source: &dyn Source,
    specs: &[CodecSpec],
    geometry: &Geometry,
    threads: usize,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<(Vec<CodecReport>, u64), ScanError> {
    crate::scan::check_page_size(source)?;
    let candidates = Candidate::open_all(specs)?;
    progress.start(source.expected_pages());
    let failure = Mutex::new(None);
    let workers = Workers::new();
    // A first worker now, so that a codec that cannot be had is told before reading.
    let make = || -> Result<Worker, ScanError> {
        let bench = |candidate| Bench::new(candidate, geometry.huge_size());
        Ok(Worker {
            benches: candidates.iter().map(bench).collect::<Result<_, _>>()?,
            tallies: candidates.iter().map(|_| Tally::new(geometry)).collect(),
            same_filled: 0,
        })
    };
    workers.give(make()?);
    source.visit(threads, stop, &|batch| {
        let result = workers.with(make, |worker| {
            for page in batch.bytes.chunks_exact(page_size()) {
                if fill_word(page).is_some() {
                    worker.same_filled += 1;
                    continue;
                }
                for (bench, tally) in worker.benches.iter_mut().zip(&mut worker.tallies) {
                    tally.add(geometry, bench.measure(page)?, 1.0);
                }
            }
            Ok(())
        });
        progress.advance(batch.bytes.len() / page_size());
        if let Err(err) = result {
            failure.lock().expect("no panic").get_or_insert(err);
            stop.store(true, Ordering::Relaxed);
        }
    })?;
    if let Some(err) = failure.into_inner().expect("no panic") {
        return Err(err);
    }
    let mut all = workers.into_all();
    let mut sum = all.pop().expect("at least one worker");
    for worker in all {
        sum.same_filled += worker.same_filled;
        for (mine, theirs) in sum.benches.iter_mut().zip(&worker.benches) {
            mine.compress.merge(&theirs.compress);
            mine.decompress.merge(&theirs.decompress);
        }
        for (mine, theirs) in sum.tallies.iter_mut().zip(&worker.tallies) {
            mine.merge(theirs);
        }
    }
    let reports = sum.benches.iter().zip(&sum.tallies);
    Ok((
        reports
            .map(|(bench, tally)| report(bench, tally, geometry))
            .collect(),
        sum.same_filled,
    ))
}

fn report(bench: &Bench, tally: &Tally, geometry: &Geometry) -> CodecReport {
    let bytes = tally.pages * page_size() as f64;
    CodecReport {
        codec: bench.name.clone(),
        pages_measured: tally.pages as u64,
        compressed_bytes: tally.bytes as u64,
        memory_used_bytes: tally.memory_used(geometry),
        ratio: bytes / tally.bytes.max(1.0),
        incompressible_pages: tally.raw as u64,
        compress_mb_per_s: bench.compress.mb_per_s(page_size()),
        decompress_mb_per_s: bench.decompress.mb_per_s(page_size()),
        compress_ns_median: bench.compress.quantile(0.5),
        compress_ns_p99: bench.compress.quantile(0.99),
        decompress_ns_median: bench.decompress.quantile(0.5),
        decompress_ns_p99: bench.decompress.quantile(0.99),
    }
}
