//! Page-placement policies. A policy answers four questions: where a page goes at its first touch, what happens when its
//! process is moved, whether it moves on a fault, and what a scan makes inaccessible. It holds no pages and knows no
//! clock but the one it is given.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::error::{within, Error};
use crate::machine::NumaMachine;
use crate::time::from_ms;

/// Fate of a process's pages when the scheduler moves it to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnMove {
    /// They stay behind.
    Stay,
    /// They are made inaccessible; each faults at its next touch.
    Unmap,
    /// They are all copied to the new node before the process runs on.
    Copy(WholeCopy),
}

/// The cost of moving an address space at once, beyond its pages' copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeCopy {
    /// A fixed sum for each move, in picoseconds.
    pub stop: u64,
    /// Time for each page that is moved, in picoseconds; `None` for the machine's own copy speed and bookkeeping.
    pub page: Option<u64>,
    /// How much longer everything that runs meanwhile takes, in thousandths; copies under way at once add up.
    pub hold_back: i64,
}

/// A scan that makes pages inaccessible, so that their next touch is seen. Pages of the node on which the process runs
/// are left accessible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanRequest {
    /// Run time of the process between two scans, in picoseconds.
    pub every: u64,
    /// Each time.
    pub pages: usize,
}

/// The policies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Pages never move.
    NoBalancing,
    /// The whole address space moves with the process.
    Full,
    /// Pages move at their next touch after a move.
    OnDemand,
    /// NUMA balancing with its two-reference filter.
    Autonuma,
    /// Pages are spread over all nodes.
    Interleave,
    /// First touch, and processes stay.
    FirstTouch,
}

/// Description of a policy, for `zmeld numa policies` and the documentation.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct PolicyDescription {
    /// Its name.
    pub name: PolicyName,
    /// Its rule in a sentence or two.
    pub rule: &'static str,
    /// Source of the rule.
    pub source: &'static str,
}

/// Every policy, the study's three first.
pub const ALL: &[PolicyDescription] = &[
    PolicyDescription {
        name: PolicyName::NoBalancing,
        rule: "Pages are placed on the node that first touches them and never move; a process that is moved leaves them behind.",
        source: "kernel.numa_balancing=0 (mm/mempolicy.c, MPOL_DEFAULT); the baseline of Tesser and Zorzo (WSO 2006), Linux 2.6",
    },
    PolicyDescription {
        name: PolicyName::Full,
        rule: "When a process is moved, its whole address space is copied to the new node before it runs on; the copies \
               hold back the processes that run meanwhile.",
        source: "Tesser and Zorzo (WSO 2006), full migration; migrate_pages(2) at every move of a process",
    },
    PolicyDescription {
        name: PolicyName::OnDemand,
        rule: "When a process is moved, its pages are marked not present; the first touch of each faults and moves that page.",
        source: "proposed by Tesser and Zorzo (WSO 2006); known as next-touch (Solaris MADV_ACCESS_LWP, Goglin and Furmento 2009)",
    },
    PolicyDescription {
        name: PolicyName::Autonuma,
        rule: "Each process's pages are made inaccessible in turn; a page moves on a hinting fault if the previous \
               hinting fault on it came from the same node (two-reference filter), and at once during a process's first \
               scans. A process has one thread, so pages of the node on which it runs are spared by the scan. Processes \
               are not moved towards their memory.",
        source: "kernel.numa_balancing=1 (kernel/sched/fair.c: task_numa_work, should_numa_migrate_memory; mm/mprotect.c: change_pte_range)",
    },
    PolicyDescription {
        name: PolicyName::Interleave,
        rule: "Page i of a process goes to node i modulo the number of nodes, and stays.",
        source: "MPOL_INTERLEAVE, numactl --interleave=all (mm/mempolicy.c)",
    },
    PolicyDescription {
        name: PolicyName::FirstTouch,
        rule: "Pages are placed on the node that first touches them; processes stay on the processor where they start.",
        source: "first touch with sched_setaffinity(2), as numactl --cpunodebind and MPI launchers set it up",
    },
];

