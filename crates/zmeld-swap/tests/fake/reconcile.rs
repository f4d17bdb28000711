//! What a plan says is what `up` does, and what is left after `down` is said.

use crate::common::{config, Machine, PATIENCE};
use zmeld_swap::execute::Done;
use zmeld_swap::journal::{Journal, Owner, State};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\nmemory_limit = \"25%\"\n\
                   codec = \"lz4\"\n[tunables]\nswappiness = 150\n";

/// The plan made beforehand lists what `up` then does, in order.
fn agrees(machine: &Machine, text: &str) {
    let plan = machine.plan(&config(text)).unwrap();
    let report = machine.up(&config(text)).unwrap();
    let steps = plan.groups.iter().flat_map(|group| {
        let missing = group.steps.iter().filter(|planned| !planned.done);
        missing.map(|planned| Done::new(&group.name, &planned.step))
    });
    assert_eq!(steps.collect::<Vec<_>>(), report.applied, "{text}");
    // What was changed by others since is left then.
    let is_left = |it: &&Done| report.not_undone.contains(it);
    let (left, undone): (Vec<_>, Vec<_>) = plan.undone.iter().partition(is_left);
    assert_eq!(left, report.not_undone.iter().collect::<Vec<_>>(), "{text}");
    assert_eq!(undone, report.undone.iter().collect::<Vec<_>>(), "{text}");
    assert_eq!(plan.is_done(), report.is_unchanged(), "{text}");
    let again = machine.plan(&config(text)).unwrap();
    assert!(again.is_done(), "{text}");
}

#[test]
fn a_plan_says_what_up_does() {
    let machine = Machine::new();
    agrees(&machine, RAM);
    agrees(&machine, RAM);
    // Another size: the device is made anew, and the plan says so.
    let limited = RAM.replace("50%", "40%");
    let plan = machine.plan(&config(&limited)).unwrap();
    assert!(plan
        .undone
        .iter()
        .any(|it| it.step.starts_with("add a zram")));
    agrees(&machine, &limited);
    // Somebody changed a value, or switched swap off: that is seen too.
    machine.put("/proc/sys/vm/swappiness", "10\n");
    assert!(!machine.plan(&config(&limited)).unwrap().is_done());
    agrees(&machine, &limited);
    let without: String = machine
        .text("/proc/swaps")
        .lines()
        .filter(|line| !line.starts_with("/dev/zram1"))
        .map(|line| format!("{line}\n"))
        .collect();
    machine.put("/proc/swaps", &without);
    agrees(&machine, &limited);
    // A part less, and a part more.
    agrees(&machine, "[tunables]\nswappiness = 120\n");
    agrees(&machine, RAM);
    machine.down().unwrap();
}

/// What has to leave a device that is made anew is said before, and how long it takes.
#[test]
fn a_plan_says_what_has_to_leave_a_device() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    let full = machine
        .text("/proc/swaps")
        .replace("1024\t\t0", "900000\t\t737280");
    machine.put("/proc/swaps", &full);
    let leaving = |text: &str| machine.plan(&config(text)).unwrap().leaving;
    let words: Vec<String> = leaving(&RAM.replace("50%", "40%"))
        .iter()
        .map(zmeld_swap::plan::Leaving::words)
        .collect();
    let said = "720 MiB have to leave /dev/zram1 first, which takes about 3 s.";
    assert_eq!(words, [said]);
    // In place, none does.
    assert_eq!(leaving(&RAM.replace("25%", "30%")), []);
}

/// Values hang on no other: one that is changed takes none of the others back.
#[test]
fn a_value_is_changed_alone() {
    let machine = Machine::new();
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    machine.put("/sys/module/zswap/parameters/shrinker_enabled", "N\n");
    machine.others_swap("/dev/sdb1");
    let zswap = "[tier.cache]\nkind = \"zswap\"\nmax_pool_percent = 30\nshrinker = true\n\
                 [tunables]\nswappiness = 150\npage_cluster = 1\n";
    agrees(&machine, zswap);
    for (from, to) in [("30", "40"), ("150", "120"), ("shrinker = true\n", "")] {
        let plan = machine.plan(&config(&zswap.replace(from, to))).unwrap();
        let steps = plan.groups.iter().flat_map(|group| &group.steps);
        let open = steps.filter(|it| !it.done).count();
        assert_eq!((open, plan.undone.len()), (usize::from(!to.is_empty()), 1));
        agrees(&machine, &zswap.replace(from, to));
        agrees(&machine, zswap);
    }
}

