//! One replication under one policy, in detail.

use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::scenario::Scenario;
use crate::time::to_s;
use zmeld_report::plot::{Axis, Lines};
use zmeld_report::{units, Cell, Column, Document, Plot, Section, Table, Unit};

use super::{matrix, provenance};

/// Nodes up to which a table of the traffic between them can be read.
const MATRIX_NODES_MAX: usize = 8;

/// One replication under one policy, in detail.
pub fn run(scenario: &Scenario, policy: PolicyName, outcome: &Outcome) -> Document {
    let nodes = scenario.case.machine.nodes();
    let mut section = Section::new("Result")
        .values([
            ("moved", units::bytes(outcome.bytes_migrated())),
            (
                "slowdown of processes",
                format!("{:.2} on average", outcome.mean_slowdown()),
            ),
        ])
        .table(stalls(outcome))
        .table(counters(outcome));
    if outcome.timeline.accesses.len() > 1 {
        section = section.plot(local_accesses(policy, outcome));
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
    provenance(document, scenario)
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
