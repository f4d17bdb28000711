//! The published study of page migration (linux, full, on-demand on four nodes), reproduced: its figures and tables
//! as claims that are computed, compared and judged.
//!
//! Published values are quoted as they stand in [`CLAIMS`]. The scenario with its free parameters is
//! `scenarios/study.toml`. The study knows the engine by
//! [`Replications`](crate::replicate::Replications) alone, and the engine does not know the study.

mod claims;
mod measure;
mod points;
mod sensitivity;
mod shapes;

use serde::Serialize;

use crate::scenario::ScenarioText;
use crate::Error;

pub use claims::{Claim, JudgedClaim, Measure, Tolerance, CLAIMS};
pub use measure::MeasuredPoint;
pub use points::{
    points, StudyPoint, ACCESS_PERCENT, LOADS, REUSE_PERCENT, RUN_TIMES_MS, SIZES_KB,
};
pub use sensitivity::{Sensitivity, SensitivityProbe, PROBES};
pub use shapes::ShapeFinding;

/// The study's scenario.
pub const SCENARIO: &str = include_str!("../../scenarios/study.toml");

/// The study's scenario as a source of variants.
///
/// # Errors
/// None that a test would not have found: the file is part of the program.
pub fn source() -> Result<ScenarioText, Error> {
    ScenarioText::new(SCENARIO.to_owned(), "study.toml".to_owned())
}

/// The study, reproduced.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Reproduction {
    /// Replications of each point.
    pub replications: u64,
    /// The seed.
    pub seed: u64,
    /// Every point.
    pub points: Vec<MeasuredPoint>,
    /// Every published number beside ours.
    pub claims: Vec<JudgedClaim>,
    /// Every shape.
    pub shapes: Vec<ShapeFinding>,
    /// How far figures move with the free parameters; empty if not asked for.
    pub sensitivity: Vec<Sensitivity>,
    /// Replications of each of those points.
    pub sensitivity_replications: u64,
}

impl Reproduction {
    /// A point's results.
    pub fn at(&self, point: StudyPoint) -> Option<&MeasuredPoint> {
        self.points.iter().find(|measured| measured.point == point)
    }
}

/// What is being done, for a progress display: steps done and steps in all, in units of one simulated point.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Runs the whole study.
///
/// # Errors
/// A scenario that cannot be used; with the built-in one, only changes made by the caller can cause that.
pub fn reproduce(
    source: &ScenarioText,
    replications: Option<u64>,
    sensitivity_replications: u64,
    progress: Progress<'_>,
) -> Result<Reproduction, Error> {
    let scenario = source.scenario()?;
    let (seed, replications) = (scenario.seed, replications.unwrap_or(scenario.replications));
    let all = points();
    let trials = sensitivity::Trials::new(source, &scenario, sensitivity_replications);
    let steps = all.len() + trials.steps();
    let mut done = 0;
    let mut step = || {
        done += 1;
        progress(done, steps);
    };
    let mut measured = Vec::with_capacity(all.len());
    for point in all {
        measured.push(measure::measure(source, &[], point, seed, replications)?);
        step();
    }
    let sensitivity = trials.run(source, seed, &mut step)?;
    let find = |point: StudyPoint| {
        let mut measured = measured.iter();
        measured
            .find(|m| m.point == point)
            .expect("every claim's point is run")
    };
    Ok(Reproduction {
        replications,
        seed,
        claims: judge(&find),
        shapes: shapes::shapes(&find),
        points: measured,
        sensitivity,
        sensitivity_replications,
    })
}

/// Every published number beside what was measured at its point.
fn judge<'m>(find: &dyn Fn(StudyPoint) -> &'m MeasuredPoint) -> Vec<JudgedClaim> {
    let judged = |&claim: &Claim| {
        let ours = find(claim.point).get_measure(claim.measure);
        let agrees = (ours.value - claim.published).abs() <= claim.tolerance.of(claim.published);
        JudgedClaim {
            claim,
            ours,
            agrees,
        }
    };
    CLAIMS.iter().map(judged).collect()
}

fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::Float(value) => format!("{value}"),
        toml::Value::Array(rows) => match rows.first() {
            Some(toml::Value::Array(first)) => {
                first
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
                    + " ..."
            }
            _ => value.to_string(),
        },
        toml::Value::Table(table) => table
            .values()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" "),
        _ => value.to_string().trim_matches('"').to_owned(),
    }
}
