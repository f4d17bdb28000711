//! Which pages are touched, and when, page by page: of a run without a limit a sample of
//! its pages is swapped out on purpose, again and again, and the kernel says which came
//! back.
//!
//! At each **look** the workload is frozen. `/proc/PID/pagemap` says of each page whether it
//! is in memory. Which pages belong to the sample is drawn by a hash of their number
//! (spatial sampling: Waldspurger et al., Efficient MRC construction with SHARDS, 2015), one of each
//! so many neighbours;
//! those of them that are in memory were touched since the look before, and are swapped out
//! (`process_madvise`, `MADV_PAGEOUT`) to compressed swap in RAM. So it is known of each
//! page of the sample at which looks it was touched, which the referenced bits of a whole
//! mapping do not say, and what a limit would do with it is computed (`super::lists`).
//!
//! The workload takes longer, by the faults of the sample and by the looks; it does what it
//! would do, but for what goes by the clock.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};
use zmeld_linux::counters;

use super::lists::Lists;

/// Swaps these pages of a process out. The program brings it along: no crate has a safe function for it.
pub type PageOut = fn(BorrowedFd<'_>, &[Range<u64>]) -> io::Result<()>;

/// About so many pages are in the sample.
const SAMPLE: u64 = 2000;
/// At most so many looks are made, and none sooner than so long after the one before.
const LOOKS: f64 = 2000.0;
const PAUSE_LEAST_S: f64 = 0.002;
/// The workload goes on between two looks for so long at least, as a share of what the look before took.
const PAUSE_SHARE: f64 = 0.3;
/// A mapping that is larger is passed over: some programs reserve addresses without end.
const MAPPING_MAX: u64 = 64 << 30;
/// More than that share of what is swapped may not be shared, or nothing is said.
const SHARED_MAX: f64 = 0.1;
/// From fewer looks nothing can be said.
const LOOKS_LEAST: usize = 50;
/// The sample is divided into so many parts, whose faults say how far another sample would be off.
const PARTS: u64 = 16;
/// The rooms that are computed: each smaller than the one before by that share, down to that share of the largest.
const ROOM_STEP: f64 = 0.98;
const ROOM_LEAST: f64 = 0.02;
/// Of a room that is filled within so few looks nothing is said: what is touched between two looks counts once.
const LOOKS_TO_FILL: f64 = 2.0;
const PAGE: u64 = 4096;
/// So many pages of the workload are copied at most, and so many at a look: faults on them show what its faults cost.
const COPIES: usize = 512;
const COPIES_OF_LOOK: usize = 8;

/// What was seen, and what follows for each room.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// How long the run took that was looked at.
    pub elapsed_s: f64,
    /// How much of that went into looking.
    pub cost_s: f64,
    /// How often it was looked at.
    pub looks: u64,
    /// Pages in the sample.
    pub pages: u64,
    /// Of all pages, the share in the sample.
    pub share: f64,
    /// How often one of them was seen to be touched.
    pub touches: u64,
    /// What is charged to the group and is neither its anonymous memory nor files, in the middle.
    pub kernel_bytes: u64,
    /// The most that was written to files and was not on a disk yet.
    pub unwritten_bytes: u64,
    /// What a page took when it was compressed, as a share of itself.
    pub stored_share: f64,
    /// Faults for each room, from the largest.
    pub rooms: Vec<RoomFaults>,
}

/// The faults with room for so much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomFaults {
    /// The limit without what the kernel has for the group besides.
    pub room_bytes: u64,
    /// Major faults of a run.
    pub faults: f64,
    /// How many pages reclaim looks at in a run, to evict some of them.
    #[serde(default)]
    pub scanned: f64,
    /// The standard error that the sample leaves.
    pub error: f64,
    /// Whether so much is touched from one look to the next that there are at least so many.
    pub at_least: bool,
}

/// What happened to a page of the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Touched,
    GivenBack,
}

/// At which look, to which page, what.
#[derive(Debug, Clone, Copy)]
struct Happened {
    look: u32,
    page: u32,
    what: What,
}

