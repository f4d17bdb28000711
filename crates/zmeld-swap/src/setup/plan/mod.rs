//! From what is wanted and what is there to steps, each with its reason.
//!
//! A plan is made without changing anything. Steps recorded as done are
//! planned again in the same words, so that comparing the two says what is left
//! to do.

mod compare;
mod disk;
mod ram;
mod stand_in;
pub(crate) mod take_over;
mod tunables;
mod warnings;
mod zswap;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::setup::error::Error;
use crate::setup::journal::State;
use crate::setup::step::{Record, Step};
use crate::setup::steps::{self, SetAttribute};
use zmeld_config::advice::machine::Machine;
use zmeld_config::{Config, Finding, FindingId, Kind, Severity, Tier};
use zmeld_linux::swaps::is_swapon_busybox;
use zmeld_linux::{Host, HostError};

pub(crate) use compare::{compare, holds};
pub use compare::{Leaving, OnUnreadable};
pub use disk::in_plain;
pub use stand_in::StandIn;
pub use tunables::Measured;

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
    pub fn new(group: &str, planned: &Planned) -> Done {
        let mut done = Done::step(group, &planned.step);
        if matches!(planned.step, Step::SetValue(_)) {
            done.words += &format!(" ({})", planned.reason);
        }
        done
    }

    fn step(group: &str, step: &Step) -> Done {
        Done {
            group: group.to_owned(),
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

/// The groups of tiers that cannot be planned, each with what keeps it from that.
pub type Refused = Vec<(String, Error)>;

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
    pub swappiness: Option<Measured>,
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
    /// The name of a tier's group.
    pub fn of_tier(tier: &str) -> String {
        format!("tier.{tier}")
    }

    /// The name that a tier's device is on record by while another takes its place.
    pub(crate) fn replaced(name: &str) -> String {
        format!("{name}.replaced")
    }

    /// The name of its group; of such a device, and of what is left of one, that of its tier.
    pub fn current(name: &str) -> &str {
        name.trim_end_matches(".replaced").trim_end_matches(".left")
    }

    /// Recorded steps as parts of a plan.
    pub(crate) fn recorded(records: &[Record]) -> Vec<PlanPart> {
        let mut groups: Vec<PlanPart> = Vec::new();
        for record in records {
            let planned = Planned {
                step: record.step.clone(),
                reason: String::new(),
                before: record.before.clone(),
                done: record.done,
                passed_over: false,
            };
            match groups.iter_mut().find(|it| it.name == record.group) {
                Some(group) => group.steps.push(planned),
                None => groups.push(PlanPart {
                    name: record.group.clone(),
                    optional: false,
                    steps: vec![planned],
                }),
            }
        }
        groups
    }

    /// Whether a group of that name is a tier's.
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
    fn puts_back(&self, planned: &Planned) -> Option<bool> {
        let (Step::SetValue(ours), Step::SetValue(wanted)) = (&self.step, &planned.step) else {
            return None;
        };
        let is_ours = planned.before.as_ref() == Some(&ours.value);
        let is_it = ours.path == wanted.path && is_ours;
        is_it.then(|| self.before.as_ref() == Some(&wanted.value))
    }
}

impl Plan {
    /// Plans. Reads the machine and changes nothing.
    ///
    /// # Errors
    /// Problems of tiers that are not optional: a device that is missing,
    /// a place that cannot hold a swap file.
    pub fn new(
        host: &Host,
        config: &Config,
        state: Option<&State>,
        options: &Options,
    ) -> Result<Plan, Error> {
        let (refused, plan) = Plan::make(host, config, state, options)?;
        Error::planned(refused).map_or(plan, Err)
    }

    /// Plans, too, where some tiers cannot be: those are left as they are. The groups of
    /// those, each with what keeps it from being planned; and the plan of the others.
    ///
    /// # Errors
    /// When the machine cannot be read; a name in `only` that no tier has.
    pub fn make(
        host: &Host,
        config: &Config,
        state: Option<&State>,
        options: &Options,
    ) -> Result<(Refused, Result<Plan, Error>), Error> {
        let machine = Machine::read(host)?;
        for name in options.only.iter().flatten() {
            if config.tier(name).is_none() {
                let names: Vec<&str> = config.tiers.iter().map(|tier| tier.name.as_str()).collect();
                return Err(Error::Refused {
                    what: format!(
                        "there is no tier \"{name}\": there are {}",
                        names.join(", ")
                    ),
                });
            }
        }
        let (effective, mut stand_ins) = match options.only_named || options.no_stand_ins {
            true => (config.clone(), Vec::new()),
            false => stand_in::with_stand_ins(host, config, &machine, state),
        };
        stand_ins.retain(|it| {
            let only = options.only.as_ref();
            only.is_none_or(|only| only.contains(&it.tier))
        });
        let is_meant = config.accept.contains(&FindingId::StandIn);
        let told = stand_ins.iter().filter(|_| !is_meant);
        let told = told.map(|it| Finding {
            about: format!("tier.{}.kind", it.tier),
            ..it.finding("zmeld up")
        });
        let problems = told.collect();
        let mut draft = Planner {
            host,
            config: &effective,
            asked: config,
            machine: &machine,
            records: state.map_or(&[], |state| &state.records),
            old: state.map(|state| &state.config),
            options,
            groups: Vec::new(),
            skipped: Vec::new(),
            places: Vec::new(),
            new_files: BTreeMap::new(),
            problems,
        };
        let mut refused = Vec::new();
        for (tier, priority) in areas(&effective) {
            if draft.asked_for(tier) {
                if let Err(err) = draft.tier(tier, priority) {
                    refused.push((PlanPart::of_tier(tier.name.as_str()), err));
                }
            }
        }
        // A refused part is left as it is, and nothing else is said of it.
        let narrowed = (!refused.is_empty()).then(|| Options {
            only: Some(named(config, options, &refused)),
            ..options.clone()
        });
        draft.options = narrowed.as_ref().unwrap_or(options);
        let result = draft.tunables().and_then(|()| draft.take_over());
        if let Err(err) = result {
            return Ok((refused, Err(err)));
        }
        if !options.only_named {
            let lacking = crate::observe::unsupported::lacks(draft.machine, draft.config);
            draft.problems.extend(lacking);
        }
        draft.warnings();
        let only = draft.options.only.clone();
        let Planner {
            groups,
            skipped,
            problems,
            ..
        } = draft;
        let mut plan = Plan {
            config: config.clone(),
            groups,
            skipped,
            problems,
            only,
            undone: Vec::new(),
            leaving: Vec::new(),
            records: state.map_or(Vec::new(), |state| state.records.clone()),
            removed: Vec::new(),
            replaced: Vec::new(),
            stand_ins,
            options: options.clone(),
            machine,
        };
        let compared = plan.compare(host, options.doubt);
        let limits = plan.limits_in_use(host);
        plan.problems.extend(limits);
        Ok((refused, compared.map(|()| plan)))
    }

    /// [`Plan::make`] for who only looks: a step that cannot be looked at counts as recorded.
    pub fn look(
        host: &Host,
        config: &Config,
        state: Option<&State>,
        take_over: bool,
    ) -> (Refused, Result<Plan, Error>) {
        let options = Options {
            take_over,
            doubt: OnUnreadable::Recorded,
            ..Options::default()
        };
        Plan::make(host, config, state, &options).unwrap_or_else(|err| (Vec::new(), Err(err)))
    }

    /// Refuses a plan that has a warning.
    ///
    /// # Errors
    /// The first one, and how many more there are.
    pub fn refuse(&self) -> Result<(), Error> {
        let mut errors = self
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Critical);
        let Some(first) = errors.next() else {
            return Ok(());
        };
        let more = match errors.count() {
            0 => String::new(),
            count => format!(" (and {count} more: zmeld plan lists them)"),
        };
        Err(Error::Refused {
            what: format!("{first}{more}"),
        })
    }

    /// Whether the plan decides about a recorded group that is not in it: with `only`,
    /// other tiers are left as they are, and so is what was done for them.
    pub fn speaks_of(&self, group: &str) -> bool {
        let Some(only) = &self.only else {
            return true;
        };
        match PlanPart::current(group) {
            // Of the tiers, those in RAM need it, and zswap does not suffer it.
            ram::ZSWAP_OFF => {
                let mut tiers = only.iter().filter_map(|name| self.config.tier(name));
                tiers.any(|tier| !tier.kind.is_on_disk())
            }
            take_over::GROUP => false,
            group if PlanPart::is_tier(group) => {
                only.iter().any(|it| group == PlanPart::of_tier(it))
            }
            _ => true,
        }
    }

    /// Whether everything that is planned is in place, and nothing else.
    pub fn is_done(&self) -> bool {
        let mut steps = self.groups.iter().flat_map(|group| &group.steps);
        steps.all(|planned| planned.done) && self.undone.is_empty()
    }
}

