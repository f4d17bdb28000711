//! Sweeps over any parameter: every combination of the axes' values, under every policy.
//!
//! A sweep writes one file of JSON lines. Its first line says which sweep it is (a fingerprint of the scenario, its
//! size); each further line is one point with all its results. A run that was interrupted goes on where the file ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use zmeld_linux::FileError;

use crate::error::Error;
use crate::policy::PolicyName;
use crate::replicate::{Replications, METRICS};
use crate::scenario::{Axes, Scenario, ScenarioText, Values};
use zmeld_statistics::mean::Interval;

/// The most points a sweep may have: beyond that an axis was mistyped.
const POINTS_MAX: usize = 1_000_000;

/// The axes of a sweep and what it runs.
#[derive(Debug, Clone)]
pub struct Sweep {
    source: ScenarioText,
    scenario: Scenario,
    axes: Axes,
    points: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SweepHeader {
    sweep: String,
    points: usize,
    axes: Vec<String>,
    policies: Vec<PolicyName>,
}

/// The results of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PointResult {
    /// Its number, from 0; the last axis varies fastest.
    pub point: usize,
    /// The value on each axis.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub values: Vec<toml::Value>,
    /// For each policy: the metrics in the order of [`METRICS`].
    pub results: Vec<Vec<Interval>>,
    /// For each policy: total time saved over the first policy, as a share.
    pub gains: Vec<Interval>,
}

/// All results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SweepResults {
    /// The swept parameters.
    pub axes: Vec<String>,
    /// The policies, the base first.
    pub policies: Vec<PolicyName>,
    /// The points, ascending.
    pub points: Vec<PointResult>,
}

impl Sweep {
    /// A sweep of a scenario over its own axes and further ones; an axis given twice counts as given last.
    ///
    /// # Errors
    /// No axis; too many points; what is wrong with the scenario.
    pub fn new(source: ScenarioText, scenario: Scenario, more_axes: Axes) -> Result<Self, Error> {
        let mut axes = scenario.sweep.clone();
        for (path, values) in more_axes {
            axes.retain(|(known, _)| *known != path);
            axes.push((path, values));
        }
        if axes.is_empty() {
            let why = "nothing to sweep: give [sweep] in the scenario, or --over PATH=VALUE,VALUE";
            return Err(Error::Wrong(why.into()));
        }
        for (path, _) in &axes {
            has_effect(path, &scenario)?;
        }
        let sizes = axes.iter().map(|(_, values)| values.len());
        let points = sizes.fold(1usize, usize::saturating_mul);
        if points > POINTS_MAX {
            return Err(Error::Wrong(format!("more than {POINTS_MAX} points")));
        }
        Ok(Self {
            source,
            scenario,
            axes,
            points,
        })
    }

    fn values(&self, point: usize) -> Vec<toml::Value> {
        let mut rest = point;
        let mut values: Vec<toml::Value> = Vec::with_capacity(self.axes.len());
        for (_, choices) in self.axes.iter().rev() {
            values.push(choices[rest % choices.len()].clone());
            rest /= choices.len();
        }
        values.reverse();
        values
    }

    fn header(&self) -> SweepHeader {
        let axes: Vec<String> = self
            .axes
            .iter()
            .map(|(path, values)| format!("{path}={values:?}"))
            .collect();
        let identity = format!(
            "{}\n{axes:?}\n{}\n{}\n{:?}\n{}",
            self.source.text,
            self.scenario.seed,
            self.scenario.replications,
            self.scenario.policies,
            env!("CARGO_PKG_VERSION"),
        );
        SweepHeader {
            sweep: format!("{:016x}", fnv1a(identity.as_bytes())),
            points: self.points,
            axes: self.axes.iter().map(|(path, _)| path.clone()).collect(),
            policies: self.scenario.policies.clone(),
        }
    }

    /// Runs all points, adding each point to `file` as it is done; points that the file holds already are not run again.
    ///
    /// # Errors
    /// A file of another sweep, a file that cannot be written, a combination of values that cannot be simulated.
    pub fn run(&self, file: &Path, progress: &dyn Fn(usize, usize)) -> Result<SweepResults, Error> {
        let failed = |cause| FileError::new("write", file, cause);
        let header = self.header();
        let mut known: BTreeMap<usize, PointResult> = BTreeMap::new();
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let mut out = options.open(file).map_err(failed)?;
        let text = fs::read_to_string(file).map_err(|cause| FileError::new("read", file, cause))?;
        if text.is_empty() {
            write_line(&mut out, &header).map_err(failed)?;
        } else {
            // A line without its end was being written when the run was interrupted.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            out.set_len(whole as u64).map_err(failed)?;
            let (found, points) = parse(&text[..whole], file)?;
            if found != header {
                return Err(Error::Wrong(format!(
                    "{}: results of another sweep ({}, not {}): another scenario, seed or number of replications; \
                     keep this one in a file of its own with --results FILE",
                    file.display(),
                    found.sweep,
                    header.sweep
                )));
            }
            known.extend(points.into_iter().map(|point| (point.point, point)));
        }
        progress(known.len(), self.points);
        for point in 0..self.points {
            if known.contains_key(&point) {
                continue;
            }
            let result = self.point(point)?;
            write_line(&mut out, &result).map_err(failed)?;
            known.insert(point, result);
            progress(known.len(), self.points);
        }
        Ok(SweepResults {
            axes: header.axes,
            policies: header.policies,
            points: known.into_values().collect(),
        })
    }

