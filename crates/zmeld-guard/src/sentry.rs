//! The guard: the thread that looks, and acts.
//!
//! Invariants: from one look to the next it opens nothing, takes no memory, and waits for
//! nobody: what other threads leave for it is taken where their lock is free, and else at the
//! next look.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use rustix::process::{getrlimit, setrlimit, Resource};
use zmeld_linux::amount::Percent;
use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

use crate::candidate::{Candidate, Ender, Place};
use crate::choice::{Cause, Figures};
use crate::devices;
use crate::ending::{Ending, Settling, AGAIN_MAX, ENDING_MAX};
use crate::event::{Event, GuardEvent};
use crate::groups::{Chooser, CANDIDATES_MAX, OWNERS_MAX};
use crate::log::Outbox;
use crate::meter::{Meter, Owner};
use crate::note::Recorder;
use crate::open::touched;
use crate::sight::{is_soon, is_too_soon, Seen, Sight};
use crate::{is_due, Error, Rule};

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

/// The guard at work, in a thread of its own; it ends with this.
#[derive(Debug)]
pub struct Guard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What its threads have in common.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    pub looks: AtomicU64,
    pub late_us_max: AtomicU64,
    pub headroom_bytes: AtomicU64,
}

impl Guard {
    /// Begins. This process's memory is locked, as far as it is allowed to, and the kernel's
    /// killer is told to leave it alone.
    ///
    /// # Errors
    /// When the machine cannot be looked at, or a thread cannot be started.
    pub fn start(
        host: Host,
        rule: Rule,
        dry_run: bool,
        say: impl FnMut(GuardEvent) + Send + 'static,
    ) -> Result<Guard, Error> {
        // Files stay open for each group.
        let mut files = getrlimit(Resource::Nofile);
        files.current = Some(files.maximum.map_or(FILES, |most| most.min(FILES)));
        let _ = setrlimit(Resource::Nofile, files);
        let _ = host.write("/proc/self/oom_score_adj", "-1000");
        let shared = Arc::new(Shared::default());
        let devices = devices::Reader::start(host.clone())?;
        let chooser = Chooser::start(host.clone(), rule.clone(), Arc::clone(&shared))?;
        let at_work = Arc::clone(&shared);
        let mut outbox = Outbox::start(host.clone(), Arc::clone(&shared), !dry_run, say)?;
        let mut sentry = Sentry::with(host, rule, dry_run, at_work, devices, chooser)?;
        sentry.ender = Ender::start()?;
        let work = move || {
            let mut say = |event| outbox.say(event);
            // What is said at the beginning comes with it.
            say(GuardEvent(Event::Chosen(Arc::default())));
            if let Err(err) = lock_memory() {
                let why = format!(
                    "the guard's memory may be swapped out, so that it may be late: mlockall: {err}"
                );
                say(GuardEvent(Event::Failed(why.into())));
            }
            hurry(&sentry.host);
            let mut planned = Instant::now();
            while !sentry.shared.stop.load(Ordering::Relaxed) {
                let now = Instant::now();
                // From look to look, what it did in the last one included.
                sentry.was_late(now.saturating_duration_since(planned));
                planned = now + sentry.look(now, &mut say);
                std::thread::park_timeout(planned.saturating_duration_since(Instant::now()));
            }
        };
        Ok(Guard {
            shared,
            thread: Some(thread("guard", work)?),
        })
    }

    /// Whether it has stopped by itself, which it should not.
    pub fn has_stopped(&self) -> bool {
        let thread = self.thread.as_ref();
        thread.is_none_or(|thread| thread.is_finished())
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

pub(crate) fn thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.stack_size(512 << 10).spawn(work);
    thread.map_err(|err| Error::CannotGuard {
        why: format!("no thread can be started: {err}"),
    })
}

/// What is there now is there to stay, the program's text with it; what comes, as it is
/// touched.
fn lock_memory() -> rustix::io::Result<()> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT)?;
    rustix::mm::mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

