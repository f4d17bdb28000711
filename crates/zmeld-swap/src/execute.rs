//! Applying a plan, and taking it back.
//!
//! [`up`] compares what is recorded with the plan, group by group: steps that
//! are the same and still hold, up to the first difference, are kept; the rest
//! is taken back, last first, and the plan's remaining steps are applied in
//! order. So the same plan changes nothing, a changed one applies the
//! difference, and a run that was killed is carried on.
//!
//! [`down`] takes the records back, last first.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::config::Config;
use crate::error::Error;
use crate::event::{Event, Listener};
use crate::journal::Journal;
use crate::kernel::Host;
use crate::machine;
use crate::plan::{Group, Plan};
use crate::step::{Record, Scene, Step};

/// What a run has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Steps that were applied, in order.
    pub applied: Vec<Done>,
    /// Steps of earlier runs that were taken back, in order.
    pub undone: Vec<Done>,
    /// Steps of earlier runs that were found in place.
    pub kept: usize,
    /// Optional parts of the plan that failed.
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
/// The step that failed, and what became of the others; a trap that the plan
/// walks into; pages that do not fit back into RAM.
pub fn up(
    host: &Host,
    journal: &mut Journal,
    plan: &Plan,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<Report, Error> {
    plan.refuse()?;
    let mut run = Run {
        host,
        journal,
        listener,
        report: Report::default(),
    };
    let outdated = run.outdated(plan)?;
    check_memory(host, run.journal.records(), &outdated)?;
    let mut removed = Vec::new();
    if !outdated.is_empty() {
        run.journal.change(|state| state.complete = false)?;
        for &index in outdated.iter().rev() {
            let record = run.take_back(index)?;
            // What was under way when its run ended has never worked.
            if record.done {
                removed.insert(0, record);
            }
        }
    }
    let kept = run.journal.records().len();
    run.report.kept = kept;
    for group in &plan.groups {
        match run.apply_group(group, stop) {
            Ok(()) => {}
            Err(err) if group.optional && !matches!(err, Error::Interrupted { .. }) => {
                run.give_up(group, &err)?;
            }
            Err(err) => return Err(run.back_out(err, &group.name, kept, &removed)),
        }
    }
    run.finish(plan.config.clone())?;
    Ok(run.report)
}

/// Takes back what was set up: all of it, or the tiers of `only`; with the last
/// tier goes the rest.
///
/// # Errors
/// Pages that do not fit back into RAM, before anything is changed; a step that
/// cannot be taken back, after which `down` can be tried again.
pub fn down(
    host: &Host,
    journal: &mut Journal,
    only: Option<&[String]>,
    stop: &AtomicBool,
    listener: &mut Listener<'_>,
) -> Result<Report, Error> {
    let leaving = leaving(journal.records(), only);
    check_memory(host, journal.records(), &leaving)?;
    let mut run = Run {
        host,
        journal,
        listener,
        report: Report::default(),
    };
    if !leaving.is_empty() {
        run.journal.change(|state| state.complete = false)?;
    }
    for &index in leaving.iter().rev() {
        if stop.load(Ordering::SeqCst) {
            return Err(Error::Interrupted {
                after: "the rest is still set up: zmeld down carries on".to_owned(),
            });
        }
        run.take_back(index)?;
    }
    run.report.kept = run.journal.records().len();
    let config = run.journal.state().config.clone();
    run.finish(config)?;
    Ok(run.report)
}

/// The indexes of the records that [`down`] takes back, ascending.
pub fn leaving(records: &[Record], only: Option<&[String]>) -> Vec<usize> {
    let named = |record: &Record| {
        only.is_none_or(|only| only.iter().any(|tier| record.group == Group::of_tier(tier)))
    };
    let any_tier_stays = records
        .iter()
        .any(|record| Group::is_tier(&record.group) && !named(record));
    (0..records.len())
        .filter(|&index| {
            let record = &records[index];
            named(record) || !any_tier_stays && !Group::is_tier(&record.group)
        })
        .collect()
}

struct Run<'a> {
    host: &'a Host,
    journal: &'a mut Journal,
    listener: &'a mut Listener<'a>,
    report: Report,
}

