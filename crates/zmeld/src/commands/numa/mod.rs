//! The command `zmeld numa`: its arguments, and where its results go. What each of its commands does has a file of its
//! own; `settings` makes a scenario of arguments.
//!
//! Results go to the writer that the caller gives, progress to the standard error output. Nothing else is printed.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use thiserror::Error;
use zmeld_linux::file;
use zmeld_report::schema::Envelope;
use zmeld_report::{Document, Style};

use zmeld_numa::scenario::REPLICATIONS_MAX;

pub use self::compare::CompareBody;
pub use self::lists::{MachinesBody, PoliciesBody};
pub use self::reproduce::ReproduceBody;
pub use self::run::RunBody;
use crate::exit::Outcome;
use crate::{output, progress};

mod compare;
mod lists;
mod reproduce;
mod run;
mod settings;
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
    /// Show no progress
    #[arg(long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate one run under one policy, in detail
    Run(RunArgs),
    /// Run several policies on the same processes and say which suits best
    Compare(CompareArgs),
    /// Run the published study and set its figures beside the published ones
    Reproduce(ReproduceArgs),
    /// List the machine presets, or show one machine
    Machines {
        /// A preset, `host`, or a file with the output of `numactl -H`
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
    /// Which replication
    #[arg(long, default_value_t = 0, value_name = "N")]
    replication: u64,
}

#[derive(Debug, Args)]
struct CompareArgs {
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// Policies, the base first [default: the scenario's]
    #[arg(long, value_delimiter = ',', value_name = "POLICY,...")]
    policies: Vec<String>,
    /// Fail with exit code 1 unless the last policy saves at least this many percent over the first
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true)]
    min_gain: Option<f64>,
}

#[derive(Debug, Args)]
struct ReproduceArgs {
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
    /// Print the built-in scenario file and stop
    #[arg(long)]
    print_scenario: bool,
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

/// Why a command could not be carried out.
#[derive(Debug, Error)]
pub enum Error {
    /// What cannot be simulated or read.
    #[error(transparent)]
    Simulation(#[from] zmeld_numa::Error),
    /// An argument that is not what it should be.
    #[error("{0}")]
    Argument(String),
    /// A file that cannot be written.
    #[error(transparent)]
    Write(#[from] file::Error),
    /// The results could not be written.
    #[error("cannot write the results: {0}")]
    Output(#[from] io::Error),
}

/// Carries out a command on standard output.
///
/// # Errors
/// As [`carry_out_on`].
pub fn run(args: NumaArgs) -> anyhow::Result<Outcome> {
    progress::end_on_interrupt("stopped before there was a result");
    let mut out = Vec::new();
    let outcome = carry_out_on(args, &mut out, &output::style())?;
    output::print_as_it_is(&String::from_utf8_lossy(&out))?;
    Ok(outcome)
}

/// Carries out a command. Results go to `out`, which is a terminal of this style or a file.
///
/// # Errors
/// What the user asked for that cannot be done.
pub fn carry_out_on(args: NumaArgs, out: &mut dyn Write, style: &Style) -> Result<Outcome, Error> {
    let mut context = Context {
        output: args.output,
        out,
        style,
    };
    match args.command {
        Command::Run(args) => run::run(&args, &mut context),
        Command::Compare(args) => compare::compare(&args, &mut context),
        Command::Reproduce(args) => reproduce::reproduce(&args, &mut context),
        Command::Machines { machine } => lists::machines(machine.as_deref(), &mut context),
        Command::Policies => lists::policies(&mut context),
    }
}

/// What each command is given besides its own arguments.
struct Context<'a> {
    output: Output,
    /// Stays on the thread of the command.
    out: &'a mut dyn Write,
    style: &'a Style,
}

impl Context<'_> {
    /// Prints a result, and writes it to the files that were asked for.
    fn show(&mut self, page: &Document, body: &impl Serialize) -> Result<(), Error> {
        if let Some(file) = &self.output.html {
            file::replace(file, page.to_html().as_bytes())?;
        }
        if self.output.json {
            let envelope = Envelope::new(SCHEMA, SCHEMA_VERSION, env!("CARGO_PKG_VERSION"), body);
            return Ok(envelope.write(&mut *self.out)?);
        }
        let text = page.to_text(self.style);
        Ok(self.out.write_all(text.as_bytes())?)
    }
}
