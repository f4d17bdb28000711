//! Events while a machine is set up or taken down, told as they happen.

use std::path::Path;

use crate::setup::step::Step;

/// Something that happens. A library prints nothing: whoever listens may.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Another run holds the lock; this one waits for it.
    Waiting {
        holder: &'a str,
    },
    Applying {
        group: &'a str,
        step: &'a Step,
    },
    Undoing {
        group: &'a str,
        step: &'a Step,
    },
    /// Pages come back from a swap area that is switched off.
    SwappingIn {
        path: &'a Path,
        /// Bytes that are still in it.
        left_bytes: u64,
        /// Bytes that were in it at first.
        total_bytes: u64,
    },
    /// Something that does not stop the run.
    Note {
        text: &'a str,
    },
}

/// Somebody who is told.
pub type Listener<'a> = dyn FnMut(Event<'_>) + 'a;
