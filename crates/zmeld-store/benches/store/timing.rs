//! Time that a thread spent computing, sides that take turns, and medians.
//!
//! Sides are compared chunk by chunk, each chunk by all sides one after the
//! other, in an order that rotates: what disturbs the machine for a moment then
//! disturbs all of them. The clock is the thread's own, so that time in which
//! another program had the processor does not count; where threads are what is
//! measured, the clock is the wall's, and the tables say so.

use std::ops::Range;
use std::time::Duration;

use nix::time::{clock_gettime, ClockId};
use serde::Serialize;

/// Pages that one side works on before it is the next one's turn: 1 MiB.
const CHUNK: usize = 256;

/// How long this thread has been computing.
pub fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    Duration::from(now)
}

/// Nanoseconds of this thread that `work` takes, and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = thread_time();
    let result = work();
    ((thread_time() - started).as_nanos() as f64, result)
}

/// One of the things that are compared: works on the pages of a range.
pub type Side<'a> = Box<dyn FnMut(Range<usize>) + 'a>;

/// Lets all sides work on `pages` pages in turns; nanoseconds of each.
pub fn in_turns(sides: &mut [Side], pages: usize, round: usize) -> Vec<f64> {
    let mut spent = vec![0.0; sides.len()];
    for (chunk, start) in (0..pages).step_by(CHUNK).enumerate() {
        let range = start..(start + CHUNK).min(pages);
        for turn in 0..sides.len() {
            let at = (turn + chunk + round) % sides.len();
            spent[at] += timed(|| sides[at](range.clone())).0;
        }
    }
    spent
}

/// All runs of one measurement.
#[derive(Clone, Serialize)]
pub struct Runs {
    /// Which table they belong to.
    pub table: &'static str,
    /// What was measured.
    pub what: String,
    /// Pages that each run worked on.
    pub pages: usize,
    /// Nanoseconds of each run, in order.
    pub runs_ns: Vec<f64>,
}

impl Runs {
    /// No runs yet.
    pub fn new(table: &'static str, what: impl Into<String>, pages: usize) -> Runs {
        Runs {
            table,
            what: what.into(),
            pages,
            runs_ns: Vec::new(),
        }
    }

    /// The median run, in nanoseconds.
    pub fn median_ns(&self) -> f64 {
        median(&self.runs_ns)
    }

    /// The median speed, in megabytes of pages per second.
    pub fn mb_per_s(&self) -> f64 {
        (self.pages * zmeld_store::page_size()) as f64 * 1e3 / self.median_ns()
    }

    /// The median time of a page, in nanoseconds.
    pub fn page_ns(&self) -> f64 {
        self.median_ns() / self.pages as f64
    }

    /// How many times faster than `other`: the median of each round's ratio.
    pub fn times_faster_than(&self, other: &Runs) -> f64 {
        let ratios: Vec<f64> = std::iter::zip(&other.runs_ns, &self.runs_ns)
            .map(|(other, own)| other / own)
            .collect();
        median(&ratios)
    }
}

/// The middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}
