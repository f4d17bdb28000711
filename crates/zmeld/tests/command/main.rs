//! The built command, run as its users run it.

mod bench;
mod errors;
mod interrupt;
mod live;
mod predictions;
mod run;
mod setup;
mod terminal;
