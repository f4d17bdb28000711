//! The ways in and out: what other tools set up, as a configuration, and a configuration as
//! systemd's units and for NixOS.
//!
//! | module | what it knows |
//! |---|---|
//! | [`import`] | what other tools set up, as a configuration |
//! | [`export`] | the configuration as systemd units, for NixOS |
//! | [`generator`] | the systemd generator |

pub mod export;
pub mod generator;
pub mod import;
