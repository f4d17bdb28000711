//! Swap: a real zram device, filled by a process whose pages are known.

mod common;

use common::{live, see};
use zmeld_linux::meminfo::Meminfo;
use zmeld_scan::memory::{Selection, Source, SwapDevice};
use zmeld_tests::child::{page, Script};
use zmeld_tests::group::Group;
use zmeld_tests::is_root;
use zmeld_tests::turn::{self, Swap};

/// Swap is the machine's: one test at a time.
static SWAP: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn pages_in_zram_are_counted_in_place_and_read_from_the_device() {
    check_swap(|| Swap::zram(96 << 20, 32_000), true);
}

#[test]
fn pages_in_a_swap_file_are_read_by_what_page_tables_say() {
    let file = std::env::temp_dir().join(format!("zmeld-swap-file-{}", std::process::id()));
    check_swap(|| Swap::file(&file, 96 << 20, 32_001), false);
}

/// Fills the swap area, which has the highest priority, and looks for every page.
fn check_swap(make: impl FnOnce() -> Result<Swap, String>, zram: bool) {
    if !is_root() {
        println!("SKIP: setting up swap is for root");
        return;
    }
    let _one_at_a_time = SWAP
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let _turn = turn::turn().unwrap();
    // The file system may not bear swap files.
    let swap = match make() {
        Ok(swap) => swap,
        Err(reason) => {
            println!("SKIP: {reason}");
            return;
        }
    };
    let path = swap.path();
    let Some(group) = Group::limited(24 << 20) else {
        println!("SKIP: no control group with a memory limit");
        return;
    };
    const PAGES: u64 = 10_000;
    let script = format!(
        "
open({:?}, 'w').write(str(os.getpid()))
a = private({PAGES}); fill(a, 21, range({PAGES}))
say(address(a)); wait()
",
        group.0.join("cgroup.procs")
    );
    let Some(mut child) = Script::start(&script) else {
        return;
    };
    let at = child.numbers()[0];

    // In the process: what is in RAM is delivered, what is in swap is counted and stays there.
    let seen = see(&live(Selection::Pids(vec![child.pid()])), 2);
    let present = seen.at(at, PAGES);
    let swapped = seen.visit.counted.anon_swapped;
    println!("{} present, {swapped} swapped", present.len());
    assert!(present.iter().all(|(n, (_, bytes))| *bytes == page(21, *n)));
    assert!(present.len() < 7000 && present.len() as u64 + swapped >= PAGES);
    let again = see(&live(Selection::Pids(vec![child.pid()])), 1);
    assert!(
        again.at(at, PAGES).len() <= present.len() + 64,
        "reading brought pages back"
    );

    // On the device: every page that is not in RAM, with its contents.
    let device = SwapDevice::open(path).unwrap();
    assert_eq!(device.area().is_in_ram(), zram);
    assert_eq!(
        device.describe(),
        format!("the used slots of {}", path.display())
    );
    let page_size = rustix::param::page_size() as u64;
    assert!(device.area().used_bytes >= swapped / 2 * page_size);
    let used = device.area().used_bytes / page_size;
    assert_eq!(device.expected_pages(), Some(used));
    for threads in [1, 2] {
        let seen_device = see(&device, threads);
        let mut found = vec![false; PAGES as usize];
        for (_, bytes) in seen_device.pages.values() {
            let number = |from: usize| {
                std::str::from_utf8(&bytes[from..from + 8])
                    .ok()?
                    .trim()
                    .parse()
                    .ok()
            };
            if let (Some(21), Some(n)) = (number(11), number(20)) {
                assert!(*bytes == page(21, n));
                found[n as usize] = true;
            }
        }
        let on_device = found.iter().filter(|found| **found).count() as u64;
        let missing = (0..PAGES)
            .filter(|n| !found[*n as usize] && !present.contains_key(n))
            .count();
        println!(
            "{on_device} on the device, {missing} nowhere, notes {:?}",
            seen_device.visit.notes
        );
        // Taken from the process and not written yet.
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
        let cached = Meminfo::new(&memory).bytes("SwapCached").unwrap_or(0) as usize;
        assert!(
            missing < 64 + cached / 4096,
            "{missing} pages are neither in RAM nor on the device"
        );
        let counted = &seen_device.visit.counted;
        assert!(counted.delivered >= on_device && counted.swap_slots > 0);
        assert!(counted.delivered <= counted.swap_slots + 64, "{counted:?}");
    }
    child.kill();
}
