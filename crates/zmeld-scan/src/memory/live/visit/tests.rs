//! Visits of a process whose files are the test's own, counted a second time page by page.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::os::unix::fs::FileExt;

use super::*;
use crate::memory::live::frames::FrameSet;
use crate::memory::{ColdPagesFound, Coldness, LiveOptions, Selection};

const PRESENT: u64 = 1 << 63;
const FILE: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;
/// The frame of the kernel's page of zeros.
const ZERO_FRAME: u64 = 5;
/// Huge pages of eight frames begin at these, as the kernel's flags say.
const HEADS: [u64; 2] = [64, 128];
const FRAMES: u64 = 400;

/// A mapping as the test knows it.
struct Known {
    name: &'static str,
    private: bool,
    inode: u64,
    rights: &'static str,
    flags: &'static str,
    skipped: Option<SkipReason>,
    own: RegionKind,
    object: RegionKind,
    has_own: bool,
    /// Page numbers, their entries and contents.
    pages: Vec<(u64, u64, u8)>,
    span: u64,
    /// Kilobytes that smaps says of it, in pages, by its names for them.
    sums: Vec<(&'static str, u64)>,
    start: u64,
}

fn known(name: &'static str, own: RegionKind, object: RegionKind) -> Known {
    Known {
        name,
        private: true,
        inode: 0,
        rights: "rw-p",
        flags: "rd wr",
        skipped: None,
        own,
        object,
        has_own: true,
        pages: Vec::new(),
        span: 300,
        sums: Vec::new(),
        start: 0,
    }
}

impl Known {
    fn shared(self, inode: u64) -> Known {
        Known {
            private: false,
            rights: "rw-s",
            has_own: false,
            ..self.of(inode)
        }
    }

    fn of(self, inode: u64) -> Known {
        Known { inode, ..self }
    }

    fn skip(self, reason: SkipReason) -> Known {
        Known {
            skipped: Some(reason),
            ..self
        }
    }

    fn sum(&self, name: &str) -> u64 {
        let found = self.sums.iter().find(|it| it.0 == name);
        found.map_or(0, |it| it.1)
    }

