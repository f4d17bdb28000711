//! Live memory: child processes whose every page is known.

mod common;

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{live, see};
use zmeld_linux::KernelVersion;
use zmeld_scan::memory::{
    ColdTracker, Coldness, LiveMemory, LiveOptions, Note, RegionKind, Selection, SkipReason, Source,
};
use zmeld_store::page_size;
use zmeld_tests::child::{page, Script};
use zmeld_tests::group::Group;
use zmeld_tests::is_root;

/// As sanitizers and runtimes do: 16 TiB, with pages at both ends and one between.
#[test]
fn terabytes_that_are_only_reserved_are_not_walked() {
    let script = "
a = mmap.mmap(-1, 16 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
a.madvise(15)
for n in (5, (1 << 31) + 7, (16 << 40) // PAGE - 1): a[n * PAGE:(n + 1) * PAGE] = page(1, n & 255)
say(address(a)); wait()
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    let at = child.numbers()[0];
    let last = (16 << 40) / page_size() as u64 - 1;
    let bytes_read = || {
        let text = std::fs::read_to_string("/proc/self/io").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse::<u64>().unwrap()
    };
    for threads in [1, 3] {
        let before = bytes_read();
        let seen = see(&live(Selection::Pids(vec![child.pid()])), threads);
        let pages = seen.at(at, last + 1);
        assert_eq!(
            pages.keys().copied().collect::<Vec<_>>(),
            [5, (1 << 31) + 7, last]
        );
        assert!(pages.iter().all(|(n, it)| it.1 == page(1, n & 255)));
        // Their entries in the page table are 32 GiB.
        let told = KernelVersion::running() >= Some(KernelVersion::new(6, 7));
        assert!(!told || bytes_read() - before < 1 << 30);
    }
}

#[test]
fn guard_regions_are_neither_read_nor_taken_for_swap() {
    let script = "
a = private(1000); a.madvise(15); fill(a, 1, range(1000))
refused = ctypes.CDLL(None).madvise(ctypes.c_void_p(address(a)), ctypes.c_size_t(400 * PAGE), 102)
say(-refused, address(a)); wait()
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    let said = child.numbers();
    if said[0] != 0 {
        println!("SKIP: this kernel has no guard regions");
        return;
    }
    let seen = see(&live(Selection::Pids(vec![child.pid()])), 2);
    let pages = seen.at(said[1], 1000);
    assert!(pages.keys().copied().eq(400..1000));
    assert!(pages.iter().all(|(n, it)| it.1 == page(1, *n)));
    assert_eq!(seen.visit.counted.anon_swapped, 0);
    assert_eq!(seen.visit.skipped.get(SkipReason::ReadFailed).pages, 0);
}

#[test]
fn every_present_page_once_and_nothing_else_is_touched() {
    let script = "
a = private(3000); fill(a, 1, range(0, 3000, 3)); fill(a, 1, range(2000, 2600))
none = private(64); fill(none, 2, range(64)); protect(none, 0)
zero = private(50); x = [zero[n * PAGE] for n in range(50)]
untouched = private(1 << 20)
say(address(a), address(none), address(zero), address(untouched)); wait()
say(1); wait()
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    let at = child.numbers();
    let rollup = format!("/proc/{}/smaps_rollup", child.pid());
    let resident = || {
        let text = std::fs::read_to_string(&rollup).unwrap();
        text.lines()
            .find(|line| line.starts_with("Rss:"))
            .unwrap()
            .to_owned()
    };
    // From its first answer on it touches what it has touched.
    child
        .child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n")
        .unwrap();
    child.numbers();
    let before = resident();
    for threads in [1, 3] {
        let seen = see(&live(Selection::Pids(vec![child.pid()])), threads);
        let pages = seen.at(at[0], 3000);
        let wanted: Vec<u64> = (0..3000)
            .filter(|n| n % 3 == 0 || (2000..2600).contains(n))
            .collect();
        assert_eq!(pages.keys().copied().collect::<Vec<_>>(), wanted);
        for (n, (kind, bytes)) in pages {
            assert_eq!(*kind, RegionKind::Anonymous);
            assert!(*bytes == page(1, n), "page {n}");
        }
        assert!(
            seen.at(at[1], 64).is_empty()
                && seen.at(at[2], 50).is_empty()
                && seen.at(at[3], 1 << 20).is_empty()
        );
        let skipped = &seen.visit.skipped;
        assert!(skipped.get(SkipReason::NoAccess).pages >= 64);
        assert!(skipped.get(SkipReason::KernelPages).regions >= 1);
        assert_eq!(skipped.get(SkipReason::ReadFailed).pages, 0);
        let counted = &seen.visit.counted;
        assert!(counted.zero_mapped >= 50, "{counted:?}");
        assert_eq!(
            counted.anon_present,
            counted.delivered + counted.shared_again
        );
        assert_eq!((counted.processes, seen.visit.interrupted), (1, false));
        let kinds: Vec<_> = seen
            .visit
            .regions
            .iter()
            .map(|region| region.kind)
            .collect();
        for kind in [RegionKind::Heap, RegionKind::Stack, RegionKind::PrivateFile] {
            assert!(kinds.contains(&kind), "{kind:?} in {kinds:?}");
        }
    }
    assert_eq!(before, resident());
}

/// Of a process that does nothing, smaps says the same in sums.
#[test]
fn pages_are_counted_as_smaps_does() {
    let script = "
libc = ctypes.CDLL(None, use_errno=True)
a = private(300); fill(a, 1, range(0, 300, 2))
locked = private(20); fill(locked, 2, range(20))
assert libc.mlock(ctypes.c_void_p(address(locked)), ctypes.c_size_t(20 * PAGE)) == 0
none = private(64); fill(none, 2, range(64)); protect(none, 0)
s = mmap.mmap(-1, 30 * PAGE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS); fill(s, 3, range(30))
say(1); wait()
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    child.numbers();
    let pid = child.pid();
    let of = |kinds: fn(&mut LiveOptions)| {
        let mut options = LiveOptions::new(Selection::Pids(vec![pid]));
        kinds(&mut options);
        LiveMemory::open(options).unwrap()
    };
    let smaps = std::fs::File::open(format!("/proc/{pid}/smaps")).unwrap();
    let smaps = std::io::BufReader::new(smaps);
    let mut mappings = zmeld_linux::smaps::Reader::new(smaps, page_size() as u64);
    let (mut private, mut other, mut locked, mut no_access) = (0, 0, 0, 0);
    while let Some(it) = mappings.next_mapping().unwrap() {
        match it.name.starts_with("[v") {
            true => continue,
            false if !it.readable => no_access += it.rss,
            false => {
                private += it.anonymous;
                other += it.rss - it.anonymous;
                locked += u64::from(it.flags.locked) * it.rss;
            }
        }
    }
    assert!(no_access == 64 && locked >= 20 && private > 170 && other > 100);
    for kinds in [
        |_: &mut LiveOptions| (),
        |it: &mut LiveOptions| it.shared = true,
        |it: &mut LiveOptions| (it.shared, it.files) = (true, true),
    ] {
        let visit = see(&of(kinds), 1).visit;
        let counted = visit.counted;
        // Others are told of the page of zeros only by what it holds.
        assert!(!is_root() || counted.anon_present == private, "{counted:?}");
        assert_eq!(counted.shmem_present + counted.file_present, other);
        assert!((30..100).contains(&counted.shmem_present), "{counted:?}");
        assert_eq!(counted.locked, locked);
        assert_eq!(visit.skipped.get(SkipReason::NoAccess).pages, no_access);
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kib = |name: &str| -> u64 {
        let kib = zmeld_linux::process::status(&status, name).unwrap();
        kib.trim_end_matches(" kB").parse().unwrap()
    };
    let [private, shared, file] = ["RssAnon", "RssShmem", "RssFile"].map(kib);
    let member = of(|_| ()).members().next().unwrap();
    assert_eq!((member.pid, &*member.comm), (pid, "python3"));
    assert_eq!(member.resident_bytes, (private + shared) * 1024);
    let pages = |kib: u64| Some(kib * 1024 / page_size() as u64);
    assert_eq!(of(|_| ()).expected_pages(), pages(private));
    assert_eq!(
        of(|it| it.shared = true).expected_pages(),
        pages(private + shared)
    );
    assert_eq!(
        of(|it| it.files = true).expected_pages(),
        pages(private + file)
    );
}

/// Shared KiB that smaps says of the mapping at or around an address.
fn shared_kib(pid: i32, address: u64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut here = false;
    for line in text.lines() {
        if let Some((start, end)) = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'))
        {
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            here = (number(start)..number(end)).contains(&address);
        } else if let (true, Some(rest)) = (here, line.strip_prefix("Shared_Dirty:")) {
            return rest.trim().trim_end_matches(" kB").parse().unwrap();
        }
    }
    panic!("no mapping at {address:#x}")
}

#[test]
fn a_page_shared_by_fork_is_one_page() {
    let script = "
keep = private(3000); protect(keep, 0)
a = private(500); fill(a, 3, range(500))
after = private(3000); protect(after, 0)
r, w = os.pipe()
child = os.fork()
if child == 0:
    fill(a, 4, range(100)); os.write(w, b'x'); time.sleep(600)
os.read(r, 1); say(address(a), child); wait(); os.kill(child, 9)
";
    let Some(mut parent) = Script::start(script) else {
        return;
    };
    let numbers = parent.numbers();
    let tree = live(Selection::Tree(parent.pid()));
    assert_eq!(tree.members().count(), 2);
    let shared = || shared_kib(parent.pid(), numbers[0]);
    let before = shared();
    let seen = see(&tree, 2);
    assert_eq!(
        shared(),
        before,
        "reading must not give the processes copies of their own"
    );
    assert_eq!(before, 400 * page_size() as u64 / 1024);
    let _ = Command::new("kill").arg(numbers[1].to_string()).status();
    let size = page_size() as u64;
    let of = |tag| {
        let here = numbers[0]..numbers[0] + 500 * size;
        seen.pages
            .iter()
            .filter(|((_, address), (_, bytes))| {
                here.contains(address) && *bytes == page(tag, (address - numbers[0]) / size)
            })
            .count()
    };
    assert_eq!(of(4), 100);
    if is_root() {
        assert_eq!(
            of(3),
            500,
            "100 the parent's alone, 400 shared and seen once"
        );
        assert!(seen.visit.counted.shared_again >= 400);
        assert!(seen.visit.notes.is_empty() && seen.maybe_shared == 0);
    } else {
        assert_eq!(of(3), 900);
        assert!(seen.maybe_shared >= 800);
    }
}

/// Shared memory and files are counted in any case, and delivered when asked for.
#[test]
fn shared_memory_is_delivered_on_request() {
    let script = "
s = mmap.mmap(-1, 300 * PAGE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS); fill(s, 5, range(300))
r, w = os.pipe()
child = os.fork()
if child == 0:
    x = [s[n * PAGE] for n in range(300)]; os.write(w, b'x'); time.sleep(600)
os.read(r, 1); say(address(s), child); wait(); os.kill(child, 9)
";
    let Some(mut parent) = Script::start(script) else {
        return;
    };
    let numbers = parent.numbers();
    let selection = Selection::Tree(parent.pid());
    let seen = see(&live(selection.clone()), 1);
    assert!(seen.at(numbers[0], 300).is_empty());
    assert!(seen.visit.counted.shmem_present >= 600 && seen.visit.counted.file_present > 100);
    let all = LiveOptions {
        shared: true,
        files: true,
        ..LiveOptions::new(selection)
    };
    let seen = see(&LiveMemory::open(all).unwrap(), 2);
    let _ = Command::new("kill").arg(numbers[1].to_string()).status();
    let pages = seen.at(numbers[0], 300);
    assert_eq!(pages.len(), 300);
    for (n, (kind, bytes)) in pages {
        assert_eq!(*kind, RegionKind::SharedMemory);
        assert!(*bytes == page(5, n));
    }
    assert!(seen
        .pages
        .values()
        .any(|(kind, bytes)| *kind == RegionKind::FileBacked && bytes.starts_with(b"\x7fELF")));
    assert_eq!(seen.visit.counted.huge, 0);
}

#[test]
fn a_process_that_vanishes_while_it_is_read_is_counted() {
    let script = "
a = private(20000); fill(a, 6, range(20000)); say(address(a)); wait()
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    child.numbers();
    let source = live(Selection::Pids(vec![child.pid()]));
    let expected = source.expected_pages().unwrap();
    assert!((20_000..30_000).contains(&expected), "{expected}");
    let pid = child.pid().to_string();
    let delivered = AtomicU64::new(0);
    let killed = AtomicBool::new(false);
    let visit = source
        .visit(1, &AtomicBool::new(false), &|batch| {
            delivered.fetch_add((batch.bytes.len() / page_size()) as u64, Ordering::Relaxed);
            if !killed.swap(true, Ordering::Relaxed) {
                assert!(Command::new("kill")
                    .args(["-9", &pid])
                    .status()
                    .unwrap()
                    .success());
                // Its memory is gone once it is a zombie.
                while !std::fs::read_to_string(format!("/proc/{pid}/stat"))
                    .unwrap()
                    .contains(") Z")
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        })
        .unwrap();
    assert!(visit.counted.delivered < 20_000 && !visit.interrupted);
    assert_eq!(visit.counted.delivered, delivered.into_inner());
    let gone = visit.skipped.get(SkipReason::Vanished);
    assert_eq!((gone.processes, visit.counted.processes), (1, 0));
    // Reading it now finds nobody.
    let visit = source
        .visit(1, &AtomicBool::new(false), &|_| {
            panic!("nothing to deliver")
        })
        .unwrap();
    assert_eq!(visit.skipped.get(SkipReason::Vanished).processes, 1);
}

#[test]
fn stop_ends_a_visit_soon_with_what_was_seen() {
    let Some(mut child) =
        Script::start("a = private(50000); fill(a, 7, range(50000)); say(1); wait()")
    else {
        return;
    };
    child.numbers();
    let stop = AtomicBool::new(false);
    let after = AtomicU64::new(0);
    let visit = live(Selection::Pids(vec![child.pid()]))
        .visit(2, &stop, &|batch| {
            if stop.swap(true, Ordering::Relaxed) {
                after.fetch_add((batch.bytes.len() / page_size()) as u64, Ordering::Relaxed);
            }
        })
        .unwrap();
    assert!(visit.interrupted && visit.counted.delivered > 0);
    assert!(after.into_inner() < 2000);
}

#[test]
fn a_source_says_whose_memory_it_reads() {
    let Some(child) = Script::start("wait()") else {
        return;
    };
    let (one, other) = (child.pid(), std::process::id() as i32);
    let describe = |selection| live(selection).describe();
    assert_eq!(
        describe(Selection::Pids(vec![one])),
        format!("the memory of process {one}")
    );
    let both = describe(Selection::Pids(vec![one, other]));
    assert_eq!(both, "the memory of 2 processes");
}

#[test]
fn this_process_is_left_out() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let seen = see(&live(Selection::Pids(vec![pid])), 1);
    let skipped = seen.visit.skipped.get(SkipReason::Myself);
    assert_eq!((seen.pages.len(), skipped.processes), (0, 1));
}

#[test]
fn a_huge_page_of_zeros_is_no_memory_and_huge_pages_are_read() {
    let script = "
h = private(4096); h.madvise(14)
start = (address(h) + (2 << 20) - 1) // (2 << 20) * (2 << 20) - address(h)
x = h[start]
for i in range(512): h[start + (2 << 20) + i * PAGE] = 9
say(address(h) + start); wait()
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    let start = child.numbers()[0];
    let seen = see(&live(Selection::Pids(vec![child.pid()])), 1);
    assert!(seen.at(start, 512).is_empty());
    assert_eq!(seen.at(start + (2 << 20), 512).len(), 512);
    if seen.visit.counted.huge == 0 {
        println!("SKIP: this kernel gave no transparent huge page, small ones were tested");
    }
}

/// A mapping in use is not cold; its neighbour is.
#[test]
fn what_is_left_alone_is_cold() {
    let script = "
# Neighbours with equal rights are one mapping to the kernel: keep them apart.
keep = []
def apart(pages):
    m = private(pages); keep.append(private(3000)); protect(keep[-1], 0); return m
keep.append(private(3000)); protect(keep[-1], 0)
hot = apart(400); fill(hot, 8, range(400))
cold = apart(700); fill(cold, 9, range(700))
half = apart(200); fill(half, 10, range(200))
say(address(hot), address(cold), address(half))
while wait():
    for turn in range(100):
        for n in range(400): x = hot[n * PAGE], half[n % 100 * PAGE]
        time.sleep(0.01)
    say(1)
";
    let Some(mut child) = Script::start(script) else {
        return;
    };
    let at = child.numbers();
    let source = live(Selection::Pids(vec![child.pid()]));
    let begin = Instant::now();
    let tracker = ColdTracker::start(&source).unwrap();
    let input = child.child.stdin.as_mut().unwrap();
    input.write_all(b"\n").unwrap();
    child.numbers();
    let (time, stop) = (Duration::from_millis(1500), AtomicBool::new(false));
    let watched = tracker.wait(time, &stop, &mut |_| ()).unwrap();
    assert!(begin.elapsed() >= time);
    let seen = see(&source.only_cold(watched), 2);
    let cold = seen.visit.cold.clone().unwrap();
    let total = cold.total();
    println!("{cold:?}");
    assert!(
        seen.at(at[0], 400).len() < 20,
        "hot pages: {}",
        seen.at(at[0], 400).len()
    );
    assert_eq!(seen.at(at[1], 700).len(), 700);
    assert_eq!(total.delivered, seen.visit.counted.delivered);
    assert!(
        total.cold >= 700 + 90 && total.resident - total.cold >= 450,
        "{total:?}"
    );
    match cold.coldness {
        Coldness::PerMapping => assert!(seen.at(at[2], 200).is_empty()),
        Coldness::PerPage => assert!((80..=120).contains(&seen.at(at[2], 200).len())),
    }
    assert!(seen.visit.skipped.get(SkipReason::Touched).pages >= 450);
}

#[test]
fn a_stopped_wait_looks_at_once() {
    let Some(mut child) = Script::start("say(1); wait()") else {
        return;
    };
    child.numbers();
    let source = live(Selection::Pids(vec![child.pid()]));
    let tracker = ColdTracker::start(&source).unwrap();
    let stopped = AtomicBool::new(true);
    tracker
        .wait(Duration::MAX, &stopped, &mut |_| panic!("it waits"))
        .unwrap();
}

#[test]
fn a_control_group_is_read_with_the_groups_below_it() {
    let Some(outer) = Group::limited(64 << 20) else {
        println!("SKIP: no control group can be made here");
        return;
    };
    let name = outer.0.file_name().unwrap().to_str().unwrap();
    let inner = Group(outer.0.join("inner"));
    std::fs::create_dir(&inner.0).unwrap();
    let Some(mut child) =
        Script::start("a = private(30); fill(a, 11, range(30)); say(address(a)); wait()")
    else {
        return;
    };
    let at = child.numbers()[0];
    std::fs::write(inner.0.join("cgroup.procs"), child.pid().to_string()).unwrap();
    for path in [
        outer.0.clone(),
        name.into(),
        format!("/{name}/inner").into(),
    ] {
        let source = live(Selection::Cgroup(path));
        assert_eq!(source.members().count(), 1);
        assert_eq!(see(&source, 1).at(at, 30).len(), 30);
    }
    child.kill();
}

/// The second half of the next test runs as another user.
#[test]
fn as_an_ordinary_user_inner() {
    let Ok(at) = std::env::var("ZMELD_TEST_ADDRESS") else {
        return;
    };
    let numbers: Vec<u64> = at.split(' ').map(|n| n.parse().unwrap()).collect();
    let seen = see(&live(Selection::All), 2);
    assert!(seen.visit.notes.contains(&Note::NoFrameNumbers));
    // Others' processes are counted as such, or hidden, and then that is said.
    let hidden = std::env::var("ZMELD_TEST_HIDEPID").is_ok();
    assert_eq!(seen.visit.notes.contains(&Note::ProcessesHidden), hidden);
    assert_eq!(
        seen.visit.skipped.get(SkipReason::Permission).processes == 0,
        hidden
    );
    if !hidden {
        let refused = ColdTracker::start(&live(Selection::Pids(vec![1]))).unwrap_err();
        assert!(refused.is_missing(), "{refused}");
    }
    // Parent and child of a fork: 200 pages each at one address; they are marked.
    let pages: Vec<_> = seen
        .pages
        .iter()
        .filter(|((pid, address), _)| {
            (numbers[1..].contains(&(*pid as u64)))
                && (numbers[0]..numbers[0] + 200 * page_size() as u64).contains(address)
        })
        .collect();
    assert_eq!(pages.len(), 400);
    assert!(seen.maybe_shared >= 400, "{} {hidden}", seen.maybe_shared);
    assert!(
        seen.visit.counted.zero_mapped >= 20,
        "{:?}",
        seen.visit.counted
    );
    println!("inner test ran");
}

#[test]
fn as_an_ordinary_user() {
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let setpriv = || {
        let mut command = Command::new("setpriv");
        command.args(nobody);
        command
    };
    if !is_root()
        || !setpriv()
            .arg("true")
            .status()
            .is_ok_and(|status| status.success())
    {
        println!("SKIP: not root, or no setpriv");
        return;
    }
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .find(|path| {
            setpriv()
                .args([path, "-c", "0"])
                .status()
                .is_ok_and(|status| status.success())
        });
    let Some(python) = python else {
        println!("SKIP: no python3 that another user may run");
        return;
    };
    let script = "
a = private(200); fill(a, 12, range(200))
z = private(20); x = [z[n * PAGE] for n in range(20)]
child = os.fork()
if child == 0: time.sleep(600)
say(address(a), os.getpid(), child); wait(); os.kill(child, 9)
";
    let mut command = setpriv();
    command.arg(python);
    let Some(mut child) = Script::start_with(command, script, &[]) else {
        return;
    };
    let numbers = child.numbers();
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let program = dir.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let inner = [
        program.to_str().unwrap(),
        "--exact",
        "as_an_ordinary_user_inner",
        "--nocapture",
    ];
    let address = numbers
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let plain = setpriv()
        .args(inner)
        .env("ZMELD_TEST_ADDRESS", &address)
        .current_dir("/")
        .output();
    // The same where /proc shows a user nothing but his own.
    let hide = "mount -t proc -o hidepid=2 proc /proc || exit 77; exec setpriv \"$@\"";
    let hidden = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide, "sh"])
        .args(nobody)
        .args(inner)
        .env("ZMELD_TEST_ADDRESS", &address)
        .env("ZMELD_TEST_HIDEPID", "1")
        .current_dir("/")
        .output();
    let _ = Command::new("kill").arg(numbers[2].to_string()).status();
    let passed = |output: std::process::Output| {
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let ran = output.status.success() && text.contains("inner test ran");
        assert!(ran, "{text}{errors}");
    };
    passed(plain.unwrap());
    match hidden {
        Ok(output) if output.status.code() != Some(77) => passed(output),
        _ => println!("SKIP: /proc cannot be mounted with hidepid here"),
    }
}
