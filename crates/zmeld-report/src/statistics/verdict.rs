//! Verdicts on variants that were run side by side.
//!
//! A variant is called better than another only where three things agree: the
//! probability of such ranks without a difference, corrected for all pairs that
//! are compared (Holm), is at most [`SIGNIFICANCE`]; the interval of the ratio
//! does not hold 1; the comparison intervals of the two medians have no point in
//! common. Where nothing was swapped in either variant, and none was killed, there
//! is nothing to compare: whatever the figures say is noise.

use serde::{Deserialize, Serialize};

use crate::statistics::bootstrap::{median_interval, COMPARISON_LEVEL, LEVEL};
use crate::statistics::effect::{effect, Effect};
use crate::statistics::rank::{holm, p_least};
use crate::statistics::sample::{noise, Noise};
use crate::units::Estimate;

/// The share of experiments without a difference in which a winner may be named.
pub const SIGNIFICANCE: f64 = 0.05;

/// Which values are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Times: the smaller the better.
    Lower,
    /// Rates: the larger the better.
    Higher,
}

impl Direction {
    /// The value of a run that did not finish: worse than any.
    pub fn worst(self) -> f64 {
        match self {
            Direction::Lower => f64::INFINITY,
            Direction::Higher => 0.0,
        }
    }
}

#[derive(Debug, Clone)]
pub struct VariantRuns {
    pub variant: String,
    /// Measured values, in the order of the runs.
    pub values: Vec<f64>,
    /// Runs that did not finish.
    pub unfinished: usize,
    /// Whether memory was short: pages were swapped out, or a run was killed for want of memory.
    pub pressure: bool,
}

/// One variant on its own.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct VariantSummary {
    /// The variant.
    pub variant: String,
    /// How many runs, warm-ups not counted.
    pub runs: usize,
    /// How many of them did not finish.
    pub unfinished: usize,
    /// The median with its comparison interval (83.4 %): those whose intervals have no point in common differ.
    pub median: Estimate,
    /// The median with its interval at 95 %.
    pub median_95: Estimate,
    /// Spread, outliers, drift.
    pub noise: Noise,
    /// Whether memory was short.
    pub pressure: bool,
}

/// Verdict on two variants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "is", content = "variant", rename_all = "kebab-case")]
pub enum Verdict {
    /// No memory pressure: nothing was swapped and nothing was killed in either variant.
    Void,
    /// Even runs that differ in all of their ranks would prove nothing, with so many pairs to compare.
    TooFewRuns,
    /// Both finish, on a machine whose times are not a machine's.
    Emulated,
    /// No difference could be shown; that is not to say that there is none.
    NoWinner,
    /// This variant is the better one.
    Better(String),
}

/// Two variants against each other.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// The one that is compared with.
    pub base: String,
    /// The other one.
    pub variant: String,
    /// The other over the base.
    pub effect: Effect,
    /// Mann-Whitney's probability after Holm's correction for all pairs of this judgement.
    pub p_corrected: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Everything that may be said about one case.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Judgement {
    /// The variants in their order.
    pub variants: Vec<VariantSummary>,
    /// All pairs, those with the first variant first.
    pub comparisons: Vec<Comparison>,
    /// The variant that is better than every other one.
    pub winner: Option<String>,
    /// Whether all comparisons are void.
    pub void: bool,
}

