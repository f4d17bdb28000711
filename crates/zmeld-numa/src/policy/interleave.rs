//! `interleave`: pages are spread over all nodes.

use super::{FirstTouchEvent, Policy, PolicyDescription, PolicyName};
use crate::machine::NumaMachine;

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::Interleave,
    rule: "Page i of a process goes to node i modulo the number of nodes, and stays.",
    source: "MPOL_INTERLEAVE, numactl --interleave=all (mm/mempolicy.c)",
};

/// Round robin over the nodes by page number.
#[derive(Debug, Clone, Copy)]
pub struct Interleave {
    nodes: usize,
}

impl Interleave {
    /// Over all nodes of a machine.
    pub fn new(machine: &NumaMachine) -> Self {
        Self {
            nodes: machine.nodes(),
        }
    }
}

impl Policy for Interleave {
    fn place(&mut self, touch: &FirstTouchEvent) -> usize {
        touch.slot % self.nodes
    }
}
