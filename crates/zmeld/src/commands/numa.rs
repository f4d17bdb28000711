//! `zmeld numa`: its arguments, the scenario that they name, and its results.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use serde::Serialize;
use zmeld_numa::engine::Recording;
use zmeld_numa::machine::{presets, NumaMachine};
use zmeld_numa::outcome::{Counters, Outcome as Simulated, Stalls, Timeline};
use zmeld_numa::pages;
use zmeld_numa::policy::{PolicyDescription, PolicyName, ALL};
use zmeld_numa::replicate::{Replications, METRICS};
use zmeld_numa::scenario::{Scenario, ScenarioText, REPLICATIONS_MAX};
use zmeld_numa::study::{self, Reproduction};
use zmeld_numa::time::{to_s, MS};
use zmeld_report::statistics::mean::Interval;
use zmeld_report::units::seconds;
use zmeld_report::Document;

use crate::exit::{Outcome, EXIT_CODES};
use crate::{output, progress};

#[cfg(test)]
mod tests;

/// Nodes up to which the traffic between each two is recorded.
const TRAFFIC_NODES_MAX: usize = 256;
/// Parts into which the run's time is divided.
const BUCKETS: u64 = 100;

const EXAMPLES: &str = "\
Examples:
  zmeld numa machines host                    this machine's nodes and distances
  zmeld numa compare --machine host           the policies on such a machine
  zmeld numa compare --machine two-socket     on one with two nodes
  zmeld numa compare --set workload.processes=200 --html compare.html
  zmeld numa run --policy autonuma            one run, in detail

full and on-demand are policies of the study that zmeld numa reproduce repeats:
Guilherme A. A. Tesser and Avelino F. Zorzo, on the migration of memory pages in
Linux; Workshop de Sistemas Operacionais (WSO), 2006.

Names for --set: docs/numa.md; zmeld numa reproduce --print-scenario has most.";

/// Simulate published NUMA page-migration policies, for research
///
/// Simulates rules for moving pages between nodes, with many small processes and a scheduler
/// modelled on that of Linux 2.6. It reads no load, changes nothing, and does not tell which
/// setting suits a machine: for that, time its load with kernel.numa_balancing=0 and with 1.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct NumaArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// Print JSON (schema zmeld.numa/3)
    #[arg(long, global = true)]
    json: bool,
    /// Also write the result as one HTML page
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate one run under one policy, in detail
    Run(RunArgs),
    /// Simulate the same processes under several policies, side by side
    Compare(CompareArgs),
    /// Repeat the study of Tesser and Zorzo (2006), with its published numbers beside ours (some
    /// minutes)
    Reproduce(ReproduceArgs),
    /// List the machine presets, or show one machine
    #[command(visible_alias = "list")]
    Machines {
        /// A preset, or `host`
        machine: Option<String>,
    },
    /// List the policies with their rules and sources
    Policies,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// The policy [default: the scenario's first]
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Which of the replications, counted from 0 (several at once: numa compare)
    #[arg(long = "number", default_value_t = 0, value_name = "N")]
    replication: u64,
}

#[derive(Debug, Args)]
struct CompareArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Policies, the base first [default: the scenario's]
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...")]
    policies: Vec<String>,
    /// Replications of each point [default: the scenario's, 30 without one]
    #[arg(long, value_name = "N")]
    replications: Option<u64>,
}

#[derive(Debug, Args)]
struct ReproduceArgs {
    /// Replications of each point [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=REPLICATIONS_MAX))]
    replications: Option<u64>,
    /// Use this scenario file instead of the built-in one
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Print the built-in scenario file and stop
    #[arg(long)]
    print_scenario: bool,
}

