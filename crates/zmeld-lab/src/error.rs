//! Errors of experiments, with the thing that each happened to and the way out.

use std::path::Path;

use zmeld_config::ConfigError;
use zmeld_linux::{FileError, HostError};

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A recipe that makes no sense.
    #[error(transparent)]
    Recipe(#[from] ConfigError),
    /// A privilege or a kernel feature is missing: what, and the way out.
    #[error("{0}")]
    Missing(String),
    /// Running it could harm the machine, or others' set-up: why, and the way out.
    #[error("{0}")]
    Unsafe(String),
    /// A set-up could not be applied or taken back.
    #[error(transparent)]
    Swap(#[from] zmeld_swap::setup::Error),
    /// A workload that failed by itself: not for want of memory.
    #[error("{0}")]
    Workload(String),
    /// A workload whose data came back wrong.
    #[error("{0}")]
    Integrity(String),
    /// A result that cannot be carried on.
    #[error("{0}")]
    Result(String),
}

impl From<HostError> for Error {
    fn from(err: HostError) -> Error {
        Error::Swap(err.into())
    }
}

impl Error {
    /// An error in a recipe, or a part of it, of that name.
    pub(crate) fn recipe(name: &str, problem: String) -> Error {
        ConfigError::of(None, name, problem).into()
    }

    /// Whether this machine lacks something that another one may have.
    pub fn is_missing(&self) -> bool {
        match self {
            Error::Missing(_) => true,
            Error::Swap(err) => err.kind() == zmeld_swap::setup::ErrorKind::Missing,
            _ => false,
        }
    }

    pub(crate) fn io(action: &'static str, path: impl AsRef<Path>, cause: std::io::Error) -> Error {
        FileError::new(action, path, cause).into()
    }
}
