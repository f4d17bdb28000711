//! Measurements around and during a run.

pub mod counters;
pub mod series;
pub mod supervise;

pub use counters::{Counters, HostFacts};
pub use series::{Sample, Series};
pub use supervise::{Usage, WorkloadEnd};
