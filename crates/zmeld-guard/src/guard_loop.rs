//! The guard: the thread that looks, and acts.
//!
//! Invariants: from one look to the next it opens nothing, takes and frees no memory, closes no
//! file, and waits for nobody: what other threads do for it is taken where it is there, and else
//! at the next look (`worker.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use rustix::process::{getpid, getrlimit, pidfd_open, setrlimit, PidfdFlags, Resource};
use zmeld_linux::service::{is_due, Watchdog};
use zmeld_linux::{meminfo, Host};

use crate::choice::{AT_ONCE_MAX, ENDING_MAX, LARGEST_MAX};
use crate::ending::{ender, releaser, Ending, Task, GROUPS_MAX};
use crate::error::Error;
use crate::event::{is_over, Account, Cause, Event, Round, Seen};
use crate::log::Outbox;
use crate::memory::{end_below, is_soon, MemoryMonitor, Sample, ROOM_BELOW_MAX};
use crate::plan::{Plan, Planner};
use crate::processes::{Handle, Process};
use crate::worker::{hurry, thread, Mailbox, Worker};
use crate::GuardRule;

/// How often it looks, at least and at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// As fast as a program can fill memory: it looks so often that no more than this goes
/// between two looks, as far as the shortest pause allows.
const FILLED_PER_SECOND: f64 = 4.0 * (1_u64 << 30) as f64;
/// Owners are looked at often, and processes listed, where programs can take less than so many times
/// what the rule calls little.
const WATCHED_BELOW: u64 = 4;
const LISTED_BELOW: u64 = 2;
/// How often owners are looked at, where there is enough.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// A plan is not followed for longer.
const STALE_AFTER: Duration = Duration::from_secs(10);
/// Files that may be open: more than owners, their processes, and those on their way out have.
const FILES: u64 = 8192;

/// Begins, in threads that go on as long as this process does. Its memory is locked, as far as it
/// is allowed to, and the kernel's killer is told to leave it alone.
///
/// # Errors
/// When the machine cannot be looked at, or a thread cannot be started.
pub fn start(
    host: Host,
    rule: GuardRule,
    dry_run: bool,
    say: impl FnMut(String) + Send + 'static,
) -> Result<(), Error> {
    // Files stay open for each owner.
    let mut files = getrlimit(Resource::Nofile);
    files.current = Some(files.maximum.map_or(FILES, |most| most.min(FILES)));
    let _ = setrlimit(Resource::Nofile, files);
    let _ = host.write("/proc/self/oom_score_adj", "-1000");
    let mut guard = GuardLoop::new(host, rule, dry_run, true, say)?;
    let work = move || {
        if let Err(err) = lock_memory() {
            let why = format!(
                "the guard's memory may be swapped out, so that it may be late: mlockall: {err}"
            );
            guard.outbox.say(Event::Failed(why.into()));
        }
        if let Err(err) = hurry(&guard.host) {
            let why = format!("the guard may be late, without a real-time priority: {err}");
            guard.outbox.say(Event::Failed(why.into()));
        }
        let mut planned = Instant::now();
        let mut watchdog = Watchdog::of_manager();
        loop {
            let now = Instant::now();
            watchdog.ping(now);
            // From look to look, what it did in the last one included.
            let late = now.saturating_duration_since(planned).as_micros();
            let late = u64::try_from(late).unwrap_or(u64::MAX);
            guard.seen.late_us_max = guard.seen.late_us_max.max(late);
            planned = now + guard.look(now);
            std::thread::park_timeout(planned.saturating_duration_since(Instant::now()));
        }
    };
    thread("guard", work)?;
    Ok(())
}

/// Locks what is there now, the program's text with it; what comes, as it is touched.
fn lock_memory() -> rustix::io::Result<()> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT)?;
    rustix::mm::mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

