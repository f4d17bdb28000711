//! The ground floor: what every other crate asks of Linux, each thing once. It
//! knows nothing of zmeld, prints nothing and changes nothing but the files that
//! it is told to write.

pub mod amount;
pub mod boot;
pub mod command;
pub mod compressed;
pub mod config_files;
pub mod counters;
pub mod cpuinfo;
pub mod crypto;
pub mod error;
pub mod file;
pub mod fstab;
pub mod groups;
pub mod headroom;
pub mod hibernation;
pub mod host;
pub mod lock;
pub mod lru_gen;
pub mod meminfo;
pub mod modules;
pub mod mounts;
pub mod octal;
pub mod others;
pub mod pressure;
pub mod process;
pub mod programs;
pub mod release;
pub mod root_owned;
pub mod service;
pub mod shell;
pub mod smaps;
pub mod swap_header;
pub mod swaps;
pub mod text;
pub mod tree;

pub use error::{FileError, HostError};
pub use host::Host;
pub use release::KernelVersion;
