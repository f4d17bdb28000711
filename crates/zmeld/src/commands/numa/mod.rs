//! The command `zmeld numa`: arguments, what each does, and where results go.
//!
//! Results go to the writer that the caller gives, progress to the standard error output. Nothing else is printed.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clap::{Args, Subcommand};
use serde::Serialize;
use thiserror::Error;
use zmeld_linux::file;
use zmeld_report::schema::Envelope;
use zmeld_report::Style;

use zmeld_numa::engine::Recording;
use zmeld_numa::machine::{MachineError, NumaMachine};
use zmeld_numa::policy::{PolicyName, UnknownPolicy, ALL};
use zmeld_numa::replicate::{Replications, METRICS};
use zmeld_numa::scenario::{Scenario, ScenarioError, ScenarioText, REPLICATIONS_MAX};
use zmeld_numa::study;
use zmeld_numa::sweep::{self, Shard, Sweep, SweepError};
use zmeld_numa::time::MS;

use self::pages::Page;
use crate::exit::Outcome;
use crate::{output, progress};

mod pages;
#[cfg(test)]
mod tests;

/// The schema of every JSON result, without its version.
pub const SCHEMA: &str = "zmeld.numa";
/// Its version.
pub const SCHEMA_VERSION: u32 = 1;

/// Which page-migration policy suits a NUMA machine (simulation)
#[derive(Debug, Args)]
pub struct NumaArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// Print JSON (schema zmeld.numa/1)
    #[arg(long, global = true)]
    json: bool,
    /// Also write the result as one HTML page
    #[arg(long, global = true, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write the result's plots as SVG files into this directory
    #[arg(long, global = true, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Threads to use; results do not depend on it [default: all processors]
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,
    /// Show no progress
    #[arg(long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate one run under one policy, in detail
    Run {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// The policy [default: the scenario's first]
        #[arg(long, value_name = "POLICY")]
        policy: Option<String>,
        /// Which replication
        #[arg(long, default_value_t = 0, value_name = "N")]
        replication: u64,
        /// Also write one row for each process as CSV
        #[arg(long, value_name = "FILE")]
        processes_csv: Option<PathBuf>,
    },
    /// Run several policies on the same processes and say which suits best
    Compare {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// Policies, the base first [default: the scenario's]
        #[arg(long, value_delimiter = ',', value_name = "POLICY,...")]
        policies: Vec<String>,
        /// Fail with exit code 1 unless the last policy saves at least this many percent over the first
        #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
        min_gain: Option<f64>,
    },
    /// Run every combination of some parameters' values
    Sweep {
        #[command(flatten)]
        scenario: ScenarioArgs,
        /// An axis, as workload.processes=10,50,200 (may be given several times)
        #[arg(long, value_name = "PATH=VALUE,...")]
        over: Vec<String>,
        /// Where results are kept, point by point; an interrupted sweep goes on from there
        #[arg(long, default_value = "numa-sweep.jsonl", value_name = "FILE")]
        results: PathBuf,
        /// Run only part I of N
        #[arg(long, default_value = "1/1", value_name = "I/N")]
        shard: String,
        #[command(flatten)]
        tables: Tables,
    },
    /// Put the results of a sweep's shards together
    Merge {
        /// The shards' files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        tables: Tables,
    },
    /// Run the published study and set its figures beside the published ones
    Reproduce {
        /// Replications of each point [default: 200]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=REPLICATIONS_MAX))]
        replications: Option<u64>,
        /// Replications of each point of the sensitivity table; 0 leaves it out
        #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=REPLICATIONS_MAX))]
        sensitivity: u64,
        /// Use this scenario file instead of the built-in one
        #[arg(long, value_name = "FILE")]
        scenario: Option<PathBuf>,
        /// Fail with exit code 1 unless at least this many published numbers agree
        #[arg(long, value_name = "N")]
        min_agree: Option<usize>,
        /// Instead, search the free parameters for the set that agrees best, in so many steps
        #[arg(long, value_name = "STEPS")]
        calibrate: Option<usize>,
        /// Print the built-in scenario file and stop
        #[arg(long)]
        print_scenario: bool,
    },
    /// List the machine presets, or show one machine
    Machines {
        /// A preset, `host`, or a file with the output of `numactl -H`
        machine: Option<String>,
    },
    /// List the policies with their rules and sources
    Policies,
}

#[derive(Debug, Args)]
struct ScenarioArgs {
    /// A scenario file; without one, the defaults
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// The machine: a preset, `host`, or a file with the output of `numactl -H`
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,
    /// Set a value, as workload.processes=200 (may be given several times)
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Where random numbers start
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Replications of each point
    #[arg(long, value_name = "N")]
    replications: Option<u64>,
}

