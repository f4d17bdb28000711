//! Inline melding against plain writes, and whether auto mode chooses well.

use zmeld_report::{cells, Column, Table};
use zmeld_store::{Codec, MeldMode, Store, StoreOptions};

use crate::input::{order, Pages};
use crate::results::Results;
use crate::runs::Runs;
use crate::timing::{in_turns, Side};
use crate::{progress, Settings};

const SHARES: &[f64] = &[0.0, 0.25, 0.50];
const MODES: [MeldMode; 3] = [MeldMode::Manual, MeldMode::Inline, MeldMode::Auto];
const TABLE: &str = "inline";

/// Writes that auto mode sees before it is measured: it decides every 4096
/// look-ups, and one page in 16 is looked up while it is off.
const WARM_UP_WRITES: usize = 3 * 4096 * 16;

/// Writes in manual, inline and auto mode at each share of duplicates.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let codec = Codec::new("lz4", None, None).expect("the codec is built in");
    let mut table = Table::new("Inline melding against plain writes, lz4")
        .column(Column::text("duplicates"))
        .column(Column::number("manual").key("manual_mb_per_s"))
        .column(Column::number("inline").key("inline_mb_per_s"))
        .column(Column::ratio("inline/manual"))
        .column(Column::percent("hit rate"))
        .column(Column::number("auto").key("auto_mb_per_s"))
        .column(Column::ratio("auto/manual"))
        .column(Column::text("auto is"));
    for &share in SHARES {
        let name = format!("{} %", share * 100.0);
        let stores = MODES.map(|mode| store(&codec, pages.count(), mode));
        progress(&format!("inline: {name} duplicates, warming up"));
        for seed in 0..WARM_UP_WRITES.div_ceil(pages.count()) {
            fill(&stores[2], pages, share, 100 + seed as u64);
        }
        let mut series =
            MODES.map(|mode| Runs::new(TABLE, format!("{name}: {}", mode.name()), pages.count()));
        let (mut writes, mut hits) = (0, 0);
        for round in 0..settings.rounds {
            progress(&format!("inline: {name} duplicates, round {}", round + 1));
            let order = order(pages.count(), share, round as u64);
            let before = stores[1].stats();
            one_round(&stores, pages, &order.pages, round, &mut series);
            let after = stores[1].stats();
            writes += after.writes - before.writes;
            hits += after.inline_melded - before.inline_melded;
        }
        let auto = stores[2].stats();
        let [manual, inline, automatic] = &series;
        table.row(cells![
            name,
            manual.mb_per_s(),
            inline.mb_per_s(),
            inline.times_faster_than(manual),
            hits as f64 / writes as f64,
            automatic.mb_per_s(),
            automatic.times_faster_than(manual),
            if auto.inline_active == 1 { "on" } else { "off" }
        ]);
        results.keep(series);
    }
    table.note(
        "Speeds in MB of pages per second. Each round discards everything and writes the pages in \
         another order. Auto had its time to decide before it was measured. The kernel module's \
         budget (1.4 at 50 %) is for the module, and stands here for comparison only.",
    );
    results.table(TABLE, table);
}

fn store(codec: &Codec, pages: usize, mode: MeldMode) -> Store {
    let mut options = StoreOptions::new(pages as u64);
    options.mode = mode;
    options.streams = Some(1);
    Store::new(&options, codec).expect("there is memory for the store")
}

fn discard_all(store: &Store, pages: usize) {
    for slot in 0..pages {
        store.discard(slot as u64);
    }
}

fn write(store: &Store, slot: usize, page: &[u8]) {
    let written = store.write(slot as u64, page);
    written.expect("there is memory for the page");
}

fn fill(store: &Store, pages: &Pages, share: f64, seed: u64) {
    discard_all(store, pages.count());
    let order = order(pages.count(), share, seed);
    for (slot, &page) in order.pages.iter().enumerate() {
        write(store, slot, pages.page(page));
    }
}

fn one_round(
    stores: &[Store; 3],
    pages: &Pages,
    order: &[usize],
    round: usize,
    series: &mut [Runs; 3],
) {
    for store in stores {
        discard_all(store, order.len());
    }
    let mut sides: Vec<Side> = stores
        .iter()
        .map(|store| -> Side {
            Box::new(|range| {
                for slot in range {
                    write(store, slot, pages.page(order[slot]));
                }
            })
        })
        .collect();
    let spent = in_turns(&mut sides, order.len(), round);
    for (runs, ns) in series.iter_mut().zip(spent) {
        runs.runs_ns.push(ns);
    }
}
