//! The presets, one machine, the policies.

use crate::machine::{NumaMachine, PRESETS};
use crate::policy::ALL;
use zmeld_report::{Cell, Column, Document, Section, Table};

use super::Page;

/// The presets.
pub fn machines() -> Document {
    let mut table = Table::new("Presets")
        .column(Column::text("name"))
        .column(Column::count("nodes"))
        .column(Column::count("processors"))
        .column(Column::text("distances"))
        .column(Column::nanoseconds("local access"))
        .column(Column::mb_per_s("copy"))
        .column(Column::text("about"));
    for preset in PRESETS {
        let Some(machine) = NumaMachine::preset(preset.name) else {
            continue;
        };
        let levels: Vec<String> = machine
            .slit
            .levels()
            .iter()
            .map(ToString::to_string)
            .collect();
        table.row([
            Cell::from(preset.name),
            Cell::from(machine.nodes() as u64),
            Cell::from(machine.processors_total() as u64),
            Cell::from(format!("10 {}", levels.join(" "))),
            Cell::from(machine.costs.access_ns),
            Cell::from(machine.costs.copy_mb_per_s),
            Cell::from(preset.about),
        ]);
    }
    Document::new("Machines").section(Section::new("").table(table).paragraph(
        "Also `host` (this machine, from `/sys/devices/system/node`), and any file with the output of `numactl -H`.",
    ))
}

/// One machine.
pub fn machine(machine: &NumaMachine) -> Page {
    let mut table = Table::new("Nodes")
        .column(Column::text("node"))
        .column(Column::count("processors"));
    table = table
        .column(Column::bytes("memory"))
        .column(Column::text("distances"));
    for node in 0..machine.nodes() {
        let row = machine.slit.row(node);
        let memory = machine.memory_pages[node].map(|pages| pages * machine.page_bytes);
        table.row([
            Cell::from(node.to_string()),
            Cell::from(machine.processors[node] as u64),
            memory.map_or_else(|| Cell::from("any"), Cell::from),
            Cell::from(
                row.iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        ]);
    }
    let document = Document::new(&machine.to_string())
        .lead(machine.about.as_str())
        .section(Section::new("").table(table));
    document.into()
}

/// The policies with their rules and sources.
pub fn policies() -> Document {
    let mut document = Document::new("Policies");
    for about in ALL {
        document = document.section(
            Section::new(about.name.as_str())
                .paragraph(about.rule)
                .paragraph(format!("Source: {}.", about.source)),
        );
    }
    document
}
