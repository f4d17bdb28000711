//! A status calls not applied what `up` would change: the keys are in `cases/keys.txt`.

use crate::cases::machine;
use crate::common::config;
use serde_json::Value;
use zmeld_config::settings::{kernel_values, Tunables};
use zmeld_linux::lock::FileLock;
use zmeld_swap::run_folder::WATCH_LOCK;

const RULES: &str = "[watch.reclaim]\n[watch.guard]\nend = [\"/user.slice\"]\n";
const ACCEPT: &str = "accept = [\"no-memory-limit\", \"read-ahead\"]\n";
const RAM: &str = "[tier.fast]\nkind = \"zram\"\n";

#[test]
fn each_tunable_that_is_a_number_is_set_and_taken_back() {
    let schema = schemars::schema_for!(Tunables).to_value();
    let bounds = |key: &Value| Some((key["minimum"].as_i64()?, key["maximum"].as_i64()?));
    let keys = schema["properties"].as_object().unwrap().iter();
    for (key, (least, most)) in keys.filter_map(|(key, of)| Some((key, bounds(of)?))) {
        let file = |value: i64| format!("{ACCEPT}[tunables]\n{key} = {value}\n");
        let name = &kernel_values(&config(&file(most)).tunables)[0].name;
        let path = format!("/proc/sys/vm/{name}");
        let machine = machine("keys.txt", "every-key");
        machine.put(&path, "7\n");
        machine.up(&config(&file(most))).unwrap();
        assert_eq!(machine.text(&path), format!("{most}\n"));
        let found = [least, most].map(|value| machine.findings(&file(value)));
        let is_unapplied = found.map(|all| all.iter().any(|it| it.name() == "not-applied"));
        assert_eq!(is_unapplied, [true, false], "{key}");
        machine.up(&config(ACCEPT)).unwrap();
        assert_eq!(machine.text(&path), "7\n");
    }
}

/// Rules are those of the file that is read, never of an earlier run with another one;
/// tiers, tunables and the warnings that are meant for them stay until a file says otherwise.
#[test]
fn the_file_that_is_read_has_the_rules_and_what_is_set_up_stays() {
    let machine = machine("keys.txt", "every-key");
    let text = format!("{ACCEPT}{RAM}[tunables]\nswappiness = 77\n{RULES}");
    machine.up(&config(&text)).unwrap();
    let asked = |file: &str| machine.outstanding(file).wanted;
    let is_watched = |file: &str| machine.outstanding(file).is_watched;
    let without = asked("");
    assert!(!without.watch.has_rules());
    assert_eq!(is_watched(""), None);
    assert_eq!(without.tiers, config(&text).tiers);
    assert_eq!(without.accept, config(&text).accept);
    assert_eq!(without.tunables, config(&text).tunables);
    assert_eq!(asked(RULES).watch, config(RULES).watch);
    // Whether a watch runs its lock tells, whatever processes there are.
    machine.put("/proc/77/cmdline", "/usr/bin/zmeld\0watch\0");
    assert_eq!(is_watched(RULES), Some(false));
    let lock = machine.host().path(WATCH_LOCK);
    let held = FileLock::wait(&lock).unwrap();
    assert_eq!(is_watched(RULES), Some(true));
    drop(held);
    assert_eq!(is_watched(RULES), Some(false));
    let found = machine.findings(RULES);
    assert!(found.iter().all(|it| it.name() != "not-applied"));
    // A file with tiers says all.
    let other = asked(RAM);
    assert_eq!(other.tunables, Default::default());
    assert_eq!(other.accept, []);
}
