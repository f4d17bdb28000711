//! Applying a plan, and taking it back.
//!
//! Steps that a [`Plan`] finds in place are kept, other records are taken back, last first,
//! and the plan's remaining steps are applied in order. The device that a new one replaces
//! goes when all of them are ([`Plan::replaced`]): only where its swapoff fails does the run.
//! So the same plan changes nothing, a changed one applies the difference, and a
//! run that was killed is carried on.
//!
//! Every record says which run began it. A run that fails takes back what it began
//! itself, and puts back what it had taken back of earlier ones.
//!
//! [`down`] takes the records back, last first.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::setup::context::{Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::event::{Event, Listener};
use crate::setup::identity::Identity;
use crate::setup::journal::Journal;
use crate::setup::plan::{
    compare, holds, revive, take_over, OnUnreadable, Plan, PlanPart, Planned,
};
pub use crate::setup::plan::{Done, Skipped, StandIn};
use crate::setup::step::{Record, Step};
use crate::setup::steps;
use crate::setup::swapoff_check::{self, PlannedCapacity};
use zmeld_config::{Config, Kind};
use zmeld_linux::Host;

/// Outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// Steps that were applied, in order.
    pub applied: Vec<Done>,
    /// Steps of earlier runs that were taken back, in order.
    pub undone: Vec<Done>,
    /// Steps of earlier runs that were found in place.
    pub kept: usize,
    /// Optional parts of the plan that failed.
    pub skipped: Vec<Skipped>,
    /// Tiers for which another driver's device stands in.
    pub stand_ins: Vec<StandIn>,
    /// Remains of steps that were taken back, in words.
    pub left: Vec<String>,
    /// Steps with nothing of zmeld's to take back any more: what they were about is
    /// somebody else's by now, and was left.
    pub not_undone: Vec<Done>,
}

/// The steps that [`down`] is to take back, and at what cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Removal<'a> {
    /// Only these tiers.
    pub only: Option<&'a [String]>,
    /// Even where pages do not fit back: a program may be killed for it.
    pub force: bool,
    /// Swap files stay, with their headers: what stops a unit does not take back what is
    /// meant to outlive a boot.
    pub keep_files: bool,
}

impl Report {
    /// Whether the machine is as it was before the run.
    pub fn is_unchanged(&self) -> bool {
        self.applied.is_empty() && self.undone.is_empty()
    }
}

