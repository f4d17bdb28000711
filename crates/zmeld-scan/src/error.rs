//! Why a scan has no result.

use zmeld_store::{CodecError, StoreError};

use crate::advice;

/// Why a scan has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] crate::memory::Error),
    /// A codec cannot be had.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The store has no memory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A page did not come back as it was. This must never happen.
    #[error("{codec} did not restore a page exactly: do not use it, and please report this")]
    Integrity { codec: String },
    /// Every process that was asked for belongs to somebody else.
    #[error(
        "no memory could be read: {processes} {} not permitted to this user; {}",
        if *processes == 1 { "process is" } else { "processes are" },
        advice::way_to_read(*is_root)
    )]
    NotPermitted { processes: u64, is_root: bool },
    /// No kernel's pool has such pages.
    #[error(
        "{source_name} has pages of {found} bytes: pages are a power of two from 4096 to 65536"
    )]
    PageSize { source_name: String, found: usize },
}
