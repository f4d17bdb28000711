//! Decides what of a plan is in place, has to go or is missing, once for `plan`, `--dry-run`, `up`,
//! `status` and `config check`.
//!
//! Values are compared one by one, and so is what the kernel changes while a RAM device is
//! in use: it is changed there, and no page leaves it. Of the other steps of a part, those
//! that are recorded, are the same as planned and still hold are kept, up to the first that
//! is not. Records after it go, the last first, and the steps planned from there on are
//! applied. A device is made anew where another of its attributes is missing or wrong, since
//! those can be written only once and go with the device.
//!
//! A zram device that is made anew has a name of its own in the records until the new one is
//! swapped to ([`PlanPart::replaced`]), and goes then. Its remains go first the next time,
//! as `NAME.left`.

use zmeld_config::RamDriver;
use zmeld_linux::Host;

use crate::setup::context::StepContext;
use crate::setup::error::Error;
use crate::setup::step::{Record, Step};
use crate::setup::steps;

use super::parts::{Done, Leaving, OnUnreadable, Plan, PlanPart};

pub(crate) struct Compared {
    /// The indexes of the records that are taken back, ascending.
    pub removed: Vec<usize>,
    in_place: Vec<bool>,
}

impl Plan {
    /// Compares it with what is recorded and with the machine: says of each step whether
    /// it is in place, and what goes first. Changes nothing.
    pub(super) fn compare(&mut self, host: &Host, doubt: OnUnreadable) -> Result<(), Error> {
        let mut removed = self.not_planned(host, doubt)?;
        for &at in &removed {
            let name = self.records[at].group.clone();
            if PlanPart::current(&name) != name && !self.is_on(host, &name) {
                let record = &mut self.records[at];
                // No run that fails puts it back.
                (record.group, record.done) = (format!("{}.left", PlanPart::current(&name)), false);
            }
        }
        let mut in_place = Vec::new();
        let mut replaced: Vec<usize> = Vec::new();
        for part in &self.groups {
            let found = compare(host, part, &self.records, doubt)?;
            let is_replaced = self.is_replaced(host, part, &found);
            replaced.extend(found.removed.iter().filter(|_| is_replaced));
            in_place.push(found.in_place);
            removed.extend(found.removed);
        }
        for index in replaced {
            let part = &mut self.records[index].group;
            *part = PlanPart::replaced(part);
        }
        removed.sort_unstable();
        let records = &self.records;
        let is_of = |it: &PlanPart, at: usize| PlanPart::replaced(&it.name) == records[at].group;
        let goes_last = |&at: &usize| self.groups.iter().any(|it| is_of(it, at));
        let (replaced, removed): (Vec<usize>, _) = removed.into_iter().partition(goes_last);
        let undone = removed.iter().rev().chain(replaced.iter().rev());
        let undone = undone.map(|&index| &records[index]);
        let undone: Vec<&Record> = undone.filter(|record| record.is_change()).collect();
        for (part, in_place) in self.groups.iter_mut().zip(in_place) {
            let mut kept = part
                .steps
                .iter()
                .zip(&in_place)
                .filter(|(_, is_so)| **is_so);
            let is_on = kept.any(|(it, _)| matches!(it.step, Step::SwapOn(_)));
            for (planned, is_in_place) in part.steps.iter_mut().zip(in_place) {
                if is_in_place {
                    planned.done = true;
                    continue;
                }
                if is_on && matches!(planned.step, Step::SetAttribute(_)) {
                    let how = "; changed in place, no page leaves the device";
                    planned.reason.push_str(how);
                }
                // A value may be as wanted once steps are taken back, of whichever part.
                let mut then = undone.iter().filter_map(|record| record.puts_back(planned));
                planned.done = then.next().unwrap_or(planned.done);
            }
        }
        let off = steps::areas(host, records, undone.iter().copied()).flatten();
        self.leaving = off.map(|area| Leaving::new(&area)).collect();
        self.undone = undone.into_iter().map(Done::of).collect();
        (self.removed, self.replaced) = (removed, replaced);
        Ok(())
    }

