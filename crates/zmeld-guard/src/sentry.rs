//! The guard: the thread that looks, and acts.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use rustix::process::{getrlimit, setrlimit, Resource};
use zmeld_linux::amount::Percent;
use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

use super::candidate::Candidate;
use super::choice::Cause;
use super::ending::AGAIN_MAX;
use super::groups::Chooser;
use super::log::Log;
use super::note::{EndedGroup, Guarded};
use super::open::touched;
use super::sight::{is_soon, is_too_soon, Seen, Sight};
use super::text::{bytes, percent};
use super::{devices, is_due, Error, Rule};

/// How often it looks, at least and at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// As fast as a program can fill memory: it looks so often that no more than this goes
/// between two looks, as far as the shortest pause allows.
const FILLED_PER_SECOND: f64 = 4.0 * (1_u64 << 30) as f64;
/// On a large machine a share of RAM is a lot: this is little, and this very little.
const ROOM_BELOW_MAX: u64 = 4 << 30;
const END_BELOW_MAX: u64 = 1 << 30;
/// A thing that stays is told again after so long.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Files that may be open.
const FILES: u64 = 4096;
/// For so long, in each look, memory goes too fast before that counts: less is one large
/// request.
const TOO_SOON_LASTS: Duration = Duration::from_millis(400);
/// The note is not written more often.
const NOTE_EVERY: Duration = Duration::from_secs(10);
const NOTE_EVERY_SHORT: Duration = Duration::from_secs(120);

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
    log: Log,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    is_short: AtomicBool,
}

impl Guard {
    /// Begins. This process's memory is locked, as far as it is allowed to.
    ///
    /// # Errors
    /// When the machine cannot be looked at, or the thread cannot be started.
    pub fn start(
        host: Host,
        rule: Rule,
        dry_run: bool,
        say: impl FnMut(GuardEvent) + Send + 'static,
    ) -> Result<Guard, Error> {
        let shared = Arc::new(Shared::default());
        let devices = devices::Reader::start(host.clone())?;
        let chooser = Chooser::start(host.clone(), rule.clone(), Arc::clone(&shared))?;
        let at_work = Arc::clone(&shared);
        let mut sentry = Sentry::with(host, rule, dry_run, at_work, devices, chooser)?;
        let (log, mut lines) = Log::start(say)?;
        let work = move || {
            let mut say = |event| lines.say(event);
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
            hurry(&sentry.host);
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
        let thread = thread("guard", work)?;
        Ok(Guard {
            shared,
            thread: Some(thread),
            log,
        })
    }

    /// Whether it has stopped by itself, which it should not.
    pub fn has_stopped(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_none_or(|thread| thread.is_finished())
    }
}

pub(crate) fn thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(512 << 10)
        .spawn(work)
        .map_err(|err| Error::CannotGuard {
            why: format!("no thread can be started: {err}"),
        })
}

/// This thread runs before all that run away, or where it may not, more than its turn.
fn hurry(host: &Host) {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let first = Invocation::new("chrt").args(["-R", "-f", "-p", "1", &thread.to_string()]);
    if host.run(&first).is_err() {
        let _ = rustix::process::setpriority_process(None, -20);
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
        self.log.end();
    }
}

/// Looks, and acts.
#[derive(Debug)]
pub struct Sentry {
    pub(crate) host: Host,
    pub(crate) rule: Rule,
    pub(crate) dry_run: bool,
    pub(crate) shared: Arc<Shared>,
    pub(crate) sight: Sight,
    pub(crate) chooser: Chooser,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) buffer: Vec<u8>,
    /// When groups were asked for, and whether there was an answer.
    pub(crate) chosen: Option<Instant>,
    pub(crate) has_chosen: bool,
    pub(crate) choosing_took: Duration,
    pub(crate) looked_at_groups: Option<Instant>,
    pub(crate) ending: Option<Ending>,
    /// What the last one that was ended is giving back.
    pub(crate) settling: Option<Settling>,
    /// Groups that were told to end, and when.
    pub(crate) ended_lately: Vec<(Instant, PathBuf)>,
    /// How many in a row gave back less than half of what they held.
    pub(crate) in_vain: u32,
    /// Since when memory goes too fast, in each look.
    pub(crate) too_soon: Option<Instant>,
    /// What programs could take when groups were last looked at, and how much less that
    /// was than at the look before.
    pub(crate) headroom_then: u64,
    pub(crate) went_bytes: u64,
    /// Since when only what grows is ended.
    pub(crate) braked: Option<Instant>,
    pub(crate) told: Told,
    pub(crate) note: Guarded,
    pub(crate) noted: Option<Instant>,
    pub(crate) began: Option<Instant>,
}

/// What was told last, and when.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) failed: Option<String>,
    pub(crate) nothing: Option<Instant>,
    pub(crate) would: Option<Instant>,
}

/// A group that has gone, and whose memory comes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling {
    pub(crate) since: Instant,
    /// When it last came back.
    pub(crate) rose: Instant,
    pub(crate) headroom_bytes: u64,
    /// What there would be with half of what it held.
    pub(crate) wanted_bytes: u64,
}

/// A group on its way out.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) candidate: Candidate,
    pub(crate) since: Instant,
    pub(crate) killed: Option<Instant>,
    /// What programs could take when it was told.
    pub(crate) headroom_bytes: u64,
    pub(crate) told: EndedGroup,
}

