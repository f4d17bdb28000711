//! The store against the bare codec: what slots, pool and fingerprints cost.

use zmeld_report::{cells, Cell, Column, Table};
use zmeld_store::{page_size, Codec, MeldMode, Store, StoreOptions, Stream};

use crate::input::Pages;
use crate::results::Results;
use crate::runs::Runs;
use crate::timing::{in_turns, Side};
use crate::{progress, Settings};

/// Each with the share of the pages that it can do in reasonable time.
const CODECS: &[(&str, usize)] = &[
    ("lz4", 1),
    ("lzo", 4),
    ("lzo-rle", 4),
    ("zstd", 8),
    ("deflate", 32),
    ("lz4hc", 32),
];

/// The design's budget for unique pages with fingerprints.
const WRITE_BUDGET: f64 = 0.90;

const WRITE: &str = "write";
const REWRITE: &str = "rewrite";
const READ: &str = "read";
const SIDES: [&str; 3] = ["bare codec", "store, melding off", "store, fingerprints"];

/// Fills, rewrites and reads stores of unique pages with every codec.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let mut tables = [
        speed_table("Write a unique page: into an empty store, against the bare codec"),
        speed_table("Write a unique page: over another one, against the bare codec"),
        speed_table("Read a page, against the bare codec"),
    ];
    tables[0].note(
        "Speeds in MB of pages per second. The bare codec compresses into one buffer that stays \
         in the cache; the store also finds room, copies and, in an empty store, touches new memory.",
    );
    tables[2].note(
        "The bare codec decompresses all pages, also those that the store keeps raw and copies.",
    );
    let limit = copy_limit(settings, pages);
    for table in &mut tables {
        let row = cells!["memcpy, the limit", pages.count(), limit.mb_per_s()];
        table.row(row.into_iter().chain(vec![Cell::Empty; 5]));
    }
    results.keep([limit]);
    let chosen =
        |name: &str| settings.codecs.is_empty() || settings.codecs.iter().any(|c| c == name);
    for &(name, divisor) in CODECS.iter().filter(|(name, _)| chosen(name)) {
        let codec = Codec::new(name, None, None).expect("the codec is built in");
        let count = (pages.count() / divisor).max(64).min(pages.count());
        let mut series = [WRITE, REWRITE, READ]
            .map(|table| SIDES.map(|side| Runs::new(table, format!("{name}: {side}"), count)));
        for round in 0..settings.rounds {
            progress(&format!("codecs: {name}, round {}", round + 1));
            one_round(&codec, pages, count, round, &mut series);
        }
        for (at, series) in series.into_iter().enumerate() {
            add_row(&mut tables[at], at, name, &series, results);
            results.keep(series);
        }
    }
    let [write, rewrite, read] = tables;
    results.table(WRITE, write);
    results.table(REWRITE, rewrite);
    results.table(READ, read);
}

fn speed_table(title: &str) -> Table {
    Table::new(title)
        .column(Column::text("codec"))
        .column(Column::count("pages"))
        .column(Column::number("bare").key("bare_mb_per_s"))
        .column(Column::number("off").key("off_mb_per_s"))
        .column(Column::ratio("off/bare"))
        .column(Column::number("manual").key("manual_mb_per_s"))
        .column(Column::ratio("manual/bare"))
        .column(Column::text("budget"))
}

fn add_row(table: &mut Table, at: usize, name: &str, series: &[Runs; 3], results: &mut Results) {
    let [bare, off, manual] = series;
    let ratio = manual.times_faster_than(bare);
    let budget = match (at, name) {
        (0, "lz4") => results.budget("write a unique page, lz4, empty store", WRITE_BUDGET, ratio),
        (1, "lz4") => results.budget(
            "write a unique page, lz4, over another",
            WRITE_BUDGET,
            ratio,
        ),
        _ => String::new(),
    };
    table.row(cells![
        name,
        bare.pages,
        bare.mb_per_s(),
        off.mb_per_s(),
        off.times_faster_than(bare),
        manual.mb_per_s(),
        ratio,
        budget
    ]);
}