    /// An entry of a page table for each page, drawn by chance, and all that smaps says.
    fn drawn(mut self, chance: &mut fastrand::Rng, start: u64) -> Known {
        self.start = start;
        for page in 0..self.span {
            if chance.u64(0..self.span) > 225 {
                continue;
            }
            let is_file = !self.has_own || self.inode != 0 && chance.bool();
            // The huge page of zeros is shown as of a file.
            let is_huge_zero = self.private && self.inode == 0 && chance.u8(0..9) == 0;
            let exclusive = [0, EXCLUSIVE][usize::from(!is_huge_zero && chance.bool())];
            let file = [0, FILE][usize::from(is_file || is_huge_zero)];
            let frame = chance.u64(1..FRAMES);
            // What a frame holds does not depend on who maps it.
            let content = if frame % 7 == 5 { 0 } else { frame as u8 | 1 };
            let entry = PRESENT | file | exclusive | frame;
            self.pages.push((page, entry, content));
        }
        let names = ["Rss", "Anonymous", "Swap", "KSM", "AnonHugePages"];
        let present = self.pages.len() as u64;
        let anonymous = u64::from(self.has_own) * chance.u64(1..present);
        let sums = [present, anonymous].into_iter();
        let sums = sums.chain((0..3).map(|_| chance.u64(1..50)));
        self.sums.extend(names.into_iter().zip(sums));
        self
    }
}

fn mappings() -> Vec<Known> {
    use RegionKind::*;
    let file = || known("/usr/lib/x.so", PrivateFile, FileBacked).of(7);
    vec![
        known("", Anonymous, FileBacked),
        known("[heap]", Heap, FileBacked),
        known("[stack]", Stack, FileBacked),
        Known {
            flags: "rd lo",
            ..known("[anon:x]", Anonymous, FileBacked)
        },
        file(),
        Known {
            has_own: false,
            ..file()
        },
        file().shared(8),
        known("/dev/zero (deleted)", Anonymous, SharedMemory).shared(9),
        known("/memfd:x (deleted)", PrivateFile, SharedMemory).of(10),
        known("[vdso]", Anonymous, FileBacked).skip(SkipReason::KernelPages),
        known("[vvar_vclock]", Anonymous, FileBacked).skip(SkipReason::KernelPages),
        Known {
            rights: "---p",
            ..known("", Anonymous, FileBacked).skip(SkipReason::NoAccess)
        },
        Known {
            flags: "rd io",
            ..known("", Anonymous, FileBacked).skip(SkipReason::DeviceMapping)
        },
        known("/dev/fb0", PrivateFile, FileBacked)
            .of(11)
            .skip(SkipReason::DeviceMapping),
        Known {
            flags: "rd ht",
            sums: vec![("Private_Hugetlb", 3)],
            ..known("/anon_hugepage", Anonymous, FileBacked).skip(SkipReason::HugeTlb)
        },
        // All that is looked at of a large one is what smaps says is there.
        Known {
            span: SPARSE_PAGES + 5000,
            ..known("", Anonymous, FileBacked)
        },
    ]
}

/// Files as `/proc/PID` has them.
struct Files {
    smaps: String,
    pagemap: File,
    mem: File,
}

fn files(mappings: &[Known], page_size: u64) -> Files {
    let mut smaps = String::new();
    let (pagemap, mem) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    pagemap.write_all_at(&[0; 8], 0).unwrap();
    for it in mappings {
        let end = it.start + it.span * page_size;
        let (start, rights, inode, name) = (it.start, it.rights, it.inode, it.name);
        writeln!(
            smaps,
            "{start:x}-{end:x} {rights} 00000000 fe:00 {inode} {name}"
        )
        .unwrap();
        for (name, pages) in &it.sums {
            writeln!(smaps, "{name}: {} kB", pages * page_size / 1024).unwrap();
        }
        writeln!(smaps, "VmFlags: {}", it.flags).unwrap();
        pagemap.set_len((end / page_size + 1) * 8).unwrap();
        mem.set_len(end).unwrap();
        for &(page, entry, content) in &it.pages {
            let at = it.start / page_size + page;
            pagemap.write_all_at(&entry.to_ne_bytes(), at * 8).unwrap();
            let bytes = vec![content; page_size as usize];
            mem.write_all_at(&bytes, at * page_size).unwrap();
        }
    }
    Files {
        smaps,
        pagemap,
        mem,
    }
}

impl Files {
    fn opened(&self) -> Box<Mappings> {
        let mut smaps = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut smaps, self.smaps.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut smaps).unwrap();
        Box::new(Mappings {
            process: Arc::new(OpenProcess {
                pid: std::process::id() as i32,
                comm: "test".into(),
                mem: Arc::new(self.mem.try_clone().unwrap()),
                pagemap: Arc::new(self.pagemap.try_clone().unwrap()),
                given_up: AtomicBool::new(false),
            }),
            smaps: Some(smaps::Reader::new(
                BufReader::new(smaps),
                rustix::param::page_size() as u64,
            )),
        })
    }
}

/// A delivered page: kind, address, a byte of it, and whether it may be shared.
type Page = (RegionKind, u64, u8, Option<bool>);

#[derive(Debug, Default, PartialEq)]
struct Outcome {
    pages: BTreeSet<Page>,
    counted: Counted,
    skipped: Skips,
    cold: BTreeMap<RegionKind, ColdPages>,
    given_up: u64,
}

/// What is asked of a visit.
#[derive(Clone, Copy)]
struct Asked {
    shared: bool,
    files: bool,
    told: bool,
    cold: Option<Coldness>,
}

fn options(asked: Asked) -> LiveOptions {
    LiveOptions {
        shared: asked.shared,
        files: asked.files,
        ..LiveOptions::new(Selection::Pids(Vec::new()))
    }
}

fn idle(frame: u64) -> bool {
    !frame.is_multiple_of(3)
}

/// The first frame of the page that a frame is part of.
fn head(frame: u64) -> u64 {
    let head = HEADS.into_iter().find(|it| (*it..it + 8).contains(&frame));
    head.unwrap_or(frame)
}

