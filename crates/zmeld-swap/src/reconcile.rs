//! What of a plan is in place already, what has to go, what is missing: decided
//! here, for `plan`, `--dry-run`, `up` and the question whether all of it is done.
//!
//! Within a part, the steps that are recorded, are the same as planned and still
//! hold are kept, up to the first that is not. What is recorded after it goes, the
//! last first, and what is planned from there on is applied. A RAM device is made
//! anew where one of its attributes is missing or wrong, since most can be written
//! only once and go with the device.

use crate::error::Error;
use crate::plan::{Group, Plan};
use crate::step::{Record, Step, StepContext};
use zmeld_linux::Host;

/// What becomes of the records, and what is to be applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// How many records stay.
    pub kept: usize,
    /// The indexes of the records that are taken back, ascending.
    pub removed: Vec<usize>,
    /// How many steps of each group of the plan are in place, in the plan's order.
    pub in_place: Vec<usize>,
}

/// What a step counts as that cannot be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    /// As it is recorded: a plan can be made by an ordinary user.
    Recorded,
    /// The look fails.
    Fails,
}

/// Compares a plan with what is recorded and with the machine. Changes nothing.
///
/// # Errors
/// A step that cannot be looked at, with [`Doubt::Fails`].
pub fn reconcile(
    host: &Host,
    plan: &Plan,
    records: &[Record],
    doubt: Doubt,
) -> Result<Reconciliation, Error> {
    let mut result = Reconciliation::default();
    for group in &plan.groups {
        let (kept, removed) = compare(host, &group.name, group, records, doubt)?;
        result.kept += kept;
        result.in_place.push(kept);
        result.removed.extend(removed);
    }
    for (index, record) in records.iter().enumerate() {
        let is_planned = plan.groups.iter().any(|group| group.name == record.group);
        if is_planned {
            continue;
        }
        let skipped = plan.skipped.iter().any(|it| it.group == record.group);
        if skipped && all_hold(host, &record.group, records, doubt)? {
            result.kept += 1;
            continue;
        }
        match plan.speaks_of(&record.group) {
            true => result.removed.push(index),
            false => result.kept += 1,
        }
    }
    result.removed.sort_unstable();
    Ok(result)
}

/// Whether all of a group is in place. An optional tier that runs stays, though it could
/// not be set up again now: the stick with its key was pulled.
fn all_hold(host: &Host, group: &str, records: &[Record], doubt: Doubt) -> Result<bool, Error> {
    let ours = records.iter().filter(|record| record.group == group);
    for record in ours {
        if !holds(host, records, record, doubt)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// How many of a group's steps are in place, and which records go.
fn compare(
    host: &Host,
    name: &str,
    wanted: &Group,
    records: &[Record],
    doubt: Doubt,
) -> Result<(usize, Vec<usize>), Error> {
    let ours: Vec<(usize, &Record)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.group == name)
        .collect();
    let mut kept = 0;
    for ((_, record), planned) in ours.iter().zip(&wanted.steps) {
        if planned.step != record.step || !holds(host, records, record, doubt)? {
            break;
        }
        kept += 1;
    }
    let is_attribute = |step: &Step| matches!(step, Step::SetAttribute(_));
    let is_missing = wanted.steps[kept..]
        .iter()
        .any(|planned| is_attribute(&planned.step));
    let is_wrong = ours[kept..]
        .iter()
        .any(|(_, record)| is_attribute(&record.step));
    if is_missing || is_wrong {
        let adds = |(_, record): &(usize, &Record)| matches!(record.step, Step::AddDevice(_));
        kept = kept.min(ours.iter().position(adds).unwrap_or(kept));
    }
    let removed = ours[kept..].iter().map(|(index, _)| *index).collect();
    Ok((kept, removed))
}

/// Whether what a record tells of is still in place.
pub(crate) fn holds(
    host: &Host,
    records: &[Record],
    record: &Record,
    doubt: Doubt,
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
        left: false,
    };
    match record.step.reversible().holds(&mut context, record) {
        Err(_) if doubt == Doubt::Recorded => Ok(record.done),
        result => result,
    }
}
