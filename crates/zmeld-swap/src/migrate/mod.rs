//! The ways in and out: what other tools set up, as a configuration, and a configuration as
//! systemd's units.

pub mod generator;
pub mod import;
pub mod units;
