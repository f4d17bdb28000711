//! What is refused and warned of, in one line, before anything is changed.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use zmeld_swap::applied::Applied;
use zmeld_swap::config::{Severity, Trap};
use zmeld_swap::event::Event;
use zmeld_swap::execute::{self, Removal};
use zmeld_swap::journal::{Journal, State};
use zmeld_swap::plan::{Measured, Options, Plan};
use zmeld_swap::{Error, ErrorKind};

use crate::common::{config, Machine, MEMINFO, PATIENCE};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n";

/// Going up fails in one line with these words, and changes nothing.
fn refused(machine: &Machine, text: &str, words: &str) -> Error {
    let before = machine.snapshot();
    let err = machine.up(&config(text)).expect_err(text);
    let line = err.to_string();
    assert!(line.contains(words) && !line.contains('\n'), "{line}");
    assert_eq!(machine.snapshot(), before, "{line}");
    assert!(
        !machine.dir.path().join("run/zmeld/state.json").exists(),
        "{line}"
    );
    err
}

/// The plan warns with these words.
fn warned(machine: &Machine, text: &str, trap: Trap, words: &str) {
    let plan = machine.plan(&config(text)).unwrap();
    let found = plan
        .problems
        .iter()
        .find(|problem| problem.trap == Some(trap));
    let found = found.unwrap_or_else(|| panic!("{:?}", plan.problems));
    assert_eq!(found.severity, Severity::Warning);
    assert!(found.what.contains(words), "{}", found.what);
    let accepting = format!("accept = [\"{}\"]\n{text}", trap.name());
    let plan = machine.plan(&config(&accepting)).unwrap();
    assert!(plan
        .problems
        .iter()
        .all(|problem| problem.trap != Some(trap)));
}

#[test]
fn a_feature_that_the_kernel_has_not_got_is_named_and_the_device_goes_again() {
    let text = format!("{RAM}recompress = [{{ priority = 1, codec = \"zstd\" }}]\n");
    let err = refused(
        &Machine::new(),
        &text,
        "recomp_algorithm, which this kernel does not offer",
    );
    assert_eq!(err.kind(), ErrorKind::Missing);
}

#[test]
fn a_drive_that_carries_something() {
    let machine = Machine::new();
    machine.carry("/dev/sdc1", "ext4");
    let format = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
    refused(
        &machine,
        format,
        "/dev/sdc1 carries ext4, which would be lost",
    );
    machine.carry("/dev/sdb1", "swap");
    let random = "accept = [\"unstable-name\"]\n[tier.d]\nkind = \"disk\"\n\
                  device = \"/dev/sdb1\"\nencryption = \"random\"\n";
    refused(
        &machine,
        random,
        "/dev/sdb1 carries swap, which would be lost",
    );
    // What zram writes back goes over all of a drive too, encrypted or not.
    let writeback = |device: &str, encryption: &str| {
        format!(
            "accept = [\"unstable-name\"]\n{RAM}\
             writeback = {{ device = \"{device}\"{encryption} }}\n"
        )
    };
    for encryption in ["", ", encryption = \"random\""] {
        let text = writeback("/dev/sdc1", encryption);
        refused(
            &machine,
            &text,
            "/dev/sdc1 carries ext4, which would be lost",
        );
        assert!(machine.plan(&config(&text)).is_err(), "{encryption}");
    }
    // It may come to carry something after the plan was made.
    let text = writeback("/dev/sdd1", "");
    machine.put("/dev/sdd1", "");
    let host = machine.host();
    let plan = machine.plan(&config(&text)).unwrap();
    machine.carry("/dev/sdd1", "ext4");
    let mut journal = Journal::lock(&host, PATIENCE, &mut |_| {}).unwrap();
    let up = execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {});
    let line = up.unwrap_err().to_string();
    assert!(
        line.contains("/dev/sdd1 carries ext4, which would be lost"),
        "{line}"
    );
    assert_eq!(machine.text("/proc/swaps").lines().count(), 1);
    drop(journal);
    let given = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\n";
    refused(&machine, given, "carries ext4 instead of swap");
}