/// Looks, and acts.
#[derive(Debug)]
pub struct GuardLoop {
    host: Host,
    pub(crate) rule: GuardRule,
    pub(crate) dry_run: bool,
    seen: Seen,
    pub(crate) outbox: Outbox,
    monitor: MemoryMonitor,
    planner: Worker<Plan>,
    pub(crate) ender: Mailbox<Task>,
    /// Takes the memory of those that were killed.
    pub(crate) releaser: Mailbox<Arc<Handle>>,
    /// Processes that have gone, which the planner closes.
    pub(crate) retired: Vec<Process>,
    pub(crate) plan: Plan,
    pub(crate) chosen: Vec<usize>,
    /// When a plan was asked for.
    asked: Option<Instant>,
    is_short: bool,
    pub(crate) endings: Vec<Ending>,
    pub(crate) round: Option<Round>,
    /// Owner of the last round, how many it told at most with those just before, and when.
    pub(crate) last: Option<(u64, usize, Instant)>,
    /// When the last of them ended.
    ended: Option<Instant>,
    /// Groups in which some were ended, how often, and when last.
    pub(crate) struck: Vec<(u64, u32, Instant)>,
    failed: Option<Arc<str>>,
    told_blind: Option<Instant>,
    pub(crate) told_nothing: Option<Instant>,
    pub(crate) told_would: Option<Instant>,
    blind: Arc<str>,
}

impl GuardLoop {
    /// One that does all that has to be waited for itself, or by threads.
    ///
    /// # Errors
    /// When the machine cannot be looked at.
    pub fn new(
        host: Host,
        rule: GuardRule,
        dry_run: bool,
        by_threads: bool,
        say: impl FnMut(String) + Send + 'static,
    ) -> Result<GuardLoop, Error> {
        pidfd_open(getpid(), PidfdFlags::empty()).map_err(|err| {
            let why = "processes cannot be held, which needs Linux 5.3 (pidfd_open)";
            Error::Missing(format!("{why}: {err}"))
        })?;
        let name = |name| by_threads.then_some(name);
        let mut planner = Planner::new(host.clone(), rule.clone(), by_threads);
        let make = move |plan: &mut Plan| planner.make(plan);
        Ok(GuardLoop {
            outbox: Outbox::new(&host, &rule, !dry_run, by_threads, say)?,
            monitor: MemoryMonitor::open(&host, by_threads)?,
            planner: Worker::new(name("guard-plan"), Plan::new(), make)?,
            ender: ender(&host, &rule, name("guard-end"))?,
            releaser: releaser(name("guard-release"))?,
            retired: Vec::with_capacity(ENDING_MAX),
            plan: Plan::new(),
            chosen: Vec::with_capacity(AT_ONCE_MAX + LARGEST_MAX),
            asked: None,
            is_short: false,
            endings: Vec::with_capacity(ENDING_MAX),
            round: None,
            last: None,
            ended: None,
            struck: Vec::with_capacity(GROUPS_MAX),
            failed: None,
            told_blind: None,
            told_nothing: None,
            told_would: None,
            blind: format!("{} cannot be read", meminfo::PATH).into(),
            host,
            rule,
            dry_run,
            seen: Seen {
                now: Instant::now(),
                looks: 0,
                late_us_max: 0,
                headroom_bytes: 0,
            },
        })
    }

    /// Looks, and does what is due; when to look again.
    pub fn look(&mut self, now: Instant) -> Duration {
        let pause = self.act(now);
        self.ender.send();
        self.releaser.send();
        self.seen.now = now;
        self.seen.looks += 1;
        self.outbox.send(self.seen);
        pause
    }

    fn act(&mut self, now: Instant) -> Duration {
        let Some(sample) = self.monitor.look(now) else {
            if is_over(&mut self.told_blind, now) {
                self.outbox.say(Event::Failed(Arc::clone(&self.blind)));
            }
            return PAUSE_MAX;
        };
        self.seen.headroom_bytes = sample.headroom_bytes;
        let cause = self.cause(&sample);
        self.tell_of_room(&sample, cause);
        self.make_plan(&sample, cause, now);
        if self.go_on_ending(&sample, now) {
            self.ended = Some(now);
        }
        // Ends show in the figures of the next look, and of a plan of that time; while others of
        // his are on their way out, more may be missing by then.
        let pays = |round: &Round| {
            let pays = self.plan.account.as_ref().map(|it| it.id);
            pays == Some(round.victim.account.id)
        };
        let round = self.round.as_ref().filter(|it| pays(it));
        let is_after = |asked: Instant| {
            let is_his = round.is_some_and(|it| asked > it.told);
            is_his || self.ended.is_none_or(|it| asked >= it && now > it)
        };
        let is_new = |asked: Instant| now.duration_since(asked) < STALE_AFTER && is_after(asked);
        let is_new = self.plan.asked.is_some_and(is_new);
        let is_known = cause != Some(Cause::Stalled) || self.plan.is_stall;
        if let Some(cause) = cause.filter(|_| is_new && is_known) {
            self.end_some(cause, &sample, now);
        }
        self.pause(&sample)
    }

