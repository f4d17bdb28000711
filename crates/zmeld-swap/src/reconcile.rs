//! What of a plan is in place already, what has to go, what is missing: decided
//! here, for `plan`, `--dry-run`, `up` and the question whether all of it is done.
//!
//! Within a part, the steps that are recorded, are the same as planned and still
//! hold are kept, up to the first that is not. What is recorded after it goes, the
//! last first, and what is planned from there on is applied. What the kernel changes
//! while a RAM device is in use is changed there, and no page leaves it. The device is
//! made anew where another of its attributes is missing or wrong, since those can be
//! written only once and go with the device.

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
    /// How many steps of each group of the plan are in place, in the plan's order; those
    /// that are changed there count.
    pub in_place: Vec<usize>,
    /// What is changed on devices that stay, in order.
    pub changes: Vec<Change>,
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
    /// The recorded step that it stands behind.
    pub behind: Option<Step>,
}

impl Change {
    /// The same, taken back.
    pub(crate) fn reversed(self) -> Change {
        Change {
            from: self.to,
            to: self.from,
            ..self
        }
    }

    /// What is written.
    pub(crate) fn written(&self) -> Option<Step> {
        let as_it_comes = || self.from.as_ref().and_then(Step::as_it_comes);
        self.to.clone().or_else(as_it_comes)
    }

    /// Whether it is about this step of that part.
    pub(crate) fn is_of(&self, group: &str, step: &Step) -> bool {
        self.group == group && self.to.as_ref() == Some(step)
    }
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
        let found = compare(host, group, records, doubt)?;
        result.kept += found.kept;
        result.in_place.extend(found.in_place);
        result.removed.extend(found.removed);
        result.changes.extend(found.changes);
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

/// What becomes of one group.
fn compare(
    host: &Host,
    wanted: &Group,
    records: &[Record],
    doubt: Doubt,
) -> Result<Reconciliation, Error> {
    let ours: Vec<(usize, &Record)> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.group == wanted.name)
        .collect();
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
            behind: kept.checked_sub(1).map(|at| ours[at].1.step.clone()),
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
    Ok(Reconciliation {
        kept,
        removed: ours[kept..].iter().map(|(index, _)| *index).collect(),
        in_place: vec![in_place],
        changes,
    })
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
