//! A plan and its parts, as they are printed and carried out; what planning goes by, and the
//! steps that it adds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use zmeld_report::units::bytes;

use super::stand_in::StandIn;
use crate::setup::step::{Record, Step};
use crate::setup::steps::{self, SetAttribute};
use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::tunables::MeasuredReads;
use zmeld_config::{Config, Finding, Severity, Tier};
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::Host;

/// A step that was applied or taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Done {
    /// The part of the plan.
    pub group: String,
    /// The step, exact.
    pub step: String,
    /// The same for people.
    #[serde(skip)]
    pub words: String,
    /// Effect of taking it back, for people. None where the effect goes with its device, or gives
    /// way to another value.
    #[serde(skip)]
    pub restores: Option<String>,
}

impl Done {
    /// A step of that part of the plan. A value of the whole machine is told with its reason: the
    /// configuration may not name it.
    pub fn new(part: &str, planned: &Planned) -> Done {
        let mut done = Done::step(part, &planned.step);
        if matches!(planned.step, Step::SetValue(_)) {
            done.words += &format!(" ({})", planned.reason);
        }
        done
    }

    fn step(part: &str, step: &Step) -> Done {
        Done {
            group: part.to_owned(),
            step: step.describe(),
            words: step.words(),
            restores: None,
        }
    }

    /// The step of a record that is taken back.
    pub fn of(record: &Record) -> Done {
        let mut done = Done::step(&record.group, &record.step);
        let path = |path: &Path, what: &str| format!("{}: {what}", path.display());
        done.restores = match (&record.step, &record.before) {
            (Step::SetValue(set), Some(before)) => {
                Some(format!("{}: restored to {before}", set.name()))
            }
            (Step::SwapOn(on), _) => Some(match on.device.path() {
                Some(device) => path(&device, "swapped off"),
                None => "swapped off".to_owned(),
            }),
            (Step::AddDevice(_), _) => Some(match &record.outcome {
                Some(made) => format!("{}: removed", made.name),
                None => "the device: removed".to_owned(),
            }),
            (Step::OpenCrypt(open), _) => Some(format!("/dev/mapper/{}: closed", open.name)),
            (Step::CreateFile(create), _) => Some(path(&create.path, "removed")),
            (Step::SwapOff(off), Some(_)) => Some(path(&off.path, "swapped on again")),
            _ => None,
        };
        done
    }
}

/// An optional part of the plan that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Skipped {
    /// The part of the plan.
    pub group: String,
    /// Why.
    pub reason: String,
}

/// Steps that would be taken, and why.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Plan {
    /// The requested configuration.
    pub config: Config,
    /// The machine that it is for.
    pub machine: Machine,
    /// The parts, in order.
    pub groups: Vec<PlanPart>,
    /// Optional tiers that are left out, with the reason.
    pub skipped: Vec<Skipped>,
    /// Warnings, and reasons for a refusal.
    #[serde(serialize_with = "as_lines")]
    #[schemars(with = "Vec<ProblemLine>")]
    pub problems: Vec<Finding>,
    /// The tiers that were asked for; none: all.
    pub only: Option<Vec<String>>,
    /// Steps of earlier runs that are taken back, in order: first, and behind the steps a device
    /// that another takes the place of.
    pub undone: Vec<Done>,
    /// Pages that have to leave the areas that are switched off with that.
    pub leaving: Vec<Leaving>,
    /// Records at the time of planning, by the names that they have while it is carried out.
    #[serde(skip)]
    pub records: Vec<Record>,
    /// The indexes of those that are taken back first, ascending.
    #[serde(skip)]
    pub removed: Vec<usize>,
    /// The same of devices that are taken back once others are in their places.
    #[serde(skip)]
    pub replaced: Vec<usize>,
    /// Tiers for which another driver's device stands in.
    pub stand_ins: Vec<StandIn>,
    /// Further inputs of the plan.
    #[serde(skip)]
    pub options: Options,
}

