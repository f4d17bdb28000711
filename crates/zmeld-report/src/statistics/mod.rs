//! Statistics and uncertainty of repeated runs.
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
