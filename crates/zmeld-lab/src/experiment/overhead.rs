//! What the harness itself costs: a workload alone and under the harness without
//! a limit, in turn, each pair in an order drawn anew.
//!
//! Alone, the same process starts it, waits, and asks what it used; there is no
//! control group, no launcher and nothing that looks at it meanwhile.

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::error::Error;
use crate::limit::Group;
use crate::measure::supervise::SupervisorRequest;
use crate::measure::{HostFacts, Usage, WorkloadEnd};
use crate::recipe::Case;
use crate::workload::Workload;
use zmeld_statistics::bootstrap::{median_interval, LEVEL};
use zmeld_statistics::sample::median;
use zmeld_statistics::stopping::StoppingRule;
use zmeld_statistics::Interval;

use super::result::Outcome;
use super::{run, Lab};

/// The schema of an [`Overhead`] as JSON, and its version.
pub const SCHEMA: (&str, u32) = ("zmeld.bench.overhead", 1);

/// The cost that the harness is meant to stay below, as a share.
pub const BUDGET: f64 = 0.01;

/// Half the width of the interval at which no more pairs are run.
const WIDTH: f64 = 0.003;
/// Pairs that are run whatever the interval.
const PAIRS_MIN: usize = 11;

/// A workload run alone and under the harness, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OverheadPair {
    /// Alone.
    pub alone: Usage,
    /// Under the harness.
    pub harness: Usage,
    /// Whether it ran alone first.
    pub alone_first: bool,
}

/// What the harness costs.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Overhead {
    /// The workload and its data, in words.
    pub workload: String,
    /// Where the orders and the intervals start.
    pub seed: u64,
    /// The machine.
    pub machine: HostFacts,
    /// Every pair, without the first, which warms up.
    pub pairs: Vec<OverheadPair>,
    /// Time from start to end under the harness over that alone: the median of the pairs' ratios with its interval
    /// at 95 %.
    pub elapsed: Interval,
    /// The same for processor time, which others' work on the machine disturbs less.
    pub processor: Interval,
    /// Seconds by which a run takes longer, the median of the pairs with its interval at 95 %.
    pub added_s: Interval,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
}

/// What may be said of a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CostVerdict {
    /// The whole interval lies below the budget.
    Within,
    /// The whole interval lies above.
    Above,
    /// The budget lies within the interval: too noisy, or too few pairs.
    Unclear,
}

/// Whether a ratio of times is within the budget.
pub fn cost(ratio: &Interval) -> CostVerdict {
    match (ratio.low, ratio.high) {
        (_, high) if high <= 1.0 + BUDGET => CostVerdict::Within,
        (low, _) if low > 1.0 + BUDGET => CostVerdict::Above,
        _ => CostVerdict::Unclear,
    }
}

fn processor_s(usage: &Usage) -> f64 {
    usage.user_s + usage.system_s
}

impl Overhead {
    fn judge(&mut self) {
        let of = |pairs: &[OverheadPair], get: &dyn Fn(&OverheadPair) -> f64| {
            let values: Vec<f64> = pairs.iter().map(get).collect();
            median_interval(&values, LEVEL, self.seed)
        };
        let (elapsed, processor, added) = (
            of(&self.pairs, &|pair| {
                pair.harness.elapsed_s / pair.alone.elapsed_s
            }),
            of(&self.pairs, &|pair| {
                processor_s(&pair.harness) / processor_s(&pair.alone)
            }),
            of(&self.pairs, &|pair| {
                pair.harness.elapsed_s - pair.alone.elapsed_s
            }),
        );
        (self.elapsed, self.processor, self.added_s) = (elapsed, processor, added);
    }

    /// Medians of both: elapsed and processor time alone, then under the harness, seconds.
    pub fn medians(&self) -> [(f64, f64); 2] {
        let of = |get: &dyn Fn(&OverheadPair) -> Usage| {
            let usages: Vec<Usage> = self.pairs.iter().map(get).collect();
            let elapsed: Vec<f64> = usages.iter().map(|usage| usage.elapsed_s).collect();
            let processor: Vec<f64> = usages.iter().map(processor_s).collect();
            (median(&elapsed), median(&processor))
        };
        [of(&|pair| pair.alone), of(&|pair| pair.harness)]
    }
}

