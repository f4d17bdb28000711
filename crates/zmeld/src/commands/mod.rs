//! One file a command.

pub mod bench;
pub mod codecs;
pub mod config;
pub mod enable;
pub mod export;
pub mod generate;
pub mod generator;
pub mod meld;
pub mod metrics;
pub mod numa;
pub mod scan;
pub mod schema;
pub mod setup;
pub mod status;
mod survey;
pub mod top;
pub mod watch;
