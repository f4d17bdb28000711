//! Which limit is tried next, and what the runs with it allow to be said.
//!
//! A limit **does** where the interval of the slowdown lies at or below what is allowed
//! and every run finished, and **does not** where it lies above. The interval is that of [`effect`]: Hodges and
//! Lehmann's estimate of the ratio, inverting Mann-Whitney's test, so that runs that were
//! killed or ended count as slower than all others. It is looked at after 3, 5, 7, ...
//! runs; the more looks there may be, the wider it is (Bonferroni), so that whoever looks
//! several times does not err more often than whoever looks once: at most in 5 % of the
//! steps whose slowdown is just the one allowed, and more seldom the further away it is.
//!
//! Invariants of the search: it never tries a limit outside (the largest that does not
//! do, the smallest that does), and never the same one twice; so it ends.

use serde::{Deserialize, Serialize};

use zmeld_report::statistics::effect::effect;
use zmeld_report::Estimate;

/// Runs of a step before it is first looked at.
pub const FIRST_LOOK: usize = 3;
/// How often a step that is just at the border may be decided wrongly.
const ERROR: f64 = 0.05;
/// Limits are whole pages.
const PAGE: u64 = 4096;
/// The first limit that is tried, as a share of what is used without any; each further
/// one, as long as none fails, twice as far down on a logarithmic scale.
const FIRST_SHARE: f64 = 0.8;

/// Verdict on a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The runs so far do not say; there may be more.
    Open,
    /// The workload does its job.
    Does,
    /// It does not.
    DoesNot,
    /// After all runs that there may be, it cannot be told.
    Undecided,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitRule {
    /// The largest ratio to an unlimited run that is allowed: 1.05.
    pub allowed: f64,
    /// At most so many runs.
    pub runs_max: usize,
}

impl LimitRule {
    /// The level of the interval at each look.
    pub fn level(&self) -> f64 {
        let looks = (FIRST_LOOK..=self.runs_max).filter(|&runs| self.is_look(runs));
        1.0 - ERROR / looks.count().max(1) as f64
    }

    fn is_look(&self, runs: usize) -> bool {
        runs >= FIRST_LOOK && (runs - FIRST_LOOK).is_multiple_of(2) || runs == self.runs_max
    }

    /// Verdict on a limit by its runs' costs against unlimited ones; the ratio.
    pub fn judge(&self, unlimited: &[f64], limited: &[f64]) -> (Verdict, Estimate) {
        let ratio = effect(unlimited, limited, self.level()).ratio;
        let verdict = if !self.is_look(limited.len()) {
            Verdict::Open
        } else if ratio.low > self.allowed {
            Verdict::DoesNot
        } else if ratio.high <= self.allowed && limited.iter().all(|cost| cost.is_finite()) {
            Verdict::Does
        } else if limited.len() >= self.runs_max {
            Verdict::Undecided
        } else {
            Verdict::Open
        };
        (verdict, ratio)
    }
}

/// Range that holds the least RAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bracket {
    /// Memory used without a limit.
    top: u64,
    /// The largest limit that does not do; 0: none is known.
    low: u64,
    /// The smallest that does, or `top`.
    high: u64,
    /// Between them, those of which nothing could be said, in their order.
    undecided: Vec<u64>,
}

impl Bracket {
    /// The bracket by the steps decided so far; open ones say nothing. `top` is no limit.
    pub fn of(top: u64, steps: impl IntoIterator<Item = (u64, Verdict)>) -> Bracket {
        let (mut low, mut high, mut undecided) = (0, top, Vec::new());
        for (limit, verdict) in steps {
            match verdict {
                Verdict::Does => high = high.min(limit),
                Verdict::DoesNot => low = low.max(limit),
                Verdict::Undecided => undecided.push(limit),
                Verdict::Open => {}
            }
        }
        undecided.retain(|&limit| low < limit && limit < high);
        undecided.sort_unstable();
        Bracket {
            top,
            low,
            high,
            undecided,
        }
    }

