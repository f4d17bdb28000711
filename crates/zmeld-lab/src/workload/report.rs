//! What a workload says at its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A workload's own report at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadReport {
    /// Seconds that its measured part took; filling memory first is not part of it.
    pub measured_s: f64,
    /// Its figures by name, such as `mb_per_s`.
    pub figures: BTreeMap<String, f64>,
    /// Whether it checked its result.
    pub verified: bool,
}

/// A result that is not what it must be.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WorkloadError {
    /// Bytes did not come back as they were written, or a computation came out wrong.
    #[error("{0}: memory or swap returned wrong bytes, or the processor erred")]
    Wrong(String),
    /// Settings that make no sense.
    #[error("{0}")]
    Settings(String),
}
