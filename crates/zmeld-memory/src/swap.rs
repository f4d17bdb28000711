//! The used slots of an active swap device or swap file.
//!
//! Which slots are used is read from the page tables of all processes. What
//! these do not name (shared memory and tmpfs, slots in transit) is found on
//! zram, where an unused slot reads as zeros: there every slot that is not zero
//! is used too. On a disk an unused slot holds old bytes, so only the slots
//! that page tables name are read, and the rest is reported as a difference.
//!
//! The device is opened for reading only, around the page cache (O_DIRECT),
//! which would show what it read earlier. Slot 0 is the header, never a page.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zmeld_linux::smaps::Mapping;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::KernelVersion;

use crate::buffer::Buffer;
use crate::file::{read_at_most, BATCH_BYTES};
use crate::live::frames::FrameSet;
use crate::live::pagemap::{self, PIECE_PAGES};
use crate::live::processes::{self, ChosenProcess};
use crate::live::visit::frame_numbers_visible;
use crate::live::Selection;
use crate::work::Queue;
use crate::{
    Batch, Counted, Error, Note, Owner, Region, RegionId, RegionKind, SkipReason, Skips, Source,
    Visit,
};

/// The active swap areas.
///
/// # Errors
/// When `/proc/swaps` cannot be read.
pub fn swap_areas() -> Result<Vec<SwapArea>, Error> {
    let path = zmeld_linux::swaps::PATH;
    let text = std::fs::read(path).map_err(|cause| Error::io("read", path, cause))?;
    // A line that is none can be read from as little as an area that is not there.
    let text = String::from_utf8_lossy(&text);
    Ok(zmeld_linux::swaps::parse(&text).flatten().collect())
}

/// Slots, of one page each, in so many bytes.
fn pages(bytes: u64) -> u64 {
    bytes / rustix::param::page_size() as u64
}

/// The used slots of one active swap area. Only root may read them.
#[derive(Debug)]
pub struct SwapDevice {
    area: SwapArea,
    file: File,
    page_size: usize,
}

impl SwapDevice {
    /// Opens an active swap device or file.
    ///
    /// # Errors
    /// When it is not active swap (the error lists what is), or this user may
    /// not read it or the page tables that say which slots are used.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let areas = swap_areas()?;
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let Some(area) = areas
            .iter()
            .find(|area| area.path == path || area.path == real)
        else {
            return Err(Error::NotSwap {
                path: path.to_path_buf(),
                active: areas
                    .iter()
                    .map(|area| area.path.display().to_string())
                    .collect(),
            });
        };
        let what = || format!("reading the swap device {}", path.display());
        let privilege = "root (CAP_SYS_ADMIN)";
        if !frame_numbers_visible() {
            return Err(Error::Privilege {
                what: what(),
                privilege,
            });
        }
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a small flag");
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(&area.path)
            .map_err(|cause| {
                if cause.kind() == io::ErrorKind::PermissionDenied {
                    Error::Privilege {
                        what: what(),
                        privilege,
                    }
                } else {
                    Error::io("open for direct reading", &area.path, cause)
                }
            })?;
        Ok(SwapDevice {
            area: area.clone(),
            file,
            page_size: rustix::param::page_size(),
        })
    }

    /// The area as `/proc/swaps` showed it when it was opened.
    pub fn area(&self) -> &SwapArea {
        &self.area
    }

    fn notes(&self, used: u64, found: u64) -> Vec<Note> {
        let mut notes = Vec::new();
        if used != found {
            notes.push(Note::SlotsUnattributed { used, found });
        }
        if std::fs::read("/sys/module/zswap/parameters/enabled")
            .is_ok_and(|text| text.starts_with(b"Y"))
        {
            notes.push(Note::ZswapInFront);
        }
        if !self.area.is_in_ram() && KernelVersion::running() >= Some(KernelVersion::new(6, 12)) {
            notes.push(Note::ZeroSlotsNotWritten);
        }
        notes
    }
}