/// This thread runs before all that run away, or where it may not, more than its turn.
fn hurry(host: &Host) {
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let first = Invocation::new("chrt").args(["-R", "-f", "-p", "1", &thread.to_string()]);
    if host.run(&first).is_err() {
        let _ = rustix::process::setpriority_process(None, -20);
    }
}

/// Looks, and acts.
#[derive(Debug)]
pub struct Sentry {
    pub(crate) host: Host,
    pub(crate) rule: Rule,
    pub(crate) dry_run: bool,
    pub(crate) shared: Arc<Shared>,
    sight: Sight,
    pub(crate) chooser: Chooser,
    pub(crate) ender: Ender,
    /// Where nobody else keeps the note.
    recorder: Option<Recorder>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) owners: Vec<Owner>,
    /// What they are chosen by, and which are.
    pub(crate) figures: Vec<Figures>,
    pub(crate) places: Vec<usize>,
    pub(crate) buffer: Vec<u8>,
    /// When groups were asked for, and whether there was an answer.
    pub(crate) chosen: Option<Instant>,
    pub(crate) has_chosen: bool,
    pub(crate) choosing_took: Duration,
    looked_at_groups: Option<Instant>,
    pub(crate) is_short: bool,
    pub(crate) endings: Vec<Ending>,
    /// What the last ones that were ended are giving back.
    pub(crate) settling: Option<Settling>,
    /// Groups that were told to end, and when.
    pub(crate) ended_lately: Vec<(Instant, Arc<Place>)>,
    /// How many times in a row less than half came back of what was held.
    pub(crate) in_vain: u32,
    /// Since when memory goes too fast, in each look.
    too_soon: Option<Instant>,
    /// What programs could take when groups were last looked at, and how much less that
    /// was than at the look before.
    headroom_then: u64,
    pub(crate) went_bytes: u64,
    /// What was seen when memory was last far from short.
    pub(crate) calm: Option<Seen>,
    /// Since when only what grows is ended.
    pub(crate) braked: Option<Instant>,
    failed: Option<Arc<str>>,
    pub(crate) told_nothing: Option<Instant>,
    pub(crate) told_would: Option<Instant>,
}