#[derive(Debug, Args)]
struct ScenarioArgs {
    /// A scenario file; without one, the defaults
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The machine: a preset, or `host`
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Set a value, as workload.processes=200 (may be given several times)
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Seed of random numbers
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub fn run(args: &NumaArgs) -> anyhow::Result<Outcome> {
    progress::end_on_interrupt("stopped before there was a result");
    let output = &args.output;
    match &args.command {
        Command::Run(args) => run_one(args, output),
        Command::Compare(args) => compare(args, output),
        Command::Reproduce(args) => reproduce(args, output),
        Command::Machines { machine } => machines(machine.as_deref(), output),
        Command::Policies => policies(output),
    }
}

/// Prints a result, and writes its page if one was asked for.
fn show(output: &Output, page: &Document, body: &impl Serialize) -> anyhow::Result<()> {
    if let Some(file) = &output.html {
        output::write_page(file, page)?;
    }
    if output.json {
        return output::print(&output::json(("zmeld.numa", 3), body));
    }
    output::print_as_it_is(&page.to_text(&output::style()))
}

/// One replication under one policy.
#[derive(Serialize, schemars::JsonSchema)]
pub struct RunBody<'a> {
    /// `run`.
    command: &'static str,
    /// The scenario's name.
    scenario: &'a str,
    /// Seed of random numbers.
    seed: u64,
    /// Which replication, from 0.
    replication: u64,
    /// The policy.
    policy: PolicyName,
    /// Each metric.
    metrics: BTreeMap<&'static str, f64>,
    /// Total time of the same processes under no-balancing, in milliseconds.
    no_balancing_ms: f64,
    /// The counters.
    counters: &'a Counters,
    /// Time lost, in picoseconds.
    stalls_ps: Stalls,
    /// Accesses over time.
    timeline: &'a Timeline,
    /// The machine's numbers of its nodes, in the order of the next two.
    nodes: &'a [usize],
    /// Accesses to resident pages: a row for each processor's node, a column for each page's;
    /// empty where it was not recorded.
    traffic_refs: &'a [u64],
    /// Pages moved: a row for each node that they came from, a column for each that they went to.
    pages_copied: &'a [u64],
}

fn run_one(args: &RunArgs, output: &Output) -> anyhow::Result<Outcome> {
    let scenario = scenario(&args.scenario, None)?;
    let policy = match &args.policy {
        Some(name) => name.parse()?,
        None => scenario.policies[0],
    };
    let (outcome, base) = simulate(&scenario, policy, args.replication);
    let metrics = METRICS.iter().map(|(name, of)| (*name, of(&outcome)));
    let body = RunBody {
        command: "run",
        scenario: &scenario.name,
        seed: scenario.seed,
        replication: args.replication,
        policy,
        metrics: metrics.collect(),
        no_balancing_ms: to_s(base.total_time) * 1000.0,
        counters: &outcome.counters,
        stalls_ps: outcome.stalls,
        timeline: &outcome.timeline,
        nodes: &scenario.case.machine.node_numbers,
        traffic_refs: &outcome.traffic_refs,
        pages_copied: &outcome.pages_copied,
    };
    let page = pages::run::run(&scenario, policy, args.replication, &outcome, &base);
    show(output, &page, &body)?;
    Ok(Outcome::Done)
}

/// One replication, and the same under no-balancing. A first run that records nothing tells how
/// wide the buckets of time are.
fn simulate(scenario: &Scenario, policy: PolicyName, replication: u64) -> (Simulated, Simulated) {
    let case = &scenario.case;
    let plans = case
        .workload
        .plans(&case.machine, scenario.seed, replication);
    let totals = |policy| case.simulate(policy, &plans, Recording::TOTALS);
    let first = totals(policy);
    let recording = Recording {
        bucket: (first.total_time / BUCKETS).max(MS),
        traffic: case.machine.nodes() <= TRAFFIC_NODES_MAX,
    };
    let outcome = case.simulate(policy, &plans, recording);
    let base = match policy {
        PolicyName::NoBalancing => first,
        _ => totals(PolicyName::NoBalancing),
    };
    (outcome, base)
}

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
    /// Seed of random numbers.
    seed: u64,
    /// Replications of each policy.
    replications: u64,
    /// The policy that the others are held against.
    base: PolicyName,
    /// Each policy.
    policies: Vec<PolicyRow>,
}

fn compare(args: &CompareArgs, output: &Output) -> anyhow::Result<Outcome> {
    let mut scenario = scenario(&args.scenario, args.replications)?;
    if scenario.case.machine.nodes() <= 1 {
        bail!(
            "this machine has one node: there is nothing to migrate, and every policy comes out the same; \
             name another with --machine (zmeld numa machines lists some)"
        );
    }
    if !args.policies.is_empty() {
        let policies = args.policies.iter().map(|name| name.parse());
        scenario.policies = policies.collect::<Result<_, _>>()?;
    }
    let runs = Replications::run(
        &scenario.case,
        &scenario.policies,
        scenario.seed,
        scenario.replications,
    );
    let base = scenario.policies[0];
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
    show(output, &pages::compare::compare(&scenario, &runs), &body)?;
    Ok(Outcome::Done)
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

/// The published study beside ours.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ReproduceBody<'a> {
    /// `reproduce`.
    command: &'static str,
    #[serde(flatten)]
    study: &'a Reproduction,
}

