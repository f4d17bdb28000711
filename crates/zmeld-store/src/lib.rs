//! zmeld: store.
#![deny(missing_docs)]

pub mod codec;

pub use codec::{Codec, CodecError, CodecInfo, CodecSpec, Damaged, NoFit, Stream};
