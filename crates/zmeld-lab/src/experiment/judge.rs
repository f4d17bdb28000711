//! From runs to verdicts.

use crate::recipe::Metric;
use zmeld_statistics::verdict::{self, ArmRuns};

use super::result::{CaseJudgement, Experiment, MetricJudgement, Outcome, Run};

fn runs_of<'a>(
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
                    .map(|arm| runs_of(arm, self.counted(&facts.case, arm), |run| run.value))
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
                runs_of(arm, self.counted(case, arm), |run| {
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