/// A swap area that is switched off first, and what has to leave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Leaving {
    /// The area.
    pub path: PathBuf,
    /// Bytes in use in it.
    pub bytes: u64,
    /// About how long that takes, in seconds; none where it hangs on a drive.
    pub seconds: Option<u64>,
}

/// Bytes a second read by swapoff from zram with lzo-rle, on one busy processor of two.
const LEAVING_BYTES_PER_S: u64 = 330 << 20;

impl Leaving {
    pub(super) fn new(area: &SwapArea) -> Leaving {
        let in_ram = area.is_in_ram();
        Leaving {
            path: area.path.clone(),
            bytes: area.used_bytes,
            seconds: in_ram.then(|| area.used_bytes.div_ceil(LEAVING_BYTES_PER_S)),
        }
    }

    /// What has to leave it, in a sentence.
    pub fn words(&self) -> String {
        let path = self.path.display();
        match (self.bytes, self.seconds) {
            (0, _) => format!("{path} is switched off, and no page is in it."),
            (held, Some(seconds)) => format!(
                "{} have to leave {path}, which takes about {seconds} s.",
                bytes(held)
            ),
            (held, None) => format!(
                "{} have to leave {path}, as fast as the drive gives them back.",
                bytes(held)
            ),
        }
    }
}

/// A part of a plan that stands or falls together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PlanPart {
    /// Its name, `tier.fast` or `tunables`.
    pub name: String,
    /// Whether the rest goes on without it.
    pub optional: bool,
    /// Its steps, in order.
    pub steps: Vec<Planned>,
}

/// A step with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Planned {
    /// The step.
    #[serde(serialize_with = "as_words")]
    #[schemars(with = "String")]
    pub step: Step,
    /// Why, in a few words.
    pub reason: String,
    /// The previous value, where the step sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Whether it was done in an earlier run, and still holds; or it is a value that is
    /// as wanted already.
    pub done: bool,
    /// Whether `zmeld up` passes it over: the kernel has no such codec, or has one that comes
    /// before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub passed_over: bool,
}

impl Planned {
    /// Whether it changes the machine.
    pub fn is_open(&self) -> bool {
        !self.done && !self.passed_over
    }

    /// Whether it is a value that was as wanted before.
    pub fn was_so(&self) -> bool {
        matches!(&self.step, Step::SetValue(set) if self.before.as_ref() == Some(&set.value))
    }
}

/// Inputs of a plan besides the configuration.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only these tiers.
    pub only: Option<Vec<String>>,
    /// How many times smaller pages are expected to get, where that was measured.
    pub expected_ratio: Option<f64>,
    /// Whether compressed swap that somebody else set up gives its place to this.
    pub take_over: bool,
    /// Measured rates for `swappiness = "auto"`, where there are any.
    pub swappiness: Option<MeasuredReads>,
    /// Whether areas are switched off for it even where that costs a program.
    pub force: bool,
    /// Whether nothing is set but what the configuration names. An experiment compares
    /// just that; on a machine that is used, what is left out is made to fit, and zram
    /// stands in for a driver that cannot be had.
    pub only_named: bool,
    /// Whether no other driver's device stands in, as where only what is named is set.
    pub no_stand_ins: bool,
    /// State assumed for a recorded step that cannot be inspected.
    pub doubt: OnUnreadable,
    /// Whether what fails in one tier costs no other its place.
    pub at_boot: bool,
}

/// Treatment of a step that cannot be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUnreadable {
    /// The look fails: such a plan can be carried out.
    #[default]
    Fails,
    /// As it is recorded: a plan can be made by an ordinary user.
    Recorded,
}

fn as_words<S: serde::Serializer>(step: &Step, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&step.describe())
}

