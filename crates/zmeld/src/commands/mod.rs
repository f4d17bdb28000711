//! One file a command.

pub mod bench;
pub mod codecs;
pub mod generate;
pub mod numa;
pub mod scan;
mod scan_report;
