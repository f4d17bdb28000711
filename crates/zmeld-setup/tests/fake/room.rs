//! Control groups: what of theirs is in swap has to fit back into them before any
//! area is switched off.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::cases::machine;

const MIB: u64 = 1 << 20;

#[test]
fn a_group_whose_name_is_no_text_counts_and_so_does_what_is_below_it() {
    for full in ["/x", "/x/below"] {
        let machine = machine("room.txt", &format!("full-below {full}"));
        let name = OsStr::from_bytes(b"sys/fs/cgroup/a\xff");
        std::fs::rename(
            machine.path("/sys/fs/cgroup/x"),
            machine.dir.path().join(name),
        )
        .unwrap();
        let cgroup = std::fs::read(machine.path("/proc/42/cgroup")).unwrap();
        let cgroup = [b"0::/a\xff", &cgroup["0::/x".len()..]].concat();
        std::fs::write(machine.path("/proc/42/cgroup"), cgroup).unwrap();
        let err = machine.down().unwrap_err().to_string();
        let shown = full.replace("/x", "/a\u{fffd}");
        assert!(err.contains(&shown) && err.contains("python3"), "{err}");
    }
}

#[test]
fn a_group_without_swap_costs_one_read() {
    let reads = |idle: usize| {
        let machine = machine("room.txt", &format!("idle {idle}"));
        machine.fate(None);
        machine.down().unwrap();
        machine.fate(None)
    };
    let (few, many) = (reads(0), reads(100));
    // Before anything is changed, and before the area is switched off.
    assert!(many <= few + 2 * 100, "{few} {many}");
}

#[test]
fn a_program_that_grows_meanwhile_stops_it() {
    let machine = Arc::new(machine("room.txt", "growing"));
    let grown = Arc::clone(&machine);
    machine.during_swapoff(move || {
        let used = format!("{}\n", 99 * MIB);
        grown.put("/sys/fs/cgroup/app/memory.current", &used);
    });
    let err = machine.down().unwrap_err().to_string();
    assert!(
        err.contains("40 MiB come back to the control group /app"),
        "{err}"
    );
    assert!(err.contains("python3"), "{err}");
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
    // With room for it, it goes on where it was.
    let more = format!("{}\n", 300 * MIB);
    machine.put("/sys/fs/cgroup/app/memory.max", &more);
    machine.down().unwrap();
    assert!(!machine.text("/proc/swaps").contains("/dev/zram1"));
}

#[test]
fn who_asks_to_stop_is_heard_meanwhile() {
    let machine = machine("room.txt", "up 102400");
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    machine.during_swapoff(move || asked.store(true, Ordering::SeqCst));
    let err = machine.down_until(&stop).unwrap_err().to_string();
    assert!(err.contains("the rest is still set up"), "{err}");
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
    machine.down().unwrap();
}
