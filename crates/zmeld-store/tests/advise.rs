//! `process_madvise` on this process: what the kernel does not take in one call is taken
//! all the same, and what is not taken is not said to be.

#[path = "../../zmeld-linux/tests/support/turn.rs"]
mod turn;

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::ptr;

use zmeld_linux::smaps;
use zmeld_store::advise::{process_madvise, Advice};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const PAGE: u64 = 4096;
/// Between two pages that are touched.
const APART: u64 = 64 * MIB;

/// Maps so much, of which nothing is kept ready, and touches a page here and there.
fn map(bytes: u64) -> Range<u64> {
    // SAFETY: new mappings of this process, which nobody else knows; what is written to
    // lies within.
    unsafe {
        let start = libc::mmap(
            ptr::null_mut(),
            usize::try_from(bytes).unwrap(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        // Not one with its neighbours, and no huge pages, which would be 2 MiB each.
        libc::madvise(start, bytes as usize, libc::MADV_NOHUGEPAGE);
        let start = start as u64;
        for at in (start..start + bytes).step_by(APART as usize) {
            ptr::write_volatile(at as *mut u8, 1);
        }
        start..start + bytes
    }
}

fn unmap(range: Range<u64>) {
    // SAFETY: of a mapping of `map`, which nobody has a reference into.
    let result = unsafe {
        libc::munmap(
            range.start as *mut libc::c_void,
            (range.end - range.start) as usize,
        )
    };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// How many pages of it were touched since that was last forgotten.
fn touched(range: &Range<u64>) -> u64 {
    let text = fs::read("/proc/self/smaps").unwrap();
    let all = smaps::parse(&text, PAGE).into_iter();
    let within = all.filter(|it| range.start <= it.start && it.end <= range.end);
    within.map(|it| it.referenced).sum()
}

#[test]
fn of_more_than_one_call_takes_all_is_forgotten_and_what_has_a_hole_is_left_out() {
    let _turn = turn::turn().unwrap();
    // SAFETY: takes a number and flags, and gives a new descriptor.
    let own = unsafe { libc::syscall(libc::SYS_pidfd_open, std::process::id(), 0) };
    let Ok(own @ 0..) = i32::try_from(own) else {
        eprintln!("SKIP: pidfd_open: {}", io::Error::last_os_error());
        return;
    };
    // SAFETY: it is new, and ours.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    if let Err(err) = process_madvise(own.as_fd(), &[], Advice::Cold) {
        eprintln!("SKIP: process_madvise: {err}");
        return;
    }
    // Each lies by itself, between pages that cannot be touched.
    let all = map(7 * GIB);
    let long = all.start..all.start + 5 * GIB;
    let holed = long.end + PAGE..all.end - GIB;
    let last = holed.end + PAGE..all.end;
    unmap(long.end..long.end + PAGE);
    unmap(holed.end..holed.end + PAGE);
    let hole = holed.start + GIB / 2..holed.start + GIB / 2 + PAGE;
    unmap(hole);
    // What was where the second and third begin is gone with it.
    let before = [touched(&long), touched(&holed), touched(&last)];
    assert_eq!(before[0], 5 * GIB / APART);
    assert!(before[1] > 1 && before[2] > 1, "{before:?}");

    let ranges = [long.clone(), holed, last.clone()];
    match process_madvise(own.as_fd(), &ranges, Advice::Cold) {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            eprintln!("SKIP: {err}");
        }
        taken => {
            assert_eq!(taken.unwrap(), [long.clone(), last.clone()]);
            assert_eq!((touched(&long), touched(&last)), (0, 0));
        }
    }
    unmap(all);
}
