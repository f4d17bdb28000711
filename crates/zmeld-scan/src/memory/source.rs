//! The contract between a source of pages and whoever looks at them.
//!
//! Words: a *region* is a contiguous stretch of pages with one owner (a mapping
//! of a process, a swap device, a segment of a dump); a *batch* is a run of
//! pages of one region, handed to the consumer; a *visit* is one reading of a
//! whole source and what was learnt beside the bytes.
//!
//! Invariants, for a visit that was not interrupted:
//! - every batch holds at least one page and only whole pages;
//! - no page is delivered twice, and with physical frame numbers known no
//!   physical page is delivered twice;
//! - what is not delivered is counted: `Counted` says what is there,
//!   `Skipped` says what could not or should not be read, and why.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::memory::Error;

/// Names a region within one visit. Numbers are given out densely from 0, so a
/// consumer may keep them in 24 bits as long as the visit has fewer regions
/// than that; [`RegionId::MAX`] is never exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

impl RegionId {
    /// The largest number ever given out: regions fit in 24 bits. A machine
    /// with more mappings than that has the rest counted as skipped.
    pub const MAX: RegionId = RegionId((1 << 24) - 1);
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    Process {
        pid: i32,
        /// Its name, as `/proc/PID/stat` has it (at most 15 bytes).
        comm: Arc<str>,
    },
    /// A swap device or swap file.
    Device(PathBuf),
    /// A regular file or block device.
    File(PathBuf),
    Dump {
        path: PathBuf,
        /// Index of the program header, or of the range.
        segment: u32,
    },
    Stdin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RegionKind {
    /// The heap that grows by brk.
    Heap,
    /// The stack of a main thread (other threads' stacks are anonymous).
    Stack,
    /// Other private anonymous memory.
    Anonymous,
    /// A process's own modified copies of pages of a privately mapped file.
    PrivateFile,
    /// Memory shared by mapping: shared anonymous, memfd, System V, tmpfs.
    SharedMemory,
    /// Pages of a mapped file, as the page cache holds them.
    FileBacked,
    /// A slot of a swap device or file.
    SwapDevice,
    /// A regular file or block device, read as pages.
    File,
    Dump,
    Stdin,
}

impl RegionKind {
    /// The kind in plain words, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            RegionKind::Heap => "heap",
            RegionKind::Stack => "stack",
            RegionKind::Anonymous => "anonymous",
            RegionKind::PrivateFile => "private file copies",
            RegionKind::SharedMemory => "shared memory",
            RegionKind::FileBacked => "file-backed",
            RegionKind::SwapDevice => "swap device",
            RegionKind::File => "file",
            RegionKind::Dump => "dump",
            RegionKind::Stdin => "standard input",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    pub owner: Owner,
    pub kind: RegionKind,
    /// Position of page 0, in bytes: an address in the process; 0 for files, dumps, devices and
    /// streams.
    pub start: u64,
}

/// One run of consecutive pages of one region.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The region that they belong to.
    pub region: RegionId,
    /// The region's kind of memory (so that a sink needs no table).
    pub kind: RegionKind,
    /// Index within the region of the first page.
    pub first_page: u64,
    /// The contents: a whole number of pages.
    pub bytes: &'a [u8],
    /// Without physical frame numbers (an ordinary user) it cannot be told
    /// whether two processes hold the same physical page. Then this has one
    /// entry per page: `true` when the kernel maps it more than once, so that
    /// an equal page elsewhere is probably the very same page and no saving.
    /// `None`: every page here is known to be delivered once.
    pub maybe_shared: Option<&'a [bool]>,
}

