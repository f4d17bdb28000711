//! Refusals and warnings, in one line, before anything is changed.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zmeld_swap::setup::event::Event;
use zmeld_swap::setup::execute::{self, Removal};
use zmeld_swap::setup::journal::{Journal, Owner};

use crate::common::{config, lock, Machine};

const RAM: &str = "[tier.fast]\nkind = \"zram\"\nsize = \"50%\"\n";

#[test]
fn a_drive_may_come_to_carry_something_after_the_plan_was_made() {
    let machine = Machine::new();
    machine.put("/dev/sdd1", "");
    let accept = "accept = [\"unstable-name\"]\n";
    let text = format!("{accept}{RAM}writeback = {{ device = \"/dev/sdd1\" }}\n");
    let plan = machine.plan(&config(&text)).unwrap();
    machine.carry("/dev/sdd1", "ext4");
    let host = machine.host();
    let mut journal = lock(&host, Owner::Setup).unwrap();
    let up = execute::up(&host, &mut journal, &plan, &false.into(), &mut |_| {});
    let line = up.unwrap_err().to_string();
    assert!(
        line.contains("/dev/sdd1: it carries ext4, which would be lost"),
        "{line}"
    );
    assert_eq!(machine.text("/proc/swaps").lines().count(), 1);
}

#[test]
fn two_runs_are_kept_apart() {
    let machine = Machine::new();
    let host = machine.host();
    let first = lock(&host, Owner::Setup).unwrap();
    let second = Journal::lock(
        &host,
        Owner::Setup,
        Duration::from_millis(50),
        &AtomicBool::new(false),
        &mut |_| {},
    )
    .unwrap_err();
    let pid = format!("(process {})", std::process::id());
    assert!(second.to_string().contains(&pid), "{second}");
    drop(first);
    lock(&host, Owner::Setup).unwrap();
}

#[test]
fn what_was_set_up_is_taken_back_where_nothing_can_be_written_down() {
    let machine = Machine::new();
    let before = machine.snapshot();
    machine.up(&config(RAM)).unwrap();
    let host = machine.host();
    let mut journal = lock(&host, Owner::Setup).unwrap();
    // There is no room for the state: here, no folder.
    std::fs::rename(machine.path("/run/zmeld"), machine.path("/run/full")).unwrap();
    let mut notes = Vec::new();
    let removal = Removal::default();
    let report = execute::down(&host, &mut journal, removal, &false.into(), &mut |event| {
        if let Event::Note { text } = event {
            notes.push(text.to_owned());
        }
    });
    assert!(report.unwrap().left.is_empty());
    assert_eq!(notes.len(), 1, "{notes:?}");
    let said = "cannot write /run/zmeld/state.json";
    assert!(notes[0].starts_with(said) && notes[0].ends_with("taking back goes on"));
    std::fs::rename(machine.path("/run/full"), machine.path("/run/zmeld")).unwrap();
    drop(journal);
    // Things still recorded are found to be gone.
    assert!(machine.down().unwrap().left.is_empty());
    assert_eq!(machine.snapshot(), before);
}
