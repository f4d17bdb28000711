//! Which page-migration policy suits a NUMA machine: a simulator.

#![forbid(unsafe_code)]

pub mod engine;
pub mod machine;
pub mod outcome;
pub mod policy;
pub mod scheduler;
pub mod time;
pub mod workload;
