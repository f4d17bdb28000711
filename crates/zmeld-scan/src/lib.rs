//! zmeld: scan.
