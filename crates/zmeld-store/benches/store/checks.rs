//! What `check_writes` costs: writes whose encoded bytes are decoded and compared with
//! the page, against writes without.

use zmeld_report::{cells, Column, Table};
use zmeld_store::{CheckWrites, Codec, MeldMode, Store, StoreOptions};

use crate::input::Pages;
use crate::results::Results;
use crate::runs::Runs;
use crate::timing::{in_turns, Side};
use crate::{progress, Settings};

/// Names, levels, and the share of the pages that each can do in reasonable time.
const CODECS: &[(&str, Option<i32>, usize)] = &[
    ("zword", Some(1), 4),
    ("zword", Some(2), 16),
    ("lz4", None, 2),
    ("lzo-rle", None, 4),
    ("zstd", None, 8),
];

/// With zword at level 1 a write may take 35 % longer.
const BUDGET: f64 = 1.0 / 1.35;
const TABLE: &str = "checks";

/// Writes pages over others, with and without the check.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let mut table = Table::new("check_writes: write a page over another, melding off")
        .column(Column::text("codec"))
        .column(Column::count("pages"))
        .column(Column::number("off").key("off_ns"))
        .column(Column::number("on").key("on_ns"))
        .column(Column::ratio("on/off"))
        .column(Column::text("budget"));
    table.note("Nanoseconds a page; the ratio is of speeds.");
    for &(name, level, divisor) in CODECS {
        if !settings.codecs.is_empty() && !settings.codecs.iter().any(|codec| codec == name) {
            continue;
        }
        let codec = Codec::new(name, level, None).expect("the codec is built in");
        let count = (pages.count() / divisor).max(64).min(pages.count());
        let words = match level {
            Some(level) => format!("{name}:{level}"),
            None => name.to_owned(),
        };
        let mut series =
            ["off", "on"].map(|side| Runs::new(TABLE, format!("{words}: {side}"), count));
        let stores = [CheckWrites::Off, CheckWrites::On].map(|check| store(&codec, count, check));
        write_all(&stores, pages, count, 0);
        for round in 0..settings.rounds {
            progress(&format!("checks: {words}, round {}", round + 1));
            let spent = write_all(&stores, pages, count, round + 1);
            for (runs, ns) in series.iter_mut().zip(spent) {
                runs.runs_ns.push(ns);
            }
        }
        let [off, on] = &series;
        let ratio = on.times_faster_than(off);
        let budget = match level {
            Some(1) => results.budget("write with check_writes, zword level 1", BUDGET, ratio),
            _ => String::new(),
        };
        table.row(cells![
            words,
            count,
            off.page_ns(),
            on.page_ns(),
            ratio,
            budget
        ]);
        results.keep(series);
    }
    results.table(TABLE, table);
}

fn store(codec: &Codec, pages: usize, check_writes: CheckWrites) -> Store {
    let mut options = StoreOptions::new(pages as u64);
    options.mode = MeldMode::Off;
    options.streams = Some(1);
    options.check_writes = check_writes;
    Store::new(&options, codec).expect("there is memory for the store")
}

/// Gives each slot another page than the round before; nanoseconds of each store.
fn write_all(stores: &[Store; 2], pages: &Pages, count: usize, round: usize) -> Vec<f64> {
    let mut sides: Vec<Side> = stores
        .iter()
        .map(|store| -> Side {
            Box::new(|range| {
                for slot in range {
                    let page = pages.page((slot + round) % count);
                    let written = store.write(slot as u64, page);
                    written.expect("there is memory for the page");
                }
            })
        })
        .collect();
    in_turns(&mut sides, count, round)
}
