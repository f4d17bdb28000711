//! Recipes: what is run, under which limit, with which variants, and what was
//! published about it.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::variant::{RunSize, Variant};
use crate::vm::GuestSize;
use zmeld_report::statistics::stopping::StoppingRule;
use zmeld_report::statistics::Direction;

use crate::workload::Workload;

/// A smaller limit is a unit that was forgotten.
const LIMIT_MIN: u64 = 1 << 20;

/// A recipe's file is a page or two.
const BYTES_MAX: u64 = 1 << 20;
/// No run takes longer than a month.
const RUN_MAX_S: f64 = 31.0 * 86_400.0;
/// More runs than anybody waits for.
const RUNS_MAX: f64 = 10_000.0;

/// An experiment as a file says it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its name, as `zmeld bench run` takes it.
    pub name: String,
    /// Its question.
    pub question: String,
    /// Its source, or the reason for its settings.
    pub about: String,
    /// The metric.
    #[serde(default)]
    pub metric: Metric,
    /// Further metrics. They decide neither who is ahead nor when there are enough runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Metric>,
    /// About how many minutes it takes on two processors.
    #[serde(default)]
    pub minutes: f64,
    /// When to stop repeating.
    #[serde(default = "stopping")]
    pub stopping: StoppingRule,
    /// Runs of each variant before those that count.
    #[serde(default = "one")]
    pub warm_ups: usize,
    /// Longer than that, a run is ended, seconds.
    #[serde(default = "run_max")]
    pub run_max_s: f64,
    /// The workloads and limits.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
    /// The variants.
    #[serde(rename = "variant")]
    pub variants: Vec<Variant>,
    /// The published figures.
    #[serde(default, rename = "published", skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedTable>,
}

fn stopping() -> StoppingRule {
    StoppingRule {
        runs_min: 5,
        runs_max: 15,
        width: 0.05,
    }
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn run_max() -> f64 {
    600.0
}

/// A metric to compare by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// `elapsed_s`, `measured_s` (without filling memory first), `memory_mean_bytes` and `taken_mean_bytes` (what the
    /// group has in RAM in the second half of the run, and with what the store takes), or a figure that the workload
    /// gives.
    pub name: String,
    /// Which values are better.
    pub better: Direction,
}

impl Default for Metric {
    fn default() -> Self {
        Metric {
            name: "elapsed_s".to_owned(),
            better: Direction::Lower,
        }
    }
}

/// A workload under a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name in tables.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// The workload with `--full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<Workload>,
    /// `60% of footprint`, `181MiB`; none: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The limit with `--full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_limit: Option<String>,
    /// Whether what compressed devices take up counts against the limit, as on a machine of that size.
    #[serde(default)]
    pub counts_store: bool,
    /// Whether the workload may have huge pages. A group of some ten of them, all in use, is killed with swap free: reclaim
    /// finds too few folios to try.
    #[serde(default = "yes")]
    pub huge_pages: bool,
    /// A machine of that size, booted for each run, instead of a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<GuestSize>,
}

/// A published table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedTable {
    /// Its subject, and the machine used.
    pub title: String,
    /// Headings.
    pub columns: Vec<String>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
    /// A caution for comparing it with the results here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        /// The recipes that come with zmeld: name and text.
        pub const BUILT_IN: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../../recipes/", $name, ".toml"))),
        )*];
    };
}

// What an administrator wants first; reproductions of publications come last.
built_in!(
    "size",
    "codecs",
    "melding",
    "reclaim-half-hour",
    "vps-7zip",
    "size-vps-7zip",
    "entropy-walk",
    "sysbench",
    "bt",
    "matmul-25-50-100",
    "matmul-inverted",
);

