//! Control groups: what of theirs is in swap has to fit back into them before any
//! area is switched off.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use zmeld_swap::execute::{self, Removal};
use zmeld_swap::journal::State;

use crate::common::{config, Machine, MEMINFO};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n";
const LARGER: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"75%\"\n";
const MIB: u64 = 1 << 20;

/// A machine that is up, with 100 MiB in swap.
fn up() -> Machine {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    swapped(&machine, 100);
    machine
}

fn swapped(machine: &Machine, mib: u64) {
    let swaps = format!(
        "Filename\tType\tSize\tUsed\tPriority\n/dev/zram1 partition\t2097152\t{}\t100\n",
        mib << 10
    );
    machine.put("/proc/swaps", &swaps);
}

/// What shows the groups.
fn mounted(machine: &Machine, point: &str, what: &str) {
    machine.put("/proc/cgroups", "#subsys_name\nmemory\t0\t25\t1\n");
    let mounts =
        format!("24 1 0:22 / /sys rw - sysfs sysfs rw\n31 24 0:28 / {point} rw - {what}\n");
    machine.put("/proc/self/mountinfo", &mounts);
}

/// A group of version 2; `max` in MiB.
fn two(machine: &Machine, group: &str, used: u64, swap: u64, max: Option<u64>) {
    machine.put("/sys/fs/cgroup/cgroup.controllers", "memory\n");
    mounted(machine, "/sys/fs/cgroup", "cgroup2 cgroup2 rw");
    let put = |file: &str, text: String| {
        machine.put(&format!("/sys/fs/cgroup{group}/{file}"), &text);
    };
    put("memory.current", format!("{}\n", used * MIB));
    put("memory.swap.current", format!("{}\n", swap * MIB));
    put("memory.swap.max", "max\n".to_owned());
    put("memory.high", "max\n".to_owned());
    let max = max.map_or("max".to_owned(), |mib| (mib * MIB).to_string());
    put("memory.max", format!("{max}\n"));
    put(
        "memory.stat",
        "anon 1\ninactive_file 0\nactive_file 0\n".to_owned(),
    );
}

fn program(machine: &Machine, group: &str, pid: u32, name: &str, swap_mib: u64) {
    machine.put(&format!("/proc/{pid}/comm"), &format!("{name}\n"));
    let status = format!("Name:\t{name}\nVmSwap:\t{} kB\n", swap_mib << 10);
    machine.put(&format!("/proc/{pid}/status"), &status);
    machine.put(&format!("/proc/{pid}/cgroup"), &format!("0::{group}\n"));
}