    /// The largest limit that does not do, 0 where none is known; and the smallest that does.
    pub fn ends(&self) -> (u64, u64) {
        (self.low, self.high)
    }

    /// Whether some limit was shown to do or to be too small.
    pub fn is_known(&self) -> bool {
        self.low > 0 || self.high < self.top
    }

    /// The limit to try next; none where the ends are as close as asked for, or cannot be brought closer.
    /// `within`: 0.05 for 5 %. Nothing below `floor` is tried.
    pub fn next(&self, floor: u64, within: f64) -> Option<u64> {
        let lowest = *self.undecided.first().unwrap_or(&self.high);
        let highest = *self.undecided.last().unwrap_or(&self.low);
        if self.low == 0 {
            if lowest <= floor {
                return None;
            }
            let step = (self.top as f64 / lowest as f64)
                .ln()
                .max(-FIRST_SHARE.ln());
            let limit = whole_pages(lowest as f64 * (-step).exp()).max(floor);
            return (limit < lowest).then_some(limit);
        }
        [(self.low, lowest), (highest, self.high)]
            .into_iter()
            .filter(|&(from, to)| to as f64 / from as f64 > 1.0 + within)
            .map(|(from, to)| (from, to, whole_pages((from as f64 * to as f64).sqrt())))
            .find(|&(from, to, middle)| from < middle && middle < to)
            .map(|(_, _, middle)| middle)
    }
}

