//! How much of the memory was not touched for a while.
//!
//! Two facilities of the kernel can tell, and the better one there is used:
//!
//! - **Idle page tracking** (`/sys/kernel/mm/page_idle/bitmap`, with physical
//!   frame numbers): every page that the chosen processes map is marked idle,
//!   and the kernel takes the mark away on any access, by whatever process.
//!   Exact per page.
//! - **Referenced bits**: `1` is written to `/proc/PID/clear_refs`, and later
//!   the `Referenced` line of each mapping in smaps says how much of it was
//!   touched. The number of cold pages is known per mapping, but not which they
//!   are. No other interface shows a page's referenced bit: `kpageflags`
//!   REFERENCED is the reclaim list's flag, which an access does not set;
//!   soft-dirty and the categories of PAGEMAP_SCAN tell of writes only.
//!
//! Limits of both: a translation that stays in a processor's cache for the
//! whole wait shows no access (the kernel does not flush it for this), and
//! reclaim under memory pressure clears the same bits.
//!
//! Watching changes what the kernel knows of a page's age; nothing else in this
//! crate does.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::memory::live::cold_pages::{ColdPagesFound, ColdSet};
use crate::memory::live::frames::{FrameSet, HeadFinder, PageFlags};
use crate::memory::live::kinds::KindFilter;
use crate::memory::live::pagemap::{self, frame_numbers_visible};
use crate::memory::live::processes::ChosenProcess;
use crate::memory::live::visit::skip_reason;
use crate::memory::live::LiveMemory;
use crate::memory::{ColdPages, Error, RegionKind, SkipReason, Skips};
use zmeld_linux::others::{LockedFile, PatientReader};
use zmeld_linux::smaps::Mapping;

const IDLE_BITMAP: &str = "/sys/kernel/mm/page_idle/bitmap";
const TICK: Duration = Duration::from_millis(50);

/// Watches the processes of a [`LiveMemory`] for pages that are not touched.
///
/// ```no_run
/// # use std::{sync::atomic::AtomicBool, time::Duration};
/// # use zmeld_scan::memory::{ColdTracker, Error, LiveMemory, LiveOptions, Selection};
/// # fn main() -> Result<(), Error> {
/// let live = LiveMemory::open(LiveOptions::new(Selection::All))?;
/// let tracker = ColdTracker::start(&live)?;
/// let stop = AtomicBool::new(false);
/// let watched = tracker.wait(Duration::from_secs(60), &stop, &mut |_elapsed| {})?;
/// let live = live.only_cold(watched); // its visit delivers cold pages only
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct ColdTracker {
    method: ColdMethod,
    chosen: Vec<ChosenProcess>,
    wanted: KindFilter,
    begin: Instant,
    skipped: Skips,
}

#[derive(Debug)]
enum ColdMethod {
    Idle { bitmap: PathBuf, marked: FrameSet },
    Referenced,
}

impl ColdTracker {
    /// Marks the memory of the chosen processes as untouched.
    ///
    /// # Errors
    /// When no chosen process may be marked, or the idle bitmap cannot be written.
    pub fn start(live: &LiveMemory) -> Result<Self, Error> {
        let bitmap = Path::new(IDLE_BITMAP);
        if bitmap.exists() && frame_numbers_visible() {
            if let Some(flags) = PageFlags::open() {
                return Self::start_idle(live, bitmap, &flags);
            }
        }
        Self::start_referenced(live)
    }

    fn new(live: &LiveMemory, method: ColdMethod) -> Self {
        ColdTracker {
            method,
            chosen: live.readable().cloned().collect(),
            wanted: KindFilter::new(&live.options),
            begin: Instant::now(),
            skipped: Skips::default(),
        }
    }

    fn start_idle(live: &LiveMemory, bitmap: &Path, flags: &PageFlags) -> Result<Self, Error> {
        let marked = FrameSet::of_machine();
        let mut reader = PatientReader::default();
        for process in live.readable() {
            // One that is gone or holds its readers up is found so again by the visit.
            let _ = mark(process, &mut reader, flags, &marked);
        }
        let file = OpenOptions::new()
            .write(true)
            .open(bitmap)
            .map_err(|cause| Error::io("open", bitmap, cause))?;
        for (index, word) in marked.words() {
            file.write_all_at(&word.to_ne_bytes(), index * 8)
                .map_err(|cause| Error::io("write", bitmap, cause))?;
        }
        Ok(Self::new(
            live,
            ColdMethod::Idle {
                bitmap: bitmap.to_path_buf(),
                marked,
            },
        ))
    }

