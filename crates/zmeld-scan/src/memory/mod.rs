//! Sources of pages: live memory, swap devices, dumps, files, streams.
//!
//! Every source is a [`Source`]: it says what it is, how many pages to expect,
//! and hands its pages to a sink, from several threads, in runs that are read
//! straight into a reused buffer. Nothing is ever written, with one exception
//! that is asked for by name: [`ColdTracker`] resets referenced bits.
//!
//! | source | type | pages |
//! |---|---|---|
//! | live memory of processes | [`LiveMemory`] | those present in RAM, each physical page once |
//! | an active swap device or swap file | [`SwapDevice`] | its used slots |
//! | a regular file, a block device, a raw memory image | [`FileSource`] | all |
//! | an ELF core, a memory dump in ELF or LiME form | [`FileSource`] | those the dump holds |
//! | standard input, a pipe | [`StreamSource`] | the same, as they arrive |
//!
//! [`open_path`] picks the source for a path by what the file is.
//!
//! It prints nothing and holds no unsafe code.

mod buffer;
mod cold;
mod elf;
mod error;
mod file;
mod form;
mod layout;
mod lime;
mod live;
mod open;
mod source;
mod stream;
mod swap;
mod work;

pub use cold::ColdTracker;
pub use error::Error;
pub use file::FileSource;
pub(crate) use live::ALL_PROCESSES;
pub use live::{ColdPagesFound, LiveMemory, LiveOptions, Member, SeenFrames, Selection};
pub use open::open_path;
pub use source::{
    Batch, ColdPages, ColdReport, Coldness, Counted, Note, Owner, Region, RegionId, RegionKind,
    Sink, SkipReason, Skipped, Skips, Source, Visit,
};
pub use stream::StreamSource;
pub use swap::SwapDevice;
