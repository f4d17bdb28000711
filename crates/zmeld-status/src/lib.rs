//! What is wrong with a machine's swap, and its figures for monitoring systems.
//!
//! | module | what it knows |
//! |---|---|
//! | [`findings`] | what is wrong, how one can tell, and the way out |
//! | [`metrics`] | an observation as a monitoring system reads it |
#![deny(missing_docs)]

pub mod findings;
pub mod metrics;
