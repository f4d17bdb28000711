//! One variant's runs on their own: median, spread, outliers, drift.

use serde::{Deserialize, Serialize};

/// The median; NaN of nothing. Infinite values are allowed.
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

pub(crate) fn median_of_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => {
            let (low, high) = (sorted[n / 2 - 1], sorted[n / 2]);
            // The mean of two infinities of one sign is that infinity.
            if low == high {
                low
            } else {
                low + (high - low) / 2.0
            }
        }
    }
}

/// From the median absolute deviation to a standard deviation, for normal samples.
const MAD_TO_DEVIATION: f64 = 1.482_602_218_505_602;
/// Further from the median than so many such deviations is an outlier.
const OUTLIER_DEVIATIONS: f64 = 3.5;

/// How noisy the runs of one variant were. Only finite values are looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Noise {
    /// The spread over the median: 1.4826 times the median absolute deviation, a standard deviation that
    /// outliers do not move. 0 for fewer than two runs.
    pub relative_spread: f64,
    /// Which runs, counted from 0 in their order, are more than 3.5 such deviations and more than 2 % from the
    /// median. They are reported and stay in all figures.
    pub outliers: Vec<usize>,
    /// The median of the later half over that of the earlier, less 1: a machine that warms up or fills up while
    /// it measures shows here. 0 for fewer than six runs.
    pub drift: f64,
}

/// Looks at a variant's runs in the order in which they were made.
pub fn noise(samples: &[f64]) -> Noise {
    let finite: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
    let middle = median(&finite);
    if finite.len() < 2 || middle == 0.0 {
        return Noise {
            relative_spread: 0.0,
            outliers: Vec::new(),
            drift: 0.0,
        };
    }
    let deviations: Vec<f64> = finite.iter().map(|x| (x - middle).abs()).collect();
    let spread = MAD_TO_DEVIATION * median(&deviations);
    let outliers = samples.iter().enumerate().filter(|(_, x)| {
        let off = (*x - middle).abs();
        x.is_finite() && off > OUTLIER_DEVIATIONS * spread && off > 0.02 * middle.abs()
    });
    let half = finite.len() / 2;
    let drift = if finite.len() < 6 {
        0.0
    } else {
        median(&finite[finite.len() - half..]) / median(&finite[..half]) - 1.0
    };
    Noise {
        relative_spread: spread / middle.abs(),
        outliers: outliers.map(|(at, _)| at).collect(),
        drift,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[1.0, f64::INFINITY, f64::INFINITY]), f64::INFINITY);
        assert_eq!(median(&[f64::INFINITY; 2]), f64::INFINITY);
    }

    #[test]
    fn noise_names_the_odd_run_and_the_drift() {
        let quiet = noise(&[1.0, 1.01, 0.99, 1.0, 1.02, 3.0, 0.98]);
        assert_eq!(quiet.outliers, [5]);
        assert!(quiet.relative_spread < 0.03, "{quiet:?}");
        let rising: Vec<f64> = (0..10).map(|at| 1.0 + 0.1 * f64::from(at)).collect();
        let rising = noise(&rising);
        assert!((rising.drift - 0.5 / 1.2).abs() < 1e-9, "{rising:?}");
        assert_eq!(noise(&[f64::INFINITY, 1.0]).relative_spread, 0.0);
        assert_eq!(noise(&[1.0, 3.0]).relative_spread, MAD_TO_DEVIATION / 2.0);
        // Deviations 0 0 1 1 1 of 5, and 2 % of 100.
        let spread = noise(&[100.0, 100.0, 101.0, 99.0, 101.0]).relative_spread;
        assert!((spread - 0.01 * MAD_TO_DEVIATION).abs() < 1e-12, "{spread}");
        assert!(noise(&[100.0, 100.0, 100.0, 102.0]).outliers.is_empty());
        assert_eq!(noise(&[100.0, 100.0, 100.0, 97.0]).outliers, [3]);
        assert_eq!(noise(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]).drift, 1.0);
        assert_eq!(noise(&[1.0, 1.0, 1.0, 2.0, 2.0]).drift, 0.0);
    }
}
