//! The merge pass: against compressing the same pages, and against the
//! published way to merge.

use zmeld_report::{cells, Column, Table};
use zmeld_statistics::sample::median;
use zmeld_store::{
    page_size, Codec, MeldMode, MeldOptions, MeldResult, Store, StoreOptions, Stream,
};

use crate::input::{order, Order, Pages};
use crate::published::Device;
use crate::results::Results;
use crate::runs::Runs;
use crate::timing::timed;
use crate::{progress, Settings};

/// A share of duplicates, and the threshold in thousandths below which the
/// pass ends after its sample.
struct Case {
    share: f64,
    threshold_permille: u32,
    budget: Option<f64>,
}

const CASES: &[Case] = &[
    Case {
        share: 0.0,
        threshold_permille: 5,
        budget: None,
    },
    Case {
        share: 0.0,
        threshold_permille: 0,
        budget: None,
    },
    Case {
        share: 0.01,
        threshold_permille: 0,
        budget: Some(300.0),
    },
    Case {
        share: 0.25,
        threshold_permille: 0,
        budget: Some(30.0),
    },
    Case {
        share: 0.50,
        threshold_permille: 0,
        budget: None,
    },
];

const TABLE: &str = "pass";

impl Case {
    fn name(&self) -> String {
        let percent = self.share * 100.0;
        match self.threshold_permille {
            0 => format!("{percent} %"),
            permille => format!("{percent} %, from {permille} ‰ on"),
        }
    }
}

struct Tables {
    pass: Table,
    published: Table,
    phases: Table,
}

/// Compresses, passes and merges at each share of duplicates.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let codec = Codec::new("lz4", None, None).expect("the codec is built in");
    let stored = StoredPages::new(&codec, pages);
    let mut tables = Tables::new();
    for case in CASES {
        let order = order(pages.count(), case.share, 1);
        let mut runs = Measured::new(case, pages.count());
        for round in 0..settings.rounds {
            progress(&format!(
                "pass: {} duplicates, round {}",
                case.name(),
                round + 1
            ));
            stored.one_round(case, &order, round, &mut runs);
        }
        tables.add(case, &order, &runs, results);
        results.keep([runs.compress, runs.pass, runs.published]);
    }
    let Tables {
        mut pass,
        mut published,
        mut phases,
    } = tables;
    pass.note(
        "All pages as lz4 stores them; the bytes of every pair are compared. After the first \
         round's pass every page was read back and compared. With \"from 5 ‰ on\" the pass ends \
         after its sample unless that promises as much.",
    );
    published.note(
        "One cell for each bucket, xxh64 of the stored bytes of every entry, counts in a tree, \
         bytes never compared. Faster than: against compressing; zmeld: the pass against this.",
    );
    phases.note("Wall-clock time by the pass's own clock, for each stored page, whole rounds.");
    results.table(TABLE, pass);
    results.table("published", published);
    results.table("phases", phases);
}

impl Tables {
    fn new() -> Tables {
        let first = |title: &str| Table::new(title).column(Column::text("duplicates"));
        Tables {
            pass: first("Merge pass against compressing the same pages with lz4")
                .column(Column::count("present"))
                .column(Column::count("found"))
                .column(Column::nanoseconds("compress"))
                .column(Column::nanoseconds("pass"))
                .column(Column::ratio("faster"))
                .column(Column::text("budget")),
            published: first("The published merge on the same pages")
                .column(Column::count("present"))
                .column(Column::count("found"))
                .column(Column::nanoseconds("merge"))
                .column(Column::ratio("faster than compressing"))
                .column(Column::ratio("zmeld faster")),
            phases: first("The pass by phases, time for a stored page")
                .column(Column::nanoseconds("sample"))
                .column(Column::nanoseconds("find, sort"))
                .column(Column::nanoseconds("meld"))
                .column(Column::nanoseconds("meld a duplicate"))
                .column(Column::bytes("borrowed")),
        }
    }

    fn add(&mut self, case: &Case, order: &Order, runs: &Measured, results: &mut Results) {
        let faster = runs.pass.times_faster_than(&runs.compress);
        let budget = case.budget.map(|least| {
            let what = format!("merge pass against compressing, {} duplicates", case.name());
            results.budget(what, least, faster)
        });
        let result = &runs.result;
        if case.threshold_permille == 0 {
            let found = result.pages_melded as f64 / order.duplicates.max(1) as f64;
            if order.duplicates > 0 {
                results.budget(format!("duplicates found, of {}", case.name()), 1.0, found);
            }
        }
        self.pass.row(cells![
            case.name(),
            order.duplicates,
            result.pages_melded,
            runs.compress.median_ns(),
            runs.pass.median_ns(),
            faster,
            budget.unwrap_or_default()
        ]);
        if case.threshold_permille == 0 {
            self.published.row(cells![
                case.name(),
                order.duplicates,
                runs.published_found,
                runs.published.median_ns(),
                runs.published.times_faster_than(&runs.compress),
                runs.pass.times_faster_than(&runs.published)
            ]);
        }
        let pages = result.pages_stored as f64;
        let [sample, find, meld] = [0, 1, 2].map(|at| {
            let values: Vec<f64> = runs.phases.iter().map(|phases| phases[at]).collect();
            median(&values)
        });
        let each = (order.duplicates > 0).then(|| meld / order.duplicates as f64);
        self.phases.row(cells![
            case.name(),
            sample / pages,
            find / pages,
            meld / pages,
            each,
            result.memory_borrowed
        ]);
    }
}

