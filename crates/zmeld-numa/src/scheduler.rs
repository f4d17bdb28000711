//! The scheduler's rules: time slices, domains made from distances, and when a processor takes work from another.
//!
//! After Linux 2.6 (`kernel/sched.c`): one run queue per processor, round robin with a fixed slice, and three
//! situations in which a process is moved: at `exec` or `fork` (to the least loaded processor), when a processor
//! goes idle (it pulls), and periodically in each domain of each processor (the busy pull rarely, the idle often).

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::error::within;
use crate::machine::NumaMachine;
use crate::time::from_ms;

/// Settings of the scheduler. Times are in milliseconds of the simulated machine.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scheduler {
    /// How long a process runs before the next one in the queue (`DEF_TIMESLICE`: 100 ms at nice 0).
    #[default = 100.0]
    pub slice_ms: f64,
    /// Between two looks of an idle processor at one of its domains.
    #[default = 8.0]
    pub idle_balance_ms: f64,
    /// Between two looks of a busy processor at its own node.
    #[default = 64.0]
    pub busy_balance_ms: f64,
    /// How many times rarer a busy processor looks at each further level of distance.
    #[default = 4.0]
    pub level_factor: f64,
    /// A group counts as busiest when its load per processor exceeds one's own by this many percent
    /// (`imbalance_pct`, 125 in Linux 2.6).
    #[default = 125.0]
    pub imbalance_percent: f64,
    /// Whether a processor that runs out of work pulls at once (`SD_BALANCE_NEWIDLE`).
    #[default = true]
    pub pull_when_idle: bool,
    /// Whether processors look at their domains periodically.
    #[default = true]
    pub balance_periodically: bool,
    /// Whether an idle node takes a process that is running where two or more run on one node
    /// (a migration thread does this in later kernels when a node is idle); it moves when its slice ends.
    pub spread_running: bool,
}

impl Scheduler {
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, found, least) in [
            ("slice_ms", self.slice_ms, 0.001),
            ("idle_balance_ms", self.idle_balance_ms, 0.001),
            ("busy_balance_ms", self.busy_balance_ms, 0.001),
            ("level_factor", self.level_factor, 1.0),
            ("imbalance_percent", self.imbalance_percent, 100.0),
        ] {
            within(key, found, least..=f64::MAX)?;
        }
        Ok(())
    }
}

/// The domains of every node, nearest first, and their times in picoseconds. A domain is the nodes that it spans,
/// ascending, its own among them: it is balanced among these, or, where there is one, among its processors.
#[derive(Debug, Clone)]
pub(crate) struct Domains {
    by_node: Vec<Vec<Vec<usize>>>,
    /// Picoseconds between looks of a busy processor, by level.
    pub busy_every: Vec<u64>,
    /// Picoseconds between looks of an idle processor.
    pub idle_every: u64,
}

impl Domains {
    /// Builds the domains of a machine: the own node if it has two processors or more, then one domain for each
    /// larger distance that adds a node with processors.
    pub fn new(machine: &NumaMachine, scheduler: &Scheduler) -> Self {
        let mut by_node = Vec::with_capacity(machine.nodes());
        for node in 0..machine.nodes() {
            let mut domains = Vec::new();
            if machine.processors[node] > 1 {
                domains.push(vec![node]);
            }
            let row = &machine.slit[node];
            let reachable = |limit: u32| -> Vec<usize> {
                (0..machine.nodes())
                    .filter(|&to| machine.processors[to] > 0 && (to == node || row[to] <= limit))
                    .collect()
            };
            let mut levels = row.to_vec();
            levels.sort_unstable();
            levels.dedup();
            let mut spanned = 1;
            for distance in levels {
                let nodes = reachable(distance);
                if nodes.len() > spanned && machine.processors[node] > 0 {
                    spanned = nodes.len();
                    domains.push(nodes);
                }
            }
            by_node.push(domains);
        }
        let depth = by_node.iter().map(Vec::len).max().unwrap_or(0);
        let busy_every = (0..depth)
            .map(|level| {
                from_ms(scheduler.busy_balance_ms * scheduler.level_factor.powi(level as i32))
                    .max(1)
            })
            .collect();
        Self {
            by_node,
            busy_every,
            idle_every: from_ms(scheduler.idle_balance_ms).max(1),
        }
    }

    /// The domains of a node's processors, nearest first.
    pub fn of_node(&self, node: usize) -> &[Vec<usize>] {
        &self.by_node[node]
    }

    /// When a processor next looks at a domain: looks lie on a grid that is shifted from processor to processor,
    /// so that not all look at once.
    pub fn next_look(
        &self,
        after: u64,
        level: usize,
        idle: bool,
        processor: usize,
        processors: usize,
    ) -> u64 {
        let every = if idle {
            self.idle_every
        } else {
            self.busy_every[level]
        };
        let phase = (u128::from(every) * processor as u128 / processors as u128) as u64;
        if after < phase {
            return phase;
        }
        phase + ((after - phase) / every + 1) * every
    }
}