/// The tiers that are asked for and can be planned.
fn named(config: &Config, options: &Options, refused: &Refused) -> Vec<String> {
    let all = config.tiers.iter().map(|tier| tier.name.to_string());
    let is_asked = |name: &String| options.only.as_ref().is_none_or(|only| only.contains(name));
    let is_refused = |name: &String| refused.iter().any(|it| it.0 == PlanPart::of_tier(name));
    all.filter(|name| is_asked(name) && !is_refused(name))
        .collect()
}

/// The tiers with the priorities of their areas; zswap, which is none, last:
/// it takes pages as soon as it is switched on, and needs somewhere to write.
fn areas(config: &Config) -> Vec<(&Tier, i16)> {
    let in_front = config
        .tiers
        .iter()
        .filter(|it| it.kind.kind().is_in_front());
    let areas = config.areas().into_iter();
    areas.chain(in_front.map(|tier| (tier, 0))).collect()
}

pub(crate) struct Planner<'a> {
    host: &'a Host,
    /// The configuration to plan: the requested one, with stand-ins.
    config: &'a Config,
    asked: &'a Config,
    machine: &'a Machine,
    records: &'a [Record],
    old: Option<&'a Config>,
    options: &'a Options,
    groups: Vec<PlanPart>,
    skipped: Vec<Skipped>,
    /// The drives and files of the tiers so far, each with its tier's group.
    places: Vec<(PathBuf, String)>,
    /// Bytes of the swap files that are to be made, by file system.
    new_files: BTreeMap<u64, u64>,
    problems: Vec<Finding>,
}

