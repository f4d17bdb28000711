//! `zmeld numa sweep`: every combination of some parameters' values.

use serde::Serialize;
use zmeld_linux::file;
use zmeld_numa::pages;
use zmeld_numa::replicate::METRICS;
use zmeld_numa::sweep::{Sweep, SweepResults};

use super::{settings, Context, Error, SweepArgs};
use crate::exit::Outcome;
use crate::progress::Steps;

/// Every combination of some parameters.
#[derive(Serialize, schemars::JsonSchema)]
pub struct SweepBody<'a> {
    /// `sweep`.
    command: &'static str,
    /// The metrics, in the order of `results`.
    metrics: Vec<&'static str>,
    #[serde(flatten)]
    results: &'a SweepResults,
}

pub(super) fn sweep(args: &SweepArgs, context: &mut Context<'_>) -> Result<Outcome, Error> {
    let (source, scenario) = settings::read(&args.scenario)?;
    let axes = args.over.iter().map(|axis| settings::parse_axis(axis));
    let axes = axes.collect::<Result<Vec<_>, _>>()?;
    let of_machine = |path: &str| path.split('.').next() == Some("machine");
    // Where the machine is swept, each point says how many nodes it has.
    if !axes
        .iter()
        .chain(&scenario.sweep)
        .any(|(path, _)| of_machine(path))
    {
        settings::several_nodes(&scenario)?;
    }
    let sweep = Sweep::new(source, scenario, axes)?;
    let steps = Steps::new("points", context.output.quiet);
    let found = sweep.run(&args.results, &|done, all| steps.at(done, all))?;
    steps.clear();
    if let Some(file) = &args.csv {
        file::replace(file, found.to_csv().as_bytes())?;
    }
    let body = SweepBody {
        command: "sweep",
        metrics: METRICS.iter().map(|(name, _)| *name).collect(),
        results: &found,
    };
    context.show(&pages::sweep::sweep(&found), &body)?;
    Ok(Outcome::Done)
}
