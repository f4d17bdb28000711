//! The ground floor: what every other crate asks of Linux, each thing once. It
//! knows nothing of zmeld, prints nothing and changes nothing but the files that
//! it is told to write.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`host`] | a machine and its root folder: its files read and written, its commands run |
//! | [`command`] | commands, as they are run and as one would type them |
//! | [`lock`] | a file that one program has at a time, and who has it |
//! | [`file`](mod@file) | files written whole or not at all, through no other user's link |
//! | [`root_owned`] | folders and files that nobody else can have written |
//! | [`shell`] | words of a shell, written and read |
//! | [`tree`] | the files of a tree that looks like a machine, and nothing outside of it |
//! | [`text`] | other people's text, made unable to steer a terminal |
//! | [`swaps`] | `/proc/swaps` |
//! | [`boot`] | which boot this is, and how long ago |
//! | [`compressed`] | what zram, zmeld and zswap say of themselves |
//! | [`meminfo`] | `/proc/meminfo` |
//! | [`modules`] | which modules this kernel loads |
//! | [`mounts`] | `/proc/self/mountinfo` |
//! | [`release`] | a kernel's version |
//! | [`error`] | what the machine refuses, with the file or the command |
//! | [`counters`] | a name and a number a line, as in `/proc/vmstat` |
//! | [`process`] | `/proc/PID/stat`, `/proc/PID/status` |
//! | [`smaps`] | `/proc/PID/smaps` |
//! | [`lru_gen`] | since when pages were not used, by the kernel's generations |
//! | [`pressure`] | `/proc/pressure/*` |
//! | [`fstab`] | `/etc/fstab`, and what systemd mounts after swap is on |
//! | [`others`] | reads of another process that may wait for it |
//! | [`programs`] | programs with pages in swap, and their control groups |
//! | [`swap_header`] | the first page of a swap area |
//! | [`hibernation`] | whether a machine hibernates, and where to |
//! | [`cpuinfo`] | `/proc/cpuinfo` |
//! | [`crypto`] | what compresses in the kernel's crypto interface |
//! | [`groups`] | control groups that count memory, those that a rule is for, and their owners |
//! | [`config_files`] | which files make up zmeld's configuration |
//! | [`headroom`] | how much more programs can take, as it is added up |
//! | [`service`] | turns of a service, and what it tells its manager |
//! | [`amount`] | bytes, shares and times, as configurations have them |
//! | [`octal`] | how the kernel escapes names in its tables |

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
