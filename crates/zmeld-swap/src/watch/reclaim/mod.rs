//! Reclaims idle memory of control groups before it is needed, a little at a time, as
//! long as what it costs stays below what the rule allows.
//!
//! The multi-generational LRU (Linux 6.1) tells, page by page, for how long memory was not used.
//! `memory.reclaim` of a group is not asked: the kernel chooses there what may have been used a
//! moment ago, and the group rests at the first pages that come back.

mod generations;
mod group;
mod pace;
mod round;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{Host, HostError};
use zmeld_report::units::{bytes, percent};

use self::generations::{Generations, LruGenSnapshot, Taken, Walks};
use self::group::{beyond_kept, History, Reading};
use self::pace::{Cost, Pace, Turn, MEMORY_MIN};
use self::round::{Round, ROUND_MAX};
use crate::observe::reclaimed::{Reclaimed, ReclaimedGroup};
use crate::run_folder;
use crate::watch::action::Listener;
use crate::watch::error::Error;
use zmeld_config::ReclaimRule;
use zmeld_linux::groups::{Hierarchy, NoGroups, Selection, Targets, Version};
use zmeld_linux::service::is_due;

/// How often groups and real-time threads are looked for.
const CHOOSE_EVERY: Duration = Duration::from_secs(60);
/// Errors that are told a minute.
const FAILURES_TOLD: u32 = 5;
/// The note is not written more often.
const NOTE_EVERY: Duration = Duration::from_secs(10);
/// With less of swap free, nothing is moved there ahead of time.
const SWAP_FREE_MIN: f64 = 0.1;
/// and not again before this is, lest it goes to and fro.
const SWAP_FREE_AGAIN: f64 = 0.15;

const NO_PRESSURE: &str = "the kernel does not measure pressure (psi=1 on its command line)";
const NO_TARGET: &str =
    "no control group is of that name, or all are protected; systemd-cgls lists them";
/// Why a group rests from which less came than was asked for.
const NO_MORE: &str = "the kernel finds no more that is idle";
/// Why nothing is taken of what groups above keep.
const KEPT_ABOVE: &str = "a group above has no more than its memory.min or memory.low keeps";
/// Why nothing is taken from a group that the kernel did not tell of.
const CUT: &str =
    "there are too many control groups for lru_gen to list, and it leaves this one out";

/// Message for a name in the rule that no group has.
const NO_GROUP: &str = "no control group is called so now (systemd-cgls lists them)";

/// Hierarchy of groups that memory can be reclaimed from.
///
/// # Errors
/// When nothing can be reclaimed there.
fn hierarchy(host: &Host) -> Result<Hierarchy, Error> {
    let found = Hierarchy::find(host).and_then(|found| match found {
        Some(found) => Ok(Ok(found)),
        None => NoGroups::read(host).map(Err),
    });
    let why = match found {
        Ok(Ok(found)) if found.version == Version::Two => return Ok(found),
        Err(HostError::GroupsUnseen) => {
            "the memory controller's groups are not mounted here, so it is unknown what is \
             protected"
        }
        Err(err) => return Err(err.into()),
        Ok(Err(no_groups)) => no_groups.why(),
        Ok(_) => {
            "memory is not in control groups of version 2 here; under systemd, boot with \
             systemd.unified_cgroup_hierarchy=1"
        }
    };
    Err(Error::CannotReclaim(why.to_owned()))
}

/// What the machine lacks for reclaim, as far as who asks may look.
pub fn lacks(host: &Host) -> Option<String> {
    if let Ok(None) = Hierarchy::find(host) {
        // An incomplete copy of a machine's files tells nothing.
        return NoGroups::read(host).ok().map(|none| none.why().to_owned());
    }
    match hierarchy(host) {
        Err(Error::CannotReclaim(why)) => Some(why),
        Err(err) => Some(err.to_string()),
        Ok(_) => generations::why_not(host),
    }
}

pub fn selection(rule: &ReclaimRule) -> Selection<'_> {
    Selection {
        named: &rule.groups,
        protect: &rule.protect,
        protect_says: "as [watch.reclaim] protect says",
        protect_real_time: rule.protect_real_time,
        protect_cut_off: true,
    }
}

