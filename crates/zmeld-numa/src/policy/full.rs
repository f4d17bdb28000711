//! `full`: the whole address space moves with the process.

use serde::{Deserialize, Serialize};

use super::{OnMove, Policy, PolicyDescription, PolicyName, WholeCopy};
use crate::time::from_ms;

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::Full,
    rule: "When a process is moved, its whole address space is copied to the new node before it runs on; the copies \
           hold back the processes that run meanwhile.",
    source: "the study's second policy; migrate_pages(2) at every move of a process",
};

/// What moving an address space at once costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FullSettings {
    /// A fixed sum for each move, in milliseconds: stopping the process, walking its tables, draining caches.
    pub stop_ms: f64,
    /// Milliseconds for each page; leave out for the machine's own copy speed and bookkeeping.
    pub page_ms: Option<f64>,
    /// How much longer everything that runs meanwhile takes: 1 doubles it. Copies under way at once add up. The
    /// processor itself is free meanwhile; the moved process waits.
    pub hold_back: f64,
}

impl Default for FullSettings {
    fn default() -> Self {
        Self {
            stop_ms: 0.05,
            page_ms: None,
            hold_back: 0.0,
        }
    }
}

/// Pages move at once.
#[derive(Debug, Clone, Copy)]
pub struct Full {
    copy: WholeCopy,
}

impl Full {
    /// With these costs.
    pub fn new(settings: &FullSettings) -> Self {
        let copy = WholeCopy {
            stop: from_ms(settings.stop_ms),
            page: settings.page_ms.map(from_ms),
            hold_back: (settings.hold_back * 1000.0).round() as i64,
        };
        Self { copy }
    }
}

impl Policy for Full {
    fn moved(&mut self, _from: usize, _to: usize) -> OnMove {
        OnMove::Copy(self.copy)
    }
}
