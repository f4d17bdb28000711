//! The configuration in `/etc/zmeld.toml` and its drop-ins.
//!
//! A [`Config`] is a list of [`Tier`]s, fastest first, with the kernel's
//! tunables, the rules of `zmeld watch` and where metrics go. It says nothing
//! about the machine: sizes may be shares of a RAM that is not known yet, and
//! a device may be named by a tag that nothing carries.
//!
//! `docs/keys.md` is the reference for whoever writes the file.

pub mod advice;
mod check;
mod choices;
pub mod codec;
mod config;
mod contradictions;
pub mod encryption;
mod files;
pub mod finding;
pub mod kernel_value;
mod key;
mod load;
pub mod location;
mod mistakes;
pub mod settings;
pub mod tier;
mod write;

pub use choices::choices;
pub use codec::Codec;
pub use config::Config;
pub use encryption::{Cipher, Encryption, EncryptionKind};
pub use files::FROM_EARLYOOM;
pub use finding::{ConfigError, FilePosition, Finding, FindingId, Remedy, Severity};
pub use key::{name_of, Named, Number};
pub use load::{from_table, from_toml, Loaded};
pub use location::Location;
pub use settings::{
    GuardRule, MeldRule, Metrics, PageFilter, ReclaimRule, RecompressRule, Swappiness, Tunables,
    Watch, WritebackRule,
};
pub use tier::{
    CheckWrites, Discard, DiskSwap, Kind, MeldMode, Place, RamDevice, RamDriver, Size, SlotTable,
    Source, Swap, Tier, TierName, Writeback, Zpool, Zswap,
};
pub use write::Comments;
pub use zmeld_linux::amount::{Bytes, Percent, Span};
pub use zmeld_linux::groups::GroupPattern;
