//! One reading of live memory: which pages are delivered, and what is counted.
//!
//! Work is split into processes, then mappings, then pieces of a mapping, so
//! that one big process keeps all workers busy. A page is
//! 1. counted by what it is (the page of zeros is memory of nobody and stops here),
//! 2. dropped if its kind was not asked for,
//! 3. dropped if its physical frame was delivered already,
//! 4. read, and delivered.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::cold_pages::ColdSet;
use super::frames::{HeadFinder, PageFlags, SeenFrames};
use super::kinds::KindFilter;
use super::live_memory::LiveMemory;
use super::pagemap::{self, PagemapEntry};
use super::processes::{self, ChosenProcess};
use super::reader;
use crate::memory::buffer::Buffer;
use crate::memory::work;
use crate::memory::{
    Batch, ColdPages, ColdReport, Counted, Error, Note, Owner, Region, RegionId, RegionKind, Sink,
    SkipReason, Skips, Visit,
};
use zmeld_linux::others::{LockedFile, PatientReader};
use zmeld_linux::smaps::{self, Mapping};
use zmeld_linux::Host;

/// Bytes read in one call, and the most in one batch: small enough to stay in
/// a core's cache until the sink has looked at it, large enough that the thread
/// which reads it is seldom waited for.
const BATCH_BYTES: usize = 512 << 10;
/// In mappings larger than this, looking stops once as many pages are found as
/// smaps says are there: sanitizers and runtimes reserve terabytes, and kernels before 6.7
/// do not tell where their pages are.
const SPARSE_PAGES: u64 = 64 << 10;
/// Mappings of a process that are known at a time: it may have a million of them, each
/// with a name of 4 KiB.
const MAPPINGS_AT_ONCE: usize = 512;
/// So long they are looked for at a time: whoever wants the scan to stop waits no longer.
const MAPPINGS_TIME: Duration = Duration::from_millis(50);

pub(super) fn visit(
    live: &LiveMemory,
    threads: usize,
    stop: &AtomicBool,
    sink: Sink<'_>,
) -> Result<Visit, Error> {
    let shared = VisitShared::new(live);
    let workers = work::run(
        threads,
        stop,
        live.chosen.iter().rev().map(VisitTask::Process),
        || LiveWorker::new(&shared, stop, sink),
        |worker, work, more| match work {
            VisitTask::Process(chosen) => worker.open(chosen).into_iter().for_each(more),
            VisitTask::Mappings(rest) => worker.mappings(rest).into_iter().for_each(more),
            VisitTask::MappingPart(piece) => {
                let Some((now, later)) = worker.split(piece) else {
                    return;
                };
                if let Some(later) = later {
                    more(VisitTask::MappingPart(later));
                }
                worker.piece(&now);
            }
        },
    );
    let mut visit = Visit::default();
    let mut given_up = 0;
    visit.cold = live.cold.as_ref().map(|watched| ColdReport {
        coldness: watched.coldness(),
        waited: watched.waited,
        pages: watched.pages.clone(),
    });
    if let Some(watched) = &live.cold {
        visit.skipped.add(&watched.skipped);
    }
    for worker in workers {
        visit.counted.add(&worker.counted);
        visit.skipped.add(&worker.skipped);
        given_up += worker.given_up;
        if let Some(cold) = &mut visit.cold {
            cold.add(&worker.cold);
        }
    }
    visit.counted.processes -= given_up;
    visit.interrupted = stop.load(Ordering::Relaxed);
    visit.notes = shared.notes(&visit.skipped);
    visit.regions = shared
        .regions
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(visit)
}

struct VisitShared<'a> {
    live: &'a LiveMemory,
    page_size: u64,
    /// Frames delivered so far.
    seen: Arc<SeenFrames>,
    flags: Option<PageFlags>,
    regions: Mutex<Vec<Region>>,
    /// Processes that hold their readers up.
    held: Mutex<Vec<Note>>,
    kinds: KindFilter,
}

enum VisitTask<'a> {
    Process(&'a ChosenProcess),
    Mappings(Box<Mappings>),
    MappingPart(MappingPart),
}

/// An opened process, kept as long as a piece of it is left to do.
struct OpenProcess {
    pid: i32,
    comm: Arc<str>,
    mem: Arc<File>,
    pagemap: Arc<File>,
    /// Gone, or it holds its readers up: counted once, and nothing more is read.
    given_up: AtomicBool,
}

