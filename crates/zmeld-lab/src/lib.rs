//! Experiments that an engineer would trust: workloads under real memory pressure, with each set-up in turn.
pub mod real;
pub mod statistics;
pub mod workload;
