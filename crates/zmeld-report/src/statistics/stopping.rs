//! When to stop repeating.
//!
//! Never because a difference has become significant: whoever looks often enough
//! sees one where there is none. Runs go on until the interval of every variant's
//! median is narrow enough, or the runs or the time are used up. Width depends
//! on the noise and not on who is ahead, though not wholly so in small samples;
//! `tests/statistics.rs` measures how often a winner is named where there is
//! none, with this rule in force.

use serde::{Deserialize, Serialize};

use crate::statistics::bootstrap::{median_interval, LEVEL};

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The median of 1 and 3 is 2, give or take 1.
    #[test]
    fn runs_end_at_their_number_or_at_their_width() {
        for (runs_min, runs_max, width, values, is_enough) in [
            (2, 9, 0.5, &[1.0, 3.0][..], true),
            (2, 9, 0.49, &[1.0, 3.0], false),
            (3, 9, 0.5, &[1.0, 3.0], false),
            (2, 2, 0.0, &[1.0, 3.0], true),
            (2, 3, 0.0, &[1.0, 3.0], false),
            (2, 9, 0.0, &[f64::INFINITY; 2], true),
            (1, 9, 9.0, &[1.0], false),
        ] {
            let rule = StoppingRule {
                runs_min,
                runs_max,
                width,
            };
            assert_eq!(
                rule.is_enough([values], 1),
                is_enough,
                "{rule:?} {values:?}"
            );
            // Each has to have enough.
            assert!(!rule.is_enough([values, &[]], 1));
        }
    }
}
