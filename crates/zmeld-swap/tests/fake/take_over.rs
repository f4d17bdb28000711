//! Compressed swap that another tool set up: reported, never joined in silence,
//! replaced where that is asked for, and put back.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use zmeld_swap::config::{Severity, Trap};
use zmeld_swap::event::Event;
use zmeld_swap::execute::{self, Report};
use zmeld_swap::findings::Finding;
use zmeld_swap::plan::{Options, Plan};
use zmeld_swap::Error;

use crate::common::{config, Fate, Machine, MEMINFO};
use crate::crash::quietly;

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\nmemory_limit = \"30%\"\n";
const LIST: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

/// A laptop on which zram-generator set up swap.
fn laptop(priority: i32) -> Machine {
    let machine = Machine::new();
    let line = format!("/dev/zram0 partition\t2097148\t\t0\t\t{priority}\n");
    machine.put("/proc/swaps", &format!("{LIST}{line}"));
    machine.put("/sys/block/zram0/disksize", "2147483648\n");
    machine.put("/etc/systemd/zram-generator.conf", "[zram0]\n");
    machine.carry("/dev/zram0", "swap");
    machine
}

fn options(take_over: bool) -> Options {
    Options {
        take_over,
        ..Options::default()
    }
}

fn plan(machine: &Machine, text: &str, take_over: bool) -> Plan {
    let plan = machine.plan_with(&config(text), &options(take_over));
    plan.unwrap()
}

fn up(machine: &Machine, text: &str, take_over: bool) -> Result<Report, Error> {
    machine.up_with(&config(text), &options(take_over))
}

/// Paths of the swap areas with their priorities.
fn swaps(machine: &Machine) -> Vec<(String, String)> {
    let list = machine.text("/proc/swaps");
    let areas = list.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[0].to_owned(), words[4].to_owned())
    });
    areas.collect()
}

fn pair(path: &str, priority: &str) -> (String, String) {
    (path.to_owned(), priority.to_owned())
}

#[test]
fn a_second_device_is_refused_at_any_priority_and_the_way_out_is_named() {
    for (priority, what) in [
        ("100", "pages go to both in turn"),
        ("5", "fills first and keeps the coldest pages"),
        ("32767", "fills first and keeps the coldest pages"),
    ] {
        let machine = laptop(priority.parse().unwrap());
        let before = machine.snapshot();
        let err = up(&machine, RAM, false).unwrap_err().to_string();
        let there = format!(
            "/dev/zram0 is swapped to already (lzo-rle, 2.00 GiB with no memory limit, priority \
             {priority})"
        );
        // 2 GiB and its table of 8 MiB; 30 % of 4 GiB and as large a table.
        let together = "together they may take 3.22 GiB of the 4.00 GiB of RAM";
        for words in [there.as_str(), what, together, "zmeld up --take-over"] {
            assert!(err.contains(words), "{words}: {err}");
        }
        assert_eq!(machine.snapshot(), before);
        // Where it is meant, it is done.
        let accepting = format!("accept = [\"second-device\"]\n{RAM}");
        up(&machine, &accepting, false).unwrap();
        assert_eq!(swaps(&machine).len(), 2);
    }
}

#[test]
fn a_tier_that_stands_already_is_kept_where_another_tool_joins_it() {
    let machine = Machine::new();
    up(&machine, RAM, false).unwrap();
    let list = machine.text("/proc/swaps");
    let other = "/dev/zram0 partition\t2097148\t\t0\t\t7\n";
    machine.put("/proc/swaps", &format!("{list}{other}"));
    machine.put("/sys/block/zram0/disksize", "2147483648\n");
    machine.carry("/dev/zram0", "swap");
    assert!(up(&machine, RAM, false).unwrap().is_unchanged());
    let made = plan(&machine, RAM, false);
    let found = made.problems.iter();
    let found: Vec<_> = found
        .filter(|it| it.trap == Some(Trap::SecondDevice))
        .collect();
    assert_eq!(found.len(), 1, "{:?}", made.problems);
    assert_eq!(found[0].severity, Severity::Warning);
    // Status says the same, in the same words, unless it is accepted.
    let second = |config: &str| status(&machine, config, "second-device");
    let told = second("");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].subject, "zram0");
    let (_, what) = told[0].what.split_once(": ").unwrap();
    assert!(found[0].what.contains(what), "{what}: {}", found[0].what);
    assert!(told[0].remedy.contains("zmeld up --take-over"));
    assert_eq!(
        second("accept = [\"second-device\"]\n[tunables]\npage_cluster = 0\n"),
        []
    );
    // It gives its place then, too.
    up(&machine, RAM, true).unwrap();
    assert_eq!(swaps(&machine), [pair("/dev/zram1", "100")]);
    // And again where somebody switched it on again, without being asked for.
    let list = machine.text("/proc/swaps");
    machine.put("/proc/swaps", &format!("{list}{other}"));
    up(&machine, RAM, false).unwrap();
    assert_eq!(swaps(&machine), [pair("/dev/zram1", "100")]);
}

