//! What repeated runs say, with their uncertainty.
//!
//! | module | what belongs there |
//! |---|---|
//! | `sample` | median, spread, outliers, drift of one arm's runs |
//! | `bootstrap` | the interval of a median |
//! | `rank` | Mann-Whitney's U, exact where it can be |
//! | `effect` | how much larger: Hodges-Lehmann ratio with its interval, Cliff's delta |
//! | `verdict` | what may be said about arms that were run side by side |
//! | `stopping` | when to stop repeating |
//!
//! A run that did not finish counts as worse than every run that did
//! ([`f64::INFINITY`] for a time): ranks and medians carry that through without
//! a special case. Means would not, which is one reason why there are none here;
//! the other is that times under memory pressure have long tails.

pub mod bootstrap;
pub mod effect;
pub mod rank;
pub mod sample;
pub mod stopping;
pub mod verdict;

pub use bootstrap::Interval;
pub use effect::Effect;
pub use sample::Noise;
pub use verdict::{Comparison, Direction, Verdict};
