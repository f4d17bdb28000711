//! Scenario files: a machine, a scheduler, a workload, policies and their settings, in TOML, with checked errors.
//!
//! Everything has a default, so an empty file is a scenario. Unknown keys are errors. Any key
//! can be set by its dotted path (`workload.processes`) before the scenario is made.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use zmeld_linux::FileError;

use crate::engine::SimulationCase;
use crate::error::Error;
use crate::machine::{MemoryCosts, NumaMachine};
use crate::policy::{PolicyName, PolicySettings};
use crate::scheduler::Scheduler;
use crate::workload::Workload;

/// The machine of a scenario: a preset or `host`, with changes; or a matrix of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MachineSpec {
    from: Option<String>,
    slit: Option<Vec<Vec<u32>>>,
    processors: Option<Vec<usize>>,
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
    /// The values that were considered; without any, the value is not tuned.
    #[serde(default)]
    pub grid: Vec<toml::Value>,
}

/// The most replications of a point: every figure of each is kept, so that more would
/// take memory and change nothing that an interval shows.
pub const REPLICATIONS_MAX: u64 = 100_000;

/// Processes for each processor, where a scenario does not say how many: as crowded as the study's
/// machine, so that some are moved.
const PROCESSES_EACH: usize = 6;

#[derive(Debug, Clone, PartialEq, SmartDefault, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScenarioSpec {
    name: String,
    about: String,
    #[default = 1]
    seed: u64,
    #[default = 30]
    replications: u64,
    #[default(vec![
        PolicyName::NoBalancing,
        PolicyName::Autonuma,
        PolicyName::Full,
        PolicyName::OnDemand,
    ])]
    policies: Vec<PolicyName>,
    machine: MachineSpec,
    scheduler: Scheduler,
    workload: Workload,
    policy: PolicySettings,
    free: Vec<FreeParameter>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    pub seed: u64,
    /// One where nothing is random.
    pub replications: u64,
    /// Policies to be compared, the base first.
    pub policies: Vec<PolicyName>,
    pub case: SimulationCase,
    /// Parameters that were chosen, with the reasons.
    pub free: Vec<FreeParameter>,
}

/// A scenario's text with its origin, from which variants are made.
#[derive(Debug, Clone)]
pub struct ScenarioText {
    /// Name in messages.
    file: String,
    text: String,
    table: toml::Table,
    spec: ScenarioSpec,
}