/// What status says by that rule.
fn status(machine: &Machine, text: &str, id: &str) -> Vec<Finding> {
    let mut found = machine.findings(text);
    found.retain(|found| found.id == id);
    found
}

const ZSWAP: &str = "[tier.cache]\nkind = \"zswap\"\n";

/// The laptop with swap on its disk too.
fn laptop_with_disk_swap() -> Machine {
    let machine = laptop(100);
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    let list = machine.text("/proc/swaps");
    let disk = "/dev/sda2 partition\t4194300\t\t0\t\t-2\n";
    machine.put("/proc/swaps", &format!("{list}{disk}"));
    machine
}

#[test]
fn zswap_in_front_of_anothers_device_is_refused_unless_it_takes_its_place() {
    let machine = laptop_with_disk_swap();
    let before = machine.snapshot();
    let err = up(&machine, ZSWAP, false).unwrap_err().to_string();
    for words in [
        "/dev/zram0 is swapped to already",
        "compresses every page twice",
        "zmeld up --take-over",
        "zram-with-zswap",
    ] {
        assert!(err.contains(words), "{words}: {err}");
    }
    assert_eq!(machine.snapshot(), before);
    let accepting = format!("accept = [\"zram-with-zswap\"]\n{ZSWAP}");
    up(&machine, &accepting, false).unwrap();
    assert_eq!(machine.text("/sys/module/zswap/parameters/enabled"), "Y\n");

    // One that somebody switched off since is not switched on in front of it either.
    let machine = Machine::new();
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    let disk = "/dev/sda2 partition\t4194300\t\t0\t\t-2\n";
    machine.put("/proc/swaps", &format!("{LIST}{disk}"));
    up(&machine, ZSWAP, false).unwrap();
    let other = "/dev/zram0 partition\t2097148\t\t0\t\t7\n";
    machine.put("/proc/swaps", &format!("{LIST}{disk}{other}"));
    up(&machine, ZSWAP, false).unwrap();
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    up(&machine, ZSWAP, false).unwrap_err();

    let machine = laptop_with_disk_swap();
    up(&machine, ZSWAP, true).unwrap();
    assert_eq!(machine.text("/sys/module/zswap/parameters/enabled"), "Y\n");
    assert_eq!(swaps(&machine), [pair("/dev/sda2", "-2")]);
    machine.down().unwrap();
    assert_eq!(machine.text("/sys/module/zswap/parameters/enabled"), "N\n");
    let mut now = swaps(&machine);
    now.sort();
    assert_eq!(now, [pair("/dev/sda2", "-2"), pair("/dev/zram0", "100")]);
}

#[test]
fn taking_over_puts_the_tier_in_its_place_and_down_puts_it_back() {
    for priority in ["100", "-2"] {
        let machine = laptop(priority.parse().unwrap());
        let before = machine.snapshot();
        let made = plan(&machine, RAM, true);
        let last = made.groups.last().unwrap();
        assert_eq!(last.name, "take-over");
        assert!(
            last.steps[0].reason.contains("2.00 GiB"),
            "{:?}",
            last.steps
        );
        // What sets it up at boot is named, with the way to switch it off.
        let said: Vec<String> = made.problems.iter().map(ToString::to_string).collect();
        assert!(
            said.iter()
                .any(|line| line.contains("system-generators/zram-generator")),
            "{said:?}"
        );

        up(&machine, RAM, true).unwrap();
        assert_eq!(swaps(&machine), [pair("/dev/zram1", "100")]);
        // The other's settings are as they were.
        assert_eq!(machine.text("/sys/block/zram0/disksize"), "2147483648\n");

        // It stays so without being asked for again, also where something changes.
        let again = up(&machine, RAM, false).unwrap();
        assert!(again.is_unchanged(), "{again:?}");
        let larger = RAM.replace("50%", "60%");
        up(&machine, &larger, false).unwrap();
        assert_eq!(swaps(&machine), [pair("/dev/zram1", "100")]);

        machine.down().unwrap();
        assert_eq!(swaps(&machine), [pair("/dev/zram0", priority)]);
        // As zram-generator has it switched on.
        assert!(machine.last_swapon().contains(&"--discard".to_owned()));
        assert_eq!(
            machine.text("/sys/module/zswap/parameters/enabled"),
            "Y\n",
            "zswap was on before"
        );
        let after = machine.snapshot();
        let differ: Vec<_> = before
            .iter()
            .filter(|(path, text)| after.get(*path) != Some(*text) && !path.ends_with("swaps"))
            .collect();
        assert!(differ.is_empty(), "{differ:?}");
        assert_eq!(before.len(), after.len());
    }
}

