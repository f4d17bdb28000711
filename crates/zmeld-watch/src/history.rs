//! What was done on a device, and when. It is kept in zmeld's folder in `/run`, so that a
//! watch that is started anew gives no day's budget twice and repeats nothing before its time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::action::{Action, ActionKind};
use super::limit;
use crate::Error;
use zmeld_linux::Host;
use zmeld_observe::run_folder;

const FILE: &str = "/run/zmeld/watch.json";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct History {
    /// The number that no other disk has had since boot; none before Linux 5.15.
    sequence: Option<String>,
    /// When all its pages were marked idle, in seconds since boot as all times here; the kernel
    /// cannot tell ages.
    pub marked: Option<f64>,
    /// The kernel marks by age; unknown before the first try.
    pub marks_by_age: Option<bool>,
    /// When each rule last acted.
    pub recompressed: Option<f64>,
    pub written_back: Option<f64>,
    pub melded: Option<f64>,
    /// When the day's writeback budget was given.
    pub budget: Option<f64>,
    /// What was asked for in the parts of an action that is not done.
    #[serde(skip)]
    pub recompressed_pages: u64,
    #[serde(skip)]
    pub written_pages: u64,
    /// A pass was stopped by its time limit.
    #[serde(skip)]
    pub resume: bool,
}

impl History {
    /// What is kept of a device; nothing where that was another one of its name.
    pub fn kept(host: &Host, device: &str) -> History {
        let sequence = limit::sequence(host, device).ok().flatten();
        let bytes = run_folder::read(host, FILE).ok().flatten();
        let all: Option<BTreeMap<String, History>> =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let kept = all.and_then(|mut all| all.remove(device));
        let kept = kept.filter(|kept| kept.sequence == sequence);
        kept.unwrap_or_else(|| History {
            sequence,
            ..History::default()
        })
    }

    pub fn note(&mut self, action: &Action, now: f64) {
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
            ActionKind::Budget(_) => self.budget = Some(now),
        }
    }

    /// It was done in part, and is due still.
    pub fn note_part(&mut self, action: &Action, pages: u64, now: f64) {
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
    pub fn forget_marks(&mut self, longest: Duration, now: f64) {
        self.marked = self.marked.filter(|at| now - at < longest.as_secs_f64());
    }
}

/// Keeps what was done on each device.
pub(super) fn keep(host: &Host, devices: &BTreeMap<String, History>) -> Result<(), Error> {
    Ok(run_folder::replace(host, FILE, 0o600, devices)?)
}
