//! What the planning of a tier is given, and the steps that it adds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::parts::{Options, PlanPart, Planned, Skipped};
use crate::setup::step::{Record, Step};
use crate::setup::steps::{self, SetAttribute};
use zmeld_config::advice::machine::Machine;
use zmeld_config::{Config, Finding, Tier};
use zmeld_linux::Host;

pub(super) struct Planner<'a> {
    pub host: &'a Host,
    /// The configuration to plan: the requested one, with stand-ins.
    pub config: &'a Config,
    pub asked: &'a Config,
    pub machine: &'a Machine,
    pub records: &'a [Record],
    pub old: Option<&'a Config>,
    pub options: &'a Options,
    pub groups: Vec<PlanPart>,
    pub skipped: Vec<Skipped>,
    /// The drives and files of the tiers so far, each with its tier's group.
    pub places: Vec<(PathBuf, String)>,
    /// Bytes of the swap files that are to be made, by file system.
    pub new_files: BTreeMap<u64, u64>,
    pub problems: Vec<Finding>,
}

impl Planner<'_> {
    pub fn asked_for(&self, tier: &Tier) -> bool {
        match &self.options.only {
            None => true,
            Some(only) => only.iter().any(|name| name == tier.name.as_str()),
        }
    }

    pub fn own_areas(&self) -> Vec<PathBuf> {
        self.areas_of(self.records.iter())
    }

    /// Paths of the areas that these records switched on, where they are on.
    pub fn areas_of<'b>(&'b self, records: impl Iterator<Item = &'b Record> + 'b) -> Vec<PathBuf> {
        let areas = steps::areas(self.host, self.records, records);
        areas.flatten().map(|area| area.path).collect()
    }

    /// The steps of a group that were begun in earlier runs.
    pub fn recorded<'b>(&'b self, group: &'b str) -> impl Iterator<Item = &'b Record> {
        self.records
            .iter()
            .filter(move |record| PlanPart::current(&record.group) == group)
    }
}

pub(super) struct Steps<'a> {
    pub name: &'a str,
    pub records: &'a [Record],
    pub steps: Vec<Planned>,
}

impl<'a> Steps<'a> {
    pub fn new(name: &'a str, records: &'a [Record]) -> Steps<'a> {
        Steps {
            name,
            records,
            steps: Vec::new(),
        }
    }

    pub fn group(self, optional: bool) -> PlanPart {
        PlanPart {
            name: self.name.to_owned(),
            optional,
            steps: self.steps,
        }
    }

    pub fn add(&mut self, step: Step, reason: impl Into<String>) {
        self.add_over(step, reason, None);
    }

    /// A step that sets an attribute of the device that the group added.
    pub fn set(&mut self, attribute: &str, value: impl ToString, reason: impl Into<String>) {
        self.add(
            Step::SetAttribute(SetAttribute::new(attribute, value)),
            reason,
        );
    }

    /// A step that replaces a value: the one that an earlier run found counts.
    pub fn add_over(&mut self, step: Step, reason: impl Into<String>, before: Option<String>) {
        let mut records = self.records.iter();
        let record = records.find(|it| it.group == self.name && it.step == step);
        let sets = matches!(step, Step::SetValue(_));
        let is_so = matches!(&step, Step::SetValue(set) if before.as_ref() == Some(&set.value));
        self.steps.push(Planned {
            before: match record {
                Some(record) if sets => record.before.clone(),
                _ => before,
            },
            // Other steps in place are known once all of the plan is: see `Plan::compare`.
            done: is_so,
            passed_over: false,
            reason: reason.into(),
            step,
        });
    }

    /// The steps from there on are passed over, or not.
    pub fn pass_over(&mut self, begin: usize, is_so: bool) {
        for planned in &mut self.steps[begin..] {
            planned.passed_over = is_so;
        }
    }
}

/// The tiers with the priorities of their areas; zswap, which is none, last:
/// it takes pages as soon as it is switched on, and needs somewhere to write.
pub(super) fn areas(config: &Config) -> Vec<(&Tier, i16)> {
    let in_front = config
        .tiers
        .iter()
        .filter(|it| it.kind.kind().is_in_front());
    let areas = config.areas().into_iter();
    areas.chain(in_front.map(|tier| (tier, 0))).collect()
}
