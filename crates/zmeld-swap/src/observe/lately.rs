//! Recent events, out of counters that the kernel keeps since boot.
//!
//! A monitor asks again and again, and must not be told for weeks of a process that
//! was killed once. So `zmeld status --check` and `zmeld watch` note the counters in
//! [`FILE`], at most once a minute, and what is told is the difference to an hour ago,
//! or to the oldest note. Without notes it is what was counted since boot, as long as
//! that is not longer ago; later nothing can be said of when.
//!
//! Kills are attributed by the counters of control groups. The kernel counts a kill in
//! all groups above the process, and that a limit was reached in all above the limit;
//! so of a group and of those below it that are gone since, what counts is the smaller
//! of the two, less what groups below it account for. What happened in a group whose
//! limits were not reached the machine did. The rest it did too, or a limit of a group
//! that is gone, and its counters with it: that cannot be told, and is not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::device::Device;
use super::note;
use super::reader::Reader;
use super::system::LimitedGroup;
use zmeld_linux::boot::uptime;
use zmeld_linux::Host;
use zmeld_linux::HostError;

pub const FILE: &str = "/run/zmeld/counters.json";
const SCHEMA: &str = "zmeld.counters/2";
/// How many processes experiments have had the kernel kill since boot, on purpose.
const EXPERIMENT_KILLS: &str = "/run/zmeld/experiment-kills.json";
const EXPERIMENT_SCHEMA: &str = "zmeld.experiment-kills/1";
/// The counter of the same.
const BY_EXPERIMENTS: &str = "oom_kill by experiments";
/// Span of "lately", in seconds.
pub const WINDOW_S: f64 = 3600.0;
/// Notes are not closer to each other, in seconds.
const SPACING_S: f64 = 60.0;
/// More notes than a window has, for a file that somebody else wrote.
const NOTES_MAX: usize = 1024;
/// Most bytes of a note's counters in the file: anybody may make many groups with long names, and
/// the file must stay one that can be read again. With a note a minute it is less than 2 MiB.
const NOTE_BYTES_MAX: usize = 24 << 10;

/// Since when something is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Since {
    /// The machine booted.
    #[default]
    Boot,
    /// The counters were noted.
    Note,
    /// Nobody noted them: what happened lately cannot be told.
    Unknown,
}

/// Recent events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Lately {
    /// The start of the count.
    pub since: Since,
    /// How long ago that is, in seconds; absent where it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Processes killed because the machine had no memory left.
    pub oom_kills: u64,
    /// Processes killed by the machine, or at the limit of a group that is gone.
    pub unattributed_oom_kills: u64,
    /// Processes killed because a control group was at its limit, by its path.
    pub group_oom_kills: BTreeMap<String, u64>,
    #[serde(skip)]
    counters: Counters,
    #[serde(skip)]
    before: Counters,
    /// A counter not in `before` is unknown, rather than 0.
    #[serde(skip)]
    partial: bool,
}

