//! The history of actions on a device. It is kept in zmeld's folder in `/run`, so that a watch that
//! is started anew gives no day's budget twice and repeats nothing before its time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run_folder;
use crate::watch::error::Error;
use zmeld_linux::compressed::disk_sequence;
use zmeld_linux::Host;

/// Turns beside the rules: the day's writeback budget, and marking of all pages.
pub(super) const BUDGET: &str = "budget";
pub(super) const MARK: &str = "mark";

const FILE: &str = "/run/zmeld/watch.json";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct History {
    /// The number that no other disk has had since boot; none before Linux 5.15.
    sequence: Option<String>,
    /// The kernel marks by age; unknown before the first try.
    pub marks_by_age: Option<bool>,
    /// When each rule had its last turn, when the day's writeback budget was given, and when all
    /// pages were marked idle since the kernel cannot tell ages; in seconds since boot.
    pub turns: BTreeMap<String, f64>,
    /// Turns that were stopped, with the number of pages asked for by then.
    #[serde(skip)]
    pub parts: BTreeMap<&'static str, u64>,
}

impl History {
    /// The recorded history of a device; empty if that was another of its name.
    pub fn kept(host: &Host, device: &str) -> History {
        let sequence = disk_sequence(host, device).ok().flatten();
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

    /// When it last had its turn.
    pub fn last(&self, turn: &str) -> Option<f64> {
        self.turns.get(turn).copied()
    }

    pub fn note(&mut self, turn: &'static str, now: f64) {
        self.turns.insert(turn.to_owned(), now);
        self.parts.remove(turn);
    }

    /// It was done in part, and is due still.
    pub fn note_part(&mut self, turn: &'static str, pages: u64) {
        *self.parts.entry(turn).or_default() += pages;
    }

    /// Marks stay until a page is used, so they serve every rule; pages written since
    /// get theirs when the rule that waits longest has had its turn.
    pub fn forget_marks(&mut self, longest: Duration, now: f64) -> bool {
        let is_over = |at| now - at >= longest.as_secs_f64();
        self.last(MARK).is_some_and(is_over) && self.turns.remove(MARK).is_some()
    }
}

pub(super) fn keep(host: &Host, devices: &BTreeMap<String, History>) -> Result<(), Error> {
    Ok(run_folder::replace(host, FILE, 0o600, devices)?)
}

/// Whether a turn is due, by seconds since boot.
pub(super) fn has_passed(last: Option<f64>, every: Duration, now: f64) -> bool {
    last.is_none_or(|last| now - last >= every.as_secs_f64())
}