impl Sentry {
    /// One that looks when it is asked to, and does all by itself.
    ///
    /// # Errors
    /// When the machine cannot be looked at.
    pub fn new(host: Host, rule: Rule, dry_run: bool) -> Result<Sentry, Error> {
        let shared = Arc::new(Shared::default());
        let devices = devices::Reader::here(host.clone());
        let chooser = Chooser::here(host.clone(), rule.clone(), Arc::clone(&shared))?;
        let recorder = Recorder::new(host.clone(), !dry_run);
        let mut sentry = Sentry::with(host, rule, dry_run, shared, devices, chooser)?;
        sentry.recorder = Some(recorder);
        Ok(sentry)
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
            ender: Ender::here(),
            recorder: None,
            host,
            rule,
            dry_run,
            shared,
            sight,
            candidates: Vec::new(),
            owners: Vec::new(),
            figures: Vec::with_capacity(CANDIDATES_MAX + OWNERS_MAX),
            places: Vec::with_capacity(ENDING_MAX),
            buffer: touched(),
            chosen: None,
            choosing_took: Duration::ZERO,
            looked_at_groups: None,
            is_short: false,
            endings: Vec::with_capacity(ENDING_MAX),
            settling: None,
            ended_lately: Vec::with_capacity(AGAIN_MAX),
            in_vain: 0,
            too_soon: None,
            headroom_then: 0,
            went_bytes: 0,
            calm: None,
            braked: None,
            failed: None,
            told_nothing: None,
            told_would: None,
        })
    }

    /// Whether memory is short.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Looks, and does what is due; when to look again.
    pub fn look(&mut self, now: Instant, say: &mut dyn FnMut(GuardEvent)) -> Duration {
        let mut recorder = self.recorder.take();
        let pause = self.act(now, &mut |event| {
            let event = GuardEvent(event);
            if let Some(recorder) = &mut recorder {
                recorder.take(&event);
            }
            say(event);
        });
        if let Some(recorder) = &mut recorder {
            recorder.keep(now, &self.shared);
        }
        self.recorder = recorder;
        pause
    }

    fn act(&mut self, now: Instant, say: &mut dyn FnMut(Event)) -> Duration {
        let Some(seen) = self.sight.look(now) else {
            self.too_soon = None;
            self.fail("/proc/meminfo cannot be read", say);
            return PAUSE_MAX;
        };
        self.too_soon = is_too_soon(&seen).then(|| self.too_soon.unwrap_or(now));
        if self.calm.is_none() || seen.headroom_bytes / 2 >= self.room_below(&seen) {
            self.calm = Some(seen);
            let candidates = self.candidates.iter_mut().map(|it| &mut it.meter);
            let owners = self.owners.iter_mut().map(|it| &mut it.meter);
            candidates.chain(owners).for_each(Meter::is_calm);
        }
        let cause = self.cause(&seen, now);
        self.look_at_groups(&seen, cause, now);
        self.go_on_ending(&seen, now, say);
        if let Some(cause) = cause {
            self.end_some(cause, &seen, now, say);
        }
        self.tell_of_room(&seen, cause, say);
        self.choose_groups(cause, now, say);
        self.shared.looks.fetch_add(1, Ordering::Relaxed);
        let headroom = &self.shared.headroom_bytes;
        headroom.store(seen.headroom_bytes, Ordering::Relaxed);
        self.pause(&seen)
    }

    /// A look came so much later than it should have.
    fn was_late(&mut self, late: Duration) {
        let late_us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        let most = &self.shared.late_us_max;
        most.fetch_max(late_us, Ordering::Relaxed);
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

    fn tell_of_room(&mut self, seen: &Seen, cause: Option<Cause>, say: &mut dyn FnMut(Event)) {
        let little = self.room_below(seen);
        let is_short = seen.headroom_bytes < little || is_soon(seen) || cause.is_some();
        // Not to and fro at the edge.
        let stays = self.is_short && seen.headroom_bytes < little / 4 * 5;
        let is_short = is_short || stays;
        if is_short != self.is_short {
            self.is_short = is_short;
            say(Event::Short(is_short, *seen));
        }
    }

    /// Looks at what groups take, where it may matter soon.
    fn look_at_groups(&mut self, seen: &Seen, cause: Option<Cause>, now: Instant) {
        let least = self.room_below(seen).saturating_mul(FOLLOWED_BELOW);
        let is_near = seen.headroom_bytes < least || is_soon(seen) || seen.stalled > Some(0.0);
        let waited = cause.is_some() || is_due(self.looked_at_groups, PAUSE_MAX / 2, now);
        if !is_near || !waited {
            return;
        }
        self.looked_at_groups = Some(now);
        self.went_bytes = self.headroom_then.saturating_sub(seen.headroom_bytes);
        self.headroom_then = seen.headroom_bytes;
        for candidate in &mut self.candidates {
            candidate.look(now, &mut self.buffer);
        }
        for owner in &mut self.owners {
            owner.meter.look(now, &mut self.buffer);
        }
    }

    /// Tells what cannot be looked at, once; nothing where it can be again.
    pub(crate) fn fail(&mut self, why: &str, say: &mut dyn FnMut(Event)) {
        if self.failed.as_deref() != Some(why) {
            let why: Arc<str> = why.into();
            self.failed = Some(Arc::clone(&why));
            say(Event::Failed(why));
        }
    }

    pub(crate) fn fails_no_more(&mut self) {
        self.failed = None;
    }

    fn pause(&self, seen: &Seen) -> Duration {
        if !self.endings.is_empty() {
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
}

/// Groups are followed where programs can take less than so many times what the rule
/// calls little.
const FOLLOWED_BELOW: u64 = 4;

pub(crate) fn part(share: Percent, seen: &Seen) -> u64 {
    share.of(seen.total_bytes)
}

/// Whether it is time to tell of a thing again; it is told now.
pub(crate) fn is_over(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = is_due(*told, TOLD_EVERY, now);
    if is_over {
        *told = Some(now);
    }
    is_over
}
