//! The engine against closed forms, and what must be conserved whatever the case.

use proptest::prelude::*;
use zmeld_numa::engine::{Recording, SimulationCase};
use zmeld_numa::machine::{MemoryCosts, NumaMachine};
use zmeld_numa::outcome::Outcome;
use zmeld_numa::policy::{FullSettings, PolicyName, PolicySettings, ALL};
use zmeld_numa::scheduler::Scheduler;
use zmeld_numa::workload::{
    Arrivals, Distribution, DistributionShape, ProcessPlan, Quantity, StartNode, Workload,
};
use zmeld_report::statistics::mean;

const US: u64 = 1_000_000;
const MS: u64 = 1000 * US;

fn run(
    machine: &NumaMachine,
    rules: &Scheduler,
    plans: &[ProcessPlan],
    policy: PolicyName,
    settings: &PolicySettings,
) -> Outcome {
    let detail = Recording {
        bucket: 10 * MS,
        traffic: true,
    };
    let case = SimulationCase {
        machine: machine.clone(),
        scheduler: rules.clone(),
        workload: Workload::default(),
        policy: settings.clone(),
    };
    case.simulate(policy, plans, detail)
}

/// Two nodes of one processor, distance 25, costs that are easy to add.
fn two_nodes() -> NumaMachine {
    NumaMachine {
        name: "test".into(),
        about: String::new(),
        slit: vec![vec![10, 25], vec![25, 10]],
        node_numbers: Vec::new(),
        processors: vec![1, 1],
        page_bytes: 4096,
        memory_pages: vec![None, None],
        costs: MemoryCosts {
            access_ns: 100.0,
            copy_mb_per_s: 1024.0,
            fault_us: 2.0,
            move_page_us: 3.0,
            pte_us: 0.5,
            switch_us: 7.0,
        },
    }
}

/// A starts at 0 on node 0; B comes at 80 ms and waits. At 100 ms A's slice ends, and B runs.
/// The other processor's looks are every 250 ms from 125 ms on, and the first one finds A
/// waiting and takes it.
fn one_move(machine: &NumaMachine) -> (Scheduler, Vec<ProcessPlan>) {
    let rules = Scheduler {
        idle_balance_ms: 250.0,
        pull_when_idle: false,
        ..Scheduler::default()
    };
    let workload = Workload {
        processes: 2,
        run_time_ms: Quantity::Same(400.0),
        size_kb: Quantity::Same(50.0),
        arrivals: Arrivals::Steady { gap_ms: 80.0 },
        start: StartNode::OnNode { node: 0 },
        ..Workload::default()
    };
    (rules, workload.plans(machine, 1, 0))
}

#[test]
fn one_move_costs_what_the_rules_say() {
    let machine = two_nodes();
    let (rules, plans) = one_move(&machine);
    let (pages, look) = (13, 125 * MS);
    let (switch, fault, own, pte) = (7 * US, 2 * US, 3 * US, US / 2);
    let copy = 4 * US * 25 / 10; // 4096 bytes at 1024 MB/s and distance 25
    let local = 416_667;
    let remote = local - 100_000 + 250_000;
    let before = (100 * MS - pages * fault).div_ceil(local);
    let after = plans[0].refs - before;
    let full = FullSettings {
        stop_ms: 1.5,
        page_ms: None,
        hold_back: 0.0,
    };
    let settings = PolicySettings {
        full,
        ..PolicySettings::default()
    };
    for (policy, expected) in [
        (PolicyName::NoBalancing, look + switch + after * remote),
        (
            PolicyName::OnDemand,
            look + switch + pages * (pte + fault + own + copy) + after * local,
        ),
        (
            PolicyName::Full,
            look + pages * (own + copy) + MS * 3 / 2 + switch + after * local,
        ),
    ] {
        let outcome = run(&machine, &rules, &plans, policy, &settings);
        assert_eq!(outcome.processes[0].finish, expected, "{policy}");
        assert_eq!(outcome.counters.node_moves, 1, "{policy}");
        let moved = if policy == PolicyName::NoBalancing {
            0
        } else {
            pages
        };
        assert_eq!(outcome.counters.numa_pages_migrated, moved, "{policy}");
        let (stayed, distance_cost) = (policy == PolicyName::NoBalancing, after * 150_000);
        assert_eq!(
            outcome.stalls.remote,
            if stayed { distance_cost } else { 0 },
            "{policy}"
        );
    }
}

