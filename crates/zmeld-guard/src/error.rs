//! Errors of the guard.

/// Why the machine cannot be guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The guard cannot act.
    #[error("the guard cannot act: {why}")]
    CannotGuard {
        /// Why, with a way out.
        why: String,
    },
    /// A privilege or a kernel feature is missing: which, with a way out.
    #[error("{0}")]
    Missing(String),
    /// The configuration says nothing that can be done: where, and why.
    #[error("{0}")]
    Config(String),
    /// The machine does not say what it is asked for.
    #[error(transparent)]
    Host(#[from] zmeld_linux::HostError),
}