/// Applies a plan that was made of this journal; where the kernel does not take zmeld's
/// module, once more with zram in its place. If a step fails, or `stop` is set, what
/// this run has applied is taken back, and what it took back for it is applied again.
///
/// # Errors
/// The step that failed, and what became of the others; a warning that the plan
/// walks into; pages that do not fit back into RAM or into their control group.
pub fn up(
    host: &Host,
    journal: &mut Journal,
    plan: &Plan,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<Report, Error> {
    let err = match apply(host, journal, plan, stop, listener) {
        Err(err) if plan.is_dispensable(&err) => err,
        result => return result,
    };
    let said = err.refused_module().map(|it| it.1.to_owned());
    // Without records there is nothing to write down yet: the next step does.
    journal.note(|state| state.refused = said)?;
    let options = &plan.options;
    let (refused, again) = Plan::make(host, &plan.config, Some(journal.state()), options)?;
    let again = match options.at_boot {
        true => again?,
        false => Error::planned(refused).map_or(again, Err)?,
    };
    for stand_in in &again.stand_ins {
        let text = format!("tier.{}: {}", stand_in.tier, stand_in.words());
        listener(Event::Note { text: &text });
    }
    apply(host, journal, &again, stop, listener)
}

fn apply(
    host: &Host,
    journal: &mut Journal,
    plan: &Plan,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<Report, Error> {
    debug_assert_eq!(plan.records.len(), journal.records().len());
    may_go_up(host, plan, listener)?;
    let mut run = Run::begin(host, journal, stop, plan.options.force, listener);
    run.only_named = plan.options.only_named;
    run.report.kept = plan.records.len() - plan.removed.len() - plan.replaced.len();
    run.report.stand_ins = plan.stand_ins.clone();
    if let Err((part, err)) = run.carry_out(plan) {
        return Err(run.back_out(err, &part));
    }
    run.finish(plan.config.clone())?;
    Ok(run.report)
}

/// Whether a plan may be applied: whether the pages of what it switches off fit back.
///
/// # Errors
/// Checks of [`up`] before it changes anything.
pub fn may_go_up(host: &Host, plan: &Plan, listener: &mut Listener<'_>) -> Result<(), Error> {
    plan.refuse()?;
    let areas = areas_of(host, &plan.records, &plan.removed)?;
    let force = plan.options.force;
    swapoff_check::check(host, &areas, PlannedCapacity::default(), force, listener)?;
    // Areas that the plan takes over are switched off once zmeld's own are on, to which their pages
    // may go. What has come meanwhile is checked again by then.
    let (mut all, coming) = taken_over(host, plan)?;
    all.extend(areas_of(host, &plan.records, &plan.replaced)?);
    if !all.is_empty() {
        // Pages of the areas removed before are in RAM by then.
        all.extend(areas);
        swapoff_check::check(host, &all, coming, force, listener)?;
    }
    Ok(())
}

/// The areas of others that the plan switches off, and what can be in its own by then.
fn taken_over(host: &Host, plan: &Plan) -> Result<(Vec<PathBuf>, PlannedCapacity), Error> {
    let mut others = Vec::new();
    let mut coming = PlannedCapacity::default();
    let ram = plan.machine.ram_bytes;
    for part in &plan.groups {
        let mut new = false;
        for planned in part.steps.iter().filter(|planned| !planned.done) {
            if let Step::SwapOff(off) = &planned.step {
                others.extend(host.swap_on(&off.path)?.map(|swap| swap.path));
            }
            new |= matches!(planned.step, Step::SwapOn(_));
        }
        let name = part.name.strip_prefix("tier.").filter(|_| new);
        if let Some(tier) = name.and_then(|name| plan.config.tier(name)) {
            match &tier.kind {
                Kind::Ram(device) => {
                    let size = device.size.bytes(ram);
                    let limit = device.memory_limit;
                    let limit = limit.map_or(u64::MAX, |it| it.bytes(ram));
                    coming.in_ram_bytes = coming.in_ram_bytes.saturating_add(size.min(limit));
                    coming.tables_bytes += device.slot_table().bytes(size);
                }
                Kind::Zswap(_) => {}
                // How large a drive is shows when it is on.
                Kind::Disk(_) => coming.on_disk_bytes = u64::MAX,
            }
        }
    }
    Ok((others, coming))
}

/// The indexes of the records that [`down`] takes back, ascending.
///
/// # Errors
/// Checks of [`down`] before it changes anything.
pub fn may_go_down(
    host: &Host,
    records: &[Record],
    removal: Removal<'_>,
    listener: &mut Listener<'_>,
) -> Result<Vec<usize>, Error> {
    let mut leaving = leaving(records, removal.only);
    leaving.retain(|&index| !(removal.keep_files && is_of_file(&records[index].step)));
    let areas = areas_of(host, records, &leaving)?;
    swapoff_check::check(
        host,
        &areas,
        PlannedCapacity::default(),
        removal.force,
        listener,
    )?;
    Ok(leaving)
}

/// Takes back what was set up: all of it, or the tiers of `only`; with the last
/// tier goes the rest.
///
/// # Errors
/// Pages that do not fit back into RAM or into their control group, before
/// anything is changed; a step that cannot be taken back, after which `down` can
/// be tried again.
pub fn down(
    host: &Host,
    journal: &mut Journal,
    removal: Removal<'_>,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<Report, Error> {
    let leaving = may_go_down(host, journal.records(), removal, listener)?;
    let mut run = Run::begin(host, journal, stop, removal.force, listener);
    if !leaving.is_empty() {
        // A full /run does not stop the removal: a state that cannot be written tells of more than
        // there is, which does no harm.
        if let Err(err) = run.journal.note(|state| state.complete = false) {
            run.tell_unwritten(&err);
        }
    }
    let mut failed: Vec<(String, Error)> = Vec::new();
    for &index in leaving.iter().rev() {
        let part = &run.journal.records()[index].group;
        // A step left in place needs the earlier ones of its part, and those of no tier.
        let is_needed = |(failed, _): &(String, Error)| {
            PlanPart::current(failed) == PlanPart::current(part) || !PlanPart::is_tier(part)
        };
        if failed.iter().any(is_needed) {
            continue;
        }
        let part = part.clone();
        let result = match run.is_stopped() {
            true => Err(Error::Interrupted {
                after: String::new(),
            }),
            false => run.take_back(index),
        };
        match result {
            Ok(()) => {}
            Err(Error::Interrupted { .. }) => {
                failed
                    .iter()
                    .for_each(|(part, err)| run.tell_left(part, err));
                return Err(Error::Interrupted {
                    after: "the rest is still set up: zmeld down carries on".to_owned(),
                });
            }
            Err(err) => {
                // The first is what it ends with.
                if !failed.is_empty() {
                    run.tell_left(&part, &err);
                }
                failed.push((part, err));
            }
        }
    }
    if let Some((_, err)) = failed.into_iter().next() {
        return Err(err);
    }
    run.report.left = std::mem::take(&mut run.remains);
    run.report.kept = run.journal.records().len();
    let config = run.journal.state().config.clone();
    match run.finish(config) {
        // Some of it stays set up, and is written down.
        Err(err) if !run.journal.records().is_empty() => run.tell_unwritten(&err),
        result => result?,
    }
    Ok(run.report)
}

/// Whether a step makes a swap file, or its header.
fn is_of_file(step: &Step) -> bool {
    match step {
        Step::CreateFile(_) => true,
        Step::MakeSwap(make) => make.device.path().is_some_and(|it| !it.starts_with("/dev")),
        _ => false,
    }
}

/// The indexes of the records that [`down`] takes back, ascending.
fn leaving(records: &[Record], only: Option<&[String]>) -> Vec<usize> {
    let named = |record: &Record| {
        let part = PlanPart::current(&record.group);
        only.is_none_or(|only| only.iter().any(|tier| part == PlanPart::of_tier(tier)))
    };
    let any_tier_stays = records
        .iter()
        .any(|record| PlanPart::is_tier(&record.group) && !named(record));
    (0..records.len())
        .filter(|&index| {
            let record = &records[index];
            named(record) || !any_tier_stays && !PlanPart::is_tier(&record.group)
        })
        .collect()
}

struct Run<'a> {
    host: &'a Host,
    journal: &'a mut Journal,
    listener: &'a mut Listener<'a>,
    /// None while it goes back, which is not to be stopped.
    stop: Option<&'a AtomicBool>,
    /// Not while it goes back, which nobody asked to force.
    force: bool,
    only_named: bool,
    number: u64,
    found: Vec<Record>,
    /// Records of those that it took back, in the order in which they were applied.
    removed: Vec<Record>,
    /// The parts of which it took something back.
    touched: Vec<String>,
    /// Whether what the last step was about was left, being somebody else's.
    was_left: bool,
    /// Remains of steps that were taken back, in words.
    remains: Vec<String>,
    /// Whether something of a part that failed could not be taken back.
    is_left: bool,
    report: Report,
}

impl<'a> Run<'a> {
    fn begin(
        host: &'a Host,
        journal: &'a mut Journal,
        stop: &'a AtomicBool,
        force: bool,
        listener: &'a mut Listener<'a>,
    ) -> Run<'a> {
        let records = journal.records();
        Run {
            host,
            stop: Some(stop),
            force,
            only_named: false,
            number: records.iter().map(|it| it.run).max().unwrap_or(0) + 1,
            found: records.iter().filter(|it| it.done).cloned().collect(),
            removed: Vec::new(),
            touched: Vec::new(),
            was_left: false,
            remains: Vec::new(),
            is_left: false,
            report: Report::default(),
            journal,
            listener,
        }
    }
}