#[test]
fn pages_that_do_not_fit_into_ram_are_not_taken_over() {
    let machine = laptop(100);
    // 2 GiB can be had, and a little more is swapped out.
    let full = format!("{LIST}/dev/zram0 partition\t4194304\t\t2097160\t\t100\n");
    machine.put("/proc/swaps", &full);
    let before = machine.snapshot();
    let err = up(&machine, RAM, true).unwrap_err().to_string();
    assert!(err.contains("do not fit back into RAM"), "{err}");
    assert_eq!(machine.snapshot(), before);
}

/// Each fits into RAM, its own area's pages and the other's, and both do not.
#[test]
fn own_and_others_pages_have_to_fit_into_ram_together() {
    let machine = laptop(100);
    let accepted = format!("accept = [\"second-device\"]\n{RAM}");
    up(&machine, &accepted, false).unwrap();
    let list = machine.text("/proc/swaps");
    let full: Vec<String> = list
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let mut words: Vec<&str> = line.split_whitespace().collect();
            if at > 0 {
                // 1.2 GiB of the 2 GiB that can be had.
                words[3] = "1258291";
            }
            words.join("\t")
        })
        .collect();
    machine.put("/proc/swaps", &(full.join("\n") + "\n"));
    let before = machine.snapshot();
    let other = RAM.replace("50%", "40%");
    assert_ne!(other, RAM);
    let err = up(&machine, &other, true).unwrap_err().to_string();
    assert!(err.contains("do not fit back into RAM"), "{err}");
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn what_is_gone_or_on_again_is_left_alone() {
    // Somebody switched it on again.
    let machine = laptop(100);
    up(&machine, RAM, true).unwrap();
    let list = machine.text("/proc/swaps");
    machine.put(
        "/proc/swaps",
        &format!("{list}/dev/zram0 partition\t1\t0\t7\n"),
    );
    machine.down().unwrap();
    assert_eq!(swaps(&machine), [pair("/dev/zram0", "7")]);
    // Somebody removed the device.
    let machine = laptop(100);
    up(&machine, RAM, true).unwrap();
    std::fs::remove_file(machine.dir.path().join("dev/zram0")).unwrap();
    machine.down().unwrap();
    assert_eq!(swaps(&machine), []);
    // Somebody reset it, or gave it to something else.
    for (size, carries) in [("0\n", ""), ("2147483648\n", "ext4"), ("0\n", "swap")] {
        let machine = laptop(100);
        up(&machine, RAM, true).unwrap();
        machine.put("/sys/block/zram0/disksize", size);
        machine.carry("/dev/zram0", carries);
        machine.refuse_swapon("/dev/zram0");
        let (report, notes) = machine.down_noting(false).unwrap();
        assert_eq!(swaps(&machine), [], "{size} {carries}");
        assert!(!machine.dir.path().join("sys/block/zram1").exists());
        for said in [&report.left, &notes] {
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains("/dev/zram0 is no longer swapped to: it was reset"));
        }
    }
    // What carries swap and cannot be switched on is a failure.
    let machine = laptop(100);
    up(&machine, RAM, true).unwrap();
    machine.refuse_swapon("/dev/zram0");
    let err = machine.down().unwrap_err().to_string();
    assert!(err.contains("read swap header failed"), "{err}");
}

