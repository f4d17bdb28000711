//! Setting up and taking down a machine that is a directory.

mod boot;
mod common;
mod crash;
mod identity;
mod left_out;
mod outstanding;
mod owner;
mod reconcile;
mod room;
mod stand_in;
mod take_over;
mod traps;
mod truth;
