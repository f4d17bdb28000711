//! How small a machine will do: the least RAM with which a workload still does its job,
//! for each variant.
//!
//! Running it is `experiment::size`.

pub mod report;
pub mod result;
pub mod search;

pub use result::{Basis, Least, Question, SizeRun, SizeSearch, Step, VariantSearch};
pub use search::Verdict;
