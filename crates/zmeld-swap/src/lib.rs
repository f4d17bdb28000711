//! Compressed swap on a Linux machine: planned, set up, taken down, watched.
//!
//! | module | what it knows |
//! |---|---|
//! | [`config`] | what is wanted: `/etc/zmeld.toml` and its drop-ins, read, checked, written |
//! | [`export`] | the configuration as systemd units, as a shell script, for NixOS |
//! | [`generator`] | the systemd generator |
//! | [`kernel`] | the one way to read and write `/sys` and `/proc` and to run commands |
//! | [`machine`] | RAM, swap and what the kernel offers |
//! | [`plan`] | from a configuration and a machine to steps, with reasons and traps |
//! | [`step`], [`steps`] | one change: checked, applied, verified, undone |
//! | [`journal`] | what was done, on disk before and after each step, and the lock |
//! | [`execute`] | up, down, and what happens when a step fails or a run is killed |
//! | [`event`] | what happens, told as it happens |
//! | [`error`] | what can go wrong, in one line each |
//!
//! Everything that touches the machine goes through a [`kernel::Host`], whose
//! root directory can be another than `/`. This crate prints nothing.
#![deny(missing_docs)]

pub mod config;
pub mod error;
pub mod event;
pub mod execute;
pub mod export;
pub mod generator;
pub mod journal;
pub mod kernel;
pub mod machine;
pub mod plan;
pub mod step;
pub mod steps;

pub use error::{Error, ErrorKind};
pub use kernel::Host;
