//! `linux`: pages are never migrated.

use super::{Policy, PolicyDescription, PolicyName};

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::Linux,
    rule: "Pages are placed on the node that first touches them and never move; a process that is moved leaves them behind.",
    source: "Linux 2.6 without NUMA balancing (mm/mempolicy.c, MPOL_DEFAULT); the study's baseline",
};

/// First touch, and pages stay where they are.
#[derive(Debug, Clone, Copy)]
pub struct Linux;

impl Policy for Linux {}
