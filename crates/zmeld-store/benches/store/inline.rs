//! Inline melding against plain writes.

use zmeld_report::{cells, Column, Table};
use zmeld_store::{Codec, MeldMode};

use crate::input::{order, Pages};
use crate::output::Results;
use crate::runs::Runs;
use crate::timing::{in_turns, Side};
use crate::{empty_store, progress, write, Settings};

const SHARES: &[f64] = &[0.0, 0.25, 0.50];
const MODES: [(MeldMode, &str); 2] = [(MeldMode::Manual, "manual"), (MeldMode::Inline, "inline")];
const TABLE: &str = "inline";

/// Writes in either mode at each share of duplicates.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let codec = Codec::new("lz4", None, None).expect("the codec is built in");
    let count = pages.count();
    let mut table = Table::new("Inline melding against plain writes, lz4")
        .column(Column::text("duplicates"))
        .column(Column::number("manual").key("manual_mb_per_s"))
        .column(Column::number("inline").key("inline_mb_per_s"))
        .column(Column::ratio("inline/manual"));
    for &share in SHARES {
        let name = format!("{} %", share * 100.0);
        let stores = MODES.map(|(mode, _)| empty_store(&codec, count, mode));
        let mut series = MODES.map(|(_, mode)| Runs::new(TABLE, format!("{name}: {mode}"), count));
        for round in 0..settings.rounds {
            progress(&format!("inline: {name} duplicates, round {}", round + 1));
            let order = order(count, share, round as u64).pages;
            let mut sides: Vec<Side> = Vec::new();
            for store in &stores {
                (0..count).for_each(|slot| store.discard(slot as u64));
                let order = &order;
                sides.push(Box::new(move |range| {
                    range.for_each(|slot| write(store, slot, pages.page(order[slot])));
                }));
            }
            for (runs, ns) in series.iter_mut().zip(in_turns(&mut sides, count, round)) {
                runs.runs_ns.push(ns);
            }
        }
        let [manual, inline] = &series;
        table.row(cells![
            name,
            manual.mb_per_s(),
            inline.mb_per_s(),
            inline.times_faster_than(manual)
        ]);
        results.runs.extend(series);
    }
    table.note(
        "MB of pages per second. Each round discards everything and writes the pages in another \
         order.",
    );
    results.tables.push((TABLE, table));
}
