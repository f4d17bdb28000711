//! Means and ratios with their confidence intervals.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A value with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Half the width of the interval around it; 0 for a single sample.
    pub half_width: f64,
}

impl Interval {
    pub fn low(&self) -> f64 {
        self.value - self.half_width
    }

    pub fn high(&self) -> f64 {
        self.value + self.half_width
    }

    /// The same in another unit.
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            half_width: self.half_width * factor.abs(),
        }
    }
}

/// How wide a 95 % interval of the mean of so many samples is, over their spread.
pub fn relative_width(samples: u64) -> f64 {
    student_t95(samples.saturating_sub(1) as usize) / (samples as f64).sqrt()
}

/// Two-sided 95 % quantile of Student's t with `freedom` degrees of freedom.
fn student_t95(freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, freedom as f64).map_or(f64::NAN, |law| law.inverse_cdf(0.975))
}

pub fn mean(samples: &[f64]) -> Interval {
    ratio(samples, &vec![1.0; samples.len()])
}

/// The ratio of two means from paired samples, `mean(numerator) / mean(denominator)`, by the delta method: the
/// variance is that of `numerator - ratio · denominator` over the squared mean denominator.
pub fn ratio(numerator: &[f64], denominator: &[f64]) -> Interval {
    let n = numerator.len();
    let over = denominator.iter().sum::<f64>() / n as f64;
    let value = numerator.iter().sum::<f64>() / n as f64 / over;
    if n < 2 {
        return Interval {
            value,
            half_width: 0.0,
        };
    }
    let residuals = numerator.iter().zip(denominator).map(|(x, y)| {
        let (residual, rounding) = (x - value * y, 2.0 * n as f64 * f64::EPSILON * x.abs());
        match residual.abs() > rounding {
            true => residual.powi(2),
            false => 0.0,
        }
    });
    let variance = residuals.sum::<f64>() / (n - 1) as f64;
    Interval {
        value,
        half_width: student_t95(n - 1) * (variance / n as f64).sqrt() / over.abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_proportional_samples_is_certain() {
        let base = [3.0, 5.0, 9.0, 2.0];
        let twice: Vec<f64> = base.iter().map(|x| 2.0 * x).collect();
        let interval = ratio(&twice, &base);
        assert!(
            (interval.value - 2.0).abs() < 1e-12 && interval.half_width < 1e-12,
            "{interval:?}"
        );
    }

    #[test]
    fn equal_samples_have_no_spread() {
        let samples = [0.986_666_441_666_7; 30];
        assert_eq!(mean(&samples).half_width, 0.0);
        assert_eq!(ratio(&samples, &[1.63; 30]).half_width, 0.0);
    }

    /// Student's t by scipy 1.17.1.
    #[test]
    fn half_widths_are_those_of_student() {
        for (found, value, half_width) in [
            (mean(&[3.0, 5.0, 9.0, 2.0]), 4.75, 4.925_943_048),
            (
                ratio(&[1.0, 2.0, 3.0, 4.0], &[2.0, 2.0, 4.0, 4.0]),
                5.0 / 6.0,
                0.322_795_857,
            ),
            (mean(&[7.0]), 7.0, 0.0),
            (mean(&[1.0, 3.0]), 2.0, 12.706_204_736),
        ] {
            let off = (found.value - value).abs() + (found.half_width - half_width).abs();
            assert!(off < 1e-6, "{found:?}");
        }
        let other_unit = mean(&[1.0, 3.0]).scaled(-10.0);
        let half_width = mean(&[10.0, 30.0]).half_width;
        assert_eq!(other_unit.low(), -20.0 - half_width);
        assert_eq!(other_unit.high(), -20.0 + half_width);
    }
}
