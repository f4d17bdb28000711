//! Compressed and melded swap: what is wanted, what is there, and how to get
//! from one to the other and back.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`config`] | what is wanted: `/etc/zmeld.toml` and its drop-ins, read, checked, written |

pub mod config;
