//! How far a scan is.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a scan is; another thread may look at it at any time.
#[derive(Debug, Default)]
pub struct ScanProgress {
    done: AtomicU64,
    expected: AtomicU64,
    phase: AtomicU64,
}

impl ScanProgress {
    /// Pages looked at in this phase.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Pages expected in this phase, where that is known.
    pub fn expected(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|&pages| pages > 0)
    }

    /// Which reading this is, from 1; 0 before the first.
    pub fn phase(&self) -> u64 {
        self.phase.load(Ordering::Relaxed)
    }

    /// A new phase begins, of so many pages where that is known.
    pub fn start(&self, expected: Option<u64>) {
        self.done.store(0, Ordering::Relaxed);
        self.expected
            .store(expected.unwrap_or(0), Ordering::Relaxed);
        self.phase.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more pages are done.
    pub fn advance(&self, pages: usize) {
        self.done.fetch_add(pages as u64, Ordering::Relaxed);
    }
}
