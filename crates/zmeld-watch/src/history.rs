//! What was done on a device, and when. It is kept in zmeld's folder in `/run`, so that a
//! watch that is started anew gives no day's budget twice and repeats nothing before its time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{limit, Action, ActionKind};
use crate::Error;
use zmeld_linux::Host;
use zmeld_observe::lately::uptime;
use zmeld_observe::run_folder;

/// Where it is kept.
const FILE: &str = "/run/zmeld/watch.json";

/// What was done on a device.
#[derive(Debug, Default)]
pub(super) struct History {
    /// When all its pages were marked idle; the kernel cannot tell ages.
    pub marked: Option<Instant>,
    /// The kernel marks by age; unknown before the first try.
    pub marks_by_age: Option<bool>,
    /// When each rule last acted.
    pub recompressed: Option<Instant>,
    pub written_back: Option<Instant>,
    pub melded: Option<Instant>,
    /// What was asked for in the parts of an action that is not done.
    pub recompressed_pages: u64,
    pub written_pages: u64,
    /// A pass was stopped by its time limit.
    pub resume: bool,
    /// When the day's writeback budget was given.
    pub budget: Option<Instant>,
}

/// The same as it is kept: times are uptimes, in seconds.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// The number that no other disk has had since boot; none before Linux 5.15.
    sequence: Option<String>,
    marked: Option<f64>,
    marks_by_age: Option<bool>,
    recompressed: Option<f64>,
    written_back: Option<f64>,
    melded: Option<f64>,
    budget: Option<f64>,
}

impl History {
    /// What is kept of a device; nothing where that was another one of its name.
    pub fn kept(host: &Host, device: &str, now: Instant) -> History {
        let kept = || -> Option<Kept> {
            let mut all: BTreeMap<String, Kept> =
                serde_json::from_slice(&run_folder::read(host, FILE).ok()??).ok()?;
            let kept = all.remove(device)?;
            (limit::sequence(host, device).ok()? == kept.sequence).then_some(kept)
        };
        let (Some(kept), Some(uptime_s)) = (kept(), now_s(host)) else {
            return History::default();
        };
        let at = |then_s: Option<f64>| {
            let age = Duration::try_from_secs_f64(uptime_s - then_s?).unwrap_or_default();
            Some(now.checked_sub(age).unwrap_or(now))
        };
        History {
            marked: at(kept.marked),
            marks_by_age: kept.marks_by_age,
            recompressed: at(kept.recompressed),
            written_back: at(kept.written_back),
            melded: at(kept.melded),
            budget: at(kept.budget),
            ..History::default()
        }
    }

    pub fn note(&mut self, action: &Action, now: Instant) {
        match &action.kind {
            ActionKind::MarkAll => self.marked = Some(now),
            ActionKind::Recompress { .. } => {
                self.recompressed = Some(now);
                self.recompressed_pages = 0;
            }
            ActionKind::WriteBack { .. } => {
                self.written_back = Some(now);
                self.written_pages = 0;
            }
            ActionKind::Meld(_) => {
                self.melded = Some(now);
                self.resume = false;
            }
            ActionKind::Budget { .. } => self.budget = Some(now),
        }
    }

    /// It was done in part, and is due still.
    pub fn note_part(&mut self, action: &Action, pages: u64, now: Instant) {
        match &action.kind {
            ActionKind::Recompress { .. } => self.recompressed_pages += pages,
            ActionKind::WriteBack { .. } => self.written_pages += pages,
            _ => {
                self.note(action, now);
                self.resume = true;
            }
        }
    }

    /// Marks stay until a page is used, so they serve every rule; pages written since
    /// get theirs when the rule that waits longest has had its turn.
    pub fn forget_marks(&mut self, longest: Duration, now: Instant) {
        if self
            .marked
            .is_some_and(|at| now.duration_since(at) >= longest)
        {
            self.marked = None;
        }
    }
}

/// Keeps what was done on each device.
pub(super) fn keep(
    host: &Host,
    devices: &BTreeMap<String, History>,
    now: Instant,
) -> Result<(), Error> {
    let Some(uptime_s) = now_s(host) else {
        return Ok(());
    };
    let at = |then: Option<Instant>| Some(uptime_s - now.duration_since(then?).as_secs_f64());
    let kept = |(device, history): (&String, &History)| {
        let kept = Kept {
            sequence: limit::sequence(host, device)?,
            marked: at(history.marked),
            marks_by_age: history.marks_by_age,
            recompressed: at(history.recompressed),
            written_back: at(history.written_back),
            melded: at(history.melded),
            budget: at(history.budget),
        };
        Ok((device.clone(), kept))
    };
    let all: Result<BTreeMap<_, _>, Error> = devices.iter().map(kept).collect();
    Ok(run_folder::replace(host, FILE, 0o600, &all?)?)
}

fn now_s(host: &Host) -> Option<f64> {
    uptime(host.read_optional("/proc/uptime").ok()?.as_deref())
}