/// A control group from which memory is to be reclaimed.
#[derive(Debug)]
struct ReclaimTarget {
    shown: String,
    path: PathBuf,
    /// Its account; none before the first look.
    account: Option<Account>,
}

#[derive(Debug, Default)]
pub(super) struct Reclaimer {
    rule: ReclaimRule,
    dry_run: bool,
    began: Option<Instant>,
    round: Option<Instant>,
    chosen: Option<Instant>,
    noted: Option<Instant>,
    targets: Targets,
    groups: BTreeMap<PathBuf, ReclaimTarget>,
    /// The kernel's generations in this round.
    told: Option<LruGenSnapshot>,
    walks: Walks,
    /// Not all of them were told, and that was said.
    is_cut: bool,
    /// Why the kernel takes no orders.
    refused: Option<String>,
    holding: Option<String>,
    /// Why it is not known from where memory may be reclaimed.
    blind: Option<String>,
    /// Swap was full at the last look.
    is_swap_full: bool,
    /// The error told last, so that one that stays is told once.
    failed: Option<String>,
    in_vain: Vec<String>,
    /// Errors told since groups were chosen.
    failures_told: u32,
    /// Start of the next round.
    next: Option<PathBuf>,
    /// Results of an earlier watch, by group path; none before they are read.
    learnt: Option<BTreeMap<String, Learnt>>,
}

/// Pace learnt in a group in which reclaim cost too much. It is kept in /run, so that a watch that
/// is started anew does not make it thrash once more.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Learnt {
    step: f64,
    rest_s: u64,
    resting_s: u64,
    idle_after_s: Option<u64>,
}

const LEARNT: &str = "/run/zmeld/reclaim-learnt.json";

/// State of a group that is reclaimed from.
#[derive(Debug)]
struct Account {
    shown: String,
    generations: Generations,
    first: Reading,
    history: History,
    pace: Pace,
    reclaimed_bytes: u64,
    backing_off: Option<String>,
    /// Why nothing can be taken from it, which goes away by itself.
    lacks: Option<&'static str>,
    /// It was said that it backs off.
    is_told: bool,
    /// It was said that it is reclaimed from.
    has_begun: bool,
}

impl Reclaimer {
    pub fn new(rule: ReclaimRule, dry_run: bool) -> Reclaimer {
        Reclaimer {
            rule,
            dry_run,
            ..Reclaimer::default()
        }
    }

    pub fn is_due(&self, now: Instant) -> bool {
        is_due(self.round, self.rule.every.duration(), now)
    }

    /// Looks, and reclaims what is due; `busy`: why nothing should be done just now. It
    /// ends early where `stop` is set.
    pub fn round(
        &mut self,
        host: &Host,
        now: Instant,
        busy: Option<String>,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) {
        let round = &mut Round::new(host, now, stop, listener);
        self.round = Some(now);
        self.began.get_or_insert(now);
        if is_due(self.chosen, CHOOSE_EVERY, now) {
            self.chosen = Some(now);
            self.failures_told = 0;
            let chosen = self.choose(round);
            self.blind = chosen.as_ref().err().map(ToString::to_string);
            match chosen {
                Ok(()) => self.failed = None,
                Err(err) => {
                    self.targets = Targets::default();
                    self.fail(err, round);
                }
            }
        }
        self.hold(busy, round);
        if self.blind.is_some() {
            // Their costs are not forgotten while nothing may be reclaimed.
            let accounts = self.groups.values_mut();
            let accounts = accounts.filter_map(|it| it.account.as_mut());
            accounts.for_each(|it| it.pace.hold(now));
        } else {
            self.turns(round);
            if round.is_stopped() {
                return;
            }
        }
        if !self.dry_run && is_due(self.noted, NOTE_EVERY, now) {
            self.noted = Some(now);
            let kept = self.note(now).keep(host);
            if let Err(err) = kept.and_then(|()| self.keep_learnt(host, now)) {
                self.fail(err.into(), round);
            }
        }
    }

