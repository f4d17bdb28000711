//! Fingerprints beside well-known hashes, and beside what every page goes
//! through anyway.

use xxhash_rust::xxh3::{xxh3_128, xxh3_64};
use xxhash_rust::xxh64::xxh64;
use zmeld_report::{cells, Column, Table, Unit};
use zmeld_store::{fill_word, page_size, FingerprintKey};

use crate::input::Pages;
use crate::results::Results;
use crate::runs::Runs;
use crate::timing::{in_turns, Side};
use crate::{progress, Settings};

const TABLE: &str = "hashes";
const NAMES: [&str; 6] = [
    "zmeld fingerprint",
    "xxh3-128",
    "xxh3-64",
    "xxh64",
    "same-filled check",
    "memcpy",
];

/// Hashes all pages in each way.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let key = FingerprintKey::new(&[7; 16]).expect("there is memory for a key");
    let mut series = NAMES.map(|name| Runs::new(TABLE, name, pages.count()));
    for round in 0..settings.rounds {
        progress(&format!("hashes: round {}", round + 1));
        let mut copy = vec![0u8; page_size()];
        let mut sides: [Side; 6] = [
            each(pages, |page| {
                std::hint::black_box(key.fingerprint(page));
            }),
            each(pages, |page| {
                std::hint::black_box(xxh3_128(page));
            }),
            each(pages, |page| {
                std::hint::black_box(xxh3_64(page));
            }),
            each(pages, |page| {
                std::hint::black_box(xxh64(page, 0));
            }),
            each(pages, |page| {
                std::hint::black_box(fill_word(page));
            }),
            each(pages, move |page| {
                copy.copy_from_slice(page);
                std::hint::black_box(&mut copy);
            }),
        ];
        let spent = in_turns(&mut sides, pages.count(), round);
        for (runs, ns) in series.iter_mut().zip(spent) {
            runs.runs_ns.push(ns);
        }
    }
    let mut table = Table::new("Hash all pages")
        .column(Column::text("hash"))
        .column(Column::nanoseconds("a page"))
        .column(Column::unit("pages", Unit::PerSecond("pages")))
        .column(Column::mb_per_s("speed"))
        .column(Column::ratio("against xxh3-128"));
    for runs in &series {
        table.row(cells![
            &runs.what,
            runs.page_ns(),
            1e9 / runs.page_ns(),
            runs.mb_per_s(),
            runs.times_faster_than(&series[1])
        ]);
    }
    table.note(
        "One thread. The fingerprint is keyed and uses no vector unit, as kernel code cannot \
         freely; xxh3 uses what this program was compiled for.",
    );
    results.table(TABLE, table);
    results.keep(series);
}

fn each<'a>(pages: &'a Pages, mut hash: impl FnMut(&[u8]) + 'a) -> Side<'a> {
    Box::new(move |range| {
        for index in range {
            hash(pages.page(index));
        }
    })
}