#[derive(Serialize, schemars::JsonSchema)]
struct ProblemLine {
    /// `error`: `zmeld up` refuses it; `warning`: it works, and will disappoint; `notice`.
    severity: &'static str,
    /// The warning, by the name that `accept` takes; null where it is none.
    trap: Option<&'static str>,
    /// The problem, its place and the way out, in one line.
    text: String,
}

impl ProblemLine {
    fn of(problem: &Finding) -> ProblemLine {
        ProblemLine {
            severity: match problem.severity {
                Severity::Critical => "error",
                Severity::Warning => "warning",
                Severity::Notice => "notice",
            },
            trap: problem.id.map(|it| it.name()),
            text: problem.to_string(),
        }
    }
}

fn as_lines<S: serde::Serializer>(problems: &[Finding], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(problems.iter().map(ProblemLine::of))
}

impl PlanPart {
    /// The name of a tier's part.
    pub fn of_tier(tier: &str) -> String {
        format!("tier.{tier}")
    }

    /// The name that a tier's device is on record by while another takes its place.
    pub(crate) fn replaced(name: &str) -> String {
        format!("{name}.replaced")
    }

    /// The part's name without what a replaced device, or what is left of one, has behind it.
    pub fn current(name: &str) -> &str {
        name.trim_end_matches(".replaced").trim_end_matches(".left")
    }

    /// Recorded steps as parts of a plan.
    pub(crate) fn recorded(records: &[Record]) -> Vec<PlanPart> {
        let mut parts: Vec<PlanPart> = Vec::new();
        for record in records {
            let planned = Planned {
                step: record.step.clone(),
                reason: String::new(),
                before: record.before.clone(),
                done: record.done,
                passed_over: false,
            };
            match parts.iter_mut().find(|it| it.name == record.group) {
                Some(part) => part.steps.push(planned),
                None => parts.push(PlanPart {
                    name: record.group.clone(),
                    optional: false,
                    steps: vec![planned],
                }),
            }
        }
        parts
    }

    /// Whether a part of that name is a tier's.
    pub fn is_tier(name: &str) -> bool {
        name.starts_with("tier.")
    }
}

/// Gives a device back to its tier, in other records, too, where none takes its place.
pub(crate) fn revive(records: &mut [Record], others: &mut [Record]) {
    let adds = |it: &&Record| matches!(it.step, Step::AddDevice(_));
    let made = records.iter().filter(adds).map(|it| it.group.clone());
    let made: Vec<String> = made.collect();
    for record in records.iter_mut().chain(others) {
        let tier = record.group.strip_suffix(".replaced");
        if let Some(tier) = tier.filter(|tier| !made.iter().any(|it| it == tier)) {
            record.group = tier.to_owned();
        }
    }
}

impl Record {
    /// Whether taking it back changes the value that a step sets, and to what is wanted
    /// then. A value that somebody else has set since is left.
    pub(super) fn puts_back(&self, planned: &Planned) -> Option<bool> {
        let (Step::SetValue(ours), Step::SetValue(wanted)) = (&self.step, &planned.step) else {
            return None;
        };
        let is_ours = planned.before.as_ref() == Some(&ours.value);
        let is_it = ours.path == wanted.path && is_ours;
        is_it.then(|| self.before.as_ref() == Some(&wanted.value))
    }
}

/// What the planning of a tier is given.
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
    /// The drives and files of the tiers so far, each with its tier's part.
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

    /// The steps of a part that were begun in earlier runs.
    pub fn recorded<'b>(&'b self, part: &'b str) -> impl Iterator<Item = &'b Record> {
        self.records
            .iter()
            .filter(move |record| PlanPart::current(&record.group) == part)
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

    pub fn part(self, optional: bool) -> PlanPart {
        PlanPart {
            name: self.name.to_owned(),
            optional,
            steps: self.steps,
        }
    }

    pub fn add(&mut self, step: Step, reason: impl Into<String>) {
        self.add_over(step, reason, None);
    }

    /// A step that sets an attribute of the device that the part added.
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