fn cold(coldness: Coldness, mappings: &[Known], page_size: u64) -> ColdPagesFound {
    let found = match coldness {
        Coldness::PerPage => {
            let set = FrameSet::new(FRAMES);
            (0..FRAMES).filter(|it| idle(*it)).for_each(|it| {
                set.insert(it);
            });
            ColdSet::Idle(set)
        }
        Coldness::PerMapping => {
            let cold = mappings.iter().step_by(2);
            let cold = cold.map(|it| (it.start, it.start + it.span * page_size));
            ColdSet::Mappings(HashMap::from([(std::process::id() as i32, cold.collect())]))
        }
    };
    ColdPagesFound {
        waited: Duration::ZERO,
        found,
        pages: BTreeMap::new(),
        skipped: Skips::default(),
    }
}

fn visited(files: &Files, asked: Asked, cold: Option<ColdPagesFound>, stop: bool) -> Outcome {
    let page_size = rustix::param::page_size();
    let live = LiveMemory {
        options: options(asked),
        page_size,
        chosen: Vec::new(),
        cold,
        seen: Some(Arc::new(SeenFrames(
            asked.told.then(|| FrameSet::new(FRAMES / 2)),
        ))),
    };
    let mut shared = VisitShared::new(&live);
    shared.flags = asked.told.then(|| {
        let flags = tempfile::tempfile().unwrap();
        let put = |frame: u64, flag: u32| {
            let word = 1u64 << flag;
            flags.write_all_at(&word.to_ne_bytes(), frame * 8).unwrap();
        };
        flags.set_len(FRAMES * 8).unwrap();
        put(ZERO_FRAME, 24);
        HEADS
            .iter()
            .for_each(|head| (1..8).for_each(|tail| put(head + tail, 16)));
        PageFlags(flags)
    });
    let found = Mutex::new(Vec::new());
    let stopped = AtomicBool::new(false);
    let sink = |batch: Batch<'_>| {
        stopped.store(stop, Ordering::Relaxed);
        assert!(!batch.bytes.is_empty() && batch.bytes.len() <= BATCH_BYTES.max(page_size));
        for (at, page) in batch.bytes.chunks_exact(page_size).enumerate() {
            assert!(page.iter().all(|byte| *byte == page[0]));
            let shared = batch.maybe_shared.map(|it| it[at]);
            let number = batch.first_page + at as u64;
            found
                .lock()
                .unwrap()
                .push((batch.region, batch.kind, number, page[0], shared));
        }
    };
    let mut worker = LiveWorker::new(&shared, &stopped, &sink);
    let mut tasks = worker.mappings(files.opened());
    while let Some(task) = tasks.pop().filter(|_| !stopped.load(Ordering::Relaxed)) {
        match task {
            VisitTask::Process(_) => unreachable!(),
            VisitTask::Mappings(rest) => tasks.extend(worker.mappings(rest)),
            VisitTask::MappingPart(part) => {
                if let Some((now, later)) = worker.split(part) {
                    tasks.extend(later.map(VisitTask::MappingPart));
                    worker.piece(&now);
                }
            }
        }
    }
    let (counted, skipped, cold) = (worker.counted, worker.skipped, worker.cold);
    let given_up = worker.given_up;
    let regions = shared.regions.into_inner().unwrap();
    let found = found.into_inner().unwrap();
    let count = found.len();
    let pages = found
        .into_iter()
        .map(|(region, kind, number, byte, shared)| {
            let region = &regions[region.0 as usize];
            assert_eq!(region.kind, kind);
            (kind, region.start + number * page_size as u64, byte, shared)
        });
    let pages: BTreeSet<Page> = pages.collect();
    assert_eq!(pages.len(), count, "a page came twice");
    Outcome {
        pages,
        counted,
        skipped,
        cold,
        given_up,
    }
}