    fn keep_learnt(&self, host: &Host, now: Instant) -> Result<(), HostError> {
        let accounts = self.groups.values().filter_map(|it| it.account.as_ref());
        let learnt = accounts.filter_map(|account| {
            let (step, rest, left) = account.pace.learnt(now)?;
            let learnt = Learnt {
                step,
                rest_s: rest.as_secs(),
                resting_s: left.as_secs(),
                idle_after_s: account.generations.longer_s(),
            };
            Some((account.shown.clone(), learnt))
        });
        let learnt: BTreeMap<String, Learnt> = learnt.collect();
        run_folder::replace(host, LEARNT, 0o600, &learnt)
    }

    fn turns(&mut self, round: &mut Round) {
        let now = round.now;
        self.told = match round.is_pressed || self.walks.may_read(now) {
            true => self.tell(round),
            false => None,
        };
        if !round.is_pressed && self.begin_generations(round) {
            self.told = self.tell(round);
        }
        // Both have a bound of their own, and leave the others their time.
        round.end = round.host.now() + ROUND_MAX;
        // This round begins where the last one ran out of time.
        let groups = self.groups.keys();
        let (before, behind): (Vec<_>, Vec<_>) =
            groups.partition(|group| self.next.as_ref().is_some_and(|next| *group < next));
        let groups: Vec<PathBuf> = behind.into_iter().chain(before).cloned().collect();
        self.next = None;
        for group in groups {
            if round.is_stopped() {
                return;
            }
            if round.is_over() {
                self.next = Some(group);
                break;
            }
            if let Err(err) = self.turn(&group, round) {
                let target = self.groups.get_mut(&group);
                if let Some(account) = target.and_then(|it| it.account.as_mut()) {
                    account.pace.hold(now);
                }
                self.fail(err, round);
            }
        }
        // Numbers of groups may be others' soon.
        self.told = None;
    }

    /// Takes at once from groups in which it costs little, since memory is short. A group that
    /// rests is left alone here, too: what is taken from it comes back.
    pub fn make_room(
        &mut self,
        host: &Host,
        now: Instant,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) {
        if self.dry_run || self.blind.is_some() {
            return;
        }
        let round = &mut Round::new(host, now, stop, listener);
        round.is_pressed = true;
        let before = self.reclaimed_bytes();
        self.turns(round);
        let more = self.reclaimed_bytes().saturating_sub(before);
        if more > 0 {
            let more = bytes(more);
            round.say(format!(
                "memory is short: reclaimed {more} of memory that is idle"
            ));
        }
    }

    fn reclaimed_bytes(&self) -> u64 {
        let accounts = self.groups.values().filter_map(|it| it.account.as_ref());
        accounts.map(|it| it.reclaimed_bytes).sum()
    }

    fn tell(&mut self, round: &mut Round) -> Option<LruGenSnapshot> {
        let paths = self.groups.values().map(|target| target.path.as_path());
        let paths: BTreeSet<&Path> = paths.collect();
        if paths.is_empty() {
            return None;
        }
        let began = round.host.now();
        let told = LruGenSnapshot::read(round.host, &paths);
        self.walks.have_read(round.host.now() - began, round.now);
        match told {
            Ok(told) => {
                let was_cut = std::mem::replace(&mut self.is_cut, told.is_cut);
                if told.is_cut && !was_cut {
                    round.say(
                        "lru_gen: there are too many control groups to list: nothing is \
                         reclaimed from those that it leaves out",
                    );
                }
                Some(told)
            }
            Err(err) => {
                self.refuse(err, round);
                None
            }
        }
    }

    /// Begins generations, of all groups where that is due; whether any began.
    fn begin_generations(&mut self, round: &mut Round) -> bool {
        let told = self.told.as_ref().filter(|told| told.has_swap);
        let Some(told) = told.filter(|_| !self.dry_run && self.holding.is_none()) else {
            return false;
        };
        let mut due = Vec::new();
        for (group, target) in &self.groups {
            let accounts = target.account.iter();
            due.extend(accounts.flat_map(|account| account.generations.due(told, group)));
        }
        let mut begun = 0;
        if let Err(err) = self.walks.begin(due, &mut begun, round) {
            self.refuse(err, round);
        }
        begun > 0
    }

