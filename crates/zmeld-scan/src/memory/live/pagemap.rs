//! `/proc/PID/pagemap`: one 64-bit word for each page of an address space.
//! Bits as in the kernel's `Documentation/admin-guide/mm/pagemap.rst`.

use std::fs::File;
use std::io::{self, BufReader};
use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use zmeld_linux::others::{is_held, LockedFile, PatientReader, ReaderOf};
use zmeld_linux::smaps::{self, Mapping};

use super::processes::ChosenProcess;
use crate::memory::buffer::read_at_most;

/// Pages whose page-table entries are looked at together.
pub(crate) const PIECE_PAGES: u64 = 16 << 10;
/// Characters kept of a name.
const NAME_MAX: usize = 64;
/// As many as are read as easily as one.
const TABLE_PAGES: u64 = 512;

/// One page's entry in `pagemap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PagemapEntry(pub(crate) u64);

impl PagemapEntry {
    pub(crate) fn present(self) -> bool {
        self.bit(63)
    }

    /// In swap: a real swap slot, not the marker of a guard region.
    pub(crate) fn swapped(self) -> bool {
        self.bit(62) && !self.present() && !self.bit(58)
    }

    /// A page of a file or of shared memory; also set for the huge page of zeros.
    pub(crate) fn file(self) -> bool {
        self.bit(61)
    }

    /// Mapped exactly once.
    pub(crate) fn exclusive(self) -> bool {
        self.bit(56)
    }

    /// The physical frame; 0 when the reader may not know.
    pub(crate) fn frame(self) -> u64 {
        self.0 & ((1 << 55) - 1)
    }

    /// Swap area and slot within it; both 0 when the reader may not know.
    pub(crate) fn slot(self) -> (u8, u64) {
        ((self.0 & 0x1f) as u8, (self.0 >> 5) & ((1 << 50) - 1))
    }

    fn bit(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }
}

/// Reads the entries of pages `first..first + count` of the address space into
/// `buffer`; returns fewer at the end of the address space.
pub(crate) fn read(
    file: &File,
    first: u64,
    count: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    buffer.resize(count * 8, 0);
    let filled = read_at_most(file, buffer, first * 8)?;
    buffer.truncate(filled / 8 * 8);
    Ok(filled / 8)
}

/// Of these pages the next ones to look at, at most [`PIECE_PAGES`]; none where all that are
/// left are only reserved.
///
/// # Errors
/// When the process holds that up.
pub(crate) fn next_piece(
    mut reader: ReaderOf<'_>,
    file: &Arc<File>,
    pages: &Range<u64>,
) -> io::Result<Option<Range<u64>>> {
    let few = pages.start..pages.end.min(pages.start + TABLE_PAGES);
    if few == *pages {
        return Ok((!few.is_empty()).then_some(few));
    }
    let page_size = rustix::param::page_size() as u64;
    let (file, addresses) = (
        Arc::clone(file),
        pages.start * page_size..pages.end * page_size,
    );
    let populated = reader.run(move || zmeld_store::populated(&file, addresses, PIECE_PAGES));
    let (from, until) = match populated {
        Ok(None) => return Ok(None),
        // Others are often near.
        Ok(Some(found)) => {
            let from = found.start / page_size;
            (from, (found.end / page_size).max(from + TABLE_PAGES))
        }
        held @ Err(_) if is_held(&held) => return held.map(|_| None),
        // Kernels before 6.7 do not tell it.
        Err(_) => (pages.start, u64::MAX),
    };
    Ok(Some(from..until.min(from + PIECE_PAGES).min(pages.end)))
}

/// The entries that [`read`] left in the buffer.
pub(crate) fn entries(buffer: &[u8]) -> impl Iterator<Item = PagemapEntry> + '_ {
    buffer
        .chunks_exact(8)
        .map(|word| PagemapEntry(u64::from_ne_bytes(word.try_into().expect("eight bytes"))))
}

/// The mappings of a process, where it is there, may be looked at and holds nobody up.
pub(crate) fn mappings(
    process: &ChosenProcess,
    reader: &mut PatientReader,
) -> io::Result<Vec<Mapping>> {
    let [smaps] = process.open(reader, [LockedFile::Smaps])?;
    reader.of(process.pid).run(move || {
        let page_size = rustix::param::page_size() as u64;
        let mut mappings = smaps::Reader::new(BufReader::new(smaps), page_size);
        // All of them are kept, and of their names what tells their kinds.
        let kept = |mut it: Mapping| {
            it.name = it.name.chars().take(NAME_MAX).collect::<String>().into();
            it
        };
        iter::from_fn(|| mappings.next_mapping().transpose())
            .map(|it| it.map(kept))
            .collect()
    })
}

/// [`read`], unless the process holds it up.
pub(crate) fn read_patiently(
    mut reader: ReaderOf<'_>,
    file: &Arc<File>,
    first: u64,
    count: usize,
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    let (file, mut taken) = (Arc::clone(file), std::mem::take(buffer));
    let (got, taken) = reader.run(move || Ok((read(&file, first, count, &mut taken), taken)))?;
    *buffer = taken;
    got
}

