//! How far the figures move when one free parameter moves.

use std::collections::HashMap;

use serde::Serialize;

use super::claims::Measure;
use super::measure::measure;
use super::points::{at_load, at_run_time, at_shares, at_size, StudyPoint};
use super::shown;
use crate::scenario::{Scenario, ScenarioText};
use crate::Error;

/// How far the figures move when one free parameter moves.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Sensitivity {
    /// The parameter's dotted path.
    pub path: String,
    /// Its value in the study's scenario.
    pub value: String,
    /// The value tried instead.
    pub tried: String,
    /// For each of [`PROBES`]: by how many percentage points it moved.
    pub moved: Vec<f64>,
}

/// A point at which sensitivity is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SensitivityProbe {
    /// A short name for a table's heading.
    pub name: &'static str,
    /// The load.
    pub point: StudyPoint,
    /// What is looked at.
    pub measure: Measure,
}

const fn probe(name: &'static str, point: StudyPoint, measure: Measure) -> SensitivityProbe {
    SensitivityProbe {
        name,
        point,
        measure,
    }
}

/// Where sensitivity is measured: points of each figure.
pub const PROBES: &[SensitivityProbe] = &[
    probe("gain 500 ms", at_run_time(500), Measure::OnDemandGain),
    probe("gain 3 s", at_run_time(3000), Measure::OnDemandGain),
    probe("gain 10 s", at_run_time(10_000), Measure::OnDemandGain),
    probe("gain 300 KB", at_size(300), Measure::OnDemandGain),
    probe("table 80/60", at_shares(200, 80, 60), Measure::OnDemandGain),
    probe("gain 10 proc.", at_load(10), Measure::OnDemandGain),
    probe("full 500 ms", at_run_time(500), Measure::FullLoss),
    probe("full 3 s", at_run_time(3000), Measure::FullLoss),
    probe("full 10 proc.", at_load(10), Measure::FullLoss),
];

/// A free parameter, its value, and the value tried instead.
type Variant = (String, toml::Value, toml::Value);

/// What is simulated for the sensitivity table.
pub(super) struct Trials {
    variants: Vec<Variant>,
    /// The points of [`PROBES`], each once.
    points: Vec<StudyPoint>,
    replications: u64,
}

impl Trials {
    /// With 0 replications: none.
    pub(super) fn new(source: &ScenarioText, scenario: &Scenario, replications: u64) -> Trials {
        let mut points: Vec<StudyPoint> = Vec::new();
        for probe in PROBES {
            if !points.contains(&probe.point) {
                points.push(probe.point);
            }
        }
        Trials {
            variants: match replications {
                0 => Vec::new(),
                _ => variants(source, scenario),
            },
            points,
            replications,
        }
    }

    /// How many points are simulated.
    pub(super) fn steps(&self) -> usize {
        match self.variants.len() {
            0 => 0,
            variants => (variants + 1) * self.points.len(),
        }
    }

    /// Runs them; `step` is called after each point.
    pub(super) fn run(
        &self,
        source: &ScenarioText,
        seed: u64,
        step: &mut dyn FnMut(),
    ) -> Result<Vec<Sensitivity>, Error> {
        let mut found = Vec::new();
        if self.variants.is_empty() {
            return Ok(found);
        }
        let base = self.probe(source, &[], seed, step)?;
        for (path, value, tried) in &self.variants {
            let change = (path.clone(), tried.clone());
            let results = self.probe(source, &[change], seed, step)?;
            let moved = results.iter().zip(&base).map(|(new, old)| new - old);
            found.push(Sensitivity {
                path: path.clone(),
                value: shown(value),
                tried: shown(tried),
                moved: moved.collect(),
            });
        }
        Ok(found)
    }

    /// What [`PROBES`] ask for, with these changes.
    fn probe(
        &self,
        source: &ScenarioText,
        changes: &[(String, toml::Value)],
        seed: u64,
        step: &mut dyn FnMut(),
    ) -> Result<Vec<f64>, Error> {
        let mut results = HashMap::new();
        for &point in &self.points {
            let measured = measure(source, changes, point, seed, self.replications)?;
            results.insert(point, measured);
            step();
        }
        let value =
            |probe: &SensitivityProbe| results[&probe.point].get_measure(probe.measure).value;
        Ok(PROBES.iter().map(value).collect())
    }
}

/// The variants of each free parameter: half and one and a half times a number (or, where that is out of its range,
/// the value next to it in its grid), and every other choice of what is no number.
fn variants(source: &ScenarioText, scenario: &Scenario) -> Vec<Variant> {
    let mut all = Vec::new();
    for free in &scenario.free {
        let Some(value) = source.value(&free.path) else {
            continue;
        };
        let number =
            |value: &toml::Value| value.as_float().or(value.as_integer().map(|i| i as f64));
        let tried: Vec<toml::Value> = match number(value) {
            Some(now) => {
                let possible = |value: &toml::Value| {
                    source.with(&[(free.path.clone(), value.clone())]).is_ok()
                };
                let side = |factor: f64| {
                    let moved = Some(toml::Value::Float(now * factor)).filter(&possible);
                    let further = |v: &&toml::Value| {
                        number(v).is_some_and(|v| (v - now) * (factor - 1.0) > 0.0)
                    };
                    let distance =
                        |v: &toml::Value| number(v).map_or(f64::INFINITY, |v| (v - now).abs());
                    let nearest = || {
                        let others = free.grid.iter().filter(further);
                        others
                            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
                            .cloned()
                    };
                    moved.or_else(nearest)
                };
                [side(0.5), side(1.5)].into_iter().flatten().collect()
            }
            None => free
                .grid
                .iter()
                .filter(|other| *other != value)
                .cloned()
                .collect(),
        };
        all.extend(
            tried
                .into_iter()
                .map(|tried| (free.path.clone(), value.clone(), tried)),
        );
    }
    all
}
