//! Acts before a machine freezes: makes room, and ends what it was told to end first.
//!
//! What counts is how much more programs can take, in RAM, compressed and on drives,
//! not how much swap is free. Where that is little, or soon gone, [`Guard::is_short`]
//! has the watch do at once what its rules do from time to time. Where it is less
//! still, or where nothing goes on for want of memory, a control group that the rule
//! names is told to end, by SIGTERM, then by SIGKILL: the one that grew most within
//! ten seconds.
//!
//! From a look to a signal no memory is taken: files stay open, and what is read has
//! its place. What takes memory, choosing groups and telling what was done, is done
//! while there is some, or after the signal.
//!
//! | module | what belongs there |
//! |---|---|
//! | `sight` | how much programs can take, and how soon that is gone |
//! | `candidate` | a group that may be ended |
//! | `choice` | which one of them |
//! | `open`, `ring` | a file that stays open; a figure of the last ten seconds |

mod candidate;
mod choice;
mod open;
mod ring;
mod sight;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use rustix::process::{getrlimit, setrlimit, Resource};
use zmeld_linux::Host;
use zmeld_report::units::{bytes, percent};

use self::candidate::Candidate;
use self::choice::{choose, Cause};
use self::open::touched;
use self::sight::{is_soon, Seen, Sight};
use super::targets::{Selection, Targets};
use crate::config::{GroupPattern, GuardRule, Percent};
use crate::error::Error;
use crate::observe::guarded::{EndedGroup, Guarded};
use crate::room::hierarchy::Hierarchy;

/// How often it looks, at least and at most.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// As fast as a program can fill memory: it looks so often that no more than this goes
/// between two looks, as far as the shortest pause allows.
const FILLED_PER_SECOND: f64 = 4.0 * (1_u64 << 30) as f64;
/// How often groups are chosen; while memory is short and there is some, since what runs
/// away may have begun just now; and where one has to end and none is known.
const CHOOSE_EVERY: Duration = Duration::from_secs(10);
const CHOOSE_EVERY_SHORT: Duration = Duration::from_secs(1);
const CHOOSE_EVERY_LOST: Duration = Duration::from_secs(3);
/// Groups are followed where programs can take less than so many times what the rule
/// calls little.
const FOLLOWED_BELOW: u64 = 4;
/// On a large machine a share of RAM is a lot: this is little, and this very little.
const ROOM_BELOW_MAX: u64 = 4 << 30;
const END_BELOW_MAX: u64 = 1 << 30;
/// What a group gives back when it ends is waited for before another one is ended: until
/// nothing more came for so long, and no longer than that.
const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// After so many in a row that gave back less than half of what they held, only what grows
/// is ended for so long: what takes the memory is elsewhere.
const IN_VAIN_MAX: u32 = 2;
const BRAKE: Duration = Duration::from_secs(60);
/// One that has not gone so long after SIGKILL is given up: it waits in the kernel.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);
/// A thing that stays is told again after so long.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Files that may be open.
const FILES: u64 = 4096;
/// No more groups are looked at for processes, and no more are followed.
const LOOKED_AT_MAX: usize = 4096;
/// Nor those with a longer path, in bytes.
const PATH_MAX: usize = 1024;
const CANDIDATES_MAX: usize = 64;
/// The note is not written more often.
const NOTE_EVERY: Duration = Duration::from_secs(10);
const NOTE_EVERY_SHORT: Duration = Duration::from_secs(120);
/// Before all others, and whatever the configuration says of them: what is needed to
/// get at the machine.
const NEVER: [&str; 11] = [
    // Paths: of a name alone anybody could call a group of his own.
    "/init.scope",
    "/system.slice/systemd-*.service",
    "/system.slice/dbus*.service",
    "/system.slice/ssh*.service",
    "/system.slice/system-ssh*.slice",
    "/system.slice/system-getty.slice",
    "/system.slice/system-serial*getty.slice",
    "/system.slice/*getty*.service",
    "/system.slice/*dm.service",
    "/user.slice/user-0.slice",
    // A desktop's shell: with it, all else of the session would end.
    "/user.slice/user-*.slice/user@*.service/session.slice",
];

