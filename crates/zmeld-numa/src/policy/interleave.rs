//! `interleave`: pages are spread over all nodes.

use super::{About, Policy, PolicyName, Touch};
use crate::machine::Machine;

pub(super) const ABOUT: About = About {
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
    pub fn new(machine: &Machine) -> Self {
        Self {
            nodes: machine.nodes(),
        }
    }
}

impl Policy for Interleave {
    fn place(&mut self, touch: &Touch) -> usize {
        touch.slot % self.nodes
    }
}