/// Compares every variant with every other one.
pub fn judge(variants: &[VariantRuns], direction: Direction, seed: u64) -> Judgement {
    let summaries: Vec<_> = variants.iter().map(|runs| summarise(runs, seed)).collect();
    let pairs: Vec<(usize, usize)> = (0..variants.len())
        .flat_map(|a| (a + 1..variants.len()).map(move |b| (a, b)))
        .collect();
    let effects: Vec<Effect> = pairs
        .iter()
        .map(|&(a, b)| effect(&variants[a].values, &variants[b].values, LEVEL))
        .collect();
    let p: Vec<f64> = effects.iter().map(|effect| effect.p).collect();
    let corrected = holm(&p);
    let least_p = |a: usize, b: usize| {
        pairs.len() as f64 * p_least(variants[a].values.len(), variants[b].values.len())
    };
    let comparisons: Vec<Comparison> = pairs
        .iter()
        .zip(effects)
        .zip(corrected)
        .map(|((&(a, b), effect), p_corrected)| {
            let two = (&summaries[a], &summaries[b]);
            let verdict = match least_p(a, b) > SIGNIFICANCE {
                true if two.0.pressure || two.1.pressure => Verdict::TooFewRuns,
                _ => verdict(two, &effect, p_corrected, direction),
            };
            Comparison {
                base: two.0.variant.clone(),
                variant: two.1.variant.clone(),
                effect,
                p_corrected,
                verdict,
            }
        })
        .collect();
    let mut judgement = Judgement {
        void: !comparisons.is_empty() && comparisons.iter().all(|c| c.verdict == Verdict::Void),
        variants: summaries,
        comparisons,
        winner: None,
    };
    judgement.name_winner();
    judgement
}

impl Judgement {
    fn name_winner(&mut self) {
        let wins = |it: &&VariantSummary| {
            let won = self
                .comparisons
                .iter()
                .filter(|c| matches!(&c.verdict, Verdict::Better(by) if *by == it.variant));
            won.count() == self.variants.len() - 1
        };
        let winner = (self.variants.len() > 1).then(|| self.variants.iter().find(wins));
        self.winner = winner.flatten().map(|it| it.variant.clone());
    }

    /// Takes back what was said by times and rates of an emulated machine: that one variant
    /// finishes and another does not stays.
    pub fn without_times(&mut self) {
        for comparison in &mut self.comparisons {
            let finishes = |name: &str| {
                let summary = self.variants.iter().find(|it| it.variant == name);
                summary.is_some_and(|it| it.unfinished < it.runs)
            };
            if matches!(comparison.verdict, Verdict::Better(_) | Verdict::NoWinner)
                && finishes(&comparison.base)
                && finishes(&comparison.variant)
            {
                comparison.verdict = Verdict::Emulated;
            }
        }
        self.name_winner();
    }
}

/// How many runs of each of so many variants a verdict takes at least.
pub fn runs_needed(variants: usize) -> usize {
    let pairs = variants * variants.saturating_sub(1) / 2;
    (1..)
        .find(|&runs| pairs as f64 * p_least(runs, runs) <= SIGNIFICANCE)
        .unwrap_or(1)
}

fn summarise(runs: &VariantRuns, seed: u64) -> VariantSummary {
    VariantSummary {
        variant: runs.variant.clone(),
        runs: runs.values.len(),
        unfinished: runs.unfinished,
        median: median_interval(&runs.values, COMPARISON_LEVEL, seed),
        median_95: median_interval(&runs.values, LEVEL, seed),
        noise: noise(&runs.values),
        pressure: runs.pressure,
    }
}