#[test]
fn a_driver_that_the_kernel_has_not_got_is_named_with_its_own_way_out() {
    let machine = Machine::new();
    machine.put("/proc/modules", "");
    let index = "/lib/modules/6.12.0/modules.dep";
    machine.put(index, "kernel/fs/ext4/ext4.ko:\n");
    let of = |kind: &str| {
        let text = format!("[tier.fast]\nkind = \"{kind}\"\n");
        let named = Options {
            only_named: true,
            ..Options::default()
        };
        let plan = machine.plan_with(&config(&text), &named)?;
        let tier = plan.groups.into_iter().find(|it| it.name == "tier.fast");
        Ok::<_, Error>(tier.unwrap().steps[0].reason.clone())
    };
    let err = of("zmeld").unwrap_err().to_string();
    assert!(err.contains("has no zmeld: build it with DKMS"), "{err}");
    assert!(!err.contains("extra modules"), "{err}");
    std::fs::remove_dir_all(machine.dir.path().join("sys/class/zram-control")).unwrap();
    let err = of("zram").unwrap_err().to_string();
    let own = "has no zram: install the package with the kernel's extra modules";
    assert!(err.contains(own), "{err}");
    assert!(err.contains("or zmeld.ko: build it with DKMS"), "{err}");
    // Where it is installed it is loaded, and only then called a module.
    machine.put(
        index,
        "kernel/drivers/block/zram/zram.ko.xz: kernel/mm/zsmalloc.ko.xz\n",
    );
    assert_eq!(of("zram").unwrap(), "the kernel has it as a module");
    // Where that cannot be told, nothing is claimed.
    std::fs::remove_file(machine.dir.path().join(&index[1..])).unwrap();
    let reason = of("zram").unwrap();
    assert!(reason.contains("cannot be told"), "{reason}");
    std::fs::remove_file(machine.dir.path().join("proc/modules")).unwrap();
    let err = of("zram").unwrap_err().to_string();
    assert!(err.contains("loads no modules"), "{err}");
}

#[test]
fn an_optional_tier_takes_nothing_over() {
    let machine = laptop(100);
    let text = format!("accept = [\"read-ahead\"]\n{RAM}optional = true\n");
    let made = plan(&machine, &text, true);
    assert!(made.groups.iter().all(|group| group.name != "take-over"));
    assert!(made
        .problems
        .iter()
        .any(|problem| problem.what.contains("no tier is certain")));
    // It would stand beside the other.
    made.refuse().unwrap_err();
}

/// Killed or failing anywhere, on the way up and on the way down.
/// What was taken over stays at a boot's run, and is not where the tier that was to take its
/// place fails.
#[test]
fn a_boot_keeps_what_was_taken_over() {
    let at_boot = |take_over| Options {
        at_boot: true,
        ..options(take_over)
    };
    let machine = laptop(100);
    up(&machine, RAM, true).unwrap();
    for again in [false, true] {
        let report = machine.up_with(&config(RAM), &at_boot(again)).unwrap();
        assert!(report.is_unchanged(), "{again}: {report:?}");
    }
    let machine = laptop(100);
    machine.refuse_swapon("/dev/zram1");
    let report = machine.up_with(&config(RAM), &at_boot(true)).unwrap();
    assert_eq!(report.skipped.len(), 1, "{report:?}");
    assert_eq!(swaps(&machine), [pair("/dev/zram0", "100")]);
}

#[test]
fn a_killed_take_over_is_taken_back() {
    quietly();
    for fate in [Fate::DieBefore, Fate::DieAfter, Fate::Fail] {
        for at in 0.. {
            let machine = laptop(100);
            machine.fate(Some((at, fate)));
            let up = catch_unwind(AssertUnwindSafe(|| up(&machine, RAM, true).map(drop)));
            let reached = machine.fate(None) > at;
            let told = matches!(up, Ok(Ok(())));
            assert!(!told || !reached || fate == Fate::Fail, "{fate:?} {at}");
            // It can be killed on the way down as well.
            machine.fate(Some((at / 2, fate)));
            let _ = catch_unwind(AssertUnwindSafe(|| machine.down().map(drop)));
            machine.fate(None);
            machine
                .down()
                .unwrap_or_else(|err| panic!("{fate:?} {at}: {err}"));
            assert_eq!(
                swaps(&machine),
                [pair("/dev/zram0", "100")],
                "{fate:?} {at}"
            );
            machine.remove_doubtful();
            assert!(
                !machine.dir.path().join("sys/block/zram1").exists(),
                "{fate:?} {at}"
            );
            if !reached {
                break;
            }
        }
    }
}

/// A laptop whose area holds most of a group that is at its limit, and not all of it
/// fits into the small device that takes the area's place.
fn laptop_with_a_full_group() -> Machine {
    const MIB: u64 = 1 << 20;
    let machine = laptop(50);
    let swaps = machine.text("/proc/swaps").replace("\t0\t", "\t102400\t");
    machine.put("/proc/swaps", &swaps);
    machine.put("/proc/cgroups", "memory\t0\t25\t1\n");
    machine.put("/proc/vmstat", "oom_kill 3\n");
    let mounts = "31 24 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    machine.put("/proc/self/mountinfo", mounts);
    for (file, text) in [
        ("cgroup.controllers", "memory\n".to_owned()),
        ("app/memory.current", format!("{}\n", 90 * MIB)),
        ("app/memory.swap.current", format!("{}\n", 98 * MIB)),
        ("app/memory.max", format!("{}\n", 100 * MIB)),
        ("app/memory.stat", "anon 1\n".to_owned()),
    ] {
        machine.put(&format!("/sys/fs/cgroup/{file}"), &text);
    }
    machine
}

