//! `up` says what is so, and what one run does the next leaves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::common::{config, Machine, MEMINFO, PATIENCE};
use zmeld_linux::command::Invocation;
use zmeld_swap::config::Severity;
use zmeld_swap::execute::{self, Removal, Report};
use zmeld_swap::findings::{findings, Finding};
use zmeld_swap::journal::{Journal, State};
use zmeld_swap::machine::Machine as Seen;
use zmeld_swap::observe::Observation;
use zmeld_swap::outstanding::Outstanding;
use zmeld_swap::plan::{against, Options, Plan};
use zmeld_swap::Error;

const BOTH: &str = "accept = [\"lru-inversion\", \"read-ahead\"]\n\
    [tier.fast]\nkind = \"zram\"\nsize = \"64MiB\"\n\
    [tier.d]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n";
const FILE: &str = "[tier.d]\nkind = \"disk\"\nfile = \"/srv/swap\"\nsize = \"1MiB\"\n";

fn up_with(machine: &Machine, text: &str, options: &Options) -> Result<Report, Error> {
    let host = machine.host();
    let mut journal = Journal::lock(&host, PATIENCE, &mut |_| {})?;
    let state = journal.state().clone();
    let plan = Plan::new(&host, &config(text), Some(&state), options)?;
    execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {})
}

fn only(tier: &str) -> Options {
    Options {
        only: Some(vec![tier.to_owned()]),
        ..Options::default()
    }
}

fn told(machine: &Machine, text: &str) -> Vec<Finding> {
    let host = machine.host();
    let config = config(text);
    let applied = zmeld_swap::applied::Applied::read(&host).unwrap();
    let now = Observation::read(&host, rustix::param::page_size() as u64);
    let outstanding = Outstanding::read(&host, &config);
    findings(&now, &config, applied.as_ref(), &outstanding)
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