    fn start_referenced(live: &LiveMemory) -> Result<Self, Error> {
        let mut tracker = Self::new(live, ColdMethod::Referenced);
        let mut skipped = Skips::default();
        let mut refused = None;
        let mut reader = PatientReader::default();
        tracker.chosen.retain(|process| {
            let opened = process.open(&mut reader, [LockedFile::ClearRefs]);
            let reset = |[file]: [File; 1]| {
                let mut reader = reader.of(process.pid);
                reader.run(move || file.write_all_at(b"1", 0))
            };
            let Err(cause) = opened.and_then(reset) else {
                return true;
            };
            let reason = skip_reason(&cause);
            let pages = match reason {
                SkipReason::Vanished => 0,
                _ => process.resident.anonymous * 1024 / live.page_size as u64,
            };
            // One that holds its readers up the visit meets again, and counts.
            if !matches!(reason, SkipReason::Held | SkipReason::NotTried) {
                skipped.process(reason, pages);
            }
            if reason == SkipReason::Permission {
                let path = LockedFile::ClearRefs.path(process.pid);
                refused = Some(Error::io("write", path, cause));
            }
            false
        });
        if let (true, Some(error)) = (tracker.chosen.is_empty(), refused) {
            return Err(error);
        }
        tracker.skipped = skipped;
        tracker.begin = Instant::now();
        Ok(tracker)
    }

    /// Waits, telling `progress` the time that has passed, and then looks what
    /// was not touched. When `stop` is set it looks at once; the time it really
    /// waited is in the result.
    ///
    /// # Errors
    /// When the idle bitmap cannot be read.
    pub fn wait(
        self,
        duration: Duration,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Duration),
    ) -> Result<ColdPagesFound, Error> {
        loop {
            let elapsed = self.begin.elapsed();
            if elapsed >= duration || stop.load(Ordering::Relaxed) {
                break;
            }
            progress(elapsed);
            std::thread::sleep(TICK.min(duration - elapsed));
        }
        let waited = self.begin.elapsed();
        match &self.method {
            ColdMethod::Idle { bitmap, marked } => {
                let idle = still_idle(bitmap, marked)?;
                Ok(ColdPagesFound {
                    waited,
                    found: ColdSet::Idle(idle),
                    pages: BTreeMap::new(),
                    skipped: self.skipped,
                })
            }
            ColdMethod::Referenced => Ok(self.look_at_mappings(waited)),
        }
    }

    fn look_at_mappings(self, waited: Duration) -> ColdPagesFound {
        let mut pages: BTreeMap<RegionKind, ColdPages> = BTreeMap::new();
        let mut untouched = HashMap::new();
        let mut reader = PatientReader::default();
        for process in &self.chosen {
            // One that is gone is found so again by the visit.
            let Ok(mappings) = pagemap::mappings(process, &mut reader) else {
                continue;
            };
            let mut cold = Vec::new();
            for mapping in &mappings {
                let Some(kind) = self.wanted.of_mapping(mapping) else {
                    continue;
                };
                let entry = pages.entry(kind).or_default();
                entry.resident += mapping.rss;
                entry.cold += mapping.rss.saturating_sub(mapping.referenced);
                if mapping.referenced == 0 {
                    cold.push((mapping.start, mapping.end));
                }
            }
            untouched.insert(process.pid, cold);
        }
        ColdPagesFound {
            waited,
            found: ColdSet::Mappings(untouched),
            pages,
            skipped: self.skipped,
        }
    }
}

/// Adds the frames (heads of compound pages) that a process maps.
fn mark(
    process: &ChosenProcess,
    reader: &mut PatientReader,
    flags: &PageFlags,
    marked: &FrameSet,
) -> io::Result<()> {
    let mut heads = HeadFinder::default();
    let expected = |mapping: &Mapping| if mapping.flags.device { 0 } else { mapping.rss };
    let never = AtomicBool::new(false);
    pagemap::walk(
        process,
        reader,
        &never,
        &mut Vec::new(),
        expected,
        |entry| {
            if entry.present() {
                marked.insert(heads.head_of(flags, entry.frame()));
            }
            entry.present()
        },
    )
}

