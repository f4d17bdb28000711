//! Scenario files: a machine, a scheduler, a workload, policies and their settings, in TOML, with checked errors.
//!
//! Everything has a default, so an empty file is a scenario. Unknown keys are errors. A sweep sets keys by their
//! dotted path (`workload.processes`) before the file is read, so any key can be swept.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::machine::{MachineError, MemoryCosts, NumaMachine, Slit};
use crate::policy::{PolicyName, PolicySettings};
use crate::replicate::SimulationCase;
use crate::scheduler::Scheduler;
use crate::trace::{Trace, TraceError};
use crate::workload::Workload;

/// A scenario that cannot be used. Messages name the file, and the line and column where they are known.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// A file that cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind or out of its range.
    #[error("{file}: line {line}, column {column}: {why}")]
    Value {
        /// The file.
        file: String,
        /// The line of the value or of its table, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// A machine that cannot be.
    #[error("{file}: {source}")]
    NumaMachine {
        /// The scenario.
        file: String,
        /// What is wrong with its machine.
        source: MachineError,
    },
    /// A trace that cannot be replayed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A path to set that is none.
    #[error("{path:?} is no path to a value; write table.key, as in workload.processes")]
    Path {
        /// The path.
        path: String,
    },
}

/// The machine of a scenario: a preset or `host` or a `numactl -H` file, with changes; or a matrix of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MachineSpec {
    /// A preset, `host`, or a file with the output of `numactl -H`.
    from: Option<String>,
    /// Distances between nodes.
    slit: Option<Vec<Vec<u32>>>,
    /// Processors of each node.
    processors: Option<Vec<usize>>,
    /// Page size in bytes.
    page_bytes: Option<u64>,
    /// Memory of each node in MB of 2^20 bytes; 0 for as much as need be.
    memory_mb: Option<Vec<f64>>,
    costs: toml::Table,
}

/// A parameter that no source gives and that was therefore chosen.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FreeParameter {
    /// Its dotted path in the scenario.
    pub path: String,
    /// Why it has the value it has.
    pub reason: String,
    /// The values that calibration may choose from; without any, the value is not tuned.
    #[serde(default)]
    pub grid: Vec<toml::Value>,
}

/// The most replications of a point: every figure of each is kept, so that more would
/// take memory and change nothing that an interval shows.
pub const REPLICATIONS_MAX: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScenarioSpec {
    name: String,
    about: String,
    seed: u64,
    replications: u64,
    policies: Vec<PolicyName>,
    trace: Option<String>,
    machine: MachineSpec,
    scheduler: Scheduler,
    workload: Workload,
    policy: PolicySettings,
    free: Vec<FreeParameter>,
    sweep: toml::Table,
}

impl Default for ScenarioSpec {
    fn default() -> Self {
        Self {
            name: "scenario".into(),
            about: String::new(),
            seed: 1,
            replications: 30,
            policies: vec![PolicyName::Linux, PolicyName::Full, PolicyName::OnDemand],
            trace: None,
            machine: MachineSpec::default(),
            scheduler: Scheduler::default(),
            workload: Workload::default(),
            policy: PolicySettings::default(),
            free: Vec::new(),
            sweep: toml::Table::new(),
        }
    }
}

/// A scenario, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Where random numbers start.
    pub seed: u64,
    /// Replications of each point.
    pub replications: u64,
    /// Policies to be compared, the base first.
    pub policies: Vec<PolicyName>,
    /// Machine, scheduler, workload, settings.
    pub case: SimulationCase,
    /// Parameters that were chosen, with the reasons.
    pub free: Vec<FreeParameter>,
    /// Axes of a sweep: dotted path and values.
    pub sweep: Vec<(String, Vec<toml::Value>)>,
}

/// A scenario's text with its origin, from which variants are made.
#[derive(Debug, Clone)]
pub struct ScenarioText {
    /// The file, for messages.
    pub file: String,
    /// Its text.
    pub text: String,
    table: toml::Table,
}

/// What is wrong, after the settings that led to it, if there are any.
fn with_settings(settings: &[(String, toml::Value)], problem: &str) -> String {
    let named: Vec<_> = settings
        .iter()
        .map(|(path, value)| format!("{path} = {value}"))
        .collect();
    match named.is_empty() {
        true => problem.to_owned(),
        false => format!("with {}: {problem}", named.join(", ")),
    }
}

