//! Whole machines: instead of a control group with a limit, a virtual machine of
//! that much RAM, booted anew for every run, so that page tables, the kernel's own
//! memory and the page cache compete as they do on a small server.
//!
//! The guest's own programs take RAM on top of the size asked for. Its
//! disk is the variant's slow disk, slowed down by QEMU.

pub mod guest;
pub(crate) mod host;
mod machine;
mod request;

pub use machine::{GuestClock, GuestFacts, GuestFiles, GuestSize};
pub(crate) use request::{GuestRequest, World};
