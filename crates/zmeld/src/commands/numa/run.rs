//! `zmeld numa run`: one replication under one policy, in detail.

use std::collections::BTreeMap;

use serde::Serialize;
use zmeld_numa::engine::Recording;
use zmeld_numa::outcome::{Counters, Outcome as Simulated, Stalls, Timeline};
use zmeld_numa::pages;
use zmeld_numa::policy::PolicyName;
use zmeld_numa::replicate::METRICS;
use zmeld_numa::scenario::Scenario;
use zmeld_numa::time::MS;

use super::{settings, Context, Error, RunArgs};
use crate::exit::Outcome;

/// Nodes up to which the traffic between each two is recorded.
const TRAFFIC_NODES_MAX: usize = 256;
/// Parts into which the run's time is divided.
const BUCKETS: u64 = 100;

/// One replication under one policy.
#[derive(Serialize, schemars::JsonSchema)]
pub struct RunBody<'a> {
    /// `run`.
    command: &'static str,
    /// The scenario's name.
    scenario: &'a str,
    /// Where random numbers start.
    seed: u64,
    /// Which replication, from 0.
    replication: u64,
    /// The policy.
    policy: PolicyName,
    /// Each metric.
    metrics: BTreeMap<&'static str, f64>,
    /// What was counted.
    counters: &'a Counters,
    /// Time lost, in picoseconds.
    stalls_ps: Stalls,
    /// Accesses over time.
    timeline: &'a Timeline,
    /// Accesses to resident pages: a row for each processor's node, a column for each page's; empty where it was not recorded.
    traffic_refs: &'a [u64],
    /// Pages moved: a row for each node that they came from, a column for each that they went to.
    pages_copied: &'a [u64],
}

pub(super) fn run(args: &RunArgs, context: &mut Context<'_>) -> Result<Outcome, Error> {
    let (_, scenario) = settings::read(&args.scenario)?;
    let policy = match &args.policy {
        Some(name) => name.parse()?,
        None => scenario.policies[0],
    };
    let outcome = simulate(&scenario, policy, args.replication);
    let metrics = METRICS.iter().map(|(name, of)| (*name, of(&outcome)));
    let body = RunBody {
        command: "run",
        scenario: &scenario.name,
        seed: scenario.seed,
        replication: args.replication,
        policy,
        metrics: metrics.collect(),
        counters: &outcome.counters,
        stalls_ps: outcome.stalls,
        timeline: &outcome.timeline,
        traffic_refs: &outcome.traffic_refs,
        pages_copied: &outcome.pages_copied,
    };
    context.show(&pages::run::run(&scenario, policy, &outcome), &body)?;
    Ok(Outcome::Done)
}

/// Runs twice: how wide the buckets of time are follows from a first run that records nothing.
fn simulate(scenario: &Scenario, policy: PolicyName, replication: u64) -> Simulated {
    let case = &scenario.case;
    let plans = case
        .workload
        .plans(&case.machine, scenario.seed, replication);
    let total = case.simulate(policy, &plans, Recording::TOTALS).total_time;
    let recording = Recording {
        bucket: (total / BUCKETS).max(MS),
        traffic: case.machine.nodes() <= TRAFFIC_NODES_MAX,
    };
    case.simulate(policy, &plans, recording)
}