impl ScenarioText {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read or is not TOML.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| ScenarioError::Read {
            file: file.clone(),
            source,
        })?;
        Self::new(text, file)
    }

    /// Takes a text; `file` is what messages call it.
    ///
    /// # Errors
    /// The place where it is not TOML.
    pub fn new(text: String, file: String) -> Result<Self, ScenarioError> {
        let table = toml::from_str(&text).map_err(|error| syntax(&text, &file, &error))?;
        Ok(Self { file, text, table })
    }

    /// The scenario as it stands.
    ///
    /// # Errors
    /// The first thing that is wrong, by file, line and column.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        // Read from the text, so that errors have places.
        let spec: ScenarioSpec =
            toml::from_str(&self.text).map_err(|error| syntax(&self.text, &self.file, &error))?;
        self.check(spec)
    }

    /// The scenario with some values set, by dotted path.
    ///
    /// # Errors
    /// A path that is none, and everything [`ScenarioText::scenario`] refuses.
    pub fn with(&self, settings: &[(String, toml::Value)]) -> Result<Scenario, ScenarioError> {
        let mut table = self.table.clone();
        for (path, value) in settings {
            set(&mut table, path, value.clone())?;
        }
        let spec: ScenarioSpec =
            ScenarioSpec::deserialize(toml::Value::Table(table)).map_err(|error| {
                ScenarioError::Value {
                    file: self.file.clone(),
                    line: 1,
                    column: 1,
                    why: with_settings(settings, error.message()),
                }
            })?;
        self.check(spec)
    }

    /// Sets values for good, by dotted path; the text becomes that of the changed table.
    ///
    /// # Errors
    /// A path that is none.
    pub fn set(&mut self, settings: &[(String, toml::Value)]) -> Result<(), ScenarioError> {
        for (path, value) in settings {
            set(&mut self.table, path, value.clone())?;
        }
        self.text = self.table.to_string();
        Ok(())
    }

    /// The value at a dotted path, if the file gives it.
    pub fn value(&self, path: &str) -> Option<&toml::Value> {
        let mut keys = path.split('.');
        let mut value = self.table.get(keys.next()?)?;
        for key in keys {
            value = value.get(key)?;
        }
        Some(value)
    }

    /// What is wrong with a key, and where that stands.
    fn wrong(&self, table: &str, key: &str, why: String) -> ScenarioError {
        let (line, column) = place_of(&self.text, table, key);
        ScenarioError::Value {
            file: self.file.clone(),
            line,
            column,
            why,
        }
    }

    fn check_replications(&self, replications: u64) -> Result<(), ScenarioError> {
        let why = match replications {
            0 => "at least one is needed".to_owned(),
            1..=REPLICATIONS_MAX => return Ok(()),
            _ => format!(
                "{replications} are too many, at most {REPLICATIONS_MAX}: intervals shrink with \
                 the square root only"
            ),
        };
        Err(self.wrong("", "replications", format!("replications: {why}")))
    }

    /// The trace of that path, which begins where the scenario lies.
    fn trace(&self, path: &str, page_bytes: u64) -> Result<Trace, ScenarioError> {
        let base = Path::new(&self.file).parent().unwrap_or(Path::new(""));
        let path = base.join(path);
        let file = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|source| ScenarioError::Read {
            file: file.clone(),
            source,
        })?;
        Ok(Trace::parse(&text, &file, page_bytes)?)
    }

    /// The axes: each has values.
    fn sweep(&self, axes: &toml::Table) -> Result<Vec<(String, Vec<toml::Value>)>, ScenarioError> {
        let axes = axes.iter().map(|(path, values)| match values {
            toml::Value::Array(values) if !values.is_empty() => Ok((path.clone(), values.clone())),
            _ => {
                let why = format!("sweep: {path} needs a list of values");
                Err(self.wrong("sweep", path, why))
            }
        });
        axes.collect()
    }

    fn check(&self, spec: ScenarioSpec) -> Result<Scenario, ScenarioError> {
        let wrong = |table: &str, key: &str, why: String| self.wrong(table, key, why);
        let machine = self.machine(&spec.machine)?;
        spec.scheduler
            .check()
            .map_err(|error| wrong("scheduler", error.what, error.to_string()))?;
        spec.workload.check(&machine).map_err(|error| {
            let key = match &error {
                crate::workload::WorkloadError::Range { what, .. } => what,
                crate::workload::WorkloadError::Start { .. } => "start",
            };
            wrong("workload", key, error.to_string())
        })?;
        if let Err((policy, key, why)) = spec.policy.check() {
            return Err(wrong(
                &format!("policy.{policy}"),
                key,
                format!("{policy}: {key}: {why}"),
            ));
        }
        if spec.policies.is_empty() {
            return Err(wrong(
                "",
                "policies",
                "policies: at least one is needed".into(),
            ));
        }
        self.check_replications(spec.replications)?;
        let trace = match &spec.trace {
            Some(path) => Some(self.trace(path, machine.page_bytes)?),
            None => None,
        };
        let sweep = self.sweep(&spec.sweep)?;
        Ok(Scenario {
            name: spec.name,
            about: spec.about,
            seed: spec.seed,
            replications: spec.replications,
            policies: spec.policies,
            case: SimulationCase {
                machine,
                scheduler: spec.scheduler,
                workload: spec.workload,
                trace,
                policy: spec.policy,
            },
            free: spec.free,
            sweep,
        })
    }

    fn machine(&self, spec: &MachineSpec) -> Result<NumaMachine, ScenarioError> {
        let failed = |source| ScenarioError::NumaMachine {
            file: self.file.clone(),
            source,
        };
        let (line, _) = place_of(&self.text, "machine", "slit");
        let base = spec.from.as_deref().or(if spec.slit.is_some() {
            None
        } else {
            Some("altix-4x2")
        });
        let mut machine = match base {
            Some(name) => NumaMachine::find(name).map_err(failed)?,
            None => NumaMachine {
                name: format!("machine (line {line})"),
                about: "given by the scenario".into(),
                slit: Slit::new(vec![vec![10]], "machine").map_err(failed)?,
                processors: vec![],
                page_bytes: 4096,
                memory_pages: vec![],
                costs: MemoryCosts::default(),
            },
        };
        if let Some(rows) = &spec.slit {
            let nodes = rows.len();
            machine.slit =
                Slit::new(rows.clone(), &format!("machine.slit (line {line})")).map_err(failed)?;
            if machine.memory_pages.len() != nodes {
                machine.memory_pages = vec![None; nodes];
            }
            if machine.processors.len() != nodes && spec.processors.is_none() {
                machine.processors = vec![1; nodes];
            }
        }
        if let Some(processors) = &spec.processors {
            machine.processors.clone_from(processors);
        }
        if let Some(bytes) = spec.page_bytes {
            machine.page_bytes = bytes;
        }
        if let Some(memory) = &spec.memory_mb {
            let pages = |mb: &f64| {
                (*mb > 0.0).then(|| (mb * 1_048_576.0 / machine.page_bytes as f64) as u64)
            };
            machine.memory_pages = memory.iter().map(pages).collect();
        }
        if !spec.costs.is_empty() {
            machine.costs = machine.costs.changed(&spec.costs).map_err(|why| {
                let (line, column) = place_of(&self.text, "machine.costs", "");
                ScenarioError::Value {
                    file: self.file.clone(),
                    line,
                    column,
                    why,
                }
            })?;
        }
        machine.check().map_err(failed)
    }
}

