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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use zmeld_linux::compressed::{is_on, ZSWAP};
use zmeld_linux::others::{is_held, PatientReader};
use zmeld_linux::smaps::Mapping;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::{Host, KernelVersion};

use crate::memory::layout::{Extent, Layout};
use crate::memory::live::frames::FrameSet;
use crate::memory::live::pagemap::{self, frame_numbers_visible, PIECE_PAGES};
use crate::memory::live::processes::{self, ChosenProcess};
use crate::memory::live::visit::skip_reason;
use crate::memory::live::Selection;
use crate::memory::{
    work, Batch, Error, FileSource, Note, Owner, Region, RegionId, RegionKind, Sink, SkipReason,
    Skips, Source, Visit,
};

fn not_swap(path: &Path, areas: &[SwapArea]) -> Error {
    let names = areas.iter().map(|area| area.path.display().to_string());
    Error::NotSwap {
        path: path.to_path_buf(),
        active: names.collect(),
    }
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
        let areas = Host::here().swaps()?;
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let is_it = |area: &&SwapArea| [path, &real].contains(&&*area.path);
        let Some(area) = areas.iter().find(is_it) else {
            return Err(not_swap(path, &areas));
        };
        if !frame_numbers_visible() {
            return Err(Error::Privilege {
                what: format!("reading the swap device {}", path.display()),
                privilege: "root (CAP_SYS_ADMIN)",
            });
        }
        let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a small flag");
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(&area.path)
            .map_err(|cause| Error::io("open for direct reading", &area.path, cause))?;
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

    fn notes(&self, host: &Host, used: u64, found: u64) -> Vec<Note> {
        let mut notes = Vec::new();
        if used != found {
            notes.push(Note::SlotsUnattributed { used, found });
        }
        let zswap = host.read(format!("{ZSWAP}/enabled"));
        if zswap.is_ok_and(|text| is_on(&text)) {
            notes.push(Note::ZswapInFront);
        }
        let kernel = host.read("/proc/sys/kernel/osrelease").ok();
        let kernel = kernel.as_deref().and_then(KernelVersion::parse);
        if !self.area.is_in_ram() && kernel >= Some(KernelVersion::new(6, 12)) {
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

    fn visit(&self, threads: usize, stop: &AtomicBool, sink: Sink<'_>) -> Result<Visit, Error> {
        let (types, held, held_notes) = slots_in_page_tables(threads, stop)?;
        let areas = Host::here().swaps()?;
        let index = areas
            .iter()
            .position(|area| area.path == self.area.path)
            .ok_or_else(|| not_swap(&self.area.path, &areas))?;
        let used = pages(areas[index].used_bytes);
        let empty = TypeSlots::new(0, 0);
        let named = of_area(&types, &areas, index).ok_or_else(|| Error::KernelFeature {
            what: format!(
                "telling the slots of {} from those of other swap areas",
                self.area.path.display()
            ),
            feature: "a view of the page tables in which they differ",
        })?;
        let named = named.unwrap_or(&empty);
        let file = self.file.try_clone();
        let file = file.map_err(|cause| Error::io("read", &self.area.path, cause))?;
        let layout = Layout {
            regions: vec![Region {
                owner: Owner::Device(self.area.path.clone()),
                kind: RegionKind::SwapDevice,
                start: 0,
            }],
            extents: self.extents(named),
            ..Layout::default()
        };
        let source = FileSource::new(&self.area.path, file, self.page_size, layout);
        let delivered = AtomicU64::new(0);
        let mut visit = source.visit(threads, stop, &|batch| {
            self.deliver_used(named, batch, &|batch| {
                let pages = batch.bytes.len() / self.page_size;
                delivered.fetch_add(pages as u64, Ordering::Relaxed);
                sink(batch);
            });
        })?;
        visit.counted.delivered = delivered.into_inner();
        visit.counted.swap_slots = used;
        visit.notes = self.notes(&Host::here(), used, named.count);
        visit.skipped.add(&held);
        visit.notes.extend(held_notes);
        Ok(visit)
    }
}

impl SwapDevice {
    /// Extents to read: on a disk the named slots; in RAM all behind the header.
    fn extents(&self, named: &TypeSlots) -> Vec<Extent> {
        let end = pages(self.area.size_bytes) + 1;
        let mut extents: Vec<Extent> = Vec::new();
        for slot in 1..end {
            if !self.area.is_in_ram() && !named.slots.contains(slot) {
                continue;
            }
            match extents.last_mut() {
                Some(last) if last.first_page + pages(last.bytes) == slot => {
                    last.bytes += self.page_size as u64;
                }
                _ => extents.push(Extent {
                    region: RegionId(0),
                    offset: slot * self.page_size as u64,
                    bytes: self.page_size as u64,
                    first_page: slot,
                }),
            }
        }
        extents
    }

    /// Passes on the slots that are named, and in RAM those that are not zero.
    fn deliver_used(&self, named: &TypeSlots, batch: Batch<'_>, sink: &dyn Fn(Batch<'_>)) {
        let slots = batch.bytes.chunks(self.page_size);
        let is_used = |(slot, bytes): (u64, &[u8])| {
            named.slots.contains(slot) || bytes.iter().any(|&byte| byte != 0)
        };
        let used: Vec<bool> = (batch.first_page..).zip(slots).map(is_used).collect();
        let mut from = 0;
        for run in used.chunk_by(|one, next| one == next) {
            let until = from + run.len();
            if run[0] {
                sink(Batch {
                    first_page: batch.first_page + from as u64,
                    bytes: &batch.bytes[from * self.page_size..until * self.page_size],
                    ..batch
                });
            }
            from = until;
        }
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
    fn new(number: usize, most: u64) -> Self {
        TypeSlots {
            number,
            slots: FrameSet::new(most),
            count: 0,
            last: 0,
        }
    }
}

/// Types from here on are not swap but migration, poison and markers (the
/// kernel keeps at least this many for swap).
const TYPES: usize = 23;

/// Reads all page tables; returns the types that occur, by number.
fn slots_in_page_tables(
    threads: usize,
    stop: &AtomicBool,
) -> Result<(Vec<TypeSlots>, Skips, Vec<Note>), Error> {
    let slots_most = Host::here()
        .swaps()?
        .iter()
        .map(|area| pages(area.size_bytes) + 1)
        .max()
        .unwrap_or(0);
    let found: Mutex<Vec<Option<TypeSlots>>> = Mutex::new((0..TYPES).map(|_| None).collect());
    let chosen = processes::choose(&Selection::All)?;
    let users = chosen.iter().filter(|process| !process.kernel_thread);
    let held = Mutex::new((Skips::default(), Vec::new()));
    work::run(
        threads,
        stop,
        users,
        || (PatientReader::default(), Vec::new()),
        |(reader, buffer), process: &ChosenProcess, _| {
            let read = each_slot(process, reader, buffer, stop, &mut |number, slots| {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(cell) = found.get_mut(number) else {
                    return;
                };
                let entry = cell.get_or_insert_with(|| TypeSlots::new(number, slots_most));
                for &slot in slots {
                    entry.count += u64::from(entry.slots.insert(slot));
                    entry.last = entry.last.max(slot);
                }
            });
            if let Some(err) = read.as_ref().err().filter(|_| is_held(&read)) {
                let reason = skip_reason(err);
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.0.process(reason, 0);
                if reason == SkipReason::Held {
                    Note::add(&mut held.1, &Note::held(process.pid, &process.comm));
                }
            }
        },
    );
    let (skips, notes) = held.into_inner().unwrap_or_else(PoisonError::into_inner);
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((found.into_iter().flatten().collect(), skips, notes))
}

/// Tells `found` the slots that a process's page tables name, by type, some at a time.
fn each_slot(
    process: &ChosenProcess,
    reader: &mut PatientReader,
    buffer: &mut Vec<u8>,
    stop: &AtomicBool,
    found: &mut dyn FnMut(usize, &[u64]),
) -> io::Result<()> {
    let mut by_type: Vec<Vec<u64>> = vec![Vec::new(); 32];
    let swapped = |mapping: &Mapping| mapping.swap;
    let read = pagemap::walk(process, reader, stop, buffer, swapped, |entry| {
        let (number, slot) = entry.slot();
        // Before 6.15 the marker of a guard region has no bit of its own.
        let is_slot = entry.swapped() && usize::from(number) < TYPES;
        if is_slot {
            let slots = &mut by_type[usize::from(number)];
            slots.push(slot);
            if slots.len() >= PIECE_PAGES as usize {
                found(number.into(), slots);
                slots.clear();
            }
        }
        is_slot
    });
    for (number, slots) in by_type.iter().enumerate() {
        if !slots.is_empty() {
            found(number, slots);
        }
    }
    read
}

/// The type that belongs to area number `index`, if any occurs. The kernel numbers areas in the
/// order of `/proc/swaps`, but leaves gaps where one was switched off. `None` when it cannot be
/// told; of an area in RAM none is needed, for every used slot shows by itself.
fn of_area<'a>(
    types: &'a [TypeSlots],
    areas: &[SwapArea],
    index: usize,
) -> Option<Option<&'a TypeSlots>> {
    let fits = |slots: &TypeSlots, area: &SwapArea| {
        // A few slots may have come or gone since.
        let slack = 64 + pages(area.used_bytes) / 16;
        slots.last <= pages(area.size_bytes) && slots.count <= pages(area.used_bytes) + slack
    };
    let of_number = |slots: &TypeSlots| areas.get(slots.number);
    let has_no_gap = |slots: &TypeSlots| of_number(slots).is_some_and(|area| fits(slots, area));
    let found = match (types, areas) {
        ([slots], [area]) => fits(slots, area).then_some(Some(slots)),
        _ => types
            .iter()
            .all(has_no_gap)
            .then(|| types.iter().find(|slots| slots.number == index)),
    };
    found.or_else(|| areas[index].is_in_ram().then_some(None))
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
            count,
            last,
            ..TypeSlots::new(number, 0)
        }
    }

    #[test]
    fn a_type_is_given_to_an_area_only_when_it_can_be_told() {
        let two = [area(1000, 500), area(1000, 500)];
        let found = |types: &[TypeSlots], areas: &[SwapArea], index| {
            of_area(types, areas, index).map(|it| it.map(|slots| slots.number))
        };
        assert_eq!(found(&[slots(1, 10, 10)], &two, 1), Some(Some(1)));
        assert_eq!(found(&[slots(1, 10, 10)], &two, 0), Some(None));
        // Type 0 was switched off: the one area left is type 1.
        assert_eq!(found(&[slots(1, 10, 10)], &two[..1], 0), Some(Some(1)));
        // Type 2 could be either, and one with more slots than an area is none of it.
        assert_eq!(found(&[slots(2, 9, 9)], &two, 1), None);
        assert_eq!(found(&[slots(1, 9, 4321)], &two, 1), None);
        assert_eq!(found(&[], &two, 0), Some(None));
        // Slot 0 is the header, so that the last of 1000 has that number; some may be new.
        assert_eq!(found(&[slots(0, 595, 1000)], &two, 0), Some(Some(0)));
        assert_eq!(found(&[slots(0, 595, 1001)], &two, 0), None);
        assert_eq!(found(&[slots(0, 596, 1000)], &two, 0), None);
        let in_ram = SwapArea {
            path: "/dev/zram0".into(),
            ..area(1000, 500)
        };
        let both = [area(1000, 500), in_ram];
        assert_eq!(found(&[slots(2, 9, 9)], &both, 0), None);
        assert_eq!(found(&[slots(2, 9, 9)], &both, 1), Some(None));
        assert_eq!(found(&[slots(1, 9, 9)], &both, 1), Some(Some(1)));
    }

    fn device(path: &str) -> SwapDevice {
        SwapDevice {
            area: SwapArea {
                path: path.into(),
                ..area(5, 3)
            },
            file: tempfile::tempfile().unwrap(),
            page_size: rustix::param::page_size(),
        }
    }

    fn named(slots: &[u64]) -> TypeSlots {
        let named = TypeSlots::new(0, 6);
        assert!(slots.iter().all(|&slot| named.slots.insert(slot)));
        named
    }

    #[test]
    fn slots_behind_the_header_are_read_up_to_the_last() {
        let read = |path: &str, slots: &[u64]| {
            let extents = device(path).extents(&named(slots)).into_iter();
            let extents = extents.map(|it| (it.first_page, pages(it.offset), pages(it.bytes)));
            extents.collect::<Vec<_>>()
        };
        assert_eq!(read("/dev/zram0", &[]), [(1, 1, 5)]);
        assert_eq!(read("/dev/sda2", &[1, 2, 5]), [(1, 1, 2), (5, 5, 1)]);
        assert_eq!(read("/dev/sda2", &[]), []);
    }

    /// In RAM those that are not zero are used, too: each byte may be the one that is not.
    #[test]
    fn slots_are_used_that_are_named_or_hold_something() {
        let device = device("/dev/zram0");
        let mut bytes = vec![0; 7 * device.page_size];
        for (slot, at) in [(1, 0), (2, device.page_size - 1), (5, 9)] {
            bytes[slot * device.page_size + at] = 1;
        }
        let batch = Batch {
            region: RegionId(0),
            kind: RegionKind::SwapDevice,
            first_page: 10,
            bytes: &bytes,
            maybe_shared: None,
        };
        for (slots, used) in [
            (&[][..], &[(11, 1, 2), (15, 5, 1)][..]),
            (&[10, 13], &[(10, 0, 4), (15, 5, 1)]),
            (&[16, 17], &[(11, 1, 2), (15, 5, 2)]),
        ] {
            let found = Mutex::new(Vec::new());
            device.deliver_used(&named(slots), batch, &|batch| {
                let from = batch.bytes.as_ptr() as usize - bytes.as_ptr() as usize;
                let (from, count) = (
                    from / device.page_size,
                    batch.bytes.len() / device.page_size,
                );
                found.lock().unwrap().push((batch.first_page, from, count));
            });
            assert_eq!(found.into_inner().unwrap(), used, "{slots:?}");
        }
    }

    #[test]
    fn what_makes_slots_inexact_is_noted() {
        let slots = |used, found| Note::SlotsUnattributed { used, found };
        let (zswap, zeros) = (Note::ZswapInFront, Note::ZeroSlotsNotWritten);
        for (path, kernel, enabled, found, notes) in [
            ("/dev/sda2", "6.11.9", "N", 3, vec![]),
            ("/dev/sda2", "6.12.0", "N", 3, vec![zeros.clone()]),
            ("/dev/zram0", "6.12.0", "Y", 3, vec![zswap.clone()]),
            (
                "/dev/sda2",
                "7.0.0",
                "Y",
                2,
                vec![slots(3, 2), zswap, zeros],
            ),
            ("/dev/zram0", "7.0.0", "N", 4, vec![slots(3, 4)]),
        ] {
            let (_dir, host) = Host::planted(&[
                ("/proc/sys/kernel/osrelease", kernel),
                (&format!("{ZSWAP}/enabled"), enabled),
            ]);
            assert_eq!(
                device(path).notes(&host, 3, found),
                notes,
                "{path} {kernel}"
            );
        }
    }
}
