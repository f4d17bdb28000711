//! A status calls not applied what `up` would change: the keys are in `cases/keys.txt`.

use crate::cases::machine;
use crate::common::config;
use serde_json::Value;
use zmeld_config::settings::Tunables;
use zmeld_linux::lock::FileLock;
use zmeld_swap::observe::Observation;
use zmeld_swap::run_folder::WATCH_LOCK;
use zmeld_swap::status::findings::findings;

const RULES: &str = "[watch.reclaim]\n[watch.guard]\nend = [\"/user.slice\"]\n";
const ACCEPT: &str = "accept = [\"no-memory-limit\", \"read-ahead\"]\n";
const RAM: &str = "[tier.fast]\nkind = \"zram\"\n";

/// Tunables that are numbers, with the kernel's names.
const NUMBERS: [(&str, &str); 5] = [
    ("page_cluster", "page-cluster"),
    ("watermark_scale_factor", "watermark_scale_factor"),
    ("watermark_boost_factor", "watermark_boost_factor"),
    ("compaction_proactiveness", "compaction_proactiveness"),
    ("vfs_cache_pressure", "vfs_cache_pressure"),
];

#[test]
fn each_tunable_that_is_a_number_is_set_and_taken_back() {
    let schema = schemars::schema_for!(Tunables).to_value();
    let bounds = |key: &Value| Some((key["minimum"].as_i64()?, key["maximum"].as_i64()?));
    let keys = schema["properties"].as_object().unwrap();
    let numbers = keys.iter().filter(|(_, of)| bounds(of).is_some());
    assert_eq!(numbers.count(), NUMBERS.len());
    for (key, name) in NUMBERS {
        let (least, most) = bounds(&keys[key]).unwrap();
        let file = |value: i64| format!("{ACCEPT}[tunables]\n{key} = {value}\n");
        let path = format!("/proc/sys/vm/{name}");
        let machine = machine("keys.txt", "every-key");
        machine.put(&path, "7\n");
        for (is, other) in [(least, most), (most, least)] {
            machine.up(&config(&file(is))).unwrap();
            assert_eq!(machine.text(&path), format!("{is}\n"));
            let found = [is, other].map(|value| machine.findings(&file(value)));
            let is_unapplied = found.map(|all| all.iter().any(|it| it.name() == "not-applied"));
            assert_eq!(is_unapplied, [false, true], "{key}");
        }
        machine.up(&config(ACCEPT)).unwrap();
        assert_eq!(machine.text(&path), "7\n");
    }
}

#[test]
fn here_rules_get_a_command_that_outlives_the_terminal() {
    let machine = machine("keys.txt", "every-key");
    let mut now = Observation::read(&machine.host(), 4096);
    now.facts.is_here = true;
    let found = findings(&now, &machine.outstanding(RULES));
    let remedies = found.iter().filter(|it| it.name() == "no-watch");
    let begins = remedies.map(|it| it.remedy.split(" >").next());
    let expected = ["zmeld watch", "zmeld-guard"].map(|name| format!("sudo sh -c 'setsid {name}"));
    assert!(
        begins.eq(expected.iter().map(|begin| Some(&**begin))),
        "{found:?}"
    );
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