#[derive(Debug, Args)]
struct Tables {
    /// Also write the results as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write the results as Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

/// Why a command could not be carried out.
#[derive(Debug, Error)]
pub enum Error {
    /// The scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The machine.
    #[error(transparent)]
    NumaMachine(#[from] MachineError),
    /// A policy's name.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A sweep.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// An argument that is not what it should be.
    #[error("{0}")]
    Argument(String),
    /// A folder that cannot be made.
    #[error("cannot make {}: {source}", file.display())]
    File {
        /// The folder.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error(transparent)]
    Write(#[from] file::Error),
    /// The results could not be written.
    #[error("cannot write the results: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// The program's exit code: 4 for results that are damaged or differ, else 2.
    pub fn code(&self) -> u8 {
        match self {
            Self::Sweep(SweepError::Damaged { .. } | SweepError::Differs { .. }) => 4,
            _ => 2,
        }
    }
}

/// Carries out a command on standard output.
///
/// # Errors
/// As [`carry_out_on`]; see [`Error::code`] for the exit code.
pub fn run(args: NumaArgs) -> anyhow::Result<Outcome> {
    progress::end_on_interrupt(match &args.command {
        Command::Sweep { .. } => "stopped; the same command goes on from the points there are",
        _ => "stopped before there was a result",
    });
    let mut out = Vec::new();
    let outcome = carry_out_on(args, &mut out, &output::style())?;
    output::print_as_it_is(&String::from_utf8_lossy(&out))?;
    Ok(outcome)
}

/// Carries out a command. Results go to `out`, which is a terminal of this style or a file.
///
/// # Errors
/// What the user asked for that cannot be done; see [`Error::code`] for the exit code.
pub fn carry_out_on(args: NumaArgs, out: &mut dyn Write, style: &Style) -> Result<Outcome, Error> {
    let output = args.output;
    match output.threads {
        Some(0) => Err(Error::Argument("--threads: at least one is needed".into())),
        Some(threads) => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let pool =
                pool.map_err(|error| Error::Argument(format!("--threads {threads}: {error}")))?;
            // `out` stays on this thread; what is simulated runs in the pool.
            let pool = Pool(Some(pool));
            carry_out(args.command, &output, out, style, &pool)
        }
        None => carry_out(args.command, &output, out, style, &Pool(None)),
    }
}

struct Pool(Option<rayon::ThreadPool>);

impl Pool {
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}

fn carry_out(
    command: Command,
    output: &Output,
    out: &mut dyn Write,
    style: &Style,
    pool: &Pool,
) -> Result<Outcome, Error> {
    match command {
        Command::Run {
            scenario,
            policy,
            replication,
            processes_csv,
        } => {
            let (_, scenario) = read(&scenario)?;
            let policy = policy.map_or(Ok(scenario.policies[0]), |name| name.parse())?;
            let plans = scenario.case.plans(scenario.seed, replication);
            // About a hundred buckets, from a first run that records nothing.
            let total = scenario
                .case
                .simulate(policy, &plans, Recording::TOTALS)
                .total_time;
            let detail = Recording {
                bucket: (total / 100).max(MS),
                traffic: scenario.case.machine.nodes() <= 256,
            };
            let outcome = scenario.case.simulate(policy, &plans, detail);
            if let Some(file) = processes_csv {
                let mut text = Vec::new();
                pages::processes(&outcome).write_csv(&mut text)?;
                file::replace(&file, &text)?;
            }
            #[derive(Serialize)]
            struct Body<'a> {
                command: &'static str,
                scenario: &'a str,
                seed: u64,
                replication: u64,
                policy: PolicyName,
                metrics: std::collections::BTreeMap<&'static str, f64>,
                counters: &'a zmeld_numa::outcome::Counters,
                stalls_ps: zmeld_numa::outcome::Stalls,
                timeline: &'a zmeld_numa::outcome::Timeline,
                traffic_refs: &'a [u64],
                pages_copied: &'a [u64],
            }
            let body = Body {
                command: "run",
                scenario: &scenario.name,
                seed: scenario.seed,
                replication,
                policy,
                metrics: pages::metrics_of(&outcome).into_iter().collect(),
                counters: &outcome.counters,
                stalls_ps: outcome.stalls,
                timeline: &outcome.timeline,
                traffic_refs: &outcome.traffic_refs,
                pages_copied: &outcome.pages_copied,
            };
            show(
                &pages::run(&scenario, policy, &outcome),
                &body,
                output,
                out,
                style,
            )?;
            Ok(Outcome::Done)
        }
        Command::Compare {
            scenario,
            policies,
            min_gain,
        } => {
            let (_, mut scenario) = read(&scenario)?;
            several_nodes(&scenario)?;
            if !policies.is_empty() {
                scenario.policies = policies
                    .iter()
                    .map(|name| name.parse())
                    .collect::<Result<_, _>>()?;
            }
            let runs = pool.install(|| {
                Replications::run(
                    &scenario.case,
                    &scenario.policies,
                    scenario.seed,
                    scenario.replications,
                )
            });
            let (base, last) = (
                scenario.policies[0],
                scenario.policies[scenario.policies.len() - 1],
            );
            #[derive(Serialize)]
            struct Row {
                policy: PolicyName,
                gain: zmeld_numa::statistics::Interval,
                metrics: std::collections::BTreeMap<&'static str, zmeld_numa::statistics::Interval>,
            }
            #[derive(Serialize)]
            struct Body<'a> {
                command: &'static str,
                scenario: &'a str,
                seed: u64,
                replications: u64,
                base: PolicyName,
                policies: Vec<Row>,
            }
            let row = |&policy: &PolicyName| -> Option<Row> {
                let metrics = METRICS
                    .iter()
                    .enumerate()
                    .filter_map(|(i, m)| Some((m.name, runs.mean(policy, i)?)));
                Some(Row {
                    policy,
                    gain: runs.gain(policy, base)?,
                    metrics: metrics.collect(),
                })
            };
            let body = Body {
                command: "compare",
                scenario: &scenario.name,
                seed: scenario.seed,
                replications: scenario.replications,
                base,
                policies: scenario.policies.iter().filter_map(row).collect(),
            };
            show(
                &pages::compare(&scenario, &runs).into(),
                &body,
                output,
                out,
                style,
            )?;
            let gain = runs.gain(last, base).map_or(0.0, |gain| gain.value * 100.0);
            Ok(if min_gain.is_some_and(|least| gain < least) {
                Outcome::Missed
            } else {
                Outcome::Done
            })
        }
        Command::Sweep {
            scenario,
            over,
            results,
            shard,
            tables,
        } => {
            let (source, scenario) = read(&scenario)?;
            let axes = over
                .iter()
                .map(|axis| parse_axis(axis))
                .collect::<Result<Vec<_>, _>>()?;
            if !axes
                .iter()
                .chain(&scenario.sweep)
                .any(|(path, _): &(String, _)| path.split('.').next() == Some("machine"))
            {
                several_nodes(&scenario)?;
            }
            let sweep = Sweep::new(source, scenario, axes)?;
            let shard: Shard = shard.parse()?;
            let bar = Progress::new("points", output.quiet);
            let found =
                pool.install(|| sweep.run(shard, &results, &|done, all| bar.at(done, all)))?;
            bar.done();
            finish_sweep(&found, &tables, output, out, style)
        }
        Command::Merge { files, tables } => {
            finish_sweep(&sweep::merge(&files)?, &tables, output, out, style)
        }
        Command::Reproduce {
            replications,
            sensitivity,
            scenario,
            min_agree,
            calibrate,
            print_scenario,
        } => {
            if print_scenario {
                out.write_all(study::SCENARIO.as_bytes())?;
                return Ok(Outcome::Done);
            }
            let source = match scenario {
                Some(file) => ScenarioText::read(&file)?,
                None => study::source()?,
            };
            if let Some(steps) = calibrate {
                return run_calibration(
                    &source,
                    steps,
                    replications.unwrap_or(60),
                    output,
                    out,
                    pool,
                );
            }
            let bar = Progress::new("points", output.quiet);
            let started = Instant::now();
            let step = |done, all| bar.at(done, all);
            let result =
                pool.install(|| study::reproduce(&source, replications, sensitivity, &step))?;
            bar.done();
            let mut scenario = source.scenario()?;
            scenario.replications = result.replications;
            let mut page = pages::reproduction(&result, &scenario);
            page.document = page
                .document
                .provenance("took", zmeld_report::units::duration(started.elapsed()));
            #[derive(Serialize)]
            struct Body<'a> {
                command: &'static str,
                #[serde(flatten)]
                study: &'a study::Reproduction,
            }
            show(
                &page,
                &Body {
                    command: "reproduce",
                    study: &result,
                },
                output,
                out,
                style,
            )?;
            let agree = result.claims.iter().filter(|claim| claim.agrees).count();
            Ok(if min_agree.is_some_and(|least| agree < least) {
                Outcome::Missed
            } else {
                Outcome::Done
            })
        }
        Command::Machines { machine } => {
            #[derive(Serialize)]
            struct Body {
                command: &'static str,
                machines: Vec<NumaMachine>,
            }
            let (page, machines) = match machine {
                Some(name) => {
                    let machine = NumaMachine::find(&name)?;
                    (pages::machine(&machine), vec![machine])
                }
                None => {
                    let presets = zmeld_numa::machine::PRESETS
                        .iter()
                        .filter_map(|preset| NumaMachine::preset(preset.name));
                    (Page::from(pages::machines()), presets.collect())
                }
            };
            show(
                &page,
                &Body {
                    command: "machines",
                    machines,
                },
                output,
                out,
                style,
            )?;
            Ok(Outcome::Done)
        }
        Command::Policies => {
            #[derive(Serialize)]
            struct Body {
                command: &'static str,
                policies: &'static [zmeld_numa::policy::PolicyDescription],
            }
            show(
                &pages::policies().into(),
                &Body {
                    command: "policies",
                    policies: ALL,
                },
                output,
                out,
                style,
            )?;
            Ok(Outcome::Done)
        }
    }
}

