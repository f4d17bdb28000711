//! Which compressed swap suits a machine, and why: the one answer that `zmeld
//! scan`, `zmeld plan` and `zmeld status` give.
//!
//! It is computed from facts alone, so that whoever has the same facts says the
//! same. They are read in one place ([`mod@machine`]); this crate measures nothing.
//!
//! | module | what it decides |
//! |---|---|
//! | [`mod@beside`] | what two compressed places at once do to each other |
//! | [`codec`] | what measuring codecs came to |
//! | [`size`] | how large a device is, what it may take, what it gains |
//! | [`mod@machine`] | what is known of a machine, as a scan and a plan need it |
//! | `active` | what is there already |
//! | [`tier`] | a compressed device, or zswap in front of a disk |
//! | [`meld`] | whether melding pays, and what melds here |
//! | [`module`] | whether the kernel has a driver, or could have it |
//! | [`tunables`] | which swappiness and read-ahead fit the swap |
//! | [`image`] | whether a machine that hibernates can keep its image |
//! | [`unsupported`] | what a configuration asks for and the machine cannot give |
//! | `configuration` | all of it as a configuration |
//!
//! Invariants:
//! - A device of the advised size and limit is never found oversized by
//!   [`size::holds`], before it is filled and at the ratio that it was advised for.
//! - The used and the maximum bytes of a device both count the pool's memory
//!   and the table of slots.

mod active;
pub mod beside;
pub mod codec;
mod configuration;
pub mod image;
pub mod machine;
pub mod meld;
pub mod module;
pub mod size;
pub mod tier;
pub mod tunables;
pub mod unsupported;

pub use crate::tier::TierKind;
pub use active::{ActiveSwap, ZswapFacts};
pub use beside::{beside, CompressedPlace};
pub use codec::CodecVerdict;
pub use configuration::Recommended;
pub use machine::Machine;
pub use module::ModulePresence;
pub use size::{Basis, Sizing};
pub use tier::{recommend, Choice, Facts, Pool, Recommendation};
pub use tunables::SwapKinds;
