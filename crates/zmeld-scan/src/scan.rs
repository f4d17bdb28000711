//! The scan: reads a source, looks at every page, and draws the conclusions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use crate::memory::{Batch, Note, SkipReason, Source, Visit};
use xxhash_rust::xxh3::xxh3_128_with_seed;
use zmeld_linux::Host;
use zmeld_store::{fill_word, page_size, FingerprintKey};

use crate::advice;
use crate::codecs::{Candidate, CodecMeasurement};
use crate::conclude::{codec_result, cold, sample_result, skipped, CodecSums};
use crate::contents::{Contents, PageOrigin, PageRecord, SortedContents};
use crate::duplicates::Counter;
use crate::error::ScanError;
use crate::facts::MachineFacts;
use crate::histogram::Histogram;
use crate::kernel::PoolModel;
use crate::predict::CompressionSums;
use crate::programs::programs;
use crate::progress::ScanProgress;
use crate::result::{CodecResult, PageCounts, ScanResult};
use crate::sample::Sampler;

/// Distinct contents in a sample: enough for half an interval of 1 % of the
/// ratio where sizes spread by up to 0.85 of their mean (binaries, heaps and
/// text together reach 0.5 to 0.8).
const SAMPLE_TARGET: usize = 28_000;

/// Half a 95 % confidence interval of a ratio, as a share of it, that a sample is
/// to reach.
const INTERVAL_MAX: f64 = 0.01;

#[derive(Clone)]
pub struct ScanOptions {
    pub codecs: Vec<Candidate>,
    /// Compress every distinct content, not a sample.
    pub full: bool,
    /// Threads that read and compress.
    pub threads: usize,
    /// Distinct contents in a first sample.
    pub sample: usize,
    /// Half a 95 % confidence interval of the ratio, as a share of it, that a
    /// sample is to reach; where the first one misses it, a larger one is drawn.
    pub interval_max: f64,
    /// Seed of the hashes, and so of the sample; `None`: chance. With one thread the same seed
    /// draws the same sample.
    pub seed: Option<u64>,
    /// Paths of the swap areas that zmeld set up: what is recommended replaces
    /// nothing of zmeld's own.
    pub own_swaps: Vec<String>,
    /// The machine that it predicts for.
    pub host: Host,
}

impl ScanOptions {
    /// These codecs on a sample, one thread a processor.
    pub fn new(codecs: Vec<Candidate>) -> ScanOptions {
        ScanOptions {
            codecs,
            full: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            sample: SAMPLE_TARGET,
            interval_max: INTERVAL_MAX,
            seed: None,
            own_swaps: Vec::new(),
            host: Host::here(),
        }
    }
}

/// The sizes that kernels' pages have.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 4096..=65536;

/// Bytes of the source's pages, which are those that are predicted for.
fn page_size_of(source: &dyn Source) -> Result<usize, ScanError> {
    let found = source.page_size();
    if found.is_power_of_two() && PAGE_SIZES.contains(&found) && found >= page_size() {
        return Ok(found);
    }
    Err(ScanError::PageSize {
        source_name: source.describe(),
        found,
    })
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// An ordinary user without a process to read has asked for what only root can give.
fn check_permitted(visit: &Visit) -> Result<(), ScanError> {
    let refused = visit.skipped.get(SkipReason::Permission).processes;
    if refused > 0 && visit.counted.processes == 0 && visit.counted.delivered == 0 {
        return Err(ScanError::NotPermitted {
            processes: refused,
            is_root: is_root(),
        });
    }
    Ok(())
}

struct ScanWorker {
    benches: Vec<CodecMeasurement>,
    zero: u64,
    same_filled: u64,
    /// Second reading: by codec, over contents and over repeats.
    tallies: Vec<(CompressionSums, CompressionSums)>,
    contents_measured: u64,
}

struct ScanShared<'a> {
    candidates: &'a [Candidate],
    pool: &'a PoolModel,
    seed: u64,
    contents: Contents,
    sampler: Sampler,
    /// Those that no thread has just now: each batch takes one, and gives it back.
    workers: Mutex<Vec<ScanWorker>>,
    failure: Mutex<Option<ScanError>>,
    stop: &'a AtomicBool,
    progress: &'a ScanProgress,
}

