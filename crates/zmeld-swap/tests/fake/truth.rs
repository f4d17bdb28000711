//! `up` says what is so, and what one run does the next leaves.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::common::{config, Fate, Killed, Machine, MEMINFO};
use crate::crash::quietly;
use zmeld_linux::command::Invocation;
use zmeld_swap::config::Severity;
use zmeld_swap::execute::Removal;
use zmeld_swap::journal::State;
use zmeld_swap::plan::Options;

const BOTH: &str = "accept = [\"lru-inversion\", \"read-ahead\"]\n\
    [tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\n\
    [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
const EVERY_STEP: &str =
    "accept = [\"lru-inversion\", \"read-ahead\", \"unstable-name\", \"zram-with-zswap\"]\n\
    [tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\nmemory_limit = \"32MiB\"\ncodec = \"lz4\"\n\
    [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nencryption = \"random\"\n\
    [tier.f]\nkind = \"disk\"\nfile = \"/srv/swap\"\nsize = \"1MiB\"\n\
    [tunables]\nswappiness = 150\n";
const FILE: &str = "[tier.d]\nkind = \"disk\"\nfile = \"/srv/swap\"\nsize = \"1MiB\"\n";

fn only(tier: &str) -> Options {
    Options {
        only: Some(vec![tier.to_owned()]),
        ..Options::default()
    }
}

#[test]
fn a_run_for_one_tier_leaves_taken_over_what_another_took_over() {
    let machine = Machine::new();
    let host = machine.host();
    host.write("/sys/block/zram0/disksize", "4096").unwrap();
    machine.others_swap("/dev/zram0");
    let taking = Options {
        take_over: true,
        ..Options::default()
    };
    let optional = BOTH.replace("format = true\n", "format = true\noptional = true\n");
    machine.up_with(&config(&optional), &taking).unwrap();
    let areas = machine.text("/proc/swaps");
    assert!(!areas.contains("/dev/zram0"), "{areas}");
    for tier in ["d", "fast", "d"] {
        machine.up_with(&config(&optional), &only(tier)).unwrap();
        assert_eq!(machine.text("/proc/swaps"), areas, "{tier}");
    }
}

#[test]
fn a_drive_that_is_swapped_to_in_plain_is_not_called_encrypted() {
    for how in ["random", "luks\"\nkey_file = \"/etc/key"] {
        let machine = Machine::new();
        machine.put("/etc/key", "key");
        fs::set_permissions(machine.path("/etc/key"), Permissions::from_mode(0o600)).unwrap();
        machine.others_swap("/dev/sdb1");
        let text = format!(
            "accept = [\"unstable-name\"]\n[tier.d]\nkind = \"disk\"\n\
             device = \"/dev/sdb1\"\nencryption = \"{how}\"\n"
        );
        let err = machine.up(&config(&text)).unwrap_err().to_string();
        let said = "/dev/sdb1 is in use by swap that is not encrypted, and encryption is asked for";
        assert!(
            err.contains(said) && err.contains("swapoff /dev/sdb1"),
            "{err}"
        );
        let told = machine.findings(&text);
        let found = told.iter().find(|it| it.id == "not-encrypted").unwrap();
        assert_eq!(found.severity, zmeld_swap::findings::Severity::Critical);
    }
}

/// The size that was asked for, and the one that is there.
#[test]
fn a_file_of_another_size_is_not_called_set_up_in_silence() {
    let machine = Machine::on_disk();
    machine.put("/srv/swap", &"x".repeat(1 << 19));
    fs::set_permissions(machine.path("/srv/swap"), Permissions::from_mode(0o600)).unwrap();
    let mkswap = Invocation::new("mkswap").arg(machine.path("/srv/swap"));
    machine.host().run(&mkswap).unwrap();
    let said = "/srv/swap has 512 KiB, and 1.00 MiB are asked for";
    let is_said = || {
        let plan = machine.plan(&config(FILE)).unwrap();
        let found = plan.problems.iter().find(|it| it.key == "tier.d.size");
        let found = found.unwrap_or_else(|| panic!("{:?}", plan.problems));
        assert!(found.what.contains(said), "{}", found.what);
        assert_eq!(found.severity, Severity::Warning);
        let told = machine.findings(FILE);
        assert!(told
            .iter()
            .any(|it| it.id == "not-applied" && it.what.contains(said)));
    };
    is_said();
    machine.up(&config(FILE)).unwrap();
    is_said();
    machine.down().unwrap();
    machine.others_swap("/srv/swap");
    is_said();
    // A share of RAM is a little different with each kernel.
    machine.put("/proc/meminfo", &MEMINFO.replace("4194304", "5000000"));
    let share = FILE.replace("1MiB", "0.01%");
    let plan = machine.plan(&config(&share)).unwrap();
    assert!(plan.problems.iter().all(|it| it.key != "tier.d.size"));
}