#[test]
fn what_is_in_use_or_not_there() {
    let machine = Machine::new();
    machine.put("/dev/mapper/zmeld-d", "");
    let random = "accept = [\"unstable-name\"]\n[tier.d]\nkind = \"disk\"\n\
                  device = \"/dev/sdb1\"\nencryption = \"random\"\n";
    refused(
        &machine,
        random,
        "/dev/mapper/zmeld-d is in use by a mapping that zmeld did not open",
    );
    // What wipefs does not know may still be somebody's.
    let unknown = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\n";
    refused(
        &machine,
        unknown,
        "carries nothing that wipefs knows, and swap is expected: mkswap /dev/sdc1 prepares it, or \
         format = true",
    );
    let missing = "[tier.d]\nkind = \"disk\"\ndevice = \"UUID=12\"\n";
    refused(&machine, missing, "no device has UUID=12");
    let optional = format!("{missing}optional = true\n{RAM}");
    let optional = format!("accept = [\"lru-inversion\"]\n{optional}");
    let plan = machine.plan(&config(&optional)).unwrap();
    assert_eq!(plan.skipped.len(), 1);
    assert!(!machine.up(&config(&optional)).unwrap().is_unchanged());
    machine.down().unwrap();
}

#[test]
fn an_optional_tier_that_fails_is_left_out_and_the_rest_is_set_up() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.refuse_swapon("/dev/sdc1");
    let text = format!(
        "accept = [\"lru-inversion\"]\n{RAM}[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\n\
         format = true\noptional = true\n"
    );
    let report = machine.up(&config(&text)).unwrap();
    assert_eq!(report.skipped.len(), 1, "{report:?}");
    assert!(report.skipped[0].reason.contains("swapon"));
    assert_eq!(machine.text("/proc/swaps").lines().count(), 2);
    machine.down().unwrap();
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn zswap_in_front_of_a_ram_device_is_switched_off_meanwhile() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    assert_eq!(machine.text("/sys/module/zswap/parameters/enabled"), "N\n");
    assert!(machine.up(&config(RAM)).unwrap().is_unchanged());
    machine.down().unwrap();
    assert_eq!(machine.text("/sys/module/zswap/parameters/enabled"), "Y\n");
}

#[test]
fn a_value_that_somebody_else_changed_since_stays() {
    let machine = Machine::new();
    machine
        .up(&config("[tunables]\nswappiness = 150\npage_cluster = 0\n"))
        .unwrap();
    machine.put("/proc/sys/vm/swappiness", "10\n");
    machine.down().unwrap();
    assert_eq!(machine.text("/proc/sys/vm/swappiness"), "10\n");
    assert_eq!(machine.text("/proc/sys/vm/page-cluster"), "3\n");
}

#[test]
fn more_than_memory_can_hold() {
    let machine = Machine::new();
    let large = "[tier.fast]\nkind = \"zram\"\nsize = \"16GiB\"\n";
    refused(
        &machine,
        large,
        "take 8.00 GiB when it is full, and the machine has 4.00 GiB",
    );
    let limited = format!("{large}memory_limit = \"50%\"\n");
    assert!(!machine.up(&config(&limited)).unwrap().is_unchanged());
    let two = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n\
               [tier.slow]\nkind = \"zram\"\nsize = \"50%\"\n";
    let machine = Machine::new();
    let words = "the tiers fast, slow take 4.00 GiB of pages together, RAM is 4.00 GiB";
    warned(&machine, two, Trap::NoMemoryLimit, words);
}

#[test]
fn hibernation_and_disk_swap_below_are_warned_of() {
    let machine = Machine::new();
    machine.put("/proc/cmdline", "resume=/dev/sda2\n");
    warned(&machine, RAM, Trap::Hibernation, "no image can be kept");
    let list = machine.text("/proc/swaps");
    // As little as that is no place for zswap to stand in front of.
    machine.put("/sys/module/zswap/parameters/enabled", "N\n");
    machine.put(
        "/proc/swaps",
        &format!("{list}/dev/sda2 partition 1024 0 -2\n"),
    );
    let plan = machine.plan(&config(RAM)).unwrap();
    assert_eq!(plan.problems, []);
    machine.put(
        "/proc/swaps",
        &format!("{list}/dev/sda2 partition 8388608 0 -2\n"),
    );
    warned(
        &machine,
        RAM,
        Trap::LruInversion,
        "/dev/sda2 is swapped to as well",
    );
}

