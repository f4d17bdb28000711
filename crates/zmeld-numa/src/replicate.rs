//! Replications: the same case with other seeds, in parallel, with the same result on any number of threads.

use rayon::prelude::*;
use serde::Serialize;

use crate::engine::{simulate, Recording, Simulation};
use crate::machine::NumaMachine;
use crate::outcome::Outcome;
use crate::policy::{PolicyName, PolicySettings};
use crate::scheduler::Scheduler;
use crate::time::to_ms;
use crate::trace::Trace;
use crate::workload::{ProcessPlan, Workload};
use zmeld_statistics::mean::{self, Interval};

/// One machine with its load and rules: everything but the policy.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationCase {
    /// The machine.
    pub machine: NumaMachine,
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The processes.
    pub workload: Workload,
    /// A recorded trace to be replayed instead of the drawn processes.
    pub trace: Option<Trace>,
    /// Settings of the policies.
    pub policy: PolicySettings,
}

impl SimulationCase {
    /// The processes of one replication.
    pub fn plans(&self, seed: u64, replication: u64) -> Vec<ProcessPlan> {
        match &self.trace {
            Some(trace) => trace.plans(&self.machine, &self.workload),
            None => self.workload.plans(&self.machine, seed, replication),
        }
    }

    /// Simulates one replication under one policy.
    pub fn simulate(
        &self,
        policy: PolicyName,
        plans: &[ProcessPlan],
        detail: Recording,
    ) -> Outcome {
        let mut policy = policy.build(&self.policy, &self.machine);
        simulate(
            Simulation {
                machine: &self.machine,
                scheduler: &self.scheduler,
                plans,
                detail,
            },
            &mut *policy,
        )
    }
}

/// A number that every simulation gives.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with the unit last.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// How it is taken from an outcome.
    pub of: fn(&Outcome) -> f64,
}

/// Every metric, the study's measure first.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "total_ms",
        about: "time until the last process ended",
        of: Outcome::total_ms,
    },
    Metric {
        name: "slowdown",
        about: "time in the system over run time with local memory, mean of the processes",
        of: Outcome::mean_slowdown,
    },
    Metric {
        name: "local_share",
        about: "accesses to local memory over all accesses",
        of: Outcome::local_share,
    },
    Metric {
        name: "accesses",
        about: "accesses to memory",
        of: |o| o.accesses,
    },
    Metric {
        name: "process_moves_idle",
        about: "processes pulled by idle processors",
        of: |o| o.counters.process_moves[0] as f64,
    },
    Metric {
        name: "process_moves_periodic",
        about: "processes moved by periodic balancing",
        of: |o| o.counters.process_moves[1] as f64,
    },
    Metric {
        name: "node_moves",
        about: "moves of processes to another node",
        of: |o| o.counters.node_moves as f64,
    },
    Metric {
        name: "numa_pages_migrated",
        about: "pages moved to another node",
        of: |o| o.counters.numa_pages_migrated as f64,
    },
    Metric {
        name: "migrated_bytes",
        about: "their bytes",
        of: |o| o.bytes_migrated() as f64,
    },
    Metric {
        name: "next_touch_faults",
        about: "faults after a move",
        of: |o| o.counters.next_touch_faults as f64,
    },
    Metric {
        name: "numa_pte_updates",
        about: "page-table entries changed by scans",
        of: |o| o.counters.numa_pte_updates as f64,
    },
    Metric {
        name: "numa_hint_faults",
        about: "hinting faults",
        of: |o| o.counters.numa_hint_faults as f64,
    },
    Metric {
        name: "numa_hint_faults_local",
        about: "hinting faults on local pages",
        of: |o| o.counters.numa_hint_faults_local as f64,
    },
    Metric {
        name: "pgpromote_success",
        about: "pages promoted",
        of: |o| o.counters.pgpromote_success as f64,
    },
    Metric {
        name: "pgdemote_kswapd",
        about: "pages demoted",
        of: |o| o.counters.pgdemote_kswapd as f64,
    },
    Metric {
        name: "numa_hit",
        about: "pages placed where wanted",
        of: |o| o.counters.numa_hit as f64,
    },
    Metric {
        name: "numa_miss",
        about: "pages placed elsewhere",
        of: |o| o.counters.numa_miss as f64,
    },
    Metric {
        name: "ping_pong_pages",
        about: "pages that went back",
        of: |o| o.counters.ping_pong_pages as f64,
    },
    Metric {
        name: "ping_pong_moves",
        about: "times pages went back",
        of: |o| o.counters.ping_pong_moves as f64,
    },
    Metric {
        name: "stall_remote_ms",
        about: "lost to remote accesses",
        of: |o| to_ms(o.stalls.remote),
    },
    Metric {
        name: "stall_fault_ms",
        about: "lost to faults",
        of: |o| to_ms(o.stalls.faulting),
    },
    Metric {
        name: "stall_copy_ms",
        about: "lost waiting for own copies",
        of: |o| to_ms(o.stalls.copying),
    },
    Metric {
        name: "stall_scan_ms",
        about: "lost to page-table changes",
        of: |o| to_ms(o.stalls.scanning),
    },
    Metric {
        name: "stall_held_back_ms",
        about: "lost to others' copies",
        of: |o| to_ms(o.stalls.held_back),
    },
    Metric {
        name: "events",
        about: "events simulated",
        of: |o| o.events as f64,
    },
];