#[test]
fn a_codec_that_the_kernel_lacks_costs_no_machine_its_swap() {
    let text = "[tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\ncodec = \"deflate:3\"\n\
                recompress = [\"842\"]\n";
    let machine = Machine::new();
    machine.offer("recomp_algorithm", "");
    let before = machine.snapshot();
    let problems = machine.against(&config(text));
    let said = "has no deflate, and zmeld up takes the kernel's default instead";
    assert!(
        problems.iter().any(|it| it.to_string().contains(said)),
        "{problems:?}"
    );
    machine.up(&config(text)).unwrap();
    assert!(machine.text("/proc/swaps").contains("/dev/zram1"));
    assert!(machine
        .text("/sys/block/zram1/comp_algorithm")
        .contains("[lzo-rle]"));
    let notes = machine.notes();
    let note = "the kernel has no codec deflate: pages are compressed with lzo-rle";
    assert!(notes.iter().any(|it| it.contains(note)), "{notes:?}");
    assert!(machine.up(&config(text)).unwrap().is_unchanged());
    let told = machine.findings(text);
    assert!(told.iter().any(|it| it.what.contains(said)), "{told:?}");
    machine.down().unwrap();
    assert_eq!(machine.snapshot(), before);
    // An experiment compares what it names.
    let exact = Options {
        only_named: true,
        ..Options::default()
    };
    let err = machine
        .up_with(&config(text), &exact)
        .unwrap_err()
        .to_string();
    assert!(err.contains("no codec deflate"), "{err}");
}

#[test]
fn what_stops_a_unit_keeps_its_file() {
    let machine = Machine::on_disk();
    machine.put("/srv/other", "");
    machine.up(&config(FILE)).unwrap();
    let removal = Removal {
        keep_files: true,
        ..Removal::default()
    };
    machine.down_with(removal, &false.into()).unwrap();
    assert!(machine.path("/srv/swap").exists());
    assert_eq!(machine.text("/proc/swaps").lines().count(), 1);
    // The same file is taken again, and goes when somebody asks for that.
    let report = machine.up(&config(FILE)).unwrap();
    assert_eq!(report.applied.len(), 1, "{report:?}");
    machine.down().unwrap();
    assert!(!machine.path("/srv/swap").exists());
}

/// Every kind of step that 0.1.0 wrote down, as it did, is undone. Only which files and
/// devices they are is this machine's.
#[test]
fn the_journal_of_0_1_0_is_undone() {
    let machine = Machine::on_disk();
    fs::create_dir_all(machine.path("/srv")).unwrap();
    let before = machine.snapshot();
    machine.up(&config(EVERY_STEP)).unwrap();
    let path = machine.path("/run/zmeld/state.json");
    let text = fs::read_to_string(&path).unwrap();
    let today: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut then: serde_json::Value =
        serde_json::from_str(include_str!("journal-0.1.0.json")).unwrap();
    then["boot"] = today["boot"].clone();
    let records = then["records"].as_array_mut().unwrap();
    assert_eq!(records.len(), today["records"].as_array().unwrap().len());
    for (record, now) in records.iter_mut().zip(today["records"].as_array().unwrap()) {
        let (record, now) = (record.as_object_mut().unwrap(), now.get("identity"));
        record.remove("identity");
        record.extend(now.map(|it| ("identity".to_owned(), it.clone())));
    }
    fs::write(&path, then.to_string()).unwrap();
    machine.down().unwrap();
    assert!(!path.exists());
    let mut after = machine.snapshot();
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
}

/// Another version may have other keys: what was done is undone all the same.
#[test]
fn what_another_version_was_asked_for_does_not_keep_it_from_being_undone() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up(&config(BOTH)).unwrap();
    let path = machine.path("/run/zmeld/state.json");
    let mut state: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let fields = state["config"].as_object_mut().unwrap();
    fields.remove("watch");
    fields.insert("tiers".to_owned(), serde_json::json!([{ "of": "another" }]));
    fs::write(&path, state.to_string()).unwrap();
    assert!(State::read(&machine.host()).unwrap().is_some());
    machine.down().unwrap();
    assert!(!path.exists());
    let mut after = machine.snapshot();
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
}