#[test]
fn pages_that_do_not_fit_back_into_memory() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    let up = machine.snapshot();
    let full = machine
        .text("/proc/swaps")
        .replace("1024\t\t0", "9000000\t\t5242880");
    machine.put("/proc/swaps", &full);
    let err = machine.down().unwrap_err().to_string();
    // 5 GiB against 2 GiB that are available.
    assert!(err.contains("5120 MiB in /dev/zram1"), "{err}");
    assert!(err.contains("3072 MiB are missing"), "{err}");
    let less = full.replace("5242880", "1024");
    machine.put("/proc/swaps", &less);
    machine.put("/proc/meminfo", &MEMINFO.replace("2097152", "10"));
    assert!(machine.down().is_err());
    machine.put("/proc/meminfo", MEMINFO);
    machine.put("/proc/swaps", &less.replace("9000000\t\t1024", "1024\t\t0"));
    assert_eq!(machine.snapshot(), up);
    machine.down().unwrap();
}

/// A check says what a run would be refused for.
#[test]
fn a_check_refuses_what_has_no_room() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    let full = machine
        .text("/proc/swaps")
        .replace("1024\t\t0", "9000000\t\t5242880");
    machine.put("/proc/swaps", &full);
    let check = |text: &str| machine.against(&config(text));
    assert_eq!(check(RAM), []);
    let other = check("[tier.fast]\nkind = \"zram\"\nsize = \"25%\"\n");
    assert_eq!(other.len(), 1, "{other:?}");
    assert_eq!(other[0].severity, Severity::Error);
    let said = other[0].to_string();
    assert!(said.contains("3072 MiB are missing"), "{said}");
    assert!(said.ends_with("zmeld up refuses it here"), "{said}");
}

/// Sizes that round alike are told in bytes.
#[test]
fn sizes_that_differ_are_told_apart() {
    let machine = Machine::new();
    let of = |size: &str| format!("[tier.fast]\nkind = \"zram\"\nsize = \"{size}\"\n");
    machine.up(&config(&of("2048MiB"))).unwrap();
    let told = |size: &str| {
        let changes = machine.outstanding(&of(size)).changes.into_iter();
        let changes = changes.map(|it| format!("{} ({})", it.what, it.evidence));
        changes.collect::<Vec<_>>()
    };
    assert_eq!(told("2048MiB"), Vec::<String>::new());
    for (size, words) in [("2049MiB", "2148532224"), ("3GiB", "3.00 GiB")] {
        let said =
            format!("the configuration asked to set its disksize to {words} (in effect 2.00 GiB)");
        assert_eq!(told(size), [said]);
    }
}

/// A plan sees what `up` would refuse to write over.
#[test]
fn a_drive_that_carries_something_is_refused_by_the_plan() {
    for (how, keeps) in [
        ("format = true", "swap"),
        ("encryption = \"random\"", "ext4"),
        (
            "encryption = \"luks\"\nformat = true\nkey_file = \"/etc/key\"",
            "crypto_LUKS",
        ),
    ] {
        let machine = Machine::new();
        machine.put("/etc/key", "key");
        let closed = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(machine.path("/etc/key"), closed).unwrap();
        let text = format!(
            "accept = [\"unstable-name\"]\n[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\n{how}\n"
        );
        machine.carry("/dev/sdc1", "xfs");
        let err = machine.plan(&config(&text)).unwrap_err().to_string();
        assert!(
            err.contains("/dev/sdc1 carries xfs, which would be lost"),
            "{err}"
        );
        machine.carry("/dev/sdc1", keeps);
        assert_eq!(
            machine.plan(&config(&text)).is_ok(),
            keeps != "ext4",
            "{how}"
        );
    }
}

#[test]
fn two_runs_are_kept_apart() {
    let machine = Machine::new();
    let host = machine.host();
    let first = Journal::lock(&host, PATIENCE, &mut |_| {}).unwrap();
    let second = Journal::lock(&host, Duration::from_millis(50), &mut |_| {}).unwrap_err();
    let pid = format!("(process {})", std::process::id());
    assert!(second.to_string().contains(&pid), "{second}");
    drop(first);
    Journal::lock(&host, PATIENCE, &mut |_| {}).unwrap();
}

