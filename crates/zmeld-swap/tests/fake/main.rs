//! Setting up and taking down a machine that is a directory.

mod boot;
mod cases;
mod common;
mod crash;
mod identity;
mod outstanding;
mod owner;
mod reconcile;
mod room;
mod take_over;
mod traps;
mod truth;

#[path = "../as_lines/mod.rs"]
mod as_lines;