/// The place of a metric in [`METRICS`].
pub fn metric(name: &str) -> Option<usize> {
    METRICS.iter().position(|metric| metric.name == name)
}

/// All replications of one case under several policies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replications {
    /// The policies.
    pub policies: Vec<PolicyName>,
    /// By policy, then metric, then replication.
    pub samples: Vec<Vec<Vec<f64>>>,
}

impl Replications {
    /// Runs them: replication `i` has the same processes under every policy.
    pub fn run(
        case: &SimulationCase,
        policies: &[PolicyName],
        seed: u64,
        replications: u64,
    ) -> Self {
        let one = |replication: u64| -> Vec<Vec<f64>> {
            let plans = case.plans(seed, replication);
            let of_policy = |&policy: &PolicyName| {
                let outcome = case.simulate(policy, &plans, Recording::TOTALS);
                METRICS.iter().map(|metric| (metric.of)(&outcome)).collect()
            };
            policies.iter().map(of_policy).collect()
        };
        let rows: Vec<Vec<Vec<f64>>> = (0..replications).into_par_iter().map(one).collect();
        let sample =
            |policy: usize, metric: usize| rows.iter().map(|row| row[policy][metric]).collect();
        let of_policy = |policy| {
            (0..METRICS.len())
                .map(|metric| sample(policy, metric))
                .collect()
        };
        Self {
            policies: policies.to_vec(),
            samples: (0..policies.len()).map(of_policy).collect(),
        }
    }

    fn of(&self, policy: PolicyName, metric: usize) -> Option<&[f64]> {
        let index = self.policies.iter().position(|&p| p == policy)?;
        Some(&self.samples[index][metric])
    }

    /// The mean of a metric ([`metric`]) under a policy; `None` if the policy was not run.
    pub fn mean(&self, policy: PolicyName, metric: usize) -> Option<Interval> {
        self.of(policy, metric).map(mean::mean)
    }

    /// How much total time a policy saves over another, as a share: `1 - mean(policy) / mean(base)`.
    pub fn gain(&self, policy: PolicyName, base: PolicyName) -> Option<Interval> {
        let ratio = mean::ratio(self.of(policy, 0)?, self.of(base, 0)?);
        Some(Interval {
            value: 1.0 - ratio.value,
            half_width: ratio.half_width,
        })
    }

    /// Whether a policy was never slower than another in any replication, by more than `slack` of the total time.
    pub fn worst_gain(&self, policy: PolicyName, base: PolicyName) -> Option<f64> {
        let pairs = self.of(policy, 0)?.iter().zip(self.of(base, 0)?);
        pairs.map(|(x, y)| 1.0 - x / y).min_by(f64::total_cmp)
    }
}