fn verdict(
    (base, other): (&VariantSummary, &VariantSummary),
    effect: &Effect,
    p: f64,
    direction: Direction,
) -> Verdict {
    if !base.pressure && !other.pressure {
        return Verdict::Void;
    }
    let apart = effect.ratio.low > 1.0 || effect.ratio.high < 1.0;
    if p > SIGNIFICANCE || !apart || base.median.overlaps(&other.median) {
        return Verdict::NoWinner;
    }
    let other_is_larger = effect.ratio.low > 1.0;
    Verdict::Better(match (direction, other_is_larger) {
        (Direction::Lower, false) | (Direction::Higher, true) => other.variant.clone(),
        (Direction::Lower, true) | (Direction::Higher, false) => base.variant.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(variant: &str, values: &[f64]) -> VariantRuns {
        VariantRuns {
            variant: variant.into(),
            values: values.to_vec(),
            unfinished: values.iter().filter(|x| x.is_infinite()).count(),
            pressure: true,
        }
    }

    fn judged(runs: &[VariantRuns]) -> Judgement {
        judge(runs, Direction::Lower, 1)
    }

    const BASE: [f64; 7] = [10.0, 10.1, 9.9, 10.2, 9.8, 10.05, 9.95];

    #[test]
    fn times_of_an_emulated_machine_make_no_winner_but_finishing_does() {
        let runs = |variant: &str, value: f64, unfinished: usize| VariantRuns {
            variant: variant.to_owned(),
            values: (0..6).map(|at| value + f64::from(at) / 100.0).collect(),
            unfinished,
            pressure: true,
        };
        let variants = [
            runs("fast", 1.0, 0),
            runs("slow", 2.0, 0),
            runs("killed", f64::INFINITY, 6),
        ];
        let mut judgement = judged(&variants);
        assert_eq!(judgement.winner.as_deref(), Some("fast"));
        judgement.without_times();
        assert_eq!(judgement.winner, None);
        let verdicts: Vec<&Verdict> = judgement.comparisons.iter().map(|c| &c.verdict).collect();
        assert_eq!(
            verdicts,
            [
                &Verdict::Emulated,
                &Verdict::Better("fast".into()),
                &Verdict::Better("slow".into())
            ]
        );
        let mut judgement = judged(&variants[1..]);
        judgement.without_times();
        assert_eq!(judgement.winner.as_deref(), Some("slow"));
    }

    #[test]
    fn nothing_swapped_is_void_whatever_the_figures_say() {
        let mut variants = [runs("none", &BASE), runs("zram", &BASE.map(|x| x * 2.0))];
        variants[0].pressure = false;
        variants[1].pressure = false;
        let judgement = judged(&variants);
        assert!(judgement.void && judgement.winner.is_none());
        assert!(!judged(&variants[..1]).void);
        let third = runs("other", &BASE);
        assert!(!judged(&[variants[0].clone(), variants[1].clone(), third]).void);
        variants[1].pressure = true;
        assert_eq!(judged(&variants).winner.as_deref(), Some("none"));
        let rates = judge(&variants, Direction::Higher, 1);
        assert_eq!(rates.winner.as_deref(), Some("zram"));
    }

    #[test]
    fn a_variant_that_survives_beats_one_that_is_killed() {
        let killed = [f64::INFINITY; 7];
        let judgement = judged(&[runs("none", &killed), runs("zram", &BASE)]);
        assert_eq!(judgement.winner.as_deref(), Some("zram"));
        assert_eq!(judgement.variants[0].unfinished, 7);
        let both = judged(&[runs("a", &killed), runs("b", &killed)]);
        assert_eq!(both.comparisons[0].verdict, Verdict::NoWinner);
    }

    #[test]
    fn three_runs_prove_nothing() {
        let judgement = judged(&[runs("a", &BASE[..3]), runs("b", &[1.0, 1.1, 1.2])]);
        assert_eq!(judgement.comparisons[0].verdict, Verdict::TooFewRuns);
        let mut one_sided = [runs("a", &BASE[..3]), runs("b", &[1.0, 1.1, 1.2])];
        one_sided[0].pressure = false;
        let judgement = judged(&one_sided);
        assert_eq!(judgement.comparisons[0].verdict, Verdict::TooFewRuns);
    }

    #[test]
    fn the_more_variants_the_more_runs_a_verdict_takes() {
        let needed: Vec<usize> = (1..=6).map(runs_needed).collect();
        // 2 / C(8, 4) = 0.029, 6 * 2 / C(10, 5) = 0.048, 10 of them 0.079.
        assert_eq!(needed, [1, 4, 5, 5, 6, 6]);
        let variants: Vec<VariantRuns> = (0..5)
            .map(|at| {
                runs(
                    &at.to_string(),
                    &BASE.map(|x| x + 10.0 * f64::from(at))[..5],
                )
            })
            .collect();
        let few = judged(&variants).comparisons;
        assert!(few.iter().all(|c| c.verdict == Verdict::TooFewRuns));
        let enough = judged(&variants[..4]);
        assert_eq!(enough.winner.as_deref(), Some("0"));
    }
}
