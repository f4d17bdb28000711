//! Reclaims idle memory of control groups before it is needed, a little at a time, as
//! long as what it costs stays below what the rule allows.
//!
//! By `memory.reclaim` of version 2 of control groups (Linux 5.19): the kernel chooses
//! the pages, by its own lists of what was used last, from the page cache and from
//! what can be swapped. `memory.min` and `memory.low` of groups below hold there; those
//! of the group itself the kernel passes over where it is asked by itself, so that here
//! nothing is asked of what they keep.
//!
//! | module | what belongs there |
//! |---|---|
//! | `group` | a group's counters, and what they tell of the last minute |
//! | `pace` | how much at a time, by what it cost |

mod group;
mod pace;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zmeld_linux::host::is_absent;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{Host, HostError};
use zmeld_report::units::{bytes, percent};

use self::group::{History, Reading};
use self::pace::{Cost, Pace, Turn};
use super::targets::{Selection, Targets};
use super::WatchEvent;
use crate::config::ReclaimRule;
use crate::error::Error;
use crate::observe::reclaimed::{Reclaimed, ReclaimedGroup};
use crate::room::hierarchy::{Hierarchy, Version};

/// How often groups and real-time threads are looked for.
const CHOOSE_EVERY: Duration = Duration::from_secs(60);
/// A round takes no longer, for whatever else the watch has to do.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// What the kernel is asked for at a time.
const PIECE_BYTES: u64 = 4 << 20;
/// Errors that are told a minute.
const FAILURES_TOLD: u32 = 5;
/// The note is not written more often.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// With less of swap free, nothing is moved there ahead of time.
const SWAP_FREE_MIN: f64 = 0.1;

/// What is said of a name in the rule that no group has.
const NO_GROUP: &str = "no control group is called so now (systemd-cgls lists them)";

/// Where the groups are that memory can be reclaimed from.
///
/// # Errors
/// When they are not there.
pub(crate) fn hierarchy(host: &Host) -> Result<Hierarchy, Error> {
    let found = match Hierarchy::find(host) {
        Err(Error::GroupsUnseen) => None,
        found => found?.filter(|it| it.version == Version::Two),
    };
    found.ok_or_else(|| Error::CannotReclaim {
        why: "memory is not in control groups of version 2 here; boot with \
              systemd.unified_cgroup_hierarchy=1, or remove the rule"
            .to_owned(),
    })
}