impl Run<'_> {
    fn scene<T>(&mut self, group: &str, act: impl FnOnce(&mut Scene<'_>) -> T) -> T {
        act(&mut Scene {
            host: self.host,
            records: self.journal.records(),
            group,
            listener: &mut *self.listener,
        })
    }

    /// The indexes of the records that the plan does not want, ascending.
    fn outdated(&mut self, plan: &Plan) -> Result<Vec<usize>, Error> {
        let records = self.journal.records().to_vec();
        let mut outdated = Vec::new();
        let mut groups: Vec<&str> = Vec::new();
        for record in &records {
            if !groups.contains(&record.group.as_str()) {
                groups.push(&record.group);
            }
        }
        for name in groups {
            if !plan.speaks_of(name) {
                continue;
            }
            let wanted = plan.groups.iter().find(|group| group.name == name);
            let wanted = wanted.map_or(&[][..], |group| &group.steps);
            let ours: Vec<(usize, &Record)> = records
                .iter()
                .enumerate()
                .filter(|(_, record)| record.group == name)
                .collect();
            let mut kept = 0;
            for ((_, record), planned) in ours.iter().zip(wanted) {
                let holds = planned.step == record.step
                    && self.scene(name, |scene| record.step.act().holds(scene, record))?;
                if !holds {
                    break;
                }
                kept += 1;
            }
            // What is written to a device's attributes goes with the device, and
            // most can be written only once.
            let attribute = |step: &Step| matches!(step, Step::SetAttribute(_));
            let missing = wanted[kept..]
                .iter()
                .any(|planned| attribute(&planned.step));
            let wrong = ours[kept..]
                .iter()
                .any(|(_, record)| attribute(&record.step));
            if missing || wrong {
                let add =
                    |(_, record): &(usize, &Record)| matches!(record.step, Step::AddDevice(_));
                kept = kept.min(ours.iter().position(add).unwrap_or(kept));
            }
            outdated.extend(ours[kept..].iter().map(|(index, _)| *index));
        }
        outdated.sort_unstable();
        Ok(outdated)
    }

    /// Applies what is not recorded of a group.
    fn apply_group(&mut self, group: &Group, stop: &AtomicBool) -> Result<(), Error> {
        let have = |record: &&Record| record.group == group.name;
        let begun = self.journal.records().iter().filter(have).count();
        for planned in group.steps.iter().skip(begun) {
            if stop.load(Ordering::SeqCst) {
                return Err(Error::Interrupted {
                    after: String::new(),
                });
            }
            self.apply(&group.name, &planned.step)?;
        }
        Ok(())
    }

    fn apply(&mut self, group: &str, step: &Step) -> Result<(), Error> {
        (self.listener)(Event::Applying { group, step });
        let before = self.scene(group, |scene| step.act().before(scene))?;
        let record = Record {
            group: group.to_owned(),
            step: step.clone(),
            done: false,
            before: before.clone(),
            outcome: None,
        };
        self.journal.change(|state| {
            state.complete = false;
            state.records.push(record);
        })?;
        let outcome = self.scene(group, |scene| step.act().apply(scene, before.as_deref()))?;
        self.journal.note(|state| {
            if let Some(record) = state.records.last_mut() {
                record.outcome = outcome;
                record.done = true;
            }
        })?;
        self.report.applied.push(Done {
            group: group.to_owned(),
            step: step.describe(),
        });
        Ok(())
    }

    fn take_back(&mut self, index: usize) -> Result<Record, Error> {
        let record = self.journal.records()[index].clone();
        let group = record.group.clone();
        (self.listener)(Event::Undoing {
            group: &group,
            step: &record.step,
        });
        // From here on it may hold in part only: whoever comes after a kill must
        // not take it for done. That it cannot be written must not keep anybody
        // from going back.
        let _ = self.journal.note(|state| state.records[index].done = false);
        let undone = self.scene(&group, |scene| record.step.act().undo(scene, &record));
        if let Err(err) = undone {
            let _ = self
                .journal
                .note(|state| state.records[index].done = record.done);
            return Err(err);
        }
        // That it cannot be written down does no harm: what is taken back twice
        // is found to be gone.
        let _ = self.journal.note(|state| drop(state.records.remove(index)));
        self.report.undone.push(Done {
            group,
            step: record.step.describe(),
        });
        Ok(record)
    }

    /// Takes back all of an optional group that failed, and goes on.
    fn give_up(&mut self, group: &Group, err: &Error) -> Result<(), Error> {
        let count = self.journal.records().len();
        for index in (0..count).rev() {
            if self.journal.records()[index].group == group.name {
                self.take_back(index)?;
            }
        }
        let reason = err.to_string();
        self.report.applied.retain(|done| done.group != group.name);
        self.report.undone.retain(|done| done.group != group.name);
        self.report.skipped.push(Skipped {
            group: group.name.clone(),
            reason,
        });
        Ok(())
    }

    /// Takes back what this run applied, and puts back what it removed for it.
    fn back_out(&mut self, err: Error, group: &str, kept: usize, removed: &[Record]) -> Error {
        let result = (|| {
            for index in (kept..self.journal.records().len()).rev() {
                self.take_back(index)?;
            }
            for record in removed {
                self.apply(&record.group, &record.step)?;
            }
            let config = self.journal.state().config.clone();
            self.finish(config)
        })();
        let after = match result {
            Ok(()) => "nothing was changed".to_owned(),
            Err(second) => format!(
                "and going back stopped at: {second}; what is left is written down, zmeld down \
                 takes it back"
            ),
        };
        match err {
            Error::Interrupted { .. } => Error::Interrupted { after },
            err => Error::Step {
                group: group.to_owned(),
                source: Box::new(err),
                after,
            },
        }
    }

    fn finish(&mut self, config: Config) -> Result<(), Error> {
        let state = self.journal.state();
        if state.complete && state.config == config {
            return Ok(());
        }
        self.journal.change(|state| {
            state.complete = true;
            state.config = config;
        })
    }
}

