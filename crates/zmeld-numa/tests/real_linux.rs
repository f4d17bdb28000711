//! The simulator against a real Linux: what a stock Debian kernel counted in QEMU, with four nodes at the study's
//! distances, is kept in guest/recorded-6.1.txt, the simulator runs the same script, and the counters are compared.
//!
//! The script, once with each way: a process of one thread is bound to node 0 and walks over its pages again and again.
//! It is moved to node 1, and then to node 2 (`sched_setaffinity(2)`): without migration, with `migrate_pages(2)` after
//! each move, and with `kernel.numa_balancing=1`. After each move the counters of `/proc/vmstat` are printed as they
//! grew, and on which node `move_pages(2)` finds the pages.

use std::collections::BTreeMap;

use zmeld_numa::engine::{Recording, SimulationCase};
use zmeld_numa::machine::NumaMachine;
use zmeld_numa::outcome::{Counters, Outcome};
use zmeld_numa::policy::{PolicyName, PolicySettings};
use zmeld_numa::scheduler::Scheduler;
use zmeld_numa::workload::{ProcessPlan, Quantity, StartNode, Workload};

const SECOND: u64 = 1_000_000_000_000;
/// Pages that the script walks over.
const PAGES: u64 = 4096;
/// The guest's process has a few pages besides those: its stack, its program.
const OTHER_PAGES: u64 = 8;
/// NUMA balancing moves a page if it can be taken off its list at the moment of the fault, and leaves it otherwise: some boots
/// leave one page of 4,096 behind. migrate_pages(2) moves all or says which it could not.
const LEFT_BEHIND: u64 = 8;

/// The script: 2 s on node 0, 8 s on node 1, 8 s on node 2; up to `steps` of its moves. One scan a second.
fn simulated(policy: PolicyName, steps: usize) -> Outcome {
    let mut machine = NumaMachine::find("altix-4x2").unwrap();
    let rows = vec![
        vec![10, 20, 35, 55],
        vec![20, 10, 55, 35],
        vec![35, 55, 10, 20],
        vec![55, 35, 20, 10],
    ];
    machine.slit = rows;
    let workload = Workload {
        processes: 1,
        run_time_ms: Quantity::Same(1.0),
        size_kb: Quantity::Same(PAGES as f64 * 4.0),
        access_share: 1.0,
        reuse_share: 1.0,
        start: StartNode::OnNode { node: 0 },
        ..Workload::default()
    };
    let drawn = workload.plans(&machine, 1, 0).remove(0);
    let moves = [(2 * SECOND, 2), (10 * SECOND, 4)];
    // Long enough for the whole script however slow its accesses get.
    let refs = 18 * SECOND / (drawn.rest + drawn.access);
    let plan = ProcessPlan {
        moves: moves[..steps].to_vec(),
        refs: refs * (2 + 8 * steps as u64) / 18,
        ..drawn
    };
    let case = SimulationCase {
        machine,
        scheduler: Scheduler::default(),
        workload,
        policy: PolicySettings::default(),
    };
    case.simulate(policy, &[plan], Recording::TOTALS)
}

/// A counter's name, and how it is read.
type Counter = (&'static str, fn(&Counters) -> u64);

/// The counters of both that have to be alike.
const ALIKE: [Counter; 3] = [
    ("numa_pte_updates", |c| c.numa_pte_updates),
    ("numa_hint_faults", |c| c.numa_hint_faults),
    ("numa_hint_faults_local", |c| c.numa_hint_faults_local),
];

#[test]
fn agrees_with_the_recorded_boot() {
    let recorded = include_str!("../guest/recorded-6.1.txt").lines();
    let guest: BTreeMap<&str, u64> = recorded
        .filter_map(|line| line.strip_prefix("ZMELD ")?.rsplit_once(' '))
        .map(|(counter, value)| (counter, value.parse().expect("a count")))
        .collect();
    for (way, policy) in [
        ("linux", PolicyName::NoBalancing),
        ("full", PolicyName::Full),
        ("autonuma", PolicyName::Autonuma),
    ] {
        let mut before = simulated(policy, 0).counters;
        for (steps, (step, node)) in [("to-node-1", 1), ("to-node-2", 2)].into_iter().enumerate() {
            let after = simulated(policy, steps + 1).counters;
            let theirs = |counter: &str| guest[format!("{way} {step} {counter}").as_str()];
            let near = |counter: &str, ours: u64| {
                let theirs = theirs(counter);
                assert!(
                    (ours.saturating_sub(LEFT_BEHIND)..=ours + OTHER_PAGES).contains(&theirs),
                    "{way} {step} {counter}: the guest {theirs}, simulated {ours}"
                );
            };
            for (counter, of) in ALIKE {
                near(counter, of(&after) - of(&before));
            }
            let moved = after.numa_pages_migrated - before.numa_pages_migrated;
            let (here, first) = (
                theirs(&format!("pages_on_node_{node}")),
                theirs("pages_on_node_0"),
            );
            // The kernel counts migrate_pages(2) elsewhere, with the pages of the program and of its files.
            let (ours, stayed_max) = match policy {
                PolicyName::NoBalancing => (0, 0),
                PolicyName::Full => (PAGES, 0),
                _ => (PAGES, LEFT_BEHIND),
            };
            assert_eq!(moved, ours, "{way} {step}: simulated");
            match policy {
                PolicyName::Full => {
                    assert!(theirs("pgmigrate_success") >= moved);
                    assert_eq!(theirs("numa_pages_migrated"), 0);
                }
                _ => near("numa_pages_migrated", moved),
            }
            let stayed = if ours == 0 { here } else { first };
            assert!(
                here + first == PAGES && stayed <= stayed_max,
                "{way} {step}: the guest has {here} pages there and {first} on node 0"
            );
            before = after;
        }
    }
}
