//! What is told of a guard: by its note, and by what else runs.

use std::fs;
use std::path::Path;

use serde_json::json;
use zmeld_linux::Host;
use zmeld_swap::config::Config;
use zmeld_swap::findings::findings;
use zmeld_swap::observe::Observation;
use zmeld_swap::outstanding::Outstanding;

const RULE: &str = "[watch.guard]\nend = [\"/apps\"]\n";

struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        machine.put(
            "proc/self/mountinfo",
            "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
        );
        machine.put("proc/uptime", "1000.00 1.00\n");
        machine.put("proc/sys/kernel/random/boot_id", "boot-1\n");
        machine.put("proc/swaps", "Filename Type Size Used Priority\n");
        machine.put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        machine
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn notes(&self, watched: &[&str], unmatched: &[&str]) {
        let note = json!({
            "schema": "zmeld.guard/1", "boot": "boot-1", "uptime_s": 990.0,
            "told": {
                "seconds": 60, "looks": 60, "late_us_max": 0, "headroom_bytes": 1,
                "is_short": false, "watched": watched, "protected": [],
                "unmatched": unmatched, "ended_total": 0, "ended": []
            }
        });
        self.put("run/zmeld/guard.json", &note.to_string());
    }

    /// The findings of that id: what each is about, its evidence, and the way out.
    fn found(&self, text: &str, id: &str) -> Vec<[String; 3]> {
        let config = Config::from_text(Path::new("z.toml"), text).unwrap().config;
        let seen = Observation::read(&Host::at(self.0.path()), 4096);
        let all = findings(&seen, &Outstanding::of(&config));
        let all = all.into_iter().filter(|it| it.id == id);
        all.map(|it| [it.subject, it.evidence, it.remedy]).collect()
    }
}

/// What the guard could not end is told by status, from its note.
#[test]
fn a_guard_that_could_end_nothing_is_found() {
    let machine = Machine::new();
    assert!(machine.found(RULE, "unused-rule").is_empty());
    machine.notes(&[], &["/apps"]);
    let found = machine.found(RULE, "unused-rule");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0][1], "end = /apps; no control group is called /apps");
    machine.notes(&["/apps"], &[]);
    assert!(machine.found(RULE, "unused-rule").is_empty());
}

#[test]
fn another_service_that_ends_programs_is_found() {
    let machine = Machine::new();
    assert!(machine.found(RULE, "two-guards").is_empty());
    machine.put(
        "sys/fs/cgroup/system.slice/earlyoom.service/memory.stat",
        "",
    );
    let found = machine.found(RULE, "two-guards");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0][0], "earlyoom.service");
    // Without end it would be a rule for nothing.
    let way = "systemctl disable --now earlyoom.service, or remove [watch.guard]";
    assert_eq!(found[0][2], way);
    assert!(machine.found("", "two-guards").is_empty());
}
