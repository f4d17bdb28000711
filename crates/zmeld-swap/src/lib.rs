//! Compressed swap on a Linux machine: planned, set up, taken down, watched.
//!
//! | module | what it knows |
//! |---|---|
//! | [`config`] | what is wanted: `/etc/zmeld.toml` and its drop-ins, read, checked, written |
//! | [`kernel`] | the one way to read and write `/sys` and `/proc` and to run commands |
//! | [`observe`] | the machine's memory tiers at one instant, and why their numbers differ |
//! | [`findings`] | what is wrong with it, how one can tell, and the way out |
//! | [`meld`] | a melding pass on a device, and what came of it |
//! | [`watch`] | recompression, writeback and melding when a rule says so |
//! | [`metrics`] | an observation as a monitoring system reads it |
//! | [`error`] | what can go wrong, in one line each |
//!
//! Everything that touches the machine goes through a [`kernel::Host`], whose
//! root directory can be another than `/`. This crate prints nothing.
#![deny(missing_docs)]

pub mod config;
pub mod error;
pub mod findings;
pub mod kernel;
pub mod meld;
pub mod metrics;
pub mod observe;
pub mod watch;

pub use error::{Error, ErrorKind};
pub use kernel::Host;
