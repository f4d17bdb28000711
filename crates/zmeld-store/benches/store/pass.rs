//! The merge pass against compressing the same pages.

use zmeld_report::{cells, Column, Table};
use zmeld_store::{page_size, Codec, MeldMode, MeldResult, Store, Stream};

use crate::input::{order, Order, Pages};
use crate::runs::Runs;
use crate::timing::timed;
use crate::{empty_store, progress, write, Settings};

/// Of duplicates.
const SHARES: [f64; 2] = [0.01, 0.25];

/// Compresses and passes at each share of duplicates.
pub fn run(settings: &Settings, pages: &Pages) -> Table {
    let codec = Codec::new("lz4", None).expect("the codec is built in");
    let mut table = Table::new("Merge pass against compressing the same pages with lz4")
        .column(Column::text("duplicates"))
        .column(Column::count("present"))
        .column(Column::count("found"))
        .column(Column::nanoseconds("compress"))
        .column(Column::nanoseconds("pass"))
        .column(Column::ratio("faster"))
        .column(Column::bytes("borrowed"));
    for share in SHARES {
        let name = format!("{} %", share * 100.0);
        let order = order(pages.count(), share, 1);
        let mut series = [(); 2].map(|()| Runs::new(pages.count()));
        let mut result = MeldResult::default();
        for round in 0..settings.rounds {
            progress(&format!("pass: {name} duplicates, round {}", round + 1));
            for turn in 0..2 {
                let side = (turn + round) % 2;
                let ns = if side == 0 {
                    compress(&codec, pages, &order)
                } else {
                    let (ns, found) = pass(&codec, pages, &order, round == 0);
                    result = found;
                    ns
                };
                series[side].runs_ns.push(ns);
            }
        }
        let [compress, pass] = &series;
        table.row(cells![
            name,
            order.duplicates,
            result.pages_melded,
            compress.median_ns(),
            pass.median_ns(),
            pass.times_faster_than(compress),
            result.memory_borrowed
        ]);
    }
    table.note(
        "All pages as lz4 stores them; the bytes of every pair are compared. After the first \
         round's pass every page was read back and compared.",
    );
    table
}

fn compress(codec: &Codec, pages: &Pages, order: &Order) -> f64 {
    let mut stream = Stream::new(codec).expect("there is memory for a stream");
    let mut object = vec![0u8; 2 * page_size()];
    let (ns, ()) = timed(|| {
        for &page in &order.pages {
            let size = stream.compress(pages.page(page), &mut object);
            std::hint::black_box(size.expect("twice the page is enough"));
        }
    });
    ns
}

fn pass(codec: &Codec, pages: &Pages, order: &Order, is_verified: bool) -> (f64, MeldResult) {
    let store = empty_store(codec, order.pages.len(), MeldMode::Manual);
    for (slot, &page) in order.pages.iter().enumerate() {
        write(&store, slot, pages.page(page));
    }
    let passed = timed(|| store.meld().expect("there is memory for a pass"));
    if is_verified {
        verify(&store, pages, order);
    }
    passed
}

fn verify(store: &Store, pages: &Pages, order: &Order) {
    let mut back = vec![0u8; page_size()];
    for (slot, &page) in order.pages.iter().enumerate() {
        let read = store.read(slot as u64, &mut back);
        read.expect("the page is whole");
        assert!(back == pages.page(page), "slot {slot} reads other bytes");
    }
}