struct Measured {
    compress: Runs,
    pass: Runs,
    published: Runs,
    published_found: usize,
    phases: Vec<[f64; 3]>,
    result: MeldResult,
}

impl Measured {
    fn new(case: &Case, pages: usize) -> Measured {
        let runs = |what: &str| Runs::new(TABLE, format!("{}: {what}", case.name()), pages);
        Measured {
            compress: runs("compress"),
            pass: runs("pass"),
            published: runs("published merge"),
            published_found: 0,
            phases: Vec::new(),
            result: MeldResult::default(),
        }
    }
}

struct StoredPages<'a> {
    codec: &'a Codec,
    pages: &'a Pages,
    /// Each page as lz4 stores it.
    objects: Vec<Box<[u8]>>,
}

impl<'a> StoredPages<'a> {
    fn new(codec: &'a Codec, pages: &'a Pages) -> StoredPages<'a> {
        let mut stream = Stream::new(codec).expect("there is memory for a stream");
        let mut object = vec![0u8; 2 * page_size()];
        let objects = (0..pages.count())
            .map(|index| {
                let page = pages.page(index);
                match stream.compress(page, &mut object) {
                    Ok(size) if size < page_size() => Box::from(&object[..size]),
                    _ => Box::from(page),
                }
            })
            .collect();
        StoredPages {
            codec,
            pages,
            objects,
        }
    }

    fn one_round(&self, case: &Case, order: &Order, round: usize, runs: &mut Measured) {
        for turn in 0..3 {
            match (turn + round) % 3 {
                0 => runs.compress.runs_ns.push(self.compress(order)),
                1 => self.pass(case, order, round, runs),
                _ => self.published(order, round, runs),
            }
        }
    }

    fn compress(&self, order: &Order) -> f64 {
        let mut stream = Stream::new(self.codec).expect("there is memory for a stream");
        let mut object = vec![0u8; 2 * page_size()];
        let (ns, ()) = timed(|| {
            for &page in &order.pages {
                let size = stream.compress(self.pages.page(page), &mut object);
                std::hint::black_box(size.expect("twice the page is enough"));
            }
        });
        ns
    }

    fn pass(&self, case: &Case, order: &Order, round: usize, runs: &mut Measured) {
        let mut options = StoreOptions::new(order.pages.len() as u64);
        options.mode = MeldMode::Manual;
        options.streams = Some(1);
        let store = Store::new(&options, self.codec).expect("there is memory for the store");
        for (slot, &page) in order.pages.iter().enumerate() {
            let written = store.write(slot as u64, self.pages.page(page));
            written.expect("there is memory for the page");
        }
        let options = MeldOptions {
            threshold_permille: case.threshold_permille,
            ..MeldOptions::default()
        };
        let (ns, result) = timed(|| store.meld(&options).expect("there is memory for a pass"));
        runs.pass.runs_ns.push(ns);
        runs.phases.push([
            result.time_sample_ns as f64,
            result.time_find_ns as f64,
            result.time_meld_ns as f64,
        ]);
        runs.result = result;
        if round == 0 {
            self.verify(&store, order);
        }
    }

    fn verify(&self, store: &Store, order: &Order) {
        let mut back = vec![0u8; page_size()];
        for (slot, &page) in order.pages.iter().enumerate() {
            store
                .read(slot as u64, &mut back)
                .expect("the page is whole");
            assert!(
                back == self.pages.page(page),
                "slot {slot} reads other bytes"
            );
        }
    }

    fn published(&self, order: &Order, round: usize, runs: &mut Measured) {
        let objects = order.pages.iter().map(|&page| self.objects[page].clone());
        let mut device = Device::new(objects);
        let (ns, found) = timed(|| device.merge());
        runs.published.runs_ns.push(ns);
        runs.published_found = found;
        if round == 0 {
            let wrong = device.wrong(|slot| self.objects[order.pages[slot]].clone());
            assert_eq!(wrong, 0, "the published merge lost data");
        }
    }
}
