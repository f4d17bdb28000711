//! What one run does the next leaves, and another version undoes.

use std::collections::BTreeSet;
use std::fs;

use crate::common::{config, Fate, Machine};
use crate::crash::{killed, quietly};
use serde_json::Value;
use zmeld_setup::journal::State;

const BOTH: &str = "accept = [\"lru-inversion\", \"read-ahead\"]\n\
    [tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\n\
    [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
const EVERY_STEP: &str =
    "accept = [\"lru-inversion\", \"read-ahead\", \"unstable-name\", \"zram-with-zswap\"]\n\
    [tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\nmemory_limit = \"32MiB\"\ncodec = \"lz4\"\n\
    [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nencryption = \"random\"\n\
    [tier.f]\nkind = \"disk\"\nfile = \"/srv/swap\"\nsize = \"1MiB\"\n\
    [tunables]\nswappiness = 150\n";

/// Goes up, has the journal edited, and goes down: what was there before is as it was.
fn is_undone(machine: &Machine, text: &str, edit: impl FnOnce(Value) -> Value) {
    let before = machine.snapshot();
    machine.up(&config(text)).unwrap();
    let path = machine.path("/run/zmeld/state.json");
    let state = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    fs::write(&path, edit(state).to_string()).unwrap();
    assert!(State::read(&machine.host()).unwrap().is_some());
    machine.down().unwrap();
    assert!(!path.exists());
    let mut after = machine.snapshot();
    after.retain(|path, _| before.contains_key(path));
    assert_eq!(after, before);
}

/// Every kind of step that 0.1.0 wrote down, as it did. Only which files and devices they
/// are is this machine's.
#[test]
fn the_journal_of_0_1_0_is_undone() {
    let machine = Machine::on_disk();
    fs::create_dir_all(machine.path("/srv")).unwrap();
    is_undone(&machine, EVERY_STEP, |today| {
        let mut then: Value = serde_json::from_str(include_str!("journal-0.1.0.json")).unwrap();
        then["boot"] = today["boot"].clone();
        let (records, today) = (then["records"].as_array_mut().unwrap(), &today["records"]);
        assert_eq!(records.len(), today.as_array().unwrap().len());
        for (record, now) in records.iter_mut().zip(today.as_array().unwrap()) {
            let (record, now) = (record.as_object_mut().unwrap(), now.get("identity"));
            record.remove("identity");
            record.extend(now.map(|it| ("identity".to_owned(), it.clone())));
        }
        then
    });
}

/// Another version may have other keys: what was done is undone all the same.
#[test]
fn what_another_version_was_asked_for_does_not_keep_it_from_being_undone() {
    is_undone(&Machine::new(), BOTH, |mut state| {
        let fields = state["config"].as_object_mut().unwrap();
        fields.remove("watch");
        fields.insert("tiers".to_owned(), serde_json::json!([{ "of": "another" }]));
        state
    });
}

/// However far a first run came: so many of the tiers that are wanted.
#[test]
fn a_killed_run_tells_how_many_tiers_it_began() {
    quietly();
    let mut told_of = BTreeSet::new();
    for at in 0.. {
        let machine = Machine::new();
        machine.fate(Some((at, Fate::DieBefore)));
        let was_killed = killed(|| machine.up(&config(BOTH)).map(drop));
        machine.fate(None);
        if !was_killed {
            break;
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