    /// Whether the zram device that a part loses is swapped to until the new one is: it has
    /// a number of its own, so that both are there for a while, where they share no drive.
    fn is_replaced(&self, host: &Host, part: &PlanPart, found: &Compared) -> bool {
        let goes = found.removed.iter().map(|&index| &self.records[index]);
        let comes = part.steps.iter().zip(&found.in_place);
        let comes = comes.filter(|it| !it.1).map(|it| &it.0.step);
        let mut steps = goes.map(|it| &it.step).chain(comes);
        let adds = |it: &&Step| matches!(it, Step::AddDevice(_));
        let is_of_zram = |step: &Step| match step {
            Step::AddDevice(add) => add.driver == RamDriver::Zram,
            Step::SetAttribute(set) => set.with.is_none(),
            step => matches!(step, Step::MakeSwap(_) | Step::SwapOn(_)),
        };
        let name = PlanPart::replaced(&part.name);
        let is_anew = steps.clone().filter(adds).count() == 2 && steps.all(is_of_zram);
        let is_second = self.records.iter().any(|it| it.group == name);
        is_anew && !is_second && self.is_on(host, &part.name)
    }

    /// Whether a device is swapped to that has this name on record.
    fn is_on(&self, host: &Host, name: &str) -> bool {
        let ours = self.records.iter().filter(|it| it.group == name);
        let mut areas = steps::areas(host, &self.records, ours).flatten();
        areas.next().is_some()
    }

    /// The indexes of the records that no part of the plan is for and that go.
    fn not_planned(&self, host: &Host, doubt: OnUnreadable) -> Result<Vec<usize>, Error> {
        let mut removed = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            let name = &record.group;
            if self.groups.iter().any(|part| part.name == *name) || !self.speaks_of(name) {
                continue;
            }
            // An optional tier that runs stays, though it could not be set up again now: the
            // stick with its key was pulled.
            let tier = PlanPart::current(name);
            let skipped = self.skipped.iter().any(|it| it.group == tier);
            let ours = self.records.iter().filter(|it| it.group == *name);
            let mut hold = ours.map(|it| holds(host, &self.records, it, doubt));
            let fails = |it: &Result<bool, Error>| !matches!(it, Ok(true));
            if !skipped || hold.find(fails).transpose()?.is_some() {
                removed.push(index);
            }
        }
        Ok(removed)
    }
}

pub(crate) fn compare(
    host: &Host,
    wanted: &PlanPart,
    records: &[Record],
    doubt: OnUnreadable,
) -> Result<Compared, Error> {
    let ours = records.iter().enumerate();
    let ours = ours.filter(|(_, record)| record.group == wanted.name);
    let (live, fixed): (Vec<_>, Vec<_>) = ours.partition(|(_, record)| record.step.is_live());
    let planned = |is_live: bool| {
        let steps = wanted.steps.iter().enumerate();
        steps.filter(move |(_, planned)| planned.step.is_live() == is_live)
    };
    let places: Vec<usize> = planned(false).map(|(at, _)| at).collect();
    let mut kept = 0;
    while let (Some((_, record)), Some(&at)) = (fixed.get(kept), places.get(kept)) {
        if wanted.steps[at].step != record.step || !holds(host, records, record, doubt)? {
            break;
        }
        kept += 1;
    }
    let mut missing = places[kept..].iter().map(|&at| &wanted.steps[at].step);
    // The size is set behind the attributes and fixes them: where one is missing, the device is
    // made anew.
    if missing.any(|step| matches!(step, Step::SetAttribute(_))) {
        let adds = |(_, record): &(usize, &Record)| matches!(record.step, Step::AddDevice(_));
        kept = fixed.iter().position(adds).map_or(kept, |at| at.min(kept));
    }
    let mut in_place = vec![false; wanted.steps.len()];
    for &at in &places[..kept] {
        in_place[at] = true;
    }
    let gone = &fixed[kept..];
    let mut removed: Vec<usize> = gone.iter().map(|(index, _)| *index).collect();
    // Steps on a device go with it.
    let has_device = !gone
        .iter()
        .any(|(_, it)| matches!(it.step, Step::AddDevice(_)));
    for (index, record) in live {
        let mut same = planned(true).filter(|(_, it)| it.step == record.step);
        match same.next().filter(|_| has_device) {
            Some((at, _)) if holds(host, records, record, doubt)? => in_place[at] = true,
            _ => removed.push(index),
        }
    }
    removed.sort_unstable();
    Ok(Compared { removed, in_place })
}

/// Whether what a record tells of is still in place.
pub(crate) fn holds(
    host: &Host,
    records: &[Record],
    record: &Record,
    doubt: OnUnreadable,
) -> Result<bool, Error> {
    let mut context = StepContext {
        host,
        records,
        group: &record.group,
        run: record.run,
        listener: &mut |_| {},
        stop: None,
        force: false,
        only_named: false,
        remember: None,
        made: None,
        is_left: false,
        remains: Vec::new(),
    };
    match record.step.reversible().holds(&mut context, record) {
        Err(_) if doubt == OnUnreadable::Recorded => Ok(record.done),
        result => result,
    }
}