/// Something that the guard says, after it has done it.
#[derive(Debug)]
#[non_exhaustive]
pub enum GuardEvent {
    /// What it sees or does, in words.
    Said(String),
    /// What it cannot do.
    Failed(Error),
}

/// The guard at work, in a thread of its own; it ends with this.
#[derive(Debug)]
pub struct Guard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    is_short: AtomicBool,
    /// What was done to make room, since it has been short.
    tried: Mutex<Vec<String>>,
}

impl Guard {
    /// Begins. This process's memory is locked, as far as it is allowed to.
    ///
    /// # Errors
    /// When the machine cannot be looked at, or the thread cannot be started.
    pub fn start(
        host: Host,
        rule: GuardRule,
        dry_run: bool,
        mut say: impl FnMut(GuardEvent) + Send + 'static,
    ) -> Result<Guard, Error> {
        let shared = Arc::new(Shared::default());
        let mut sentry = Sentry::with(host, rule, dry_run, Arc::clone(&shared))?;
        let work = move || {
            // With a pool of its own it would take memory anew later.
            let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
            if let Err(err) = rustix::mm::mlockall(flags) {
                say(GuardEvent::Said(format!(
                    "the guard's memory may be swapped out, so that it may be late: mlockall: {err}"
                )));
            }
            // Files stay open for each group.
            let mut files = getrlimit(Resource::Nofile);
            files.current = files
                .maximum
                .map_or(Some(FILES), |most| Some(most.min(FILES)));
            let _ = setrlimit(Resource::Nofile, files);
            // Of this thread. Without the right to, it has its turn like others.
            let _ = rustix::process::setpriority_process(None, -20);
            let mut pause = Duration::ZERO;
            while !sentry.shared.stop.load(Ordering::Relaxed) {
                let planned = Instant::now() + pause;
                std::thread::park_timeout(pause);
                if sentry.shared.stop.load(Ordering::Relaxed) {
                    break;
                }
                let now = Instant::now();
                sentry.was_late(now.saturating_duration_since(planned));
                pause = sentry.look(now, &mut say);
            }
        };
        let thread = std::thread::Builder::new()
            .name("guard".to_owned())
            .stack_size(512 << 10)
            .spawn(work)
            .map_err(|err| Error::CannotGuard {
                why: format!("no thread can be started: {err}"),
            })?;
        Ok(Guard {
            shared,
            thread: Some(thread),
        })
    }

    /// Whether room should be made now.
    pub fn is_short(&self) -> bool {
        self.shared.is_short.load(Ordering::Relaxed)
    }

    /// Whether it has stopped by itself, which it should not.
    pub fn has_stopped(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_none_or(|thread| thread.is_finished())
    }