#[test]
fn a_state_that_is_none_is_refused_and_one_of_another_boot_forgotten() {
    let machine = Machine::new();
    for text in ["", "{", "[]", "{\"schema\":\"zmeld.state/9\"}", "\u{0}"] {
        machine.put("/run/zmeld/state.json", text);
        let before = machine.snapshot();
        let err = machine.up(&config(RAM)).unwrap_err().to_string();
        assert!(err.starts_with("/run/zmeld/state.json"), "{err}");
        assert!(machine.down().is_err());
        assert_eq!(machine.snapshot(), before);
    }
    std::fs::remove_file(machine.dir.path().join("run/zmeld/state.json")).unwrap();
    machine
        .up(&config("[tunables]\npage_cluster = 0\n"))
        .unwrap();
    machine.put("/proc/sys/kernel/random/boot_id", "boot-2\n");
    assert!(machine.down().unwrap().is_unchanged());
    assert_eq!(machine.text("/proc/sys/vm/page-cluster"), "0\n");
}

#[test]
fn a_full_run_directory_stops_it_before_anything_is_changed() {
    let machine = Machine::new();
    // Where the state would be written, there is no room: here, no folder.
    let folder = machine.dir.path().join("run/zmeld");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink("nowhere/state", folder.join("state.json")).unwrap();
    let before = machine.snapshot();
    let err = machine.up(&config(RAM)).unwrap_err().to_string();
    assert!(err.contains("/run/zmeld/state.json"), "{err}");
    assert_eq!(machine.snapshot(), before);
}

/// Whose word is taken: of a folder or a file that others may have written, none.
#[test]
fn records_that_others_may_have_written_are_not_believed() {
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    let host = machine.host();
    let folder = machine.path("/run/zmeld");
    let state = machine.path("/run/zmeld/state.json");
    assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o755);
    let before = machine.snapshot();
    let refused = |words: &str| {
        for err in [
            machine.down().unwrap_err(),
            machine.up(&config(RAM)).unwrap_err(),
            State::read(&host).unwrap_err(),
            Applied::read(&host).unwrap_err(),
        ] {
            let line = err.to_string();
            assert!(line.contains(words), "{line}");
            assert!(line.contains("has to belong to root"), "{line}");
        }
        assert_eq!(machine.snapshot(), before);
    };
    for mode in [0o777, 0o775 | 0o002, 0o1777] {
        set(&folder, mode);
        refused("others may write it");
    }
    set(&folder, 0o755);
    set(&state, 0o646);
    refused("/run/zmeld/state.json: others may write it");
    set(&state, 0o644);
    if rustix::process::geteuid().is_root() {
        for path in [&state, &folder] {
            std::os::unix::fs::chown(path, Some(65534), None).unwrap();
            refused("belongs to another user (uid 65534)");
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
    }
    // One that a strict umask had closed is opened: an ordinary user's plan reads it.
    set(&folder, 0o700);
    machine.down().unwrap();
    assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o755);
}

#[test]
fn what_was_set_up_is_taken_back_where_nothing_can_be_written_down() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up(&config(RAM)).unwrap();
    let host = machine.host();
    let mut journal = Journal::lock(&host, PATIENCE, &mut |_| {}).unwrap();
    // There is no room for the state: here, no folder.
    std::fs::rename(machine.path("/run/zmeld"), machine.path("/run/full")).unwrap();
    let mut notes = Vec::new();
    let removal = Removal::default();
    let report = execute::down(&host, &mut journal, removal, &false.into(), &mut |event| {
        if let Event::Note { text } = event {
            notes.push(text.to_owned());
        }
    });
    assert!(report.unwrap().left.is_empty());
    assert_eq!(notes.len(), 1, "{notes:?}");
    let said = "cannot write /run/zmeld/state.json";
    assert!(notes[0].starts_with(said) && notes[0].ends_with("taking back goes on"));
    std::fs::rename(machine.path("/run/full"), machine.path("/run/zmeld")).unwrap();
    drop(journal);
    // What is still written down is found to be gone.
    assert!(machine.down().unwrap().left.is_empty());
    assert_eq!(machine.snapshot(), before);
}

