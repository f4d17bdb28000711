//! Page-placement policies behind one small trait. A policy answers questions; it holds no pages and knows no clock
//! but the one it is given. A new policy is one file here and one line in [`ALL`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod autonuma;
mod first_touch;
mod full;
mod interleave;
mod linux;
mod on_demand;
mod tiering;

pub use autonuma::{Autonuma, AutonumaSettings};
pub use first_touch::FirstTouch;
pub use full::{Full, FullSettings};
pub use interleave::Interleave;
pub use linux::Linux;
pub use on_demand::OnDemand;
pub use tiering::{Tiering, TieringSettings};

use crate::machine::NumaMachine;

/// A page touched for the first time.
#[derive(Debug, Clone, Copy)]
pub struct FirstTouchEvent {
    /// The process.
    pub process: usize,
    /// The page's slot in the process.
    pub slot: usize,
    /// The node of the processor that touches it.
    pub here: usize,
    /// How many pages were first touched before, on the whole machine.
    pub touched_before: u64,
}

/// A fault on a page that was made inaccessible, by a scan or at a move.
#[derive(Debug, Clone, Copy)]
pub struct HintingFault {
    /// The process.
    pub process: usize,
    /// The page's slot in the process.
    pub slot: usize,
    /// The node the page is on.
    pub page_node: usize,
    /// The node of the processor that faults.
    pub here: usize,
    /// The node of the previous fault on this page, if any.
    pub last_here: Option<usize>,
    /// The time, in picoseconds.
    pub now: u64,
    /// Free pages on `here`; `None` where memory is as large as need be.
    pub free_here: Option<u64>,
    /// Scans of this process so far.
    pub scans: u32,
    /// How long ago the page was made inaccessible, in picoseconds.
    pub since_scan: u64,
}

/// What happens to a process's pages when the scheduler moves it to another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMove {
    /// They stay behind.
    Stay,
    /// They are made inaccessible; each faults at its next touch.
    Unmap,
    /// They are all copied to the new node before the process runs on.
    Copy(WholeCopy),
}

/// The cost of moving an address space at once, beyond its pages' copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeCopy {
    /// A fixed sum for each move, in picoseconds.
    pub stop: u64,
    /// Time for each page that is moved, in picoseconds; `None` for the machine's own copy speed and bookkeeping.
    pub page: Option<u64>,
    /// How much longer everything that runs meanwhile takes, in thousandths; copies under way at once add up.
    pub hold_back: i64,
}

/// A scan that makes pages inaccessible, so that their next touch is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanRequest {
    /// Run time of the process between two scans, in picoseconds.
    pub every: u64,
    /// Pages made inaccessible each time.
    pub pages: usize,
    /// Whether pages of the node on which the process runs are left accessible.
    pub spares_local: bool,
}

/// One node's memory when it runs short.
#[derive(Debug, Clone, Copy)]
pub struct NodePressure {
    /// The node.
    pub node: usize,
    /// Its free pages.
    pub free: u64,
    /// Its pages.
    pub total: u64,
}

/// Pages to be demoted from a node, the longest resident first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demotion {
    /// Where they go.
    pub to: usize,
    /// How many.
    pub pages: u64,
}

/// A page-placement policy.
pub trait Policy: Send {
    /// The node for a page touched for the first time. If it is full, the engine takes the nearest with room.
    fn place(&mut self, touch: &FirstTouchEvent) -> usize {
        touch.here
    }

    /// A process was moved from one node to another.
    fn moved(&mut self, _from: usize, _to: usize) -> OnMove {
        OnMove::Stay
    }

    /// Whether the page that faulted moves to the node that faulted.
    fn migrates(&mut self, _fault: &HintingFault) -> bool {
        false
    }

    /// The scan of each process, if the policy scans.
    fn scan(&self) -> Option<ScanRequest> {
        None
    }

    /// Whether the scheduler must leave processes where they started.
    fn pins_processes(&self) -> bool {
        false
    }

    /// What to demote when a node's memory grows short; asked after each placement on a bounded node.
    fn demotes(&mut self, _pressure: &NodePressure) -> Option<Demotion> {
        None
    }