/// As large as the fake machine's areas are.
const SMALL: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"1MiB\"\n";

/// Takes over, by force or not; what was noted, and what came of it.
fn take_over(machine: &Machine, force: bool) -> (Vec<String>, Result<Report, Error>) {
    let options = Options {
        take_over: true,
        force,
        ..Options::default()
    };
    let result = machine.up_with(&config(SMALL), &options);
    (machine.notes(), result)
}

#[test]
fn taking_over_by_force_says_what_it_costs_before_and_what_it_has_cost_after() {
    let machine = Arc::new(laptop_with_a_full_group());
    let before = machine.snapshot();
    let (_, refused) = take_over(&machine, false);
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("98 MiB come back to the control group /app"),
        "{refused}"
    );
    assert_eq!(machine.snapshot(), before);

    // The kernel kills a program of the group, and only then swapoff fails.
    machine.fail_swapoff("/dev/zram0");
    let killed = Arc::clone(&machine);
    machine.during_swapoff(move || killed.put("/proc/vmstat", "oom_kill 5\n"));
    let (notes, failed) = take_over(&machine, true);
    assert!(
        notes
            .iter()
            .any(|it| it.contains("/app") && it.contains("will be killed")),
        "{notes:?}"
    );
    let failed = failed.unwrap_err().to_string();
    assert!(
        failed.contains("the kernel killed 2 processes meanwhile"),
        "{failed}"
    );
    assert!(
        failed.ends_with("swap is set up as it was before"),
        "{failed}"
    );
    assert!(!failed.contains("nothing was changed"), "{failed}");
}

#[test]
fn an_optional_tier_that_fails_leaves_the_rest_forced() {
    let machine = laptop_with_a_full_group();
    machine.refuse_swapon("/dev/sdc1");
    let drive =
        "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\noptional = true\n";
    let options = Options {
        take_over: true,
        force: true,
        ..Options::default()
    };
    let wanted = config(&format!("{SMALL}{drive}"));
    let report = machine.up_with(&wanted, &options).unwrap();
    assert_eq!(report.skipped.len(), 1, "{report:?}");
    assert!(!machine.text("/proc/swaps").contains("/dev/zram0"));
}

/// What a dry run says of it.
fn may_take_over(machine: &Machine, text: &str, force: bool) -> (Vec<String>, Result<(), Error>) {
    let host = machine.host();
    let options = Options {
        take_over: true,
        force,
        ..Options::default()
    };
    let plan = machine.plan_with(&config(text), &options).unwrap();
    let mut notes = Vec::new();
    let result = execute::may_go_up(&host, &plan, &mut |event| {
        if let Event::Note { text } = event {
            notes.push(text.to_owned());
        }
    });
    (notes, result)
}

#[test]
fn a_dry_run_refuses_what_taking_over_would() {
    // A group that is at its limit.
    let machine = laptop_with_a_full_group();
    let before = machine.snapshot();
    let (_, dry) = may_take_over(&machine, SMALL, false);
    let (_, real) = take_over(&machine, false);
    assert_eq!(dry.unwrap_err().to_string(), real.unwrap_err().to_string());
    let (notes, dry) = may_take_over(&machine, SMALL, true);
    dry.unwrap();
    assert!(
        notes.iter().any(|it| it.contains("will be killed")),
        "{notes:?}"
    );
    // RAM too: both are named at once.
    let meminfo = MEMINFO.replace("MemAvailable: 2097152", "MemAvailable: 1024");
    machine.put("/proc/meminfo", &meminfo);
    let (_, dry) = may_take_over(&machine, SMALL, false);
    let both = dry.unwrap_err().to_string();
    for words in [
        "100 MiB in /dev/zram0 do not fit back into RAM",
        "98 MiB come back to the control group /app",
    ] {
        assert!(both.contains(words), "{words}: {both}");
    }
    machine.put("/proc/meminfo", MEMINFO);
    assert_eq!(machine.snapshot(), before);
    // A tier that is on by then takes what the group has no room for.
    may_take_over(&machine, RAM, false).1.unwrap();
}
