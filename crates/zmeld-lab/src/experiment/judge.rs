//! From runs to verdicts.

use crate::recipe::Metric;
use zmeld_report::statistics::verdict::{self, VariantRuns};

use super::result::{CaseJudgement, Experiment, MetricJudgement, Outcome, Run};

impl Experiment {
    /// Computes the verdicts anew.
    pub fn judge(&mut self) {
        let judged = self.cases.iter().map(|facts| {
            let of = |metric: &Metric| {
                let runs = self.variants_of(&facts.case).into_iter();
                let runs = runs.map(|variant| self.runs_of(&facts.case, variant, metric));
                let runs = runs.filter(|runs| !runs.values.is_empty());
                let (unlimited, variants): (Vec<VariantRuns>, Vec<VariantRuns>) =
                    runs.partition(|runs| self.is_unlimited(&runs.variant));
                [unlimited, variants].map(|runs| verdict::judge(&runs, metric.better, self.seed))
            };
            let [alone, mut judgement] = of(&self.recipe.metric);
            if facts.is_emulated() {
                judgement.without_times();
            }
            let also = self.recipe.also.iter().map(|metric| MetricJudgement {
                metric: metric.clone(),
                judgement: of(metric)[1].clone(),
            });
            CaseJudgement {
                also: also.collect(),
                case: facts.case.clone(),
                judgement,
                baseline: alone.variants.into_iter().next(),
            }
        });
        self.judgements = judged.collect();
    }

    fn runs_of(&self, case: &str, variant: &str, metric: &Metric) -> VariantRuns {
        let value = |run: &Run| match run.outcome {
            Outcome::Finished => run.figures.get(&metric.name).copied(),
            _ => None,
        };
        let runs: Vec<&Run> = self.counted(case, variant).collect();
        let unfinished = runs.iter().filter(|run| run.outcome != Outcome::Finished);
        VariantRuns {
            variant: variant.to_owned(),
            values: runs
                .iter()
                .map(|run| value(run).unwrap_or_else(|| metric.better.worst()))
                .collect(),
            unfinished: unfinished.count(),
            pressure: runs.iter().any(|run| run.was_pressed()),
        }
    }
}