impl<'a> ScanShared<'a> {
    /// With one worker: a codec that has no memory is told before anything is read.
    fn new(
        options: &'a ScanOptions,
        pool: &'a PoolModel,
        expected: Option<u64>,
        stop: &'a AtomicBool,
        progress: &'a ScanProgress,
    ) -> Result<ScanShared<'a>, ScanError> {
        let seed = options.seed.unwrap_or_else(random_seed);
        let mut shared = ScanShared {
            candidates: &options.codecs,
            pool,
            seed,
            contents: Contents::new(),
            sampler: Sampler::new(options.sample, expected),
            workers: Mutex::new(Vec::new()),
            failure: Mutex::new(None),
            stop,
            progress,
        };
        let worker = shared.make_worker()?;
        shared.idle_workers().push(worker);
        Ok(shared)
    }

    fn idle_workers(&mut self) -> &mut Vec<ScanWorker> {
        self.workers.get_mut().expect("no panic")
    }

    fn make_worker(&self) -> Result<ScanWorker, ScanError> {
        let geometry = &self.pool.geometry;
        let sums = || CompressionSums::new(geometry);
        let benches = self.candidates.iter();
        let benches = benches.map(|candidate| CodecMeasurement::new(candidate, geometry));
        Ok(ScanWorker {
            benches: benches.collect::<Result<_, _>>()?,
            zero: 0,
            same_filled: 0,
            tallies: self.candidates.iter().map(|_| (sums(), sums())).collect(),
            contents_measured: 0,
        })
    }

    fn first_reading(
        &self,
        source: &dyn Source,
        threads: usize,
        expected: Option<u64>,
    ) -> Result<Visit, ScanError> {
        self.progress.start(expected);
        let visit = source.visit(threads, self.stop, &|batch| {
            self.batch(batch, |worker, page, origin| {
                self.read_page(worker, page, origin)
            });
        })?;
        self.failed()?;
        check_permitted(&visit)?;
        Ok(visit)
    }

    /// The noted pages, sorted so that equal ones stand together.
    fn sort(&mut self, threads: usize) -> SortedContents {
        std::mem::replace(&mut self.contents, Contents::new()).sort(threads)
    }

    fn hash(&self, page: &[u8]) -> u128 {
        xxh3_128_with_seed(page, self.seed)
    }

    /// Works through a batch; the first failure stops everybody.
    fn batch(
        &self,
        batch: Batch<'_>,
        work: impl Fn(&mut ScanWorker, &[u8], PageOrigin) -> Result<(), ScanError>,
    ) {
        let page_size = self.pool.geometry.page_size() as usize;
        let idle = self.workers.lock().expect("no panic").pop();
        let worker = idle.map_or_else(|| self.make_worker(), Ok);
        let result = worker.and_then(|mut worker| {
            let mut pages = batch.bytes.chunks_exact(page_size).enumerate();
            let result = pages.try_for_each(|(at, page)| {
                let shared = batch.maybe_shared.is_some_and(|shared| shared[at]);
                let number = batch.first_page + at as u64;
                let origin = PageOrigin::new(batch.region, number, shared);
                work(&mut worker, page, origin)
            });
            self.workers.lock().expect("no panic").push(worker);
            result
        });
        self.progress.advance(batch.bytes.len() / page_size);
        if let Err(err) = result {
            let mut failure = self.failure.lock().expect("no panic");
            failure.get_or_insert(err);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn failed(&self) -> Result<(), ScanError> {
        let failure = self.failure.lock().expect("no panic").take();
        failure.map_or(Ok(()), Err)
    }

    /// First reading: every page is hashed; the sample's are compressed.
    fn read_page(
        &self,
        worker: &mut ScanWorker,
        page: &[u8],
        origin: PageOrigin,
    ) -> Result<(), ScanError> {
        if let Some(word) = fill_word(page) {
            match word {
                0 => worker.zero += 1,
                _ => worker.same_filled += 1,
            }
            return Ok(());
        }
        let hash = self.hash(page);
        self.contents.add(PageRecord::new(hash, origin));
        self.sample(worker, page, hash)
    }

    /// Compresses a page if it is in the sample.
    fn sample(&self, worker: &mut ScanWorker, page: &[u8], hash: u128) -> Result<(), ScanError> {
        let Some(choice) = self.sampler.choose(hash) else {
            return Ok(());
        };
        self.sampler.take(&choice, || {
            worker
                .benches
                .iter_mut()
                .map(|bench| bench.measure(page))
                .collect::<Result<_, _>>()
        })
    }

    /// Second reading: the first page of each content is compressed for all.
    fn compress(
        &self,
        worker: &mut ScanWorker,
        sorted: &SortedContents,
        counter: &Counter<'_>,
        page: &[u8],
        origin: PageOrigin,
    ) -> Result<(), ScanError> {
        if fill_word(page).is_some() {
            return Ok(());
        }
        let group = sorted.find(self.hash(page));
        let is_first = |first: &PageRecord| first.origin.place() == origin.place();
        if !group.first().is_some_and(is_first) {
            return Ok(());
        }
        let pages = counter.pages(group);
        worker.contents_measured += 1;
        for (bench, (contents, repeats)) in worker.benches.iter_mut().zip(&mut worker.tallies) {
            let size = bench.measure(page)?;
            contents.add(&self.pool.geometry, size, 1.0);
            repeats.add(&self.pool.geometry, size, (pages - 1) as f64);
        }
        Ok(())
    }
}

/// Reads a source and says what a store would save on its pages.
///
/// When `stop` is set, by somebody or by a failure, reading ends soon; the
/// result then is of what was read, and says so.
///
/// # Errors
/// When the source cannot be read at all, a codec cannot be had, or a page does
/// not survive its round trip.
pub fn scan(
    source: &dyn Source,
    options: &ScanOptions,
    stop: &AtomicBool,
    progress: &ScanProgress,
) -> Result<ScanResult, ScanError> {
    let page_size = page_size_of(source)?;
    let begin = Instant::now();
    let machine = MachineFacts::look(&options.host);
    let pool = PoolModel::running(&machine.kernel, page_size as u32);
    let candidates = &options.codecs;
    let expected = source.expected_pages();
    let mut shared = ScanShared::new(options, &pool, expected, stop, progress)?;
    let visit = shared.first_reading(source, options.threads, expected)?;
    let sorted = shared.sort(options.threads);
    let counter = Counter::new(&visit.regions);
    let (second, full, stopped) =
        second_reading(source, options, &mut shared, &visit, &sorted, &counter)?;

    let workers = std::mem::take(shared.idle_workers());
    let pages = count_pages(&workers, &sorted, &counter);
    let (duplicates, tallies) = counter.analyse(&sorted);
    let fingerprint_ns = fingerprint_time(page_size)?;
    let contents_measured = match full && second {
        true => workers.iter().map(|worker| worker.contents_measured).sum(),
        false => shared.sampler.measured(),
    };
    let group_pages = |hash| counter.pages(sorted.find(hash));
    let measured = gather(workers, &shared, full && second, &group_pages);
    let codec = |(candidate, measured)| {
        codec_result(
            candidate,
            measured,
            &pages,
            duplicates.groups,
            &pool,
            &machine,
        )
    };
    let codecs: Vec<CodecResult> = candidates.iter().zip(&measured).map(codec).collect();
    let mut result = ScanResult {
        source: source.describe(),
        page_size: page_size as u64,
        interrupted: stopped,
        pages,
        memory: visit.counted.clone(),
        duplicates,
        sample: sample_result(full, (contents_measured, pages.unique), &codecs),
        codecs,
        cold: cold(&visit),
        skipped: skipped(&visit),
        notes: notes(&visit, options.full && !full && !stopped),
        ram_bytes: machine.ram_bytes,
        zero_pages_credited: !pool.swap_keeps_zeros,
        pool_chain: pool.chain,
        fingerprint_ns,
        machine,
        threads: options.threads,
        ..ScanResult::default()
    };
    advise(&mut result, options, &visit);
    let told = result.told_codec().map(|it| it.codec.clone());
    let told = result
        .codecs
        .iter()
        .position(|it| Some(&it.codec) == told.as_ref());
    if let Some(at) = told {
        let sizes = shared.sampler.sizes(at);
        result.programs = programs(
            &options.host,
            &visit.regions,
            &counter,
            (&sorted, tallies),
            (&result.codecs[at], &sizes),
            result.page_size,
        );
    }
    result.seconds = begin.elapsed().as_secs_f64();
    Ok(result)
}

/// Notes on how it was read; `sample_only`: not in full, though that was asked for.
fn notes(visit: &Visit, sample_only: bool) -> Vec<String> {
    let mut notes: Vec<String> = visit.notes.iter().map(ToString::to_string).collect();
    if sample_only {
        notes.push(
            "a stream can be read only once, so this is a sample: give a file for a full scan"
                .to_owned(),
        );
    }
    notes
}

/// Reads again what is to be compressed and was not: everything, where that is asked
/// for, or a larger sample. Whether all was read and compressed a second time, whether every
/// distinct content was compressed, and whether it was stopped before its end.
fn second_reading(
    source: &dyn Source,
    options: &ScanOptions,
    shared: &mut ScanShared<'_>,
    visit: &Visit,
    sorted: &SortedContents,
    counter: &Counter<'_>,
) -> Result<(bool, bool, bool), ScanError> {
    // A sample of everything needs no second reading.
    let sampled_all = shared.sampler.is_complete();
    let again = !sampled_all && !visit.interrupted && source.can_revisit();
    let second = options.full && again;
    if second {
        shared.progress.start(Some(visit.counted.delivered));
        let sharing: &ScanShared<'_> = shared;
        source.visit(options.threads, shared.stop, &|batch| {
            sharing.batch(batch, |worker, page, origin| {
                sharing.compress(worker, sorted, counter, page, origin)
            });
        })?;
        shared.failed()?;
    }
    let is_stopped = |stop: &AtomicBool| visit.interrupted || stop.load(Ordering::Relaxed);
    if !second && again && !is_stopped(shared.stop) {
        enlarge_sample(source, options, shared, sorted)?;
    }
    let stopped = is_stopped(shared.stop);
    Ok((second, !stopped && (second || sampled_all), stopped))
}

fn advise(result: &mut ScanResult, options: &ScanOptions, visit: &Visit) {
    let measured = advice::measured(result);
    result.recommendation = advice::recommendation(result, &measured, &options.own_swaps);
    result.recommended = measured.codec().map(str::to_owned);
    result.advice = advice::advise(result, &measured);
    let refused = visit.skipped.get(SkipReason::Permission);
    if refused.processes > 0 && visit.notes.contains(&Note::NoFrameNumbers) {
        let bytes = refused.pages * result.page_size;
        result.advice.push(advice::others_processes(
            refused.processes,
            bytes,
            is_root(),
        ));
    }
}

/// Reads once more, with a sample large enough, where the first was too small
/// for the interval that is promised: where many pages are same-filled, or sizes
/// spread widely. If it cannot be read to its end again, the first sample stays.
fn enlarge_sample(
    source: &dyn Source,
    options: &ScanOptions,
    shared: &mut ScanShared<'_>,
    sorted: &SortedContents,
) -> Result<(), ScanError> {
    let population = sorted.pages();
    let unique = sorted.groups().count() as u64;
    let pages = PageCounts {
        unique,
        duplicate: population - unique,
        ..PageCounts::default()
    };
    let group_pages = |hash| sorted.find(hash).len() as u64;
    let first = gather(Vec::new(), shared, false, &group_pages);
    let interval = first
        .iter()
        .map(|measured| measured.interval(&pages))
        .fold(0.0, f64::max);
    if interval <= options.interval_max {
        return Ok(());
    }
    let factor = (1.1 * interval / options.interval_max).powi(2);
    // Where many pages are zeros, the first may have none.
    let drawn = shared.sampler.measured().max(1);
    let larger = Sampler::new((drawn as f64 * factor) as usize, Some(population));
    let first = std::mem::replace(&mut shared.sampler, larger);
    shared.progress.start(Some(population));
    let sharing: &ScanShared<'_> = shared;
    let visited = source.visit(options.threads, shared.stop, &|batch| {
        sharing.batch(batch, |worker, page, _| match fill_word(page) {
            Some(_) => Ok(()),
            None => sharing.sample(worker, page, sharing.hash(page)),
        });
    });
    shared.failed()?;
    if visited.map_or(true, |visit| visit.interrupted) {
        shared.sampler = first;
    }
    Ok(())
}

/// A seed that nobody who fills pages can know. The standard library takes its
/// hashers' keys from the system's random numbers.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new()
        .build_hasher()
        .finish()
}