/// Counts of pages by what they are. Pages of one size: the source's page size.
///
/// For live memory the counts are of *mappings of* pages: a page that three
/// processes share by fork is three times in `anon_present`, delivered once,
/// and twice in `shared_again` (when frame numbers are known).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[non_exhaustive]
pub struct Counted {
    /// Pages handed to the sink.
    pub delivered: u64,
    /// Private memory that is in RAM: anonymous, and modified copies of files.
    pub anon_present: u64,
    /// Private memory that is in swap.
    pub anon_swapped: u64,
    /// Shared memory (shmem, tmpfs) that is mapped and in RAM.
    pub shmem_present: u64,
    /// Shared memory that is mapped and in swap. As the kernel reports it per
    /// mapping; memory shared by several processes is counted for each.
    pub shmem_swapped: u64,
    /// Pages of mapped files that are in RAM, unmodified by the process.
    pub file_present: u64,
    /// Mappings of a physical page that was already delivered.
    pub shared_again: u64,
    /// Mappings of the kernel's page of zeros: they use no memory, and are in no other count.
    pub zero_mapped: u64,
    /// Pages that the kernel's same-page merging already melded (in `anon_present` too).
    pub ksm: u64,
    /// Pages that are part of a transparent huge page (in `anon_present` too).
    pub huge: u64,
    /// Pages locked in memory, which swap will never take (in the other counts too).
    pub locked: u64,
    /// Pages used on a swap device.
    pub swap_slots: u64,
    /// Last pages of a file that were filled up with zeros.
    pub padded: u64,
    /// Pages that are holes in a file, which nobody ever wrote; in no other count.
    pub never_written: u64,
    /// Processes read, at least in part.
    pub processes: u64,
}

impl Counted {
    pub fn add(&mut self, other: &Counted) {
        self.delivered += other.delivered;
        self.anon_present += other.anon_present;
        self.anon_swapped += other.anon_swapped;
        self.shmem_present += other.shmem_present;
        self.shmem_swapped += other.shmem_swapped;
        self.file_present += other.file_present;
        self.shared_again += other.shared_again;
        self.zero_mapped += other.zero_mapped;
        self.ksm += other.ksm;
        self.huge += other.huge;
        self.locked += other.locked;
        self.swap_slots += other.swap_slots;
        self.padded += other.padded;
        self.never_written += other.never_written;
        self.processes += other.processes;
    }
}

/// Why something was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// The process belongs to another user or protects itself; root could read it.
    Permission,
    /// The process holds up whoever looks at its memory, for ever as far as one can tell.
    Held,
    /// Other processes of its user held up whoever looked at them, so that it was not tried.
    NotTried,
    /// The process or the mapping went away while it was being read.
    Vanished,
    /// A mapping that may not be read (PROT_NONE: guards, reserves, sandboxes).
    NoAccess,
    /// The kernel's own pages in every process: `[vvar]`, `[vdso]`, `[vsyscall]`.
    KernelPages,
    /// Memory of a device, not RAM that swap could take.
    DeviceMapping,
    /// Pages of hugetlbfs, which are never swapped.
    HugeTlb,
    KernelThread,
    /// The process that does the reading.
    Myself,
    /// The page could not be read although its mapping allows it.
    ReadFailed,
    /// Cold pages were asked for and these were touched, or may have been.
    Touched,
    /// In memory according to the dump's header, but not in the dump.
    NotInDump,
    /// The file became shorter while it was being read.
    Shrunk,
    /// More regions than can be numbered.
    TooManyRegions,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::Permission => "not permitted to this user",
            SkipReason::Held => "held up by the process itself",
            SkipReason::NotTried => "not tried: other processes held up the reading",
            SkipReason::Vanished => "gone before it could be read",
            SkipReason::NoAccess => "mapped without access",
            SkipReason::KernelPages => {
                "pages that the kernel maps into each process, such as [vdso]"
            }
            SkipReason::DeviceMapping => "memory of a device",
            SkipReason::HugeTlb => "hugetlb pages, which are never swapped",
            SkipReason::KernelThread => "kernel threads, which have no memory of their own",
            SkipReason::Myself => "the scanning process itself",
            SkipReason::ReadFailed => "could not be read",
            SkipReason::Touched => "touched lately, so not cold",
            SkipReason::NotInDump => "left out of the dump",
            SkipReason::Shrunk => "cut off while being read",
            SkipReason::TooManyRegions => "too many mappings to number",
        })
    }
}

/// How much was skipped for one reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Skipped {
    /// Whole processes.
    pub processes: u64,
    /// Mappings or segments.
    pub regions: u64,
    /// Pages, where their number is known.
    pub pages: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skips(pub BTreeMap<SkipReason, Skipped>);

impl Skips {
    /// Skips for `reason`.
    pub fn get(&self, reason: SkipReason) -> Skipped {
        self.0.get(&reason).copied().unwrap_or_default()
    }