impl ScenarioText {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|cause| FileError::new("read", path, cause))?;
        Self::new(text, path.display().to_string())
    }

    /// Takes a text; `file` is what messages call it.
    ///
    /// # Errors
    /// The first key or value that is none, by file, line and column.
    pub fn new(text: String, file: String) -> Result<Self, Error> {
        let table = zmeld_config::from_toml(Path::new(&file), &text)?;
        let spec = zmeld_config::from_toml(Path::new(&file), &text)?;
        Ok(Self {
            file,
            text,
            table,
            spec,
        })
    }

    /// The scenario as it stands.
    ///
    /// # Errors
    /// The first thing that is wrong, by file, line and column.
    pub fn scenario(&self) -> Result<Scenario, Error> {
        self.check(self.spec.clone(), &self.table)
    }

    /// The scenario with some values set, by dotted path.
    ///
    /// # Errors
    /// A path that is none, and everything [`ScenarioText::scenario`] refuses.
    pub fn with(&self, settings: &[(String, toml::Value)]) -> Result<Scenario, Error> {
        let mut table = self.table.clone();
        for (path, value) in settings {
            set(&mut table, path, value.clone())?;
        }
        self.check(zmeld_config::from_table(&table)?, &table)
    }

    /// An error in a key, and the key's place if it is in the text.
    fn wrong(&self, table: &str, (key, why): (&str, String)) -> Error {
        let under = if table.is_empty() {
            String::new()
        } else {
            format!("{table}: ")
        };
        Error::Wrong(match place_of(&self.text, table, key) {
            Some((line, column)) => format!("{}:{line}:{column}: {under}{why}", self.file),
            None => format!("{under}{why}"),
        })
    }

    fn check(&self, mut spec: ScenarioSpec, table: &toml::Table) -> Result<Scenario, Error> {
        let machine = self.machine(&spec.machine)?;
        let workload = table.get("workload").and_then(toml::Value::as_table);
        if workload.is_none_or(|workload| !workload.contains_key("processes")) {
            spec.workload.processes = PROCESSES_EACH * machine.processors_total();
        }
        let checked = spec.scheduler.check();
        checked.map_err(|wrong| self.wrong("scheduler", wrong))?;
        let checked = spec.workload.check(&machine);
        checked.map_err(|wrong| self.wrong("workload", wrong))?;
        let checked = spec.policy.check();
        checked.map_err(|(policy, wrong)| self.wrong(&format!("policy.{policy}"), wrong))?;
        if spec.policies.is_empty() {
            return Err(self.wrong("", ("policies", "policies: at least one is needed".into())));
        }
        let why = match spec.replications {
            0 => Some("at least one is needed".to_owned()),
            1..=REPLICATIONS_MAX => None,
            many => Some(format!(
                "{many} are too many, at most {REPLICATIONS_MAX}: intervals shrink with the square root only"
            )),
        };
        if let Some(why) = why {
            return Err(self.wrong("", ("replications", format!("replications: {why}"))));
        }
        Ok(Scenario {
            name: match spec.name.is_empty() {
                true => self.file.clone(),
                false => spec.name,
            },
            seed: spec.seed,
            replications: match spec.workload.is_random() {
                true => spec.replications,
                false => 1,
            },
            policies: spec.policies,
            case: SimulationCase {
                machine,
                scheduler: spec.scheduler,
                workload: spec.workload,
                policy: spec.policy,
            },
            free: spec.free,
        })
    }

    fn machine(&self, spec: &MachineSpec) -> Result<NumaMachine, Error> {
        let failed = |error: Error| match error {
            Error::Wrong(why) => Error::Wrong(format!("{}: {why}", self.file)),
            error => error,
        };
        let mut machine = match (&spec.from, &spec.slit) {
            (None, Some(_)) => NumaMachine {
                name: "machine.slit".into(),
                about: "given by the scenario".into(),
                slit: Vec::new(),
                node_numbers: vec![],
                processors: vec![],
                page_bytes: 4096,
                memory_pages: vec![],
                costs: MemoryCosts::default(),
            },
            (from, _) => {
                NumaMachine::find(from.as_deref().unwrap_or("altix-4x2")).map_err(failed)?
            }
        };
        if let Some(rows) = &spec.slit {
            let nodes = rows.len();
            machine.slit.clone_from(rows);
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
        machine.page_bytes = spec.page_bytes.unwrap_or(machine.page_bytes);
        if let Some(memory) = &spec.memory_mb {
            let pages = |mb: &f64| {
                (*mb > 0.0).then(|| (mb * 1_048_576.0 / machine.page_bytes as f64) as u64)
            };
            machine.memory_pages = memory.iter().map(pages).collect();
        }
        let costs = machine.costs.changed(&spec.costs);
        machine.costs = costs.map_err(|error| {
            let key = error.problems.first().map_or("", |problem| &problem.about);
            self.wrong("machine.costs", (key, error.to_string()))
        })?;
        let machine = machine.check().map_err(failed)?;
        machine.check_reachable().map_err(failed)?;
        Ok(machine)
    }
}

/// Sets a value by its dotted path, making tables on the way.
fn set(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), Error> {
    let bad = || {
        Error::Wrong(format!(
            "{path:?} is no path to a value; write table.key, as in workload.processes"
        ))
    };
    let mut keys: Vec<&str> = path.split('.').collect();
    if keys.contains(&"") {
        return Err(bad());
    }
    let last = keys.pop().ok_or_else(bad)?;
    let mut here = table;
    for key in keys {
        let next = here
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        here = next.as_table_mut().ok_or_else(bad)?;
    }
    here.insert(last.to_owned(), value);
    Ok(())
}

fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

/// Line and column of a key's value; of its table where the key is not given. None where neither is.
fn place_of(text: &str, table: &str, key: &str) -> Option<(usize, usize)> {
    let root = toml::de::DeTable::parse(text).ok()?;
    let mut here = Some(root.get_ref());
    let mut at = None;
    let tables = table.split('.').filter(|name| !name.is_empty());
    for name in tables.chain([key]) {
        let Some(next) = here.and_then(|table| table.get(name)) else {
            break;
        };
        at = Some(next.span().start);
        here = next.get_ref().as_table();
    }
    at.map(|at| line_and_column(text, at))
}
