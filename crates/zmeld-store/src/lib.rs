//! zmeld: store.
