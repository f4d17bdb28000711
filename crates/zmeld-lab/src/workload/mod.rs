//! Workloads whose data are known.
//!
//! A workload runs in a process of its own, so that limits, resource usage and
//! kills apply to it alone, and verifies what it computed: a swap device that
//! returns a wrong byte fails the run.

pub mod block_tridiagonal;
pub mod content;
pub mod external;
pub mod matmul;
mod report;
pub mod touch;
pub mod walk;

use serde::{Deserialize, Serialize};

pub use block_tridiagonal::BlockTridiagonal;
pub use matmul::Matmul;
pub use report::{WorkloadError, WorkloadReport};
pub use touch::Touch;
pub use walk::Walk;

/// A workload with its size and data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Workload {
    /// Matrix multiplication.
    Matmul(Matmul),
    /// A block-tridiagonal solver.
    BlockTridiagonal(BlockTridiagonal),
    /// A byte-wise walk of an array.
    Walk(Walk),
    /// Pages touched by Zipf's law.
    Touch(Touch),
    /// Any command.
    Command(external::ExternalCommand),
}

impl Workload {
    /// Runs a built-in workload in this process.
    pub fn run(&self) -> Result<WorkloadReport, WorkloadError> {
        match self {
            Workload::Matmul(matmul) => matmul.run(),
            Workload::BlockTridiagonal(solver) => solver.run(),
            Workload::Walk(walk) => walk.run(),
            Workload::Touch(touch) => touch.run(),
            Workload::Command(command) => Err(WorkloadError::Settings(format!(
                "{} is a command and not a built-in workload",
                command.command.join(" ")
            ))),
        }
    }

    /// Its work and its data, in a sentence or two.
    pub fn describe(&self) -> String {
        match self {
            Workload::Matmul(matmul) => matmul.describe(),
            Workload::BlockTridiagonal(solver) => solver.describe(),
            Workload::Walk(walk) => walk.describe(),
            Workload::Touch(touch) => touch.describe(),
            Workload::Command(command) => command.describe(),
        }
    }

    /// About how many bytes it will use; none for commands.
    pub fn expected_bytes(&self) -> Option<u64> {
        match self {
            Workload::Matmul(matmul) => Some(matmul.bytes()),
            Workload::BlockTridiagonal(solver) => Some(solver.bytes()),
            Workload::Walk(walk) => Some(walk.bytes),
            Workload::Touch(touch) => Some(touch.bytes),
            Workload::Command(_) => None,
        }
    }
}
