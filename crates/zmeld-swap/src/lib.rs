//! Compressed swap on a Linux machine: planned, set up, taken down, watched.
//!
//! | module | what it knows |
//! |---|---|
//! | [`applied`] | what was set up, by the names that the kernel uses |
//! | [`config`] | what is wanted: `/etc/zmeld.toml` and its drop-ins, read, checked, written |
//! | [`export`] | the configuration as systemd units, for NixOS |
//! | [`generator`] | the systemd generator |
//! | [`import`] | what other tools set up, as a configuration |
//! | [`observe`] | the machine's memory tiers at one instant, and why their numbers differ |
//! | `finding` | something that is wrong, and the catalogue of what is known by name |
//! | [`findings`] | what is wrong with it, how one can tell, and the way out |
//! | [`meld`] | a melding pass on a device, and what came of it |
//! | [`watch`] | recompression, writeback and melding when a rule says so |
//! | [`metrics`] | an observation as a monitoring system reads it |
//! | [`ciphers`] | how fast the ciphers for a drive are |
//! | [`machine`] | RAM, swap and what the kernel offers |
//! | [`plan`] | from a configuration and a machine to steps, with reasons and traps, and what of it is in place |
//! | [`recommend`] | the configuration for a machine for which nobody wrote one |
//! | [`random_read`] | how fast a drive gives pages back |
//! | [`step`], [`steps`] | one change: checked, applied, verified, undone |
//! | [`identity`] | which thing it is, whatever has its name by now |
//! | [`journal`] | what was done, on disk before and after each step, and the lock |
//! | [`run_folder`] | the folder that it is in, which is root's alone to write |
//! | [`outstanding`] | what `zmeld up` would change, for who only looks |
//! | [`room`] | whether what is swapped out fits back into RAM and into its control groups |
//! | [`execute`] | up, down, and what happens when a step fails or a run is killed |
//! | [`event`] | what happens, told as it happens |
//! | [`error`] | what can go wrong, in one line each |
//!
//! Everything that touches the machine goes through a [`Host`](zmeld_linux::Host), whose
//! root directory can be another than `/`. This crate prints nothing.
#![deny(missing_docs)]

pub mod applied;
pub mod ciphers;
pub mod config;
mod crypto;
pub mod error;
pub mod event;
pub mod execute;
pub mod export;
mod finding;
pub mod findings;
pub mod generator;
pub mod identity;
mod image;
pub mod import;
pub mod journal;
pub mod machine;
pub mod meld;
pub mod metrics;
pub mod observe;
pub mod outstanding;
mod overfull;
pub mod plan;
pub mod random_read;
pub mod recommend;
pub mod room;
pub mod run_folder;
pub mod step;
pub mod steps;
pub mod watch;

pub use error::{Error, ErrorKind};