/// Tells `each` the page-table entries of a process: of each mapping until as many as `expected` were what `each`
/// looks for.
///
/// # Errors
/// When it ends, may not be looked at or holds that up.
pub(crate) fn walk(
    process: &ChosenProcess,
    reader: &mut PatientReader,
    stop: &AtomicBool,
    buffer: &mut Vec<u8>,
    expected: impl Fn(&Mapping) -> u64,
    mut each: impl FnMut(PagemapEntry) -> bool,
) -> io::Result<()> {
    let page_size = rustix::param::page_size() as u64;
    let mappings = mappings(process, reader)?;
    let [file] = process.open(reader, [LockedFile::Pagemap])?;
    let file = Arc::new(file);
    for mapping in &mappings {
        let mut pages = mapping.start / page_size..mapping.end / page_size;
        let mut left = expected(mapping);
        while left > 0 && !stop.load(Ordering::Relaxed) {
            let Some(piece) = next_piece(reader.of(process.pid), &file, &pages)? else {
                break;
            };
            let count = (piece.end - piece.start) as usize;
            read_patiently(reader.of(process.pid), &file, piece.start, count, buffer)?;
            for entry in entries(buffer) {
                left = left.saturating_sub(u64::from(each(entry)));
            }
            pages.start = piece.end;
        }
    }
    Ok(())
}

/// Frame numbers read as 0 without the privilege; a page of this function's own
/// stack is certainly present.
pub(crate) fn frame_numbers_visible() -> bool {
    let here = 0u8;
    let page = std::ptr::from_ref(&here) as u64 / rustix::param::page_size() as u64;
    let Ok(file) = File::open("/proc/self/pagemap") else {
        return false;
    };
    let mut buffer = Vec::new();
    read(&file, page, 1, &mut buffer).is_ok()
        && entries(&buffer).any(|entry| entry.present() && entry.frame() != 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    /// Bits 0 to 4 and 5 to 54 are type and slot; 58 marks a guard region, 62 what is in swap.
    #[test]
    fn an_entry_in_swap_names_its_slot() {
        let slot = 1 << 62 | 0x3_1234_5678_9abc << 5 | 0x15;
        let entry = PagemapEntry(slot | 1 << 55 | 1 << 61);
        assert_eq!(entry.slot(), (0x15, 0x3_1234_5678_9abc));
        for (bits, swapped) in [(0, true), (1 << 63, false), (1 << 58, false)] {
            assert_eq!(PagemapEntry(slot | bits).swapped(), swapped);
        }
        assert!(!PagemapEntry(slot & !(1 << 62)).swapped());
        assert_eq!(PagemapEntry(u64::MAX).frame(), (1 << 55) - 1);
    }

    /// Where nobody tells where pages are, all are looked at, some at a time.
    #[test]
    fn pieces_follow_each_other_to_the_end() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut reader = PatientReader::default();
        let mut next = |pages| next_piece(reader.of(1), &file, &pages).unwrap();
        let all = 100 + 2 * PIECE_PAGES + 700;
        for (from, until) in [
            (100, 100 + PIECE_PAGES),
            (all - 700, all),
            (all - TABLE_PAGES, all),
            (all - 1, all),
        ] {
            assert_eq!(next(from..all), Some(from..until));
        }
        assert_eq!(next(all..all), None);
    }

    #[test]
    fn a_walk_sees_all_that_is_there_unless_it_is_stopped() {
        let mut command = std::process::Command::new("cat");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut cat = piped.spawn().unwrap();
        // Once it answers, its program is loaded.
        cat.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        cat.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let process = ChosenProcess::look_up(cat.id() as i32).unwrap();
        let mut reader = PatientReader::default();
        let there = mappings(&process, &mut reader).unwrap();
        let last = there.iter().rfind(|it| it.rss > 1).unwrap();
        let mut present = |stop: bool, expected: &dyn Fn(&Mapping) -> u64| {
            let (stop, mut count) = (AtomicBool::new(stop), 0);
            let count = &mut count;
            let each = |entry: PagemapEntry| {
                *count += u64::from(entry.present());
                entry.present()
            };
            walk(
                &process,
                &mut reader,
                &stop,
                &mut Vec::new(),
                expected,
                each,
            )
            .unwrap();
            *count
        };
        let all = present(false, &|it| it.rss);
        assert!(all > 20, "{all}");
        let none = (present(true, &|it| it.rss), present(false, &|_| 0));
        assert_eq!(none, (0, 0));
        // Of one mapping no page of another.
        let of_last = |it: &Mapping| if it.start == last.start { u64::MAX } else { 0 };
        assert_eq!(present(false, &of_last), last.rss);
        cat.kill().and_then(|()| cat.wait()).unwrap();
    }
}