impl Recipe {
    /// A built-in recipe by its name, or a file by its path.
    pub fn load(name: &str) -> Result<Recipe, Error> {
        if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Recipe::from_text(name, text);
        }
        let wrong = |problem: String| Error::recipe(name, problem);
        let is_path = name.contains('/') || name.ends_with(".toml");
        if !is_path && !Path::new(name).exists() {
            let names: Vec<_> = BUILT_IN.iter().map(|(name, _)| *name).collect();
            return Err(wrong(format!(
                "there is no such recipe; there are {}, or give the path of a file",
                names.join(", ")
            )));
        }
        let mut text = String::new();
        fs::File::open(name)
            .and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(|err| Error::io("read", name, err))?;
        if text.len() as u64 > BYTES_MAX {
            return Err(wrong("it is longer than any recipe".to_owned()));
        }
        Recipe::from_text(name, &text)
    }

    /// Reads a recipe and checks what can be checked without running it.
    pub fn from_text(name: &str, text: &str) -> Result<Recipe, Error> {
        let recipe: Recipe = zmeld_config::from_toml(Path::new(name), text)?;
        recipe.check().map_err(|it| Error::recipe(name, it))?;
        Ok(recipe)
    }

    /// What has to be there for all of its cases and variants, beside the kernel: packages and
    /// zmeld.ko.
    pub fn uses(&self) -> BTreeSet<&str> {
        let workloads = self.cases.iter().map(|case| &case.workload);
        let packages = workloads.filter_map(|workload| match workload {
            Workload::Command(command) => command.package.as_deref(),
            _ => None,
        });
        let machines = self.cases.iter().filter_map(|case| case.machine.as_ref());
        let module = self.variants.iter().any(|it| it.has_kind("zmeld"));
        let module = module.then_some("zmeld.ko");
        packages
            .chain(machines.map(|_| "QEMU"))
            .chain(module)
            .collect()
    }

    /// Checks what can be checked without running it.
    pub fn check(&self) -> Result<(), String> {
        if self.cases.is_empty() || self.variants.iter().all(|variant| variant.unlimited) {
            return Err("an experiment needs a case and a variant".to_owned());
        }
        self.times()?;
        self.names()?;
        for variant in &self.variants {
            variant.sound().map_err(|err| err.to_string())?;
        }
        for case in &self.cases {
            case.sound()?;
        }
        for table in &self.published {
            if table
                .rows
                .iter()
                .any(|row| row.len() != table.columns.len())
            {
                return Err(format!(
                    "published table \"{}\" has a row of another length",
                    table.title
                ));
            }
        }
        Ok(())
    }

    /// Times and numbers that a run can have.
    fn times(&self) -> Result<(), String> {
        let rule = &self.stopping;
        let runs_max = rule.runs_max as f64;
        for (key, found, least, most, unit) in [
            ("run_max_s", self.run_max_s, 0.001, RUN_MAX_S, " seconds"),
            ("minutes", self.minutes, 0.0, 1e9, " minutes"),
            ("warm_ups", self.warm_ups as f64, 0.0, RUNS_MAX, ""),
            ("stopping.runs_max", runs_max, 1.0, RUNS_MAX, ""),
            ("stopping.runs_min", rule.runs_min as f64, 1.0, runs_max, ""),
            ("stopping.width", rule.width, 1e-6, 1e6, ""),
        ] {
            if !(least..=most).contains(&found) {
                return Err(format!("{key} = {found}: write {least} to {most}{unit}"));
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<(), String> {
        let swaps = |it: &&Variant| it.unlimited && (it.swaps() || it.slow_disk.is_some());
        if let Some(variant) = self.variants.iter().find(swaps) {
            return Err(format!(
                "variant \"{}\" has no limit, so nothing is swapped: leave out its tiers",
                variant.name
            ));
        }
        let variants = self.variants.iter().map(|variant| variant.name.as_str());
        let cases = self.cases.iter().map(|case| case.name.as_str());
        for (what, names) in [
            ("variants", variants.collect::<Vec<_>>()),
            ("cases", cases.collect()),
        ] {
            let mut known = BTreeSet::new();
            if let Some(twice) = names.iter().find(|name| !known.insert(**name)) {
                return Err(format!("two {what} are called \"{twice}\""));
            }
        }
        Ok(())
    }

    /// The settings that its runs must share.
    pub(crate) fn compared(&self) -> Recipe {
        Recipe {
            question: String::new(),
            about: String::new(),
            minutes: 0.0,
            stopping: stopping(),
            published: Vec::new(),
            ..self.clone()
        }
    }

    /// The same at the published size.
    pub fn full(mut self) -> Recipe {
        for case in &mut self.cases {
            if let Some(full) = case.full.take() {
                case.workload = full;
            }
            if let Some(limit) = case.full_limit.take() {
                case.limit = Some(limit);
            }
        }
        self.run_max_s = self.run_max_s.max(24.0 * 3600.0);
        self
    }
}

impl Case {
    /// Checks what can be checked of it alone.
    fn sound(&self) -> Result<(), String> {
        if let Some(machine) = &self.machine {
            let wrong = |problem| format!("case \"{}\": {problem}", self.name);
            machine.check().map_err(wrong)?;
            if self.limit.is_some() || self.full_limit.is_some() || self.counts_store {
                return Err(wrong(
                    "its machine's RAM is the limit: leave out limit, full_limit and counts_store"
                        .to_owned(),
                ));
            }
        }
        for limit in self.limit.iter().chain(&self.full_limit) {
            let what = match RunSize::parse(limit) {
                Some(RunSize::OfLimit(_)) | None => "is no limit",
                Some(RunSize::Bytes(bytes)) if bytes < LIMIT_MIN => {
                    "is less than any program needs (1MiB)"
                }
                Some(_) => continue,
            };
            return Err(format!(
                "case \"{}\": {limit:?} {what}; write \"60% of footprint\" or \"181MiB\"",
                self.name
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant::SizeBases;

    #[test]
    fn built_in_recipes_are_sound() {
        for (name, text) in BUILT_IN {
            let recipe = Recipe::from_text(name, text).unwrap();
            assert_eq!(recipe.name, *name);
            let compared = recipe.variants.iter().filter(|it| !it.unlimited).count();
            let needed = zmeld_report::statistics::verdict::runs_needed(compared);
            assert!(recipe.stopping.runs_min >= needed, "{name}: {needed} runs");
            let full = recipe.clone().full();
            let written = serde_json::to_string(&full).unwrap();
            assert_eq!(serde_json::from_str::<Recipe>(&written).unwrap(), full);
            let host = zmeld_linux::Host::here();
            for variant in &recipe.variants {
                let bases = SizeBases {
                    limit: 256 << 20,
                    footprint: 512 << 20,
                };
                // A kernel may lack a codec; that the recipe is wrong is another kind of error.
                if let Err(err @ Error::Recipe(_)) = variant.check(&host, bases) {
                    panic!("{name}: {err}");
                }
            }
        }
    }
}