    /// What was done to make room; it is told beside what is ended.
    pub fn tried(&self, what: String) {
        self.shared.note_tried(what);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends by itself; if it panicked, that was told.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn note_tried(&self, what: String) {
        if let Ok(mut tried) = self.tried.lock() {
            // Whoever tells of it does not wait for this.
            if !tried.contains(&what) && tried.len() < 8 {
                tried.push(what);
            }
        }
    }

    fn tried(&self) -> Vec<String> {
        self.tried
            .try_lock()
            .map(|it| it.clone())
            .unwrap_or_default()
    }
}

/// Looks, and acts.
#[derive(Debug)]
pub struct Sentry {
    host: Host,
    rule: GuardRule,
    dry_run: bool,
    shared: Arc<Shared>,
    sight: Sight,
    candidates: Vec<Candidate>,
    buffer: Vec<u8>,
    chosen: Option<Instant>,
    choosing_took: Duration,
    looked_at_groups: Option<Instant>,
    ending: Option<Ending>,
    /// What the last one that was ended is giving back.
    settling: Option<Settling>,
    /// How many in a row gave back less than half of what they held.
    in_vain: u32,
    /// Since when only what grows is ended.
    braked: Option<Instant>,
    told: Told,
    note: Guarded,
    noted: Option<Instant>,
    began: Option<Instant>,
}

/// What was told last, and when.
#[derive(Debug, Default)]
struct Told {
    is_short: bool,
    failed: Option<String>,
    nothing: Option<Instant>,
    would: Option<Instant>,
}

/// A group that has gone, and whose memory comes back.
#[derive(Debug, Clone, Copy)]
struct Settling {
    since: Instant,
    /// When it last came back.
    rose: Instant,
    headroom_bytes: u64,
    /// What there would be with half of what it held.
    wanted_bytes: u64,
}

/// A group on its way out.
#[derive(Debug)]
struct Ending {
    candidate: Candidate,
    since: Instant,
    killed: Option<Instant>,
    /// What programs could take when it was told.
    headroom_bytes: u64,
    told: EndedGroup,
}

impl Sentry {
    /// One that looks when it is asked to.
    ///
    /// # Errors
    /// When the machine cannot be looked at.
    pub fn new(host: Host, rule: GuardRule, dry_run: bool) -> Result<Sentry, Error> {
        Sentry::with(host, rule, dry_run, Arc::new(Shared::default()))
    }

    fn with(
        host: Host,
        rule: GuardRule,
        dry_run: bool,
        shared: Arc<Shared>,
    ) -> Result<Sentry, Error> {
        let sight = Sight::open(&host).ok_or_else(|| Error::CannotGuard {
            why: "/proc/meminfo cannot be opened".to_owned(),
        })?;
        Ok(Sentry {
            host,
            rule,
            dry_run,
            shared,
            sight,
            candidates: Vec::with_capacity(CANDIDATES_MAX + 1),
            buffer: touched(),
            chosen: None,
            choosing_took: Duration::ZERO,
            looked_at_groups: None,
            ending: None,
            settling: None,
            in_vain: 0,
            braked: None,
            told: Told::default(),
            note: Guarded::default(),
            noted: None,
            began: None,
        })
    }

    /// Whether room should be made now.
    pub fn is_short(&self) -> bool {
        self.shared.is_short.load(Ordering::Relaxed)
    }

    /// Looks, and does what is due; when to look again.
    pub fn look(&mut self, now: Instant, say: &mut dyn FnMut(GuardEvent)) -> Duration {
        let began = *self.began.get_or_insert(now);
        let Some(seen) = self.sight.look(now) else {
            self.fail(
                Error::CannotGuard {
                    why: "/proc/meminfo cannot be read".to_owned(),
                },
                say,
            );
            return PAUSE_MAX;
        };
        let cause = self.cause(&seen);
        self.look_at_groups(&seen, cause, now);
        // What follows takes memory in what it tells, after what it did.
        self.go_on_ending(&seen, now, say);
        if let Some(cause) = cause {
            self.end_one(cause, &seen, now, say);
        }
        self.tell_of_room(&seen, cause, say);
        self.choose_groups(cause, now, say);
        self.note.seconds = now.duration_since(began).as_secs();
        self.note.looks += 1;
        self.note.headroom_bytes = seen.headroom_bytes;
        self.note.is_short = self.is_short();
        self.keep_note(now, say);
        self.pause(&seen)
    }

    /// A look came so much later than it should have.
    fn was_late(&mut self, late: Duration) {
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.note.late_us_max = self.note.late_us_max.max(late_us);
    }

    /// Why something has to end now.
    fn cause(&self, seen: &Seen) -> Option<Cause> {
        if seen.headroom_bytes < self.end_below(seen) {
            return Some(Cause::NoRoom);
        }
        // Waiting at the limits of groups counts as well: alone it says nothing of the machine.
        let is_little = seen.headroom_bytes < self.room_below(seen);
        let most = self.rule.stalled_max.fraction();
        let is_stalled = seen.stalled.is_some_and(|stalled| stalled >= most);
        (is_little && is_stalled).then_some(Cause::Stalled)
    }