    fn point(&self, point: usize) -> Result<PointResult, Error> {
        let values = self.values(point);
        let paths = self.axes.iter().map(|(path, _)| path.clone());
        let mut settings: Values = paths.zip(values.iter().cloned()).collect();
        // What the caller changed for all points stands, unless it is swept.
        for (path, value) in [
            ("seed", self.scenario.seed),
            ("replications", self.scenario.replications),
        ] {
            if !settings.iter().any(|(swept, _)| swept == path) {
                settings.push((path.into(), toml::Value::Integer(value as i64)));
            }
        }
        let scenario = self.source.with(&settings)?;
        let policies = &self.scenario.policies;
        let runs = Replications::run(
            &scenario.case,
            policies,
            scenario.seed,
            scenario.replications,
        );
        let metrics = |policy| {
            let means = METRICS.iter().map(|(name, _)| runs.mean(policy, name));
            means.flatten().collect()
        };
        let gains = policies
            .iter()
            .filter_map(|&policy| runs.gain(policy, policies[0]));
        Ok(PointResult {
            point,
            values,
            results: policies.iter().map(|&policy| metrics(policy)).collect(),
            gains: gains.collect(),
        })
    }
}

/// Whether a swept parameter changes anything that is simulated.
fn has_effect(path: &str, scenario: &Scenario) -> Result<(), Error> {
    let mut keys = path.split('.');
    match (keys.next(), keys.next()) {
        (Some("policy"), Some(name)) => {
            let Ok(policy) = name.parse::<PolicyName>() else {
                // What is wrong with it is said where it is set.
                return Ok(());
            };
            let mut names: Vec<&str> = scenario.policies.iter().map(|it| it.as_str()).collect();
            if names.contains(&policy.as_str()) {
                return Ok(());
            }
            let run = names.join(", ");
            names.push(policy.as_str());
            Err(Error::Wrong(format!(
                "{path}: the policy {policy} is not among those that are run ({run}), so nothing would change: \
                 add --set 'policies={names:?}'"
            )))
        }
        (Some(key @ ("policies" | "name" | "about" | "sweep" | "free")), _) => {
            Err(Error::Wrong(format!(
                "{path}: sweeping {key} changes nothing that is simulated; every point is run under all policies"
            )))
        }
        _ => Ok(()),
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn write_line(out: &mut File, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)
}

fn parse(text: &str, file: &Path) -> Result<(SweepHeader, Vec<PointResult>), Error> {
    fn line<T: serde::de::DeserializeOwned>(
        file: &Path,
        (index, line): (usize, &str),
    ) -> Result<T, Error> {
        serde_json::from_str(line).map_err(|why| {
            let (file, line) = (file.display(), index + 1);
            Error::Damaged(format!("{file}: line {line}: {why}"))
        })
    }
    let mut lines = text.lines().enumerate();
    let header: SweepHeader = line(file, lines.next().unwrap_or_default())?;
    let points: Vec<PointResult> = lines.map(|it| line(file, it)).collect::<Result<_, _>>()?;
    match points.iter().find(|point| point.point >= header.points) {
        None => Ok((header, points)),
        Some(point) => Err(Error::Damaged(format!(
            "{}: point {} of {}",
            file.display(),
            point.point,
            header.points
        ))),
    }
}

/// An axis value as text.
pub fn shown(value: &toml::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

impl SweepResults {
    /// The points as CSV, one row for each point and policy: the axes, the policy, each metric with its interval's
    /// half width, and the gain with its.
    pub fn to_csv(&self) -> String {
        let quoted = |text: &str| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut cells: Vec<String> = self.axes.iter().map(|axis| quoted(axis)).collect();
        cells.push("policy".into());
        let names = METRICS.iter().map(|(name, _)| *name).chain(["gain"]);
        cells.extend(names.flat_map(|name| [name.into(), format!("{name}_half_width")]));
        let mut text = cells.join(",") + "\n";
        for point in &self.points {
            for (index, policy) in self.policies.iter().enumerate() {
                let mut cells: Vec<String> =
                    point.values.iter().map(|it| quoted(&shown(it))).collect();
                cells.push(policy.to_string());
                let intervals = point.results[index].iter().chain([&point.gains[index]]);
                let numbers = intervals.flat_map(|it| [it.value, it.half_width]);
                cells.extend(numbers.map(|number| number.to_string()));
                text += &(cells.join(",") + "\n");
            }
        }
        text
    }
}