/// Mean time in the system of an M/M/c queue (Erlang C).
fn erlang_sojourn(arrivals_per_ms: f64, service_ms: f64, servers: usize) -> f64 {
    let offered = arrivals_per_ms * service_ms;
    let c = servers as f64;
    let term = |k: usize| (1..=k).fold(1.0, |product, i| product * offered / i as f64);
    let last = term(servers) * c / (c - offered);
    let waits = last / ((0..servers).map(term).sum::<f64>() + last);
    service_ms + waits * service_ms / (c - offered)
}

#[test]
fn without_migration_it_is_an_m_m_c_queue() {
    for (processors, load) in [(1, 0.6), (3, 0.8), (8, 0.9)] {
        let mut machine = two_nodes();
        machine.slit = vec![vec![10]];
        machine.processors = vec![processors];
        machine.memory_pages = vec![None];
        machine.costs = MemoryCosts {
            fault_us: 0.0,
            switch_us: 0.0,
            ..machine.costs
        };
        // Slices longer than any process: first come, first served, and an idle processor takes who waits.
        let rules = Scheduler {
            slice_ms: 1e6,
            balance_periodically: false,
            ..Scheduler::default()
        };
        let service = 10.0;
        let gap = service / (load * processors as f64);
        let workload = Workload {
            processes: 6000,
            run_time_ms: Quantity::Distribution(Distribution {
                mean: service,
                shape: DistributionShape::Exponential,
                spread: 0.0,
            }),
            arrivals: Arrivals::Poisson { gap_ms: gap },
            ..Workload::default()
        };
        let sample = |replication| {
            let plans = workload.plans(&machine, 3, replication);
            let settings = PolicySettings::default();
            let outcome = run(&machine, &rules, &plans, PolicyName::NoBalancing, &settings);
            let steady = &outcome.processes[1000..];
            steady
                .iter()
                .map(|p| (p.finish - p.arrival) as f64 / MS as f64)
                .sum::<f64>()
                / steady.len() as f64
        };
        let samples: Vec<f64> = (0..30).map(sample).collect();
        let ours = mean::mean(&samples);
        let exact = erlang_sojourn(1.0 / gap, service, processors);
        assert!(
            ours.low() <= exact && exact <= ours.high(),
            "{processors} processors at {load}: {ours:?} against {exact}"
        );
        assert!(
            ours.half_width < exact * 0.1,
            "the interval says something: {ours:?}"
        );
    }
}

#[test]
fn numa_balancing_moves_a_page_on_its_second_fault_from_there() {
    // As in the move above, but balancing has to find the pages out: two scans, two faults from the new node.
    let machine = two_nodes();
    let (rules, plans) = one_move(&machine);
    let mut settings = PolicySettings::default();
    settings.autonuma.scan_period_ms = 60.0;
    settings.autonuma.unfiltered_scans = 0;
    let outcome = run(&machine, &rules, &plans, PolicyName::Autonuma, &settings);
    // The scan after 60 ms finds A on node 0 with its pages and spares them. Those after 120 and 180 ms of run time
    // find it on node 1, away from them: each page faults twice, and moves the second time.
    assert_eq!(outcome.counters.numa_pages_migrated, 13);
    assert_eq!(outcome.counters.numa_pte_updates, 2 * 13);
    assert_eq!(outcome.counters.numa_hint_faults, 2 * 13);
    assert_eq!(outcome.counters.numa_hint_faults_local, 0);
    // Early in a process's life pages move at their first fault.
    settings.autonuma.unfiltered_scans = 4;
    let outcome = run(&machine, &rules, &plans, PolicyName::Autonuma, &settings);
    assert_eq!(outcome.counters.numa_pages_migrated, 13);
    assert_eq!(outcome.counters.numa_hint_faults, 13);
}