    fn end_below(&self, seen: &Seen) -> u64 {
        part(self.rule.end_below, seen).min(END_BELOW_MAX)
    }

    fn room_below(&self, seen: &Seen) -> u64 {
        part(self.rule.room_below, seen).min(ROOM_BELOW_MAX)
    }

    fn look_at_groups(&mut self, seen: &Seen, cause: Option<Cause>, now: Instant) {
        let least = self.room_below(seen).saturating_mul(FOLLOWED_BELOW);
        let is_near = seen.headroom_bytes < least || is_soon(seen) || seen.stalled > Some(0.0);
        let waited = cause.is_some()
            || self
                .looked_at_groups
                .is_none_or(|at| now.duration_since(at) >= PAUSE_MAX / 2);
        if !is_near || !waited {
            return;
        }
        self.looked_at_groups = Some(now);
        for candidate in &mut self.candidates {
            candidate.look(now, &mut self.buffer);
        }
    }

    fn end_one(
        &mut self,
        cause: Cause,
        seen: &Seen,
        now: Instant,
        say: &mut dyn FnMut(GuardEvent),
    ) {
        if self.ending.is_some() || self.is_settling(seen, now) {
            return;
        }
        // After some were ended in vain, only what grows: the rest is not to blame.
        let is_braked = self.braked.is_some_and(|at| now.duration_since(at) < BRAKE);
        let rule = match is_braked {
            true => Cause::Stalled,
            false => cause,
        };
        let begin = Instant::now();
        let Some(place) = choose(&self.candidates, rule, seen.total_bytes, now) else {
            if is_over(&mut self.told.nothing, now) {
                say(GuardEvent::Said(format!(
                    "{}; nothing that may be ended {}",
                    self.why(cause, seen),
                    match rule {
                        Cause::NoRoom => "has processes",
                        Cause::Stalled => "grows",
                    }
                )));
            }
            return;
        };
        if self.dry_run {
            if is_over(&mut self.told.would, now) {
                let said = self.what(&self.candidates[place], now);
                let why = self.why(cause, seen);
                say(GuardEvent::Said(format!("would end {said}; {why}")));
            }
            return;
        }
        let mut candidate = self.candidates.swap_remove(place);
        let count = candidate.tell(&self.host, &mut self.buffer);
        let reaction = begin.elapsed();
        let is_deaf = count == 0 && !candidate.is_empty(&mut self.buffer);
        if is_deaf {
            // Somebody is there and cannot be told: not the next one's fault.
            candidate.kill(&self.host, &mut self.buffer);
        } else if count == 0 {
            // Nobody was there any more: the next look takes the next one.
            return;
        }
        // It is done: from here on memory may be taken.
        let why = format!("{}; {}", self.what(&candidate, now), self.why(cause, seen));
        let tried = self.shared.tried();
        self.ending = Some(Ending {
            since: now,
            headroom_bytes: seen.headroom_bytes,
            killed: is_deaf.then_some(now),
            told: EndedGroup {
                group: candidate.shown.clone(),
                why: why.clone(),
                tried: tried.clone(),
                held_bytes: candidate.bytes(),
                processes: count as u64,
                was_killed: is_deaf,
                reaction_us: u64::try_from(reaction.as_micros()).unwrap_or(u64::MAX),
                took_ms: None,
            },
            candidate,
        });
        say(GuardEvent::Said(format!(
            "ends {why} (SIGTERM to {count} processes){}",
            match tried.is_empty() {
                true => String::new(),
                false => format!("; before that: {}", tried.join("; ")),
            }
        )));
    }

