//! Test, benchmark and build tasks.

fn main() {}