    /// Tells of an error; where it stays so, nothing more is reclaimed.
    fn refuse(&mut self, err: HostError, round: &mut Round) {
        match generations::is_lasting(&err) {
            true => {
                self.refused = Some(format!("lru_gen is not available: {err}"));
                self.chosen = None;
            }
            false => self.fail(err.into(), round),
        }
    }

    /// Tells of an error; of one that stays once, and of many a few a minute.
    fn fail(&mut self, err: Error, round: &mut Round) {
        let text = err.to_string();
        if self.failed.as_ref() != Some(&text) && self.failures_told < FAILURES_TOLD {
            self.failures_told += 1;
            round.say(text.clone());
        }
        self.failed = Some(text);
    }

    fn choose(&mut self, round: &mut Round) -> Result<(), Error> {
        let host = round.host;
        let hierarchy = hierarchy(host)?;
        if let Some(why) = self.refused.clone().or_else(|| generations::why_not(host)) {
            return Err(Error::CannotReclaim(why));
        }
        self.targets = Targets::choose(host, &hierarchy, selection(&self.rule), round.stop)?;
        if round.is_stopped() {
            return Ok(());
        }
        for pattern in &self.targets.unmatched {
            if !self.in_vain.contains(pattern) {
                round.say(format!("{pattern}: {NO_GROUP}"));
            }
        }
        self.in_vain.clone_from(&self.targets.unmatched);
        let mut before = std::mem::take(&mut self.groups);
        for (group, shown) in &self.targets.groups {
            if !host.exists(group.join("memory.pressure")) {
                continue;
            }
            // Without a slash at the end.
            let path: PathBuf = hierarchy.kernel_path(group).components().collect();
            let known = before.remove(group).filter(|known| known.path == path);
            let target = ReclaimTarget {
                shown: shown.clone(),
                path,
                account: known.and_then(|known| known.account),
            };
            self.groups.insert(group.clone(), target);
        }
        for target in before.into_values().filter(|it| it.account.is_some()) {
            round.say(format!("{}: left alone", target.shown));
        }
        let why = match (self.groups.is_empty(), self.targets.groups.is_empty()) {
            (false, _) => return Ok(()),
            (true, false) => NO_PRESSURE,
            (true, true) => NO_TARGET,
        };
        Err(Error::CannotReclaim(why.to_owned()))
    }

    /// Notes why nothing may be reclaimed anywhere.
    fn hold(&mut self, busy: Option<String>, round: &mut Round) {
        let host = round.host;
        let full = match self.is_swap_full {
            true => swap_free_below(host, SWAP_FREE_AGAIN),
            false => swap_is_full(host),
        };
        self.is_swap_full = full.is_some();
        let holding = busy.or(full);
        if let (None, Some(why)) = (&self.holding, &holding) {
            round.say(format!("holding: no memory is reclaimed: {why}"));
        }
        self.holding = holding;
    }

    fn turn(&mut self, group: &Path, round: &mut Round) -> Result<(), Error> {
        let (host, now) = (round.host, round.now);
        let Some(target) = self.groups.get_mut(group) else {
            return Ok(());
        };
        let reading = Reading::take(host, group, now)?;
        let known = target.account.as_mut();
        let known = known
            .zip(reading)
            .filter(|(it, reading)| !it.history.is_of_another(reading));
        let Some((account, reading)) = known else {
            // It is new, was made anew, or is gone.
            target.account = reading.map(|first| Account::new(target, &self.rule, first));
            let learnt = self.learnt.get_or_insert_with(|| {
                let bytes = run_folder::read(round.host, LEARNT).ok().flatten();
                bytes
                    .and_then(|it| serde_json::from_slice(&it).ok())
                    .unwrap_or_default()
            });
            if let Some((account, learnt)) =
                target.account.as_mut().zip(learnt.remove(&target.shown))
            {
                account.go_on(&learnt, now);
            }
            let first = reading.filter(|it| self.dry_run && it.memory_bytes >= MEMORY_MIN);
            if let Some(first) = first {
                let memory = bytes(first.memory_bytes);
                round.say(format!(
                    "{}: would be reclaimed from, of {memory}",
                    target.shown
                ));
            }
            return Ok(());
        };
        let is_held = match round.is_pressed {
            true => self.is_swap_full,
            false => {
                account.history.add(reading);
                self.holding.is_some()
            }
        };
        let told = self.told.as_ref();
        if is_held || account.lacks_something(told, group, round)? {
            account.pace.hold(now);
            return Ok(());
        }
        let wanted = match round.is_pressed {
            true => account.room(&self.rule),
            false => account.wanted(&self.rule, reading, round),
        };
        if wanted == 0 || swap_is_full(host).is_some() {
            return Ok(());
        }
        if self.dry_run {
            let text = format!(
                "{}: would reclaim {} at most, of what was not used for {}",
                account.shown,
                bytes(wanted),
                account.generations.idle_after()
            );
            round.say(text);
            return Ok(());
        }
        if !std::mem::replace(&mut account.has_begun, true) {
            round.say(format!(
                "{}: reclaimed from, {} of it at a time at first, of {}",
                account.shown,
                percent(account.pace.step()),
                bytes(reading.memory_bytes)
            ));
        }
        // A refusal does not end the group's account.
        if let Err(err) = account.reclaim(told, group, wanted, round) {
            self.refuse(err, round);
        }
        Ok(())
    }

