//! What the kernel is told of another process's memory: `process_madvise`, for which no
//! crate has a safe function.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

/// Ranges that one call takes at most (`UIO_MAXIOV`).
const RANGES_MAX: usize = 1024;
/// Bytes that one call is given: the kernel passes over what is beyond 2 GiB - 4 KiB.
const BYTES_MAX: u64 = 1 << 30;

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
/// `pidfd_open`; the ranges for which all of it was taken, in their order. Those are left
/// out in which nothing is mapped somewhere, or what is there is locked. Pages that others
/// map, too, the kernel leaves alone without saying so.
///
/// # Errors
/// What the system says: `ENOSYS` before Linux 5.10, `EPERM` without `CAP_SYS_NICE` and
/// the right to look at the process, `ESRCH` where it has ended.
pub fn process_madvise(
    process: BorrowedFd,
    ranges: &[Range<u64>],
    advice: Advice,
) -> io::Result<Vec<Range<u64>>> {
    in_calls(ranges, &mut |ranges| call(process, ranges, advice))
}

/// The same, of which nothing more is begun at that time: each call may wait for as long as
/// somebody holds the process's memory.
///
/// # Errors
/// As above, and `ETIMEDOUT` where not all of it was begun by then.
pub fn process_madvise_until(
    process: BorrowedFd,
    ranges: &[Range<u64>],
    advice: Advice,
    until: Instant,
) -> io::Result<Vec<Range<u64>>> {
    in_calls(ranges, &mut |ranges| match Instant::now() < until {
        true => call(process, ranges, advice),
        false => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
    })
}

/// The same by calls each of which the kernel can take whole.
fn in_calls(
    ranges: &[Range<u64>],
    call: &mut dyn FnMut(&[Range<u64>]) -> io::Result<u64>,
) -> io::Result<Vec<Range<u64>>> {
    if ranges.is_empty() {
        // It is asked once all the same: it says whether there is the call.
        call(&[])?;
        return Ok(Vec::new());
    }
    let mut pieces = Vec::new();
    let mut of = Vec::new();
    for (number, range) in ranges.iter().enumerate() {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start.saturating_add(BYTES_MAX));
            pieces.push(start..end);
            of.push(number);
            start = end;
        }
    }
    let mut is_taken = vec![true; ranges.len()];
    let mut at = 0;
    while at < pieces.len() {
        let mut sum = 0;
        let fits = |piece: &&Range<u64>| {
            sum += piece.end - piece.start;
            sum <= BYTES_MAX
        };
        let count = pieces[at..]
            .iter()
            .take(RANGES_MAX)
            .take_while(fits)
            .count();
        let mut taken = match call(&pieces[at..at + count]) {
            Err(err) if matches!(err.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL)) => 0,
            taken => taken?,
        };
        let end = at + count;
        while at < end {
            let bytes = pieces[at].end - pieces[at].start;
            if taken < bytes {
                // The kernel stopped here; it goes on behind.
                is_taken[of[at]] = false;
                at += 1;
                break;
            }
            taken -= bytes;
            at += 1;
        }
    }
    let all = ranges.iter().zip(is_taken);
    Ok(all.filter(|it| it.1).map(|it| it.0.clone()).collect())
}

/// One call; for how many bytes it was taken, from the first range on.
fn call(process: BorrowedFd, ranges: &[Range<u64>], advice: Advice) -> io::Result<u64> {
    let vector: Vec<libc::iovec> = ranges.iter().filter_map(of_range).collect();
    if vector.len() < ranges.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the kernel reads the vector only, which lives as long as the call, and the
    // descriptor is borrowed for as long. The addresses are of the other process: nothing
    // is read or written there, and both kinds of advice keep all content.
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
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn of_range(range: &Range<u64>) -> Option<libc::iovec> {
    let start = usize::try_from(range.start).ok()?;
    let length = range.end.checked_sub(range.start)?;
    Some(libc::iovec {
        iov_base: std::ptr::without_provenance_mut(start),
        iov_len: usize::try_from(length).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// As Linux does it: cut to 2 GiB - 4 KiB, and ended at the first range with a hole.
    fn kernel(ranges: &[Range<u64>], hole: u64, done: &mut Vec<Range<u64>>) -> io::Result<u64> {
        let mut left = 2 * GIB - 4096;
        let mut taken = 0;
        for range in ranges {
            let end = range.end.min(range.start + left);
            if (range.start..end).contains(&hole) {
                break;
            }
            done.push(range.start..end);
            taken += end - range.start;
            left -= end - range.start;
        }
        match taken {
            0 => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
            taken => Ok(taken),
        }
    }

    #[test]
    fn what_one_call_does_not_take_others_do_and_what_fails_is_left_out() {
        let ranges = [
            0..GIB / 2,
            GIB..7 * GIB,
            8 * GIB..8 * GIB + 4096,
            9 * GIB..10 * GIB,
        ];
        for (hole, failed) in [
            (0, Some(0)),
            (3 * GIB, Some(1)),
            (8 * GIB, Some(2)),
            (GIB - 1, None),
        ] {
            let mut done = Vec::new();
            let taken = in_calls(&ranges, &mut |ranges| kernel(ranges, hole, &mut done)).unwrap();
            let mut wanted = ranges.to_vec();
            if let Some(failed) = failed {
                wanted.remove(failed);
            }
            assert_eq!(taken, wanted);
            for range in &taken {
                let within = done
                    .iter()
                    .filter(|it| range.start <= it.start && it.end <= range.end);
                let bytes: u64 = within.map(|it| it.end - it.start).sum();
                assert_eq!(bytes, range.end - range.start, "{range:?} of {done:?}");
            }
        }
    }

    #[test]
    fn who_has_ended_is_told_and_so_is_a_call_without_ranges() {
        let ended = || Err(io::Error::from_raw_os_error(libc::ESRCH));
        let one = 0..4096;
        for ranges in [&[][..], &[one]] {
            let told = in_calls(ranges, &mut |_| ended()).unwrap_err();
            assert_eq!(told.raw_os_error(), Some(libc::ESRCH));
        }
    }

    #[test]
    fn what_is_to_be_told_too_late_is_not() {
        // No process is held by it: a call would say so.
        let none = std::fs::File::open("/dev/null").unwrap();
        let one = 0..4096;
        for (seconds, errno) in [(0, libc::ETIMEDOUT), (1000, libc::EBADF)] {
            let until = Instant::now() + Duration::from_secs(seconds);
            let ranges = std::slice::from_ref(&one);
            let told = process_madvise_until(none.as_fd(), ranges, Advice::Cold, until);
            assert_eq!(told.unwrap_err().raw_os_error(), Some(errno));
        }
    }
}
