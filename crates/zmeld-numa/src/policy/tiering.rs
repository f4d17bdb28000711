//! `tiering`: memory in two tiers, hot pages promoted within a rate limit, old pages demoted under pressure.

use serde::{Deserialize, Serialize};

use super::{
    Demotion, HintingFault, NodePressure, Policy, PolicyDescription, PolicyName, ScanRequest,
};
use crate::machine::NumaMachine;
use crate::time::{from_ms, SECOND};

pub(super) const ABOUT: PolicyDescription = PolicyDescription {
    name: PolicyName::Tiering,
    rule: "Nodes without processors are the far tier. Scans make far pages inaccessible; one that faults within the \
           hot threshold of its scan is promoted if the rate limit and free memory allow. A near node that falls \
           below its watermark demotes its longest-resident pages to the nearest far node.",
    source: "kernel.numa_balancing=2 and demotion (kernel/sched/fair.c: numa_promotion_rate_limit; mm/vmscan.c: demote_folio_list)",
};

/// Limits of promotion and demotion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TieringSettings {
    /// Run time of a process between two scans, in milliseconds.
    pub scan_period_ms: f64,
    /// Memory made inaccessible by one scan, in MB of 2^20 bytes.
    pub scan_size_mb: f64,
    /// A page that faults this soon after its scan is hot, in milliseconds (`hot_threshold_ms`, 1000).
    pub hot_threshold_ms: f64,
    /// The most that is promoted in a second, in MB of 2^20 bytes
    /// (`numa_balancing_promote_rate_limit_MBps`, 65536).
    pub promote_mb_per_s: f64,
    /// Share of a near node that is kept free by demotion, in percent.
    pub free_percent: f64,
}

impl Default for TieringSettings {
    fn default() -> Self {
        Self {
            scan_period_ms: 1000.0,
            scan_size_mb: 256.0,
            hot_threshold_ms: 1000.0,
            promote_mb_per_s: 65536.0,
            free_percent: 2.0,
        }
    }
}

/// Promotion by hinting faults, demotion by age.
#[derive(Debug, Clone)]
pub struct Tiering {
    scan: ScanRequest,
    hot: u64,
    pages_per_s: f64,
    free_share: f64,
    /// For each node: whether it is of the far tier.
    far: Vec<bool>,
    /// For each near node: the nearest far node, if there is one.
    demotes_to: Vec<Option<usize>>,
    /// The second whose promotions are counted, and how many there were.
    second: u64,
    promoted: f64,
}

impl Tiering {
    /// For a machine; without a node that has no processors, nothing is promoted or demoted.
    pub fn new(settings: &TieringSettings, machine: &NumaMachine) -> Self {
        let far: Vec<usize> = (0..machine.nodes())
            .filter(|&n| machine.processors[n] == 0)
            .collect();
        let nearest = |node: usize| {
            let to = far
                .iter()
                .copied()
                .min_by_key(|&to| (machine.slit.distance(node, to), to));
            to.filter(|_| machine.processors[node] > 0)
        };
        let pages_per_mb = 1_048_576.0 / machine.page_bytes as f64;
        Self {
            scan: ScanRequest {
                every: from_ms(settings.scan_period_ms).max(1),
                pages: ((settings.scan_size_mb * pages_per_mb).round() as usize).max(1),
                spares_local: true,
            },
            hot: from_ms(settings.hot_threshold_ms),
            pages_per_s: settings.promote_mb_per_s * pages_per_mb,
            free_share: settings.free_percent / 100.0,
            far: machine.processors.iter().map(|&count| count == 0).collect(),
            demotes_to: (0..machine.nodes()).map(nearest).collect(),
            second: 0,
            promoted: 0.0,
        }
    }
}

impl Policy for Tiering {
    fn migrates(&mut self, fault: &HintingFault) -> bool {
        if !self.far[fault.page_node]
            || fault.page_node == fault.here
            || fault.since_scan > self.hot
            || fault.free_here == Some(0)
        {
            return false;
        }
        let second = fault.now / SECOND;
        if second != self.second {
            self.second = second;
            self.promoted = 0.0;
        }
        if self.promoted + 1.0 > self.pages_per_s {
            return false;
        }
        self.promoted += 1.0;
        true
    }

    fn scan(&self) -> Option<ScanRequest> {
        Some(self.scan)
    }

    fn demotes(&mut self, pressure: &NodePressure) -> Option<Demotion> {
        let to = self.demotes_to[pressure.node]?;
        let keep = (self.free_share * pressure.total as f64).ceil() as u64;
        (pressure.free < keep).then(|| Demotion {
            to,
            pages: keep - pressure.free,
        })
    }

    fn promotes(&self) -> bool {
        true
    }
}
