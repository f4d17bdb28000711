//! Refusals and warnings, in one line, before anything is changed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zmeld_swap::setup::event::Event;
use zmeld_swap::setup::execute::{self, Removal};
use zmeld_swap::setup::journal::{Journal, Owner};

use crate::common::{config, lock, note, Machine, PATIENCE};

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
    // Who waits is told for whom, and may stop.
    let stop = AtomicBool::new(false);
    let mut listener = |event: Event<'_>| {
        if let Event::Waiting { holder } = event {
            assert_eq!(holder, pid);
            stop.store(true, Ordering::SeqCst);
        }
    };
    let third = Journal::lock(&host, Owner::Setup, PATIENCE, &stop, &mut listener).unwrap_err();
    let said = "stopped; while another run had the lock (process";
    assert!(third.to_string().starts_with(said), "{third}");
    drop(first);
    lock(&host, Owner::Setup).unwrap();
}

#[test]
fn a_state_that_cannot_be_removed_is_an_error() {
    let machine = Machine::new();
    machine.up(&config(RAM)).unwrap();
    let state = machine.path("/run/zmeld/state.json");
    machine.before_operation(5, move || {
        std::fs::remove_file(&state).unwrap();
        std::fs::create_dir(&state).unwrap();
    });
    let err = machine.down().unwrap_err().to_string();
    let said = "cannot remove /run/zmeld/state.json";
    assert!(err.starts_with(said), "{err}");
    assert_eq!(machine.text("/proc/swaps").lines().count(), 1);
}

/// All of it, and one tier of two.
#[test]
fn what_was_set_up_is_taken_back_where_nothing_can_be_written_down() {
    let second = RAM.replace("fast", "second");
    for (only, count) in [(None, 1), (Some(&["second".to_owned()][..]), 2)] {
        let machine = Machine::new();
        let before = machine.snapshot();
        machine.up(&config(&format!("{RAM}{second}"))).unwrap();
        let host = machine.host();
        let mut journal = lock(&host, Owner::Setup).unwrap();
        // There is no room for the state: here, no folder.
        std::fs::rename(machine.path("/run/zmeld"), machine.path("/run/full")).unwrap();
        let mut notes = Vec::new();
        let removal = Removal {
            only,
            ..Removal::default()
        };
        let report = execute::down(&host, &mut journal, removal, &false.into(), &mut |event| {
            note(event, &mut notes);
        });
        assert!(report.unwrap().left.is_empty());
        assert_eq!(notes.len(), count, "{notes:?}");
        for said in notes {
            let begin = "cannot write /run/zmeld/state.json";
            assert!(said.starts_with(begin) && said.ends_with("taking back goes on"));
        }
        std::fs::rename(machine.path("/run/full"), machine.path("/run/zmeld")).unwrap();
        drop(journal);
        // Things still recorded are found to be gone.
        assert!(machine.down().unwrap().left.is_empty());
        assert_eq!(machine.snapshot(), before);
    }
}
