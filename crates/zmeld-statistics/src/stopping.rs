//! When to stop repeating.
//!
//! Never because a difference has become significant: whoever looks often enough
//! sees one where there is none. Runs go on until the interval of every variant's
//! median is narrow enough, or the runs or the time are used up. Width depends
//! on the noise and not on who is ahead, though not wholly so in small samples;
//! `tests/statistics.rs` measures how often a winner is named where there is
//! none, with this rule in force.

use serde::{Deserialize, Serialize};

use crate::bootstrap::{median_interval, LEVEL};

/// When enough is enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StoppingRule {
    /// At least so many runs of each variant.
    pub runs_min: usize,
    /// At most so many.
    pub runs_max: usize,
    /// Enough when half the width of each median's interval (95 %) is at most this share of it.
    pub width: f64,
}

impl StoppingRule {
    /// Whether these variants have been run often enough. One of which every run, or none, was killed has an interval
    /// without width.
    pub fn is_enough<'a>(&self, variants: impl IntoIterator<Item = &'a [f64]>, seed: u64) -> bool {
        variants.into_iter().all(|values| {
            values.len() >= self.runs_max
                || values.len() >= self.runs_min && self.is_tight(values, seed)
        })
    }

    fn is_tight(&self, values: &[f64], seed: u64) -> bool {
        let interval = median_interval(values, LEVEL, seed);
        interval.low == interval.high || interval.relative_half_width() <= self.width
    }
}