fn copy_limit(settings: &Settings, pages: &Pages) -> Runs {
    let mut runs = Runs::new("limit", "memcpy of a page", pages.count());
    let mut to = vec![0u8; page_size()];
    for round in 0..settings.rounds {
        let mut side: [Side; 1] = [Box::new(|range| {
            for index in range {
                to.copy_from_slice(pages.page(index));
                std::hint::black_box(&mut to);
            }
        })];
        runs.runs_ns
            .extend(in_turns(&mut side, pages.count(), round));
    }
    runs
}

fn store(codec: &Codec, pages: usize, mode: MeldMode) -> Store {
    let mut options = StoreOptions::new(pages as u64);
    options.mode = mode;
    options.streams = Some(1);
    Store::new(&options, codec).expect("there is memory for the store")
}

fn one_round(
    codec: &Codec,
    pages: &Pages,
    count: usize,
    round: usize,
    series: &mut [[Runs; 3]; 3],
) {
    let off = store(codec, count, MeldMode::Off);
    let manual = store(codec, count, MeldMode::Manual);
    let objects = Objects::compress(codec, pages, count);
    // Rewriting gives each slot its neighbour's page.
    for (table, shift) in [(0, 0), (1, 1)] {
        let mut stream = Stream::new(codec).expect("there is memory for a stream");
        let mut object = vec![0u8; 2 * page_size()];
        let page = |index: usize| pages.page((index + shift) % count);
        let mut sides: [Side; 3] = [
            Box::new(|range| {
                for index in range {
                    let size = stream.compress(page(index), &mut object);
                    std::hint::black_box(size.expect("twice the page is enough"));
                }
            }),
            Box::new(|range| write_range(&off, range, page)),
            Box::new(|range| write_range(&manual, range, page)),
        ];
        add(&mut series[table], in_turns(&mut sides, count, round));
    }
    let mut stream = Stream::new(codec).expect("there is memory for a stream");
    let mut buffers = [(); 3].map(|()| vec![0u8; page_size()]);
    let [first, second, third] = &mut buffers;
    let mut sides: [Side; 3] = [
        Box::new(|range| {
            for index in range {
                let object = objects.object((index + 1) % count);
                let back = stream.decompress(object, first);
                back.expect("what was compressed decompresses");
            }
        }),
        Box::new(|range| read_range(&off, range, second)),
        Box::new(|range| read_range(&manual, range, third)),
    ];
    add(&mut series[2], in_turns(&mut sides, count, round));
}

fn write_range<'a>(store: &Store, range: std::ops::Range<usize>, page: impl Fn(usize) -> &'a [u8]) {
    for index in range {
        let written = store.write(index as u64, page(index));
        written.expect("there is memory for the page");
    }
}

fn read_range(store: &Store, range: std::ops::Range<usize>, page: &mut [u8]) {
    for index in range {
        store.read(index as u64, page).expect("the page is whole");
        std::hint::black_box(&page);
    }
}

fn add(series: &mut [Runs; 3], spent: Vec<f64>) {
    for (runs, ns) in series.iter_mut().zip(spent) {
        runs.runs_ns.push(ns);
    }
}

/// Compressed pages, one behind the other.
struct Objects {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Objects {
    fn compress(codec: &Codec, pages: &Pages, count: usize) -> Objects {
        let mut stream = Stream::new(codec).expect("there is memory for a stream");
        let mut object = vec![0u8; 2 * page_size()];
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for index in 0..count {
            let size = stream
                .compress(pages.page(index), &mut object)
                .expect("twice the page is enough");
            bytes.extend_from_slice(&object[..size]);
            ends.push(bytes.len());
        }
        Objects { bytes, ends }
    }

    fn object(&self, index: usize) -> &[u8] {
        &self.bytes[self.ends[index]..self.ends[index + 1]]
    }
}
