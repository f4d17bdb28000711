//! Measurements around and during a run.
//!
//! | module | what it reads |
//! |---|---|
//! | `supervise` | the process that starts a workload, waits for it and asks what it used |
//! | `machine` | the kernel's counters before and after; what the machine is |
//! | `series` | memory and swap over time |

pub mod counters;
pub mod series;
pub mod supervise;

pub use counters::{Counters, HostFacts};
pub use series::{Sample, Series};
pub use supervise::{Usage, WorkloadEnd};
