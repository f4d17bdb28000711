//! The ground floor: what every other crate asks of Linux, each thing once. It
//! knows nothing of zmeld, prints nothing and changes nothing but the files that
//! it is told to write.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`file`](mod@file) | files written whole or not at all, through no other user's link |
//! | [`own`] | folders and files that nobody else can have written |
//! | [`shell`] | words of a shell, written and read |
//! | [`text`] | other people's text, made unable to steer a terminal |
//! | [`swaps`] | `/proc/swaps` |
//! | [`meminfo`] | `/proc/meminfo` |
//! | [`mounts`] | `/proc/self/mountinfo` |
//! | [`octal`] | the kernel's escapes in all of them |

pub mod file;
pub mod meminfo;
pub mod mounts;
pub mod octal;
pub mod own;
pub mod shell;
pub mod swaps;
pub mod text;