impl Source for SwapDevice {
    fn describe(&self) -> String {
        format!("the used slots of {}", self.area.path.display())
    }

    fn page_size(&self) -> usize {
        self.page_size
    }

    fn expected_pages(&self) -> Option<u64> {
        Some(pages(self.area.used_bytes))
    }

    fn visit(
        &self,
        threads: usize,
        stop: &AtomicBool,
        sink: &(dyn Fn(Batch<'_>) + Sync),
    ) -> Result<Visit, Error> {
        let types = slots_in_page_tables(threads, stop)?;
        let areas = swap_areas()?;
        let gone = || Error::NotSwap {
            path: self.area.path.clone(),
            active: areas
                .iter()
                .map(|area| area.path.display().to_string())
                .collect(),
        };
        let index = areas
            .iter()
            .position(|area| area.path == self.area.path)
            .ok_or_else(gone)?;
        let used = pages(areas[index].used_bytes);
        let empty = TypeSlots::new();
        let named = match assign(&types, &areas) {
            Some(assigned) => assigned[index].map_or(&empty, |at| &types[at]),
            None if self.area.is_in_ram() => &empty, // every used slot shows by itself
            None => {
                return Err(Error::KernelFeature {
                    what: format!(
                        "telling the slots of {} from those of other swap areas",
                        self.area.path.display()
                    ),
                    feature: "a view of the page tables in which they differ",
                })
            }
        };
        let region = Region {
            id: RegionId(0),
            owner: Owner::Device(self.area.path.clone()),
            kind: RegionKind::SwapDevice,
            name: Arc::from(self.area.path.to_string_lossy()),
            start: 0,
        };
        let batch_pages = (BATCH_BYTES / self.page_size).max(1) as u64;
        // The slots after the header.
        let queue = Queue::new(vec![(1, pages(self.area.size_bytes) + 1)]);
        let workers = queue.run(
            threads,
            stop,
            || SwapWorker {
                device: self,
                named,
                sink,
                buffer: Buffer::new(batch_pages as usize * self.page_size),
                counted: Counted::default(),
                skipped: Skips::default(),
            },
            |worker, (from, until): (u64, u64)| {
                let middle = until.min(from + batch_pages);
                if middle < until {
                    queue.push((middle, until));
                }
                worker.slots(from, middle);
            },
        );
        let mut visit = Visit {
            regions: vec![region],
            ..Visit::default()
        };
        for worker in &workers {
            visit.counted.add(&worker.counted);
            visit.skipped.add(&worker.skipped);
        }
        visit.counted.swap_slots = used;
        visit.notes = self.notes(used, named.count);
        visit.interrupted = stop.load(Ordering::Relaxed);
        Ok(visit)
    }
}

struct SwapWorker<'a> {
    device: &'a SwapDevice,
    named: &'a TypeSlots,
    sink: &'a (dyn Fn(Batch<'_>) + Sync),
    buffer: Buffer,
    counted: Counted,
    skipped: Skips,
}