impl PolicyName {
    /// The name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoBalancing => "no-balancing",
            Self::Full => "full",
            Self::OnDemand => "on-demand",
            Self::Autonuma => "autonuma",
            Self::Interleave => "interleave",
            Self::FirstTouch => "first-touch",
        }
    }

    /// A policy of this name for one simulation.
    pub fn build(self, settings: &PolicySettings, machine: &NumaMachine) -> Policy {
        let (full, autonuma) = (&settings.full, &settings.autonuma);
        Policy {
            name: self,
            nodes: machine.nodes(),
            copy: WholeCopy {
                stop: from_ms(full.stop_ms),
                page: full.page_ms.map(from_ms),
                hold_back: (full.hold_back * 1000.0).round() as i64,
            },
            scan: (self == Self::Autonuma).then(|| ScanRequest {
                every: from_ms(autonuma.scan_period_ms).max(1),
                // A page counts as 4096 bytes.
                pages: ((autonuma.scan_size_mb * 256.0).round() as usize).max(1),
            }),
            unfiltered_scans: autonuma.unfiltered_scans,
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let mut known = ALL.iter().map(|about| about.name);
        known.find(|known| known.as_str() == name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|about| about.name.as_str()).collect();
            let choices = zmeld_config::choices(name, &known);
            Error::Wrong(format!("no policy is called {name:?}; {choices}"))
        })
    }
}

#[derive(Debug)]
pub struct Policy {
    name: PolicyName,
    nodes: usize,
    copy: WholeCopy,
    /// The scan of each process, if the policy scans.
    pub(crate) scan: Option<ScanRequest>,
    unfiltered_scans: u32,
}

impl Policy {
    /// The node for a page of this slot that a processor of node `here` touches for the first time. If it is full, the
    /// engine takes the nearest with room.
    pub(crate) fn place(&self, slot: usize, here: usize) -> usize {
        match self.name {
            PolicyName::Interleave => slot % self.nodes,
            _ => here,
        }
    }

    /// A process was moved from one node to another.
    pub(crate) fn moved(&self) -> OnMove {
        match self.name {
            PolicyName::Full => OnMove::Copy(self.copy),
            PolicyName::OnDemand => OnMove::Unmap,
            _ => OnMove::Stay,
        }
    }

    /// Whether a page of another node moves to the one that faulted. `again`: the hinting fault on it before came
    /// from there, too; `scans`: of the process so far.
    pub(crate) fn migrates(&self, again: bool, scans: u32) -> bool {
        match self.name {
            PolicyName::OnDemand => true,
            PolicyName::Autonuma => scans <= self.unfiltered_scans || again,
            _ => false,
        }
    }

    /// Whether the scheduler must leave processes where they started.
    pub(crate) fn pins_processes(&self) -> bool {
        self.name == PolicyName::FirstTouch
    }
}

/// Costs of moving an address space at once.
#[derive(Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FullSettings {
    /// A fixed sum for each move, in milliseconds: stopping the process, walking its tables, draining caches.
    #[default = 0.05]
    pub stop_ms: f64,
    /// Milliseconds for each page; leave out for the machine's own copy speed and bookkeeping.
    pub page_ms: Option<f64>,
    /// How much longer everything that runs meanwhile takes: 1 doubles it. Copies under way at once add up. The
    /// processor itself is free meanwhile; the moved process waits.
    pub hold_back: f64,
}

/// How fast NUMA balancing scans.
#[derive(Debug, Clone, Copy, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutonumaSettings {
    /// Run time of a process between two scans, in milliseconds (`numa_balancing_scan_period_min_ms`, 1000).
    #[default = 1000.0]
    pub scan_period_ms: f64,
    /// Memory made inaccessible by one scan, in MB of 2^20 bytes (`numa_balancing_scan_size_mb`, 256).
    #[default = 256.0]
    pub scan_size_mb: f64,
    /// For so many scans of a process, pages move at their first fault (`numa_scan_seq <= 4`).
    #[default = 4]
    pub unfiltered_scans: u32,
}

/// The settings of the policies that have any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Of `full`.
    pub full: FullSettings,
    /// Of `autonuma`.
    pub autonuma: AutonumaSettings,
}

impl PolicySettings {
    pub fn check(&self) -> Result<(), (&'static str, (&'static str, String))> {
        let (full, autonuma) = (&self.full, &self.autonuma);
        let (any, some) = (0.0..=1e9, 0.001..=1e9);
        let page_ms = full.page_ms.unwrap_or(0.0);
        for (policy, key, found, range) in [
            ("full", "stop_ms", full.stop_ms, &any),
            ("full", "page_ms", page_ms, &any),
            ("full", "hold_back", full.hold_back, &any),
            ("autonuma", "scan_period_ms", autonuma.scan_period_ms, &some),
            ("autonuma", "scan_size_mb", autonuma.scan_size_mb, &some),
        ] {
            within(key, found, range.clone()).map_err(|wrong| (policy, wrong))?;
        }
        Ok(())
    }
}
