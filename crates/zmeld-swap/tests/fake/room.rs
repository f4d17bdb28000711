//! Control groups: what of theirs is in swap has to fit back into them before any
//! area is switched off.

use crate::common::{config, Machine};

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

/// A group of version 2; `max` in MiB.
fn two(machine: &Machine, group: &str, used: u64, swap: u64, max: Option<u64>) {
    machine.put("/sys/fs/cgroup/cgroup.controllers", "memory\n");
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
    put("cgroup.procs", String::new());
}

fn program(machine: &Machine, group: &str, pid: u32, name: &str, swap_mib: u64) {
    machine.put(&format!("/proc/{pid}/comm"), &format!("{name}\n"));
    let status = format!("Name:\t{name}\nVmSwap:\t{} kB\n", swap_mib << 10);
    machine.put(&format!("/proc/{pid}/status"), &status);
    let path = format!("/sys/fs/cgroup{group}/cgroup.procs");
    let procs = machine.text(&path);
    machine.put(&path, &format!("{procs}{pid}\n"));
}

/// Going down, and up with another configuration, are refused with these words and change nothing.
fn refused(machine: &Machine, words: &[&str]) {
    let before = machine.snapshot();
    let down = machine.down().unwrap_err().to_string();
    let up = machine.up(&config(LARGER)).unwrap_err().to_string();
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
        put("cgroup.procs", String::new());
    };
    const NONE: u64 = 9_223_372_036_854_771_712;
    let machine = up();
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
