//! What of a plan is in place already, what has to go, what is missing: decided here,
//! once, for `plan`, `--dry-run`, `up`, `status` and `config check`.
//!
//! Values are compared one by one. Of any other part, the steps that are recorded, are
//! the same as planned and still hold are kept, up to the first that is not. What is
//! recorded after it goes, the last first, and what is planned from there on is applied. What the kernel changes
//! while a RAM device is in use is changed there, and no page leaves it. The device is
//! made anew where another of its attributes is missing or wrong, since those can be
//! written only once and go with the device.

use std::path::PathBuf;

use serde::Serialize;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::Host;
use zmeld_report::units::bytes;

use crate::error::Error;
use crate::step::{Record, Step, StepContext};
use crate::steps::Area;

use super::{Done, Group, Plan};

/// What becomes of the records of a part.
pub(crate) struct Compared {
    /// The indexes of the records that are taken back, ascending.
    pub removed: Vec<usize>,
    /// Which planned steps are in place; those that are changed there count.
    in_place: Vec<bool>,
    /// What is changed on a device that stays, in order.
    pub changes: Vec<Change>,
}

/// A swap area that is switched off first, and what has to leave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Leaving {
    /// The area.
    pub path: PathBuf,
    /// What is in it, in bytes.
    pub bytes: u64,
    /// About how long that takes, in seconds; none where it hangs on a drive.
    pub seconds: Option<u64>,
}

/// What swapoff read back a second from zram with lzo-rle, on one busy processor of two.
const LEAVING_BYTES_PER_S: u64 = 330 << 20;

impl Leaving {
    fn new(area: &SwapArea) -> Leaving {
        let in_ram = area.is_in_ram();
        Leaving {
            path: area.path.clone(),
            bytes: area.used_bytes,
            seconds: in_ram.then(|| area.used_bytes.div_ceil(LEAVING_BYTES_PER_S)),
        }
    }

    /// The same in a sentence.
    pub fn words(&self) -> String {
        let path = self.path.display();
        match (self.bytes, self.seconds) {
            (0, _) => format!("{path} is switched off, and no page is in it."),
            (held, Some(seconds)) => format!(
                "{} have to leave {path} first, which takes about {seconds} s.",
                bytes(held)
            ),
            (held, None) => format!(
                "{} have to leave {path} first, as fast as the drive gives them back.",
                bytes(held)
            ),
        }
    }
}

/// An attribute of a device in use that is written again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The part of the plan.
    pub group: String,
    /// The recorded step; none where the attribute was left as it comes.
    pub from: Option<Step>,
    /// The planned step; none where it becomes as it comes.
    pub to: Option<Step>,
    /// The step that it stands behind, which is recorded by then.
    pub behind: Option<Step>,
}

impl Change {
    pub(crate) fn written(&self) -> Option<Step> {
        let as_it_comes = || self.from.as_ref().and_then(Step::as_it_comes);
        self.to.clone().or_else(as_it_comes)
    }

    /// Whether it is about this step of that part.
    fn is_of(&self, group: &str, step: &Step) -> bool {
        self.group == group && self.to.as_ref() == Some(step)
    }
}

/// What a step counts as that cannot be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnUnreadable {
    /// The look fails: such a plan can be carried out.
    #[default]
    Fails,
    /// As it is recorded: a plan can be made by an ordinary user.
    Recorded,
}

impl Plan {
    /// Compares it with what is recorded and with the machine: says of each step whether
    /// it is in place, and what goes first. Changes nothing.
    pub(super) fn compare(&mut self, host: &Host, doubt: OnUnreadable) -> Result<(), Error> {
        let records = &self.records;
        let mut removed = self.not_planned(host, doubt)?;
        let mut in_place = Vec::new();
        for group in &self.groups {
            let found = compare(host, group, records, doubt)?;
            in_place.push(found.in_place);
            removed.extend(found.removed);
            self.changes.extend(found.changes);
        }
        removed.sort_unstable();
        let undone = removed.iter().rev().map(|&index| &records[index]);
        let undone: Vec<&Record> = undone.filter(|record| record.is_change()).collect();
        for (group, in_place) in self.groups.iter_mut().zip(in_place) {
            for (at, planned) in group.steps.iter_mut().enumerate() {
                let mut changes = self.changes.iter();
                if changes.any(|it| it.is_of(&group.name, &planned.step)) {
                    let how = "; changed in place, no page leaves the device";
                    planned.reason.push_str(how);
                } else if in_place[at] {
                    planned.done = true;
                } else {
                    // What taking back changes is not as wanted then, whichever part set it.
                    planned.done &= !undone.iter().any(|record| record.puts_back(planned));
                }
            }
        }
        let off = undone.iter().filter_map(|record| match &record.step {
            Step::SwapOn(on) => on.area_seen(host, records, record).ok(),
            _ => None,
        });
        self.leaving = off
            .filter_map(|area| match area {
                Area::Ours(swap) => Some(Leaving::new(&swap)),
                _ => None,
            })
            .collect();
        self.undone = undone.into_iter().map(Done::of).collect();
        let dropped = self.changes.iter().filter(|it| it.to.is_none());
        let of = |it: &Change| Some(Done::new(&it.group, it.from.as_ref()?));
        self.undone.extend(dropped.filter_map(of));
        self.removed = removed;
        Ok(())
    }

