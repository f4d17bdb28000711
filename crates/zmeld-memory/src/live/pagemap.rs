//! `/proc/PID/pagemap`: one 64-bit word for each page of an address space.
//! Bits as in the kernel's `Documentation/admin-guide/mm/pagemap.rst`.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use zmeld_linux::others::{LockedFile, PatientReader};
use zmeld_linux::smaps::{self, Mapping};

use super::processes::ChosenProcess;
use crate::file::read_at_most;

/// Pages whose page-table entries are looked at together.
pub(crate) const PIECE_PAGES: u64 = 16 << 10;

/// What the page table says of one page.
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
    let [mut smaps] = process.open(reader, [LockedFile::Smaps])?;
    let text = reader.run(move || {
        let mut text = Vec::new();
        smaps.read_to_end(&mut text).map(|_| text)
    })?;
    Ok(smaps::parse(&text, rustix::param::page_size() as u64))
}

/// [`read`], unless the process holds it up.
pub(crate) fn read_patiently(
    reader: &mut PatientReader,
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
        let (mut page, end) = (mapping.start / page_size, mapping.end / page_size);
        let mut left = expected(mapping);
        while page < end && left > 0 && !stop.load(Ordering::Relaxed) {
            let count = PIECE_PAGES.min(end - page);
            read_patiently(reader, &file, page, count as usize, buffer)?;
            for entry in entries(buffer) {
                left = left.saturating_sub(u64::from(each(entry)));
            }
            page += count;
        }
    }
    Ok(())
}
