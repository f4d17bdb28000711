//! Experiments that an engineer would trust: a workload under real memory
//! pressure, with each set-up in turn, and an answer with its uncertainty.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`recipe`] | what is run, under which limit, with which variants; what was published |
//! | [`workload`] | workloads whose data are known and whose results are verified |
//! | `limit` | a memory limit of its own for each run |
//! | [`variant`] | what is compared, by `zmeld_swap::setup`; a disk as slow as wanted |
//! | [`measure`] | what a run used, what the machine counted, memory over time |
//! | [`vm`] | whole machines instead of limits: one booted for each run |
//! | [`experiment`] | the order of runs, one run, the result |
//! | [`size`] | how small a machine will do: the search for the least RAM |
//! | `name` | how what an experiment makes is called |
//! | `folder` | folders of an experiment's own where anybody may write |
//! | `leftover` | what experiments that are over left |
//! | `error` | what can go wrong, in one line each |
//!
//! The crate prints nothing.

mod error;
pub mod experiment;
mod folder;
mod leftover;
mod limit;
pub mod measure;
mod name;
pub mod recipe;
pub mod size;
pub mod variant;
pub mod vm;
pub mod workload;

pub use error::Error;
pub use recipe::Recipe;

/// Whether a file may leave it out.
fn is_default<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}
