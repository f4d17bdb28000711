//! Compressed swap on a Linux machine: planned, set up, taken down.
//!
//! | module | what it knows |
//! |---|---|
//! | [`applied`] | what was set up, by the names that the kernel uses |
//! | [`plan`] | from a configuration and a machine to steps, with reasons and warnings, and what of it is in place |
//! | [`step`], `context`, [`steps`] | one change: as it is recorded; what it is given; checked, applied, verified, undone |
//! | [`identity`] | which thing it is, whatever has its name by now |
//! | [`journal`] | what was done, on disk before and after each step, and the lock |
//! | [`swapoff_check`] | whether what is swapped out fits back into RAM and into its control groups |
//! | [`execute`] | up, down, and what happens when a step fails or a run is killed |
//! | [`event`] | what happens, told as it happens |
//! | [`error`] | what can go wrong, in one line each |
//!
//! Everything that touches the machine goes through a [`Host`](zmeld_linux::Host), whose
//! root directory can be another than `/`. It prints nothing.

pub mod applied;
mod context;
pub mod error;
pub mod event;
pub mod execute;
pub mod identity;
pub mod journal;
pub mod plan;
pub mod step;
pub mod steps;
pub mod swapoff_check;

pub use error::{Error, ErrorKind};
