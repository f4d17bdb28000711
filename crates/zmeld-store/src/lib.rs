//! The page store in user space: safe Rust over `store/`, whose C sources are
//! compiled both into the kernel and into this crate.
//!
//! - [`Store`]: pages in, compressed and melded, the same pages out.
//! - [`Codec`] and [`Stream`]: the codecs by themselves, as zram uses them.
//! - [`Geometry`]: how much memory the kernel's pool takes for objects.
//! - [`zword`]: the codec of our own, with tables of the caller's.
//! - [`populated`]: where a process has pages, by an ioctl of its pagemap.
//! - [`release_memory`]: a killed process's memory, taken at once.
//! - [`fill_word`] and [`FingerprintKey`]: what the store looks at in a page.
//!
//! This is the only crate of zmeld with `unsafe` code: each block says why it
//! is sound.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod codec;
mod geometry;
mod pagemap;
mod process;
mod raw;
mod store;
pub mod zword;

pub use codec::{Codec, CodecError, CodecInfo, CodecSpec, Damaged, NoFit, Stream};
pub use geometry::{page_size, BadGeometry, ChainRule, Geometry};
pub use pagemap::populated;
pub use process::release_memory;
pub use raw::{MeldResult, Stats};
pub use store::{fill_word, FingerprintKey, MeldMode, Store, StoreError, SHARE_BYTES};
