//! Setting up and taking down a machine that is a directory.

mod common;
mod crash;
mod take_over;
mod traps;
