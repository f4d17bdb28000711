//! What a configuration leaves out is made to fit: three lines are enough.

use crate::common::{config, Machine};
use zmeld_swap::findings::Finding;
use zmeld_swap::plan::Options;

const THREE_LINES: &str = "[tier.ram]\nkind = \"zram\"\nsize = \"50%\"\n";
const PAGE_CLUSTER: &str = "/proc/sys/vm/page-cluster";

fn steps_of(machine: &Machine, text: &str, options: &Options) -> Vec<String> {
    let plan = machine.plan_with(&config(text), options).unwrap();
    let groups = plan.groups.iter().filter(|group| group.name == "tunables");
    let steps = groups.flat_map(|group| &group.steps);
    steps.map(|planned| planned.step.describe()).collect()
}

#[test]
fn three_lines_leave_no_finding() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up(&config(THREE_LINES)).unwrap();
    assert_eq!(machine.text(PAGE_CLUSTER), "0\n");
    assert_eq!(machine.findings(THREE_LINES), []);
    assert!(machine.up(&config(THREE_LINES)).unwrap().is_unchanged());
    // Somebody else's value is found once, with what brings ours back.
    machine.put(PAGE_CLUSTER, "3\n");
    let all = machine.findings(THREE_LINES);
    let all: Vec<_> = all.iter().map(|it| (it.id, it.remedy.as_str())).collect();
    assert_eq!(all, [("read-ahead", "zmeld up")]);
    machine.up(&config(THREE_LINES)).unwrap();
    assert_eq!(machine.findings(THREE_LINES), []);
    machine.down().unwrap();
    assert_eq!(machine.snapshot(), before);
}

/// At boot the drives of /etc/fstab may come before zmeld or behind it.
#[test]
fn a_drive_that_comes_later_changes_nothing() {
    let machine = Machine::new();
    machine.up(&config(THREE_LINES)).unwrap();
    machine.others_swap("/dev/sdb1");
    let again = machine.up(&config(THREE_LINES)).unwrap();
    assert!(again.is_unchanged(), "{again:?}");
    let all = machine.findings(THREE_LINES);
    let is_about_it = |it: &Finding| it.id == "not-applied" || it.id == "read-ahead";
    assert!(!all.iter().any(is_about_it), "{all:?}");
    machine.down().unwrap();
    assert_eq!(machine.text(PAGE_CLUSTER), "3\n");
    // It was there first: the kernel's own value stays.
    machine.up(&config(THREE_LINES)).unwrap();
    assert_eq!(machine.text(PAGE_CLUSTER), "3\n");
}

#[test]
fn nothing_is_made_to_fit_where_that_is_not_wanted() {
    let machine = Machine::new();
    let usual = Options::default();
    let set = ["set /proc/sys/vm/page-cluster to 0"];
    assert_eq!(steps_of(&machine, THREE_LINES, &usual), set);
    let named = Options {
        only_named: true,
        ..Options::default()
    };
    let nothing: [&str; 0] = [];
    assert_eq!(steps_of(&machine, THREE_LINES, &named), nothing);
    for text in [
        format!("accept = [\"read-ahead\"]\n{THREE_LINES}"),
        format!(
            "{THREE_LINES}[tier.disk]\nkind = \"disk\"\ndevice = \"/dev/sdc1\"\nformat = true\n"
        ),
        "[tunables]\nswappiness = 60\n".to_owned(),
    ] {
        let steps = steps_of(&machine, &text, &usual);
        let is_it = |step: &String| step.contains("page-cluster");
        assert!(!steps.iter().any(is_it), "{text}: {steps:?}");
    }
    // One that says something is done as it says.
    let three = format!("{THREE_LINES}[tunables]\npage_cluster = 2\n");
    let set = ["set /proc/sys/vm/page-cluster to 2"];
    assert_eq!(steps_of(&machine, &three, &usual), set);
    // A kernel without it has nothing to set.
    std::fs::remove_file(machine.path(PAGE_CLUSTER)).unwrap();
    assert_eq!(steps_of(&machine, THREE_LINES, &usual), nothing);
}
