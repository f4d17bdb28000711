//! The statistics on synthetic runs whose answer is known.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal, Normal};
use zmeld_report::statistics::stopping::StoppingRule;
use zmeld_report::statistics::verdict::{judge, VariantRuns};
use zmeld_report::statistics::Direction;

fn runs(variant: &str, values: Vec<f64>) -> VariantRuns {
    VariantRuns {
        variant: variant.into(),
        values,
        unfinished: 0,
        pressure: true,
    }
}

/// Whether any pair of these variants was said to differ.
fn says_anything(variants: &[VariantRuns], seed: u64) -> bool {
    use zmeld_report::statistics::Verdict::Better;
    let comparisons = judge(variants, Direction::Lower, seed).comparisons;
    comparisons.iter().any(|c| matches!(c.verdict, Better(_)))
}

/// The largest count that a true share of 5 % reaches in all but 1 of 1000 experiments of 500 trials.
const FALSE_MAX: usize = 41;
const TRIALS: u64 = 500;

#[test]
fn no_difference_has_no_winner() {
    let normal = Normal::new(10.0, 0.5).unwrap();
    let skewed = LogNormal::new(2.0, 0.3).unwrap();
    for variants in [2, 4] {
        for n in [5, 7, 15] {
            let mut random = ChaCha8Rng::seed_from_u64(n as u64);
            let mut draw = |long: bool| -> Vec<f64> {
                (0..n)
                    .map(|_| {
                        if long {
                            skewed.sample(&mut random)
                        } else {
                            normal.sample(&mut random)
                        }
                    })
                    .collect()
            };
            for long in [false, true] {
                let wrong = (0..TRIALS)
                    .filter(|&seed| {
                        let variants: Vec<_> = (0..variants)
                            .map(|at| runs(&at.to_string(), draw(long)))
                            .collect();
                        says_anything(&variants, seed)
                    })
                    .count();
                assert!(
                    wrong <= FALSE_MAX,
                    "{variants} variants, {n} runs, long tails {long}: {wrong} of {TRIALS}"
                );
            }
        }
    }
}

#[test]
fn ten_percent_is_found_in_fifteen_runs() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut draw = |mean: f64| {
        let law = Normal::new(mean, 0.05 * mean).unwrap();
        (0..15).map(|_| law.sample(&mut random)).collect::<Vec<_>>()
    };
    let found = (0..TRIALS)
        .filter(|&seed| {
            let variants = [runs("slow", draw(11.0)), runs("fast", draw(10.0))];
            judge(&variants, Direction::Lower, seed).winner.as_deref() == Some("fast")
        })
        .count();
    assert!(found as f64 >= 0.95 * TRIALS as f64, "{found} of {TRIALS}");
}

#[test]
fn stopping_at_a_width_does_not_invent_winners() {
    for (deviation, width, variants) in [
        (0.5, 0.05, 2),
        (0.5, 0.03, 2),
        (0.2, 0.02, 2),
        (1.0, 0.05, 3),
    ] {
        let law = Normal::new(10.0, deviation).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(11);
        let rule = StoppingRule {
            runs_min: 5,
            runs_max: 30,
            width,
        };
        let mut stopped_at = 0;
        let wrong = (0..TRIALS)
            .filter(|&seed| {
                let mut values = vec![Vec::new(); variants];
                while !rule.is_enough(values.iter().map(Vec::as_slice), seed) {
                    for variant in &mut values {
                        variant.push(law.sample(&mut random));
                    }
                }
                stopped_at += values[0].len();
                let variants: Vec<_> = values
                    .into_iter()
                    .enumerate()
                    .map(|(at, values)| runs(&at.to_string(), values))
                    .collect();
                says_anything(&variants, seed)
            })
            .count();
        let mean = stopped_at as f64 / TRIALS as f64;
        assert!(
            wrong <= FALSE_MAX,
            "noise {deviation}, width {width}, of {variants}: {wrong} of {TRIALS}, {mean} runs"
        );
    }
}