/// Going down, and up with another configuration, are refused with these words and change nothing.
fn refused(machine: &Machine, words: &[&str]) {
    let before = machine.snapshot();
    let down = machine.down().unwrap_err().to_string();
    let up = machine.up(&config(LARGER)).unwrap_err().to_string();
    // A dry run says the same.
    let host = machine.host();
    let records = State::read(&host).unwrap().unwrap().records;
    let plan = machine.plan(&config(LARGER)).unwrap();
    let would = execute::may_go_down(&host, &records, Removal::default(), &mut |_| {});
    assert_eq!(would.unwrap_err().to_string(), down);
    let would = execute::may_go_up(&host, &plan, &mut |_| {});
    assert_eq!(would.unwrap_err().to_string(), up);
    for line in [down, up] {
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn a_group_whose_swap_does_not_fit_back_is_named_with_its_largest_program() {
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    program(&machine, "/app", 41, "sh", 1);
    program(&machine, "/app", 42, "python3", 97);
    refused(
        &machine,
        &[
            "98 MiB come back to the control group /app",
            "room for 10 MiB below its limit of 100 MiB",
            "python3, process 42, 97 MiB in swap",
            "--force",
        ],
    );
    // With room for it, it goes down.
    two(&machine, "/app", 90, 98, Some(250));
    machine.down().unwrap();
}

/// Or any user could keep swap on.
#[test]
fn a_limit_that_a_user_set_himself_refuses_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    program(&machine, "/app", 42, "python3", 97);
    assert!(machine.down().is_err());
    let limit = machine.path("/sys/fs/cgroup/app/memory.max");
    std::os::unix::fs::chown(limit, Some(65534), None).unwrap();
    machine.down().unwrap();
}

/// What status says is to be done.
fn remedies(machine: &Machine, text: &str) -> Vec<String> {
    let all = machine.findings(text).into_iter();
    let found = all.filter(|found| found.id == "not-applied");
    found.map(|found| found.remedy).collect()
}

#[test]
fn a_status_promises_no_up_that_is_refused_for_want_of_room() {
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    program(&machine, "/app", 42, "python3", 97);
    let refused = machine.up(&config(LARGER)).unwrap_err();
    // Who did not call it is told whose option it is.
    let refused = refused
        .to_string()
        .replace("say --force", "zmeld up --force");
    let said = format!("zmeld up refuses it now: {refused}");
    assert!(said.ends_with("or zmeld up --force"), "{said}");
    assert!(said.contains("raise the limit, end the program"), "{said}");
    assert_eq!(remedies(&machine, LARGER), [said]);
    // Nothing is refused where nothing is to be switched off.
    assert_eq!(remedies(&machine, RAM), [""; 0]);
    two(&machine, "/app", 90, 98, Some(250));
    assert_eq!(remedies(&machine, LARGER), ["zmeld up"]);
    // RAM that cannot take it back, too.
    machine.put(
        "/proc/meminfo",
        &MEMINFO.replace("MemAvailable: 2097152", "MemAvailable: 20480"),
    );
    let refused = machine.up(&config(LARGER)).unwrap_err().to_string();
    assert!(refused.contains("do not fit back into RAM"), "{refused}");
    assert_eq!(
        remedies(&machine, LARGER),
        [format!("zmeld up refuses it now: {refused}")]
    );
}

#[test]
fn a_status_promises_no_take_over_that_is_refused_for_want_of_room() {
    let machine = Machine::new();
    let swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition\t2097148\t102400\t5\n";
    machine.put("/proc/swaps", swaps);
    machine.put("/sys/block/zram0/disksize", "2147483648\n");
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    let limited = format!("{RAM}memory_limit = \"20MiB\"\n");
    assert_eq!(
        remedies(&machine, &limited),
        ["zmeld up --take-over (/dev/zram0 was set up by another tool)"]
    );
    two(&machine, "/app", 100, 98, Some(100));
    let said = remedies(&machine, &limited);
    let words = "zmeld up refuses it now: with --take-over, 98 MiB come back to the control group";
    assert!(said[0].starts_with(words), "{said:?}");
}

#[test]
fn an_ancestors_limit_counts() {
    let machine = up();
    two(&machine, "/slice", 150, 60, Some(200));
    two(&machine, "/slice/one", 70, 30, None);
    two(&machine, "/slice/two", 80, 30, Some(180));
    program(&machine, "/slice/one", 7, "java", 30);
    refused(&machine, &["/slice,", "room for 50 MiB", "java, process 7"]);
    let err = machine.down().unwrap_err().to_string();
    assert!(!err.contains("/slice/two"), "{err}");
    two(&machine, "/slice", 150, 60, None);
    machine.down().unwrap();
}

#[test]
fn what_is_elsewhere_or_reclaimable_makes_room() {
    let cases: [(&str, u64, &str, bool); 5] = [
        (
            "only half of the page cache counts",
            0,
            "inactive_file 62914560\n",
            false,
        ),
        (
            "half of it is enough",
            0,
            "inactive_file 125829120\nactive_file 125829120\n",
            true,
        ),
        ("another area takes some of it", 200, "", true),
        ("another area is too small", 20, "", false),
        ("nothing", 0, "", false),
    ];
    for (what, other_mib, stat, fits) in cases {
        let machine = up();
        two(&machine, "/app", 90, 98, Some(100));
        machine.put("/sys/fs/cgroup/app/memory.stat", stat);
        let other = format!("/dev/sdx partition {} 0 -2\n", other_mib << 10);
        let swaps = machine.text("/proc/swaps");
        machine.put("/proc/swaps", &format!("{swaps}{other}"));
        assert_eq!(machine.down().is_ok(), fits, "{what}");
    }
    // A group that may not swap finds no room there.
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    machine.put("/proc/sys/vm/swappiness", "0\n");
    let swaps = machine.text("/proc/swaps");
    machine.put(
        "/proc/swaps",
        &format!("{swaps}/dev/sdx partition 900000 0 -2\n"),
    );
    assert!(machine.down().is_err());
}

#[test]
fn only_as_much_comes_back_as_the_area_holds() {
    let machine = up();
    // Most of the group's swap is elsewhere, on an area that stays.
    two(&machine, "/app", 90, 600, Some(100));
    swapped(&machine, 5);
    machine.put(
        "/proc/swaps",
        &(machine.text("/proc/swaps") + "/dev/sdx partition 900000 900000 -2\n"),
    );
    let machine_says = machine.down();
    assert!(machine_says.is_ok(), "{machine_says:?}");
}

#[test]
fn a_high_mark_slows_down_and_refuses_nothing() {
    let machine = up();
    two(&machine, "/app", 90, 98, None);
    machine.put(
        "/sys/fs/cgroup/app/memory.high",
        &format!("{}\n", 100 * MIB),
    );
    let (report, notes) = machine.down_noting(false).unwrap();
    assert!(!report.undone.is_empty());
    assert!(
        notes
            .iter()
            .any(|note| note.contains("memory.high of 100 MiB")),
        "{notes:?}"
    );
}

#[test]
fn by_force_it_goes_down_and_says_what_that_costs() {
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    program(&machine, "/app", 42, "python3", 97);
    let (_, notes) = machine.up_by_force(&config(LARGER)).unwrap();
    let named = |notes: &[String]| {
        let line = notes.iter().find(|note| note.contains("/app"));
        line.is_some_and(|line| line.contains("python3") && line.contains("will be killed"))
    };
    assert!(named(&notes), "{notes:?}");
    swapped(&machine, 100);
    let (report, notes) = machine.down_noting(true).unwrap();
    assert!(named(&notes), "{notes:?}");
    assert!(!report.undone.is_empty());
}

#[test]
fn version_one_counts_memory_and_swap_together() {
    let group = |machine: &Machine, group: &str, limit: u64, together: u64| {
        let put = |file: &str, text: String| {
            machine.put(&format!("/sys/fs/cgroup/memory{group}/{file}"), &text);
        };
        put("memory.usage_in_bytes", format!("{}\n", 90 * MIB));
        put("memory.limit_in_bytes", format!("{limit}\n"));
        put("memory.memsw.usage_in_bytes", format!("{}\n", 188 * MIB));
        put("memory.memsw.limit_in_bytes", format!("{together}\n"));
        put("memory.swappiness", "60\n".to_owned());
        put("memory.stat", format!("swap 0\ntotal_swap {}\n", 98 * MIB));
    };
    const NONE: u64 = 9_223_372_036_854_771_712;
    let machine = up();
    mounted(&machine, "/sys/fs/cgroup/memory", "cgroup cgroup rw,memory");
    group(&machine, "", NONE, NONE);
    group(&machine, "/app", 100 * MIB, NONE);
    refused(&machine, &["/app", "room for 10 MiB"]);
    // Room in memory, and none for memory and swap together: no page can be
    // charged before its swap is let go of.
    group(&machine, "/app", 300 * MIB, 188 * MIB);
    refused(&machine, &["/app", "room for 0 MiB"]);
    group(&machine, "/app", 300 * MIB, 200 * MIB);
    machine.down().unwrap();
}

#[test]
fn where_swap_is_not_counted_the_programs_say_it() {
    let machine = up();
    two(&machine, "/app", 90, 0, Some(100));
    std::fs::remove_file(
        machine
            .dir
            .path()
            .join("sys/fs/cgroup/app/memory.swap.current"),
    )
    .unwrap();
    program(&machine, "/app", 42, "python3", 97);
    refused(&machine, &["97 MiB come back to the control group /app"]);
}

#[test]
fn a_group_without_swap_and_a_name_with_an_escape_sequence() {
    let machine = up();
    two(&machine, "/idle", 100, 0, Some(100));
    let (_, notes) = machine.down_noting(false).unwrap();
    assert!(notes.is_empty(), "{notes:?}");
    let machine = up();
    two(&machine, "/a\u{1b}[2J", 90, 98, Some(100));
    let err = machine.down().unwrap_err().to_string();
    assert!(!err.contains('\u{1b}') && err.contains("/a?[2J"), "{err}");
}

fn other_area(machine: &Machine, name: &str, mib: u64) {
    let swaps = machine.text("/proc/swaps");
    let line = format!("/dev/{name} partition {} 0 -2\n", mib << 10);
    machine.put("/proc/swaps", &format!("{swaps}{line}"));
}

#[test]
fn room_elsewhere_is_there_once() {
    let both = |name: &str, mib| {
        let machine = up();
        two(&machine, "/a", 90, 90, Some(100));
        two(&machine, "/b", 90, 90, Some(100));
        other_area(&machine, name, mib);
        machine.down().map_err(|err| err.to_string())
    };
    let err = both("sdx", 100).unwrap_err();
    assert!(err.contains("group /b,") && !err.contains("/a"), "{err}");
    assert!(both("sdx", 200).is_ok());
    // What a group below moves there makes room above as well.
    let machine = up();
    two(&machine, "/a", 90, 90, Some(100));
    two(&machine, "/a/b", 90, 90, Some(100));
    other_area(&machine, "sdx", 100);
    machine.down().unwrap();
}

#[test]
fn a_group_whose_name_is_no_text_counts_and_so_does_what_is_below_it() {
    for full in ["/x", "/x/below"] {
        let machine = up();
        two(&machine, "/x", 90, 98, None);
        two(&machine, full, 90, 98, Some(100));
        program(&machine, full, 42, "python3", 97);
        let name = OsStr::from_bytes(b"sys/fs/cgroup/a\xff");
        std::fs::rename(
            machine.path("/sys/fs/cgroup/x"),
            machine.dir.path().join(name),
        )
        .unwrap();
        let cgroup = std::fs::read(machine.path("/proc/42/cgroup")).unwrap();
        let cgroup = [b"0::/a\xff", &cgroup["0::/x".len()..]].concat();
        std::fs::write(machine.path("/proc/42/cgroup"), cgroup).unwrap();
        refused(&machine, &[&full.replace("/x", "/a\u{fffd}"), "python3"]);
    }
}

#[test]
fn pages_of_a_removed_group_come_back_to_where_the_program_is() {
    let machine = up();
    two(&machine, "/app", 90, 0, Some(100));
    program(&machine, "/app", 42, "python3", 97);
    refused(
        &machine,
        &["97 MiB come back to the control group /app", "python3"],
    );
}

#[test]
fn what_no_group_accounts_for_comes_back_to_zmelds_own() {
    let machine = up();
    machine.put("/proc/self/cgroup", "0::/slice/own\n");
    two(&machine, "/slice", 90, 0, Some(100));
    two(&machine, "/slice/own", 90, 0, None);
    two(&machine, "/other", 50, 40, None);
    refused(&machine, &["60 MiB come back to the control group /slice,"]);
    // What was read already and keeps its slot is not missing.
    let cached = format!("SwapCached: {} kB", 60 << 10);
    machine.put(
        "/proc/meminfo",
        &MEMINFO.replace("SwapCached: 0 kB", &cached),
    );
    machine.down().unwrap();
}

#[test]
fn a_programs_name_stays_in_its_line() {
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    program(&machine, "/app", 42, "two\nlines\tx", 97);
    refused(&machine, &["two?lines?x"]);
}

#[test]
fn a_group_without_swap_costs_one_read() {
    let reads = |idle: usize| {
        let machine = up();
        two(&machine, "/app", 50, 40, None);
        for index in 0..idle {
            two(&machine, &format!("/idle{index}"), 90, 0, Some(100));
            two(&machine, &format!("/idle{index}/below"), 90, 0, Some(100));
        }
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
    let machine = Arc::new(up());
    two(&machine, "/idle", 50, 0, None);
    two(&machine, "/app", 50, 40, Some(100));
    program(&machine, "/app", 42, "python3", 40);
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
    two(&machine, "/app", 99, 40, Some(300));
    machine.down().unwrap();
    assert!(!machine.text("/proc/swaps").contains("/dev/zram1"));
}

#[test]
fn who_asks_to_stop_is_heard_meanwhile() {
    let machine = up();
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    machine.during_swapoff(move || asked.store(true, Ordering::SeqCst));
    let err = machine.down_until(&stop).unwrap_err().to_string();
    assert!(err.contains("the rest is still set up"), "{err}");
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
    machine.down().unwrap();
}

#[test]
fn what_a_compressed_area_may_take_of_ram_is_room_for_groups_and_none_for_the_machine() {
    let down = |stat: &str, needed_mib: u64| {
        let machine = up();
        two(&machine, "/app", 90, needed_mib, Some(100));
        machine.put("/sys/block/zram7/mm_stat", stat);
        other_area(&machine, "zram7", 900);
        machine.down().map(drop).map_err(|err| err.to_string())
    };
    assert_eq!(down("0 0 1048576 0 0 0 0 0 0\n", 98), Ok(()), "no limit");
    let limit = format!("0 0 {} {} 0 0 0 0 0\n", 20 * MIB, 220 * MIB);
    assert_eq!(down(&limit, 98), Ok(()), "a limit that leaves 200 MiB");
    let limit = format!("0 0 {} {} 0 0 0 0 0\n", 200 * MIB, 220 * MIB);
    let err = down(&limit, 98).unwrap_err();
    assert!(err.contains("room for 30 MiB"), "{err}");
    let err = down("", 98).unwrap_err();
    assert!(err.contains("room for 10 MiB"), "says nothing: {err}");
    // What goes there stays in RAM.
    let machine = up();
    machine.put("/sys/block/zram7/mm_stat", "0 0 0 0 0 0 0 0 0\n");
    other_area(&machine, "zram7", 900);
    let scarce = MEMINFO.replace("MemAvailable: 2097152", "MemAvailable: 51200");
    machine.put("/proc/meminfo", &scarce);
    let err = machine.down().unwrap_err().to_string();
    assert!(err.contains("do not fit back into RAM: 50 MiB"), "{err}");
}

#[test]
fn a_share_of_swap_that_is_used_up_is_no_room_elsewhere() {
    let down = |own: &str, above: &str| {
        let machine = up();
        two(&machine, "/s", 90, 98, None);
        two(&machine, "/s/app", 90, 98, Some(100));
        machine.put("/sys/fs/cgroup/s/memory.swap.max", above);
        machine.put("/sys/fs/cgroup/s/app/memory.swap.max", own);
        other_area(&machine, "sdx", 900);
        machine.down().map(drop).map_err(|err| err.to_string())
    };
    let bytes = |mib: u64| format!("{}\n", mib * MIB);
    assert_eq!(down("max\n", "max\n"), Ok(()));
    // Once all has come back, as much may go out again as before.
    assert_eq!(down(&bytes(98), "max\n"), Ok(()));
    for (own, above) in [
        ("0\n", "max\n"),
        ("max\n", "0\n"),
        (&bytes(50), "max\n"),
        (&bytes(500), &bytes(50)),
    ] {
        let err = down(own, above).unwrap_err();
        assert!(err.contains("the control group /s/app,"), "{err}");
    }
}

#[test]
fn groups_count_wherever_they_are_mounted() {
    for (point, root) in [
        ("/sys/fs/cgroup/unified", "/"),
        ("/groups\\040here", "/"),
        ("/some", "/slice"),
    ] {
        let machine = up();
        two(&machine, "/app", 90, 98, Some(100));
        let shown = format!("{}/app", root.trim_end_matches('/'));
        program(&machine, &shown, 42, "python3", 97);
        let mounts = format!("31 24 0:28 {root} {point} rw - cgroup2 cgroup2 rw\n");
        machine.put("/proc/self/mountinfo", &mounts);
        let place = machine.path(&point.replace("\\040", " "));
        let old = machine.path("/old");
        std::fs::rename(machine.path("/sys/fs/cgroup"), &old).unwrap();
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::rename(old, place).unwrap();
        refused(&machine, &[&format!("group {shown},"), "python3"]);
    }
}

#[test]
fn groups_that_are_there_and_not_seen_are_refused() {
    let machine = up();
    two(&machine, "/app", 90, 98, Some(100));
    // The mount is gone, what is below it is of no matter.
    machine.put(
        "/proc/self/mountinfo",
        "24 1 0:22 / /sys rw - sysfs sysfs rw\n",
    );
    refused(&machine, &["are not mounted here", "--force"]);
    // In hybrid mode, the mount that is left has no memory.
    mounted(&machine, "/sys/fs/cgroup", "cgroup2 cgroup2 rw");
    machine.put("/sys/fs/cgroup/cgroup.controllers", "pids\n");
    refused(&machine, &["are not mounted here"]);
    // A kernel that no longer lists the controller.
    machine.put("/proc/cgroups", "#subsys_name\ncpuset\t0\t25\t1\n");
    machine.put("/proc/self/cgroup", "0::/user.slice\n");
    refused(&machine, &["are not mounted here"]);
    // None but the root, or no such controller: nothing has a limit.
    for (controllers, own) in [
        ("#subsys_name\nmemory\t0\t1\t1\n", "0::/\n"),
        ("#subsys_name\nmemory\t0\t25\t0\n", "0::/user.slice\n"),
        ("#subsys_name\ncpuset\t0\t1\t1\n", "0::/\n"),
    ] {
        let machine = up();
        machine.put("/proc/cgroups", controllers);
        machine.put("/proc/self/cgroup", own);
        machine.down().unwrap();
    }
    let (_, notes) = machine.down_noting(true).unwrap();
    assert!(
        notes
            .iter()
            .any(|it| it.starts_with("by force: ") && it.contains("not mounted here")),
        "{notes:?}"
    );
}
