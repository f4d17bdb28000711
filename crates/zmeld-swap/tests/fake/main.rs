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

#[path = "../script/findings.rs"]
mod as_lines;
#[path = "../script/mod.rs"]
mod script;
