//! Sweeps over any parameter: every combination of the axes' values, under every policy.
//!
//! A sweep writes one file of JSON lines. Its first line says which sweep it is (a fingerprint of the scenario, its
//! size); each further line is one point with all its results. A run that was interrupted goes on where the file ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::policy::PolicyName;
use crate::replicate::{Replications, METRICS};
use crate::scenario::{Scenario, ScenarioError, ScenarioText};
use zmeld_statistics::mean::Interval;

/// The most points a sweep may have: beyond that an axis was mistyped.
pub const POINTS_MAX: usize = 1_000_000;

/// What can go wrong with a sweep.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The scenario, or a combination of values, is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A file that cannot be read or written.
    #[error("{file}: {source}")]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of results that is not what it should be.
    #[error("{file}: line {line}: {why}")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Results of another sweep.
    #[error("{file}: results of another sweep ({found}, not {expected}): another scenario, seed or number of \
             replications; keep this one in a file of its own with --results FILE")]
    OtherSweep {
        /// The file.
        file: PathBuf,
        /// Its fingerprint.
        found: String,
        /// The one needed.
        expected: String,
    },
    /// No axis, or too many points.
    #[error("{0}")]
    Axes(String),
    /// A result could not be written.
    #[error(transparent)]
    Write(zmeld_linux::file::Error),
    /// Parquet could not be written.
    #[error("{file}: {source}")]
    Parquet {
        /// The file.
        file: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
}

/// The axes of a sweep and what it runs.
#[derive(Debug, Clone)]
pub struct Sweep {
    source: ScenarioText,
    scenario: Scenario,
    axes: Vec<(String, Vec<toml::Value>)>,
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
    /// No axis; more than [`POINTS_MAX`] points; what is wrong with the scenario.
    pub fn new(
        source: ScenarioText,
        scenario: Scenario,
        more_axes: Vec<(String, Vec<toml::Value>)>,
    ) -> Result<Self, SweepError> {
        let mut axes = scenario.sweep.clone();
        for (path, values) in more_axes {
            axes.retain(|(known, _)| *known != path);
            axes.push((path, values));
        }
        if axes.is_empty() {
            let why = "nothing to sweep: give [sweep] in the scenario, or --over PATH=VALUE,VALUE";
            return Err(SweepError::Axes(why.into()));
        }
        for (path, _) in &axes {
            has_effect(path, &scenario)?;
        }
        let points = axes.iter().try_fold(1usize, |product, (_, values)| {
            product.checked_mul(values.len())
        });
        match points {
            Some(points) if points <= POINTS_MAX => Ok(Self {
                source,
                scenario,
                axes,
                points,
            }),
            _ => Err(SweepError::Axes(format!("more than {POINTS_MAX} points"))),
        }
    }

