//! From what is wanted and what is there to steps, each with its reason.
//!
//! A plan is made without changing anything. Steps recorded as done are
//! planned again in the same words, so that comparing the two says what is left
//! to do.

mod compare;
mod disk;
mod parts;
pub(crate) mod ram;
mod stand_in;
pub(crate) mod take_over;
pub mod tunables;
mod warnings;
mod zswap;

use std::collections::BTreeMap;

use crate::setup::error::{Error, Refused};
use crate::setup::journal::State;
use crate::setup::step::Step;
use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::unsupported;
use zmeld_config::{Config, Finding, FindingId, Kind, RamDriver, Severity, Tier};
use zmeld_linux::swaps::is_swapon_busybox;
use zmeld_linux::{Host, HostError};

pub(crate) use compare::{compare, holds};
pub use disk::in_plain;
pub(crate) use parts::revive;
use parts::{areas, Planner, Steps};
pub use parts::{Done, Leaving, OnUnreadable, Options, Plan, PlanPart, Planned, Skipped};
pub use stand_in::StandIn;

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

    /// Plans, too, where some tiers cannot be: those are left as they are. The parts of
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
        if !options.only_named {
            let asked_for = draft.config.in_ram().filter(|it| draft.asked_for(it.0));
            let mut lacking = unsupported::lacks(draft.machine, asked_for);
            // Of a refused part, what is mended beside that.
            let is_refused = |about: &str| {
                let mut groups = refused.iter().map(|(group, _)| group);
                groups.any(|it| about.starts_with(&format!("{it}.")))
            };
            lacking.retain(|it| it.about.ends_with(".codec") || !is_refused(&it.about));
            draft.problems.extend(lacking);
        }
        // It is left as it is, and nothing else is said of it.
        let narrowed = (!refused.is_empty()).then(|| Options {
            only: Some(named(config, options, &refused)),
            ..options.clone()
        });
        draft.options = narrowed.as_ref().unwrap_or(options);
        let result = draft.tunables().and_then(|()| draft.take_over());
        if let Err(err) = result {
            return Ok((refused, Err(err)));
        }
        draft.warnings();
        let only = draft.options.only.clone();
        let Planner {
            groups: parts,
            skipped,
            problems,
            ..
        } = draft;
        let mut plan = Plan {
            config: config.clone(),
            groups: parts,
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
    ) -> (Refused, Result<Plan, Error>) {
        let options = Options {
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

    /// Whether the plan decides about a recorded part that is not in it: with `only`,
    /// other tiers are left as they are, and so is what was done for them.
    pub fn speaks_of(&self, part: &str) -> bool {
        let Some(only) = &self.only else {
            return true;
        };
        match PlanPart::current(part) {
            // Of the tiers, those in RAM need it, and zswap does not suffer it.
            ram::ZSWAP_OFF => {
                let mut tiers = only.iter().filter_map(|name| self.config.tier(name));
                tiers.any(|tier| !tier.kind.is_on_disk())
            }
            take_over::PART => false,
            part if PlanPart::is_tier(part) => only.iter().any(|it| part == PlanPart::of_tier(it)),
            _ => true,
        }
    }

    /// Whether everything that is planned is in place, and nothing else.
    pub fn is_done(&self) -> bool {
        let mut steps = self.groups.iter().flat_map(|part| &part.steps);
        steps.all(|planned| planned.done) && self.undone.is_empty()
    }

    /// Whether zswap is on now, and would be off.
    pub fn switches_zswap_off(&self) -> bool {
        let mut parts = self.groups.iter().filter(|it| it.name == ram::ZSWAP_OFF);
        parts.any(|part| part.steps.iter().any(Planned::is_open))
    }

    /// The tiers that compress and are on.
    pub fn compressed_on(&self) -> impl Iterator<Item = &Tier> {
        let is_on = |part: &&PlanPart| {
            let mut steps = part.steps.iter();
            steps.any(|planned| planned.done && planned.step.switches_on())
        };
        let names = self.groups.iter().filter(is_on).map(|part| &part.name);
        let tiers = names.filter_map(|name| self.config.tier(name.strip_prefix("tier.")?));
        tiers.filter(|tier| !tier.kind.is_on_disk())
    }

    /// Whether zram could stand in for what failed so.
    pub(crate) fn is_dispensable(&self, err: &Error) -> bool {
        let is_zmeld = |(module, _): (&str, &str)| module == RamDriver::Zmeld.name();
        !(self.options.only_named || self.options.no_stand_ins)
            && err.refused_module().is_some_and(is_zmeld)
            && stand_in::has_zram(&self.machine)
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

impl Planner<'_> {
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
            Ok(()) => self.groups.push(steps.part(tier.swap.optional)),
            Err(err) if tier.swap.optional => self.skipped.push(Skipped {
                group: name,
                reason: err.to_string(),
            }),
            Err(err) => return Err(err),
        }
        Ok(())
    }
}