    /// Reasons that occurred, in the order of the enumeration.
    pub fn iter(&self) -> impl Iterator<Item = (SkipReason, Skipped)> + '_ {
        self.0.iter().map(|(reason, skipped)| (*reason, *skipped))
    }

    pub(crate) fn process(&mut self, reason: SkipReason, pages: u64) {
        let entry = self.0.entry(reason).or_default();
        entry.processes += 1;
        entry.pages += pages;
    }

    pub(crate) fn region(&mut self, reason: SkipReason, pages: u64) {
        let entry = self.0.entry(reason).or_default();
        entry.regions += 1;
        // A dump's headers may say anything.
        entry.pages = entry.pages.saturating_add(pages);
    }

    pub(crate) fn pages(&mut self, reason: SkipReason, pages: u64) {
        self.0.entry(reason).or_default().pages += pages;
    }

    pub(crate) fn add(&mut self, other: &Skips) {
        for (reason, skipped) in other.iter() {
            let entry = self.0.entry(reason).or_default();
            entry.processes += skipped.processes;
            entry.regions += skipped.regions;
            entry.pages += skipped.pages;
        }
    }
}

/// Something the reader of a result should know about how exact it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Physical frame numbers are hidden: sharing between processes is guessed
    /// from contents, not known.
    NoFrameNumbers,
    /// `/proc` is mounted with `hidepid`: other users' processes are not even listed.
    ProcessesHidden,
    /// The kernel's `ptrace_scope` keeps even a user's own processes unreadable.
    PtraceScope { scope: u64 },
    /// Processes that hold up whoever reads their memory, the first of them named.
    Held { named: Vec<String>, more: u64 },
    /// The used slots of a swap device that no process's page tables name:
    /// shared memory and tmpfs, and slots in transit.
    SlotsUnattributed { used: u64, found: u64 },
    /// zswap is on, so that what it holds is not on the device and the device
    /// has older bytes there.
    ZswapInFront,
    /// The kernel drops pages of zeros before the device sees them (6.12 and
    /// newer), so that their slots may show older bytes on a disk.
    ZeroSlotsNotWritten,
    /// Something whose parts begin at no page's boundary.
    AsItIs { format: &'static str },
}

/// No more processes are named that hold their readers up.
const NAMED_MAX: usize = 16;

impl Note {
    /// Adds what another reading noted.
    pub fn add(notes: &mut Vec<Note>, note: &Note) {
        let (
            Note::Held { named, more },
            Some(Note::Held {
                named: all,
                more: count,
            }),
        ) = (
            note,
            notes.iter_mut().find(|it| matches!(it, Note::Held { .. })),
        )
        else {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
            return;
        };
        *count += more;
        for name in named
            .iter()
            .filter(|it| !all.contains(it))
            .collect::<Vec<_>>()
        {
            match all.len() < NAMED_MAX {
                true => all.push(name.clone()),
                false => *count += 1,
            }
        }
    }