impl SwapWorker<'_> {
    /// Delivers the used slots of a stretch that fits the buffer.
    fn slots(&mut self, from: u64, until: u64) {
        let named = self.named;
        if self.device.area.is_in_ram() {
            return self.read(from, until, true);
        }
        let mut start = None;
        for slot in from..=until {
            let used = slot < until && named.slots.contains(slot);
            match (start, used) {
                (None, true) => start = Some(slot),
                (Some(first), false) => {
                    self.read(first, slot, false);
                    start = None;
                }
                _ => {}
            }
        }
    }

    /// Reads slots and delivers all, or those that are used by the look of it.
    fn read(&mut self, from: u64, until: u64, look: bool) {
        let page_size = self.device.page_size;
        let pages = (until - from) as usize;
        let mut bad = Vec::new();
        let bytes = &mut self.buffer.bytes_mut()[..pages * page_size];
        if !matches!(read_at_most(&self.device.file, bytes, from * page_size as u64), Ok(n) if n == bytes.len())
        {
            for (page, bytes) in bytes.chunks_mut(page_size).enumerate() {
                let at = (from + page as u64) * page_size as u64;
                if !matches!(read_at_most(&self.device.file, bytes, at), Ok(n) if n == page_size) {
                    bad.push(page);
                }
            }
        }
        self.skipped.pages(SkipReason::ReadFailed, bad.len() as u64);
        let mut good = 0;
        for page in 0..=pages {
            let deliver =
                page < pages && !bad.contains(&page) && (!look || self.is_used(from, page));
            if deliver {
                good += 1;
            } else if good > 0 {
                self.deliver(from, page - good, page);
                good = 0;
            }
        }
    }

    fn is_used(&self, from: u64, page: usize) -> bool {
        let size = self.device.page_size;
        let bytes = &self.buffer.bytes()[page * size..(page + 1) * size];
        self.named.slots.contains(from + page as u64) || bytes.iter().any(|&byte| byte != 0)
    }

    fn deliver(&mut self, first_slot: u64, from: usize, until: usize) {
        self.counted.delivered += (until - from) as u64;
        let size = self.device.page_size;
        (self.sink)(Batch {
            region: RegionId(0),
            kind: RegionKind::SwapDevice,
            first_page: first_slot + from as u64,
            bytes: &self.buffer.bytes()[from * size..until * size],
            maybe_shared: None,
        });
    }
}

/// The slots of one swap type (the kernel's number for an area) that page tables name.
struct TypeSlots {
    number: usize,
    slots: FrameSet,
    count: u64,
    last: u64,
}

impl TypeSlots {
    fn new() -> Self {
        TypeSlots {
            number: 0,
            slots: FrameSet::new(0),
            count: 0,
            last: 0,
        }
    }
}

/// Types from here on are not swap but migration, poison and markers (the
/// kernel keeps at least this many for swap).
const TYPES: usize = 23;

/// Reads all page tables; returns the types that occur, by number.
fn slots_in_page_tables(threads: usize, stop: &AtomicBool) -> Result<Vec<TypeSlots>, Error> {
    let slots_most = swap_areas()?
        .iter()
        .map(|area| pages(area.size_bytes) + 1)
        .max()
        .unwrap_or(0);
    let found: Mutex<Vec<Option<TypeSlots>>> = Mutex::new((0..TYPES).map(|_| None).collect());
    let chosen = processes::choose(&Selection::All)?;
    let queue = Queue::new(
        chosen
            .iter()
            .filter(|process| !process.kernel_thread)
            .collect(),
    );
    queue.run(
        threads,
        stop,
        Vec::new,
        |buffer, process: &ChosenProcess| {
            each_slot(process, buffer, stop, &mut |number, slots| {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(cell) = found.get_mut(number) else {
                    return;
                };
                let entry = cell.get_or_insert_with(|| TypeSlots {
                    number,
                    slots: FrameSet::new(slots_most),
                    count: 0,
                    last: 0,
                });
                for &slot in slots {
                    entry.count += u64::from(entry.slots.insert(slot));
                    entry.last = entry.last.max(slot);
                }
            });
        },
    );
    Ok(found
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .into_iter()
        .flatten()
        .collect())
}

/// Tells `found` the slots that a process's page tables name, by type, some at a time.
fn each_slot(
    process: &ChosenProcess,
    buffer: &mut Vec<u8>,
    stop: &AtomicBool,
    found: &mut dyn FnMut(usize, &[u64]),
) {
    let mut by_type: Vec<Vec<u64>> = vec![Vec::new(); 32];
    let swapped = |mapping: &Mapping| mapping.swap;
    pagemap::walk(process, stop, buffer, swapped, |entry| {
        let (number, slot) = entry.slot();
        if entry.swapped() {
            let slots = &mut by_type[usize::from(number)];
            slots.push(slot);
            if slots.len() >= PIECE_PAGES as usize {
                found(number.into(), slots);
                slots.clear();
            }
        }
        entry.swapped()
    });
    for (number, slots) in by_type.iter().enumerate() {
        if !slots.is_empty() {
            found(number, slots);
        }
    }
}