/// The stick with its key was pulled: what runs goes on, and it is said that it could not
/// be set up again.
#[test]
fn an_optional_tier_that_runs_is_not_taken_down_for_what_is_missing_now() {
    let machine = Machine::new();
    machine.put("/etc/key", "key");
    fs::set_permissions(machine.path("/etc/key"), Permissions::from_mode(0o600)).unwrap();
    let text = "[tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nencryption = \"luks\"\n\
                key_file = \"/etc/key\"\nformat = true\noptional = true\n";
    machine.up(&config(text)).unwrap();
    let areas = machine.text("/proc/swaps");
    assert!(areas.contains("/dev/mapper/zmeld-d"), "{areas}");
    fs::remove_file(machine.path("/etc/key")).unwrap();
    let plan = machine.plan(&config(text)).unwrap();
    assert!(
        plan.undone.is_empty() && plan.skipped.len() == 1,
        "{plan:?}"
    );
    assert!(machine.up(&config(text)).unwrap().is_unchanged());
    assert_eq!(machine.text("/proc/swaps"), areas);
    // What does not run any more goes.
    machine.others_swapoff("/dev/mapper/zmeld-d");
    machine.up(&config(text)).unwrap();
    assert!(!machine.path("/dev/mapper/zmeld-d").exists());
    assert!(State::read(&machine.host()).unwrap().is_none());
}

/// Of a list, the first codec that the kernel has is taken, with its own parameters.
#[test]
fn the_first_codec_of_a_list_that_the_kernel_has_is_taken() {
    let text = |list: &str| {
        format!(
            "[tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\nmemory_limit = \"50%\"\n\
             codec = {list}\n"
        )
    };
    let said = "has no deflate, no 842, and zmeld up takes the kernel's default instead";
    for (list, chosen, parameters) in [
        (r#"["zstd:3", "lz4:5"]"#, "[zstd]", "priority=0 level=3"),
        (
            r#"["deflate:3", "lz4:5", "zstd"]"#,
            "[lz4]",
            "priority=0 level=5",
        ),
        (r#"["deflate:3", "842"]"#, "[lzo-rle]", ""),
    ] {
        let machine = Machine::new();
        let before = machine.snapshot();
        let host = machine.host();
        let wanted = config(&text(list));
        let again = config(&wanted.to_toml(&Default::default()));
        assert_eq!(again, wanted);
        let problems = machine.against(&wanted);
        let is_default = chosen == "[lzo-rle]";
        let is_said = |it: &zmeld_swap::config::Problem| it.to_string().contains(said);
        assert_eq!(problems.iter().any(is_said), is_default, "{problems:?}");
        machine.up(&wanted).unwrap();
        let device = |name: &str| machine.text(&format!("/sys/block/zram1/{name}"));
        assert!(device("comp_algorithm").contains(chosen), "{list}");
        let state = State::read(&host).unwrap().unwrap();
        let set = state.records.iter().filter(|it| it.is_change());
        let set = set.map(|it| it.step.describe());
        let set: Vec<_> = set.filter(|it| it.contains("params")).collect();
        let expected = match parameters {
            "" => Vec::new(),
            _ => vec![format!("set its algorithm_params to {parameters}")],
        };
        assert_eq!(set, expected);
        let note = "the kernel has no codec deflate, no 842: pages are compressed with lzo-rle";
        let notes = machine.notes();
        let noted: Vec<_> = notes.iter().filter(|it| it.contains("no codec")).collect();
        assert_eq!(noted.len(), usize::from(is_default), "{notes:?}");
        assert!(noted.iter().all(|it| it.contains(note)), "{notes:?}");
        assert!(machine.up(&wanted).unwrap().is_unchanged());
        machine.down().unwrap();
        assert_eq!(machine.snapshot(), before);
    }
}

/// However far a first run came: so many of the tiers that are wanted.
#[test]
fn a_killed_run_tells_how_many_tiers_it_began() {
    quietly();
    let mut told_of = BTreeSet::new();
    for at in 0.. {
        let machine = Machine::new();
        machine.fate(Some((at, Fate::DieBefore)));
        let up = catch_unwind(AssertUnwindSafe(|| machine.up(&config(BOTH)).map(drop)));
        machine.fate(None);
        match up {
            Err(panic) if panic.is::<Killed>() => {}
            _ => break,
        }
        let state = State::read(&machine.host()).unwrap();
        let records = state.map_or_else(Vec::new, |state| state.records);
        let groups = records.iter().map(|it| it.group.clone());
        let begun: BTreeSet<String> = groups.filter(|it| it.starts_with("tier.")).collect();
        if records.is_empty() {
            continue;
        }
        let said = format!("steps of {} of 2 tiers were begun", begun.len());
        let found = machine.findings(BOTH);
        assert!(format!("{found:?}").contains(&said), "{said}: {found:?}");
        told_of.insert(begun.len());
    }
    assert!(told_of.contains(&1) && told_of.contains(&2), "{told_of:?}");
}
