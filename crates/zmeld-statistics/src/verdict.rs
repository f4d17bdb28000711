//! What may be said about arms that were run side by side.
//!
//! An arm is called better than another only where three things agree: the
//! probability of such ranks without a difference, corrected for all pairs that
//! are compared (Holm), is at most [`SIGNIFICANCE`]; the interval of the ratio
//! does not hold 1; the comparison intervals of the two medians have no point in
//! common. Where nothing was swapped in either arm, and none was killed, there
//! is nothing to compare: whatever the figures say is noise.

use serde::{Deserialize, Serialize};

use crate::bootstrap::{median_interval, Interval, COMPARISON_LEVEL, LEVEL};
use crate::effect::{effect, Effect};
use crate::rank::{holm, p_least};
use crate::sample::{noise, Noise};

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

/// The runs of one arm.
#[derive(Debug, Clone)]
pub struct ArmRuns {
    /// The arm.
    pub arm: String,
    /// What was measured, in the order of the runs.
    pub values: Vec<f64>,
    /// Runs that did not finish.
    pub unfinished: usize,
    /// Whether memory was short: pages were swapped out, or a run was killed for want of memory.
    pub pressure: bool,
}

/// One arm on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ArmSummary {
    /// The arm.
    pub arm: String,
    /// How many runs, warm-ups not counted.
    pub runs: usize,
    /// How many of them did not finish.
    pub unfinished: usize,
    /// The median with its comparison interval (83.4 %): two arms whose intervals have no point in common differ.
    pub median: Interval,
    /// The median with its interval at 95 %.
    pub median_95: Interval,
    /// Spread, outliers, drift.
    pub noise: Noise,
    /// Whether memory was short.
    pub pressure: bool,
}

/// What may be said about two arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "is", content = "arm", rename_all = "kebab-case")]
pub enum Verdict {
    /// No memory pressure: nothing was swapped and nothing was killed in either arm.
    Void,
    /// Even runs that differ in all of their ranks would prove nothing, with so many pairs to compare.
    TooFewRuns,
    /// Both finish, on a machine whose times are not a machine's.
    Emulated,
    /// No difference could be shown; that is not to say that there is none.
    NoWinner,
    /// This arm is the better one.
    Better(String),
}

/// Two arms against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    /// The one that is compared with.
    pub base: String,
    /// The other one.
    pub arm: String,
    /// The other over the base.
    pub effect: Effect,
    /// Mann-Whitney's probability after Holm's correction for all pairs of this judgement.
    pub p_corrected: f64,
    /// What may be said.
    pub verdict: Verdict,
}

/// Everything that may be said about one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Judgement {
    /// The arms in their order.
    pub arms: Vec<ArmSummary>,
    /// All pairs, those with the first arm first.
    pub comparisons: Vec<Comparison>,
    /// The arm that is better than every other one.
    pub winner: Option<String>,
    /// Whether all comparisons are void.
    pub void: bool,
}

/// Compares every arm with every other one.
pub fn judge(arms: &[ArmRuns], direction: Direction, seed: u64) -> Judgement {
    let summaries: Vec<ArmSummary> = arms.iter().map(|runs| summarise(runs, seed)).collect();
    let pairs: Vec<(usize, usize)> = (0..arms.len())
        .flat_map(|a| (a + 1..arms.len()).map(move |b| (a, b)))
        .collect();
    let effects: Vec<Effect> = pairs
        .iter()
        .map(|&(a, b)| effect(&arms[a].values, &arms[b].values, LEVEL))
        .collect();
    let p: Vec<f64> = effects.iter().map(|effect| effect.p).collect();
    let corrected = holm(&p);
    let least_p = |a: usize, b: usize| {
        pairs.len() as f64 * p_least(arms[a].values.len(), arms[b].values.len())
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
                base: two.0.arm.clone(),
                arm: two.1.arm.clone(),
                effect,
                p_corrected,
                verdict,
            }
        })
        .collect();
    let mut judgement = Judgement {
        void: !comparisons.is_empty() && comparisons.iter().all(|c| c.verdict == Verdict::Void),
        arms: summaries,
        comparisons,
        winner: None,
    };
    judgement.name_winner();
    judgement
}

impl Judgement {
    fn name_winner(&mut self) {
        let wins = |arm: &&ArmSummary| {
            let won = self
                .comparisons
                .iter()
                .filter(|c| matches!(&c.verdict, Verdict::Better(by) if *by == arm.arm));
            won.count() == self.arms.len() - 1
        };
        let winner = (self.arms.len() > 1).then(|| self.arms.iter().find(wins));
        self.winner = winner.flatten().map(|arm| arm.arm.clone());
    }

    /// Takes back what was said by times and rates of an emulated machine: that one arm finishes and another does not
    /// stays.
    pub fn without_times(&mut self) {
        for comparison in &mut self.comparisons {
            let finishes = |name: &str| {
                let arm = self.arms.iter().find(|arm| arm.arm == name);
                arm.is_some_and(|arm| arm.unfinished < arm.runs)
            };
            if matches!(comparison.verdict, Verdict::Better(_) | Verdict::NoWinner)
                && finishes(&comparison.base)
                && finishes(&comparison.arm)
            {
                comparison.verdict = Verdict::Emulated;
            }
        }
        self.name_winner();
    }
}

