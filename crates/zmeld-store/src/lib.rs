//! zmeld: store.

pub mod codec;
