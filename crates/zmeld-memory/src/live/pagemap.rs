//! `/proc/PID/pagemap`: one 64-bit word for each page of an address space.
//! Bits as in the kernel's `Documentation/admin-guide/mm/pagemap.rst`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

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
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], first * 8 + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled / 8 * 8);
    Ok(filled / 8)
}

/// The entries that [`read`] left in the buffer.
pub(crate) fn entries(buffer: &[u8]) -> impl Iterator<Item = PagemapEntry> + '_ {
    buffer
        .chunks_exact(8)
        .map(|word| PagemapEntry(u64::from_ne_bytes(word.try_into().expect("eight bytes"))))
}
