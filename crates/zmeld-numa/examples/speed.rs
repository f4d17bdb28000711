//! How fast the engine is, and how it scales: one line a case, single-threaded, best of three.
//! `cargo run --release -p zmeld-numa --example speed`

use std::time::Instant;

use zmeld_numa::engine::Recording;
use zmeld_numa::machine::{MemoryCosts, NumaMachine, Slit};
use zmeld_numa::policy::{PolicyName, PolicySettings};
use zmeld_numa::replicate::SimulationCase;
use zmeld_numa::study;
use zmeld_numa::workload::{StartNode, Workload};

fn measure(what: &str, case: &SimulationCase, policy: PolicyName) {
    let plans = case.plans(1, 0);
    let mut best = f64::INFINITY;
    let mut outcome = None;
    for _ in 0..3 {
        let started = Instant::now();
        outcome = Some(case.simulate(policy, &plans, Recording::TOTALS));
        best = best.min(started.elapsed().as_secs_f64());
    }
    let Some(outcome) = outcome else { return };
    println!(
        "{what:40} {policy:10} {:9.3} ms {:10} events {:6.2} M events/s {:12.3e} accesses/s",
        best * 1e3,
        outcome.events,
        outcome.events as f64 / best / 1e6,
        outcome.accesses / best,
    );
}

fn main() {
    let study = study::source()
        .and_then(|source| source.scenario())
        .expect("the built-in scenario is checked");
    for processes in [10, 50, 100, 1000, 10_000, 100_000] {
        let workload = Workload {
            processes,
            ..study.case.workload.clone()
        };
        let case = SimulationCase {
            workload,
            ..study.case.clone()
        };
        for policy in [PolicyName::Linux, PolicyName::OnDemand] {
            measure(
                &format!("study's machine, {processes} processes"),
                &case,
                policy,
            );
        }
    }
    for nodes in [1usize, 4, 16, 64, 256, 1024] {
        let rows = (0..nodes).map(|a| {
            (0..nodes)
                .map(|b| {
                    if a == b {
                        10
                    } else {
                        20 + 5 * ((a ^ b).ilog2() + 1)
                    }
                })
                .collect()
        });
        let machine = NumaMachine {
            name: "scaling".into(),
            about: String::new(),
            slit: Slit::new(rows.collect(), "scaling").expect("distances are in range"),
            processors: vec![2; nodes],
            page_bytes: 4096,
            memory_pages: vec![None; nodes],
            costs: MemoryCosts::default(),
        };
        let workload = Workload {
            processes: nodes * 12,
            start: StartNode::Random,
            ..Workload::default()
        };
        let case = SimulationCase {
            machine,
            workload,
            policy: PolicySettings::default(),
            ..study.case.clone()
        };
        measure(
            &format!("{nodes} nodes, {} processes", nodes * 12),
            &case,
            PolicyName::OnDemand,
        );
    }
}
