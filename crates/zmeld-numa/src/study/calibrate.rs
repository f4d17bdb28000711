//! The search for the study's free parameters.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::claims::CLAIMS;
use super::measure::{measure, MeasuredPoint};
use super::points::StudyPoint;
use super::shown;
use crate::scenario::{FreeParameter, ScenarioError, ScenarioText};

/// One step of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CalibrationStep {
    /// The settings tried, beyond the scenario's own.
    pub settings: Vec<(String, String)>,
    /// Sum over the claims of the squared difference in units of the tolerance (each at most 25, so that a claim
    /// that cannot be met does not rule).
    pub misfit: f64,
    /// Claims within their tolerance.
    pub agree: usize,
    /// Whether it is the best so far.
    pub best: bool,
}

/// Searches the free parameters for the set that agrees with all published numbers best: from the scenario's own values,
/// one or two parameters at a time are set to another value of their grid, and what lowers the misfit is kept. Of the two
/// contradictory values for one point, both count.
///
/// # Errors
/// A scenario that cannot be used.
pub fn calibrate(
    source: &ScenarioText,
    steps: usize,
    seed: u64,
    replications: u64,
    report: &mut dyn FnMut(&CalibrationStep),
) -> Result<Vec<(String, toml::Value)>, ScenarioError> {
    let scenario = source.scenario()?;
    let free: Vec<_> = scenario
        .free
        .iter()
        .filter(|free| free.grid.len() > 1)
        .collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut best: Vec<(String, toml::Value)> = Vec::new();
    let mut least = f64::INFINITY;
    for step in 0..steps {
        let mut settings = best.clone();
        if step > 0 && !free.is_empty() {
            change(&mut settings, &free, &mut rng);
        }
        let (misfit, agree) = try_settings(source, &settings, scenario.seed, replications)?;
        let is_best = misfit < least;
        if is_best {
            least = misfit;
            best.clone_from(&settings);
        }
        let settings = settings
            .iter()
            .map(|(path, value)| (path.clone(), shown(value)))
            .collect();
        report(&CalibrationStep {
            settings,
            misfit,
            agree,
            best: is_best,
        });
    }
    Ok(best)
}

/// Sets one or two parameters to another value of their grid.
fn change(
    settings: &mut Vec<(String, toml::Value)>,
    free: &[&FreeParameter],
    rng: &mut ChaCha8Rng,
) {
    for _ in 0..rng.random_range(1..=2) {
        let free = free[rng.random_range(0..free.len())];
        let value = free.grid[rng.random_range(0..free.grid.len())].clone();
        settings.retain(|(path, _)| *path != free.path);
        settings.push((free.path.clone(), value));
    }
}

/// How far the claims are off with these settings, and how many agree.
fn try_settings(
    source: &ScenarioText,
    settings: &[(String, toml::Value)],
    seed: u64,
    replications: u64,
) -> Result<(f64, usize), ScenarioError> {
    let mut results: HashMap<StudyPoint, MeasuredPoint> = HashMap::new();
    let (mut misfit, mut agree) = (0.0, 0);
    for claim in CLAIMS {
        let measured = match results.get(&claim.point) {
            Some(measured) => *measured,
            None => {
                let measured = measure(source, settings, claim.point, seed, replications)?;
                results.insert(claim.point, measured);
                measured
            }
        };
        let off = measured.get_measure(claim.measure).value - claim.published;
        let units = off / claim.tolerance.of(claim.published);
        misfit += (units * units).min(25.0);
        agree += usize::from(units.abs() <= 1.0);
    }
    Ok((misfit, agree))
}