    pub(crate) fn held(pid: i32, comm: &str) -> Note {
        Note::Held {
            named: vec![format!("{comm} ({pid})")],
            more: 0,
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::NoFrameNumbers => f.write_str(
                "physical page numbers are hidden from this user, so pages shared by fork are recognised by content only",
            ),
            Note::ProcessesHidden => {
                f.write_str("/proc hides other users' processes (hidepid), so they are not counted")
            }
            Note::PtraceScope { scope } => write!(
                f,
                "kernel.yama.ptrace_scope is {scope}: even one's own processes can be read by root only"
            ),
            Note::Held { named, more } => {
                write!(f, "not read, since whoever does is held up: {}", named.join(", "))?;
                match more {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Note::SlotsUnattributed { used, found } => write!(
                f,
                "{used} slots are used and {found} of them are named by page tables; the rest is shared memory or in transit"
            ),
            Note::ZswapInFront => {
                f.write_str("zswap is on: what it holds is not on the device, whose bytes there are older")
            }
            Note::ZeroSlotsNotWritten => f.write_str(
                "this kernel does not write pages of zeros to swap, so their slots may show older bytes",
            ),
            Note::AsItIs { format } => {
                write!(f, "it is {format}: its bytes are read as pages as they are, not what is in it")
            }
        }
    }
}

/// Findings of a visit beside the bytes.
#[derive(Debug, Clone, Default)]
pub struct Visit {
    /// Every region of which a page was delivered; index is the region's number.
    pub regions: Vec<Region>,
    pub counted: Counted,
    pub skipped: Skips,
    pub notes: Vec<Note>,
    /// `stop` was set before everything was read.
    pub interrupted: bool,
    /// How much of the memory was cold, when that was asked for.
    pub cold: Option<ColdReport>,
}

/// Takes the pages that a source delivers, from several threads at once.
pub type Sink<'a> = &'a (dyn Fn(Batch<'_>) + Sync);

pub trait Source: Send + Sync {
    /// The source in a few words, for a heading: `process 1234 and its children`.
    fn describe(&self) -> String;

    /// Bytes in a page, a power of two.
    fn page_size(&self) -> usize;

    /// How many pages [`visit`](Source::visit) will probably deliver, where
    /// that can be told beforehand: for progress, and for choosing a sample.
    /// For live memory it is an upper estimate (sharing is not known yet).
    fn expected_pages(&self) -> Option<u64>;

    /// Whether [`visit`](Source::visit) may be called again. A stream may not.
    fn can_revisit(&self) -> bool {
        true
    }

    /// Reads everything once with `threads` workers (at least one) and calls
    /// `sink` from all of them. Soon after `stop` is set it returns what was
    /// seen until then, with [`Visit::interrupted`] set.
    ///
    /// # Errors
    /// Only when nothing sensible can be said at all; a part that cannot be
    /// read is counted in [`Visit::skipped`].
    fn visit(&self, threads: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error>;
}

/// How exactly cold pages can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coldness {
    /// Each page by itself, in whatever process it was touched (idle page
    /// tracking): every page delivered was idle for the whole time.
    PerPage,
    /// Mapping by mapping (referenced bits, as smaps sums them up). The number
    /// of cold pages is known for every mapping, but not which they are; pages
    /// are delivered only from mappings in which none was touched. So the
    /// pages delivered are all cold, but not all of the cold pages.
    PerMapping,
}

/// Pages of one kind by their coldness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColdPages {
    /// Pages in RAM, of the kinds that were asked for.
    pub resident: u64,
    /// Of these, pages not touched during the wait.
    pub cold: u64,
    /// Of these, pages that were delivered.
    pub delivered: u64,
}

/// The result of looking for cold memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColdReport {
    /// How exact it is.
    pub coldness: Coldness,
    /// How long memory was watched.
    pub waited: Duration,
    /// By kind of memory. Per mapping, a privately mapped file counts as one
    /// kind: the process's copies if it has any, file-backed if not.
    pub pages: BTreeMap<RegionKind, ColdPages>,
}

impl ColdReport {
    pub(crate) fn add(&mut self, pages: &BTreeMap<RegionKind, ColdPages>) {
        for (kind, more) in pages {
            let entry = self.pages.entry(*kind).or_default();
            entry.resident += more.resident;
            entry.cold += more.cold;
            entry.delivered += more.delivered;
        }
    }

    /// All kinds together.
    pub fn total(&self) -> ColdPages {
        self.pages
            .values()
            .fold(ColdPages::default(), |sum, pages| ColdPages {
                resident: sum.resident + pages.resident,
                cold: sum.cold + pages.cold,
                delivered: sum.delivered + pages.delivered,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Note, NAMED_MAX};

    #[test]
    fn what_two_readings_noted_is_noted_once() {
        let held = |names: &[&str], more| Note::Held {
            named: names.iter().map(|it| it.to_string()).collect(),
            more,
        };
        let mut notes = vec![held(&["a"], 1)];
        Note::add(&mut notes, &Note::NoFrameNumbers);
        Note::add(&mut notes, &Note::NoFrameNumbers);
        Note::add(&mut notes, &held(&["a", "b"], 2));
        assert_eq!(notes, [held(&["a", "b"], 3), Note::NoFrameNumbers]);
        for pid in 0..NAMED_MAX as i32 {
            Note::add(&mut notes, &Note::held(pid, "c"));
        }
        let Note::Held { named, more } = &notes[0] else {
            panic!("{notes:?}")
        };
        assert_eq!((named.len(), *more, &*named[15]), (NAMED_MAX, 5, "c (13)"));
    }
}
