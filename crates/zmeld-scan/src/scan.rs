//! The scan: reads a source, looks at every page, and draws the conclusions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use xxhash_rust::xxh3::xxh3_128_with_seed;
use zmeld_memory::{Batch, Coldness, Counted, Note, SkipReason, Source, Visit};
use zmeld_store::{fill_word, page_size, CodecError, FingerprintKey, StoreError};

use zmeld_advice::size;

use crate::advice;
use crate::codecs::{Candidate, CodecMeasurement};
use crate::contents::{Contents, PageOrigin, PageRecord, RecordBuffers, SortedContents};
use crate::duplicates::Counter;
use crate::histogram::Histogram;
use crate::kernel::PoolModel;
use crate::machine::MachineFacts;
use crate::predict::{self, CompressionSums, Overlap};
use crate::result::{
    CodecResult, ColdResult, Gain, PageCounts, SampleResult, ScanResult, SkippedResult,
};
use crate::sample::Sampler;

/// Distinct contents in a sample: enough for half an interval of 1 % of the
/// ratio where sizes spread by up to 0.85 of their mean (binaries, heaps and
/// text together reach 0.5 to 0.8).
const SAMPLE_TARGET: usize = 28_000;

/// Half a 95 % confidence interval of a ratio, as a share of it, that a sample is
/// to reach.
const INTERVAL_MAX: f64 = 0.01;

/// What a scan is asked for.
#[derive(Clone, Debug)]
pub struct ScanOptions {
    /// Codecs to measure.
    pub codecs: Vec<Candidate>,
    /// Compress every distinct content, not a sample.
    pub full: bool,
    /// Threads that read and compress.
    pub threads: usize,
    /// RAM that gains are for, in bytes; `None`: this machine's.
    pub ram_bytes: Option<u64>,
    /// How many of the largest groups of equal pages to name.
    pub groups: usize,
    /// Pages swapped out, and as many in, that costs are given for: decimal MB a second.
    pub swap_mb_per_s: f64,
    /// The kernel's pool; `None`: the running kernel's.
    pub pool: Option<PoolModel>,
    /// Distinct contents in a first sample.
    pub sample: usize,
    /// Half a 95 % confidence interval of the ratio, as a share of it, that a
    /// sample is to reach; where the first one misses it, a larger one is drawn.
    pub interval_max: f64,
    /// What the hashes, and so the sample, depend on; `None`: chance. With one
    /// thread the same seed draws the same sample.
    pub seed: Option<u64>,
    /// Paths of the swap areas that zmeld set up: what is recommended replaces
    /// nothing of zmeld's own.
    pub own_swaps: Vec<String>,
}

impl ScanOptions {
    /// These codecs on a sample, one thread a processor.
    pub fn new(codecs: Vec<Candidate>) -> ScanOptions {
        ScanOptions {
            codecs,
            full: false,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: None,
            groups: 10,
            swap_mb_per_s: 100.0,
            pool: None,
            sample: SAMPLE_TARGET,
            interval_max: INTERVAL_MAX,
            seed: None,
            own_swaps: Vec::new(),
        }
    }
}

/// Why a scan has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] zmeld_memory::Error),
    /// A codec cannot be had.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The store has no memory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page did not come back as it was. This must never happen.
    #[error("{codec} did not give a page back as it was: do not use it, and please report this")]
    Integrity {
        /// The codec.
        codec: String,
    },
    /// Every process that was asked for belongs to somebody else.
    #[error(
        "no memory could be read: {processes} {} not permitted to this user; {}",
        if *processes == 1 { "process is" } else { "processes are" },
        advice::way_to_read(*is_root)
    )]
    NotPermitted {
        /// How many there are.
        processes: u64,
        /// Whether root asked.
        is_root: bool,
    },
    /// The source's pages are not those that this build predicts for.
    #[error(
        "{source_name} has pages of {found} bytes, and this zmeld predicts for pages of {expected}: \
         build it with ZMELD_PAGE_SHIFT={shift}"
    )]
    PageSize {
        /// The source.
        source_name: String,
        /// Its pages.
        found: usize,
        /// This build's.
        expected: usize,
        /// What to build with.
        shift: u32,
    },
}