    /// The indexes of the records that no part of the plan is for and that go.
    fn not_planned(&self, host: &Host, doubt: OnUnreadable) -> Result<Vec<usize>, Error> {
        let mut removed = Vec::new();
        for (index, record) in self.records.iter().enumerate() {
            let name = &record.group;
            if self.groups.iter().any(|group| group.name == *name) || !self.speaks_of(name) {
                continue;
            }
            let skipped = self.skipped.iter().any(|it| it.group == *name);
            if !(skipped && all_hold(host, name, &self.records, doubt)?) {
                removed.push(index);
            }
        }
        Ok(removed)
    }
}

/// Whether all of a group is in place. An optional tier that runs stays, though it could
/// not be set up again now: the stick with its key was pulled.
fn all_hold(
    host: &Host,
    group: &str,
    records: &[Record],
    doubt: OnUnreadable,
) -> Result<bool, Error> {
    let ours = records.iter().filter(|record| record.group == group);
    for record in ours {
        if !holds(host, records, record, doubt)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn compare(
    host: &Host,
    wanted: &Group,
    records: &[Record],
    doubt: OnUnreadable,
) -> Result<Compared, Error> {
    let ours: Vec<(usize, &Record)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.group == wanted.name)
        .collect();
    let is_value = |step: &Step| matches!(step, Step::SetValue(_));
    if wanted.steps.iter().all(|it| is_value(&it.step))
        && ours.iter().all(|(_, record)| is_value(&record.step))
    {
        return compare_values(host, wanted, &ours, records, doubt);
    }
    let (mut kept, mut in_place) = (0, 0);
    let mut changes = Vec::new();
    while let Some((_, record)) = ours.get(kept) {
        let planned = wanted.steps.get(in_place).map(|it| &it.step);
        if planned == Some(&record.step) && holds(host, records, record, doubt)? {
            (kept, in_place) = (kept + 1, in_place + 1);
            continue;
        }
        let is_recorded = |step: &Step| {
            ours[kept..]
                .iter()
                .any(|it| it.1.step.sets() == step.sets())
        };
        let is_wanted = |step: &Step| {
            wanted.steps[in_place..]
                .iter()
                .any(|it| it.step.sets() == step.sets())
        };
        let is_live = |step: &&Step| step.as_it_comes().is_some();
        let added = planned.filter(is_live).filter(|step| !is_recorded(step));
        let changed = planned
            .filter(is_live)
            .filter(|step| step.sets() == record.step.sets());
        let is_dropped = is_live(&&record.step) && !is_wanted(&record.step);
        let (from, to) = match (added, changed) {
            (Some(step), _) if kept > 0 => (None, Some(step)),
            (None, Some(step)) if record.done => (Some(&record.step), Some(step)),
            (None, None) if record.done && is_dropped => (Some(&record.step), None),
            _ => break,
        };
        changes.push(Change {
            group: wanted.name.clone(),
            from: from.cloned(),
            to: to.cloned(),
            behind: in_place
                .checked_sub(1)
                .map(|at| wanted.steps[at].step.clone()),
        });
        kept += usize::from(from.is_some());
        in_place += usize::from(to.is_some());
    }
    let is_attribute = |step: &Step| matches!(step, Step::SetAttribute(_));
    let is_missing = wanted.steps[in_place..]
        .iter()
        .any(|planned| is_attribute(&planned.step));
    let is_wrong = ours[kept..]
        .iter()
        .any(|(_, record)| is_attribute(&record.step));
    if is_missing || is_wrong {
        let adds = |(_, record): &(usize, &Record)| matches!(record.step, Step::AddDevice(_));
        if let Some(at) = ours.iter().position(adds).filter(|at| *at < kept) {
            (kept, in_place) = (at, at);
            changes.clear();
        }
    }
    Ok(Compared {
        removed: ours[kept..].iter().map(|(index, _)| *index).collect(),
        in_place: (0..wanted.steps.len()).map(|at| at < in_place).collect(),
        changes,
    })
}

/// What becomes of a group that sets values alone: none hangs on another, so that one that
/// differs takes no other back.
fn compare_values(
    host: &Host,
    wanted: &Group,
    ours: &[(usize, &Record)],
    records: &[Record],
    doubt: OnUnreadable,
) -> Result<Compared, Error> {
    let mut in_place = vec![false; wanted.steps.len()];
    let mut removed = Vec::new();
    for &(index, record) in ours {
        let at = wanted.steps.iter().position(|it| it.step == record.step);
        match at {
            Some(at) if holds(host, records, record, doubt)? => in_place[at] = true,
            _ => removed.push(index),
        }
    }
    Ok(Compared {
        removed,
        in_place,
        changes: Vec::new(),
    })
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
        listener: &mut |_| {},
        stop: None,
        force: false,
        only_named: false,
        remember: None,
        made: None,
        left: false,
    };
    match record.step.reversible().holds(&mut context, record) {
        Err(_) if doubt == OnUnreadable::Recorded => Ok(record.done),
        result => result,
    }
}
