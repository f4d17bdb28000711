//! zmeld: report.