fn whole_pages(bytes: f64) -> u64 {
    bytes as u64 / PAGE * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, LogNormal};

    const MIB: u64 = 1 << 20;
    const TOP: u64 = 300 * MIB;
    const FLOOR: u64 = 4 * MIB;
    const RULE: LimitRule = LimitRule {
        allowed: 1.05,
        runs_max: 7,
    };

    /// A workload that gets slower the further it is below what it needs, and is killed below some limit.
    struct Simulated {
        /// From here down it is slower, bytes.
        needs: u64,
        killed_below: u64,
        /// How much slower with half of what it needs.
        steepness: f64,
        noise: LogNormal<f64>,
        random: ChaCha8Rng,
    }

    impl Simulated {
        fn new(seed: u64, sigma: f64) -> Simulated {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let needs = random.random_range(20 * MIB..TOP * 95 / 100);
            let killed = random.random_range(0.1..0.9);
            Simulated {
                needs,
                killed_below: (needs as f64 * killed) as u64,
                steepness: random.random_range(1.0..30.0),
                noise: LogNormal::new(0.0, sigma).expect("a valid law"),
                random,
            }
        }

        fn slowdown(&self, limit: u64) -> f64 {
            if limit < self.killed_below {
                return f64::INFINITY;
            }
            1.0 + self.steepness * (self.needs as f64 / limit as f64 - 1.0).max(0.0)
        }

        fn run(&mut self, limit: u64) -> f64 {
            10.0 * self.slowdown(limit) * self.noise.sample(&mut self.random)
        }

        /// The least RAM for a ratio, bytes.
        fn truth(&self, allowed: f64) -> u64 {
            let by_time = self.needs as f64 / (1.0 + (allowed - 1.0) / self.steepness);
            (by_time as u64).max(self.killed_below)
        }
    }

    /// Searches to its end; the bracket, and how many runs it took.
    fn searched(workload: &mut Simulated, within: f64) -> (Bracket, usize) {
        let mut unlimited: Vec<f64> = (0..5).map(|_| workload.run(TOP)).collect();
        let mut steps = Vec::new();
        let mut runs = 0;
        loop {
            let bracket = Bracket::of(TOP, steps.iter().copied());
            let Some(limit) = bracket.next(FLOOR, within) else {
                return (bracket, runs);
            };
            assert!(steps.iter().all(|&(tried, _)| tried != limit), "twice");
            let (low, high) = bracket.ends();
            assert!(low < limit && limit < high);
            let mut limited = Vec::new();
            let verdict = loop {
                limited.push(workload.run(limit));
                unlimited.push(workload.run(TOP));
                runs += 1;
                match RULE.judge(&unlimited, &limited).0 {
                    Verdict::Open => {}
                    verdict => break verdict,
                }
            };
            steps.push((limit, verdict));
        }
    }

    /// With little noise the answer is one figure; noise makes it an interval, and not a wrong one.
    #[test]
    fn the_least_ram_is_found_as_well_as_the_noise_allows() {
        // A step just at the border is decided wrongly in one of twenty.
        for (sigma, seeds, right_least, resolved_in) in
            [(0.005, 200, 194, 190..=200), (0.05, 60, 57, 0..=30)]
        {
            let (mut right, mut resolved) = (0, 0);
            for seed in 0..seeds {
                let mut workload = Simulated::new(seed, sigma);
                let truth = workload.truth(RULE.allowed);
                let (bracket, runs) = searched(&mut workload, 0.05);
                let (low, high) = bracket.ends();
                assert!(runs < 150, "seed {seed}: {runs} runs");
                right += usize::from(low < truth && truth <= high);
                resolved += usize::from(high as f64 <= low as f64 * 1.05);
            }
            assert!(right >= right_least, "{right} of {seeds}");
            assert!(resolved_in.contains(&resolved), "{resolved} of {seeds}");
        }
    }

    #[test]
    fn killed_runs_decide_at_the_first_look() {
        let unlimited = [1.0, 1.01, 0.99, 1.0, 1.02, 1.0, 0.98, 1.0];
        let judge = |limited: &[f64]| RULE.judge(&unlimited, limited).0;
        assert_eq!(judge(&[f64::INFINITY; 2]), Verdict::Open);
        assert_eq!(judge(&[f64::INFINITY; 3]), Verdict::DoesNot);
        assert_eq!(judge(&[1.0, 1.0, f64::INFINITY]), Verdict::Open);
        assert_eq!(judge(&[1.0; 3]), Verdict::Does);
        // Of seven with one killed it cannot be said that they do their job, nor that they do not.
        let mut seven = [1.0; 7];
        assert_eq!(judge(&seven), Verdict::Does);
        seven[3] = f64::INFINITY;
        assert_eq!(judge(&seven[..5]), Verdict::Open);
        assert_eq!(judge(&seven), Verdict::Undecided);
    }

    #[test]
    fn the_search_goes_down_ever_faster_and_stops_at_the_floor() {
        let mut steps = Vec::new();
        while let Some(limit) = Bracket::of(TOP, steps.iter().copied()).next(FLOOR, 0.05) {
            steps.push((limit, Verdict::Does));
        }
        assert!(steps.len() < 8, "{steps:?}");
        assert_eq!(steps.last().map(|step| step.0), Some(FLOOR));
    }

    #[test]
    fn what_cannot_be_told_is_closed_in_from_both_sides() {
        let steps = [
            (100 * MIB, Verdict::DoesNot),
            (120 * MIB, Verdict::Undecided),
            (140 * MIB, Verdict::Does),
        ];
        let bracket = Bracket::of(TOP, steps);
        let next = bracket.next(FLOOR, 0.05).expect("a limit");
        assert!(100 * MIB < next && next < 120 * MIB);
        let steps = steps.into_iter().chain([(next, Verdict::DoesNot)]);
        let steps: Vec<_> = steps.chain([(115 * MIB, Verdict::DoesNot)]).collect();
        let next = Bracket::of(TOP, steps.clone()).next(FLOOR, 0.05);
        assert!(next.is_some_and(|limit| 120 * MIB < limit && limit < 140 * MIB));
        let ended = steps.into_iter().chain([(125 * MIB, Verdict::Does)]);
        let bracket = Bracket::of(TOP, ended);
        assert_eq!(bracket.next(FLOOR, 0.05), None);
        assert_eq!(bracket.ends(), (115 * MIB, 125 * MIB));
    }
}
