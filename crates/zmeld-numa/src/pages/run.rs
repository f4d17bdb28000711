//! One replication under one policy, in detail.

use crate::machine::NumaMachine;
use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::replicate::METRICS;
use crate::scenario::Scenario;
use crate::time::{to_ms, to_s};
use crate::workload::Workload;
use zmeld_report::plot::{Axis, Lines};
use zmeld_report::{units, Cell, Column, Document, Plot, Section, Table, Unit};

use super::{kept, matrix, provenance, Page};

/// Nodes up to which a table of the traffic between them can be read.
const MATRIX_NODES_MAX: usize = 8;

/// One replication under one policy, in detail.
pub fn run(scenario: &Scenario, policy: PolicyName, outcome: &Outcome) -> Page {
    let mut plots = Vec::new();
    let nodes = scenario.case.machine.nodes();
    let mut section = Section::new("Result")
        .values(values(scenario, outcome))
        .table(stalls(outcome))
        .table(counters(outcome));
    if outcome.timeline.accesses.len() > 1 {
        section = section.plot(kept(&mut plots, local_accesses(policy, outcome)));
    }
    if nodes > 1 && nodes <= MATRIX_NODES_MAX && !outcome.traffic_refs.is_empty() {
        for table in traffic(nodes, outcome) {
            section = section.table(table);
        }
    }
    let lead = format!(
        "{} processes under {policy}: {} in all, {} of accesses local.",
        outcome.processes.len(),
        units::seconds(to_s(outcome.total_time)),
        units::percent(outcome.local_share())
    );
    let document = Document::new("zmeld numa run").lead(lead).section(section);
    Page {
        document: provenance(document, scenario),
        plots,
    }
}

fn stalls(outcome: &Outcome) -> Table {
    let total: u64 = outcome.processes.iter().map(|p| p.ran).sum();
    let mut table = Table::new("Time lost by all processes")
        .column(Column::text("to"))
        .column(Column::seconds("time"))
        .column(Column::percent("of run time"));
    let stalls = outcome.stalls;
    for (name, lost) in [
        ("accesses to other nodes", stalls.remote),
        ("faults", stalls.faulting),
        ("copies of own pages", stalls.copying),
        ("page-table changes", stalls.scanning),
        ("copies for other processes", stalls.held_back),
    ] {
        table.row([
            Cell::from(name),
            Cell::from(to_s(lost)),
            Cell::from(lost as f64 / total.max(1) as f64),
        ]);
    }
    table
}

fn counters(outcome: &Outcome) -> Table {
    let mut table = Table::new("Counters")
        .column(Column::text("counter"))
        .column(Column::count("value"));
    if let Ok(serde_json::Value::Object(all)) = serde_json::to_value(&outcome.counters) {
        for (name, value) in &all {
            if let Some(value) = value.as_u64() {
                table.row([Cell::from(name.as_str()), Cell::from(value)]);
            }
        }
    }
    table.note(format!(
        "Process moves: {} by idle processors, {} periodically.",
        outcome.counters.process_moves[0], outcome.counters.process_moves[1]
    ));
    table
}

fn values(scenario: &Scenario, outcome: &Outcome) -> Vec<(&'static str, String)> {
    let machine = &scenario.case.machine;
    let costs = &machine.costs;
    let copy_us = machine.page_bytes as f64 / costs.copy_mb_per_s;
    let balancing_us = outcome.balancing_cost(costs.pte_us, costs.fault_us, copy_us);
    let mut values = vec![
        ("total time", units::seconds(to_s(outcome.total_time))),
        ("local accesses", units::percent(outcome.local_share())),
        ("slowdown of processes", slowdowns(outcome)),
        ("moved", units::bytes(outcome.bytes_migrated())),
        (
            "balancing cost",
            format!(
                "{} (Cpte {} us, Chint {} us, Ccopy {copy_us:.1} us)",
                units::seconds(balancing_us / 1e6),
                costs.pte_us,
                costs.fault_us
            ),
        ),
    ];
    if let Some(convergence) = outcome.convergence() {
        values.push(("convergence", units::percent(convergence)));
    }
    if let Some(residence) = break_even(machine, &scenario.case.workload) {
        values.push(("break-even residence", residence));
    }
    values
}