    fn cause(&self, sample: &Sample) -> Option<Cause> {
        let little = end_below(&self.rule, sample);
        if sample.headroom_bytes < little {
            return Some(Cause::NoRoom);
        }
        let most = self.rule.stalled_above.fraction();
        let is_stalled = sample.stalled.is_some_and(|stalled| stalled > most);
        (sample.available_bytes < little && is_stalled).then_some(Cause::Stalled)
    }

    fn room_below(&self, sample: &Sample) -> u64 {
        let share = self.rule.room_below.of(sample.can_bytes);
        share.min(ROOM_BELOW_MAX)
    }

    fn tell_of_room(&mut self, sample: &Sample, cause: Option<Cause>) {
        let little = self.room_below(sample);
        let is_short = sample.headroom_bytes < little || is_soon(sample) || cause.is_some();
        // Not to and fro at the edge.
        let stays = self.is_short && sample.headroom_bytes < little / 4 * 5;
        let is_short = is_short || stays;
        if is_short != self.is_short {
            self.is_short = is_short;
            self.struck.clear();
            self.outbox.say(Event::Short(is_short, *sample));
        }
    }

    /// Takes the plan that was made, and asks for another one where that is due.
    fn make_plan(&mut self, sample: &Sample, cause: Option<Cause>, now: Instant) {
        self.take_plan();
        let room = self.room_below(sample);
        // Compression is not certain: pages that come may not compress.
        let is_near = |times| {
            let is_little = sample.headroom_bytes < room * times;
            let is_little = is_little || sample.available_bytes < room * times / 2;
            is_little
                || is_soon(sample)
                || sample.stalled > Some(self.rule.stalled_above.fraction() / 2.0)
        };
        let is_listed = cause.is_some() || is_near(LISTED_BELOW);
        let every = match () {
            () if is_listed => Duration::ZERO,
            () if is_near(WATCHED_BELOW) => PAUSE_MAX / 2,
            () => LOOK_EVERY,
        };
        // A fifth of the time, since it goes before other programs; half of it where one takes long,
        // since it is not to be too old, or where somebody has to pay now.
        let took = self.plan.took;
        let pays = |it: &Account| cause.is_some() && it.spared.is_none();
        let rests = match self.plan.account.as_ref().is_some_and(pays) {
            true => took,
            false => (took * 4).min(PAUSE_MAX).max(took),
        };
        let every = every.max(rests);
        if !is_due(self.asked, every, now) {
            return;
        }
        let Some(ask) = self.planner.get() else {
            return;
        };
        ask.asked = Some(now);
        ask.is_stall = cause == Some(Cause::Stalled);
        (ask.is_listed, ask.can_bytes) = (is_listed, sample.can_bytes);
        let going = self.endings.iter();
        let going = going.map(|it| (it.process.group.owner, it.process.pid, it.is_stuck(now)));
        ask.going.clear();
        ask.going.extend(going);
        std::mem::swap(&mut ask.retired, &mut self.retired);
        self.planner.send();
        self.asked = Some(now);
        self.take_plan();
    }

    fn take_plan(&mut self) {
        let Some(made) = self.planner.get().filter(|it| it.is_new) else {
            return;
        };
        made.is_new = false;
        let is_told = made.failed.is_none() || made.failed == self.failed;
        std::mem::swap(&mut self.failed, &mut made.failed);
        if self.failed.is_some() {
            // The plan stays.
            if let Some(why) = self.failed.as_ref().filter(|_| !is_told) {
                self.outbox.say(Event::Failed(Arc::clone(why)));
            }
            return;
        }
        // The old plan goes back to be closed.
        std::mem::swap(&mut self.plan, made);
    }

    fn pause(&self, sample: &Sample) -> Duration {
        if !self.endings.is_empty() {
            return PAUSE_MIN;
        }
        let left = sample.headroom_bytes as f64;
        let soonest = (left / FILLED_PER_SECOND).min(left / sample.goes / 8.0);
        Duration::try_from_secs_f64(soonest)
            .unwrap_or(PAUSE_MAX)
            .clamp(PAUSE_MIN, PAUSE_MAX)
    }
}
