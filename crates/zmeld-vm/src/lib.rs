//! A machine of a given size, for a while: a kernel, an archive in memory with
//! all that it runs, and QEMU, or user-mode Linux, which needs none.
//!
//! The crate prints nothing.

mod archive;
mod kernel;
mod virtual_machine;

use std::path::{Path, PathBuf};

use zmeld_linux::FileError;

pub use archive::{libraries_of, Archive};
pub use kernel::{Kernel, KernelKind};
pub use virtual_machine::{
    hardware_runs, Disk, DiskWrites, Lines, VirtualMachine, ARM64_PROGRAM, PROGRAM,
};

/// Why a machine could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// This machine lacks something.
    #[error("{0}")]
    Missing(String),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, cause: std::io::Error) -> Error {
        FileError::new(action, path, cause).into()
    }
}

/// Path of a program on this machine.
pub fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Users' paths leave out where the programs of administrators are.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