fn run_calibration(
    source: &ScenarioText,
    steps: usize,
    replications: u64,
    output: &Output,
    out: &mut dyn Write,
    pool: &Pool,
) -> Result<Outcome, Error> {
    let bar = Progress::new("steps", output.quiet);
    let log = Mutex::new(Vec::new());
    let seed = source.scenario()?.seed;
    let best = pool.install(|| {
        let mut report = |step: &study::CalibrationStep| {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push(step.clone());
            bar.at(log.len(), steps);
        };
        study::calibrate(source, steps, seed, replications, &mut report)
    })?;
    bar.done();
    let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
    if output.json {
        #[derive(Serialize)]
        struct Body {
            command: &'static str,
            steps: Vec<study::CalibrationStep>,
        }
        Envelope::new(
            SCHEMA,
            SCHEMA_VERSION,
            env!("CARGO_PKG_VERSION"),
            Body {
                command: "calibrate",
                steps: log,
            },
        )
        .write(out)?;
        return Ok(Outcome::Done);
    }
    for step in &log {
        let settings: Vec<String> = step
            .settings
            .iter()
            .map(|(path, value)| format!("{path}={value}"))
            .collect();
        let mark = if step.best { "best so far" } else { "" };
        writeln!(
            out,
            "{:8.2} {:3} agree  {mark:11}  {}",
            step.misfit,
            step.agree,
            settings.join(" ")
        )?;
    }
    writeln!(
        out,
        "best: the scenario's own values{}",
        if best.is_empty() { "" } else { ", but" }
    )?;
    for (path, value) in best {
        writeln!(out, "  {path} = {value}")?;
    }
    Ok(Outcome::Done)
}

