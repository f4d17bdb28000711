//! Which compressed swap suits a machine, and why: the one answer that `zmeld
//! scan`, `zmeld plan` and `zmeld status` give.
//!
//! It is computed from facts alone, so that whoever has the same facts says the
//! same. They are read in one place ([`mod@machine`]); this crate measures nothing.
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