    /// Whether what was ended still gives back memory. Where the last ones gave next to
    /// nothing, what takes the memory is elsewhere.
    fn is_settling(&mut self, seen: &Seen, now: Instant) -> bool {
        let Some(settling) = &mut self.settling else {
            return false;
        };
        let rose = seen.headroom_bytes.saturating_sub(settling.headroom_bytes);
        if rose > seen.total_bytes / 1000 {
            settling.rose = now;
            settling.headroom_bytes = seen.headroom_bytes;
        }
        let age = now.duration_since(settling.since);
        if now.duration_since(settling.rose) < SETTLE && age < SETTLE_MAX {
            return true;
        }
        let is_vain = settling.headroom_bytes < settling.wanted_bytes;
        self.settling = None;
        self.in_vain = match is_vain {
            true => self.in_vain + 1,
            false => 0,
        };
        if self.in_vain >= IN_VAIN_MAX {
            self.in_vain = 0;
            self.braked = Some(now);
        }
        false
    }

    /// One that was told to end: it has, or is killed.
    fn go_on_ending(&mut self, seen: &Seen, now: Instant, say: &mut dyn FnMut(GuardEvent)) {
        // Half of what was little: there is no time to wait for an orderly end.
        let is_pressing = seen.headroom_bytes < self.end_below(seen) / 2;
        let Some(ending) = &mut self.ending else {
            return;
        };
        let age = now.duration_since(ending.since);
        let is_gone = ending.candidate.has_ended(&mut self.buffer);
        let is_given_up = ending
            .killed
            .is_some_and(|at| now.duration_since(at) >= GIVEN_UP_AFTER);
        if is_gone || is_given_up {
            ending.told.took_ms = is_gone.then_some(age.as_millis() as u64);
            say(GuardEvent::Said(format!(
                "{} {} {:.1} s; programs can take {} more",
                ending.told.group,
                match is_gone {
                    true => "ended after",
                    false => "does not end, it waits in the kernel: given up after",
                },
                age.as_secs_f64(),
                bytes(seen.headroom_bytes)
            )));
            if let Some(ended) = self.ending.take() {
                self.settling = Some(Settling {
                    since: now,
                    rose: now,
                    headroom_bytes: seen.headroom_bytes,
                    wanted_bytes: ended.headroom_bytes + ended.told.held_bytes / 2,
                });
                self.note.ended(ended.told);
            }
            self.noted = None;
            return;
        }
        let is_late = age >= self.rule.grace.duration();
        if !is_late && !is_pressing {
            return;
        }
        ending.candidate.kill(&self.host, &mut self.buffer);
        ending.told.was_killed = true;
        if ending.killed.is_none() {
            ending.killed = Some(now);
            say(GuardEvent::Said(format!(
                "{} is killed (SIGKILL): {}",
                ending.told.group,
                match is_late {
                    true => format!("it did not end within {}", self.rule.grace),
                    false => format!("programs can take {} more", bytes(seen.headroom_bytes)),
                }
            )));
        }
    }

    fn tell_of_room(&mut self, seen: &Seen, cause: Option<Cause>, say: &mut dyn FnMut(GuardEvent)) {
        let little = self.room_below(seen);
        let is_short = seen.headroom_bytes < little || is_soon(seen) || cause.is_some();
        // Not to and fro at the edge.
        let stays = self.told.is_short && seen.headroom_bytes < little / 4 * 5;
        let is_short = is_short || stays;
        self.shared.is_short.store(is_short, Ordering::Relaxed);
        if is_short != self.told.is_short {
            let room = room(seen);
            say(GuardEvent::Said(match is_short {
                true => format!("memory is short: {room}"),
                false => format!("memory is not short any more: {room}"),
            }));
            if !is_short {
                if let Ok(mut tried) = self.shared.tried.try_lock() {
                    tried.clear();
                }
            }
        }
        self.told.is_short = is_short;
    }

