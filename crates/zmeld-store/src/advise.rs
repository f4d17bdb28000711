//! What the kernel is told of another process's memory: `process_madvise`, for which no
//! crate has a safe function.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Ranges that one call takes at most (`UIO_MAXIOV`).
const RANGES_MAX: usize = 1024;

/// Advice that changes no content: the process reads what it wrote, sooner or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Not used lately: the pages' marks of having been touched are taken away
    /// (`MADV_COLD`).
    Cold,
    /// Not used soon: the pages are swapped out (`MADV_PAGEOUT`).
    PageOut,
}

impl Advice {
    fn number(self) -> libc::c_int {
        match self {
            Advice::Cold => 20,
            Advice::PageOut => 21,
        }
    }
}

/// Gives that advice on ranges of addresses of a process, which is held by a descriptor of
/// `pidfd_open`; how many bytes it was taken for. Pages that others map, too, the kernel
/// leaves alone.
///
/// # Errors
/// What the system says: `ENOSYS` before Linux 5.10, `EPERM` without `CAP_SYS_NICE` and
/// the right to look at the process, `ESRCH` where it has ended, `ENOMEM` and `EINVAL`
/// where nothing is mapped there, or what is there is locked.
pub fn process_madvise(
    process: BorrowedFd,
    ranges: &[Range<u64>],
    advice: Advice,
) -> io::Result<u64> {
    let mut taken = 0;
    let mut pieces = ranges.chunks(RANGES_MAX);
    // Without any range it is asked once all the same: it says whether there is the call.
    let mut piece = Some(pieces.next().unwrap_or_default());
    while let Some(ranges) = piece {
        let vector: Vec<libc::iovec> = ranges.iter().filter_map(of_range).collect();
        if vector.len() < ranges.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the kernel reads the vector only, which lives as long as the call, and
        // the descriptor is borrowed for as long. The addresses are of the other process:
        // nothing is read or written there, and both kinds of advice keep all content.
        let result = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.as_raw_fd(),
                vector.as_ptr(),
                vector.len(),
                advice.number(),
                0,
            )
        };
        taken += u64::try_from(result).map_err(|_| io::Error::last_os_error())?;
        piece = pieces.next();
    }
    Ok(taken)
}

fn of_range(range: &Range<u64>) -> Option<libc::iovec> {
    let start = usize::try_from(range.start).ok()?;
    let length = range.end.checked_sub(range.start)?;
    Some(libc::iovec {
        iov_base: std::ptr::without_provenance_mut(start),
        iov_len: usize::try_from(length).ok()?,
    })
}
