//! Statistics and uncertainty of repeated runs.
//!
//! | module | what belongs there |
//! |---|---|
//! | `sample` | median, spread, outliers, drift of one variant's runs |
//! | `bootstrap` | the interval of a median; of any figure of programs and their pages |
//! | `mean` | means and ratios of simulated figures, by Student's t |
//! | `rank` | Mann-Whitney's U, exact where it can be |
//! | `effect` | how much larger: Hodges-Lehmann ratio with its interval, Cliff's delta |
//! | `verdict` | what may be said about variants that were run side by side |
//! | `stopping` | when to stop repeating |
//! | `real` | numbers in JSON that may be infinite |
//!
//! A run that did not finish counts as worse than every run that did
//! ([`f64::INFINITY`] for a time): ranks and medians carry that through without
//! a special case. Means would not, which is one reason why there are none of measured
//! times; the other is that times under memory pressure have long tails.
//!
//! The crate prints nothing.

pub mod bootstrap;
pub mod effect;
pub mod mean;
pub mod rank;
pub mod real;
pub mod sample;
pub mod stopping;
pub mod verdict;

pub use effect::Effect;
pub use sample::Noise;
pub use verdict::{Comparison, Direction, Verdict};