type Counters = BTreeMap<String, u64>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Notes(Vec<Note>);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Note {
    /// Seconds since boot.
    uptime_s: f64,
    counters: Counters,
    /// Not all groups had room: of one that is not there nothing is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

impl Note {
    /// The machine's own counters and devices' come first, then the groups with the
    /// highest.
    fn new(uptime_s: f64, counters: &Counters) -> Note {
        let is_group = |name: &str| name.starts_with("group ");
        let mut all: Vec<(&String, &u64)> = counters.iter().collect();
        all.sort_by_key(|(name, value)| (is_group(name), std::cmp::Reverse(**value)));
        let mut note = Note {
            uptime_s,
            counters: Counters::new(),
            partial: false,
        };
        let mut left_bytes = NOTE_BYTES_MAX;
        for (name, value) in all {
            // At worst a byte of a name becomes six, and a number has twenty digits.
            let needed = name.len() * 6 + 24;
            match left_bytes.checked_sub(needed) {
                Some(left) => {
                    left_bytes = left;
                    note.counters.insert(name.clone(), *value);
                }
                None => note.partial = true,
            }
        }
        note
    }
}

impl Notes {
    /// Those of this boot; none where the file is no such thing.
    fn read(reader: &mut Reader) -> Notes {
        let notes: Option<(Notes, f64)> = note::since_boot(reader, FILE, SCHEMA);
        let notes = notes.map(|(notes, _)| notes);
        notes
            .filter(|notes| notes.0.len() <= NOTES_MAX)
            .unwrap_or_default()
    }

    /// The youngest that is as old as the window, else the oldest.
    fn base(&self, uptime_s: f64) -> Option<&Note> {
        let past = self.0.iter().filter(|note| note.uptime_s <= uptime_s);
        let old = past
            .clone()
            .filter(|note| uptime_s - note.uptime_s >= WINDOW_S);
        let by_age = |a: &&Note, b: &&Note| a.uptime_s.total_cmp(&b.uptime_s);
        old.max_by(by_age).or(past.min_by(by_age))
    }

    /// Adds the counters of now, and forgets what no one needs any more.
    fn add(&mut self, uptime_s: f64, counters: &Counters) -> bool {
        self.0.retain(|note| note.uptime_s <= uptime_s);
        let is_near = |note: &Note| uptime_s - note.uptime_s < SPACING_S;
        if self.0.iter().any(is_near) {
            return false;
        }
        let base = self.base(uptime_s).map_or(0.0, |note| note.uptime_s);
        self.0.retain(|note| note.uptime_s >= base);
        self.0.push(Note::new(uptime_s, counters));
        true
    }
}

/// Recent events by counters and notes; no groups where the kernel has none that limit memory.
pub(super) fn read(
    reader: &mut Reader,
    kills: Option<u64>,
    groups: Option<&[LimitedGroup]>,
    devices: &[Device],
) -> Lately {
    let can_limit = groups.is_some();
    let groups = groups.unwrap_or_default();
    let uptime_s = note::uptime(reader);
    let notes = Notes::read(reader);
    let mut counters = counters(kills, groups, devices);
    counters.insert(BY_EXPERIMENTS.to_owned(), experiment_kills(reader));
    let base = uptime_s.and_then(|now| notes.base(now));
    let partial = base.is_some_and(|note| note.partial);
    let (since, seconds, before) = match (base, uptime_s) {
        (Some(note), Some(now)) => {
            let seconds = (now - note.uptime_s) as u64;
            (Since::Note, Some(seconds), note.counters.clone())
        }
        (None, Some(now)) if now > WINDOW_S => (Since::Unknown, None, counters.clone()),
        (_, now) => (Since::Boot, now.map(|now| now as u64), Counters::new()),
    };
    let mut lately = Lately {
        since,
        seconds,
        counters,
        before,
        partial,
        ..Lately::default()
    };
    lately.attribute(groups, can_limit);
    lately
}

fn experiment_kills(reader: &mut Reader) -> u64 {
    let noted = note::since_boot(reader, EXPERIMENT_KILLS, EXPERIMENT_SCHEMA);
    noted.map_or(0, |(kills, _)| kills)
}

/// Notes that an experiment brought so many kills about, which are no finding.
pub fn note_experiment(host: &Host, kills: u64) -> Result<(), HostError> {
    let all = experiment_kills(&mut Reader::new(host)).saturating_add(kills);
    note::keep(host, EXPERIMENT_KILLS, EXPERIMENT_SCHEMA, all)
}

/// Notes the counters for those who ask later. Not for a tree that
/// somebody else made: its links could lead anywhere.
pub fn note(host: &Host, now: &Lately) -> Result<(), HostError> {
    let Some(uptime_s) = uptime(host)? else {
        return Ok(());
    };
    let mut notes = Notes::read(&mut Reader::new(host));
    match notes.add(uptime_s, &now.counters) {
        true => note::keep(host, FILE, SCHEMA, notes),
        false => Ok(()),
    }
}

fn counters(kills: Option<u64>, groups: &[LimitedGroup], devices: &[Device]) -> Counters {
    let mut all = Counters::new();
    all.extend(kills.map(|kills| ("oom_kill".to_owned(), kills)));
    for group in groups {
        for (name, value) in [
            ("limit", group.limit_reached),
            ("oom_kill", group.oom_kills),
            ("refused", group.refused),
        ] {
            if value > 0 {
                all.insert(of_group(&group.path, name), value);
            }
        }
    }
    for device in devices.iter().filter(|it| it.io.failed_writes > 0) {
        all.insert(failed_writes(&device.name), device.io.failed_writes);
    }
    all
}

fn of_group(path: &str, name: &str) -> String {
    format!("group {name} {path}")
}

fn failed_writes(device: &str) -> String {
    format!("device failed_writes {device}")
}

impl Lately {
    /// By how much a counter rose. One that fell was begun anew.
    fn rose(&self, counter: &str) -> u64 {
        let now = self.counters.get(counter).copied().unwrap_or(0);
        let before = match self.before.get(counter) {
            Some(before) => *before,
            None if self.partial => now,
            None => 0,
        };
        now.checked_sub(before).unwrap_or(now)
    }

    /// Times that a group was refused swap.
    pub fn refused(&self, group: &LimitedGroup) -> u64 {
        self.rose(&of_group(&group.path, "refused"))
    }

    pub fn failed_writes(&self, device: &Device) -> u64 {
        self.rose(&failed_writes(&device.name))
    }

    /// Processes killed in the groups of `zmeld bench`.
    pub fn experiment_kills(&self) -> u64 {
        self.rose(BY_EXPERIMENTS)
    }

    /// Kills in experiments since boot.
    pub fn experiment_kills_of_boot(&self) -> u64 {
        self.counters.get(BY_EXPERIMENTS).copied().unwrap_or(0)
    }

    /// Kills since boot of which nobody noted when, those by experiments apart.
    pub fn undated_oom_kills(&self) -> u64 {
        let all = self.counters.get("oom_kill").copied().unwrap_or(0);
        match self.since {
            Since::Unknown => all.saturating_sub(self.experiment_kills_of_boot()),
            Since::Boot | Since::Note => 0,
        }
    }

    /// Since when, in words that follow a number.
    pub fn words(&self) -> String {
        match (self.since, self.seconds) {
            (Since::Note, Some(seconds)) => format!(
                "in the last {}",
                zmeld_report::units::seconds(seconds.max(1) as f64)
            ),
            (Since::Unknown, _) => "(what was before is not known)".to_owned(),
            _ => "since boot".to_owned(),
        }
    }

    fn attribute(&mut self, groups: &[LimitedGroup], can_limit: bool) {
        let counts: Vec<(&str, u64)> = groups
            .iter()
            .map(|group| {
                let kills = self.rose(&of_group(&group.path, "oom_kill"));
                let limit = self.rose(&of_group(&group.path, "limit"));
                (group.path.as_str(), kills.min(limit))
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        for (path, count) in &counts {
            let below = groups
                .iter()
                .filter(|group| group.is_hierarchical && is_child(path, &group.path))
                .filter_map(|child| counts.iter().find(|(path, _)| *path == child.path))
                .fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
            let own = count.saturating_sub(below);
            if own > 0 {
                self.group_oom_kills.insert((*path).to_owned(), own);
            }
        }
        let of_groups = self
            .group_oom_kills
            .values()
            .fold(0u64, |sum, count| sum.saturating_add(*count));
        let others = self
            .rose("oom_kill")
            .saturating_sub(of_groups)
            .saturating_sub(self.experiment_kills());
        self.oom_kills = match can_limit {
            true => others.min(self.seen_of_machine(groups)),
            false => others,
        };
        self.unattributed_oom_kills = others - self.oom_kills;
    }

    /// Kills in groups that are there, and that no limit of theirs explains.
    fn seen_of_machine(&self, groups: &[LimitedGroup]) -> u64 {
        let is_below = |group: &LimitedGroup, other: &LimitedGroup| {
            let rest = group.path.strip_prefix(&other.path);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        // With version 2 the topmost count all; with version 1 each counts its own, and
        // a limit above says nothing of whom it made the kernel kill.
        let is_counted = |group: &&LimitedGroup| {
            !groups.iter().any(|other| {
                is_below(group, other)
                    && (other.is_hierarchical || other.memory_max_bytes.is_some())
            })
        };
        let unexplained = |group: &LimitedGroup| {
            let kills = self.rose(&of_group(&group.path, "oom_kill"));
            kills.saturating_sub(self.rose(&of_group(&group.path, "limit")))
        };
        groups
            .iter()
            .filter(is_counted)
            .fold(0u64, |sum, group| sum.saturating_add(unexplained(group)))
    }
}

/// Whether one path is right below the other.
fn is_child(parent: &str, path: &str) -> bool {
    path.strip_prefix(parent)
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|name| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_groups_there_are_the_notes_can_be_read_again() {
        let mut counters = Counters::from([
            ("oom_kill".to_owned(), 1),
            ("device failed_writes zram0".to_owned(), 2),
            (of_group("/loud", "oom_kill"), 99),
        ]);
        for index in 0..20_000 {
            // A control character takes six bytes in the file.
            let path = format!("/{}{index}", "\u{1}".repeat(200));
            counters.insert(of_group(&path, "oom_kill"), 3);
        }
        let mut notes = Notes::default();
        for minute in 0..200 {
            assert!(notes.add(f64::from(minute) * SPACING_S, &counters));
        }
        let text = serde_json::to_string(&notes).unwrap();
        assert!(text.len() < 2 << 20, "{}", text.len());
        let notes: Notes = serde_json::from_str(&text).unwrap();
        let base = notes.base(200.0 * SPACING_S).unwrap();
        for name in [
            "oom_kill",
            "device failed_writes zram0",
            "group oom_kill /loud",
        ] {
            assert_eq!(base.counters.get(name), counters.get(name), "{name}");
        }
        // Of a group that is not in it, nothing is claimed.
        assert!(base.partial);
        let found = Lately {
            before: base.counters.clone(),
            partial: base.partial,
            counters: Counters::from([("group oom_kill /x".to_owned(), 3)]),
            ..Lately::default()
        };
        assert_eq!(found.rose("group oom_kill /x"), 0);
    }
}