impl Planner<'_> {
    fn asked_for(&self, tier: &Tier) -> bool {
        match &self.options.only {
            None => true,
            Some(only) => only.iter().any(|name| name == tier.name.as_str()),
        }
    }

    fn tier(&mut self, tier: &Tier, priority: i16) -> Result<(), Error> {
        let name = PlanPart::of_tier(tier.name.as_str());
        let mut steps = Steps::new(&name, self.records);
        let result = match &tier.kind {
            Kind::Ram(device) => ram::plan(device, self, tier, priority, &mut steps),
            Kind::Zswap(zswap) => zswap::plan(zswap, self, &mut steps),
            Kind::Disk(disk) => disk::plan(disk, self, tier, priority, &mut steps),
        };
        let mut all = steps.steps.iter();
        let is_swap = all.any(|it| matches!(it.step, Step::SwapOn(_)));
        let result = match is_swap && is_swapon_busybox(self.host) {
            true => result.and(Err(HostError::NotInstalled {
                program: "swapon of util-linux (this is BusyBox's)".to_owned(),
                package: "util-linux",
            }
            .into())),
            false => result,
        };
        match result {
            Ok(()) if steps.steps.is_empty() => {}
            Ok(()) => self.groups.push(steps.group(tier.swap.optional)),
            Err(err) if tier.swap.optional => self.skipped.push(Skipped {
                group: name,
                reason: err.to_string(),
            }),
            Err(err) => return Err(err),
        }
        Ok(())
    }

    fn own_areas(&self) -> Vec<PathBuf> {
        self.areas_of(self.records.iter())
    }

    /// Paths of the areas that these records switched on, where they are on.
    fn areas_of<'b>(&'b self, records: impl Iterator<Item = &'b Record> + 'b) -> Vec<PathBuf> {
        let areas = steps::areas(self.host, self.records, records);
        areas.flatten().map(|area| area.path).collect()
    }

    /// The steps of a group that were begun in earlier runs.
    fn recorded<'b>(&'b self, group: &'b str) -> impl Iterator<Item = &'b Record> {
        self.records
            .iter()
            .filter(move |record| PlanPart::current(&record.group) == group)
    }
}

pub(crate) struct Steps<'a> {
    name: &'a str,
    records: &'a [Record],
    steps: Vec<Planned>,
}

impl<'a> Steps<'a> {
    fn new(name: &'a str, records: &'a [Record]) -> Steps<'a> {
        Steps {
            name,
            records,
            steps: Vec::new(),
        }
    }

    fn group(self, optional: bool) -> PlanPart {
        PlanPart {
            name: self.name.to_owned(),
            optional,
            steps: self.steps,
        }
    }

    fn add(&mut self, step: Step, reason: impl Into<String>) {
        self.add_over(step, reason, None);
    }

    /// A step that sets an attribute of the device that the group added.
    fn set(&mut self, attribute: &str, value: impl ToString, reason: impl Into<String>) {
        self.add(
            Step::SetAttribute(SetAttribute::new(attribute, value)),
            reason,
        );
    }

    /// A step that replaces a value: the one that an earlier run found counts.
    fn add_over(&mut self, step: Step, reason: impl Into<String>, before: Option<String>) {
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
    fn pass_over(&mut self, begin: usize, is_so: bool) {
        for planned in &mut self.steps[begin..] {
            planned.passed_over = is_so;
        }
    }
}
