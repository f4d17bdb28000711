//! `first-touch`: processes are pinned, so that first touch stays right.

use super::{Policy, PolicyDescription, PolicyName};

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::FirstTouch,
    rule: "Pages are placed on the node that first touches them; processes stay on the processor where they start.",
    source: "first touch with sched_setaffinity(2), as numactl --cpunodebind and MPI launchers set it up",
};

/// First touch with pinning.
#[derive(Debug, Clone, Copy)]
pub struct FirstTouch;

impl Policy for FirstTouch {
    fn pins_processes(&self) -> bool {
        true
    }
}