    fn note(&self, now: Instant) -> Reclaimed {
        let began = self.began.unwrap_or(now);
        let groups = self.groups.values();
        let mut groups: Vec<_> = groups.filter_map(ReclaimTarget::note).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.reclaimed_bytes));
        Reclaimed {
            seconds: now.duration_since(began).as_secs(),
            every_seconds: self.rule.every.duration().as_secs(),
            holding: self.holding.clone().or_else(|| self.blind.clone()),
            groups,
            protected: self.targets.protected.clone(),
            unmatched: self.targets.unmatched.clone(),
        }
    }
}

impl ReclaimTarget {
    fn note(&self) -> Option<ReclaimedGroup> {
        let account = self.account.as_ref()?;
        let (first, last) = (&account.first, account.last());
        let page = rustix::param::page_size() as u64;
        Some(ReclaimedGroup {
            group: self.shown.clone(),
            first_memory_bytes: first.memory_bytes,
            memory_bytes: last.memory_bytes,
            swap_bytes: last.swap_bytes,
            reclaimed_bytes: account.reclaimed_bytes,
            came_back_bytes: last.came_back_since(first) * page,
            stalled_us: last.stalled_us.saturating_sub(first.stalled_us),
            step: account.pace.step(),
            idle_after_s: account.generations.longer_s(),
            backing_off: account
                .lacks
                .map(str::to_owned)
                .or(account.backing_off.clone()),
        })
    }
}

impl Account {
    fn new(target: &ReclaimTarget, rule: &ReclaimRule, first: Reading) -> Account {
        let idle_after = rule.idle_after.duration();
        let mut history = History::default();
        history.add(first);
        Account {
            shown: target.shown.clone(),
            generations: Generations::new(target.path.clone(), idle_after),
            first,
            history,
            pace: Pace::new(rule.step.fraction(), first.at),
            reclaimed_bytes: 0,
            backing_off: None,
            lacks: None,
            is_told: false,
            has_begun: false,
        }
    }

    /// Goes on with what a watch before learnt.
    fn go_on(&mut self, learnt: &Learnt, now: Instant) {
        let seconds = Duration::from_secs;
        let (rest, left) = (seconds(learnt.rest_s), seconds(learnt.resting_s));
        self.pace.go_on((learnt.step, rest, left), now);
        if let Some(idle_s) = learnt.idle_after_s {
            self.generations.go_on(idle_s, now);
        }
    }

    fn last(&self) -> &Reading {
        self.history.last().unwrap_or(&self.first)
    }

    /// Whether nothing can be taken from it for now, which goes away by itself; it is told why.
    fn lacks_something(
        &mut self,
        told: Option<&LruGenSnapshot>,
        group: &Path,
        round: &mut Round,
    ) -> Result<bool, Error> {
        let host = round.host;
        let why = if group::no_swap(host).is_some() {
            Some(group::NO_SWAP)
        } else if beyond_kept(host, group)? == 0 {
            Some(KEPT_ABOVE)
        } else if told.map_or(self.lacks == Some(CUT), |it| {
            it.cuts_off(self.generations.path())
        }) {
            // While it is not read again, it is as it was.
            Some(CUT)
        } else {
            group::no_swap_of(host, group)?
        };
        // That not all is told is said once for all.
        let new = why.filter(|why| self.lacks != Some(*why) && *why != CUT);
        if let Some(why) = new {
            round.say(format!("{}: nothing is reclaimed: {why}", self.shown));
        }
        self.lacks = why;
        Ok(why.is_some())
    }