/// The same, told page by page.
fn expected(mappings: &[Known], asked: Asked) -> Outcome {
    let page_size = rustix::param::page_size() as u64;
    let mut all = Outcome::default();
    let mut seen = HashSet::new();
    let wanted = |kind| match kind {
        RegionKind::SharedMemory => asked.shared,
        RegionKind::FileBacked => asked.files,
        _ => true,
    };
    for (at, it) in mappings.iter().enumerate() {
        if let Some(reason) = it.skipped {
            let hugetlb = reason == SkipReason::HugeTlb;
            let name = if hugetlb { "Private_Hugetlb" } else { "Rss" };
            all.skipped.region(reason, it.sum(name));
            continue;
        }
        let swapped = match it.private {
            true => &mut all.counted.anon_swapped,
            false => &mut all.counted.shmem_swapped,
        };
        *swapped += it.sum("Swap");
        all.counted.ksm += it.sum("KSM");
        all.counted.huge += it.sum("AnonHugePages");
        if it.flags.contains("lo") {
            all.counted.locked += it.sum("Rss");
        }
        let present = |counted: &mut Counted, kind, pages| match kind {
            RegionKind::SharedMemory => counted.shmem_present += pages,
            RegionKind::FileBacked => counted.file_present += pages,
            _ => counted.anon_present += pages,
        };
        if !it.has_own && !wanted(it.object) {
            present(&mut all.counted, it.object, it.sum("Rss"));
            continue;
        }
        if asked.cold == Some(Coldness::PerMapping) && at % 2 == 1 {
            let own = it.sum("Anonymous");
            present(&mut all.counted, it.own, own);
            present(&mut all.counted, it.object, it.sum("Rss") - own);
            all.skipped.region(SkipReason::Touched, it.sum("Rss"));
            continue;
        }
        for &(page, entry, content) in &it.pages {
            let (is_file, exclusive) = (entry & FILE != 0, entry & EXCLUSIVE != 0);
            let frame = entry & 0xffff;
            let is_zero = match is_file {
                true => it.private && it.inode == 0,
                false => asked.told && frame == ZERO_FRAME,
            };
            if is_zero && !exclusive {
                all.counted.zero_mapped += 1;
                continue;
            }
            let kind = if is_file { it.object } else { it.own };
            // Without the kernel's flags such zeros are taken for its page of them.
            if wanted(kind) && !asked.told && kind == it.own && !exclusive && content == 0 {
                all.counted.zero_mapped += 1;
                continue;
            }
            present(&mut all.counted, kind, 1);
            if !wanted(kind) {
                continue;
            }
            if asked.cold == Some(Coldness::PerPage) {
                let pages = all.cold.entry(kind).or_default();
                pages.resident += 1;
                if !idle(head(frame)) {
                    all.skipped.pages(SkipReason::Touched, 1);
                    continue;
                }
                pages.cold += 1;
            }
            if asked.told && !seen.insert(frame) {
                all.counted.shared_again += 1;
                continue;
            }
            all.counted.delivered += 1;
            if asked.cold.is_some() {
                all.cold.entry(kind).or_default().delivered += 1;
            }
            let shared = (!asked.told).then_some(!exclusive);
            all.pages
                .insert((kind, it.start + page * page_size, content, shared));
        }
    }
    all
}

#[test]
fn each_page_is_counted_and_delivered_as_its_entry_says() {
    let page_size = rustix::param::page_size() as u64;
    for seed in 0..6 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let mut start = 16 * page_size;
        let drawn = mappings().into_iter().map(|it| {
            let span = it.span;
            let it = it.drawn(&mut chance, start);
            start += (span + 3) * page_size;
            it
        });
        let mappings: Vec<Known> = drawn.collect();
        let files = files(&mappings, page_size);
        for bits in 0..8 {
            let asked = Asked {
                shared: bits & 1 != 0,
                files: bits & 2 != 0,
                told: bits & 4 != 0,
                cold: None,
            };
            let found = visited(&files, asked, None, false);
            assert_eq!(found, expected(&mappings, asked), "seed {seed}, {bits:03b}");
        }
        for (told, coldness) in [
            (true, Coldness::PerPage),
            (true, Coldness::PerMapping),
            (false, Coldness::PerMapping),
        ] {
            let asked = Asked {
                shared: true,
                files: true,
                told,
                cold: Some(coldness),
            };
            let cold = cold(coldness, &mappings, page_size);
            let found = visited(&files, asked, Some(cold), false);
            assert_eq!(
                found,
                expected(&mappings, asked),
                "seed {seed}, {coldness:?}"
            );
        }
    }
}

const ALL: Asked = Asked {
    shared: true,
    files: true,
    told: true,
    cold: None,
};

