//! `on-demand`: next-touch migration.

use super::{HintingFault, OnMove, Policy, PolicyDescription, PolicyName};

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::OnDemand,
    rule: "When a process is moved, its pages are marked not present; the first touch of each faults and moves that page.",
    source: "the study's proposal; known as next-touch (Solaris MADV_ACCESS_LWP, Goglin and Furmento 2009)",
};

/// Pages follow at their next touch.
#[derive(Debug, Clone, Copy)]
pub struct OnDemand;

impl Policy for OnDemand {
    fn moved(&mut self, _from: usize, _to: usize) -> OnMove {
        OnMove::Unmap
    }

    fn migrates(&mut self, fault: &HintingFault) -> bool {
        fault.page_node != fault.here
    }
}
