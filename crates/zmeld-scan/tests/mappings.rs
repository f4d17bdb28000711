//! A process of many mappings costs who reads it no more memory than any: the only test
//! here, since it looks at the most that its own program ever held.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use zmeld_scan::memory::{LiveMemory, LiveOptions, Selection, Source};
use zmeld_store::page_size;
use zmeld_tests::child::Script;

const MAPPINGS: u64 = 20_000;

/// The most memory that this program held, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = zmeld_linux::process::status(&status, "VmHWM").unwrap();
    peak.trim_end_matches(" kB").parse().unwrap()
}

/// Pages that are delivered of a process.
fn read(pid: i32) -> u64 {
    let live = LiveMemory::open(LiveOptions {
        regions: false,
        ..LiveOptions::new(Selection::Pids(vec![pid]))
    });
    let pages = AtomicU64::new(0);
    let size = page_size();
    let visit = live.unwrap().visit(1, &AtomicBool::new(false), &|batch| {
        pages.fetch_add((batch.bytes.len() / size) as u64, Ordering::Relaxed);
    });
    let visit = visit.unwrap();
    assert_eq!((visit.counted.processes, visit.regions.len()), (1, 0));
    pages.into_inner()
}

#[test]
fn many_mappings_of_long_names_are_read_in_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut deep = folder.path().to_owned();
    while deep.as_os_str().len() < 3500 {
        deep.push("d".repeat(250));
    }
    std::fs::create_dir_all(&deep).unwrap();
    let script = format!(
        "
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
file = open('{}/file', 'w+b'); file.truncate(PAGE)
for at in range({MAPPINGS}):
    a = libc.mmap(None, ctypes.c_size_t(PAGE), 3, mmap.MAP_PRIVATE, file.fileno(), ctypes.c_long(0))
    assert a != ctypes.c_void_p(-1).value
    ctypes.memmove(a, b'zmeld %8d' % at, 14)
say(1); wait()
",
        deep.display()
    );
    let (Some(mut few), Some(mut many)) = (Script::start("say(1); wait()"), Script::start(&script))
    else {
        return;
    };
    few.numbers();
    many.numbers();
    read(few.pid());
    let before = peak_kib();
    let pages = read(many.pid());
    assert!(pages >= MAPPINGS, "all are read: {pages}");
    // The text that the kernel tells of them is 80 MB.
    let more = peak_kib() - before;
    assert!(more < 16 << 10, "{more} KiB more");
}