/// One mapping behind the other, each of these pages, present and of a frame of its own.
fn plain(pages: &[&[u64]], span: u64, rss: u64) -> Vec<Known> {
    let page_size = rustix::param::page_size() as u64;
    let mut frame = 10;
    let of = |(at, pages): (usize, &&[u64])| {
        let entry = |page: &u64| {
            frame += 1;
            (*page, PRESENT | EXCLUSIVE | frame, 1)
        };
        Known {
            pages: pages.iter().map(entry).collect(),
            span,
            sums: vec![("Rss", rss), ("Anonymous", rss)],
            start: (16 + at as u64 * (span + 1)) * page_size,
            ..known("", RegionKind::Anonymous, RegionKind::FileBacked)
        }
    };
    pages.iter().enumerate().map(of).collect()
}

/// Kernels before 6.7 do not tell where pages are: of a large mapping no more is looked at than
/// what smaps says is there, and of a small one everything.
#[test]
fn looking_ends_when_all_pages_were_found() {
    let page_size = rustix::param::page_size() as u64;
    let pages: &[u64] = &[3, 20_000, SPARSE_PAGES];
    for (span, rss, wanted) in [
        (SPARSE_PAGES + 1, 2, 2),
        (SPARSE_PAGES + 1, 3, 3),
        (SPARSE_PAGES + 1, 0, 0),
        (SPARSE_PAGES, 1, 2),
        (SPARSE_PAGES, 0, 2),
    ] {
        let mut mappings = plain(&[pages], span, rss);
        mappings[0].pages.retain(|it| it.0 < span);
        let found = visited(&files(&mappings, page_size), ALL, None, false);
        assert_eq!(found.pages.len(), wanted, "{rss} of {span}");
    }
}

#[test]
fn mappings_are_taken_some_at_a_time_and_a_process_without_page_tables_has_ended() {
    let page_size = rustix::param::page_size() as u64;
    for count in [MAPPINGS_AT_ONCE - 1, MAPPINGS_AT_ONCE, MAPPINGS_AT_ONCE + 1] {
        let mappings = plain(&vec![&[0][..]; count], 1, 1);
        let mut files = files(&mappings, page_size);
        let found = visited(&files, Asked { told: false, ..ALL }, None, false);
        assert_eq!((found.pages.len(), found.given_up), (count, 0));
        files.pagemap = tempfile::tempfile().unwrap();
        let found = visited(&files, ALL, None, false);
        let gone = found.skipped.get(SkipReason::Vanished);
        assert_eq!((found.pages.len(), found.given_up), (0, 1));
        assert_eq!((gone.processes, gone.pages), (1, 0));
    }
    // It is looked at once more where all that was left of them was none.
    for (count, given_up) in [(MAPPINGS_AT_ONCE - 1, 0), (MAPPINGS_AT_ONCE, 1)] {
        let mut mappings = plain(&vec![&[][..]; count], 1, 1);
        mappings.iter_mut().for_each(|it| it.name = "[vdso]");
        let mut files = files(&mappings, page_size);
        files.pagemap = tempfile::tempfile().unwrap();
        assert_eq!(visited(&files, ALL, None, false).given_up, given_up);
    }
}

/// Of 300 pages, which are more than two batches, memory has the first 200.
#[test]
fn pages_of_a_process_that_ends_meanwhile_are_counted() {
    let page_size = rustix::param::page_size() as u64;
    let batch = (BATCH_BYTES as u64).div_ceil(page_size);
    let numbers: Vec<u64> = (0..2 * batch + 44).collect();
    let mappings = plain(
        &[&numbers, &[0]],
        numbers.len() as u64,
        numbers.len() as u64,
    );
    let files = files(&mappings, page_size);
    files
        .mem
        .set_len(mappings[0].start + (batch + 9) * page_size)
        .unwrap();
    let found = visited(&files, Asked { told: false, ..ALL }, None, false);
    let gone = found.skipped.get(SkipReason::Vanished);
    assert_eq!((found.pages.len() as u64, found.given_up), (batch, 1));
    assert_eq!((gone.processes, gone.pages), (1, batch));
    // Who stops gets what was read, and no more.
    let found = visited(&files, Asked { told: false, ..ALL }, None, true);
    assert_eq!((found.pages.len() as u64, found.given_up), (batch, 0));
}