#[test]
fn memory_kept_free_is_memory_that_programs_need() {
    let machine = Machine::new();
    machine.put("/proc/sys/vm/min_free_kbytes", "67584\n");
    // Of 4 GiB.
    for size in ["512MiB", "3GiB", "20GiB"] {
        let text = format!("[tunables]\nmin_free = \"{size}\"\n");
        refused(&machine, &text, "write at most 204 MiB");
    }
    let problems = |size: &str| {
        let text = format!("[tunables]\nmin_free = \"{size}\"\n");
        machine.plan(&config(&text)).unwrap().problems
    };
    let found = problems("300MiB");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].severity, Severity::Warning);
    assert!(
        found[0].what.contains("are 7 % of RAM (4.00 GiB)"),
        "{}",
        found[0].what
    );
    assert_eq!(problems("200MiB"), []);
    // What its check says, too.
    let check = |size: &str| {
        let config = config(&format!("[tunables]\nmin_free = \"{size}\"\n"));
        let problems = machine.against(&config).into_iter();
        problems.map(|it| it.severity).collect::<Vec<_>>()
    };
    assert_eq!(check("512MiB"), [Severity::Error]);
    assert_eq!(check("300MiB"), [Severity::Warning]);
    assert_eq!(check("200MiB"), []);
}

#[test]
fn a_size_that_the_limit_cannot_hold_is_warned_of() {
    let machine = Machine::new();
    // Of 4 GiB, as status would say it of the device.
    for (size, limit, is_too_large) in [
        ("200%", "50%", true),
        ("16GiB", "100%", true),
        ("100%", "50%", false),
        ("25%", "1%", true),
    ] {
        let text = format!(
            "[tier.fast]\nkind = \"zram\"\nsize = \"{size}\"\nmemory_limit = \"{limit}\"\n"
        );
        let plan = machine.plan(&config(&text)).unwrap();
        let mut what = plan.problems.iter().map(|it| &it.what);
        let found = what.any(|it| it.contains("promises more than its limit"));
        assert_eq!(found, is_too_large, "{size} {limit}: {:?}", plan.problems);
        plan.refuse().unwrap();
    }
}

/// What the plan measures keeps to what status judges by.
#[test]
fn swappiness_that_was_measured_fits_the_kind_of_swap() {
    const AUTO: &str = "[tunables]\nswappiness = \"auto\"\n";
    const ZSWAP: &str = "accept = [\"unused-rule\"]\n[tier.cache]\nkind = \"zswap\"\n";
    let measured = |swap_pages_per_s, files_pages_per_s| Options {
        swappiness: Some(Measured {
            swap_pages_per_s,
            files_pages_per_s,
        }),
        ..Options::default()
    };
    for (rotational, tier, speeds, value) in [
        ("1", ZSWAP, (600_000.0, 100.0), "100"),
        ("0", ZSWAP, (600_000.0, 100.0), "180"),
        ("1", ZSWAP, (100.0, 100.0), "100"),
        ("1", ZSWAP, (10.0, 100.0), "20"),
        ("0", RAM, (600_000.0, 100.0), "180"),
        ("0", RAM, (1.0, 100.0), "60"),
    ] {
        let machine = Machine::new();
        if tier == ZSWAP {
            let disk = "/dev/sda2 partition\t4194300\t\t0\t\t-2\n";
            machine.put(
                "/proc/swaps",
                &format!("{}{disk}", machine.text("/proc/swaps")),
            );
            machine.put("/sys/block/sda/sda2/partition", "2\n");
            machine.put("/sys/block/sda/queue/rotational", rotational);
        }
        let wanted = config(&format!("{tier}{AUTO}"));
        let options = measured(speeds.0, speeds.1);
        let plan = Plan::new(&machine.host(), &wanted, None, &options).unwrap();
        let tunables = plan.groups.iter().find(|it| it.name == "tunables").unwrap();
        let set = tunables.steps[0].step.describe();
        assert!(
            set.ends_with(value),
            "{rotational} {tier} {speeds:?}: {set}"
        );
    }
}
