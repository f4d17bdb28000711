//! The interval of a median, by the percentile bootstrap.
//!
//! Percentile, not BCa: the acceleration that BCa takes from leaving single
//! values out means nothing for a median, which does not move smoothly when one
//! is left out (Efron and Tibshirani, An Introduction to the Bootstrap, 1993,
//! section 11.6 on the jackknife and the median).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::statistics::sample::{median, median_of_sorted};
use crate::units::Estimate;

pub const LEVEL: f64 = 0.95;

/// The level at which intervals of two variants may be compared by eye: where two
/// such intervals have no point in common, the variants differ at the 5 % level
/// (Goldstein and Healy, The graphical presentation of a collection of means,
/// 1995; for equal widths 2 Φ(1.96/√2) - 1). Two intervals of 95 % each would
/// overlap at differences that are well established.
pub const COMPARISON_LEVEL: f64 = 0.834;

/// How often a median is drawn anew.
const DRAWS: usize = 2000;

/// The median with its interval at this level. The seed makes it the same each
/// time. From fewer than two values there is no interval: its ends are
/// infinite.
pub fn median_interval(samples: &[f64], level: f64, seed: u64) -> Estimate {
    let value = median(samples);
    let n = samples.len();
    if n < 2 {
        return Estimate::new(value, f64::NEG_INFINITY, f64::INFINITY);
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Sorted values are drawn by their index: counting how often each came up
    // gives the draw in order without sorting it.
    let mut counts = vec![0u16; n];
    let mut drawn = Vec::with_capacity(n);
    let mut medians: Vec<f64> = (0..DRAWS)
        .map(|_| {
            counts.fill(0);
            for _ in 0..n {
                counts[random.random_range(0..n)] += 1;
            }
            drawn.clear();
            for (&value, &count) in sorted.iter().zip(&counts) {
                drawn.extend(std::iter::repeat_n(value, usize::from(count)));
            }
            median_of_sorted(&drawn)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = (1.0 - level) / 2.0;
    let at = |part: f64| medians[((DRAWS as f64 * part) as usize).min(DRAWS - 1)];
    Estimate::new(value, at(tail), at(1.0 - tail))
}

/// How often programs and pages are drawn.
const PROGRAM_DRAWS: usize = 1000;

/// The bounds of 95 % of samples of these programs and, in each, of its pages: pages of one
/// program are alike, so that another choice of programs changes more than one of pages. The
/// same each time.
pub fn program_interval<P: Copy>(programs: &[Vec<P>], figure: impl Fn(&[P]) -> f64) -> [f64; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut drawn = Vec::new();
    let mut samples: Vec<f64> = (0..PROGRAM_DRAWS)
        .map(|_| {
            drawn.clear();
            for _ in programs {
                let pages = &programs[random.random_range(0..programs.len())];
                drawn.extend(
                    pages
                        .iter()
                        .map(|_| pages[random.random_range(0..pages.len())]),
                );
            }
            figure(&drawn)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    [
        samples[PROGRAM_DRAWS / 40],
        samples[PROGRAM_DRAWS - PROGRAM_DRAWS / 40],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, Normal};

    type Pair = (f64, f64);

    fn mean_ratio(pages: &[Pair]) -> f64 {
        let sum = |of: fn(&Pair) -> f64| pages.iter().map(of).sum::<f64>();
        sum(|page| page.0) / sum(|page| page.1)
    }

    /// Programs that differ, of pages that do not: how they were chosen is all that is
    /// uncertain, and many pages do not make it less so.
    #[test]
    fn another_choice_of_programs_is_in_the_interval() {
        let program = |ratio: f64, pages| vec![(100.0 * ratio, 100.0); pages];
        for pages in [10, 1000] {
            let programs = [0.6, 0.7, 0.8, 0.9, 1.0].map(|ratio| program(ratio, pages));
            let [low, high] = program_interval(&programs, mean_ratio);
            assert!((0.65..0.75).contains(&low), "{pages} pages: from {low}");
            assert!((0.85..0.95).contains(&high), "{pages} pages: to {high}");
        }
        let [low, high] = program_interval(&[program(0.7, 9), program(0.7, 9)], mean_ratio);
        assert!((low - 0.7).abs() < 1e-9 && (high - 0.7).abs() < 1e-9);
    }

    /// One program: its pages are drawn anew.
    #[test]
    fn another_choice_of_pages_is_in_the_interval() {
        let pages: Vec<Pair> = (0..100).map(|k| (f64::from(k % 2), 1.0)).collect();
        let [low, high] = program_interval(&[pages], mean_ratio);
        assert!((0.35..0.45).contains(&low), "from {low}");
        assert!((0.55..0.65).contains(&high), "to {high}");
    }

    #[test]
    fn intervals_cover_what_they_promise() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let normal = Normal::new(10.0, 1.0).expect("a valid law");
        let trials = 1000;
        for (n, level, least) in [
            (15, LEVEL, 0.92),
            (15, COMPARISON_LEVEL, 0.78),
            (40, LEVEL, 0.925),
        ] {
            let covered = (0..trials)
                .filter(|&trial| {
                    let samples: Vec<f64> = (0..n).map(|_| normal.sample(&mut random)).collect();
                    let interval = median_interval(&samples, level, trial);
                    interval.low <= 10.0 && 10.0 <= interval.high
                })
                .count() as f64;
            let share = covered / trials as f64;
            assert!(
                (least..level + 0.04).contains(&share),
                "{n} at {level}: {share}"
            );
        }
    }

    /// Of two values the median is the lower, the middle and the higher in 1, 2 and 1 of 4 draws.
    #[test]
    fn an_interval_leaves_out_what_its_level_says() {
        let ends = |level| {
            let found = median_interval(&[3.0, 1.0], level, 1);
            assert_eq!(found.value, 2.0);
            (found.low, found.high)
        };
        assert_eq!(
            [LEVEL, 0.6, 0.4].map(ends),
            [(1.0, 3.0), (1.0, 3.0), (2.0, 2.0)]
        );
    }

    #[test]
    fn intervals_that_touch_have_a_point_in_common() {
        let of = |low, high| Estimate::new(-4.0, low, high);
        for (one, other, is_so) in [
            (of(1.0, 3.0), of(3.0, 4.0), true),
            (of(1.0, 3.0), of(2.0, 2.5), true),
            (of(1.0, 3.0), of(3.1, 4.0), false),
        ] {
            assert_eq!(one.overlaps(&other), is_so, "{one:?} {other:?}");
            assert_eq!(other.overlaps(&one), is_so, "{one:?} {other:?}");
        }
        assert_eq!(of(1.0, 3.0).relative_half_width(), 0.25);
        let endless = of(f64::INFINITY, f64::INFINITY);
        assert_eq!(endless.relative_half_width(), f64::INFINITY);
    }

    #[test]
    fn a_variant_that_was_killed_has_an_infinite_interval() {
        let killed = median_interval(&[f64::INFINITY; 5], LEVEL, 1);
        assert_eq!((killed.low, killed.high), (f64::INFINITY, f64::INFINITY));
        let half = median_interval(&[1.0, 1.0, 1.0, f64::INFINITY, f64::INFINITY], LEVEL, 1);
        assert_eq!((half.value, half.high), (1.0, f64::INFINITY));
        assert_eq!(median_interval(&[2.0], LEVEL, 1).low, f64::NEG_INFINITY);
    }
}
