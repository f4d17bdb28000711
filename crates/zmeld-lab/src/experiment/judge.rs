//! From runs to verdicts, within an experiment and between two.

use crate::error::Error;
use crate::recipe::Metric;
use zmeld_statistics::verdict::{self, ArmRuns, Judgement};

use super::result::{CaseJudgement, Experiment, MetricJudgement, Outcome, Run};

fn runs_of<'a>(arm: &str, runs: impl Iterator<Item = &'a Run>) -> ArmRuns {
    runs_with(arm, runs, |run| run.value)
}

fn runs_with<'a>(
    arm: &str,
    runs: impl Iterator<Item = &'a Run>,
    value: impl Fn(&Run) -> f64,
) -> ArmRuns {
    let runs: Vec<&Run> = runs.collect();
    ArmRuns {
        arm: arm.to_owned(),
        values: runs.iter().map(|run| value(run)).collect(),
        unfinished: runs
            .iter()
            .filter(|run| run.outcome != Outcome::Finished)
            .count(),
        pressure: runs.iter().any(|run| run.was_pressed()),
    }
}

impl Experiment {
    /// Computes the verdicts anew.
    pub fn judge(&mut self) {
        let direction = self.recipe.metric.better;
        self.judgements = self
            .cases
            .iter()
            .map(|facts| {
                let runs: Vec<ArmRuns> = self
                    .arms_of(&facts.case)
                    .into_iter()
                    .map(|arm| runs_of(arm, self.counted(&facts.case, arm)))
                    .filter(|runs| !runs.values.is_empty())
                    .collect();
                let (unlimited, arms): (Vec<ArmRuns>, Vec<ArmRuns>) = runs
                    .into_iter()
                    .partition(|runs| self.is_unlimited(&runs.arm));
                let alone = verdict::judge(&unlimited, direction, self.seed);
                let mut judgement = verdict::judge(&arms, direction, self.seed);
                if facts.is_emulated() {
                    judgement.without_times();
                }
                CaseJudgement {
                    also: self.judged_besides(&facts.case),
                    case: facts.case.clone(),
                    judgement,
                    baseline: alone.arms.into_iter().next(),
                }
            })
            .collect();
    }

    /// The recipe's further metrics, each by itself.
    fn judged_besides(&self, case: &str) -> Vec<MetricJudgement> {
        let judged = |metric: &Metric| {
            let value = |run: &Run| match run.outcome {
                Outcome::Finished => run.figures.get(&metric.name).copied(),
                _ => None,
            };
            let arms = self.arms_of(case).into_iter();
            let arms = arms.filter(|arm| !self.is_unlimited(arm));
            let runs = arms.map(|arm| {
                runs_with(arm, self.counted(case, arm), |run| {
                    value(run).unwrap_or_else(|| metric.better.worst())
                })
            });
            let runs: Vec<ArmRuns> = runs.filter(|runs| !runs.values.is_empty()).collect();
            MetricJudgement {
                metric: metric.clone(),
                judgement: verdict::judge(&runs, metric.better, self.seed),
            }
        };
        self.recipe.also.iter().map(judged).collect()
    }
}

/// The same arm of the same case in two experiments.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ArmPair {
    /// The case.
    pub case: String,
    /// The arm.
    pub arm: String,
    /// The first against the second; they are called `A` and `B`.
    pub judgement: Judgement,
}

/// Compares two experiments, arm by arm. The runs were not interleaved: what differs may be the arms, or the machine,
/// or the hour; the caller says so.
///
/// # Errors
/// When they do not measure the same or have nothing in common.
pub fn compare(a: &Experiment, b: &Experiment) -> Result<Vec<ArmPair>, Error> {
    if a.recipe.metric != b.recipe.metric {
        return Err(Error::Result(format!(
            "one measures {} and the other {}: run both with the same metric",
            a.recipe.metric.name, b.recipe.metric.name
        )));
    }
    let mut pairs = Vec::new();
    for facts in &a.cases {
        let compared = a.arms_of(&facts.case).into_iter();
        for arm in compared.filter(|arm| !a.is_unlimited(arm)) {
            let two = [
                runs_of("A", a.counted(&facts.case, arm)),
                runs_of("B", b.counted(&facts.case, arm)),
            ];
            if two.iter().all(|runs| !runs.values.is_empty()) {
                let other = b.facts(&facts.case);
                let emulated =
                    facts.is_emulated() || other.is_some_and(|facts| facts.is_emulated());
                pairs.push((facts.case.clone(), arm.to_owned(), two, emulated));
            }
        }
    }
    if pairs.is_empty() {
        return Err(Error::Result(
            "the two have no arm of the same case in common: compare two runs of one recipe"
                .to_owned(),
        ));
    }
    // As many comparisons as there are pairs: the significance is shared out (Bonferroni), since each is judged alone.
    let significance = verdict::SIGNIFICANCE / pairs.len() as f64;
    Ok(pairs
        .into_iter()
        .map(|(case, arm, two, emulated)| {
            let better = a.recipe.metric.better;
            let mut judgement = verdict::judge_at(&two, better, a.seed, significance);
            if emulated {
                judgement.without_times();
            }
            ArmPair {
                case,
                arm,
                judgement,
            }
        })
        .collect())
}