    fn choose_groups(
        &mut self,
        cause: Option<Cause>,
        now: Instant,
        say: &mut dyn FnMut(GuardEvent),
    ) {
        let is_lost = cause.is_some() && self.candidates.is_empty();
        let every = match (is_lost, self.is_short()) {
            (true, _) => CHOOSE_EVERY_LOST,
            (false, true) => CHOOSE_EVERY_SHORT,
            (false, false) => CHOOSE_EVERY,
        };
        // A tenth of the time at most, whatever there is to look at.
        let every = every.max((self.choosing_took * 10).min(CHOOSE_EVERY));
        if self.ending.is_some() || !super::is_due(self.chosen, every, now) {
            return;
        }
        let before = self.chosen.replace(now);
        let begin = Instant::now();
        self.sight.follow(&self.host);
        if self.rule.end.is_empty() {
            return;
        }
        let found = self.find_groups(before, now);
        self.choosing_took = begin.elapsed();
        match found {
            Ok(()) => self.told.failed = None,
            // Those that are known stay.
            Err(err) => self.fail(err, say),
        }
    }

    /// `before`: when they were found last. One that was not there then has grown from
    /// nothing.
    fn find_groups(&mut self, before: Option<Instant>, now: Instant) -> Result<(), Error> {
        let hierarchy = Hierarchy::find(&self.host)?.ok_or_else(|| Error::CannotGuard {
            why: "the kernel has no control groups that count memory: nothing can be ended by \
                  its group"
                .to_owned(),
        })?;
        let mut protect = self.rule.protect.clone();
        let never: Result<Vec<GroupPattern>, String> = NEVER.iter().map(|it| it.parse()).collect();
        protect.extend(never.unwrap_or_default());
        let selection = selection(&self.rule, &protect);
        let mut targets = Targets::choose(&self.host, &hierarchy, selection, &self.shared.stop)?;
        targets.unmatched.retain(|it| !NEVER.contains(&it.as_str()));
        let mut found = Vec::with_capacity(CANDIDATES_MAX + 1);
        for directory in self.ended_whole(targets.groups.into_keys()) {
            let rank = rank(&self.rule.end, &hierarchy.shown(&directory));
            let Some(mut candidate) = Candidate::open(&self.host, &hierarchy, &directory, rank)
            else {
                continue;
            };
            let mut known = self.candidates.iter();
            match (known.find(|it| it.directory == directory), before) {
                (Some(known), _) => candidate.go_on(known),
                (None, Some(before)) => {
                    let oldest = now.checked_sub(ring::WINDOW).unwrap_or(before);
                    candidate.began_after(before.max(oldest));
                }
                (None, None) => candidate.rehearse(&self.host),
            }
            candidate.look(now, &mut self.buffer);
            found.push(candidate);
            if found.len() > CANDIDATES_MAX {
                // The largest ones matter.
                let smallest = (0..found.len()).min_by_key(|at| found[*at].bytes());
                found.swap_remove(smallest.unwrap_or(0));
            }
        }
        self.candidates = found;
        self.note.watched = self.candidates.iter().map(|it| it.shown.clone()).collect();
        self.note.protected = targets.protected;
        self.note.unmatched = targets.unmatched;
        Ok(())
    }

    /// The groups that are ended each by itself: those that have processes of their own or
    /// none below, or that the kernel would end whole, too (`memory.oom.group`).
    fn ended_whole(&self, groups: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
        let says = |group: &PathBuf, file: &str| {
            let text = self.host.read_optional(group.join(file)).ok().flatten();
            text.unwrap_or_default()
        };
        // Level by level: who makes many groups hides those of nobody else.
        let mut left: VecDeque<PathBuf> = groups.collect();
        let mut looked_at = 0;
        let mut whole = Vec::new();
        while let Some(group) = left.pop_front() {
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX || self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            let has_own = !says(&group, "cgroup.procs").trim().is_empty();
            let below = match has_own || says(&group, "memory.oom.group").trim() == "1" {
                true => Vec::new(),
                false => {
                    let below = self.host.folders_at_most(&group, LOOKED_AT_MAX);
                    below.ok().flatten().unwrap_or_default()
                }
            };
            // One without any may have some soon. Where there is more than is looked at, or
            // a path that is too long, who hides there does not hide from its end.
            let is_too_much = looked_at + left.len() + below.len() > LOOKED_AT_MAX
                || below.iter().any(|it| it.as_os_str().len() > PATH_MAX);
            match below.is_empty() || is_too_much {
                true => whole.push(group),
                false => left.extend(below),
            }
        }
        whole.extend(left);
        whole
    }