pub(crate) fn selection(rule: &ReclaimRule) -> Selection<'_> {
    Selection {
        named: &rule.groups,
        protect: &rule.protect,
        protect_says: "as [watch.reclaim] protect says",
        protect_real_time: rule.protect_real_time,
        protect_cut_off: true,
    }
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
    /// Errors told since groups were chosen.
    failures_told: u32,
    /// Where the next round begins.
    next: Option<PathBuf>,
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
    /// It was said that it backs off.
    is_told: bool,
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
            failures_told: 0,
            next: None,
        }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        super::is_due(self.round, self.rule.every.duration(), now)
    }

    /// Looks, and reclaims what is due; `busy`: why nothing should be done just now. It
    /// ends early where `stop` is set.
    pub fn round(
        &mut self,
        host: &Host,
        now: Instant,
        busy: Option<String>,
        stop: &AtomicBool,
        listener: &mut dyn FnMut(WatchEvent),
    ) {
        let begin = Instant::now();
        self.round = Some(now);
        self.began.get_or_insert(now);
        if super::is_due(self.chosen, CHOOSE_EVERY, now) {
            self.chosen = Some(now);
            self.failures_told = 0;
            match self.choose(host, stop, listener) {
                Ok(()) => self.failed = None,
                Err(err) => {
                    self.targets = Targets::default();
                    self.followed.clear();
                    self.fail(err, listener);
                }
            }
        }
        self.hold(host, busy, listener);
        // Where the last round left off for want of time, this one begins.
        let groups = self.targets.groups.keys();
        let (before, behind): (Vec<_>, Vec<_>) =
            groups.partition(|group| self.next.as_ref().is_some_and(|next| *group < next));
        let groups: Vec<PathBuf> = behind.into_iter().chain(before).cloned().collect();
        self.next = None;
        for group in groups {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if begin.elapsed() > ROUND_MAX {
                self.next = Some(group);
                break;
            }
            if let Err(err) = self.turn(host, &group, now, stop, listener) {
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

    /// Takes at once from groups in which it costs little, since memory is short; what was
    /// done, in words. A group that rests is left alone here, too: what is taken from it
    /// comes back.
    pub fn make_room(
        &mut self,
        host: &Host,
        now: Instant,
        stop: &AtomicBool,
        listener: &mut dyn FnMut(WatchEvent),
    ) -> Option<String> {
        if self.dry_run {
            return None;
        }
        let begin = Instant::now();
        let (mut sum, mut groups) = (0, 0);
        let mut failures = Vec::new();
        for (group, followed) in &mut self.followed {
            let is_over = stop.load(Ordering::Relaxed) || begin.elapsed() > ROUND_MAX;
            if is_over || swap_is_full(host).is_some() {
                break;
            }
            let wanted = followed.room(&self.rule);
            if wanted == 0 {
                continue;
            }
            let before = followed.reclaimed_bytes;
            if let Err(err) = followed.reclaim(host, group, wanted, now, stop) {
                failures.push(err);
            }
            sum += followed.reclaimed_bytes - before;
            groups += 1;
        }
        for err in failures {
            self.fail(err, listener);
        }
        (groups > 0).then(|| {
            format!(
                "reclaimed {} of memory that is idle, from {groups} control groups",
                bytes(sum)
            )
        })
    }

    /// Tells of an error; of one that stays once, and of many a few a minute.
    fn fail(&mut self, err: Error, listener: &mut dyn FnMut(WatchEvent)) {
        let text = err.to_string();
        if self.failed.as_ref() != Some(&text) && self.failures_told < FAILURES_TOLD {
            self.failures_told += 1;
            listener(WatchEvent::ReclaimFailed(err));
        }
        self.failed = Some(text);
    }

    fn choose(
        &mut self,
        host: &Host,
        stop: &AtomicBool,
        listener: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), Error> {
        let hierarchy = hierarchy(host)?;
        self.targets = Targets::choose(host, &hierarchy, selection(&self.rule), stop)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
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
        for (file, why) in [
            (
                "memory.reclaim",
                "the kernel has no memory.reclaim (Linux 5.19)",
            ),
            (
                "memory.pressure",
                "the kernel does not measure pressure (psi=1 on its command line)",
            ),
        ] {
            let has = |group: &PathBuf| host.exists(group.join(file));
            if !groups.keys().any(has) {
                return Err(Error::CannotReclaim {
                    why: why.to_owned(),
                });
            }
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
        stop: &AtomicBool,
        listener: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), Error> {
        let Some(reading) = Reading::take(host, group, now)? else {
            self.followed.remove(group);
            return Ok(());
        };
        let known = self.followed.get(group);
        if known.is_some_and(|known| known.history.is_of_another(&reading)) {
            self.followed.remove(group);
        }
        let followed = self.followed.entry(group.to_path_buf()).or_insert_with(|| {
            let shown = self.targets.groups.get(group).cloned().unwrap_or_default();
            Followed::new(shown, self.rule.step.fraction(), reading)
        });
        let is_first = followed.history.last().is_none();
        followed.history.add(reading);
        if is_first {
            return Ok(());
        }
        if self.holding.is_some() {
            followed.pace.hold(now);
            return Ok(());
        }
        let wanted = followed.wanted(&self.rule, reading, now, listener);
        if wanted == 0 || swap_is_full(host).is_some() {
            return Ok(());
        }
        if self.dry_run {
            let text = format!("would reclaim {}", bytes(wanted));
            listener(WatchEvent::Reclaim(&followed.shown, text));
            return Ok(());
        }
        if followed.reclaimed_bytes == 0 && followed.backing_off.is_none() {
            let text = format!(
                "reclaimed from, {} of it at a time at first, of {}",
                percent(followed.pace.step()),
                bytes(reading.memory_bytes)
            );
            listener(WatchEvent::Reclaim(&followed.shown, text));
        }
        followed.reclaim(host, group, wanted, now, stop)
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
            is_told: false,
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

    /// How many bytes are reclaimed now, whole pages; what changes is told.
    fn wanted(
        &mut self,
        rule: &ReclaimRule,
        reading: Reading,
        now: Instant,
        listener: &mut dyn FnMut(WatchEvent),
    ) -> u64 {
        // The kernel does not spare it where a group is asked by itself.
        let memory_bytes = reading.memory_bytes.saturating_sub(reading.kept_bytes);
        let cost = self.cost(rule);
        let was_resting = self.pace.is_resting();
        let turn = self.pace.turn(memory_bytes, cost, now);
        if turn == Turn::BackOff {
            let why = self.why(rule, cost);
            let text = format!("backs off: {why}");
            listener(WatchEvent::Reclaim(&self.shown, text));
            self.backing_off = Some(why);
            self.is_told = true;
        } else if was_resting && !self.pace.is_resting() {
            self.backing_off = None;
            if std::mem::take(&mut self.is_told) {
                listener(WatchEvent::Reclaim(&self.shown, "goes on".to_owned()));
            }
        }
        let page = rustix::param::page_size() as u64;
        match turn {
            Turn::Reclaim(wanted) => wanted / page * page,
            Turn::BackOff | Turn::Rest => 0,
        }
    }

    /// How many bytes are reclaimed where memory is short, whole pages.
    fn room(&self, rule: &ReclaimRule) -> u64 {
        let Some(last) = self.history.last() else {
            return 0;
        };
        let memory_bytes = last.memory_bytes.saturating_sub(last.kept_bytes);
        let page = rustix::param::page_size() as u64;
        self.pace.room(memory_bytes, self.cost(rule)) / page * page
    }

    /// Asks the kernel for it in pieces, so that a stop is heard in between.
    fn reclaim(
        &mut self,
        host: &Host,
        group: &Path,
        wanted: u64,
        now: Instant,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let mut before = self.memory_bytes();
        let mut left = wanted;
        while left > 0 && !stop.load(Ordering::Relaxed) {
            let piece = left.min(PIECE_BYTES);
            match host.write(group.join("memory.reclaim"), &piece.to_string()) {
                Ok(()) => self.reclaimed_bytes += piece,
                Err(HostError::File(err)) if is_too_little(&err.cause) => {
                    before = before.saturating_sub(wanted - left);
                    let after = Reading::take(host, group, now)?;
                    let after = after.map_or(before, |after| after.memory_bytes);
                    self.reclaimed_bytes += before.saturating_sub(after).min(piece);
                    self.pace.back_off(now);
                    self.backing_off = Some("the kernel finds no more that is idle".to_owned());
                    break;
                }
                // The group ended meanwhile, or the watch is to end.
                Err(HostError::File(err))
                    if is_absent(&err.cause) || err.cause.kind() == io::ErrorKind::Interrupted =>
                {
                    break
                }
                Err(err) => return Err(err.into()),
            }
            left -= piece;
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
