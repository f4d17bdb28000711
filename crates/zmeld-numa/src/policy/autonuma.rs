//! `autonuma`: NUMA balancing, without its wish to move processes to their memory.

use serde::{Deserialize, Serialize};

use super::{HintingFault, Policy, PolicyDescription, PolicyName, ScanRequest};
use crate::time::from_ms;

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::Autonuma,
    rule: "Each process's pages are made inaccessible in turn; a page moves on a hinting fault if the previous \
           hinting fault on it came from the same node (two-reference filter), and at once during a process's first \
           scans. A process has one thread, so pages of the node on which it runs are spared by the scan. Processes \
           are not moved towards their memory.",
    source: "kernel.numa_balancing=1 (kernel/sched/fair.c: task_numa_work, should_numa_migrate_memory; mm/mprotect.c: change_pte_range)",
};

/// How fast NUMA balancing scans.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutonumaSettings {
    /// Run time of a process between two scans, in milliseconds (`numa_balancing_scan_period_min_ms`, 1000).
    pub scan_period_ms: f64,
    /// Memory made inaccessible by one scan, in MB of 2^20 bytes (`numa_balancing_scan_size_mb`, 256).
    pub scan_size_mb: f64,
    /// For so many scans of a process, pages move at their first fault (`numa_scan_seq <= 4`).
    pub unfiltered_scans: u32,
}

impl Default for AutonumaSettings {
    fn default() -> Self {
        Self {
            scan_period_ms: 1000.0,
            scan_size_mb: 256.0,
            unfiltered_scans: 4,
        }
    }
}

/// Hinting faults with the two-reference filter.
#[derive(Debug, Clone, Copy)]
pub struct Autonuma {
    scan: ScanRequest,
    unfiltered_scans: u32,
}

impl Autonuma {
    /// With these scans; a page counts as 4096 bytes.
    pub fn new(settings: &AutonumaSettings) -> Self {
        let pages = ((settings.scan_size_mb * 256.0).round() as usize).max(1);
        let every = from_ms(settings.scan_period_ms).max(1);
        Self {
            scan: ScanRequest {
                every,
                pages,
                spares_local: true,
            },
            unfiltered_scans: settings.unfiltered_scans,
        }
    }
}

impl Policy for Autonuma {
    fn migrates(&mut self, fault: &HintingFault) -> bool {
        let early = fault.scans <= self.unfiltered_scans;
        fault.page_node != fault.here && (early || fault.last_here == Some(fault.here))
    }

    fn scan(&self) -> Option<ScanRequest> {
        Some(self.scan)
    }
}