    fn fail(&mut self, err: Error, say: &mut dyn FnMut(GuardEvent)) {
        let text = err.to_string();
        if self.told.failed.as_ref() != Some(&text) {
            say(GuardEvent::Failed(err));
        }
        self.told.failed = Some(text);
    }

    fn keep_note(&mut self, now: Instant, say: &mut dyn FnMut(GuardEvent)) {
        // Seldom while there is little memory to write it with.
        let every = match self.is_short() {
            true => NOTE_EVERY_SHORT,
            false => NOTE_EVERY,
        };
        if self.dry_run || self.ending.is_some() || !super::is_due(self.noted, every, now) {
            return;
        }
        self.noted = Some(now);
        if let Err(err) = self.note.clone().keep(&self.host) {
            self.fail(err, say);
        }
    }

    fn pause(&self, seen: &Seen) -> Duration {
        if self.ending.is_some() {
            return PAUSE_MIN;
        }
        let filled = seen.headroom_bytes as f64 / FILLED_PER_SECOND;
        let gone = seen.gone_in.map_or(f64::INFINITY, |it| it.as_secs_f64());
        let soonest = filled.min(gone / 8.0);
        Duration::try_from_secs_f64(soonest)
            .unwrap_or(PAUSE_MAX)
            .clamp(PAUSE_MIN, PAUSE_MAX)
    }

    fn what(&self, candidate: &Candidate, now: Instant) -> String {
        let grew = candidate.grew_bytes(now);
        let holds = format!("{}: it holds {}", candidate.shown, bytes(candidate.bytes()));
        match grew {
            0 => holds,
            grew => format!("{holds}, {} more than 10 s ago", bytes(grew)),
        }
    }

    fn why(&self, cause: Cause, seen: &Seen) -> String {
        match cause {
            Cause::NoRoom => room(seen),
            Cause::Stalled => format!(
                "nothing went on for want of memory in {} of the last 10 s",
                percent(seen.stalled.unwrap_or_default())
            ),
        }
    }
}

/// What the rule says of groups, with all that it protects.
pub(crate) fn selection<'a>(rule: &'a GuardRule, protect: &'a [GroupPattern]) -> Selection<'a> {
    Selection {
        named: &rule.end,
        protect,
        protect_says: "as [watch.guard] protect says, or it is needed to get at the machine",
        protect_real_time: rule.protect_real_time,
        protect_cut_off: false,
    }
}

/// The place of the first pattern that names a group, or one above it.
fn rank(patterns: &[GroupPattern], shown: &str) -> usize {
    let ends = shown.match_indices('/').map(|(at, _)| at).skip(1);
    let above: Vec<&str> = ends
        .map(|end| &shown[..end])
        .chain(std::iter::once(shown))
        .collect();
    let names = |pattern: &GroupPattern| above.iter().any(|group| pattern.matches(group));
    patterns.iter().position(names).unwrap_or(patterns.len())
}

fn room(seen: &Seen) -> String {
    let room = format!(
        "programs can take {} more, {} of RAM",
        bytes(seen.headroom_bytes),
        percent(seen.share())
    );
    match seen.gone_in.filter(|_| is_soon(seen)) {
        Some(time) => format!("{room}, gone in {:.0} s", time.as_secs_f64().ceil()),
        None => room,
    }
}

fn part(share: Percent, seen: &Seen) -> u64 {
    (seen.total_bytes as f64 * share.fraction()) as u64
}

/// Whether it is time to tell of a thing again; it is told now.
fn is_over(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = super::is_due(*told, TOLD_EVERY, now);
    if is_over {
        *told = Some(now);
    }
    is_over
}

impl Seen {
    /// What programs can take, as a share of RAM.
    fn share(&self) -> f64 {
        crate::observe::share(self.headroom_bytes, self.total_bytes)
    }
}
