//! The call by which `zmeld watch` reclaims from processes, and `zmeld bench size` sees which
//! pages are touched, from the crate that may make it.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use zmeld_store::advise::{process_madvise, process_madvise_until, Advice};
use zmeld_swap::watch::Advise;

/// Swaps these pages of a process out, as far as it can be done.
///
/// # Errors
/// What the system says.
pub fn page_out(process: BorrowedFd<'_>, ranges: &[Range<u64>]) -> io::Result<()> {
    process_madvise(process, ranges, Advice::PageOut).map(drop)
}

/// This machine's processes.
pub struct Madvise;

impl Advise for Madvise {
    fn forget(
        &self,
        process: BorrowedFd,
        ranges: &[Range<u64>],
        until: Instant,
    ) -> io::Result<Vec<Range<u64>>> {
        process_madvise_until(process, ranges, Advice::Cold, until)
    }

    fn page_out(&self, process: BorrowedFd, range: Range<u64>) -> io::Result<()> {
        process_madvise(process, &[range], Advice::PageOut).map(drop)
    }
}
