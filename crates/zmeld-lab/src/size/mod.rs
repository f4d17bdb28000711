//! How small a machine will do: the least RAM with which a workload still does its job,
//! for each variant.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`search`] | which limit is tried next, and what the runs with it allow to be said |
//! | [`result`] | what is kept: schema `zmeld.bench.size/2` |
//! | [`report`] | what it looks like |
//!
//! Running it is `experiment::size`.

pub mod report;
pub mod result;
pub mod search;

pub use result::{Basis, Least, Question, SizeRun, SizeSearch, Step, VariantSearch};
pub use search::Verdict;