    /// Points in all.
    pub fn points(&self) -> usize {
        self.points
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
    pub fn run(
        &self,
        file: &Path,
        progress: &dyn Fn(usize, usize),
    ) -> Result<SweepResults, SweepError> {
        let failed = |source| SweepError::File {
            file: file.to_owned(),
            source,
        };
        let header = self.header();
        let mut known: BTreeMap<usize, PointResult> = BTreeMap::new();
        let mut out = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(file)
            .map_err(failed)?;
        let text = fs::read_to_string(file).map_err(failed)?;
        if text.is_empty() {
            write_line(&mut out, &header).map_err(failed)?;
        } else {
            // A line without its end was being written when the run was interrupted.
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            out.set_len(whole as u64).map_err(failed)?;
            let (found, points) = parse(&text[..whole], file)?;
            if found != header {
                return Err(SweepError::OtherSweep {
                    file: file.to_owned(),
                    found: found.sweep,
                    expected: header.sweep,
                });
            }
            known.extend(points.into_iter().map(|point| (point.point, point)));
        }
        let mut done = known.len();
        progress(done, self.points);
        for point in 0..self.points {
            if known.contains_key(&point) {
                continue;
            }
            let result = self.point(point)?;
            write_line(&mut out, &result).map_err(failed)?;
            known.insert(point, result);
            done += 1;
            progress(done, self.points);
        }
        Ok(SweepResults {
            axes: header.axes,
            policies: header.policies,
            points: known.into_values().collect(),
        })
    }

    fn point(&self, point: usize) -> Result<PointResult, SweepError> {
        let values = self.values(point);
        let mut settings: Vec<(String, toml::Value)> = self
            .axes
            .iter()
            .map(|(path, _)| path.clone())
            .zip(values.iter().cloned())
            .collect();
        // What the caller changed for all points stands, unless it is swept.
        for (path, value) in [
            ("seed", toml::Value::Integer(self.scenario.seed as i64)),
            (
                "replications",
                toml::Value::Integer(self.scenario.replications as i64),
            ),
        ] {
            if !settings.iter().any(|(swept, _)| swept == path) {
                settings.push((path.into(), value));
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
            (0..METRICS.len())
                .filter_map(|metric| runs.mean(policy, metric))
                .collect()
        };
        let gains = policies
            .iter()
            .filter_map(|&policy| runs.gain(policy, policies[0]))
            .collect();
        Ok(PointResult {
            point,
            values,
            results: policies.iter().map(|&policy| metrics(policy)).collect(),
            gains,
        })
    }
}

/// Whether a swept parameter changes anything that is simulated.
fn has_effect(path: &str, scenario: &Scenario) -> Result<(), SweepError> {
    let mut keys = path.split('.');
    let names = |policies: &[PolicyName]| {
        let names: Vec<&str> = policies.iter().map(|policy| policy.as_str()).collect();
        names
    };
    match (keys.next(), keys.next()) {
        (Some("policy"), Some(name)) => {
            let Ok(policy) = name.parse::<PolicyName>() else {
                // What is wrong with it is said where it is set.
                return Ok(());
            };
            if scenario.policies.contains(&policy) {
                return Ok(());
            }
            let mut wanted = scenario.policies.clone();
            wanted.push(policy);
            Err(SweepError::Axes(format!(
                "{path}: the policy {policy} is not among those that are run ({}), so nothing would change: \
                 add --set 'policies={:?}'",
                names(&scenario.policies).join(", "),
                names(&wanted)
            )))
        }
        (Some(key @ ("policies" | "name" | "about" | "sweep" | "free")), _) => {
            Err(SweepError::Axes(format!(
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

fn parse(text: &str, file: &Path) -> Result<(SweepHeader, Vec<PointResult>), SweepError> {
    let damaged = |line: usize, why: String| SweepError::Damaged {
        file: file.to_owned(),
        line,
        why,
    };
    let mut lines = text.lines().enumerate();
    let (_, first) = lines.next().ok_or_else(|| damaged(1, "empty".into()))?;
    let header: SweepHeader =
        serde_json::from_str(first).map_err(|error| damaged(1, error.to_string()))?;
    let mut points = Vec::new();
    for (index, line) in lines {
        let point: PointResult =
            serde_json::from_str(line).map_err(|error| damaged(index + 1, error.to_string()))?;
        if point.point >= header.points {
            return Err(damaged(
                index + 1,
                format!("point {} of {}", point.point, header.points),
            ));
        }
        points.push(point);
    }
    Ok((header, points))
}

/// An axis value as text.
pub fn shown(value: &toml::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

impl SweepResults {
    /// Names of the columns of [`SweepResults::rows`]: the axes, the policy, each metric and its interval's half width.
    pub fn columns(&self) -> Vec<String> {
        let mut columns = self.axes.clone();
        columns.push("policy".into());
        for name in METRICS.iter().map(|metric| metric.name).chain(["gain"]) {
            columns.push(name.into());
            columns.push(format!("{name}_half_width"));
        }
        columns
    }

    /// One row for each point and policy: the axes and the policy as text, then numbers.
    pub fn rows(&self) -> impl Iterator<Item = (Vec<String>, Vec<f64>)> + '_ {
        self.points.iter().flat_map(move |point| {
            self.policies
                .iter()
                .enumerate()
                .map(move |(index, policy)| {
                    let mut names: Vec<String> = point.values.iter().map(shown).collect();
                    names.push(policy.to_string());
                    let intervals = point.results[index].iter().chain([&point.gains[index]]);
                    (
                        names,
                        intervals
                            .flat_map(|interval| [interval.value, interval.half_width])
                            .collect(),
                    )
                })
        })
    }

    /// Writes the rows as CSV.
    ///
    /// # Errors
    /// What the writer returns.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let quoted = |text: &str| {
            if text.contains([',', '"', '\n']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let line = |cells: Vec<String>| {
            cells
                .iter()
                .map(|cell| quoted(cell))
                .collect::<Vec<_>>()
                .join(",")
        };
        writeln!(out, "{}", line(self.columns()))?;
        for (names, numbers) in self.rows() {
            writeln!(
                out,
                "{}",
                line(
                    names
                        .into_iter()
                        .chain(numbers.iter().map(f64::to_string))
                        .collect()
                )
            )?;
        }
        Ok(())
    }

    /// Writes the rows as a Parquet file: text columns for the axes and the policy, doubles for the rest.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_parquet(&self, file: &Path) -> Result<(), SweepError> {
        let failed = |source| SweepError::Parquet {
            file: file.to_owned(),
            source,
        };
        let columns = self.columns();
        let texts = self.axes.len() + 1;
        let fields: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(index, name)| {
                let name = name.replace('.', "_");
                if index < texts {
                    format!("REQUIRED BYTE_ARRAY {name} (UTF8);")
                } else {
                    format!("REQUIRED DOUBLE {name};")
                }
            })
            .collect();
        let schema = parse_message_type(&format!("message sweep {{ {} }}", fields.join(" ")))
            .map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))
                .map_err(failed)?;
        let rows: Vec<(Vec<String>, Vec<f64>)> = self.rows().collect();
        let mut group = writer.next_row_group().map_err(failed)?;
        let mut index = 0;
        while let Some(mut column) = group.next_column().map_err(failed)? {
            if index < texts {
                let values: Vec<ByteArray> = rows
                    .iter()
                    .map(|(names, _)| names[index].as_str().into())
                    .collect();
                column
                    .typed::<ByteArrayType>()
                    .write_batch(&values, None, None)
                    .map_err(failed)?;
            } else {
                let values: Vec<f64> = rows
                    .iter()
                    .map(|(_, numbers)| numbers[index - texts])
                    .collect();
                column
                    .typed::<DoubleType>()
                    .write_batch(&values, None, None)
                    .map_err(failed)?;
            }
            column.close().map_err(failed)?;
            index += 1;
        }
        group.close().map_err(failed)?;
        let bytes = writer.into_inner().map_err(failed)?;
        zmeld_linux::file::replace(file, &bytes).map_err(SweepError::Write)
    }
}
