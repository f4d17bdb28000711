//! Survey of a machine, for whoever looks at many.
//!
//! A [`survey()`] reads the memory of all processes once, owner by owner (a service, a
//! container, a virtual machine), in bounded memory: of each it keeps counts, a sketch
//! of the contents under the fleet's key, and what the sampled pages take in a pool.
//! [`parquet()`] makes a file of it, [`Place`] keeps the file. `docs/survey.md` is the
//! format, the formulas with their sources, and what a survey gives away.
//!
//! It prints nothing.

mod collect;
mod columns;
mod description;
mod error;
mod idle;
pub mod key;
mod objects;
mod owners;
pub mod place;
pub mod pressure;
pub mod report;
mod reservoir;
mod run;
pub mod schedule;
mod sketch;
#[cfg(test)]
mod tests;

pub use columns::{parquet, SCHEMA};
pub use error::Error;
pub use key::Key;
pub use place::Place;
pub use run::{labels, survey, Survey, SurveyOptions, SKETCH, SKETCH_MAX, SKETCH_MIN};
pub use schedule::Schedule;
pub use sketch::Estimate;
