//! `zmeld numa compare`: several policies on the same processes.

use std::collections::BTreeMap;

use serde::Serialize;
use zmeld_numa::policy::PolicyName;
use zmeld_numa::replicate::{Replications, METRICS};
use zmeld_numa::scenario::Scenario;
use zmeld_numa::statistics::Interval;

use super::{pages, settings, CompareArgs, Context, Error};
use crate::exit::Outcome;

#[derive(Serialize)]
struct PolicyRow {
    policy: PolicyName,
    gain: Interval,
    metrics: BTreeMap<&'static str, Interval>,
}

#[derive(Serialize)]
struct CompareBody<'a> {
    command: &'static str,
    scenario: &'a str,
    seed: u64,
    replications: u64,
    base: PolicyName,
    policies: Vec<PolicyRow>,
}

pub(super) fn compare(args: &CompareArgs, context: &mut Context<'_>) -> Result<Outcome, Error> {
    let scenario = scenario(args)?;
    let runs = context.threads.install(|| {
        Replications::run(
            &scenario.case,
            &scenario.policies,
            scenario.seed,
            scenario.replications,
        )
    });
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
    context.show(&pages::compare::compare(&scenario, &runs).into(), &body)?;
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
    let metrics = METRICS.iter().enumerate();
    let means = metrics.filter_map(|(i, metric)| Some((metric.name, runs.mean(policy, i)?)));
    Some(PolicyRow {
        policy,
        gain: runs.gain(policy, base)?,
        metrics: means.collect(),
    })
}
