//! The intervals of `cargo xtask bench codec`.

#[path = "../benches/codec/interval.rs"]
mod interval;

use interval::{interval, Pair, Verdict};

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
        let [low, high] = interval(&programs, mean_ratio);
        assert!((0.65..0.75).contains(&low), "{pages} pages: from {low}");
        assert!((0.85..0.95).contains(&high), "{pages} pages: to {high}");
    }
    let [low, high] = interval(&[program(0.7, 9), program(0.7, 9)], mean_ratio);
    assert!((low - 0.7).abs() < 1e-9 && (high - 0.7).abs() < 1e-9);
}

/// One program: its pages are drawn anew.
#[test]
fn another_choice_of_pages_is_in_the_interval() {
    let pages: Vec<Pair> = (0..100).map(|k| (f64::from(k % 2), 1.0)).collect();
    let [low, high] = interval(&[pages], mean_ratio);
    assert!((0.35..0.45).contains(&low), "from {low}");
    assert!((0.55..0.65).contains(&high), "to {high}");
}

#[test]
fn a_bar_is_met_where_the_whole_interval_is() {
    assert_eq!(Verdict::of(0.85, 0.80, 0.85), Verdict::Met);
    assert_eq!(Verdict::of(0.85, 0.80, 0.86), Verdict::Undecided);
    assert_eq!(Verdict::of(0.85, 0.86, 0.90), Verdict::Missed);
    let said = [Verdict::Met, Verdict::Undecided, Verdict::Missed].map(Verdict::text);
    assert_eq!(said, ["met", "undecided", "missed"]);
}