/// What the looks gave.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    happened: Vec<Happened>,
    /// Of each page, its part of the sample.
    part: Vec<u8>,
    /// The pages in the sample and in all, added up over the looks.
    sampled: u64,
    all: u64,
    /// Of the sampled ones, those that others map, too.
    shared: u64,
    /// The largest amount of shared memory and of anonymous memory.
    shmem_bytes: u64,
    anonymous_bytes: u64,
    kernel_bytes: Vec<u64>,
    unwritten_bytes: u64,
    looks: u32,
    cost_s: f64,
    stored_bytes: u64,
    compressed_bytes: u64,
    copies: Copied,
}

/// Pages of the workload, drawn among all that were touched (reservoir sampling).
#[derive(Debug)]
struct Copied {
    pages: Vec<Vec<u8>>,
    offered: usize,
    random: ChaCha8Rng,
}

impl Default for Copied {
    fn default() -> Copied {
        Copied {
            pages: Vec::new(),
            offered: 0,
            random: ChaCha8Rng::seed_from_u64(SEED),
        }
    }
}

impl Copied {
    fn offer(&mut self, memory: &File, range: &Range<u64>) {
        self.offered += 1;
        let at = match self.pages.len() {
            len if len < COPIES => len,
            _ => self.random.random_range(0..self.offered),
        };
        let mut page = vec![0; PAGE as usize];
        if at >= COPIES || memory.read_exact_at(&mut page, range.start).is_err() {
            return;
        }
        if at == self.pages.len() {
            self.pages.push(page);
        } else {
            self.pages[at] = page;
        }
    }
}

/// A page of the sample.
#[derive(Debug)]
struct Known {
    number: u32,
    /// At which look it was seen last.
    seen: u32,
    /// Whether it was swapped out, so that it is known to be touched if it is in memory.
    is_out: bool,
}

/// How a workload is looked at.
pub(crate) struct Looker<'a> {
    /// The group's folder of the memory controller.
    pub(crate) group: &'a Path,
    /// What freezes it, where there is something.
    pub(crate) freezer: Option<PathBuf>,
    pub(crate) page_out: PageOut,
    /// One page of so many is in the sample, a power of two.
    pub(crate) one_of: u64,
    /// Between two looks at least.
    pub(crate) pause_s: f64,
}

