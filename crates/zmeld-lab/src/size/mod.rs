//! How small a machine will do: the least RAM with which a workload still does its job,
//! for each set-up.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`search`] | which limit is tried next, and what the runs with it allow to be said |
//! | [`touches`] | which pages are touched again, and when, in a run without a limit |
//! | [`sampled`] | the same page by page, of a sample that is swapped out on purpose |
//! | `lists` | which touches are faults with a limit, by the lists of the kernel's reclaim |
//! | [`predict`] | what limits would do, from that |
//! | [`result`] | what is kept: schema `zmeld.bench.size/1` |
//!
//! Running it is `experiment::size`.

pub(crate) mod lists;
pub mod predict;
pub mod result;
pub mod sampled;
pub mod search;
pub mod touches;

pub use result::{Basis, Least, Question, SetUp, SizeRun, SizeSearch, Step};
pub use search::Verdict;
