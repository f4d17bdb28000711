//! Experiments that an engineer would trust: a workload under real memory
//! pressure, with each set-up in turn, and an answer with its uncertainty.
//!
//! The crate prints nothing.

mod error;
pub mod experiment;
mod folder;
mod leftover;
mod limit;
pub mod measure;
mod name;
pub mod recipe;
pub mod size;
pub mod variant;
pub mod vm;
pub mod workload;

pub use error::Error;
pub use recipe::Recipe;

/// Whether a file may leave it out.
fn is_default<T: Default + PartialEq>(it: &T) -> bool {
    *it == T::default()
}
