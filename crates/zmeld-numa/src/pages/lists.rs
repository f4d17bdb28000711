//! The presets, one machine, the policies.

use std::collections::BTreeSet;

use crate::machine::{presets, NumaMachine, UNREACHABLE};
use crate::policy::ALL;
use zmeld_report::{Cell, Column, Document, Section};

pub fn machines() -> Document {
    let table = zmeld_report::table!("Presets", for machine in presets(),
        where {
            let rows = machine.slit.iter().enumerate();
            let others = rows.flat_map(|(from, row)| row[..from].iter().chain(&row[from + 1..]));
            let levels: BTreeSet<u32> = others.copied().collect();
            let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
        }
        Column::text("name") => machine.name.as_str(),
        Column::count("nodes") => machine.nodes() as u64,
        Column::count("processors") => machine.processors_total() as u64,
        Column::text("distances") => format!("10 {}", levels.join(" ")),
        Column::nanoseconds("local access") => machine.costs.access_ns,
        Column::mb_per_s("copy") => machine.costs.copy_mb_per_s,
        Column::text("about") => machine.about.as_str(),
    );
    Document::new("Machines").section(
        Section::new("")
            .table(table)
            .paragraph("Also `host` (this machine, from `/sys/devices/system/node`)."),
    )
}

pub fn machine(machine: &NumaMachine) -> Document {
    let nodes = zmeld_report::table!("Nodes", for node in 0..machine.nodes(),
        where {
            let row = machine.slit[node].iter().map(|&distance| match distance {
                UNREACHABLE => "unreachable".to_owned(),
                distance => distance.to_string(),
            });
            let row: Vec<String> = row.collect();
            let memory = machine.memory_pages[node].map(|pages| pages * machine.page_bytes);
        }
        Column::text("node") => machine.node_numbers[node].to_string(),
        Column::count("processors") => machine.processors[node] as u64,
        Column::bytes("memory") => memory.map_or_else(|| Cell::from("any"), Cell::from),
        Column::text("distances") => row.join(" "),
    );
    let next = match machine.nodes() {
        1 => "It has one node: there is nothing to move, and every policy comes out the same."
            .to_owned(),
        _ => format!(
            "`zmeld numa compare --machine {}` simulates the policies on it.",
            machine.name
        ),
    };
    Document::new(&machine.to_string())
        .lead(format!("{}. {next}", machine.about))
        .section(Section::new("").table(nodes))
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