fn reproduce(args: &ReproduceArgs, output: &Output) -> anyhow::Result<Outcome> {
    if args.print_scenario {
        output::print(study::SCENARIO)?;
        return Ok(Outcome::Done);
    }
    let source = match &args.scenario {
        Some(file) => ScenarioText::read(file)?,
        None => study::source()?,
    };
    let line = progress::Message::of_long_work();
    let started = Instant::now();
    let step = |done: usize, all: usize| {
        let each_s = started.elapsed().as_secs_f64() / done.max(1) as f64;
        let left = seconds(each_s * all.saturating_sub(done) as f64);
        line.set(&format!("{done} of {all} points, about {left} left"));
    };
    let result = study::reproduce(&source, args.replications, &step)?;
    drop(line);
    let mut scenario = source.scenario()?;
    scenario.replications = result.replications;
    let page = pages::study::reproduction(&result, &scenario)
        .provenance("took", seconds(started.elapsed().as_secs_f64()));
    let body = ReproduceBody {
        command: "reproduce",
        study: &result,
    };
    show(output, &page, &body)?;
    Ok(Outcome::Done)
}

/// Machines that can be named.
#[derive(Serialize, schemars::JsonSchema)]
pub struct MachinesBody {
    /// `machines`.
    command: &'static str,
    /// The presets, or the one that was asked for.
    machines: Vec<NumaMachine>,
}

/// Policies that can be named.
#[derive(Serialize, schemars::JsonSchema)]
pub struct PoliciesBody {
    /// `policies`.
    command: &'static str,
    /// Each policy: its `name`, its rule and its source, in words.
    policies: &'static [PolicyDescription],
}

fn machines(name: Option<&str>, output: &Output) -> anyhow::Result<Outcome> {
    let (page, machines) = match name {
        Some(name) => {
            let machine = NumaMachine::find(name)?;
            (pages::lists::machine(&machine), vec![machine])
        }
        None => (pages::lists::machines(), presets()),
    };
    let body = MachinesBody {
        command: "machines",
        machines,
    };
    show(output, &page, &body)?;
    Ok(Outcome::Done)
}

fn policies(output: &Output) -> anyhow::Result<Outcome> {
    let body = PoliciesBody {
        command: "policies",
        policies: ALL,
    };
    show(output, &pages::lists::policies(), &body)?;
    Ok(Outcome::Done)
}

fn scenario(args: &ScenarioArgs, replications: Option<u64>) -> anyhow::Result<Scenario> {
    let source = match &args.scenario {
        Some(file) => ScenarioText::read(file)?,
        None => ScenarioText::new(String::new(), "built-in defaults".into())?,
    };
    let mut settings = args
        .set
        .iter()
        .map(|text| parse_setting(text))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(machine) = &args.machine {
        settings.push(("machine.from".into(), toml::Value::String(machine.clone())));
    }
    for (path, value) in [("seed", args.seed), ("replications", replications)] {
        let Some(value) = value else { continue };
        let value = i64::try_from(value).with_context(|| format!("--{path} {value}: too large"))?;
        settings.push((path.into(), toml::Value::Integer(value)));
    }
    if settings.is_empty() {
        return Ok(source.scenario()?);
    }
    source
        .with(&settings)
        .map_err(|error| blamed(&source, &args.set, error))
}

/// The error with the `--set` that leads to it, where one does by itself.
fn blamed(source: &ScenarioText, set: &[String], error: zmeld_numa::Error) -> anyhow::Error {
    let alone = set.iter().find_map(|text| {
        let setting = parse_setting(text).ok()?;
        Some((text, source.with(&[setting]).err()?))
    });
    match alone {
        Some((text, error)) => anyhow::Error::new(error).context(format!("--set {text}")),
        None => error.into(),
    }
}

/// A value as TOML has it; what is no TOML is a text.
fn parse_value(text: &str) -> toml::Value {
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn parse_setting(text: &str) -> anyhow::Result<(String, toml::Value)> {
    let parts = text
        .split_once('=')
        .map(|(path, value)| (path.trim(), value.trim()))
        .filter(|(path, value)| !path.is_empty() && !value.is_empty());
    let (path, value) =
        parts.with_context(|| format!("{text:?}: write PATH=VALUE, as workload.processes=200"))?;
    Ok((path.to_owned(), parse_value(value)))
}