/// Sets a value by its dotted path, making tables on the way.
fn set(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), ScenarioError> {
    let bad = || ScenarioError::Path {
        path: path.to_owned(),
    };
    let (keys, last) = path
        .rsplit_once('.')
        .map_or((None, path), |(keys, last)| (Some(keys), last));
    if last.is_empty() {
        return Err(bad());
    }
    let mut here = table;
    for key in keys.into_iter().flat_map(|keys| keys.split('.')) {
        if key.is_empty() {
            return Err(bad());
        }
        let next = here
            .entry(key.to_owned())
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        // A quantity given as a number may be swept by its mean.
        here = next.as_table_mut().ok_or_else(bad)?;
    }
    here.insert(last.to_owned(), value);
    Ok(())
}

fn syntax(text: &str, file: &str, error: &toml::de::Error) -> ScenarioError {
    let at = error.span().map_or(0, |span| span.start.min(text.len()));
    let (line, column) = line_and_column(text, at);
    ScenarioError::Value {
        file: file.to_owned(),
        line,
        column,
        why: error.message().to_owned(),
    }
}

fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

/// Line and column of a key's value; of its table where the key is not given; 1, 1 where neither is.
fn place_of(text: &str, table: &str, key: &str) -> (usize, usize) {
    let Ok(root) = toml::de::DeTable::parse(text) else {
        return (1, 1);
    };
    let mut here = root.get_ref();
    let mut at = 0;
    for name in table.split('.').filter(|name| !name.is_empty()) {
        let Some(next) = here.get(name) else {
            return line_and_column(text, at);
        };
        at = next.span().start;
        match next.get_ref().as_table() {
            Some(next) => here = next,
            None => return line_and_column(text, at),
        }
    }
    let at = here.get(key).map_or(at, |value| value.span().start);
    line_and_column(text, at)
}
