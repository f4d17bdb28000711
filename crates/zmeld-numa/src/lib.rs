//! Which page-migration policy suits a NUMA machine: a simulator.

#![forbid(unsafe_code)]

pub mod cli;
pub mod engine;
pub mod machine;
pub mod outcome;
pub mod pages;
pub mod policy;
pub mod replicate;
pub mod scenario;
pub mod scheduler;
pub mod statistics;
pub mod study;
pub mod sweep;
pub mod time;
pub mod trace;
pub mod workload;