/// Refuses to switch areas off whose pages do not fit into RAM, before anything
/// is changed.
fn check_memory(host: &Host, records: &[Record], leaving: &[usize]) -> Result<(), Error> {
    let mut areas: Vec<PathBuf> = Vec::new();
    let mut swapped_bytes = 0u64;
    let mut freed_bytes = 0u64;
    for &index in leaving {
        let record = &records[index];
        let Step::SwapOn(step) = &record.step else {
            continue;
        };
        let scene = Scene {
            host,
            records: &records[..index],
            group: &record.group,
            listener: &mut |_| {},
        };
        let Some(path) = scene.path_of(&step.device) else {
            continue;
        };
        if let Some(swap) = host.swap_on(&path)? {
            swapped_bytes = swapped_bytes.saturating_add(swap.used_bytes);
            // The pool gives its pages back as slots are freed, but a page only
            // when the last object on it is gone: half of it is counted on.
            freed_bytes = freed_bytes.saturating_add(pool_bytes(host, &path)? / 2);
            areas.push(swap.path);
        }
    }
    if swapped_bytes == 0 {
        return Ok(());
    }
    let memory = machine::memory(host)?;
    let mut room = memory.mem_available.unwrap_or(memory.mem_free) + freed_bytes;
    for other in host.swaps()? {
        let compressed = compressed_name(&other.path).is_some();
        if !compressed && !areas.contains(&other.path) {
            room = room.saturating_add(other.size_bytes.saturating_sub(other.used_bytes));
        }
    }
    if swapped_bytes <= room {
        return Ok(());
    }
    let names: Vec<String> = areas
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    Err(Error::NoRam {
        areas: names.join(", "),
        swapped_bytes,
        missing_bytes: swapped_bytes - room,
    })
}

/// `zram1` of `/dev/zram1`.
fn compressed_name(path: &Path) -> Option<&str> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?;
    let is = |driver| {
        name.strip_prefix(driver)
            .is_some_and(|rest: &str| rest.parse::<u32>().is_ok())
    };
    (is("zram") || is("zmeld")).then_some(name)
}

/// Memory that a compressed device's pool takes; 0 for others.
fn pool_bytes(host: &Host, path: &Path) -> Result<u64, Error> {
    let Some(name) = compressed_name(path) else {
        return Ok(0);
    };
    let stat = host
        .read_optional(format!("/sys/block/{name}/mm_stat"))?
        .unwrap_or_default();
    let used = stat.split_whitespace().nth(2);
    Ok(used.and_then(|used| used.parse().ok()).unwrap_or(0))
}