/// Runs of a batch: those that failed and, where nobody tells which page is which, zeros that are
/// mapped more than once are cut out.
#[test]
fn runs_are_cut_at_pages_that_do_not_count() {
    let page_size = rustix::param::page_size();
    let live = LiveMemory {
        options: options(ALL),
        page_size,
        chosen: Vec::new(),
        cold: None,
        seen: Some(Arc::new(SeenFrames(None))),
    };
    let shared = VisitShared::new(&live);
    let (stop, found) = (AtomicBool::new(false), Mutex::new(String::new()));
    let sink = |batch: Batch<'_>| {
        let bytes = batch.bytes.chunks_exact(page_size).map(|it| it[0]);
        let bytes: Vec<u8> = bytes.collect();
        let mut found = found.lock().unwrap();
        let (kind, first) = (batch.kind.as_str(), batch.first_page);
        writeln!(
            found,
            "{kind} {first} {bytes:?} {:?}",
            batch.maybe_shared.unwrap()
        )
        .unwrap();
    };
    let mut worker = LiveWorker::new(&shared, &stop, &sink);
    let run = |kind, first_page, pages| RegionRun {
        kind,
        first_page,
        pages,
    };
    let (own, object) = (RegionKind::PrivateFile, RegionKind::SharedMemory);
    worker.runs = vec![run(own, 10, 4), run(object, 20, 3), run(own, 30, 3)];
    worker.failed = (0..10).map(|at| at == 1 || at == 6).collect();
    worker.maybe_shared = (0..10).map(|at| at % 2 == 0).collect();
    worker.counted.anon_present = 7;
    let bytes: Vec<u8> = [1, 2, 3, 4, 0, 6, 7, 0, 0, 9]
        .into_iter()
        .flat_map(|byte: u8| vec![byte; page_size])
        .collect();
    let process = files(&[], page_size as u64).opened().process;
    let visited = MappingVisit {
        process,
        mapping: Mapping::default(),
        own_kind: own,
        object_kind: object,
        own: OnceLock::new(),
        object: OnceLock::new(),
        found: AtomicU64::new(0),
    };
    worker.deliver_runs(&visited, &bytes);
    let (counted, failed) = (&worker.counted, worker.skipped.get(SkipReason::ReadFailed));
    assert_eq!((counted.delivered, counted.zero_mapped), (7, 1));
    assert_eq!((counted.anon_present, failed.pages), (6, 2));
    drop(worker);
    let told = "private file copies 10 [1] [true]
private file copies 12 [3, 4] [true, false]
shared memory 20 [0, 6] [true, false]
private file copies 30 [0] [false]
private file copies 32 [9] [false]
";
    assert_eq!(found.into_inner().unwrap(), told);
    let regions = shared.regions.into_inner().unwrap();
    assert_eq!(
        regions.iter().map(|it| it.kind).collect::<Vec<_>>(),
        [own, object]
    );
}

/// An opened process is never left for a missing privilege.
#[test]
fn a_process_that_holds_its_reader_up_has_not_ended() {
    use io::ErrorKind::{NotFound, PermissionDenied, QuotaExceeded, TimedOut};
    for (kind, skipped, left) in [
        (TimedOut, SkipReason::Held, SkipReason::Held),
        (QuotaExceeded, SkipReason::NotTried, SkipReason::NotTried),
        (
            PermissionDenied,
            SkipReason::Permission,
            SkipReason::Vanished,
        ),
        (NotFound, SkipReason::Vanished, SkipReason::Vanished),
    ] {
        assert_eq!(skip_reason(&kind.into()), skipped);
        assert_eq!(reason_of::<()>(&Err(kind.into())), left);
    }
    assert_eq!(reason_of(&Ok(())), SkipReason::Vanished);
}

#[test]
fn a_scope_is_noted_where_it_is_in_the_way() {
    let mut skipped = Skips::default();
    assert_eq!(ptrace_scope(1, &skipped), None);
    skipped.process(SkipReason::Permission, 0);
    assert_eq!(ptrace_scope(0, &skipped), None);
    for scope in [1, 2] {
        let note = Some(Note::PtraceScope { scope });
        assert_eq!(ptrace_scope(scope, &skipped), note);
    }
}
