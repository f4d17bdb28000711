//! Between which bounds a figure lies, and what that says of a bar.

use serde::Serialize;

/// How often programs and pages are drawn.
const SAMPLES: usize = 1000;

/// Whether the bar is met, by the whole interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Met,
    Undecided,
    Missed,
}

impl Verdict {
    /// From the bounds.
    pub fn of(at_most: f64, low: f64, high: f64) -> Verdict {
        if high <= at_most {
            Verdict::Met
        } else if low <= at_most {
            Verdict::Undecided
        } else {
            Verdict::Missed
        }
    }

    /// In tables.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Undecided => "undecided",
            Verdict::Missed => "missed",
        }
    }
}

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// A page's figures with both codecs.
pub type Pair = (f64, f64);

/// As many programs as there are, each with as many pages of its own: pages of one
/// program are alike, so that another choice of programs changes more than one of pages.
fn draw(programs: &[Vec<Pair>], random: &mut Random) -> Vec<Pair> {
    let mut drawn = Vec::new();
    for _ in programs {
        let pages = &programs[random.below(programs.len())];
        drawn.extend(pages.iter().map(|_| pages[random.below(pages.len())]));
    }
    drawn
}

/// The bounds of 95 % of samples of these programs and, in each, of its pages.
pub fn interval(programs: &[Vec<Pair>], figure: impl Fn(&[Pair]) -> f64) -> [f64; 2] {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut samples: Vec<f64> = (0..SAMPLES)
        .map(|_| figure(&draw(programs, &mut random)))
        .collect();
    samples.sort_by(f64::total_cmp);
    [samples[SAMPLES * 25 / 1000], samples[SAMPLES * 975 / 1000]]
}