/// The mappings of a process that were not looked at yet.
struct Mappings {
    process: Arc<OpenProcess>,
    /// None while a thread has it, and for ever behind the last one and where that is held up.
    smaps: Option<SmapsReader>,
}

type SmapsReader = smaps::Reader<BufReader<File>>;

/// A mapping that is being visited. The two kinds of page in it (the process's
/// own, and those of the file or shared object) are two regions.
struct MappingVisit {
    process: Arc<OpenProcess>,
    mapping: Mapping,
    own_kind: RegionKind,
    object_kind: RegionKind,
    own: OnceLock<Option<RegionId>>,
    object: OnceLock<Option<RegionId>>,
    found: AtomicU64,
}

struct MappingPart {
    visited: Arc<MappingVisit>,
    /// Page indices within the mapping.
    from: u64,
    until: u64,
}

impl Mappings {
    /// The next ones; none behind the last.
    fn some(&mut self, reader: &mut PatientReader) -> io::Result<Vec<Mapping>> {
        let Some(mut smaps) = self.smaps.take() else {
            return Ok(Vec::new());
        };
        let (smaps, some) = reader.of(self.process.pid).run(move || {
            let (begin, mut some) = (Instant::now(), Vec::new());
            while some.len() < MAPPINGS_AT_ONCE && begin.elapsed() < MAPPINGS_TIME {
                let Some(mapping) = smaps.next_mapping()? else {
                    return Ok((None, some));
                };
                some.push(mapping);
            }
            Ok((Some(smaps), some))
        })?;
        self.smaps = smaps;
        Ok(some)
    }
}

impl<'a> VisitShared<'a> {
    fn new(live: &'a LiveMemory) -> Self {
        let seen = live.seen.clone().unwrap_or_default();
        VisitShared {
            live,
            page_size: live.page_size as u64,
            flags: seen.are_told().then(PageFlags::open).flatten(),
            seen,
            regions: Mutex::default(),
            held: Mutex::default(),
            kinds: KindFilter::new(&live.options),
        }
    }

    /// `None` when the numbers are used up.
    fn new_region(&self, visited: &MappingVisit, kind: RegionKind) -> Option<RegionId> {
        if !self.live.options.regions {
            return Some(RegionId(0));
        }
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        let id = RegionId(u32::try_from(regions.len()).ok()?);
        if id > RegionId::MAX {
            return None;
        }
        let process = &visited.process;
        regions.push(Region {
            owner: Owner::Process {
                pid: process.pid,
                comm: Arc::clone(&process.comm),
            },
            kind,
            start: visited.mapping.start,
        });
        Some(id)
    }

    fn notes(&self, skipped: &Skips) -> Vec<Note> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut notes = held.clone();
        if !self.seen.are_told() {
            notes.push(Note::NoFrameNumbers);
        }
        if processes::proc_hides_processes() {
            notes.push(Note::ProcessesHidden);
        }
        let scope = Host::here().read_u64("/proc/sys/kernel/yama/ptrace_scope");
        notes.extend(ptrace_scope(scope.unwrap_or(0), skipped));
        notes
    }
}

fn ptrace_scope(scope: u64, skipped: &Skips) -> Option<Note> {
    let is_in_the_way = scope > 0 && skipped.get(SkipReason::Permission).processes > 0;
    is_in_the_way.then_some(Note::PtraceScope { scope })
}

/// A run of pages in the worker's buffer that belong to one region.
#[derive(Clone, Copy)]
struct RegionRun {
    kind: RegionKind,
    first_page: u64,
    pages: usize,
}

struct LiveWorker<'a> {
    shared: &'a VisitShared<'a>,
    stop: &'a AtomicBool,
    sink: Sink<'a>,
    counted: Counted,
    skipped: Skips,
    /// Processes counted as read when they were opened, and then not read.
    given_up: u64,
    cold: BTreeMap<RegionKind, ColdPages>,
    heads: HeadFinder,
    reader: PatientReader,
    entries: Vec<u8>,
    /// None while a thread has it that is held up.
    buffer: Option<Buffer>,
    /// Runs of the buffer, in order.
    runs: Vec<RegionRun>,
    /// Per page of the buffer: mapped more than once, or failed to be read.
    maybe_shared: Vec<bool>,
    failed: Vec<bool>,
}