impl Run<'_> {
    fn tell_unwritten(&mut self, err: &Error) {
        let text = format!("{err}: taking back goes on");
        (self.listener)(Event::Note { text: &text });
    }

    fn tell_left(&mut self, part: &str, err: &Error) {
        let text = format!("{part}: {err}");
        (self.listener)(Event::Note { text: &text });
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::SeqCst))
    }

    fn context<T>(&mut self, part: &str, reversible: impl FnOnce(&mut StepContext<'_>) -> T) -> T {
        let records = self.journal.records().to_vec();
        let journal = &mut *self.journal;
        // Only a step that is applied has something to say, and its record is the last.
        let mut remember = |identity: Identity| {
            journal.change(|state| {
                if let Some(record) = state.records.last_mut() {
                    record.identity = Some(identity);
                }
            })
        };
        let mut context = StepContext {
            host: self.host,
            records: &records,
            group: part,
            run: self.number,
            listener: &mut *self.listener,
            stop: self.stop,
            force: self.force,
            only_named: self.only_named,
            remember: Some(&mut remember),
            made: None,
            is_left: false,
            remains: Vec::new(),
        };
        let result = reversible(&mut context);
        self.was_left = context.is_left;
        for text in context.remains {
            if !self.remains.contains(&text) {
                self.remains.push(text);
            }
        }
        result
    }

    /// Takes back what the plan does not want, and applies the rest of it. An error
    /// comes with the part of the plan.
    fn carry_out(&mut self, plan: &Plan) -> Result<(), (String, Error)> {
        if !plan.removed.is_empty() || !plan.replaced.is_empty() {
            let noted = self.journal.change(|state| {
                state.complete = false;
                state.records.clone_from(&plan.records);
            });
            noted.map_err(|err| (String::from("state"), err))?;
            self.found = plan.records.clone();
            self.found.retain(|it| it.done);
        }
        for &index in plan.removed.iter().rev() {
            self.give_back(index)?;
        }
        let mut is_short = false;
        for part in &plan.groups {
            // An area stays on if the tier that was to take its place failed.
            if part.name == take_over::PART && is_short {
                continue;
            }
            let result = match self.apply_part(part) {
                Err(err)
                    if (part.optional || plan.options.at_boot && PlanPart::is_tier(&part.name))
                        && !matches!(err, Error::Interrupted { .. })
                        && !plan.is_dispensable(&err) =>
                {
                    is_short |= !part.optional;
                    self.give_up(part, &err)
                }
                result => result,
            };
            result.map_err(|err| (part.name.clone(), err))?;
        }
        self.retire(plan)
    }

    /// Takes back the devices whose places others have taken.
    fn retire(&mut self, plan: &Plan) -> Result<(), (String, Error)> {
        for &index in plan.replaced.iter().rev() {
            let record = &plan.records[index];
            let part = PlanPart::current(&record.group);
            let is_kept = self.report.skipped.iter().any(|it| it.group == part);
            let at = self.journal.records().iter().position(|it| it == record);
            let Some(at) = at.filter(|_| !is_kept) else {
                continue;
            };
            self.give_back(at)?;
        }
        Ok(())
    }

    /// Takes a record back for the plan; a device that another is in the place of may stay.
    fn give_back(&mut self, index: usize) -> Result<(), (String, Error)> {
        let Record {
            group: part, step, ..
        } = self.journal.records()[index].clone();
        match self.take_back(index) {
            // No page is in it any more.
            Err(err) if PlanPart::current(&part) != part && matches!(step, Step::AddDevice(_)) => {
                self.is_left = true;
                self.tell_left(PlanPart::current(&part), &err);
                Ok(())
            }
            result => result.map_err(|err| (part, err)),
        }
    }

    fn apply_part(&mut self, part: &PlanPart) -> Result<(), Error> {
        for (at, planned) in part.steps.iter().enumerate() {
            // Two codecs of a list may have the same parameters.
            let count = part.steps[..=at].iter();
            let count = count.filter(|it| it.step == planned.step).count();
            let is_it = |it: &&Record| it.group == part.name && it.step == planned.step;
            if self.journal.records().iter().filter(is_it).count() >= count {
                continue;
            }
            if self.is_stopped() {
                return Err(Error::Interrupted {
                    after: String::new(),
                });
            }
            self.apply(&part.name, planned)?;
        }
        Ok(())
    }

    fn apply(&mut self, part: &str, planned: &Planned) -> Result<(), Error> {
        let step = &planned.step;
        (self.listener)(Event::Applying { group: part, step });
        let found = self.context(part, |context| step.reversible().before(context));
        let (before, identity) = found?;
        let record = Record {
            group: part.to_owned(),
            step: step.clone(),
            done: false,
            before,
            outcome: None,
            identity,
            run: self.number,
        };
        self.journal.change(|state| {
            state.complete = false;
            state.records.push(record.clone());
        })?;
        let outcome = self.context(part, |context| {
            let applied = step.reversible().apply(context, &record);
            applied.map(|()| context.made.take())
        })?;
        self.journal.note(|state| {
            if let Some(record) = state.records.last_mut() {
                record.outcome = outcome;
                record.done = true;
            }
        })?;
        if record.is_change() {
            self.report.applied.push(Done::new(part, planned));
        }
        Ok(())
    }

    fn take_back(&mut self, index: usize) -> Result<(), Error> {
        let record = self.journal.records()[index].clone();
        let part = record.group.clone();
        self.touched.push(part.clone());
        (self.listener)(Event::Undoing {
            group: &part,
            step: &record.step,
        });
        // From here on it may hold in part only: whoever comes after a kill must
        // not take it for done. That it cannot be written must not keep anybody
        // from going back.
        let _ = self.journal.note(|state| state.records[index].done = false);
        let undone = self.context(&part, |context| {
            record.step.reversible().undo(context, &record)
        });
        if let Err(err) = undone {
            let _ = self
                .journal
                .note(|state| state.records[index].done = record.done);
            return Err(err);
        }
        // That it cannot be written down does no harm: what is taken back twice
        // is found to be gone.
        let _ = self.journal.note(|state| drop(state.records.remove(index)));
        self.tell_undone(&record);
        // A step unfinished when its run ended has never worked: it is not put back.
        if record.done && record.run != self.number {
            self.removed.insert(0, record);
        }
        Ok(())
    }

    /// Puts down what was taken back. Where a device or a mapping is somebody else's by
    /// now, what was done to zmeld's went with that.
    fn tell_undone(&mut self, record: &Record) {
        if !record.is_change() {
            return;
        }
        let done = Done::of(record);
        if !self.was_left {
            self.report.undone.push(done);
            return;
        }
        if matches!(record.step, Step::AddDevice(_) | Step::OpenCrypt(_)) {
            let undone = std::mem::take(&mut self.report.undone).into_iter();
            let (gone, rest): (Vec<_>, _) = undone.partition(|it| it.group == done.group);
            self.report.undone = rest;
            self.report.not_undone.extend(gone);
        }
        self.report.not_undone.push(done);
    }

    /// Takes back all of an optional part that failed, but for the device that it was to
    /// replace, and goes on. A step that cannot be taken back costs no other part its place
    /// either.
    fn give_up(&mut self, part: &PlanPart, err: &Error) -> Result<(), Error> {
        let count = self.journal.records().len();
        let force = std::mem::take(&mut self.force);
        let mut taken_back = Ok(());
        let old = PlanPart::replaced(&part.name);
        let has_old = self.journal.records().iter().any(|it| it.group == old);
        for index in (0..count).rev() {
            let record = &self.journal.records()[index];
            let is_shared = has_old && matches!(record.step, Step::LoadModule(_));
            if taken_back.is_ok() && record.group == part.name && !is_shared {
                taken_back = self.take_back(index);
            }
        }
        self.force = force;
        let mut reason = err.to_string();
        match taken_back {
            Err(Error::Interrupted { after }) => return Err(Error::Interrupted { after }),
            Err(second) => {
                self.is_left = true;
                reason += &format!(
                    "; and going back stopped at: {second}; zmeld down takes the rest back"
                );
            }
            Ok(()) => {}
        }
        self.report.applied.retain(|done| done.group != part.name);
        self.report.undone.retain(|done| done.group != part.name);
        self.report
            .not_undone
            .retain(|done| done.group != part.name);
        self.report.skipped.push(Skipped {
            group: part.name.clone(),
            reason,
        });
        Ok(())
    }

    /// Takes back what this run applied, and puts back what it removed for it.
    fn back_out(&mut self, err: Error, part: &str) -> Error {
        self.stop = None;
        self.force = false;
        let after = match self.go_back() {
            Ok(()) => self.what_is_missing(),
            Err(second) => {
                self.look_again();
                format!(
                    "and going back stopped at: {second}; {}; what is left is written down, zmeld \
                     down takes it back",
                    self.what_is_missing()
                )
            }
        };
        match err {
            Error::Interrupted { .. } => Error::Interrupted { after },
            err => Error::Step {
                group: part.to_owned(),
                source: Box::new(err),
                after,
            },
        }
    }

    /// Takes back what this run applied, and compares what was recorded before it of the
    /// parts that it touched with what is there. Steps that it had taken back are written down
    /// as they were before: those still in place stay, since an attribute of a device
    /// that could not be removed cannot be set twice.
    ///
    /// A part that cannot be put back does not stop the others; but somebody else's area keeps its
    /// place then, or nothing might be swapped to.
    fn go_back(&mut self) -> Result<(), Error> {
        for index in (0..self.journal.records().len()).rev() {
            if self.journal.records()[index].run == self.number {
                self.take_back(index)?;
            }
        }
        let removed = std::mem::take(&mut self.removed);
        let mut parts = self.journal.records().iter().map(|it| it.group.as_str());
        if !removed.is_empty() || parts.any(|it| it != PlanPart::current(it)) {
            let found = &mut self.found;
            self.journal.change(|state| {
                state.records.extend(removed);
                revive(&mut state.records, found);
            })?;
        }
        let mut first = Ok(());
        let mut parts = PlanPart::recorded(&self.found);
        parts.retain(|part| self.touched.contains(&part.name));
        for part in parts {
            let is_off = |it: &Planned| matches!(it.step, Step::SwapOff(_));
            if first.is_ok() || !part.steps.iter().any(is_off) {
                first = first.and(self.restore(&part));
            }
        }
        first?;
        let config = self.journal.state().config.clone();
        self.finish(config)
    }

    /// Drops records of steps that are not seen to be in place.
    fn look_again(&mut self) {
        let (host, records) = (self.host, self.journal.records().to_vec());
        let touched = &self.touched;
        let _ = self.journal.note(|state| {
            let ours = state.records.iter_mut();
            for record in ours.filter(|it| touched.contains(&it.group)) {
                record.done = holds(host, &records, record, OnUnreadable::Fails).unwrap_or(false);
            }
        });
    }

    fn restore(&mut self, part: &PlanPart) -> Result<(), Error> {
        let found = compare(self.host, part, self.journal.records(), OnUnreadable::Fails)?;
        for &index in found.removed.iter().rev() {
            self.take_back(index)?;
        }
        self.apply_part(part)
    }

    /// Steps that were recorded as done before the run and are not now.
    fn what_is_missing(&self) -> String {
        let mut now: Vec<&Record> = self.journal.records().iter().collect();
        let mut missing = Vec::new();
        for before in &self.found {
            let is_of =
                |it: &Record| PlanPart::current(&it.group) == PlanPart::current(&before.group);
            let same = |it: &&Record| it.done && is_of(it) && it.step == before.step;
            match now.iter().position(same) {
                Some(at) => drop(now.swap_remove(at)),
                None => missing.push(format!("{}: {}", before.group, before.step.words())),
            }
        }
        match (missing.is_empty(), now.is_empty()) {
            (true, true) => "nothing was changed".to_owned(),
            (true, false) => {
                "what a run left half done is still there: zmeld down takes it back".to_owned()
            }
            (false, _) => format!("what is not as before: {}", missing.join("; ")),
        }
    }

    fn finish(&mut self, config: Config) -> Result<(), Error> {
        let state = self.journal.state();
        if !self.is_left && state.complete && state.config == config {
            return Ok(());
        }
        let is_left = self.is_left;
        self.journal.change(|state| {
            state.complete = !is_left;
            state.config = config;
            revive(&mut state.records, &mut []);
        })
    }
}

impl Step {
    pub(crate) fn reversible(&self) -> &dyn Reversible {
        match self {
            Step::LoadModule(step) => step,
            Step::AddDevice(step) => step,
            Step::SetAttribute(step) => step,
            Step::CreateFile(step) => step,
            Step::FormatLuks(step) => step,
            Step::OpenCrypt(step) => step,
            Step::MakeSwap(step) => step,
            Step::SwapOn(step) => step,
            Step::SetValue(step) => step,
            Step::SwapOff(step) => step,
        }
    }
}

/// The areas that are switched off with these records.
fn areas_of(host: &Host, records: &[Record], leaving: &[usize]) -> Result<Vec<PathBuf>, Error> {
    let leaving = leaving.iter().map(|&index| &records[index]);
    let areas = steps::areas(host, records, leaving);
    areas.map(|area| Ok(area?.path)).collect()
}
