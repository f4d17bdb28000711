//! Writes and reads by several threads, without and with a pass beside them.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use zmeld_report::{cells, Column, Table};
use zmeld_store::{page_size, Codec, MeldMode, MeldOptions, Store, StoreError, StoreOptions};

use crate::input::{order, Pages};
use crate::results::Results;
use crate::runs::Runs;
use crate::{progress, Settings};

const TABLE: &str = "threads";
const SHARE: f64 = 0.25;

/// From one thread to as many as there are processors.
pub fn run(settings: &Settings, pages: &Pages, results: &mut Results) {
    let codec = Codec::new("lz4", None, None).expect("the codec is built in");
    let order = order(pages.count(), SHARE, 1).pages;
    let threads_max = thread::available_parallelism().map_or(1, usize::from);
    let mut table = Table::new("Threads on one store, lz4, 25 % duplicates")
        .column(Column::count("threads"))
        .column(Column::number("write").key("write_mb_per_s"))
        .column(Column::ratio("scaling").key("write_scaling"))
        .column(Column::number("read").key("read_mb_per_s"))
        .column(Column::ratio("scaling").key("read_scaling"))
        .column(Column::number("write beside a pass").key("write_beside_pass_mb_per_s"))
        .column(Column::ratio("beside/alone"))
        .column(Column::count("passes"));
    let counts: Vec<usize> = (1..=threads_max).collect();
    let mut series: Vec<[Runs; 3]> = counts
        .iter()
        .map(|threads| {
            ["write", "read", "write beside a pass"]
                .map(|what| Runs::new(TABLE, format!("{threads} threads: {what}"), order.len()))
        })
        .collect();
    let mut passes = vec![0; counts.len()];
    for round in 0..settings.rounds {
        for turn in 0..counts.len() {
            let at = (turn + round) % counts.len();
            let threads = counts[at];
            progress(&format!("threads: {threads}, round {}", round + 1));
            let filled = FilledStore::new(&codec, pages, &order, threads);
            series[at][0].runs_ns.push(filled.write());
            series[at][1].runs_ns.push(filled.read());
            let (ns, done) = filled.write_beside_passes();
            series[at][2].runs_ns.push(ns);
            passes[at] += done;
        }
    }
    for (at, &threads) in counts.iter().enumerate() {
        let [write, read, beside] = &series[at];
        table.row(cells![
            threads,
            write.mb_per_s(),
            write.times_faster_than(&series[0][0]),
            read.mb_per_s(),
            read.times_faster_than(&series[0][1]),
            beside.mb_per_s(),
            beside.times_faster_than(write),
            passes[at] as u64
        ]);
    }
    table.note(
        "MB of pages per second of wall-clock time, all threads together; writes go over earlier \
         pages. The pass runs again and again in a thread of its own, on the same processors.",
    );
    results.table(TABLE, table);
    for runs in series {
        results.keep(runs);
    }
}

struct FilledStore<'a> {
    store: Store,
    pages: &'a Pages,
    order: &'a [usize],
    threads: usize,
}

impl<'a> FilledStore<'a> {
    /// A store that holds all pages.
    fn new(codec: &Codec, pages: &'a Pages, order: &'a [usize], threads: usize) -> FilledStore<'a> {
        let mut options = StoreOptions::new(order.len() as u64);
        options.mode = MeldMode::Manual;
        let store = Store::new(&options, codec).expect("there is memory for the store");
        let filled = FilledStore {
            store,
            pages,
            order,
            threads,
        };
        filled.write_range(0..order.len(), 0);
        filled
    }

    fn write_range(&self, range: Range<usize>, shift: usize) {
        for slot in range {
            let page = self
                .pages
                .page(self.order[(slot + shift) % self.order.len()]);
            let written = self.store.write(slot as u64, page);
            written.expect("there is memory for the page");
        }
    }

    fn write(&self) -> f64 {
        self.all_threads(|range| self.write_range(range, 1))
    }

    fn read(&self) -> f64 {
        self.all_threads(|range| {
            let mut page = vec![0u8; page_size()];
            for slot in range {
                let read = self.store.read(slot as u64, &mut page);
                read.expect("the page is whole");
            }
        })
    }

    fn write_beside_passes(&self) -> (f64, usize) {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let passes = scope.spawn(|| {
                let mut done = 0;
                while !over.load(Ordering::Relaxed) {
                    match self.store.meld(&MeldOptions::default()) {
                        Ok(result) => done += usize::from(!result.stopped),
                        Err(StoreError::Busy) => {}
                        Err(error) => panic!("a pass failed: {error}"),
                    }
                }
                done
            });
            let ns = self.all_threads(|range| self.write_range(range, 2));
            over.store(true, Ordering::Relaxed);
            self.store.stop_meld();
            (ns, passes.join().expect("the pass ends"))
        })
    }

    /// Wall-clock nanoseconds until every thread has done its part.
    fn all_threads(&self, work: impl Fn(Range<usize>) + Sync) -> f64 {
        let part = self.order.len().div_ceil(self.threads);
        let start = Barrier::new(self.threads + 1);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads)
                .map(|number| {
                    let (work, start) = (&work, &start);
                    let range = number * part..((number + 1) * part).min(self.order.len());
                    scope.spawn(move || {
                        start.wait();
                        work(range);
                    })
                })
                .collect();
            start.wait();
            let started = Instant::now();
            for worker in workers {
                worker.join().expect("a worker ends");
            }
            started.elapsed().as_nanos() as f64
        })
    }
}
