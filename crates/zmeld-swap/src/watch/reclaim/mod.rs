//! Reclaims idle memory of control groups before it is needed, a little at a time, as
//! long as what it costs stays below what the rule allows.
//!
//! By `memory.reclaim` of version 2 of control groups (Linux 5.19): the kernel chooses
//! the pages, by its own lists of what was used last, from the page cache and from
//! what can be swapped. Its `memory.min` and `memory.low` hold.
//!
//! | module | what belongs there |
//! |---|---|
//! | `targets` | from which groups |
//! | `group` | a group's counters, and what they tell of the last minute |
//! | `pace` | how much at a time, by what it cost |

mod group;
mod pace;
mod targets;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zmeld_linux::host::is_absent;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{Host, HostError};
use zmeld_report::units::{bytes, percent};

use self::group::{History, Reading};
use self::pace::{Cost, Pace, Turn};
use self::targets::Targets;
use super::WatchEvent;
use crate::config::ReclaimRule;
use crate::error::Error;
use crate::observe::reclaimed::{Reclaimed, ReclaimedGroup};
use crate::room::hierarchy::{Hierarchy, Version};

/// How often groups and real-time threads are looked for.
const CHOOSE_EVERY: Duration = Duration::from_secs(60);
/// The note is not written more often.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// With less of swap free, nothing is moved there ahead of time.
const SWAP_FREE_MIN: f64 = 0.1;

/// What is said of a name in the rule that no group has.
const NO_GROUP: &str = "no control group is called so now (systemd-cgls lists them)";

/// What the rule names on that machine and no control group is called; nothing where
/// that cannot be told.
pub(crate) fn unmatched(host: &Host, rule: &ReclaimRule) -> Vec<String> {
    let hierarchy = Hierarchy::find(host).ok().flatten();
    let hierarchy = hierarchy.filter(|it| it.version == Version::Two);
    let targets = hierarchy.and_then(|it| Targets::choose(host, &it, rule).ok());
    targets.map(|it| it.unmatched).unwrap_or_default()
}

/// The rule at work.
#[derive(Debug)]
pub(super) struct Reclaimer {
    rule: ReclaimRule,
    dry_run: bool,
    began: Option<Instant>,
    round: Option<Instant>,
    chosen: Option<Instant>,
    noted: Option<Instant>,
    targets: Targets,
    followed: BTreeMap<PathBuf, Followed>,
    holding: Option<String>,
    /// What was told last, so that a thing that stays is told once.
    failed: Option<String>,
    in_vain: Vec<String>,
}

/// A group that is reclaimed from.
#[derive(Debug)]
struct Followed {
    shown: String,
    first: Reading,
    history: History,
    pace: Pace,
    reclaimed_bytes: u64,
    backing_off: Option<String>,
}

impl Reclaimer {
    pub fn new(rule: ReclaimRule, dry_run: bool) -> Reclaimer {
        Reclaimer {
            rule,
            dry_run,
            began: None,
            round: None,
            chosen: None,
            noted: None,
            targets: Targets::default(),
            followed: BTreeMap::new(),
            holding: None,
            failed: None,
            in_vain: Vec::new(),
        }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        super::is_due(self.round, self.rule.every.duration(), now)
    }

    /// Looks, and reclaims what is due; `busy`: why nothing should be done just now.
    pub fn round(
        &mut self,
        host: &Host,
        now: Instant,
        busy: Option<String>,
        listener: &mut dyn FnMut(WatchEvent),
    ) {
        self.round = Some(now);
        self.began.get_or_insert(now);
        if super::is_due(self.chosen, CHOOSE_EVERY, now) {
            self.chosen = Some(now);
            match self.choose(host, listener) {
                Ok(()) => self.failed = None,
                Err(err) => {
                    self.targets = Targets::default();
                    self.followed.clear();
                    self.fail(err, listener);
                }
            }
        }
        self.hold(host, busy, listener);
        let groups: Vec<PathBuf> = self.targets.groups.keys().cloned().collect();
        for group in groups {
            if let Err(err) = self.turn(host, &group, now, listener) {
                self.followed.remove(&group);
                self.fail(err, listener);
            }
        }
        if !self.dry_run && super::is_due(self.noted, NOTE_EVERY, now) {
            self.noted = Some(now);
            if let Err(err) = self.told(now).keep(host) {
                self.fail(err, listener);
            }
        }
    }

