//! Mann-Whitney's U: whether values of one sample tend to be larger than those
//! of another, from their ranks alone.
//!
//! Up to 50 values in all the distribution is counted out, ties included (the
//! permutation distribution of the midranks); above, the normal approximation
//! with the correction for ties and for continuity (Hollander, Wolfe and
//! Chicken, Nonparametric Statistical Methods, 2014, section 4.1).

use statrs::distribution::{ContinuousCDF, Normal};

/// Up to so many values in both samples together are counted out. Numbers of
/// ways stay below 2^53 here, so that they are exact.
const EXACT_MAX: usize = 50;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// Pairs in which the first sample's value is the larger; equal values count half.
    pub u: f64,
    /// Two-sided probability of a U so far from the middle, were there no difference.
    pub p: f64,
}

/// Compares two samples; p is 1 if one is empty.
pub fn mann_whitney(first: &[f64], second: &[f64]) -> MannWhitney {
    let (n, m) = (first.len(), second.len());
    if n == 0 || m == 0 {
        return MannWhitney { u: 0.0, p: 1.0 };
    }
    let (doubled, sum) = doubled_ranks(first, second);
    let u = sum as f64 / 2.0 - (n * (n + 1)) as f64 / 2.0;
    let p = match n + m <= EXACT_MAX {
        true => p_exact(&doubled, n, sum),
        false => p_normal(&doubled, n, m, u),
    };
    MannWhitney { u, p }
}

