//! `zmeld numa compare`: several policies on the same processes.

use std::collections::BTreeMap;

use serde::Serialize;
use zmeld_numa::pages;
use zmeld_numa::policy::PolicyName;
use zmeld_numa::replicate::{Replications, METRICS};
use zmeld_numa::scenario::Scenario;
use zmeld_statistics::mean::Interval;

use super::{settings, CompareArgs, Context, Error};
use crate::exit::Outcome;

/// A policy beside the base.
#[derive(Serialize, schemars::JsonSchema)]
pub struct PolicyRow {
    /// The policy.
    policy: PolicyName,
    /// Share of total time saved over the base.
    gain: Interval,
    /// Each metric: its mean.
    metrics: BTreeMap<&'static str, Interval>,
}

/// Several policies on the same processes.
#[derive(Serialize, schemars::JsonSchema)]
pub struct CompareBody<'a> {
    /// `compare`.
    command: &'static str,
    /// The scenario's name.
    scenario: &'a str,
    /// Where random numbers start.
    seed: u64,
    /// Replications of each policy.
    replications: u64,
    /// The policy that the others are held against.
    base: PolicyName,
    /// Each policy.
    policies: Vec<PolicyRow>,
}

pub(super) fn compare(args: &CompareArgs, context: &mut Context<'_>) -> Result<Outcome, Error> {
    let scenario = scenario(args)?;
    let runs = Replications::run(
        &scenario.case,
        &scenario.policies,
        scenario.seed,
        scenario.replications,
    );
    let base = scenario.policies[0];
    let last = scenario.policies[scenario.policies.len() - 1];
    let rows = scenario.policies.iter();
    let body = CompareBody {
        command: "compare",
        scenario: &scenario.name,
        seed: scenario.seed,
        replications: scenario.replications,
        base,
        policies: rows
            .filter_map(|&policy| row(&runs, policy, base))
            .collect(),
    };
    context.show(&pages::compare::compare(&scenario, &runs), &body)?;
    let gain = runs.gain(last, base).map_or(0.0, |gain| gain.value * 100.0);
    Ok(match args.min_gain.is_some_and(|least| gain < least) {
        true => Outcome::Missed,
        false => Outcome::Done,
    })
}

fn scenario(args: &CompareArgs) -> Result<Scenario, Error> {
    let (_, mut scenario) = settings::read(&args.scenario)?;
    settings::several_nodes(&scenario)?;
    if !args.policies.is_empty() {
        let policies = args.policies.iter().map(|name| name.parse());
        scenario.policies = policies.collect::<Result<_, _>>()?;
    }
    Ok(scenario)
}

fn row(runs: &Replications, policy: PolicyName, base: PolicyName) -> Option<PolicyRow> {
    let metrics = METRICS.iter().map(|(name, _)| *name);
    let means = metrics.filter_map(|name| Some((name, runs.mean(policy, name)?)));
    Some(PolicyRow {
        policy,
        gain: runs.gain(policy, base)?,
        metrics: means.collect(),
    })
}
