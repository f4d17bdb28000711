//! `zmeld numa reproduce`: the published study.

use std::time::Instant;

use serde::Serialize;
use zmeld_numa::pages;
use zmeld_numa::scenario::ScenarioText;
use zmeld_numa::study::{self, Reproduction};

use super::{Context, Error, ReproduceArgs};
use crate::exit::Outcome;
use crate::progress::Steps;

/// The published study beside ours.
#[derive(Serialize, schemars::JsonSchema)]
pub struct ReproduceBody<'a> {
    /// `reproduce`.
    command: &'static str,
    #[serde(flatten)]
    study: &'a Reproduction,
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
    let steps = Steps::new("points", context.output.quiet);
    let started = Instant::now();
    let step = |done, all| steps.at(done, all);
    let result = study::reproduce(&source, args.replications, args.sensitivity, &step)?;
    steps.clear();
    let mut scenario = source.scenario()?;
    scenario.replications = result.replications;
    let page = pages::study::reproduction(&result, &scenario)
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