fn any_workload() -> impl Strategy<Value = Workload> {
    (
        1usize..40,
        1.0f64..300.0,
        1.0f64..300.0,
        0.0f64..=1.0,
        0.0f64..=1.0,
        0.0f64..500.0,
        any::<bool>(),
    )
        .prop_map(
            |(processes, run_time, size, access_share, reuse_share, renewal_kb_per_s, random)| {
                Workload {
                    processes,
                    run_time_ms: Quantity::Distribution(Distribution {
                        mean: run_time,
                        shape: DistributionShape::LogNormal,
                        spread: 1.5,
                    }),
                    size_kb: Quantity::Distribution(Distribution {
                        mean: size,
                        shape: DistributionShape::Uniform,
                        spread: 0.5,
                    }),
                    access_share,
                    reuse_share,
                    renewal_kb_per_s,
                    start: if random {
                        StartNode::Random
                    } else {
                        StartNode::LeastLoaded
                    },
                    ..Workload::default()
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_is_made_twice(
        workload in any_workload(),
        policy in prop::sample::select(ALL.iter().map(|about| about.name).collect::<Vec<_>>()),
        seed in any::<u64>(),
        preset in prop::sample::select(vec!["altix-4x2", "two-socket", "cxl-far"]),
        tight in any::<bool>(),
        scan in 5.0f64..500.0,
        full in (0.0f64..50.0, prop::option::of(0.0f64..5.0), 0.0f64..2.0),
    ) {
        let mut machine = NumaMachine::find(preset).unwrap();
        if tight {
            let far = machine.nodes() - 1;
            machine.memory_pages = (0..=far).map(|node| if node == far { None } else { Some(60) }).collect();
        }
        let mut settings = PolicySettings::default();
        settings.autonuma.scan_period_ms = scan;
        settings.full = FullSettings { stop_ms: full.0, page_ms: full.1, hold_back: full.2 };
        let plans = workload.plans(&machine, seed, 0);
        let outcome = run(&machine, &Scheduler { slice_ms: 20.0, ..Scheduler::default() }, &plans, policy, &settings);
        let c = &outcome.counters;
        for (plan, process) in plans.iter().zip(&outcome.processes) {
            prop_assert_eq!(process.refs, plan.refs, "every reference is made once");
            prop_assert!(process.finish >= process.arrival + process.ideal);
            prop_assert_eq!(process.ran, process.ideal + process.stalls.remote + process.stalls.held_back);
        }
        prop_assert_eq!(outcome.pages_left, 0, "every page was on one node and was freed once");
        prop_assert_eq!(outcome.traffic_refs.iter().sum::<u64>(), outcome.refs);
        let nodes = machine.nodes();
        let local: u64 = (0..nodes).map(|node| outcome.traffic_refs[node * nodes + node]).sum();
        prop_assert_eq!(outcome.refs - local, outcome.remote_refs);
        prop_assert_eq!(outcome.pages_copied.iter().sum::<u64>(), c.numa_pages_migrated);
        let seen: f64 = outcome.timeline.accesses.iter().map(|(all, _)| all).sum();
        prop_assert!((seen - outcome.accesses).abs() <= 1e-6 * outcome.accesses.max(1.0));
        prop_assert!(c.numa_hint_faults <= c.numa_pte_updates && c.numa_hint_faults_local <= c.numa_hint_faults);
        prop_assert!(c.next_touch_faults <= c.pages_unmapped);
        prop_assert_eq!(c.numa_hit + c.numa_miss, c.pages_touched);
        if matches!(policy, PolicyName::NoBalancing | PolicyName::Interleave | PolicyName::FirstTouch) {
            prop_assert_eq!(c.numa_pages_migrated, 0);
        }
        if policy == PolicyName::FirstTouch {
            prop_assert_eq!(c.process_moves, [0, 0, 0]);
        }
        // The same again is the same.
        let again = run(&machine, &Scheduler { slice_ms: 20.0, ..Scheduler::default() }, &plans, policy, &settings);
        prop_assert_eq!(outcome, again);
    }
}