impl Lab<'_> {
    /// Runs pairs until the interval is narrow or there are `pairs_max`.
    pub(super) fn overhead(
        &mut self,
        workload: &Workload,
        machine: HostFacts,
        pairs_max: usize,
    ) -> Result<Overhead, Error> {
        let nothing = Interval {
            value: f64::NAN,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        };
        let mut overhead = Overhead {
            workload: workload.describe(),
            seed: self.settings.seed,
            machine,
            pairs: Vec::new(),
            elapsed: nothing,
            processor: nothing,
            added_s: nothing,
            interrupted: false,
        };
        let rule = StoppingRule {
            runs_min: PAIRS_MIN.min(pairs_max),
            runs_max: pairs_max,
            width: WIDTH,
        };
        let mut random = ChaCha8Rng::seed_from_u64(self.settings.seed);
        let mut ratios: Vec<f64> = Vec::new();
        let mut warm = false;
        while !rule.is_enough([ratios.as_slice()], self.settings.seed) {
            let alone_first: bool = random.random();
            let mut two = [None, None];
            for turn in [!alone_first, alone_first] {
                let name = if turn { "under the harness" } else { "alone" };
                self.announce_pair(name, overhead.pairs.len(), pairs_max);
                let Some(usage) = self.one_run(workload, turn)? else {
                    overhead.interrupted = true;
                    return Ok(overhead);
                };
                two[usize::from(turn)] = Some(usage);
            }
            // The first pair finds the program and its files on the disk.
            if let (true, [Some(alone), Some(harness)]) = (std::mem::replace(&mut warm, true), two)
            {
                overhead.pairs.push(OverheadPair {
                    alone,
                    harness,
                    alone_first,
                });
                ratios.push(harness.elapsed_s / alone.elapsed_s);
                overhead.judge();
            }
        }
        Ok(overhead)
    }

    fn announce_pair(&mut self, arm: &str, done: usize, of: usize) {
        (self.listener)(super::Event::Begins {
            case: "overhead",
            arm,
            done,
            of,
            left: None,
        });
    }

    /// What one run used; nothing after Ctrl-C.
    fn one_run(&mut self, workload: &Workload, harness: bool) -> Result<Option<Usage>, Error> {
        let ended = if harness {
            let case = Case {
                name: "overhead".to_owned(),
                workload: workload.clone(),
                full: None,
                limit: None,
                full_limit: None,
                counts_store: false,
                machine: None,
                huge_pages: true,
                arms: Vec::new(),
            };
            let group = Group::create(&self.hierarchy, "run")?;
            let measured = self.supervised(&case, f64::INFINITY, &group, None, &[])?;
            match measured.outcome {
                Outcome::Stopped => return Ok(None),
                Outcome::Finished => measured.ended,
                other => return Err(failed(workload, &format!("{other:?}"))),
            }
        } else {
            self.run_alone(workload)?
        };
        if self.stopped() {
            return Ok(None);
        }
        match ended.code {
            Some(0) => Ok(Some(ended.usage)),
            code => Err(failed(workload, &format!("it ended with code {code:?}"))),
        }
    }

    /// The workload as the supervisor's own child, with nothing around it.
    fn run_alone(&mut self, workload: &Workload) -> Result<WorkloadEnd, Error> {
        let request = SupervisorRequest {
            world: None,
            parent: std::process::id(),
            launcher: Vec::new(),
            joins: Vec::new(),
            huge_pages: true,
            command: self.command(workload)?,
            stdout: self.folder.path().join("stdout"),
            stderr: self.folder.path().join("stderr"),
        };
        run::report(self.supervisor(&request)?)
    }
}

fn failed(workload: &Workload, why: &str) -> Error {
    Error::Workload {
        what: format!("{}: {why}", workload.describe()),
        integrity: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overhead(factor: f64, noise: f64) -> Overhead {
        let usage = |elapsed_s| Usage {
            elapsed_s,
            user_s: elapsed_s,
            ..Usage::default()
        };
        let pairs = (0..21)
            .map(|at| OverheadPair {
                alone: usage(1.0),
                harness: usage(factor + noise * f64::from(at - 10) / 10.0),
                alone_first: at % 2 == 0,
            })
            .collect();
        let nothing = Interval {
            value: 0.0,
            low: 0.0,
            high: 0.0,
        };
        let mut overhead = Overhead {
            workload: String::new(),
            seed: 1,
            machine: HostFacts::here(2),
            pairs,
            elapsed: nothing,
            processor: nothing,
            added_s: nothing,
            interrupted: false,
        };
        overhead.judge();
        overhead
    }

    #[test]
    fn a_cost_is_told_from_none_and_from_noise() {
        assert_eq!(cost(&overhead(1.003, 0.004).elapsed), CostVerdict::Within);
        let dear = overhead(1.05, 0.004);
        assert_eq!(cost(&dear.elapsed), CostVerdict::Above);
        assert!((dear.added_s.value - 0.05).abs() < 1e-9);
        assert_eq!(cost(&overhead(1.01, 0.1).processor), CostVerdict::Unclear);
    }
}