/// How many runs of each of so many arms a verdict takes at least.
pub fn runs_needed(arms: usize) -> usize {
    let pairs = arms * arms.saturating_sub(1) / 2;
    (1..)
        .find(|&runs| pairs as f64 * p_least(runs, runs) <= SIGNIFICANCE)
        .unwrap_or(1)
}

fn summarise(runs: &ArmRuns, seed: u64) -> ArmSummary {
    ArmSummary {
        arm: runs.arm.clone(),
        runs: runs.values.len(),
        unfinished: runs.unfinished,
        median: median_interval(&runs.values, COMPARISON_LEVEL, seed),
        median_95: median_interval(&runs.values, LEVEL, seed),
        noise: noise(&runs.values),
        pressure: runs.pressure,
    }
}

fn verdict(
    (base, arm): (&ArmSummary, &ArmSummary),
    effect: &Effect,
    p: f64,
    direction: Direction,
) -> Verdict {
    if !base.pressure && !arm.pressure {
        return Verdict::Void;
    }
    let apart = effect.ratio.low > 1.0 || effect.ratio.high < 1.0;
    if p > SIGNIFICANCE || !apart || base.median.overlaps(&arm.median) {
        return Verdict::NoWinner;
    }
    let arm_is_larger = effect.ratio.low > 1.0;
    Verdict::Better(match (direction, arm_is_larger) {
        (Direction::Lower, false) | (Direction::Higher, true) => arm.arm.clone(),
        (Direction::Lower, true) | (Direction::Higher, false) => base.arm.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(arm: &str, values: &[f64]) -> ArmRuns {
        ArmRuns {
            arm: arm.into(),
            values: values.to_vec(),
            unfinished: values.iter().filter(|x| x.is_infinite()).count(),
            pressure: true,
        }
    }

    const BASE: [f64; 7] = [10.0, 10.1, 9.9, 10.2, 9.8, 10.05, 9.95];

    #[test]
    fn times_of_an_emulated_machine_make_no_winner_but_finishing_does() {
        let runs = |arm: &str, value: f64, unfinished: usize| ArmRuns {
            arm: arm.to_owned(),
            values: (0..6).map(|at| value + f64::from(at) / 100.0).collect(),
            unfinished,
            pressure: true,
        };
        let arms = [
            runs("fast", 1.0, 0),
            runs("slow", 2.0, 0),
            runs("killed", f64::INFINITY, 6),
        ];
        let mut judgement = judge(&arms, Direction::Lower, 1);
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
        let mut judgement = judge(&arms[1..], Direction::Lower, 1);
        judgement.without_times();
        assert_eq!(judgement.winner.as_deref(), Some("slow"));
    }

    #[test]
    fn nothing_swapped_is_void_whatever_the_figures_say() {
        let mut arms = [runs("none", &BASE), runs("zram", &BASE.map(|x| x * 2.0))];
        arms[0].pressure = false;
        arms[1].pressure = false;
        let judgement = judge(&arms, Direction::Lower, 1);
        assert!(judgement.void && judgement.winner.is_none());
        arms[1].pressure = true;
        assert_eq!(
            judge(&arms, Direction::Lower, 1).winner.as_deref(),
            Some("none")
        );
        let rates = judge(&arms, Direction::Higher, 1);
        assert_eq!(rates.winner.as_deref(), Some("zram"));
    }

    #[test]
    fn an_arm_that_survives_beats_one_that_is_killed() {
        let killed = [f64::INFINITY; 7];
        let judgement = judge(
            &[runs("none", &killed), runs("zram", &BASE)],
            Direction::Lower,
            1,
        );
        assert_eq!(judgement.winner.as_deref(), Some("zram"));
        assert_eq!(judgement.arms[0].unfinished, 7);
        let both = judge(
            &[runs("a", &killed), runs("b", &killed)],
            Direction::Lower,
            1,
        );
        assert_eq!(both.comparisons[0].verdict, Verdict::NoWinner);
    }

    #[test]
    fn three_runs_prove_nothing() {
        let judgement = judge(
            &[runs("a", &BASE[..3]), runs("b", &[1.0, 1.1, 1.2])],
            Direction::Lower,
            1,
        );
        assert_eq!(judgement.comparisons[0].verdict, Verdict::TooFewRuns);
    }

    #[test]
    fn the_more_arms_the_more_runs_a_verdict_takes() {
        let needed: Vec<usize> = (1..=6).map(runs_needed).collect();
        // 2 / C(8, 4) = 0.029, 6 * 2 / C(10, 5) = 0.048, 10 of them 0.079.
        assert_eq!(needed, [1, 4, 5, 5, 6, 6]);
        let arms: Vec<ArmRuns> = (0..5)
            .map(|at| {
                runs(
                    &at.to_string(),
                    &BASE.map(|x| x + 10.0 * f64::from(at))[..5],
                )
            })
            .collect();
        let few = judge(&arms, Direction::Lower, 1);
        assert!(few
            .comparisons
            .iter()
            .all(|c| c.verdict == Verdict::TooFewRuns));
        let enough = judge(&arms[..4], Direction::Lower, 1);
        assert_eq!(enough.winner.as_deref(), Some("0"));
    }
}