/// Reads the bitmap's words of the marked frames; what is still set stayed idle.
fn still_idle(bitmap: &Path, marked: &FrameSet) -> Result<FrameSet, Error> {
    let file = File::open(bitmap).map_err(|cause| Error::io("open", bitmap, cause))?;
    let idle = FrameSet::of_machine();
    for (index, word) in marked.words() {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, index * 8)
            .map_err(|cause| Error::io("read", bitmap, cause))?;
        let still = word & u64::from_ne_bytes(bytes);
        for bit in (0..64).filter(|bit| still >> bit & 1 == 1) {
            idle.insert(index * 64 + bit);
        }
    }
    Ok(idle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{ColdReport, Coldness, LiveOptions, Selection, Source};
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::sync::atomic::AtomicU64;

    /// A process that touches nothing unless it is asked to.
    struct Cat(std::process::Child);

    impl Cat {
        fn start() -> Cat {
            let mut cat = Command::new("cat");
            let cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut cat = Cat(cat.spawn().unwrap());
            cat.touch();
            cat
        }

        /// Until it has answered.
        fn touch(&mut self) {
            self.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            let mut answer = [0];
            self.0
                .stdout
                .as_mut()
                .unwrap()
                .read_exact(&mut answer)
                .unwrap();
            let stat = || std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            while !stat().contains(") S ") {
                std::thread::yield_now();
            }
        }

        fn memory(&self) -> LiveMemory {
            let pid = i32::try_from(self.0.id()).unwrap();
            LiveMemory::open(LiveOptions::new(Selection::Pids(vec![pid]))).unwrap()
        }
    }

    impl Drop for Cat {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// What was not touched is cold, as smaps says it of each mapping.
    #[test]
    fn with_referenced_bits_mappings_are_cold_in_which_nothing_was_touched() {
        let mut cat = Cat::start();
        let stop = AtomicBool::new(false);
        for touched in [false, true] {
            let live = cat.memory();
            let tracker = ColdTracker::start_referenced(&live).unwrap();
            if touched {
                cat.touch();
            }
            let mut told = Vec::new();
            let time = Duration::from_millis(130);
            let found = tracker.wait(time, &stop, &mut |it| told.push(it)).unwrap();
            assert!(found.waited >= time && told.len() > 1 && told.is_sorted());
            assert!(told.iter().all(|it| *it < time) && found.skipped == Skips::default());
            assert_eq!(found.coldness(), Coldness::PerMapping);
            let process = live.readable().next().unwrap();
            let mappings = pagemap::mappings(process, &mut PatientReader::default()).unwrap();
            let kinds = KindFilter::new(&live.options);
            let mut pages: BTreeMap<RegionKind, ColdPages> = BTreeMap::new();
            for it in &mappings {
                let is_cold = it.referenced == 0;
                if let Some(kind) = kinds.of_mapping(it) {
                    let sum = pages.entry(kind).or_default();
                    sum.resident += it.rss;
                    sum.cold += it.rss - it.referenced;
                    assert_eq!(found.is_cold_mapping(process.pid, it), is_cold);
                    assert!(!found.is_cold_mapping(1, it));
                }
            }
            assert_eq!(found.pages, pages);
            let report = ColdReport {
                coldness: Coldness::PerMapping,
                waited: time,
                pages,
            };
            let total = report.total();
            assert!(total.resident > 20 && total.cold > 0 && total.delivered == 0);
            // What a processor's cache still translates shows no access.
            assert!(touched || total.cold == total.resident, "{total:?}");
        }
    }

    /// The bitmap is a plain file here, so the test decides what was touched.
    #[test]
    fn with_an_idle_bitmap_exactly_the_idle_pages_are_delivered() {
        let Some(flags) = PageFlags::open().filter(|_| frame_numbers_visible()) else {
            println!("SKIP: frame numbers are for root");
            return;
        };
        let cat = Cat::start();
        let open = || cat.memory();
        let stop = AtomicBool::new(false);
        let all = open().visit(1, &stop, &|_| {}).unwrap().counted.delivered;

        let bitmap = tempfile::NamedTempFile::new().unwrap();
        let live = open();
        let tracker = ColdTracker::start_idle(&live, bitmap.path(), &flags).unwrap();
        // Every second frame was touched.
        let words = std::fs::read(bitmap.path()).unwrap();
        std::fs::write(
            bitmap.path(),
            words.iter().map(|byte| byte & 0x55).collect::<Vec<_>>(),
        )
        .unwrap();
        let watched = tracker.wait(Duration::ZERO, &stop, &mut |_| {}).unwrap();
        let live = live.only_cold(watched);
        let delivered = AtomicU64::new(0);
        let visit = live
            .visit(1, &stop, &|batch| {
                delivered.fetch_add(
                    batch.bytes.len() as u64 / live.page_size as u64,
                    Ordering::Relaxed,
                );
            })
            .unwrap();
        let cold = visit.cold.unwrap();
        assert_eq!(cold.coldness, Coldness::PerPage);
        let total = cold.total();
        assert_eq!(
            (total.resident, total.cold, total.delivered),
            (all, delivered.load(Ordering::Relaxed), total.cold)
        );
        assert_eq!(
            visit.skipped.get(SkipReason::Touched).pages,
            all - total.cold
        );
        assert!(total.cold > 0 && total.cold < all, "{total:?}");
    }
}
