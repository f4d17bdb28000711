//! Control groups: what of theirs is in swap has to fit back into them before any
//! area is switched off.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use zmeld_swap::setup::event::Event;
use zmeld_swap::setup::execute::{self, Removal};
use zmeld_swap::setup::journal::Owner;
use zmeld_swap::setup::plan::Options;
use zmeld_swap::setup::{Error, ErrorKind};

use crate::cases::machine;
use crate::common::{config, lock};

const MIB: u64 = 1 << 20;

#[test]
fn a_program_that_grows_meanwhile_stops_it() {
    let machine = Arc::new(machine("room.txt", "growing"));
    let grown = Arc::clone(&machine);
    machine.during_swapoff(move || {
        // Groups that no path leads to do not end the look.
        let mut folder = File::open(grown.path("/sys/fs/cgroup/idle")).unwrap();
        for _ in 0..18 {
            let inner = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), "x".repeat(250));
            std::fs::create_dir(&inner).unwrap();
            std::fs::write(format!("{inner}/memory.swap.current"), "4096\n").unwrap();
            folder = File::open(&inner).unwrap();
        }
        let used = format!("{}\n", 99 * MIB);
        grown.put("/sys/fs/cgroup/app/memory.current", &used);
    });
    let err = machine.down().unwrap_err().to_string();
    assert!(
        err.contains("40.0 MiB would return to the control group /app"),
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
fn what_cannot_be_looked_at_meanwhile_stops_it() {
    let machine = Arc::new(machine("room.txt", "growing"));
    let blind = Arc::clone(&machine);
    let file = "/sys/fs/cgroup/app/memory.swap.current";
    machine.during_swapoff(move || {
        std::fs::remove_file(blind.path(file)).unwrap();
        std::fs::create_dir(blind.path(file)).unwrap();
    });
    let err = machine.down().unwrap_err().to_string();
    assert!(
        err.contains("app/memory.swap.current: it is not a file, so it is unknown"),
        "{err}"
    );
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
}

#[test]
fn who_asks_to_stop_is_heard_meanwhile() {
    let machine = machine("room.txt", "up 102400");
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    machine.during_swapoff(move || asked.store(true, Ordering::SeqCst));
    let err = machine.down_until(&stop).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Interrupted);
    let err = err.to_string();
    assert!(err.contains("the rest is still set up"), "{err}");
    // Nor is a step begun then.
    machine.down_until(&stop).unwrap_err();
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
    machine.down().unwrap();
}

#[test]
fn pages_that_come_back_are_told_meanwhile() {
    let machine = Arc::new(machine("room.txt", "up 102400"));
    let half = Arc::clone(&machine);
    machine.during_swapoff(move || {
        let swaps = half.text("/proc/swaps").replace("\t102400\t", "\t51200\t");
        half.put("/proc/swaps", &swaps);
    });
    let host = machine.host();
    let mut journal = lock(&host, Owner::Setup).unwrap();
    let stop = AtomicBool::new(false);
    let mut listener = |event: Event<'_>| {
        if let Event::SwappingIn {
            left_bytes,
            total_bytes,
            ..
        } = event
        {
            assert_eq!(total_bytes, 100 * MIB);
            stop.fetch_or(left_bytes == 50 * MIB, Ordering::SeqCst);
        }
    };
    let down = execute::down(
        &host,
        &mut journal,
        Removal::default(),
        &stop,
        &mut listener,
    );
    assert!(matches!(down, Err(Error::Interrupted { .. })), "{down:?}");
}

/// The new device is filled meanwhile, and the drive below it cannot be swapped to.
#[test]
fn who_forces_a_change_does_not_force_the_way_back() {
    let wanted = config(
        "accept = [\"lru-inversion\"]\n[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n\
         [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n",
    );
    let options = Options {
        force: true,
        ..Options::default()
    };
    let is_stopped = (10..200).any(|at| {
        let machine = Arc::new(machine("room.txt", "group /app | 90 | 98 | 100"));
        machine.refuse_swapon("/dev/sdc1");
        let filled = Arc::clone(&machine);
        machine.before_operation(at, move || {
            let swaps = filled.text("/proc/swaps").replace("\t0\t", "\t102400\t");
            filled.put("/proc/swaps", &swaps);
        });
        let said = machine.up_with(&wanted, &options).unwrap_err().to_string();
        assert!(said.contains("swapon"), "{said}");
        let stays = machine.text("/proc/swaps").contains("/dev/zram1");
        stays && said.contains("98.0 MiB would return to the control group /app")
    });
    assert!(is_stopped);
}
