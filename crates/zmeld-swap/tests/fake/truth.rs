//! A run leaves earlier changes, and another version undoes them.

use std::fs;

use crate::common::{config, Machine};
use serde_json::Value;
use zmeld_swap::setup::journal::State;

const BOTH: &str = "accept = [\"lru-inversion\", \"read-ahead\"]\n\
    [tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\n\
    [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";

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
