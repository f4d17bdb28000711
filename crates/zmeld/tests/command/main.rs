//! The built command, run as its users run it.

mod bench;
mod cases;
mod errors;
mod full_disk;
mod held;
mod interrupt;
mod json;
mod live;
mod own_run;
mod predictions;
mod run;
mod setup;
mod size;
mod survey;
mod terminal;
mod top;
