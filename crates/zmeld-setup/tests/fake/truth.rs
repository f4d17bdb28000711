//! What one run does the next leaves, and another version undoes.

use std::fs;

use crate::common::{config, Machine};
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
