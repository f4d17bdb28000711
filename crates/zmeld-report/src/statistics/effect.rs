//! How large a difference is, not only whether there is one.

use serde::{Deserialize, Serialize};

use crate::statistics::rank::{differences_outside, mann_whitney};
use crate::statistics::sample::median_of_sorted;
use crate::units::Estimate;

/// The difference between two samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Effect {
    /// Second over first: Hodges and Lehmann's estimate of the shift between the logarithms, and the interval
    /// that inverts Mann-Whitney's test at 95 % (infinite ends: too few runs for any).
    pub ratio: Estimate,
    /// Cliff's delta: the share of pairs in which the second is larger less the share in which it is smaller;
    /// from -1 to 1.
    pub cliffs_delta: f64,
    /// Mann-Whitney's two-sided probability, not corrected.
    pub p: f64,
}

/// Compares two samples of values of 0 or more; infinity is a run that never ended, 0 one that got nothing done.
pub fn effect(first: &[f64], second: &[f64], level: f64) -> Effect {
    let test = mann_whitney(second, first);
    let pairs = first.len() * second.len();
    let mut differences: Vec<f64> = first
        .iter()
        .flat_map(|a| second.iter().map(move |b| log_ratio(*a, *b)))
        .collect();
    differences.sort_by(f64::total_cmp);
    let (low, high) = match differences_outside(first.len(), second.len(), level) {
        Some(k) => (differences[k - 1], differences[pairs - k]),
        None => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let middle = median_of_sorted(&differences);
    Effect {
        ratio: Estimate::new(middle.exp(), low.exp(), high.exp()),
        cliffs_delta: match pairs {
            0 => 0.0,
            pairs => 2.0 * test.u / pairs as f64 - 1.0,
        },
        p: test.p,
    }
}

/// Two runs that both never ended are alike, not undefined.
fn log_ratio(a: f64, b: f64) -> f64 {
    if a == b {
        0.0
    } else {
        b.ln() - a.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_found_again() {
        let first: Vec<f64> = (0..9).map(|x| 10.0 + f64::from(x * 4 % 9) * 0.1).collect();
        let second: Vec<f64> = first.iter().map(|x| x * 1.5).collect();
        let effect = effect(&first, &second, 0.95);
        assert!((effect.ratio.value - 1.5).abs() < 0.01, "{effect:?}");
        assert!(effect.ratio.low > 1.4 && effect.ratio.high < 1.6);
        assert_eq!(effect.cliffs_delta, 1.0);
        assert!(effect.p < 1e-4);
    }

    /// Logarithms to base 2 of 0 to 4 and of 0, 5 to 20: each difference from -4 to 20 comes once,
    /// of which 2 lie outside on each side.
    #[test]
    fn an_interval_ends_where_the_test_turns() {
        let powers = |step| [0, 1, 2, 3, 4].map(|at| 2f64.powi(at * step));
        let found = effect(&powers(1), &powers(5), 0.95);
        let logs = [found.ratio.low, found.ratio.value, found.ratio.high].map(f64::log2);
        let off = |(log, expected): (f64, f64)| (log - expected).abs() > 1e-9;
        assert!(
            !logs.into_iter().zip([-2.0, 8.0, 18.0]).any(off),
            "{logs:?}"
        );
        assert!((found.cliffs_delta - 16.0 / 25.0).abs() < 1e-9);
        assert_eq!(effect(&[], &[1.0], 0.95).cliffs_delta, 0.0);
    }

    #[test]
    fn killed_runs_are_infinitely_slower() {
        let killed = [f64::INFINITY; 5];
        let alive = [1.0, 1.1, 1.2, 1.0, 1.3];
        let slower = effect(&alive, &killed, 0.95);
        assert_eq!(
            (slower.ratio.value, slower.ratio.low),
            (f64::INFINITY, f64::INFINITY)
        );
        assert_eq!(effect(&killed, &alive, 0.95).ratio.value, 0.0);
        let alike = effect(&killed, &killed, 0.95);
        assert_eq!((alike.ratio.value, alike.p), (1.0, 1.0));
    }
}