/// Which of the types belongs to which area: the kernel numbers areas in the
/// order of `/proc/swaps`, but leaves gaps where one was switched off. `None`
/// when several ways are possible.
fn assign(types: &[TypeSlots], areas: &[SwapArea]) -> Option<Vec<Option<usize>>> {
    let fits = |at: usize, area: usize| {
        // A few slots may have come or gone since.
        let slack = 64 + pages(areas[area].used_bytes) / 16;
        types[at].number >= area
            && types[at].last <= pages(areas[area].size_bytes)
            && types[at].count <= pages(areas[area].used_bytes) + slack
    };
    // Without gaps a type is its area's index.
    if types
        .iter()
        .enumerate()
        .all(|(at, slots)| slots.number < areas.len() && fits(at, slots.number))
    {
        let mut assigned = vec![None; areas.len()];
        for (at, slots) in types.iter().enumerate() {
            assigned[slots.number] = Some(at);
        }
        return Some(assigned);
    }
    let mut ways = Vec::new();
    try_from(
        types,
        areas,
        &fits,
        &mut vec![None; areas.len()],
        (0, 0),
        &mut ways,
    );
    if ways.len() == 1 {
        ways.pop()
    } else {
        None
    }
}

/// All ways to give types `next.0..` to areas `next.1..` in order; stops at two.
fn try_from(
    types: &[TypeSlots],
    areas: &[SwapArea],
    fits: &dyn Fn(usize, usize) -> bool,
    assigned: &mut Vec<Option<usize>>,
    next: (usize, usize),
    ways: &mut Vec<Vec<Option<usize>>>,
) {
    let (at, first_area) = next;
    if at == types.len() {
        ways.push(assigned.clone());
        return;
    }
    for area in first_area..areas.len() {
        if ways.len() < 2 && fits(at, area) {
            assigned[area] = Some(at);
            try_from(types, areas, fits, assigned, (at + 1, area + 1), ways);
            assigned[area] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(slots: u64, used: u64) -> SwapArea {
        let page_size = rustix::param::page_size() as u64;
        SwapArea {
            size_bytes: slots * page_size,
            used_bytes: used * page_size,
            ..SwapArea::default()
        }
    }

    fn slots(number: usize, count: u64, last: u64) -> TypeSlots {
        TypeSlots {
            number,
            slots: FrameSet::new(0),
            count,
            last,
        }
    }

    #[test]
    fn types_are_given_to_areas_only_when_there_is_one_way() {
        // No gaps.
        let two = [area(1000, 500), area(1000, 500)];
        assert_eq!(assign(&[slots(1, 10, 10)], &two), Some(vec![None, Some(0)]));
        // Type 0 was switched off: the one area left is type 1.
        assert_eq!(
            assign(&[slots(1, 10, 10)], &[area(1000, 500)]),
            Some(vec![Some(0)])
        );
        // Types 1 and 2 for two areas.
        assert_eq!(
            assign(&[slots(1, 9, 9), slots(2, 9, 9)], &two),
            Some(vec![Some(0), Some(1)])
        );
        // Type 2 could be either.
        assert_eq!(assign(&[slots(2, 9, 9)], &two), None);
        // ... but not when it has more slots than one of them.
        let unequal = [area(1000, 500), area(5000, 4000)];
        assert_eq!(
            assign(&[slots(2, 9, 4321)], &unequal),
            Some(vec![None, Some(0)])
        );
        assert_eq!(assign(&[], &two), Some(vec![None, None]));
    }
}