/// What the kernel changes while a device is in use is changed there, back and forth,
/// added and left out; the area stays on.
#[test]
fn a_limit_is_changed_in_place() {
    let machine = Machine::new();
    agrees(&machine, RAM);
    let swaps = machine.text("/proc/swaps");
    let limit = || {
        let stat = machine.text("/sys/block/zram1/mm_stat");
        stat.split_whitespace()
            .nth(3)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let first = limit();
    let without = RAM.replace("memory_limit = \"25%\"\n", "");
    for (text, share) in [
        (RAM.replace("25%", "50%"), 2),
        (without.clone(), 0),
        (RAM.to_owned(), 1),
    ] {
        let plan = machine.plan(&config(&text)).unwrap();
        let steps = plan.groups.iter().flat_map(|group| &group.steps);
        let open: Vec<_> = steps.filter(|it| !it.done).collect();
        assert_eq!(open.len() + plan.undone.len(), 1, "{plan:?}");
        for planned in open {
            assert!(planned.reason.ends_with("no page leaves the device"));
        }
        agrees(&machine, &text);
        assert_eq!(limit(), share * first);
        assert_eq!(machine.text("/proc/swaps"), swaps);
    }
    // Changed by hand, it is put back.
    machine.put("/sys/block/zram1/mm_stat", "0 0 0 4096 0 0 0 0 0\n");
    assert!(!machine.plan(&config(RAM)).unwrap().is_done());
    agrees(&machine, RAM);
    assert_eq!(limit(), first);
    assert_eq!(machine.text("/proc/swaps"), swaps);
    machine.down().unwrap();
}

/// So is what may be written back a day, as long as the drive stays.
#[test]
fn a_daily_limit_is_changed_in_place() {
    let machine = Machine::new();
    for (name, text) in [
        ("writeback_limit", "0\n"),
        ("writeback_limit_enable", "0\n"),
    ] {
        machine.offer(name, text);
    }
    let with = |limit: &str| {
        format!(
            "accept = [\"unstable-name\", \"readable-copy\"]\n{RAM}[tier.fast.writeback]\n\
             device = \"/dev/sdb1\"\n{limit}"
        )
    };
    let read = |name: &str| machine.text(&format!("/sys/block/zram1/{name}"));
    agrees(&machine, &with("daily_limit = \"1GiB\"\n"));
    let swaps = machine.text("/proc/swaps");
    for (limit, blocks, holds) in [
        ("daily_limit = \"2GiB\"\n", "524288", "1"),
        ("", "0", "0"),
        ("daily_limit = \"1GiB\"\n", "262144", "1"),
    ] {
        agrees(&machine, &with(limit));
        assert_eq!(read("writeback_limit").trim(), blocks);
        assert_eq!(read("writeback_limit_enable").trim(), holds);
        assert_eq!(machine.text("/proc/swaps"), swaps);
    }
    machine.down().unwrap();
}

/// Where a later step fails, the limit is what it was before.
#[test]
fn a_limit_that_was_changed_goes_back_with_the_rest() {
    let machine = Machine::on_disk();
    machine.up(&config(RAM)).unwrap();
    let before = machine.snapshot();
    let steps = || {
        let state = State::read(&machine.host()).unwrap().unwrap();
        let records = state.records.into_iter();
        records.map(|it| (it.group, it.step)).collect::<Vec<_>>()
    };
    let recorded = steps();
    machine.refuse_swapon("/srv/swap");
    std::fs::create_dir_all(machine.path("/srv")).unwrap();
    for text in [
        RAM.replace("25%", "30%"),
        RAM.replace("memory_limit = \"25%\"\n", ""),
    ] {
        let text = format!(
            "accept = [\"lru-inversion\"]\n{text}[tier.d]\nkind = \"disk\"\n\
             file = \"/srv/swap\"\nsize = \"1MiB\"\n"
        );
        machine.up(&config(&text)).unwrap_err();
        assert_eq!(machine.snapshot(), before);
        assert_eq!(steps(), recorded);
    }
}

/// What is as wanted already is no step, whoever set it, and stays as it is.
#[test]
fn a_value_that_is_so_already_is_no_step() {
    let machine = Machine::new();
    let before = machine.snapshot();
    let steps = |text: &str| {
        let plan = machine.plan(&config(text)).unwrap();
        let steps = plan.groups.iter().flat_map(|group| &group.steps);
        steps.filter(|it| !it.done).count()
    };
    const SO: &str = "[tunables]\nswappiness = 60\npage_cluster = 3\n";
    assert_eq!(steps(SO), 0);
    agrees(&machine, SO);
    assert!(machine.down().unwrap().is_unchanged());
    // One of two; and once it was set, taking it back is a step.
    const ONE: &str = "[tunables]\nswappiness = 60\npage_cluster = 0\n";
    assert_eq!(steps(ONE), 1);
    agrees(&machine, ONE);
    agrees(&machine, SO);
    agrees(&machine, "[tunables]\nswappiness = 10\npage_cluster = 0\n");
    agrees(&machine, ONE);
    // It is set again where somebody changes it.
    machine.put("/proc/sys/vm/swappiness", "99\n");
    assert_eq!(steps(ONE), 1);
    agrees(&machine, ONE);
    machine.down().unwrap();
    // The 99 that was found then is what was there before it.
    machine.put("/proc/sys/vm/swappiness", "60\n");
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn what_is_not_as_before_is_said() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    machine.put("/proc/sys/vm/swappiness", "10\n");
    let report = machine.down().unwrap();
    assert_eq!(
        report.left,
        ["/proc/sys/vm/swappiness says 10, and said 60 before"]
    );
    let of_value = |it: &&Done| it.step.contains("swappiness");
    assert_eq!(report.undone.iter().filter(of_value).count(), 0);
    assert_eq!(report.not_undone.iter().filter(of_value).count(), 1);
    let drive = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
    machine.up(&config(drive)).unwrap();
    let report = machine.down().unwrap();
    assert_eq!(report.left, ["what stood on /dev/sdc1 was written over"]);
    for (encryption, drive) in [
        ("", "/dev/sdb1"),
        (", encryption = \"random\"", "/dev/sdb1"),
    ] {
        let text = format!(
            "accept = [\"unstable-name\"]\n[tier.fast]\nkind = \"zram\"\n\
             writeback = {{ device = \"{drive}\"{encryption} }}\n"
        );
        machine.up(&config(&text)).unwrap();
        assert!(machine.plan(&config(&text)).unwrap().is_done());
        let report = machine.down().unwrap();
        let wanted = format!("what stood on {drive} was written over");
        assert_eq!(report.left, [wanted], "{encryption}");
    }
    machine
        .up(&config("[tunables]\npage_cluster = 0\n"))
        .unwrap();
    assert!(machine.down().unwrap().left.is_empty());
}

#[test]
fn an_experiments_steps_are_not_those_of_up() {
    let machine = Machine::new();
    let host = machine.host();
    {
        let owner = Owner::Experiment;
        let mut journal = Journal::lock_for(&host, owner, PATIENCE, &mut |_| {}).unwrap();
        let plan = machine.plan(&config(RAM)).unwrap();
        let stop = false.into();
        zmeld_swap::execute::up(&host, &mut journal, &plan, &stop, &mut |_| {}).unwrap();
    }
    assert!(State::read(&host).unwrap().is_none());
    let state = State::read_of(&host, Owner::Experiment).unwrap().unwrap();
    assert!(!state.records.is_empty());
    assert!(machine.applied().is_none());
    let plan = machine.plan(&config(RAM)).unwrap();
    assert!(!plan.is_done() && plan.undone.is_empty());
    // It is not for down to say that nothing is left.
    assert!(machine.down().unwrap().is_unchanged());
    assert_eq!(
        State::read_of(&host, Owner::Experiment).unwrap(),
        Some(state)
    );
}

#[test]
fn a_table_that_takes_much_memory_is_said_and_an_absurd_one_refused() {
    // 4 GiB of RAM: 20 bytes for each page.
    let machine = Machine::new();
    let sized = |size: &str| {
        config(&format!(
            "[tier.fast]\nkind = \"zram\"\nsize = \"{size}\"\nmemory_limit = \"50%\"\n"
        ))
    };
    let plan = machine.plan(&sized("50%")).unwrap();
    let mut steps = plan.groups.iter().flat_map(|group| &group.steps);
    assert!(steps.any(|it| it.reason.contains("takes 10.0 MiB of RAM")));
    assert!(plan.problems.is_empty(), "{:?}", plan.problems);
    let plan = machine.plan(&sized("100GiB")).unwrap();
    let said = plan.problems.iter().find(|it| it.key == "tier.fast.size");
    assert!(said.is_some_and(|it| it.what.contains("takes 500 MiB of RAM, 12 % of it")));
    for size in ["400GiB", "999999TiB"] {
        let err = machine.plan(&sized(size)).unwrap_err().to_string();
        assert!(err.contains("before any is stored"), "{err}");
    }
}

/// A value that a part of an earlier run set is put back with it, and is not said to be as
/// wanted for another part before.
#[test]
fn what_taking_back_changes_is_not_done() {
    let machine = Machine::new();
    let swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 4194300 0 -2\n";
    machine.put("/proc/swaps", swaps);
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    let tier = |name: &str| {
        format!("[tier.{name}]\nkind = \"zswap\"\nmax_pool_percent = 30\ncompressor = \"lzo\"\n")
    };
    machine.up(&config(&tier("one"))).unwrap();
    let plan = machine.plan(&config(&tier("two"))).unwrap();
    let steps = plan.groups.iter().flat_map(|group| &group.steps);
    let mut seen = 0;
    for planned in steps {
        let words = planned.step.words();
        // The codec was lzo before, too.
        let is_same = words.contains("lzo");
        assert_eq!(planned.done, is_same, "{words}: {planned:?}");
        seen += 1;
    }
    assert_eq!(seen, 3);
    machine.up(&config(&tier("two"))).unwrap();
    let percent = "/sys/module/zswap/parameters/max_pool_percent";
    assert_eq!(machine.text(percent).trim(), "30");
    machine.down().unwrap();
    assert_eq!(machine.text(percent).trim(), "20");
}
