//! Compressed swap on a Linux machine: planned, set up, taken down.
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
