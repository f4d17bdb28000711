//! The runs of a measurement, their median, and how two of them compare.
#![allow(dead_code)] // Each benchmark uses its part.

use zmeld_report::statistics::sample::median;

#[derive(Clone)]
pub struct Runs {
    /// Pages that each run worked on.
    pages: usize,
    /// Nanoseconds of each run, in order.
    pub runs_ns: Vec<f64>,
}

impl Runs {
    pub fn new(pages: usize) -> Runs {
        Runs {
            pages,
            runs_ns: Vec::new(),
        }
    }

    pub fn median_ns(&self) -> f64 {
        median(&self.runs_ns)
    }

    /// The median speed, in megabytes of pages per second.
    pub fn mb_per_s(&self) -> f64 {
        (self.pages * zmeld_store::page_size()) as f64 * 1e3 / self.median_ns()
    }

    /// How many times faster than `other`: the median of each round's ratio.
    pub fn times_faster_than(&self, other: &Runs) -> f64 {
        let ratios: Vec<f64> = std::iter::zip(&other.runs_ns, &self.runs_ns)
            .map(|(other, own)| other / own)
            .collect();
        median(&ratios)
    }
}
