//! `zmeld numa reproduce`: the published study, and the search for its free parameters.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use zmeld_numa::pages;
use zmeld_numa::scenario::ScenarioText;
use zmeld_numa::study::{self, CalibrationStep, Reproduction};

use super::{Context, Error, ReproduceArgs};
use crate::exit::Outcome;
use crate::progress::Steps;

/// Replications of each point while parameters are searched.
const CALIBRATION_REPLICATIONS: u64 = 60;

/// The published study beside ours.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ReproduceBody<'a> {
    /// `reproduce`.
    command: &'static str,
    #[serde(flatten)]
    study: &'a Reproduction,
}

/// The search for free parameters.
#[derive(Serialize, schemars::JsonSchema)]
pub struct CalibrateBody {
    /// `calibrate`.
    command: &'static str,
    /// Each step, in order.
    steps: Vec<CalibrationStep>,
}

pub(super) fn reproduce(args: &ReproduceArgs, context: &mut Context<'_>) -> Result<Outcome, Error> {
    if args.print_scenario {
        context.out.write_all(study::SCENARIO.as_bytes())?;
        return Ok(Outcome::Done);
    }
    let source = match &args.scenario {
        Some(file) => ScenarioText::read(file)?,
        None => study::source()?,
    };
    match args.calibrate {
        Some(steps) => {
            let replications = args.replications.unwrap_or(CALIBRATION_REPLICATIONS);
            calibrate(&source, steps, replications, context)
        }
        None => run_study(&source, args, context),
    }
}

fn run_study(
    source: &ScenarioText,
    args: &ReproduceArgs,
    context: &mut Context<'_>,
) -> Result<Outcome, Error> {
    let steps = Steps::new("points", context.output.quiet);
    let started = Instant::now();
    let step = |done, all| steps.at(done, all);
    let result = context
        .threads
        .install(|| study::reproduce(source, args.replications, args.sensitivity, &step))?;
    steps.clear();
    let mut scenario = source.scenario()?;
    scenario.replications = result.replications;
    let mut page = pages::study::reproduction(&result, &scenario);
    page.document = page
        .document
        .provenance("took", zmeld_report::units::duration(started.elapsed()));
    let body = ReproduceBody {
        command: "reproduce",
        study: &result,
    };
    context.show(&page, &body)?;
    let agree = result.claims.iter().filter(|claim| claim.agrees).count();
    Ok(match args.min_agree.is_some_and(|least| agree < least) {
        true => Outcome::Missed,
        false => Outcome::Done,
    })
}

fn calibrate(
    source: &ScenarioText,
    steps: usize,
    replications: u64,
    context: &mut Context<'_>,
) -> Result<Outcome, Error> {
    let bar = Steps::new("steps", context.output.quiet);
    let log = Mutex::new(Vec::new());
    let seed = source.scenario()?.seed;
    let best = context.threads.install(|| {
        let mut report = |step: &CalibrationStep| {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.push(step.clone());
            bar.at(log.len(), steps);
        };
        study::calibrate(source, steps, seed, replications, &mut report)
    })?;
    bar.clear();
    let log = log.into_inner().unwrap_or_else(PoisonError::into_inner);
    if context.output.json {
        context.show_json(&CalibrateBody {
            command: "calibrate",
            steps: log,
        })?;
        return Ok(Outcome::Done);
    }
    for step in &log {
        let settings = step.settings.iter();
        let settings: Vec<String> = settings
            .map(|(path, value)| format!("{path}={value}"))
            .collect();
        let mark = if step.best { "best so far" } else { "" };
        writeln!(
            context.out,
            "{:8.2} {:3} agree  {mark:11}  {}",
            step.misfit,
            step.agree,
            settings.join(" ")
        )?;
    }
    let but = if best.is_empty() { "" } else { ", but" };
    writeln!(context.out, "best: the scenario's own values{but}")?;
    for (path, value) in best {
        writeln!(context.out, "  {path} = {value}")?;
    }
    Ok(Outcome::Done)
}