fn check_page_size(source: &dyn Source) -> Result<(), ScanError> {
    if source.page_size() == page_size() {
        return Ok(());
    }
    Err(ScanError::PageSize {
        source_name: source.describe(),
        found: source.page_size(),
        expected: page_size(),
        shift: source.page_size().trailing_zeros(),
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

/// How far a scan is; another thread may look at it at any time.
#[derive(Debug, Default)]
pub struct ScanProgress {
    done: AtomicU64,
    expected: AtomicU64,
    phase: AtomicU64,
}

impl ScanProgress {
    /// Pages looked at in this phase.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Pages expected in this phase, where that is known.
    pub fn expected(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|&pages| pages > 0)
    }

    /// Which reading this is, from 1; 0 before the first.
    pub fn phase(&self) -> u64 {
        self.phase.load(Ordering::Relaxed)
    }

    /// A new phase begins, of so many pages where that is known.
    pub fn start(&self, expected: Option<u64>) {
        self.done.store(0, Ordering::Relaxed);
        self.expected
            .store(expected.unwrap_or(0), Ordering::Relaxed);
        self.phase.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more pages are done.
    pub fn advance(&self, pages: usize) {
        self.done.fetch_add(pages as u64, Ordering::Relaxed);
    }
}

/// Workers' states, taken by whichever thread has a batch.
pub(crate) struct Workers<W> {
    idle: Mutex<Vec<W>>,
}

impl<W> Workers<W> {
    pub fn new() -> Workers<W> {
        Workers {
            idle: Mutex::new(Vec::new()),
        }
    }

    pub fn give(&self, worker: W) {
        self.idle.lock().expect("no panic").push(worker);
    }

    /// Runs `work` with a state that nobody else has.
    pub fn with<E>(
        &self,
        make: impl FnOnce() -> Result<W, E>,
        work: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), E> {
        let idle = self.idle.lock().expect("no panic").pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => make()?,
        };
        let result = work(&mut worker);
        self.give(worker);
        result
    }

    pub fn into_all(self) -> Vec<W> {
        self.idle.into_inner().expect("no panic")
    }
}

/// What one thread has at hand and has counted.
struct ScanWorker {
    outgoing: RecordBuffers,
    benches: Vec<CodecMeasurement>,
    fingerprints: Histogram,
    zero: u64,
    same_filled: u64,
    /// Second reading: by codec, over contents and over repeats.
    tallies: Vec<(CompressionSums, CompressionSums)>,
    contents_measured: u64,
}

/// What all threads share.
struct ScanShared<'a> {
    candidates: &'a [Candidate],
    pool: &'a PoolModel,
    key: FingerprintKey,
    seed: u64,
    contents: Contents,
    sampler: Sampler,
    workers: Workers<ScanWorker>,
    failure: Mutex<Option<ScanError>>,
    stop: &'a AtomicBool,
    progress: &'a ScanProgress,
}

impl ScanShared<'_> {
    fn make_worker(&self) -> Result<ScanWorker, ScanError> {
        let geometry = &self.pool.geometry;
        let bench = |candidate| CodecMeasurement::new(candidate, geometry.huge_size());
        Ok(ScanWorker {
            outgoing: RecordBuffers::new(),
            benches: self
                .candidates
                .iter()
                .map(bench)
                .collect::<Result<_, _>>()?,
            fingerprints: Histogram::new(),
            zero: 0,
            same_filled: 0,
            tallies: self
                .candidates
                .iter()
                .map(|_| {
                    (
                        CompressionSums::new(geometry),
                        CompressionSums::new(geometry),
                    )
                })
                .collect(),
            contents_measured: 0,
        })
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
        let result = self.workers.with(
            || self.make_worker(),
            |worker| {
                for (at, page) in batch.bytes.chunks_exact(page_size()).enumerate() {
                    let shared = batch.maybe_shared.is_some_and(|shared| shared[at]);
                    let number = batch.first_page + at as u64;
                    work(worker, page, PageOrigin::new(batch.region, number, shared))?;
                }
                Ok(())
            },
        );
        self.progress.advance(batch.bytes.len() / page_size());
        if let Err(err) = result {
            let mut failure = self.failure.lock().expect("no panic");
            failure.get_or_insert(err);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn failed(&self) -> Result<(), ScanError> {
        match self.failure.lock().expect("no panic").take() {
            Some(err) => Err(err),
            None => Ok(()),
        }
    }

    /// First reading: every page is hashed; the sample's are compressed.
    fn read_page(
        &self,
        worker: &mut ScanWorker,
        page: &[u8],
        origin: PageOrigin,
    ) -> Result<(), ScanError> {
        match fill_word(page) {
            Some(0) => {
                worker.zero += 1;
                return Ok(());
            }
            Some(_) => {
                worker.same_filled += 1;
                return Ok(());
            }
            None => {}
        }
        let hash = self.hash(page);
        self.contents
            .add(&mut worker.outgoing, PageRecord::new(hash, origin));
        self.sample(worker, page, hash)
    }

    /// Compresses a page if it is in the sample.
    fn sample(&self, worker: &mut ScanWorker, page: &[u8], hash: u128) -> Result<(), ScanError> {
        let Some(choice) = self.sampler.choose(hash) else {
            return Ok(());
        };
        self.sampler.take(&choice, || {
            let begin = Instant::now();
            std::hint::black_box(self.key.fingerprint(page));
            worker.fingerprints.add(begin.elapsed().as_nanos() as u64);
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
        let Some(first) = group.first() else {
            return Ok(());
        };
        if first.origin.place() != origin.place() {
            return Ok(());
        }
        let (pages, _) = counter.pages(group);
        worker.contents_measured += 1;
        for (bench, (contents, repeats)) in worker.benches.iter_mut().zip(&mut worker.tallies) {
            let size = bench.measure(page)?;
            contents.add(&self.pool.geometry, size, 1.0);
            repeats.add(&self.pool.geometry, size, (pages - 1) as f64);
        }
        Ok(())
    }
}

/// What is known of one codec when all reading is done.
struct CodecSums {
    contents: CompressionSums,
    repeats: CompressionSums,
    /// What the two have in common.
    overlap: Overlap,
    compress: Histogram,
    decompress: Histogram,
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
    check_page_size(source)?;
    let begin = Instant::now();
    let machine = MachineFacts::here();
    let pool = options
        .pool
        .clone()
        .unwrap_or_else(|| PoolModel::running(&machine.kernel, page_size() as u32));
    let candidates = &options.codecs;
    let seed = options.seed.unwrap_or_else(random_seed);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&seed.to_ne_bytes());
    let expected = source.expected_pages();
    let mut shared = ScanShared {
        candidates,
        pool: &pool,
        key: FingerprintKey::new(&key)?,
        seed,
        contents: Contents::new(),
        sampler: Sampler::new(options.sample, expected),
        workers: Workers::new(),
        failure: Mutex::new(None),
        stop,
        progress,
    };
    // A codec that has no memory is told before anything is read.
    shared.workers.give(shared.make_worker()?);
    progress.start(expected);
    let visit = source.visit(options.threads, stop, &|batch| {
        shared.batch(batch, |worker, page, origin| {
            shared.read_page(worker, page, origin)
        });
    })?;
    shared.failed()?;
    check_permitted(&visit)?;

    let mut idle = std::mem::take(shared.workers.idle.get_mut().expect("no panic"));
    for worker in &mut idle {
        shared.contents.flush(&mut worker.outgoing);
    }
    let contents = std::mem::replace(&mut shared.contents, Contents::new());
    let sorted = contents.sort(options.threads);
    *shared.workers.idle.get_mut().expect("no panic") = idle;
    let counter = Counter::new(&visit.regions);
    // A sample of everything needs no second reading.
    let sampled_all = shared.sampler.is_complete();
    let again = !sampled_all && !visit.interrupted && source.can_revisit();
    let second = options.full && again;
    if second {
        progress.start(Some(visit.counted.delivered));
        source.visit(options.threads, stop, &|batch| {
            shared.batch(batch, |worker, page, origin| {
                shared.compress(worker, &sorted, &counter, page, origin)
            });
        })?;
        shared.failed()?;
    }
    let stopped = visit.interrupted || stop.load(Ordering::Relaxed);
    if !second && again && !stopped {
        enlarge_sample(source, options, &mut shared, &sorted)?;
    }
    let stopped = stopped || stop.load(Ordering::Relaxed);

    let workers = std::mem::replace(&mut shared.workers, Workers::new()).into_all();
    let pages = count_pages(&workers, &sorted, &counter);
    let duplicates = counter.analyse(&sorted, options.groups);
    let fingerprint_ns = fingerprint_time(&workers, &shared.key);
    let full = !stopped && (second || sampled_all);
    let contents_measured = if full && second {
        workers.iter().map(|worker| worker.contents_measured).sum()
    } else {
        shared.sampler.measured()
    };
    let group_pages = |hash| counter.pages(sorted.find(hash)).0;
    let measured = gather(workers, &shared, full && second, &group_pages);
    let ram_bytes = options.ram_bytes.unwrap_or(machine.ram_bytes);
    let codecs: Vec<CodecResult> = candidates
        .iter()
        .zip(&measured)
        .map(|(candidate, measured)| {
            codec_result(candidate, measured, &pages, &pool, ram_bytes, &machine)
        })
        .collect();
    let interval = codecs
        .iter()
        .map(|codec| codec.ratio_interval / codec.ratio.max(f64::MIN_POSITIVE))
        .fold(0.0, f64::max);
    let mut notes: Vec<String> = visit.notes.iter().map(ToString::to_string).collect();
    if options.full && !full && !stopped {
        notes.push(
            "a stream can be read only once, so this is a sample: give a file for a full scan"
                .to_owned(),
        );
    }
    let mut result = ScanResult {
        source: source.describe(),
        page_size: page_size() as u64,
        interrupted: stopped,
        pages,
        memory: memory(&visit.counted),
        duplicates,
        sample: SampleResult {
            full,
            contents_measured,
            pages_changed: if full {
                pages.unique.saturating_sub(contents_measured)
            } else {
                0
            },
            interval,
        },
        codecs,
        cold: cold(&visit),
        skipped: skipped(&visit),
        notes,
        ram_bytes,
        zero_pages_credited: !pool.swap_keeps_zeros,
        pool_chain: pool.chain,
        fingerprint_ns,
        machine,
        threads: options.threads,
        ..ScanResult::default()
    };
    let measured = advice::measured(&result, options.swap_mb_per_s);
    result.recommendation = advice::recommendation(&result, &measured, &options.own_swaps);
    result.recommended = match &measured {
        zmeld_advice::CodecVerdict::Codec { name, .. } => Some(name.clone()),
        _ => None,
    };
    result.advice = advice::advise(&result, &measured, options.swap_mb_per_s);
    let refused = visit.skipped.get(SkipReason::Permission);
    if refused.processes > 0 && visit.notes.contains(&Note::NoFrameNumbers) {
        let bytes = refused.pages * page_size() as u64;
        result.advice.push(advice::others_processes(
            refused.processes,
            bytes,
            is_root(),
        ));
    }
    result.seconds = begin.elapsed().as_secs_f64();
    Ok(result)
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
    let pages = PageCounts {
        unique: sorted.groups().count() as u64,
        ..PageCounts::default()
    };
    let pages = PageCounts {
        duplicate: population - pages.unique,
        ..pages
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
    let drawn = shared.sampler.measured();
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
        pages.duplicate += counter.pages(group).0 - 1;
    }
    pages.total = pages.zero + pages.same_filled + pages.compressible();
    pages
}

/// Median time of a fingerprint; measured here where no sample was taken.
fn fingerprint_time(workers: &[ScanWorker], key: &FingerprintKey) -> u64 {
    let mut times = Histogram::new();
    for worker in workers {
        times.merge(&worker.fingerprints);
    }
    if times.quantile(0.5) == 0 {
        let page = vec![1; page_size()];
        for _ in 0..200 {
            let begin = Instant::now();
            std::hint::black_box(key.fingerprint(&page));
            times.add(begin.elapsed().as_nanos() as u64);
        }
    }
    times.quantile(0.5)
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

impl CodecSums {
    /// The two sums for all pages: distinct contents, and all of them.
    fn totals(&self, pages: &PageCounts) -> (CompressionSums, CompressionSums) {
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
    fn interval(&self, pages: &PageCounts) -> f64 {
        let (_, all) = self.totals(pages);
        let half_width = predict::half_width(
            (&self.contents, pages.unique),
            (&self.repeats, pages.duplicate),
            &self.overlap,
        );
        half_width / all.bytes.max(1.0)
    }
}

fn codec_result(
    candidate: &Candidate,
    measured: &CodecSums,
    pages: &PageCounts,
    pool: &PoolModel,
    ram_bytes: u64,
    machine: &MachineFacts,
) -> CodecResult {
    let geometry = &pool.geometry;
    let (contents, all) = measured.totals(pages);
    let compressed = all.bytes.round() as u64;
    let memory_used = all.memory_used(geometry);
    let melded_compressed = contents.bytes.round() as u64;
    let melded_used = contents.memory_used(geometry);
    let page = page_size() as u64;
    let ratio = (pages.compressible() * page) as f64 / compressed.max(1) as f64;
    let credited = credited_pages(pages, pool) * page;
    let at_scale = all.memory_at_scale(geometry);
    let melded_at_scale = contents.memory_at_scale(geometry);
    let effective = credited as f64 / at_scale.max(1.0);
    let melded_effective = credited as f64 / melded_at_scale.max(1.0);
    CodecResult {
        codec: candidate.name.clone(),
        offered: machine.offers(candidate.codec.name()),
        pages_measured: (measured.contents.pages + measured.repeats.pages).round() as u64,
        compressed_bytes: compressed,
        memory_used_bytes: memory_used,
        melded_compressed_bytes: melded_compressed,
        melded_memory_used_bytes: melded_used,
        incompressible_pages: all.raw.round() as u64,
        ratio,
        ratio_interval: ratio * measured.interval(pages),
        memory_at_scale_bytes: at_scale.round() as u64,
        melded_memory_at_scale_bytes: melded_at_scale.round() as u64,
        effective_ratio: effective,
        melded_effective_ratio: melded_effective,
        compress_mb_per_s: measured.compress.mb_per_s(page_size()),
        decompress_mb_per_s: measured.decompress.mb_per_s(page_size()),
        compress_ns_median: measured.compress.quantile(0.5),
        compress_ns_p99: measured.compress.quantile(0.99),
        decompress_ns_median: measured.decompress.quantile(0.5),
        decompress_ns_p99: measured.decompress.quantile(0.99),
        gains: gains(ram_bytes, credited, at_scale, melded_at_scale),
    }
}

/// Pages that a device would be given: not zeros where the kernel keeps those.
fn credited_pages(pages: &PageCounts, pool: &PoolModel) -> u64 {
    if pool.swap_keeps_zeros {
        pages.total - pages.zero
    } else {
        pages.total
    }
}

fn gains(ram: u64, credited: u64, at_scale: f64, melded_at_scale: f64) -> Vec<Gain> {
    if credited == 0 {
        return Vec::new();
    }
    // The ratio that advice counts on, so that table and advice say the same.
    let stored = 1.0 / size::rounded(credited as f64 / at_scale.max(1.0)).max(1.0);
    let melded = stored * melded_at_scale / at_scale.max(1.0);
    let page = page_size() as u64;
    let gain = |percent: u32| {
        let disksize = ram / 100 * u64::from(percent) / page * page;
        let gained = size::gained(disksize, stored, page);
        let melded_gained = size::gained(disksize, melded, page);
        Gain {
            disksize_percent: percent,
            disksize_bytes: disksize,
            memory_bytes: (disksize as i64 - gained) as u64,
            gained_bytes: gained,
            melded_gained_bytes: melded_gained,
            holds_bytes: ram as i64 + gained,
            melded_holds_bytes: ram as i64 + melded_gained,
        }
    };
    [25, 50, 100].map(gain).to_vec()
}

fn memory(counted: &Counted) -> BTreeMap<String, u64> {
    [
        ("delivered", counted.delivered),
        ("anon_present", counted.anon_present),
        ("anon_swapped", counted.anon_swapped),
        ("shmem_present", counted.shmem_present),
        ("shmem_swapped", counted.shmem_swapped),
        ("file_present", counted.file_present),
        ("shared_again", counted.shared_again),
        ("zero_mapped", counted.zero_mapped),
        ("ksm", counted.ksm),
        ("huge", counted.huge),
        ("locked", counted.locked),
        ("swap_slots", counted.swap_slots),
        ("padded", counted.padded),
        ("processes", counted.processes),
    ]
    .into_iter()
    .map(|(name, pages)| (name.to_owned(), pages))
    .collect()
}

fn cold(visit: &Visit) -> Option<ColdResult> {
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

fn skipped(visit: &Visit) -> Vec<SkippedResult> {
    visit
        .skipped
        .iter()
        .filter(|(_, skipped)| skipped.processes + skipped.regions + skipped.pages > 0)
        .map(|(reason, skipped)| SkippedResult {
            reason: reason.to_string(),
            processes: skipped.processes,
            regions: skipped.regions,
            pages: skipped.pages,
        })
        .collect()
}
