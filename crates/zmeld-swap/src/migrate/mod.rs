//! The ways in and out: what other tools set up, as a configuration, and a configuration as
//! systemd's units.
//!
//! | module | what it knows |
//! |---|---|
//! | [`import`] | what other tools set up, as a configuration |
//! | [`generator`] | the systemd generator |
//! | [`units`] | its units, which `zmeld export systemd` shows |

pub mod generator;
pub mod import;
pub mod units;