    /// The share of its memory that came back within a minute.
    fn comeback(&self) -> f64 {
        let bytes = self.history.came_back() * rustix::param::page_size() as u64;
        bytes as f64 / self.last().memory_bytes.max(1) as f64
    }

    fn cost(&self, rule: &ReclaimRule) -> Cost {
        // Any cost is too much where none is allowed.
        let part = |measured: f64, allowed: f64| match measured == 0.0 {
            true => 0.0,
            false => measured / allowed,
        };
        Cost {
            pressure: part(self.history.stalled(), rule.pressure_max.fraction()),
            comeback: part(self.comeback(), rule.refault_max.fraction()),
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
            fine(rule.refault_max.fraction())
        )
    }

    /// How many bytes are reclaimed now, whole pages; what changes is told.
    fn wanted(&mut self, rule: &ReclaimRule, reading: Reading, round: &mut Round) -> u64 {
        let now = round.now;
        // The kernel does not spare it where a group is asked by itself.
        let memory_bytes = reading.memory_bytes.saturating_sub(reading.kept_bytes);
        let cost = self.cost(rule);
        let was_resting = self.pace.is_resting();
        let turn = self.pace.turn(memory_bytes, cost, now);
        self.generations.calm_down(now);
        if turn == Turn::BackOff {
            let mut why = self.why(rule, cost);
            let is_comeback = cost.comeback > cost.pressure;
            let longer = is_comeback.then(|| self.generations.came_back(now));
            if let Some(idle_after) = longer.flatten() {
                why += &format!("; now only what is idle for {idle_after} goes");
            }
            round.say(format!("{}: backs off: {why}", self.shown));
            self.backing_off = Some(why);
            self.is_told = true;
        } else if was_resting && !self.pace.is_resting() {
            self.backing_off = None;
            if std::mem::take(&mut self.is_told) {
                round.say(format!("{}: goes on", self.shown));
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
        let last = self.last();
        let memory_bytes = last.memory_bytes.saturating_sub(last.kept_bytes);
        let page = rustix::param::page_size() as u64;
        self.pace.room(memory_bytes, self.cost(rule)) / page * page
    }

    /// Reclaims it, or as much of it as is idle.
    fn reclaim(
        &mut self,
        told: Option<&LruGenSnapshot>,
        group: &Path,
        wanted: u64,
        round: &Round,
    ) -> Result<(), HostError> {
        let page = rustix::param::page_size() as u64;
        let wanted = wanted.min(beyond_kept(round.host, group)?) / page * page;
        // None where it could not be read, which was told, or is not to be read again so soon.
        let Some(told) = told else {
            self.pace.hold(round.now);
            return Ok(());
        };
        let mut taken = Taken::default();
        let reclaimed = self
            .generations
            .reclaim(told, group, wanted, round, &mut taken);
        self.reclaimed_bytes += taken.bytes;
        if self.generations.is_in_vain(taken) {
            self.pace.back_off(round.now);
            self.backing_off = Some(NO_MORE.to_owned());
        } else if !taken.is_seen {
            self.pace.hold(round.now);
        }
        reclaimed
    }
}

/// A share as small as the limits are.
fn fine(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Why nothing more should be moved to swap ahead of time.
fn swap_is_full(host: &Host) -> Option<String> {
    swap_free_below(host, SWAP_FREE_MIN)
}

fn swap_free_below(host: &Host, least: f64) -> Option<String> {
    let text = host.read_optional(meminfo::PATH).ok()??;
    let memory = Meminfo::new(&text);
    // Of no swap nothing is full: that is no number, which is below none.
    let free = memory.bytes("SwapFree")? as f64 / memory.bytes("SwapTotal")? as f64;
    (free < least).then(|| format!("swap is {} full", percent(1.0 - free)))
}