    /// Whether moves from a far tier count as promotions (`pgpromote_success`).
    fn promotes(&self) -> bool {
        false
    }
}

/// The policies by name.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyName {
    /// Pages never move.
    Linux,
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
    /// Hot pages are promoted to near memory, cold ones demoted.
    Tiering,
}

/// What a policy is, for `zmeld numa policies` and the documentation.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct PolicyDescription {
    /// Its name.
    pub name: PolicyName,
    /// Its rule in a sentence or two.
    pub rule: &'static str,
    /// Where the rule comes from.
    pub source: &'static str,
}

/// Every policy, the study's three first.
pub const ALL: &[PolicyDescription] = &[
    linux::ABOUT,
    full::ABOUT,
    on_demand::ABOUT,
    autonuma::ABOUT,
    interleave::ABOUT,
    first_touch::ABOUT,
    tiering::ABOUT,
];

/// A name that no policy has.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[error("no policy is called {name:?}; there are: {known}")]
pub struct UnknownPolicy {
    /// The name asked for.
    pub name: String,
    /// The names there are.
    pub known: String,
}

impl PolicyName {
    /// The name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Full => "full",
            Self::OnDemand => "on-demand",
            Self::Autonuma => "autonuma",
            Self::Interleave => "interleave",
            Self::FirstTouch => "first-touch",
            Self::Tiering => "tiering",
        }
    }

    /// A policy of this name for one simulation.
    pub fn build(self, settings: &PolicySettings, machine: &NumaMachine) -> Box<dyn Policy> {
        match self {
            Self::Linux => Box::new(Linux),
            Self::Full => Box::new(Full::new(&settings.full)),
            Self::OnDemand => Box::new(OnDemand),
            Self::Autonuma => Box::new(Autonuma::new(&settings.autonuma)),
            Self::Interleave => Box::new(Interleave::new(machine)),
            Self::FirstTouch => Box::new(FirstTouch),
            Self::Tiering => Box::new(Tiering::new(&settings.tiering, machine)),
        }
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for PolicyName {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        ALL.iter()
            .map(|about| about.name)
            .find(|known| known.as_str() == name)
            .ok_or_else(|| UnknownPolicy {
                name: name.to_owned(),
                known: ALL
                    .iter()
                    .map(|about| about.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }
}

/// The settings of the policies that have any.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Of `full`.
    pub full: FullSettings,
    /// Of `autonuma`.
    pub autonuma: AutonumaSettings,
    /// Of `tiering`.
    pub tiering: TieringSettings,
}

impl PolicySettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The policy, its setting, and what that must be.
    pub fn check(&self) -> Result<(), (&'static str, &'static str, String)> {
        let most = 1e9;
        let values = [
            ("full", "stop_ms", self.full.stop_ms, 0.0),
            ("full", "page_ms", self.full.page_ms.unwrap_or(0.0), 0.0),
            ("full", "hold_back", self.full.hold_back, 0.0),
            (
                "autonuma",
                "scan_period_ms",
                self.autonuma.scan_period_ms,
                0.001,
            ),
            (
                "autonuma",
                "scan_size_mb",
                self.autonuma.scan_size_mb,
                0.001,
            ),
            (
                "tiering",
                "scan_period_ms",
                self.tiering.scan_period_ms,
                0.001,
            ),
            ("tiering", "scan_size_mb", self.tiering.scan_size_mb, 0.001),
            (
                "tiering",
                "hot_threshold_ms",
                self.tiering.hot_threshold_ms,
                0.0,
            ),
            (
                "tiering",
                "promote_mb_per_s",
                self.tiering.promote_mb_per_s,
                0.0,
            ),
            ("tiering", "free_percent", self.tiering.free_percent, 0.0),
        ];
        for (policy, key, value, least) in values {
            let most = if key == "free_percent" { 100.0 } else { most };
            if !(least..=most).contains(&value) {
                return Err((
                    policy,
                    key,
                    format!("{value}; it must be from {least} to {most}"),
                ));
            }
        }
        Ok(())
    }
}
