//! Errors of the machine, each with the file or the command that it is about.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// An operation on a file that the system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {}", path.display(), words(cause))]
pub struct FileError {
    /// Attempted verb: "read", "write 60 to".
    pub action: Cow<'static, str>,
    /// The file, as the machine itself names it (without another root before it).
    pub path: PathBuf,
    /// The system's error.
    #[source]
    pub cause: io::Error,
}

impl FileError {
    /// An operation on a file that the system refused.
    pub fn new(
        action: impl Into<Cow<'static, str>>,
        path: impl AsRef<Path>,
        cause: impl Into<io::Error>,
    ) -> FileError {
        FileError {
            action: action.into(),
            path: path.as_ref().to_path_buf(),
            cause: cause.into(),
        }
    }
}

/// Why a machine did not say or do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The system refused an operation on a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file of the kernel does not say what it should.
    #[error("{} {problem}", path.display())]
    Malformed { path: PathBuf, problem: String },
    /// A file or folder that somebody else could have written, or that cannot be used.
    #[error("{}: {problem}{}{way_out}", path.display(), if way_out.is_empty() { "" } else { ": " })]
    NotOurs {
        path: PathBuf,
        problem: String,
        /// The remedy; empty where the caller knows it.
        way_out: String,
    },
    /// There are control groups that limit memory, and they are mounted nowhere.
    #[error("the memory controller's groups are not mounted here")]
    GroupsUnseen,
    /// A command came back with an error.
    #[error("{command} failed ({status}): {said}")]
    Command {
        command: String,
        /// Its exit code, or the signal that ended it.
        status: String,
        said: String,
    },
    /// A command that is needed is not installed.
    #[error("{program} is not installed: install {package}")]
    NotInstalled {
        program: String,
        /// The package that most distributions have it in.
        package: &'static str,
    },
}

impl HostError {
    /// An operation on a file that the system refused.
    pub fn io(
        action: impl Into<Cow<'static, str>>,
        path: impl AsRef<Path>,
        cause: impl Into<io::Error>,
    ) -> HostError {
        FileError::new(action, path, cause).into()
    }

    /// A file that does not say what it should.
    pub fn malformed(path: impl AsRef<Path>, problem: impl Into<String>) -> HostError {
        HostError::Malformed {
            path: path.as_ref().to_path_buf(),
            problem: problem.into(),
        }
    }

    /// A file or folder that somebody else could have written, or that cannot be used.
    pub fn not_ours(
        path: impl AsRef<Path>,
        problem: impl Into<String>,
        way_out: impl Into<String>,
    ) -> HostError {
        HostError::NotOurs {
            path: path.as_ref().to_path_buf(),
            problem: problem.into(),
            way_out: way_out.into(),
        }
    }

    /// Whether it is the system that refused an operation on a file, with this error.
    pub fn is(&self, errno: Errno) -> bool {
        let cause = self.cause();
        cause.and_then(io::Error::raw_os_error) == Some(errno.raw_os_error())
    }

    /// Whether it is one of these.
    pub fn is_any(&self, errors: &[Errno]) -> bool {
        errors.iter().any(|errno| self.is(*errno))
    }

    /// Whether nothing of the kind is there.
    pub fn is_absent(&self) -> bool {
        self.cause().is_some_and(is_absent)
    }

    /// The system's error, where it refused an operation on a file.
    pub fn cause(&self) -> Option<&io::Error> {
        match self {
            HostError::File(err) => Some(&err.cause),
            _ => None,
        }
    }
}

/// The system's message, without the number that the standard library appends.
pub fn words(cause: &io::Error) -> String {
    let text = cause.to_string();
    match text.split_once(" (os error ") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// Nothing of the kind is there. A device that vanishes between two reads says
/// "no such device".
pub fn is_absent(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || cause.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}