    fn fail(&mut self, err: Error, listener: &mut dyn FnMut(WatchEvent)) {
        let text = err.to_string();
        if self.failed.as_ref() != Some(&text) {
            listener(WatchEvent::ReclaimFailed(err));
        }
        self.failed = Some(text);
    }

    fn choose(&mut self, host: &Host, listener: &mut dyn FnMut(WatchEvent)) -> Result<(), Error> {
        let hierarchy = match Hierarchy::find(host) {
            Err(Error::GroupsUnseen) => None,
            found => found?.filter(|it| it.version == Version::Two),
        };
        let Some(hierarchy) = hierarchy else {
            return Err(Error::CannotReclaim {
                why: "memory is not in control groups of version 2 here; boot with \
                      systemd.unified_cgroup_hierarchy=1, or remove the rule"
                    .to_owned(),
            });
        };
        self.targets = Targets::choose(host, &hierarchy, &self.rule)?;
        for pattern in &self.targets.unmatched {
            if !self.in_vain.contains(pattern) {
                listener(WatchEvent::Reclaim(pattern, NO_GROUP.to_owned()));
            }
        }
        self.in_vain.clone_from(&self.targets.unmatched);
        let groups = &self.targets.groups;
        if groups.is_empty() {
            return Err(Error::CannotReclaim {
                why: "no control group is of that name, or all are protected; \
                      systemd-cgls lists them"
                    .to_owned(),
            });
        }
        let can = |group: &PathBuf| host.exists(group.join("memory.reclaim"));
        if !groups.keys().any(can) {
            return Err(Error::CannotReclaim {
                why: "the kernel has no memory.reclaim (Linux 5.19)".to_owned(),
            });
        }
        for (group, followed) in &self.followed {
            if !groups.contains_key(group) {
                listener(WatchEvent::Reclaim(
                    &followed.shown,
                    "left alone".to_owned(),
                ));
            }
        }
        self.followed.retain(|group, _| groups.contains_key(group));
        Ok(())
    }

    /// Whether nothing may be reclaimed anywhere, and why.
    fn hold(&mut self, host: &Host, busy: Option<String>, listener: &mut dyn FnMut(WatchEvent)) {
        let holding = busy.or_else(|| swap_is_full(host));
        if let (None, Some(why)) = (&self.holding, &holding) {
            listener(WatchEvent::Holding(format!(
                "no memory is reclaimed: {why}"
            )));
        }
        self.holding = holding;
    }

    /// One group's turn.
    fn turn(
        &mut self,
        host: &Host,
        group: &Path,
        now: Instant,
        listener: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), Error> {
        let Some(reading) = Reading::take(host, group, now)? else {
            self.followed.remove(group);
            return Ok(());
        };
        let shown = self.targets.groups.get(group).cloned().unwrap_or_default();
        let followed = self
            .followed
            .entry(group.to_path_buf())
            .or_insert_with(|| Followed::new(shown, self.rule.step.fraction(), reading));
        let is_first = followed.history.last().is_none();
        followed.history.add(reading);
        if is_first {
            return Ok(());
        }
        let cost = followed.cost(&self.rule);
        let was_resting = followed.pace.is_resting();
        let turn = followed.pace.turn(reading.memory_bytes, cost, now);
        if turn == Turn::BackOff {
            let why = followed.why(&self.rule, cost);
            listener(WatchEvent::Reclaim(
                &followed.shown,
                format!("backs off: {why}"),
            ));
            followed.backing_off = Some(why);
        } else if was_resting && !followed.pace.is_resting() {
            followed.backing_off = None;
            listener(WatchEvent::Reclaim(&followed.shown, "goes on".to_owned()));
        }
        let Turn::Reclaim(wanted) = turn else {
            return Ok(());
        };
        if self.holding.is_some() || wanted == 0 {
            return Ok(());
        }
        if self.dry_run {
            let text = format!("would reclaim {}", bytes(wanted));
            listener(WatchEvent::Reclaim(&followed.shown, text));
            return Ok(());
        }
        if followed.reclaimed_bytes == 0 {
            let text = format!(
                "reclaimed from, {} of it at a time at first, of {}",
                percent(followed.pace.step()),
                bytes(reading.memory_bytes)
            );
            listener(WatchEvent::Reclaim(&followed.shown, text));
        }
        followed.reclaim(host, group, wanted, now)
    }

