//! Errors of a rule's action.

use rustix::io::Errno;
use zmeld_linux::HostError;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine did not say or do what it was asked for.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing can be reclaimed ahead of time on this machine: why, and the way out.
    #[error("nothing can be reclaimed: {0}")]
    CannotReclaim(String),
    /// A pass cannot be run as things are: why, and the way out.
    #[error("{0}")]
    Refused(String),
    /// Nothing that melds is here: why, and the way out.
    #[error("{0}")]
    Missing(String),
}

impl Error {
    /// Whether a privilege or something of the kernel is missing.
    pub fn is_missing(&self) -> bool {
        match self {
            Error::Host(err) => err.is(Errno::ACCESS) || err.is(Errno::PERM),
            err => matches!(err, Error::Missing(_)),
        }
    }
}
