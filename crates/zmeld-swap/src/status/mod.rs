//! Findings on a machine's swap, and its figures for monitoring systems.
//!
//! | module | what it knows |
//! |---|---|
//! | [`config_check`](mod@config_check) | what a machine has against a configuration |
//! | [`outstanding`] | what `zmeld up` would change, for who only looks |
//! | [`findings`] | what is wrong, how one can tell, and the way out |
//! | [`page`] | all of it, and how people read it |
//! | [`profile`] | rules for a kind of machine |
//! | [`metrics`] | an observation as a monitoring system reads it |

pub mod config_check;
pub mod findings;
pub mod metrics;
pub mod outstanding;
pub mod page;
pub mod profile;