    /// What is told to those who ask.
    fn told(&self, now: Instant) -> Reclaimed {
        let page = rustix::param::page_size() as u64;
        let began = self.began.unwrap_or(now);
        let mut groups: Vec<ReclaimedGroup> = self
            .followed
            .values()
            .map(|followed| followed.told(page))
            .collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.reclaimed_bytes));
        Reclaimed {
            seconds: now.duration_since(began).as_secs(),
            every_seconds: self.rule.every.duration().as_secs(),
            holding: self.holding.clone(),
            groups,
            protected: self.targets.protected.clone(),
            unmatched: self.targets.unmatched.clone(),
        }
    }
}

impl Followed {
    fn new(shown: String, step: f64, first: Reading) -> Followed {
        Followed {
            shown,
            first,
            history: History::default(),
            pace: Pace::new(step, first.at),
            reclaimed_bytes: 0,
            backing_off: None,
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.history
            .last()
            .map_or(self.first.memory_bytes, |last| last.memory_bytes)
    }

    /// The share of its memory that came back within a minute.
    fn comeback(&self) -> f64 {
        let bytes = self.history.came_back() * rustix::param::page_size() as u64;
        bytes as f64 / self.memory_bytes().max(1) as f64
    }

    fn cost(&self, rule: &ReclaimRule) -> Cost {
        // Where nothing is allowed, anything is too much.
        let part = |measured: f64, allowed: f64| match measured == 0.0 {
            true => 0.0,
            false => measured / allowed,
        };
        Cost {
            pressure: part(self.history.stalled(), rule.pressure_max.fraction()),
            comeback: part(self.comeback(), rule.comeback_max.fraction()),
        }
    }

    fn why(&self, rule: &ReclaimRule, cost: Cost) -> String {
        if cost.pressure >= cost.comeback {
            return format!(
                "its tasks waited for memory {} of the time, and {} is allowed",
                fine(self.history.stalled()),
                fine(rule.pressure_max.fraction())
            );
        }
        format!(
            "{} of its memory came back within a minute, and {} is allowed",
            fine(self.comeback()),
            fine(rule.comeback_max.fraction())
        )
    }

    fn reclaim(
        &mut self,
        host: &Host,
        group: &Path,
        wanted: u64,
        now: Instant,
    ) -> Result<(), Error> {
        let before = self.memory_bytes();
        match host.write(group.join("memory.reclaim"), &wanted.to_string()) {
            Ok(()) => self.reclaimed_bytes += wanted,
            Err(HostError::File(err)) if is_too_little(&err.cause) => {
                let after = Reading::take(host, group, now)?;
                let after = after.map_or(before, |after| after.memory_bytes);
                self.reclaimed_bytes += before.saturating_sub(after).min(wanted);
                self.pace.found_little(now);
            }
            // The group ended meanwhile, or the watch is to end.
            Err(HostError::File(err))
                if is_absent(&err.cause) || err.cause.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err.into()),
        }
        Ok(())
    }

    fn told(&self, page: u64) -> ReclaimedGroup {
        let last = self.history.last().unwrap_or(&self.first);
        ReclaimedGroup {
            group: self.shown.clone(),
            first_memory_bytes: self.first.memory_bytes,
            memory_bytes: last.memory_bytes,
            swap_bytes: last.swap_bytes,
            reclaimed_bytes: self.reclaimed_bytes,
            came_back_bytes: last.refaults.saturating_sub(self.first.refaults) * page,
            stalled_us: last.stalled_us.saturating_sub(self.first.stalled_us),
            step: self.pace.step(),
            backing_off: self.backing_off.clone(),
        }
    }
}

/// A share as small as the limits are.
fn fine(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// The kernel found less than was asked for.
fn is_too_little(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(Errno::AGAIN.raw_os_error())
}

/// Why nothing more should be moved to swap ahead of time.
fn swap_is_full(host: &Host) -> Option<String> {
    let text = host.read_optional(meminfo::PATH).ok()??;
    let memory = Meminfo::new(&text);
    let all = memory.bytes("SwapTotal").filter(|all| *all > 0)?;
    let free = memory.bytes("SwapFree")? as f64 / all as f64;
    (free < SWAP_FREE_MIN).then(|| format!("swap is {} full", percent(1.0 - free)))
}