impl<'a> LiveWorker<'a> {
    fn new(shared: &'a VisitShared<'a>, stop: &'a AtomicBool, sink: Sink<'a>) -> Self {
        LiveWorker {
            shared,
            stop,
            sink,
            counted: Counted::default(),
            skipped: Skips::default(),
            given_up: 0,
            cold: BTreeMap::new(),
            heads: HeadFinder::default(),
            reader: PatientReader::default(),
            entries: Vec::new(),
            buffer: None,
            runs: Vec::new(),
            maybe_shared: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Opens a process and returns its mappings as work.
    fn open<'w>(&mut self, chosen: &'w ChosenProcess) -> Vec<VisitTask<'w>> {
        if let Some(reason) = self.shared.live.skip_whole(chosen) {
            self.skipped.process(reason, 0);
            return Vec::new();
        }
        match self.try_open(chosen) {
            Ok(work) => {
                self.counted.processes += 1;
                work
            }
            Err(err) => {
                let reason = skip_reason(&err);
                let pages = match reason {
                    SkipReason::Permission | SkipReason::Held | SkipReason::NotTried => {
                        chosen.resident.anonymous * 1024 / self.shared.page_size
                    }
                    _ => 0,
                };
                self.skipped.process(reason, pages);
                if reason == SkipReason::Held {
                    self.note_held(chosen.pid, &chosen.comm);
                }
                Vec::new()
            }
        }
    }

    fn note_held(&self, pid: i32, comm: &str) {
        let mut held = self.shared.held.lock();
        let held = held.as_mut().unwrap_or_else(|poisoned| poisoned.get_mut());
        Note::add(held, &Note::held(pid, comm));
    }

    fn try_open<'w>(&mut self, chosen: &ChosenProcess) -> io::Result<Vec<VisitTask<'w>>> {
        let files = [LockedFile::Smaps, LockedFile::Pagemap, LockedFile::Mem];
        let [smaps, pagemap, mem] = chosen.open(&mut self.reader, files)?;
        let process = Arc::new(OpenProcess {
            pid: chosen.pid,
            comm: Arc::clone(&chosen.comm),
            mem: Arc::new(mem),
            pagemap: Arc::new(pagemap),
            given_up: AtomicBool::new(false),
        });
        let mut mappings = Box::new(Mappings {
            process,
            smaps: Some(smaps::Reader::new(
                BufReader::new(smaps),
                self.shared.page_size,
            )),
        });
        let first = mappings.some(&mut self.reader)?;
        if first.is_empty() {
            // A process that is exiting has no memory any more.
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(self.work(mappings, first))
    }

    /// Some more mappings of a process, as work.
    fn mappings<'w>(&mut self, mut mappings: Box<Mappings>) -> Vec<VisitTask<'w>> {
        let process = Arc::clone(&mappings.process);
        if process.given_up.load(Ordering::Relaxed) {
            return Vec::new();
        }
        match mappings.some(&mut self.reader) {
            Ok(some) if !some.is_empty() => self.work(mappings, some),
            // That was all, unless the process ended, whose page tables read as nothing.
            Ok(_) => {
                let entries = &mut self.entries;
                let reader = self.reader.of(process.pid);
                match pagemap::read_patiently(reader, &process.pagemap, 0, 1, entries) {
                    Ok(1) => {}
                    got => self.give_up(&process, reason_of(&got), 0),
                }
                Vec::new()
            }
            err => {
                self.give_up(&process, reason_of(&err), 0);
                Vec::new()
            }
        }
    }

    /// Mappings as work, of which the last is done first, and what follows them last.
    fn work<'w>(&mut self, rest: Box<Mappings>, some: Vec<Mapping>) -> Vec<VisitTask<'w>> {
        let process = Arc::clone(&rest.process);
        let rest = rest.smaps.is_some().then_some(VisitTask::Mappings(rest));
        let some = some.into_iter().rev();
        let some = some.filter_map(|mapping| self.mapping(&process, mapping));
        rest.into_iter().chain(some).collect()
    }

    /// Counts a mapping as a whole; returns it as work if its pages matter.
    fn mapping<'w>(
        &mut self,
        process: &Arc<OpenProcess>,
        mapping: Mapping,
    ) -> Option<VisitTask<'w>> {
        let kinds = &self.shared.kinds;
        if let Some((reason, pages)) = kinds.skip(&mapping) {
            self.skipped.region(reason, pages);
            return None;
        }
        let (own_kind, object_kind) = (kinds.own(&mapping), kinds.object(&mapping));
        let only_object = kinds.only_object(&mapping);
        if mapping.private {
            self.counted.anon_swapped += mapping.swap;
        } else {
            self.counted.shmem_swapped += mapping.swap;
        }
        self.counted.ksm += mapping.ksm;
        self.counted.huge += mapping.huge;
        self.counted.locked += if mapping.flags.locked { mapping.rss } else { 0 };

