//! Memory and swap over time, a bounded number of samples for a run of any
//! length: when there are too many, every second one goes and the distance
//! doubles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Use at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Sample {
    /// Since the run began.
    pub at_s: f64,
    /// The group's memory.
    pub memory_bytes: u64,
    /// The group's pages in swap, before compression.
    pub swap_bytes: u64,
    /// RAM that the variant's compressed devices and zswap take.
    pub store_bytes: u64,
    /// Available memory, as the kernel says.
    pub available_bytes: u64,
}

/// Samples at equal distances.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Series {
    /// The distance between two.
    pub every_s: f64,
    /// In order.
    pub samples: Vec<Sample>,
}

const SAMPLES_MAX: usize = 200;
/// The distance to begin with.
pub const EVERY: Duration = Duration::from_millis(100);

impl Default for Series {
    fn default() -> Self {
        Series {
            every_s: EVERY.as_secs_f64(),
            samples: Vec::new(),
        }
    }
}

impl Series {
    /// Whether the next sample is due. Whoever asks comes by every [`EVERY`]: what
    /// is nearer to now than to the next time is due now.
    pub fn is_due(&self, at_s: f64) -> bool {
        let slack_s = EVERY.as_secs_f64() / 2.0;
        self.samples
            .last()
            .is_none_or(|last| at_s - last.at_s >= self.every_s - slack_s)
    }

    /// Mean use over the second half of the run: by then the workload's initial data
    /// are there. None without a sample.
    pub fn figures(&self) -> Vec<(String, f64)> {
        let half = self.samples.last().map_or(0.0, |last| last.at_s / 2.0);
        let late: Vec<&Sample> = self.samples.iter().filter(|it| it.at_s >= half).collect();
        let mean = |get: fn(&Sample) -> u64| {
            let sum: f64 = late.iter().map(|sample| get(sample) as f64).sum();
            sum / late.len() as f64
        };
        if late.is_empty() {
            return Vec::new();
        }
        vec![
            ("memory_mean_bytes".to_owned(), mean(|it| it.memory_bytes)),
            (
                "taken_mean_bytes".to_owned(),
                mean(|it| it.memory_bytes + it.store_bytes),
            ),
        ]
    }

    /// Adds a sample that is due.
    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample);
        if self.samples.len() > SAMPLES_MAX {
            let mut at = 0;
            self.samples.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every_s *= 2.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_the_mean_of_the_second_half() {
        let mut series = Series::default();
        assert!(series.figures().is_empty());
        for (at_s, memory_bytes, store_bytes) in [(0.0, 9, 0), (1.0, 7, 1), (2.0, 5, 3)] {
            series.push(Sample {
                at_s,
                memory_bytes,
                store_bytes,
                ..Sample::default()
            });
        }
        let named = |name: &str| {
            let figures = series.figures();
            figures.into_iter().find(|it| it.0 == name).unwrap().1
        };
        assert_eq!(named("memory_mean_bytes"), 6.0);
        assert_eq!(named("taken_mean_bytes"), 8.0);
    }

    #[test]
    fn a_long_run_has_as_few_samples_as_a_short_one() {
        let mut series = Series::default();
        for tick in 0..100_000 {
            let at_s = f64::from(tick) * 0.1;
            if series.is_due(at_s) {
                series.push(Sample {
                    at_s,
                    ..Sample::default()
                });
            }
        }
        assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&series.samples.len()));
        let distances = series
            .samples
            .windows(2)
            .map(|two| two[1].at_s - two[0].at_s);
        assert!(distances
            .into_iter()
            .all(|d| (d - series.every_s).abs() < 0.11));
        assert!(series.samples.last().unwrap().at_s > 9000.0);
    }
}
