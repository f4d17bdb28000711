//! Applying a plan.
//!
//! What is recorded is compared with the plan, group by group: steps that are
//! the same and still hold, up to the first difference, are kept; the rest is
//! taken back, last first, and the plan's remaining steps are applied in order.
//! So the same plan changes nothing, a changed one applies the difference, and a
//! run that was killed is carried on.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::config::Config;
use crate::down;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::journal::Journal;
use crate::kernel::Host;
use crate::plan::{Group, Plan};
use crate::step::{Record, Scene, Step};

/// What a run has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Steps that were applied, in order: the group and what was done.
    pub applied: Vec<Done>,
    /// Steps of earlier runs that were taken back, in order.
    pub undone: Vec<Done>,
    /// Steps of earlier runs that were found in place.
    pub kept: usize,
    /// Optional groups that failed, with the reason.
    pub skipped: Vec<Skipped>,
}

/// A step that was applied or taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// The part of the plan.
    pub group: String,
    /// What it does.
    pub step: String,
}

/// An optional part of the plan that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The part of the plan.
    pub group: String,
    /// Why.
    pub reason: String,
}

impl Report {
    /// Whether the machine is as it was before the run.
    pub fn is_unchanged(&self) -> bool {
        self.applied.is_empty() && self.undone.is_empty()
    }
}

/// Applies a plan. If a step fails, or `stop` is set, what this run has applied
/// is taken back, and what it took back for it is applied again.
///
/// # Errors
/// The step that failed, and what became of the others.
pub fn up(
    host: &Host,
    journal: &mut Journal,
    plan: &Plan,
    config: &Config,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<Report, Error> {
    if let Some(trap) = plan.refusals().next() {
        return Err(Error::Refused {
            what: trap.text.clone(),
        });
    }
    let mut run = Run {
        host,
        journal,
        stop,
        listener,
        report: Report::default(),
    };
    let leave = run.outdated(&plan.groups)?;
    down::check_memory(host, run.journal.state(), &leave)?;
    if !leave.is_empty() || run.missing(&plan.groups) {
        // From here on the state is neither the old one nor the new one.
        if !run.journal.state().records.is_empty() {
            run.journal.change(|state| state.complete = false)?;
        }
    }
    let mut removed = Vec::new();
    for index in leave.into_iter().rev() {
        let record = run.journal.state().records[index].clone();
        run.take_back(index)?;
        if record.done {
            removed.push(record);
        }
    }
    removed.reverse();
    run.report.kept = run.journal.state().records.len();
    let kept: Vec<Record> = run.journal.state().records.clone();

    for group in &plan.groups {
        let before = run.journal.state().records.len();
        match run.apply_group(group) {
            Ok(()) => {}
            Err(err) if group.optional && !matches!(err, Error::Interrupted { .. }) => {
                run.take_back_from(before).map_err(|undo| Error::Step {
                    group: group.name.clone(),
                    source: Box::new(err),
                    after: format!("and taking it back failed too: {undo}"),
                })?;
                // The rest of a group that was kept in part stays as it is.
                run.report.skipped.push(Skipped {
                    group: group.name.clone(),
                    reason: String::new(),
                });
            }
            Err(err) => return Err(run.back_out(err, &group.name, &kept, &removed)),
        }
    }
    if run.journal.state().records.is_empty() {
        return Ok(run.report);
    }
    if !run.journal.state().complete || run.journal.state().config != *config {
        run.journal.change(|state| {
            state.complete = true;
            state.config = config.clone();
        })?;
    }
    Ok(run.report)
}

struct Run<'a> {
    host: &'a Host,
    journal: &'a mut Journal,
    stop: &'a AtomicBool,
    listener: &'a mut Listener<'a>,
    report: Report,
}
