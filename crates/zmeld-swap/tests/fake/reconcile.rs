//! `up` does what a plan says.

use crate::common::{config, lock, Machine};
use zmeld_swap::setup::execute::Done;
use zmeld_swap::setup::journal::{Owner, State};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n";

/// The plan made beforehand lists what `up` then does, in order.
pub fn agrees(machine: &Machine, text: &str) {
    let plan = machine.plan(&config(text)).unwrap();
    let report = machine.up(&config(text)).unwrap();
    let steps = plan.groups.iter().flat_map(|group| {
        let missing = group.steps.iter().filter(|planned| planned.is_open());
        missing.map(|planned| Done::new(&group.name, planned))
    });
    assert_eq!(steps.collect::<Vec<_>>(), report.applied, "{text}");
    // Steps changed by others since are left then.
    let is_left = |it: &&Done| report.not_undone.contains(it);
    let (left, undone): (Vec<_>, Vec<_>) = plan.undone.iter().partition(is_left);
    assert_eq!(left, report.not_undone.iter().collect::<Vec<_>>(), "{text}");
    assert_eq!(undone, report.undone.iter().collect::<Vec<_>>(), "{text}");
    assert_eq!(plan.is_done(), report.is_unchanged(), "{text}");
    let again = machine.plan(&config(text)).unwrap();
    assert!(again.is_done(), "{text}");
}

#[test]
fn an_experiments_steps_are_not_those_of_up() {
    let machine = Machine::new();
    let host = machine.host();
    {
        let owner = Owner::Experiment;
        let mut journal = lock(&host, owner).unwrap();
        let plan = machine.plan(&config(RAM)).unwrap();
        let stop = false.into();
        zmeld_swap::setup::execute::up(&host, &mut journal, &plan, &stop, &mut |_| {}).unwrap();
    }
    assert!(State::read(&host).unwrap().is_none());
    let state = State::read_of(&host, Owner::Experiment).unwrap().unwrap();
    assert!(!state.records.is_empty());
    assert!(machine.applied().is_none());
    let plan = machine.plan(&config(RAM)).unwrap();
    assert!(!plan.is_done() && plan.undone.is_empty());
    // It is not for down to say that nothing is left.
    assert!(machine.down().unwrap().is_unchanged());
    assert_eq!(
        State::read_of(&host, Owner::Experiment).unwrap(),
        Some(state)
    );
}

/// What `up` sets unasked is told with its reason, and `down` says what became of each thing.
#[test]
fn reports_say_why_a_value_was_set_and_what_is_gone() {
    let machine = Machine::new();
    let up = machine.up(&config(RAM)).unwrap();
    let read_ahead = up.applied.iter().find(|it| it.group == "tunables");
    assert_eq!(
        read_ahead.unwrap().words,
        "set vm.page-cluster to 0 (all swap is in RAM: reading ahead decompresses pages without need; tunables.page_cluster sets another value)"
    );
    let down = machine.down().unwrap();
    let told = down.undone.iter().filter_map(|it| it.restores.as_deref());
    let expected = [
        "vm.page-cluster: restored to 3",
        "swapped off",
        "zram1: removed",
        "zswap.enabled: restored to Y",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}
