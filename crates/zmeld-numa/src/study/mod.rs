//! The published study of page migration (no-balancing, full, on-demand on four nodes), reproduced: its figures and tables
//! as claims that are computed, compared and judged.
//!
//! Published values are quoted as they stand in [`CLAIMS`]. The scenario with its free parameters is
//! `scenarios/study.toml`. The study knows the engine by
//! [`Replications`](crate::replicate::Replications) alone, and the engine does not know the study.

mod claims;
mod measure;
mod points;
mod shapes;

use serde::Serialize;

use crate::scenario::ScenarioText;
use crate::Error;

pub use claims::{Claim, JudgedClaim, Measure, Tolerance, CLAIMS};
pub use measure::MeasuredPoint;
pub use points::{points, StudyPoint};
pub use shapes::ShapeFinding;

pub const SCENARIO: &str = include_str!("../../scenarios/study.toml");

/// The study's scenario as a source of variants.
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
}

impl Reproduction {
    pub fn at(&self, point: StudyPoint) -> Option<&MeasuredPoint> {
        self.points.iter().find(|measured| measured.point == point)
    }
}

/// Receives the progress: steps done and steps in all, in units of one simulated point.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Runs the whole study.
///
/// # Errors
/// A scenario that cannot be used; with the built-in one, only changes made by the caller can cause that.
pub fn reproduce(
    source: &ScenarioText,
    replications: Option<u64>,
    progress: Progress<'_>,
) -> Result<Reproduction, Error> {
    let scenario = source.scenario()?;
    let (seed, replications) = (scenario.seed, replications.unwrap_or(scenario.replications));
    let all = points();
    let mut measured = Vec::with_capacity(all.len());
    for &point in &all {
        measured.push(MeasuredPoint::run(source, point, seed, replications)?);
        progress(measured.len(), all.len());
    }
    let find = |point: StudyPoint| {
        let mut measured = measured.iter();
        measured
            .find(|m| m.point == point)
            .expect("every claim's point is run")
    };
    Ok(Reproduction {
        replications,
        seed,
        claims: judge(&find, replications),
        shapes: shapes::shapes(&find),
        points: measured,
    })
}

/// Every published number beside what was measured at its point.
fn judge<'m>(
    find: &dyn Fn(StudyPoint) -> &'m MeasuredPoint,
    replications: u64,
) -> Vec<JudgedClaim> {
    let judged = |&claim: &Claim| {
        let ours = find(claim.point).get_measure(claim.measure);
        let agrees = (ours.value - claim.published).abs() <= claim.tolerance.of(claim.published);
        JudgedClaim {
            claim,
            ours,
            agrees,
            // One run has no interval.
            is_decided: replications > 1 && claims::is_decided(&claim, ours),
        }
    };
    CLAIMS.iter().map(judged).collect()
}