/// Twice the midrank of every value, and the sum of those of the first sample.
fn doubled_ranks(first: &[f64], second: &[f64]) -> (Vec<usize>, usize) {
    let mut all: Vec<(f64, bool)> = first.iter().map(|&x| (x, true)).collect();
    all.extend(second.iter().map(|&x| (x, false)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut doubled = Vec::with_capacity(all.len());
    let mut sum = 0;
    let mut begin = 0;
    while begin < all.len() {
        let ties = all[begin..]
            .iter()
            .take_while(|x| x.0 == all[begin].0)
            .count();
        // Ranks begin+1 to begin+ties; twice their mean.
        let rank = 2 * begin + ties + 1;
        for (_, is_first) in &all[begin..begin + ties] {
            doubled.push(rank);
            sum += if *is_first { rank } else { 0 };
        }
        begin += ties;
    }
    (doubled, sum)
}

/// How many ways there are to choose `n` of the ranks with each sum.
fn ways(doubled: &[usize], n: usize) -> Vec<f64> {
    let sum_max: usize = doubled.iter().rev().take(n).sum();
    let mut table = vec![vec![0.0; sum_max + 1]; n + 1];
    table[0][0] = 1.0;
    for (seen, &rank) in doubled.iter().enumerate() {
        for chosen in (1..=n.min(seen + 1)).rev() {
            let (fewer, more) = table.split_at_mut(chosen);
            let (from, to) = (&fewer[chosen - 1], &mut more[0]);
            for sum in rank..=sum_max {
                to[sum] += from[sum - rank];
            }
        }
    }
    table.swap_remove(n)
}

fn p_exact(doubled: &[usize], n: usize, sum: usize) -> f64 {
    let ways = ways(doubled, n);
    let total: f64 = ways.iter().sum();
    let below: f64 = ways[..=sum].iter().sum();
    let above: f64 = ways[sum..].iter().sum();
    (2.0 * below.min(above) / total).min(1.0)
}

/// The smallest probability that samples of these sizes can give: all of one below all of the other.
pub(crate) fn p_least(n: usize, m: usize) -> f64 {
    let ways: f64 = (1..=n).map(|at| (m + at) as f64 / at as f64).product();
    (2.0 / ways).min(1.0)
}

fn p_normal(doubled: &[usize], n: usize, m: usize, u: f64) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let all = n + m;
    let mut ties = 0.0;
    for group in doubled.chunk_by(|a, b| a == b) {
        let t = group.len() as f64;
        ties += t * t * t - t;
    }
    let variance = n * m / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    (2.0 * Normal::standard().sf(z)).min(1.0)
}

/// How many of the n·m ordered differences lie outside, on each side, an
/// interval at this level for the shift: the largest k with P(U < k) at most
/// half of what is left over. `None` where the samples are too small for any.
pub(crate) fn differences_outside(n: usize, m: usize, level: f64) -> Option<usize> {
    let tail = (1.0 - level) / 2.0;
    let k = if n + m <= EXACT_MAX {
        // Without ties: U is the rank sum less its minimum.
        let doubled: Vec<usize> = (1..=n + m).map(|rank| 2 * rank).collect();
        let ways = ways(&doubled, n);
        let total: f64 = ways.iter().sum();
        let mut below = 0.0;
        (0..=n * m)
            .take_while(|u| {
                below += ways[2 * u + n * (n + 1)];
                below / total <= tail
            })
            .count()
    } else {
        let (n, m) = (n as f64, m as f64);
        let z = Normal::standard().inverse_cdf(1.0 - tail);
        let k = n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt();
        k.floor().max(0.0) as usize
    };
    (k > 0).then_some(k)
}

/// Holm's correction: the probabilities, each as large as it must be so that
/// comparing all of them with 5 % errs at all in at most 5 % of experiments
/// (Holm, A simple sequentially rejective multiple test procedure, 1979).
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let mut corrected = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (at, &index) in order.iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - at) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(first: &[f64], second: &[f64]) -> f64 {
        mann_whitney(first, second).p
    }

    #[test]
    fn exact_probabilities_are_those_of_the_tables() {
        // All of one below all of the other: 2 of C(n+m, n) orders.
        assert!((p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 2.0 / 20.0).abs() < 1e-12);
        let low: Vec<f64> = (0..5).map(f64::from).collect();
        let high: Vec<f64> = (10..15).map(f64::from).collect();
        assert!((p(&low, &high) - 2.0 / 252.0).abs() < 1e-12);
        // Hollander and Wolfe, table of U for 4 and 4: P(U <= 1) = 2/70.
        let one = mann_whitney(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0]);
        assert_eq!(one.u, 1.0);
        assert!((one.p - 4.0 / 70.0).abs() < 1e-12, "{one:?}");
        assert_eq!(p(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(p(&[], &[1.0]), 1.0);
    }

    #[test]
    fn ties_are_counted_out_too() {
        // Values 1 2 2 | 2 3 3: doubled midranks 2 6 6 6 11 11; the sum of the first is 14, and of the 20 choices
        // of three, {2,6,6} comes up 3 times and no sum is smaller: two-sided 2*3/20.
        assert!((p(&[1.0, 2.0, 2.0], &[2.0, 3.0, 3.0]) - 0.3).abs() < 1e-12);
        // Killed runs are ties at the far end: 3 of 3 killed against none is as sure as it gets with 3.
        let killed = [f64::INFINITY; 3];
        assert!((p(&killed, &[1.0, 2.0, 3.0]) - 0.1).abs() < 1e-12);
    }

    #[test]
    fn the_approximation_meets_the_exact_value() {
        let first: Vec<f64> = (0..25).map(|x| f64::from(x * 7 % 25)).collect();
        let second: Vec<f64> = (0..25).map(|x| f64::from(x * 11 % 25) + 5.0).collect();
        let (doubled, sum) = doubled_ranks(&first, &second);
        let u = sum as f64 / 2.0 - 325.0;
        let (exact, normal) = (p_exact(&doubled, 25, sum), p_normal(&doubled, 25, 25, u));
        assert!((exact / normal - 1.0).abs() < 0.05, "{exact} {normal}");
        assert_eq!(p(&first, &second), exact);
    }

    /// Values of scipy 1.17.1: `mannwhitneyu(first, second, method="asymptotic")`.
    #[test]
    fn ties_among_many_values_count_as_scipy_counts_them() {
        let of = |n: u32, value: fn(u32) -> u32| -> Vec<f64> {
            (0..n).map(|x| f64::from(value(x))).collect()
        };
        for (first, second, u, probability) in [
            (
                of(30, |x| x % 4),
                of(31, |x| x % 5),
                374.0,
                0.181_095_233_556_084_8,
            ),
            (
                of(26, |x| x * x % 7),
                of(40, |x| x * x % 7 + x % 2),
                419.0,
                0.176_787_200_108_789_12,
            ),
            (
                of(31, |x| x / 30),
                of(25, |x| x / 20),
                322.5,
                0.047_246_720_117_182_68,
            ),
        ] {
            let found = mann_whitney(&first, &second);
            assert_eq!(found.u, u);
            assert!((found.p - probability).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(p(&[1.0; 30], &[1.0; 30]), 1.0);
    }

    #[test]
    fn differences_outside_are_those_of_the_tables() {
        // Two-sided 5 %: critical values of U are 2, 8, 23, 64 for 5, 7, 10, 15 (reject at or below), so that one
        // more difference than that lies outside.
        for (n, critical) in [(5, 2), (7, 8), (10, 23), (15, 64)] {
            assert_eq!(differences_outside(n, n, 0.95), Some(critical + 1), "{n}");
        }
        assert_eq!(differences_outside(3, 3, 0.95), None);
        assert_eq!(differences_outside(5, 7, 0.95), Some(6));
        // 800 and 600 less 1.96 deviations of 103.9 and 84.3.
        assert_eq!(differences_outside(40, 40, 0.95), Some(596));
        assert_eq!(differences_outside(40, 30, 0.95), Some(434));
    }

    #[test]
    fn holm_is_stricter_for_the_smallest_and_keeps_order() {
        let corrected = holm(&[0.01, 0.04, 0.03]);
        let expected = [0.03, 0.06, 0.06];
        for (got, want) in corrected.iter().zip(expected) {
            assert!((got - want).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