        if only_object && !self.shared.kinds.wanted(object_kind) {
            self.count_present(object_kind, mapping.rss);
            return None;
        }
        if self
            .shared
            .live
            .cold
            .as_ref()
            .is_some_and(|cold| !cold.is_cold_mapping(process.pid, &mapping))
        {
            let own = if only_object { 0 } else { mapping.anonymous };
            self.count_present(own_kind, own);
            self.count_present(object_kind, mapping.rss.saturating_sub(own));
            self.skipped.region(SkipReason::Touched, mapping.rss);
            return None;
        }
        let pages = mapping.pages(self.shared.page_size);
        if mapping.rss == 0 && (only_object || pages > SPARSE_PAGES) {
            return None;
        }
        let visited = Arc::new(MappingVisit {
            process: Arc::clone(process),
            mapping,
            own_kind,
            object_kind,
            own: OnceLock::new(),
            object: OnceLock::new(),
            found: AtomicU64::new(0),
        });
        Some(VisitTask::MappingPart(MappingPart {
            visited,
            from: 0,
            until: pages,
        }))
    }

    fn count_present(&mut self, kind: RegionKind, pages: u64) {
        match kind {
            RegionKind::SharedMemory => self.counted.shmem_present += pages,
            RegionKind::FileBacked => self.counted.file_present += pages,
            _ => self.counted.anon_present += pages,
        }
    }

    /// The part read now and the later one; none where no page is left to be found.
    fn split(&mut self, part: MappingPart) -> Option<(MappingPart, Option<MappingPart>)> {
        let (visited, page_size) = (part.visited, self.shared.page_size);
        let (process, mapping) = (&visited.process, &visited.mapping);
        let sparse = mapping.pages(page_size) > SPARSE_PAGES;
        if process.given_up.load(Ordering::Relaxed)
            || sparse && visited.found.load(Ordering::Relaxed) >= mapping.rss
        {
            return None;
        }
        let first = mapping.start / page_size;
        let pages = first + part.from..first + part.until;
        let piece = pagemap::next_piece(self.reader.of(process.pid), &process.pagemap, &pages);
        if piece.is_err() {
            self.give_up(process, reason_of(&piece), 0);
        }
        let piece = piece.ok()??;
        let of = |from: u64, until: u64| MappingPart {
            visited: Arc::clone(&visited),
            from: from - first,
            until: until - first,
        };
        let later = (piece.end < pages.end).then(|| of(piece.end, pages.end));
        Some((of(piece.start, piece.end), later))
    }

    /// Looks at the page-table entries of a piece, reads and delivers.
    fn piece(&mut self, piece: &MappingPart) {
        let visited = &*piece.visited;
        let process = &*visited.process;
        let mapping = &visited.mapping;
        let first = mapping.start / self.shared.page_size + piece.from;
        let count = usize::try_from(piece.until - piece.from).expect("a piece fits in memory");
        let mut entries = std::mem::take(&mut self.entries);
        let reader = self.reader.of(process.pid);
        let got = pagemap::read_patiently(reader, &process.pagemap, first, count, &mut entries);
        if !matches!(got, Ok(got) if got > 0) {
            // The page tables of a process that ended read as nothing.
            self.give_up(process, reason_of(&got), 0);
            entries.clear();
        }
        let mut found = 0;
        for (page, entry) in (piece.from..).zip(pagemap::entries(&entries)) {
            if !entry.present() {
                continue;
            }
            found += 1;
            if self.gather(visited, page, entry)
                && self.maybe_shared.len() * self.page_size() == self.batch_bytes()
            {
                self.flush(visited);
                if self.stop.load(Ordering::Relaxed) || process.given_up.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        visited.found.fetch_add(found, Ordering::Relaxed);
        self.flush(visited);
        self.entries = entries;
    }

    fn page_size(&self) -> usize {
        self.shared.live.page_size
    }

    fn batch_bytes(&self) -> usize {
        BATCH_BYTES.next_multiple_of(self.page_size())
    }

    /// Steps 1 to 3 for one page; true if it is to be read.
    fn gather(&mut self, visited: &MappingVisit, page: u64, entry: PagemapEntry) -> bool {
        if self.is_known_zero(visited, entry) {
            self.counted.zero_mapped += 1;
            return false;
        }
        let kind = if entry.file() {
            visited.object_kind
        } else {
            visited.own_kind
        };
        self.count_present(kind, 1);
        if !self.shared.kinds.wanted(kind) {
            return false;
        }
        if !self.is_cold(kind, entry) {
            return false;
        }
        let frames = self.shared.seen.0.as_ref();
        if frames.is_some_and(|frames| !frames.insert(entry.frame())) {
            self.counted.shared_again += 1;
            return false;
        }
        match self.runs.last_mut() {
            Some(run) if run.kind == kind && run.first_page + run.pages as u64 == page => {
                run.pages += 1
            }
            _ => self.runs.push(RegionRun {
                kind,
                first_page: page,
                pages: 1,
            }),
        }
        self.maybe_shared.push(!entry.exclusive());
        true
    }

    /// With idle page tracking: was the page left alone? (As it was when the
    /// wait ended: the reading that goes on now does not count.)
    fn is_cold(&mut self, kind: RegionKind, entry: PagemapEntry) -> bool {
        let Some(ColdSet::Idle(idle)) = self.shared.live.cold.as_ref().map(|cold| &cold.found)
        else {
            return true;
        };
        let head = match &self.shared.flags {
            Some(flags) => self.heads.head_of(flags, entry.frame()),
            None => entry.frame(),
        };
        let cold = idle.contains(head);
        let pages = self.cold.entry(kind).or_default();
        pages.resident += 1;
        pages.cold += u64::from(cold);
        if !cold {
            self.skipped.pages(SkipReason::Touched, 1);
        }
        cold
    }

    /// Is the page one of zeros that the kernel lends to everybody? A page
    /// table shows that page as not exclusive and not of a file; the huge one
    /// as of a file, where there is none.
    fn is_known_zero(&self, visited: &MappingVisit, entry: PagemapEntry) -> bool {
        if entry.exclusive() {
            return false;
        }
        if entry.file() {
            return visited.mapping.private && visited.mapping.inode == 0;
        }
        self.shared
            .flags
            .as_ref()
            .is_some_and(|flags| flags.is_zero_page(entry.frame()))
    }

    /// Step 4: reads what was gathered and delivers it.
    fn flush(&mut self, visited: &MappingVisit) {
        if self.runs.is_empty() {
            return;
        }
        let page_size = self.page_size();
        let start = visited.mapping.start;
        let stretches = self.runs.iter().map(|run| {
            let address = start + run.first_page * page_size as u64;
            (address, run.pages * page_size)
        });
        let stretches: Vec<(u64, usize)> = stretches.collect();
        let pages = self.maybe_shared.len();
        let mem = Arc::clone(&visited.process.mem);
        let mut failed = std::mem::take(&mut self.failed);
        let mut buffer = self.buffer.take().unwrap_or_else(|| new_buffer(page_size));
        let read = self.reader.of(visited.process.pid).run(move || {
            failed.clear();
            failed.resize(pages, false);
            let out = &mut buffer.bytes_mut()[..pages * page_size];
            let read = reader::read(&mem, stretches.into_iter(), page_size, out, |at| {
                failed[at] = true
            });
            Ok((read, buffer, failed))
        });
        match read {
            Ok((read, buffer, failed)) => {
                self.failed = failed;
                match read {
                    Ok(()) => self.deliver_runs(visited, buffer.bytes()),
                    Err(reader::ProcessGone) => {
                        self.give_up(&visited.process, SkipReason::Vanished, pages);
                    }
                }
                self.buffer = Some(buffer);
            }
            err => self.give_up(&visited.process, reason_of(&err), pages),
        }
        self.runs.clear();
        self.maybe_shared.clear();
    }

    /// Nothing more of it is read: counted once, with the pages that were about to be.
    fn give_up(&mut self, process: &OpenProcess, reason: SkipReason, pages: usize) {
        if process.given_up.swap(true, Ordering::Relaxed) {
            self.skipped.pages(reason, pages as u64);
        } else {
            self.skipped.process(reason, pages as u64);
            self.given_up += 1;
            if reason == SkipReason::Held {
                self.note_held(process.pid, &process.comm);
            }
        }
    }

    fn deliver_runs(&mut self, visited: &MappingVisit, bytes: &[u8]) {
        let mut at = 0;
        for index in 0..self.runs.len() {
            let run = self.runs[index];
            // Cut the run at pages that failed or turned out to be of zeros.
            let mut good = 0;
            for page in 0..run.pages {
                let own = run.kind == visited.own_kind;
                if self.is_deliverable(at + page, own, bytes) {
                    good += 1;
                } else {
                    self.deliver(visited, run, at, page - good..page, bytes);
                    good = 0;
                }
            }
            self.deliver(visited, run, at, run.pages - good..run.pages, bytes);
            at += run.pages;
        }
    }

    /// After reading: counts a page that must not be delivered after all.
    fn is_deliverable(&mut self, at: usize, own: bool, bytes: &[u8]) -> bool {
        if self.failed[at] {
            self.skipped.pages(SkipReason::ReadFailed, 1);
            return false;
        }
        // Without the kernel's flags, zeros that are mapped more than once are
        // taken for the kernel's page of zeros. Either way they cost nothing more.
        if own && self.shared.flags.is_none() && self.maybe_shared[at] {
            let page_size = self.page_size();
            if is_zero(&bytes[at * page_size..(at + 1) * page_size]) {
                self.counted.zero_mapped += 1;
                self.counted.anon_present -= 1;
                return false;
            }
        }
        true
    }

    /// Hands some pages of a run, which starts at page `at` of the buffer, to the sink.
    fn deliver(
        &mut self,
        visited: &MappingVisit,
        run: RegionRun,
        at: usize,
        pages: Range<usize>,
        bytes: &[u8],
    ) {
        let Range {
            start: from,
            end: until,
        } = pages;
        if from == until {
            return;
        }
        let cell = if run.kind == visited.own_kind {
            &visited.own
        } else {
            &visited.object
        };
        let Some(region) = *cell.get_or_init(|| self.shared.new_region(visited, run.kind)) else {
            self.skipped
                .pages(SkipReason::TooManyRegions, (until - from) as u64);
            return;
        };
        self.counted.delivered += (until - from) as u64;
        if self.shared.live.cold.is_some() {
            self.cold.entry(run.kind).or_default().delivered += (until - from) as u64;
        }
        let page_size = self.page_size();
        (self.sink)(Batch {
            region,
            kind: run.kind,
            first_page: run.first_page + from as u64,
            bytes: &bytes[(at + from) * page_size..(at + until) * page_size],
            maybe_shared: self
                .shared
                .seen
                .0
                .is_none()
                .then(|| &self.maybe_shared[at + from..at + until]),
        });
    }
}

fn new_buffer(page_size: usize) -> Buffer {
    Buffer::new(BATCH_BYTES.next_multiple_of(page_size))
}

pub(crate) fn skip_reason(err: &io::Error) -> SkipReason {
    match err.kind() {
        io::ErrorKind::PermissionDenied => SkipReason::Permission,
        io::ErrorKind::TimedOut => SkipReason::Held,
        io::ErrorKind::QuotaExceeded => SkipReason::NotTried,
        _ => SkipReason::Vanished,
    }
}

/// Why nothing came, which is that the process has ended where that is no error.
fn reason_of<T>(result: &io::Result<T>) -> SkipReason {
    let err = result.as_ref().err();
    match err.map(skip_reason) {
        Some(reason @ (SkipReason::Held | SkipReason::NotTried)) => reason,
        _ => SkipReason::Vanished,
    }
}

fn is_zero(page: &[u8]) -> bool {
    page.chunks(64)
        .all(|chunk| chunk.iter().fold(0, |or, byte| or | byte) == 0)
}

#[cfg(test)]
mod tests;