fn slowdowns(outcome: &Outcome) -> String {
    let mut slow: Vec<f64> = outcome.processes.iter().map(|p| p.slowdown()).collect();
    slow.sort_by(f64::total_cmp);
    let at = |q: f64| slow[((slow.len() - 1) as f64 * q).round() as usize];
    format!("{:.2} median, {:.2} to {:.2}", at(0.5), at(0.0), at(1.0))
}

/// [`break_even_ms`] over all pairs of nodes.
fn break_even(machine: &NumaMachine, workload: &Workload) -> Option<String> {
    let nodes = machine.nodes();
    let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (a, b)));
    let stays: Vec<f64> = pairs
        .filter(|(a, b)| a != b)
        .filter_map(|(a, b)| break_even_ms(machine, workload, a, b))
        .collect();
    let least = stays.iter().copied().min_by(f64::total_cmp)?;
    let most = stays.iter().copied().max_by(f64::total_cmp)?;
    Some(format!(
        "{least:.2} to {most:.2} ms of run time, by pair of nodes"
    ))
}

/// The run time that a process must stay on a node for moving its pages there to pay, in milliseconds, and where
/// that comes from: all its pages' faults, bookkeeping and copies, over what local accesses save of each millisecond
/// of run time, `a r (distance / 10 - 1)`. `None` where nothing is saved.
pub fn break_even_ms(
    machine: &NumaMachine,
    workload: &Workload,
    from: usize,
    to: usize,
) -> Option<f64> {
    let pages = (workload.size_kb.mean() * 1024.0 / machine.page_bytes as f64).ceil();
    let distance = f64::from(machine.slit.distance(to, from)) / 10.0;
    let copy_us = machine.page_bytes as f64 / machine.costs.copy_mb_per_s * distance;
    let page_us =
        machine.costs.pte_us + machine.costs.fault_us + machine.costs.move_page_us + copy_us;
    let saved = workload.access_share * workload.reuse_share * (distance - 1.0);
    (saved > 0.0).then(|| pages * page_us / 1000.0 / saved)
}

fn local_accesses(policy: PolicyName, outcome: &Outcome) -> Plot {
    let timeline = &outcome.timeline;
    let buckets = timeline.accesses.iter().enumerate();
    let points = buckets.map(|(i, (all, remote))| {
        let local = match *all > 0.0 {
            true => 1.0 - remote / all,
            false => f64::NAN,
        };
        (to_s(timeline.bucket) * (i as f64 + 0.5), local)
    });
    Lines::new(
        "Local accesses over time",
        Axis::new("time", Unit::Seconds).from_zero(),
        Axis::new("local accesses", Unit::Fraction),
    )
    .series(policy.as_str(), points)
    .into()
}

fn traffic(nodes: usize, outcome: &Outcome) -> [Table; 2] {
    let between = |title: &str, cells: &[u64], from: &str, to: &str| {
        let names = (0..nodes).map(|node| format!("{to} {node}"));
        let mut table = matrix(title, from, names, Column::count);
        for (node, row) in cells.chunks(nodes).enumerate() {
            let node = Cell::from(node.to_string());
            table.row(std::iter::once(node).chain(row.iter().map(|&count| Cell::from(count))));
        }
        table
    };
    [
        between(
            "Accesses to resident pages",
            &outcome.traffic_refs,
            "from node",
            "to pages of",
        ),
        between("Pages moved", &outcome.pages_copied, "from node", "to"),
    ]
}

/// What a machine-readable result of one run holds beyond its outcome.
pub fn metrics_of(outcome: &Outcome) -> Vec<(&'static str, f64)> {
    METRICS
        .iter()
        .map(|metric| (metric.name, (metric.of)(outcome)))
        .collect()
}

/// The processes of one run, one row each.
pub fn processes(outcome: &Outcome) -> Table {
    let mut table = Table::new("Processes");
    for name in ["process", "moves", "node_moves", "refs", "remote_refs"] {
        table = table.column(Column::count(name));
    }
    for name in ["arrival_ms", "finish_ms", "ideal_ms", "slowdown"] {
        table = table.column(Column::number(name));
    }
    for (index, p) in outcome.processes.iter().enumerate() {
        let mut row: Vec<Cell> = [
            index as u64,
            p.moves.into(),
            p.node_moves.into(),
            p.refs,
            p.remote_refs,
        ]
        .into_iter()
        .map(Cell::from)
        .collect();
        row.extend(
            [
                to_ms(p.arrival),
                to_ms(p.finish),
                to_ms(p.ideal),
                p.slowdown(),
            ]
            .map(Cell::from),
        );
        table.row(row);
    }
    table
}
