//! Replications: the same case with other seeds, in parallel, with the same result on any number of threads.

use rayon::prelude::*;
use serde::Serialize;

use crate::engine::{Recording, SimulationCase};
use crate::outcome::Outcome;
use crate::policy::PolicyName;
use crate::time::to_ms;
use zmeld_report::statistics::mean::{self, Interval};

/// A number that every simulation gives: its name, with the unit last, and how it is taken from an outcome.
pub type Metric = (&'static str, fn(&Outcome) -> f64);

/// Every metric, the study's measure first.
pub const METRICS: &[Metric] = &[
    ("total_ms", Outcome::total_ms),
    ("slowdown", Outcome::slowdown),
    ("local_share", Outcome::local_share),
    ("accesses", |o| o.accesses),
    ("process_moves_idle", |o| o.counters.process_moves[0] as f64),
    ("process_moves_periodic", |o| {
        o.counters.process_moves[1] as f64
    }),
    ("node_moves", |o| o.counters.node_moves as f64),
    ("numa_pages_migrated", |o| {
        o.counters.numa_pages_migrated as f64
    }),
    ("migrated_bytes", |o| o.bytes_migrated() as f64),
    ("next_touch_faults", |o| o.counters.next_touch_faults as f64),
    ("numa_pte_updates", |o| o.counters.numa_pte_updates as f64),
    ("numa_hint_faults", |o| o.counters.numa_hint_faults as f64),
    ("numa_hint_faults_local", |o| {
        o.counters.numa_hint_faults_local as f64
    }),
    ("numa_hit", |o| o.counters.numa_hit as f64),
    ("numa_miss", |o| o.counters.numa_miss as f64),
    ("ping_pong_pages", |o| o.counters.ping_pong_pages as f64),
    ("ping_pong_moves", |o| o.counters.ping_pong_moves as f64),
    ("stall_remote_ms", |o| to_ms(o.stalls.remote)),
    ("stall_fault_ms", |o| to_ms(o.stalls.faulting)),
    ("stall_copy_ms", |o| to_ms(o.stalls.copying)),
    ("stall_scan_ms", |o| to_ms(o.stalls.scanning)),
    ("stall_held_back_ms", |o| to_ms(o.stalls.held_back)),
    ("events", |o| o.events as f64),
];

/// All replications of one case under several policies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replications {
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
            let plans = case.workload.plans(&case.machine, seed, replication);
            let of_policy = |&policy: &PolicyName| {
                let outcome = case.simulate(policy, &plans, Recording::TOTALS);
                METRICS.iter().map(|(_, of)| of(&outcome)).collect()
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

    fn of(&self, policy: PolicyName, metric: &str) -> Option<&[f64]> {
        let index = self.policies.iter().position(|&p| p == policy)?;
        let metric = METRICS.iter().position(|(name, _)| *name == metric)?;
        Some(&self.samples[index][metric])
    }

    /// The mean of a metric under a policy; `None` if the policy was not run.
    pub fn mean(&self, policy: PolicyName, metric: &str) -> Option<Interval> {
        self.of(policy, metric).map(mean::mean)
    }

    /// How much total time a policy saves over another, as a share: `1 - mean(policy) / mean(base)`.
    pub fn gain(&self, policy: PolicyName, base: PolicyName) -> Option<Interval> {
        let ratio = mean::ratio(self.of(policy, "total_ms")?, self.of(base, "total_ms")?);
        Some(Interval {
            value: 1.0 - ratio.value,
            half_width: ratio.half_width,
        })
    }

    /// The smallest such gain in any replication.
    pub fn worst_gain(&self, policy: PolicyName, base: PolicyName) -> Option<f64> {
        let times = self.of(policy, "total_ms")?.iter();
        let pairs = times.zip(self.of(base, "total_ms")?);
        pairs.map(|(x, y)| 1.0 - x / y).min_by(f64::total_cmp)
    }
}
