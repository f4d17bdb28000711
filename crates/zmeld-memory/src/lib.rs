//! zmeld: memory.
