//! A simulator of published page-migration policies for NUMA machines.
//!
//! A [`machine::NumaMachine`] (nodes, processors, distances, costs), a [`scheduler::Scheduler`], a
//! [`workload::Workload`], and a [`policy::Policy`] go in; an [`outcome::Outcome`] comes
//! out of [`engine::SimulationCase::simulate`]: total time, what each process lost and why, where accesses went, the kernel's counters.
//! [`replicate`] repeats that with other seeds, and [`study`] reproduces a published study.
//! [`pages`] makes documents of all of it.
//! Nothing here reads the clock or writes to the terminal: the command `zmeld numa` does.
//!
//! The model and each parameter are described in `docs/numa.md`.
//!
//! ```
//! use zmeld_numa::policy::PolicyName;
//! use zmeld_numa::replicate::Replications;
//! use zmeld_numa::scenario::ScenarioText;
//!
//! let source = ScenarioText::new("[workload]\nprocesses = 20\n".into(), "example".into())?;
//! let scenario = source.scenario()?;
//! let runs = Replications::run(&scenario.case, &scenario.policies, scenario.seed, 10);
//! let gain = runs.gain(PolicyName::OnDemand, PolicyName::NoBalancing).expect("both are run by default");
//! assert!(gain.value > -0.5 && gain.value < 0.5);
//! # Ok::<(), zmeld_numa::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod engine;
mod error;
pub mod machine;
pub mod outcome;
pub mod pages;
pub mod policy;
pub mod replicate;
pub mod scenario;
pub mod scheduler;
pub mod study;
pub mod time;
pub mod workload;

pub use error::Error;
