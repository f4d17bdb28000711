//! Errors of a source, each with the object that it happened to.
//!
//! Only what makes the whole answer impossible is an error. One process that
//! vanishes or one page that cannot be read is counted in
//! [`Visit::skipped`](crate::memory::Visit) instead.

use std::io;
use std::path::{Path, PathBuf};

use zmeld_linux::HostError;

/// Why a source cannot be opened or read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file, a device or a `/proc` entry.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A source without a single byte.
    #[error("{} is empty: there is no page to read", path.display())]
    Empty { path: PathBuf },
    /// A directory, a character device or a socket where pages were expected.
    #[error("{} is {what}: give a file, a block device, a dump or a pipe", path.display())]
    NotReadable { path: PathBuf, what: &'static str },
    /// A dump that is cut short, or whose headers contradict themselves or the file.
    #[error("{}: {problem}; take the dump again, or read it as plain bytes with --raw", path.display())]
    Dump {
        path: PathBuf,
        /// The fault and its place, with the field as elf.h calls it: `p_filesz of segment 3: ...`.
        problem: String,
    },
    /// A format that is not read here.
    #[error("{} is {format}, which is not read: {way_out}", path.display())]
    Unsupported {
        path: PathBuf,
        format: &'static str,
        /// A command that makes of it what is read, or what to do instead.
        way_out: String,
    },
    /// A process that was asked for by number and is not there.
    #[error("there is no process {pid}: it may have ended")]
    NoProcess { pid: i32 },
    /// A kernel thread was asked for by number.
    #[error("process {pid} ({comm}) is a kernel thread: it has no memory of its own")]
    KernelThread { pid: i32, comm: String },
    /// A control group that is not there.
    #[error("there is no control group {}: looked for {tried}", path.display())]
    NoCgroup { path: PathBuf, tried: String },
    /// A path that is not an active swap area.
    #[error("{} is not an active swap device; active: {}", path.display(), list_or_none(active))]
    NotSwap { path: PathBuf, active: Vec<String> },
    /// The caller lacks a privilege that this source cannot do without.
    #[error("{what} needs {privilege}")]
    Privilege {
        what: String,
        privilege: &'static str,
    },
    /// The running kernel lacks a facility that this source cannot do without.
    #[error("{what} needs {feature}, which this kernel does not offer")]
    KernelFeature { what: String, feature: &'static str },
}

impl Error {
    /// Whether a privilege or a kernel feature is missing.
    pub fn is_missing(&self) -> bool {
        match self {
            Error::Privilege { .. } | Error::KernelFeature { .. } => true,
            Error::Host(err) => err
                .cause()
                .is_some_and(|it| it.kind() == io::ErrorKind::PermissionDenied),
            _ => false,
        }
    }

    /// Why a dump ends before its end.
    pub(crate) const CUT_SHORT: &str =
        "it was cut short (by ulimit -c, a full disk, a broken copy), or the header lies";

    pub(crate) fn dump(path: &Path, problem: String) -> Self {
        Error::Dump {
            path: path.to_path_buf(),
            problem,
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<Path>,
        cause: impl Into<io::Error>,
    ) -> Self {
        HostError::io(action, path, cause).into()
    }
}

fn list_or_none(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_from_what_fails() {
        let of_kind = |kind: io::ErrorKind| Error::io("read", "/proc/1/mem", kind);
        assert!(of_kind(io::ErrorKind::PermissionDenied).is_missing());
        assert!(!of_kind(io::ErrorKind::NotFound).is_missing());
        let active = |names: &[&str]| Error::NotSwap {
            path: "/dev/sda9".into(),
            active: names.iter().map(|it| it.to_string()).collect(),
        };
        assert!(!active(&[]).is_missing());
        assert!(active(&[]).to_string().ends_with("active: none"));
        let said = active(&["/dev/zram0", "/swapfile"]).to_string();
        assert!(said.ends_with("active: /dev/zram0, /swapfile"), "{said}");
    }
}