impl Sentry {
    /// One that looks when it is asked to.
    ///
    /// # Errors
    /// When the machine cannot be looked at.
    pub fn new(host: Host, rule: Rule, dry_run: bool) -> Result<Sentry, Error> {
        let shared = Arc::new(Shared::default());
        let devices = devices::Reader::here(host.clone());
        let chooser = Chooser::here(host.clone(), rule.clone(), Arc::clone(&shared))?;
        Sentry::with(host, rule, dry_run, shared, devices, chooser)
    }

    fn with(
        host: Host,
        rule: Rule,
        dry_run: bool,
        shared: Arc<Shared>,
        devices: devices::Reader,
        chooser: Chooser,
    ) -> Result<Sentry, Error> {
        let sight = Sight::open(&host, devices).ok_or_else(|| Error::CannotGuard {
            why: "/proc/meminfo cannot be opened".to_owned(),
        })?;
        Ok(Sentry {
            // Without any to end there is nothing to wait for.
            has_chosen: rule.end.is_empty(),
            chooser,
            host,
            rule,
            dry_run,
            shared,
            sight,
            candidates: Vec::new(),
            buffer: touched(),
            chosen: None,
            choosing_took: Duration::ZERO,
            looked_at_groups: None,
            ending: None,
            settling: None,
            ended_lately: Vec::with_capacity(AGAIN_MAX),
            in_vain: 0,
            too_soon: None,
            headroom_then: 0,
            went_bytes: 0,
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
            self.too_soon = None;
            self.fail(
                Error::CannotGuard {
                    why: "/proc/meminfo cannot be read".to_owned(),
                },
                say,
            );
            return PAUSE_MAX;
        };
        self.too_soon = is_too_soon(&seen).then(|| self.too_soon.unwrap_or(now));
        let cause = self.cause(&seen, now);
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
    fn cause(&self, seen: &Seen, now: Instant) -> Option<Cause> {
        if seen.headroom_bytes < self.end_below(seen) {
            return Some(Cause::NoRoom);
        }
        // Waiting at the limits of groups counts as well: alone it says nothing of the machine.
        let is_little = seen.headroom_bytes < self.room_below(seen);
        let lasts = |since| now.saturating_duration_since(since) >= TOO_SOON_LASTS;
        if is_little && self.too_soon.is_some_and(lasts) {
            return Some(Cause::TooSoon);
        }
        let most = self.rule.stalled_max.fraction();
        let is_stalled = seen.stalled.is_some_and(|stalled| stalled >= most);
        (is_little && is_stalled).then_some(Cause::Stalled)
    }

    pub(crate) fn end_below(&self, seen: &Seen) -> u64 {
        part(self.rule.end_below, seen).min(END_BELOW_MAX)
    }

    pub(crate) fn room_below(&self, seen: &Seen) -> u64 {
        part(self.rule.room_below, seen).min(ROOM_BELOW_MAX)
    }

    fn tell_of_room(&mut self, seen: &Seen, cause: Option<Cause>, say: &mut dyn FnMut(GuardEvent)) {
        let little = self.room_below(seen);
        let was_short = self.is_short();
        let is_short = seen.headroom_bytes < little || is_soon(seen) || cause.is_some();
        // Not to and fro at the edge.
        let stays = was_short && seen.headroom_bytes < little / 4 * 5;
        let is_short = is_short || stays;
        self.shared.is_short.store(is_short, Ordering::Relaxed);
        if is_short != was_short {
            let room = room(seen);
            say(GuardEvent::Said(match is_short {
                true => format!("memory is short: {room}"),
                false => format!("memory is not short any more: {room}"),
            }));
        }
    }

    pub(crate) fn fail(&mut self, err: Error, say: &mut dyn FnMut(GuardEvent)) {
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
        if self.dry_run || self.ending.is_some() || !is_due(self.noted, every, now) {
            return;
        }
        self.noted = Some(now);
        let _ = super::note::tell_short(&self.host, self.is_short());
        if let Err(err) = self.note.clone().keep(&self.host) {
            self.fail(err, say);
        }
    }

    fn pause(&self, seen: &Seen) -> Duration {
        if self.ending.is_some() {
            return PAUSE_MIN;
        }
        let filled = seen.headroom_bytes as f64 / FILLED_PER_SECOND;
        let gone = seen.gone_in.into_iter().chain(seen.lately_gone_in).min();
        let gone = gone.map_or(f64::INFINITY, |it| it.as_secs_f64());
        let soonest = filled.min(gone / 8.0);
        Duration::try_from_secs_f64(soonest)
            .unwrap_or(PAUSE_MAX)
            .clamp(PAUSE_MIN, PAUSE_MAX)
    }

    pub(crate) fn why(&self, cause: Cause, seen: &Seen) -> String {
        match cause {
            Cause::NoRoom => room(seen),
            Cause::TooSoon => format!("{}; before anything has ended it would be gone", room(seen)),
            Cause::Stalled => format!(
                "nothing went on for want of memory in {} of the last 10 s",
                percent(seen.stalled.unwrap_or_default())
            ),
        }
    }
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

pub(crate) fn part(share: Percent, seen: &Seen) -> u64 {
    (seen.total_bytes as f64 * share.fraction()) as u64
}

/// Whether it is time to tell of a thing again; it is told now.
pub(crate) fn is_over(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = is_due(*told, TOLD_EVERY, now);
    if is_over {
        *told = Some(now);
    }
    is_over
}

impl Seen {
    /// What programs can take, as a share of RAM.
    fn share(&self) -> f64 {
        self.headroom_bytes as f64 / self.total_bytes.max(1) as f64
    }
}