fn count_pages(
    workers: &[ScanWorker],
    sorted: &SortedContents,
    counter: &Counter<'_>,
) -> PageCounts {
    let mut pages = PageCounts {
        zero: workers.iter().map(|worker| worker.zero).sum(),
        same_filled: workers.iter().map(|worker| worker.same_filled).sum(),
        ..PageCounts::default()
    };
    for group in sorted.groups() {
        pages.unique += 1;
        pages.duplicate += counter.pages(group) - 1;
    }
    pages.total = pages.zero + pages.same_filled + pages.compressible();
    pages
}

fn fingerprint_time(page_size: usize) -> Result<u64, ScanError> {
    let key = FingerprintKey::new(&[0; 16])?;
    let page = vec![1; page_size];
    let mut times = Histogram::new();
    for _ in 0..200 {
        let begin = Instant::now();
        std::hint::black_box(key.work(&page));
        times.add(begin.elapsed().as_nanos() as u64);
    }
    Ok(times.quantile(0.5))
}

/// `second`: what the second reading measured counts, not the sample.
fn gather(
    workers: Vec<ScanWorker>,
    shared: &ScanShared<'_>,
    second: bool,
    group_pages: &dyn Fn(u128) -> u64,
) -> Vec<CodecSums> {
    let geometry = &shared.pool.geometry;
    let mut all: Vec<CodecSums> = (0..shared.candidates.len())
        .map(|codec| {
            let sampled = shared.sampler.sampled(geometry, codec, group_pages);
            let none = || CompressionSums::new(geometry);
            CodecSums {
                contents: if second { none() } else { sampled.contents },
                repeats: if second { none() } else { sampled.repeats },
                overlap: sampled.overlap,
                compress: Histogram::new(),
                decompress: Histogram::new(),
            }
        })
        .collect();
    for worker in workers {
        let parts = worker.benches.iter().zip(&worker.tallies);
        for (measured, (bench, (contents, repeats))) in all.iter_mut().zip(parts) {
            measured.compress.merge(&bench.compress);
            measured.decompress.merge(&bench.decompress);
            if second {
                measured.contents.merge(contents);
                measured.repeats.merge(repeats);
            }
        }
    }
    all
}