impl Looker<'_> {
    /// By how large the workload is, and how long it takes without being looked at.
    pub(crate) fn new(
        group: &Path,
        freezer: Option<PathBuf>,
        page_out: PageOut,
        footprint_bytes: u64,
        run_s: f64,
    ) -> Looker<'_> {
        let times = (footprint_bytes / PAGE / SAMPLE).max(1);
        Looker {
            group,
            freezer,
            page_out,
            one_of: 1 << times.ilog2(),
            pause_s: PAUSE_LEAST_S.max(run_s / LOOKS),
        }
    }

    /// Looks until told that the run is over. `stored` says what compressed swap holds: pages, and what they take.
    pub(crate) fn watch(
        &self,
        over: &AtomicBool,
        stored: &dyn Fn() -> Option<(u64, u64)>,
    ) -> Trace {
        let mut trace = Trace::default();
        let mut known = HashMap::new();
        while !over.load(Ordering::SeqCst) {
            let begin = Instant::now();
            self.freeze(true);
            self.look(&mut trace, &mut known);
            self.freeze(false);
            if let Some((pages, compressed)) = stored().filter(|it| it.0 > trace.stored_bytes) {
                (trace.stored_bytes, trace.compressed_bytes) = (pages, compressed);
            }
            let took_s = begin.elapsed().as_secs_f64();
            trace.cost_s += took_s;
            // A workload that takes longer than it did is looked at more seldom.
            let seldom = 1u32 << (f64::from(trace.looks) / LOOKS).min(10.0) as u32;
            let pause_s = (self.pause_s * f64::from(seldom)).max(took_s * PAUSE_SHARE);
            std::thread::sleep(Duration::from_secs_f64(pause_s));
        }
        trace
    }

    /// Freezes the workload, or lets it go on. Where that cannot be done, it is looked at as it goes.
    fn freeze(&self, yes: bool) {
        let Some(folder) = &self.freezer else { return };
        if fs::write(folder.join("cgroup.freeze"), if yes { "1" } else { "0" }).is_err() {
            return;
        }
        // A process that waits in the kernel may take its time.
        for _ in 0..500 {
            if !yes {
                return;
            }
            let text = fs::read_to_string(folder.join("cgroup.events")).unwrap_or_default();
            let is = |name, value| counters::value(&text, name) == Some(value);
            if is("frozen", 1) || is("populated", 0) {
                return;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    fn look(&self, trace: &mut Trace, known: &mut HashMap<(u32, u64), Known>) {
        let look = trace.looks;
        trace.looks += 1;
        let text = |file: &str| fs::read_to_string(self.group.join(file)).unwrap_or_default();
        let mut any = false;
        for pid in text("cgroup.procs")
            .lines()
            .filter_map(|it| it.trim().parse().ok())
        {
            any |= self.look_at(pid, look, trace, known).is_some();
        }
        known.retain(|_, it| {
            if it.seen != look {
                trace.happened.push(Happened {
                    look,
                    page: it.number,
                    what: What::GivenBack,
                });
            }
            it.seen == look
        });
        if any {
            let stat = text("memory.stat");
            let value =
                |one, other| counters::value(&stat, one).or_else(|| counters::value(&stat, other));
            let (anonymous, files) = (value("anon", "rss"), value("file", "cache"));
            let number = |file: &str| text(file).trim().parse::<u64>().ok();
            let used = number("memory.usage_in_bytes").or_else(|| number("memory.current"));
            let swappable = anonymous.unwrap_or(0) + files.unwrap_or(0);
            trace
                .kernel_bytes
                .push(used.unwrap_or(0).saturating_sub(swappable));
            let unwritten = value("file_dirty", "dirty").unwrap_or(0);
            trace.unwritten_bytes = trace.unwritten_bytes.max(unwritten);
            trace.shmem_bytes = trace.shmem_bytes.max(value("shmem", "shmem").unwrap_or(0));
            trace.anonymous_bytes = trace.anonymous_bytes.max(anonymous.unwrap_or(0));
        }
    }

    /// At one process; none where it has ended.
    fn look_at(
        &self,
        pid: u32,
        look: u32,
        trace: &mut Trace,
        known: &mut HashMap<(u32, u64), Known>,
    ) -> Option<()> {
        let process = hold(pid)?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let pagemap = File::open(format!("/proc/{pid}/pagemap")).ok()?;
        let mut out = Vec::new();
        let mut words = Vec::new();
        for range in maps.lines().filter_map(writable) {
            words.resize(((range.end - range.start) / PAGE * 8) as usize, 0);
            if pagemap
                .read_exact_at(&mut words, range.start / PAGE * 8)
                .is_err()
            {
                continue;
            }
            for (page, word) in (range.start / PAGE..).zip(words.chunks_exact(8)) {
                let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
                // In memory or in swap, and not of a file.
                if word >> 62 == 0 || word >> 61 & 1 == 1 {
                    continue;
                }
                trace.all += 1;
                let Some(drawn) = drawn(page, self.one_of) else {
                    continue;
                };
                trace.sampled += 1;
                let is_new = !known.contains_key(&(pid, page));
                let it = known.entry((pid, page)).or_insert_with(|| {
                    trace.part.push((drawn >> 32) as u8 % PARTS as u8);
                    Known {
                        number: trace.part.len() as u32 - 1,
                        seen: look,
                        is_out: true,
                    }
                });
                it.seen = look;
                if word >> 63 == 0 {
                    // Swapped out by whomever.
                    it.is_out = true;
                    if !is_new {
                        continue;
                    }
                }
                let shared = word >> 63 == 1 && word >> 56 & 1 == 0;
                trace.shared += u64::from(shared);
                // One that could not be swapped out may have been touched or not; but one that is shared stays.
                if it.is_out || shared {
                    trace.happened.push(Happened {
                        look,
                        page: it.number,
                        what: What::Touched,
                    });
                }
                it.is_out = false;
                if word >> 63 == 1 && !shared {
                    out.push(page * PAGE..(page + 1) * PAGE);
                }
            }
        }
        if let Ok(memory) = File::open(format!("/proc/{pid}/mem")) {
            let step = (out.len() / COPIES_OF_LOOK).max(1);
            let some = out.iter().step_by(step);
            some.for_each(|range| trace.copies.offer(&memory, range));
        }
        // It may have ended, or be about to run another program.
        let _ = (self.page_out)(process.as_fd(), &out);
        for range in &out {
            let mut word = [0; 8];
            let page = range.start / PAGE;
            let read = pagemap.read_exact_at(&mut word, page * 8);
            let is_out = read.is_ok() && u64::from_ne_bytes(word) >> 63 == 0;
            if let Some(it) = known.get_mut(&(pid, page)).filter(|_| is_out) {
                it.is_out = true;
            }
        }
        Some(())
    }
}

/// Where the drawing of the sample starts.
const SEED: u64 = 0x7a6d_656c_6400_0000;

/// Whether a page is in the sample: one of each so many that lie side by side, drawn by a hash. Neighbours are much alike,
/// so that such a sample has hot and cold pages in the proportion of all. What is drawn besides is the block's.
fn drawn(page: u64, one_of: u64) -> Option<u64> {
    let drawn = crate::workload::mix((page / one_of) ^ SEED);
    (drawn & (one_of - 1) == page & (one_of - 1)).then_some(drawn)
}

fn hold(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// The addresses of a mapping that may be written to, so that there may be pages that are swapped, from its line of `maps`.
fn writable(line: &str) -> Option<Range<u64>> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    let is_writable = words.next()?.as_bytes().get(1) == Some(&b'w');
    (is_writable && range.start < range.end && range.end - range.start <= MAPPING_MAX)
        .then_some(range)
}

impl Trace {
    /// Pages that it had, one after another.
    pub(crate) fn copies(&self) -> Vec<u8> {
        self.copies.pages.concat()
    }

    /// Computes what each room would do; none where too little was seen, in words.
    pub(crate) fn concluded(mut self, elapsed_s: f64) -> Result<Sampled, &'static str> {
        if self.happened.is_empty() || (self.looks as usize) < LOOKS_LEAST {
            return Err("the run is too short for it");
        }
        if self.shmem_bytes as f64 > SHARED_MAX * self.anonymous_bytes as f64 {
            return Err("much of its memory is shared memory");
        }
        if self.shared as f64 > SHARED_MAX * self.sampled as f64 {
            return Err("much of its memory is shared among processes");
        }
        self.shuffle();
        self.kernel_bytes.sort_unstable();
        let share = self.sampled as f64 / self.all as f64;
        let largest = self.most() as f64;
        let mut rooms = Vec::new();
        let mut room = largest;
        while room >= (largest * ROOM_LEAST).max(1.0) {
            rooms.push(self.with_room(room as usize, share));
            room = (room * ROOM_STEP).min(room - 1.0);
        }
        let touches = self.happened.iter().filter(|it| it.what == What::Touched);
        let stored = self.stored_bytes.max(1) as f64;
        Ok(Sampled {
            elapsed_s,
            cost_s: self.cost_s,
            looks: u64::from(self.looks),
            pages: self.part.len() as u64,
            share,
            touches: touches.count() as u64,
            kernel_bytes: self.kernel_bytes[self.kernel_bytes.len() / 2],
            unwritten_bytes: self.unwritten_bytes,
            stored_share: self.compressed_bytes as f64 / stored,
            rooms,
        })
    }

    /// In which order pages were touched between two looks is not known.
    fn shuffle(&mut self) {
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        for of_look in self
            .happened
            .chunk_by_mut(|one, other| one.look == other.look)
        {
            // What was given back was so after it was touched.
            let touched = of_look.partition_point(|it| it.what == What::Touched);
            of_look[..touched].shuffle(&mut random);
        }
    }

    /// The most pages of the sample that there were at once.
    fn most(&self) -> usize {
        let mut there = vec![false; self.part.len()];
        let (mut now, mut most) = (0usize, 0);
        for it in &self.happened {
            let before = std::mem::replace(&mut there[it.page as usize], it.what == What::Touched);
            match (before, it.what) {
                (false, What::Touched) => now += 1,
                (true, What::GivenBack) => now -= 1,
                _ => {}
            }
            most = most.max(now);
        }
        most
    }

    fn with_room(&self, room: usize, share: f64) -> RoomFaults {
        let mut lists = Lists::new(self.part.len(), share);
        let mut of_part = [0.0; PARTS as usize];
        let (mut faults, mut filling) = (0u64, 0u64);
        for of_look in self.happened.chunk_by(|one, other| one.look == other.look) {
            let mut here = 0;
            let mut touched = 0;
            for it in of_look {
                match it.what {
                    What::Touched => {
                        let fault = lists.touch(it.page, room);
                        here += u64::from(fault);
                        touched += 1;
                        of_part[usize::from(self.part[it.page as usize])] +=
                            f64::from(u8::from(fault));
                    }
                    What::GivenBack => lists.forget(it.page),
                }
            }
            faults += here;
            if touched as f64 * LOOKS_TO_FILL > room as f64 {
                filling += here;
            }
        }
        let mean = of_part.iter().sum::<f64>() / PARTS as f64;
        let squares: f64 = of_part.iter().map(|it| (it - mean).powi(2)).sum();
        let parts = PARTS as f64;
        RoomFaults {
            room_bytes: (room as f64 / share) as u64 * PAGE,
            faults: faults as f64 / share,
            scanned: lists.scanned() as f64 / share,
            error: (squares * parts / (parts - 1.0)).sqrt() / share,
            at_least: filling * 4 > faults,
        }
    }
}

impl Sampled {
    /// The faults with room for so much.
    pub fn faults(&self, room_bytes: f64) -> Option<RoomFaults> {
        let first = self.rooms.first()?;
        if room_bytes >= first.room_bytes as f64 {
            return Some(RoomFaults {
                room_bytes: room_bytes as u64,
                ..RoomFaults::default()
            });
        }
        let pair = self.rooms.windows(2);
        let mut pair = pair.filter(|two| room_bytes >= two[1].room_bytes as f64);
        let Some(&[above, below]) = pair.next() else {
            let last = self.rooms.last()?;
            return Some(RoomFaults {
                room_bytes: room_bytes as u64,
                at_least: true,
                ..*last
            });
        };
        let whole = (above.room_bytes - below.room_bytes).max(1) as f64;
        let part = (above.room_bytes as f64 - room_bytes) / whole;
        let between = |from: f64, to: f64| from + part * (to - from);
        Some(RoomFaults {
            room_bytes: room_bytes as u64,
            faults: between(above.faults, below.faults),
            scanned: between(above.scanned, below.scanned),
            error: between(above.error, below.error),
            at_least: above.at_least || below.at_least,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages of a made trace: a hot quarter that gets four of five touches, and the rest.
    const PAGES: u64 = 8000;
    const TOUCHES: usize = 400_000;
    /// So many touches from one look to the next.
    const OF_LOOK: usize = 400;

    fn touches() -> Vec<u64> {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let hot = |random: &mut ChaCha8Rng| random.random_range(0..PAGES / 4);
        let touched = (0..TOUCHES).map(|at| match at % 5 {
            0 => random.random_range(0..PAGES),
            _ => hot(&mut random),
        });
        (0..PAGES).chain(touched).collect()
    }

    /// What is seen of it when one page of so many is in the sample.
    fn seen(touches: &[u64], one_of: u64) -> Trace {
        let mut trace = Trace {
            kernel_bytes: vec![3, 1, 2],
            ..Trace::default()
        };
        let mut numbers = HashMap::new();
        for of_look in touches.chunks(OF_LOOK) {
            let mut touched: Vec<u64> = of_look.to_vec();
            touched.sort_unstable();
            touched.dedup();
            for page in touched {
                let Some(drawn) = drawn(page, one_of) else {
                    continue;
                };
                let number = *numbers.entry(page).or_insert_with(|| {
                    trace.part.push((drawn >> 32) as u8 % PARTS as u8);
                    trace.part.len() as u32 - 1
                });
                trace.happened.push(Happened {
                    look: trace.looks,
                    page: number,
                    what: What::Touched,
                });
            }
            trace.looks += 1;
        }
        trace.sampled = numbers.len() as u64;
        trace.all = PAGES;
        trace
    }

    #[test]
    fn a_sample_of_the_pages_tells_the_faults_of_all_of_them() {
        let touches = touches();
        let sampled = seen(&touches, 8).concluded(1.0).unwrap();
        assert_eq!(sampled.kernel_bytes, 2);
        for percent in [90, 80, 60, 40] {
            let room = PAGES as usize * percent / 100;
            let mut lists = Lists::new(PAGES as usize, 1.0);
            let truth = touches
                .iter()
                .filter(|&&page| lists.touch(page as u32, room));
            let truth = truth.count() as f64;
            let found = sampled.faults((room as u64 * PAGE) as f64).unwrap();
            let said = format!("{percent} %: {truth} in truth, {found:?}");
            assert!((0.9..1.1).contains(&(found.faults / truth)), "{said}");
            assert!((found.faults - truth).abs() < 5.0 * found.error, "{said}");
            assert!(!found.at_least, "{said}");
        }
        // Room for fewer pages than are touched from one look to the next.
        assert!(sampled.faults((PAGES / 50 * PAGE) as f64).unwrap().at_least);
        let fits = sampled.faults((PAGES * 2 * PAGE) as f64).unwrap();
        assert_eq!((fits.faults, fits.error, fits.at_least), (0.0, 0.0, false));
    }

    #[test]
    fn of_neighbours_one_is_in_the_sample_and_not_always_the_same() {
        for one_of in [1u64, 2, 8] {
            let mut offsets = std::collections::BTreeSet::new();
            for block in 0..500 {
                let pages = block * one_of..(block + 1) * one_of;
                let in_it: Vec<u64> = pages.filter(|&it| drawn(it, one_of).is_some()).collect();
                assert_eq!(in_it.len(), 1, "{one_of} {block}");
                offsets.insert(in_it[0] % one_of);
            }
            assert_eq!(offsets.len() as u64, one_of);
        }
        // What is drawn besides, by which the sample is divided into parts, goes by neither.
        let part = |page| (drawn(page, 1).unwrap() >> 32) & 1;
        let of_first = (0..1000).map(part).sum::<u64>();
        assert!((400..600).contains(&of_first), "{of_first}");
    }

    #[test]
    fn a_room_between_two_has_what_lies_between_them() {
        let sampled = seen(&touches()[..100_000], 8).concluded(1.0).unwrap();
        let [above, below] = sampled.rooms[10..12] else {
            panic!("{:?}", sampled.rooms);
        };
        let middle = (above.room_bytes + below.room_bytes) as f64 / 2.0;
        let found = sampled.faults(middle).unwrap();
        // To evict a page, reclaim looks at it.
        assert!(below.scanned >= below.faults && below.faults > 0.0);
        for (found, one, other) in [
            (found.faults, above.faults, below.faults),
            (found.scanned, above.scanned, below.scanned),
        ] {
            assert!(
                (found - (one + other) / 2.0).abs() < 1.0,
                "{found} {one} {other}"
            );
        }
    }

    #[test]
    fn what_is_given_back_makes_room_and_is_no_fault_when_it_comes_anew() {
        // In turns 400 pages are touched twice, and all are given back.
        let mut trace = Trace {
            part: vec![0; 400],
            sampled: 400,
            all: 400,
            kernel_bytes: vec![0],
            ..Trace::default()
        };
        for turn in 0..50 {
            for (look, what) in [(0, What::Touched), (1, What::Touched), (2, What::GivenBack)] {
                trace.happened.extend((0..400).map(|page| Happened {
                    look: turn * 3 + look,
                    page,
                    what,
                }));
            }
        }
        trace.looks = 150;
        let sampled = trace.concluded(1.0).unwrap();
        assert_eq!(sampled.faults((400 * PAGE) as f64).unwrap().faults, 0.0);
        // With room for half of them at least half of the second touches are faults, and none of the first ones is.
        let half = sampled.faults((200 * PAGE) as f64).unwrap().faults;
        assert!((10_000.0..=20_000.0).contains(&half), "{half}");
    }

    #[test]
    fn nothing_is_said_of_what_is_not_seen() {
        assert!(Trace::default().concluded(1.0).is_err());
        let with = |change: fn(&mut Trace)| {
            let mut trace = seen(&touches()[..100_000], 8);
            trace.anonymous_bytes = 1000;
            change(&mut trace);
            trace.concluded(1.0)
        };
        assert!(with(|_| ()).is_ok());
        assert!(with(|trace| trace.looks = 3).is_err());
        assert!(with(|trace| trace.shmem_bytes = 500).is_err());
        assert!(with(|trace| trace.shared = trace.sampled).is_err());
        assert!(Sampled::default().faults(1.0).is_none());
    }

    #[test]
    fn mappings_that_may_be_written_are_looked_at() {
        let of = |line| writable(line);
        assert_eq!(
            of("1000-3000 rw-p 00000000 00:00 0  [heap]"),
            Some(0x1000..0x3000)
        );
        assert_eq!(of("1000-3000 r-xp 00000000 08:01 5  /bin/sh"), None);
        assert_eq!(of("0-7fffffffffff rw-p 00000000 00:00 0"), None);
        for wrong in ["", "x", "1000", "zz-3000 rw-p", "3000-1000 rw-p"] {
            assert_eq!(of(wrong), None);
        }
    }
}
