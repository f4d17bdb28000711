//! The store against the bare codec: what slots, pool and fingerprints cost a write.

use zmeld_report::{cells, Column, Table};
use zmeld_store::{page_size, Codec, MeldMode, Stream};

use crate::input::Pages;
use crate::runs::Runs;
use crate::timing::{in_turns, Side};
use crate::{empty_store, progress, write, Settings};

const KINDS: [&str; 2] = ["into an empty store", "over another page"];

/// Writes unique pages into an empty store, then over others.
pub fn run(settings: &Settings, pages: &Pages) -> Table {
    let codec = Codec::new("lz4", None).expect("the codec is built in");
    let mut series = KINDS.map(|_| [(); 2].map(|()| Runs::new(pages.count())));
    for round in 0..settings.rounds {
        progress(&format!("writes: round {}", round + 1));
        let store = empty_store(&codec, pages.count(), MeldMode::Manual);
        // Rewriting gives each slot its neighbour's page.
        for (shift, series) in series.iter_mut().enumerate() {
            let mut stream = Stream::new(&codec).expect("there is memory for a stream");
            let mut object = vec![0u8; 2 * page_size()];
            let page = |slot: usize| pages.page((slot + shift) % pages.count());
            let mut sides: [Side; 2] = [
                Box::new(|range| {
                    for slot in range {
                        let size = stream.compress(page(slot), &mut object);
                        std::hint::black_box(size.expect("twice the page is enough"));
                    }
                }),
                Box::new(|range| range.for_each(|slot| write(&store, slot, page(slot)))),
            ];
            let spent = in_turns(&mut sides, pages.count(), round);
            for (runs, ns) in series.iter_mut().zip(spent) {
                runs.runs_ns.push(ns);
            }
        }
    }
    let mut table = Table::new("Write a unique page with its fingerprint, against bare lz4")
        .column(Column::text("where to"))
        .column(Column::number("bare"))
        .column(Column::number("store"))
        .column(Column::ratio("store/bare"));
    for (kind, series) in KINDS.iter().zip(series) {
        let [bare, store] = &series;
        table.row(cells![
            *kind,
            bare.mb_per_s(),
            store.mb_per_s(),
            store.times_faster_than(bare)
        ]);
    }
    table.note(
        "MB of pages per second. The bare codec compresses into one buffer that stays in the \
         cache; the store also finds room, copies and, in an empty store, touches new memory.",
    );
    table
}