fn finish_sweep(
    results: &sweep::SweepResults,
    tables: &Tables,
    output: &Output,
    out: &mut dyn Write,
    style: &Style,
) -> Result<Outcome, Error> {
    if let Some(file) = &tables.csv {
        let mut text = Vec::new();
        results.write_csv(&mut text)?;
        file::replace(file, &text)?;
    }
    if let Some(file) = &tables.parquet {
        results.write_parquet(file)?;
    }
    #[derive(Serialize)]
    struct Body<'a> {
        command: &'static str,
        metrics: Vec<&'static str>,
        #[serde(flatten)]
        results: &'a sweep::SweepResults,
    }
    let metrics = METRICS.iter().map(|metric| metric.name).collect();
    show(
        &pages::sweep(results),
        &Body {
            command: "sweep",
            metrics,
            results,
        },
        output,
        out,
        style,
    )?;
    Ok(Outcome::Done)
}

/// On one node there is nothing to compare.
fn several_nodes(scenario: &Scenario) -> Result<(), Error> {
    match scenario.case.machine.nodes() {
        0 | 1 => Err(Error::Argument(
            "this machine has one node: there is nothing to migrate, and every policy comes out the same; \
             name another with --machine (zmeld numa machines lists some)"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// Reads the scenario that the arguments describe.
fn read(args: &ScenarioArgs) -> Result<(ScenarioText, Scenario), Error> {
    let mut source = match &args.scenario {
        Some(file) => ScenarioText::read(file)?,
        None => ScenarioText::new(String::new(), "defaults".into())?,
    };
    let mut settings = args
        .set
        .iter()
        .map(|text| parse_setting(text))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(machine) = &args.machine {
        // A file is meant from where the command runs.
        settings.push(("machine.from".into(), toml::Value::String(machine.clone())));
    }
    for (path, value) in [("seed", args.seed), ("replications", args.replications)] {
        let Some(value) = value else { continue };
        let value = i64::try_from(value)
            .map_err(|_| Error::Argument(format!("--{path} {value}: too large")))?;
        settings.push((path.into(), toml::Value::Integer(value)));
    }
    if settings.is_empty() {
        let scenario = source.scenario()?;
        return Ok((source, scenario));
    }
    let plain = source.clone();
    let made = source
        .set(&settings)
        .and_then(|()| source.with(&[]))
        .map_err(|error| blamed(&plain, &args.set, error))?;
    Ok((source, made))
}

/// The error with the `--set` that leads to it, where one does by itself.
fn blamed(plain: &ScenarioText, set: &[String], error: ScenarioError) -> Error {
    let alone = set.iter().find_map(|text| {
        let setting = parse_setting(text).ok()?;
        let mut source = plain.clone();
        let made = source.set(&[setting]).and_then(|()| source.with(&[]));
        Some((text, made.err()?))
    });
    match alone {
        Some((text, error)) => Error::Argument(format!("--set {text}: {error}")),
        None => error.into(),
    }
}

fn split(text: &str) -> Result<(&str, &str), Error> {
    let parts = text
        .split_once('=')
        .filter(|(path, value)| !path.trim().is_empty() && !value.trim().is_empty());
    parts.ok_or_else(|| {
        Error::Argument(format!(
            "{text:?}: write PATH=VALUE, as workload.processes=200"
        ))
    })
}

/// A value as TOML has it; what is no TOML is a text.
fn parse_value(text: &str) -> toml::Value {
    let parsed: Result<toml::Table, _> = toml::from_str(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

fn parse_setting(text: &str) -> Result<(String, toml::Value), Error> {
    let (path, value) = split(text)?;
    Ok((path.trim().to_owned(), parse_value(value.trim())))
}

fn parse_axis(text: &str) -> Result<(String, Vec<toml::Value>), Error> {
    let (path, values) = split(text)?;
    // A list in TOML's own brackets may hold anything; otherwise commas part the values.
    let values = match parse_value(&format!("[{values}]")) {
        toml::Value::Array(values) => values,
        _ => values
            .split(',')
            .map(|value| parse_value(value.trim()))
            .collect(),
    };
    Ok((path.trim().to_owned(), values))
}

fn show(
    page: &Page,
    body: &impl Serialize,
    output: &Output,
    out: &mut dyn Write,
    style: &Style,
) -> Result<(), Error> {
    if let Some(file) = &output.html {
        file::replace(file, page.document.to_html().as_bytes())?;
    }
    if let Some(dir) = &output.svg {
        fs::create_dir_all(dir).map_err(|source| Error::File {
            file: dir.clone(),
            source,
        })?;
        for plot in &page.plots {
            let name: String = plot
                .title()
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() {
                        c.to_ascii_lowercase()
                    } else {
                        '-'
                    }
                })
                .collect();
            let svg = plot.to_svg(zmeld_report::plot::Frame::Wide);
            file::replace(&dir.join(format!("{name}.svg")), svg.as_bytes())?;
        }
    }
    if output.json {
        Envelope::new(SCHEMA, SCHEMA_VERSION, env!("CARGO_PKG_VERSION"), body).write(out)?;
    } else {
        out.write_all(page.document.to_text(style).as_bytes())?;
    }
    Ok(())
}

/// Progress with the time left, on standard error, once something takes longer than two seconds.
struct Progress {
    what: &'static str,
    started: Instant,
    /// What is simulated runs on several threads; none where nothing is to be shown.
    line: Option<Mutex<progress::Message>>,
}

impl Progress {
    fn new(what: &'static str, quiet: bool) -> Self {
        Self {
            what,
            started: Instant::now(),
            line: (!quiet).then(|| Mutex::new(progress::Message::of_long_work())),
        }
    }

    fn at(&self, done: usize, all: usize) {
        let Some(line) = self.line() else { return };
        if !line.is_due() {
            return;
        }
        let left = match done {
            0 => String::new(),
            done => {
                let each_s = self.started.elapsed().as_secs_f64() / done as f64;
                let left_s = each_s * all.saturating_sub(done) as f64;
                format!(", about {} left", zmeld_report::units::seconds(left_s))
            }
        };
        line.set(&format!("{done} of {all} {}{left}", self.what));
    }

    fn done(&self) {
        if let Some(line) = self.line() {
            line.clear();
        }
    }

    fn line(&self) -> Option<MutexGuard<'_, progress::Message>> {
        let line = self.line.as_ref()?;
        Some(line.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
