//! The guard: the thread that looks, and acts.
//!
//! Invariants: from one look to the next it opens nothing but what it sends signals to, takes
//! and frees no memory, closes no file of a group, and waits for nobody: what other threads do
//! for it is taken where it is there, and else at the next look (`worker.rs`).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use rustix::process::{getrlimit, setrlimit, Resource};
use zmeld_linux::amount::Percent;
use zmeld_linux::command::Invocation;
use zmeld_linux::service::Watchdog;
use zmeld_linux::{Host, HostError};

use crate::choice::{Cause, Figures};
use crate::choosing::{choosing, Chosen, CANDIDATES_MAX, OWNERS_MAX};
use crate::ending::{Ending, Settling, AGAIN_MAX, ENDING_MAX, SUSPECTS_MAX};
use crate::event::Event;
use crate::group::{Ender, Meter, Owner, TrackedGroup};
use crate::log::Outbox;
use crate::memory::{is_soon, is_too_soon, MemoryMonitor, Sample};
use crate::open::touched;
use crate::worker::{thread, Worker};
use crate::{is_due, Error, GuardRule};

/// How often it looks, at least and at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// As fast as a program can fill memory: it looks so often that no more than this goes
/// between two looks, as far as the shortest pause allows.
const FILLED_PER_SECOND: f64 = 4.0 * (1_u64 << 30) as f64;
/// What groups and owners take is read for so long in a look.
const READING_MAX: Duration = Duration::from_millis(50);
/// Groups that wait to be closed.
const RETIRED_MAX: usize = 256;
/// On a large machine a share of RAM is a lot: this is little, and this very little.
const ROOM_BELOW_MAX: u64 = 4 << 30;
const END_BELOW_MAX: u64 = 1 << 30;
/// A thing that stays is told again after so long.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Files that may be open: more than groups that are followed, those that are followed no more,
/// owners and processes that were told to end can have.
const FILES: u64 = 8192;
/// Above what rtkit gives to any user who asks (20), below the kernel's own threads (50).
const PRIORITY: &str = "40";
/// For so long, in each look, memory goes too fast before that counts: less is one large
/// request.
const TOO_SOON_LASTS: Duration = Duration::from_millis(400);

/// What is noted at each look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub now: Instant,
    pub looks: u64,
    pub late_us_max: u64,
    pub headroom_bytes: u64,
}

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
    // Files stay open for each group.
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

/// What is there now is there to stay, the program's text with it; what comes, as it is
/// touched.
fn lock_memory() -> rustix::io::Result<()> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT)?;
    rustix::mm::mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

/// This thread runs before all that run away, or where it may not, more than its turn.
fn hurry(host: &Host) -> Result<(), HostError> {
    let _ = rustix::process::setpriority_process(None, -20);
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let first = Invocation::new("chrt").args(["-R", "-f", "-p", PRIORITY, &thread.to_string()]);
    host.run(&first).map(|_| ())
}

/// Looks, and acts.
#[derive(Debug)]
pub struct GuardLoop {
    pub(crate) host: Host,
    pub(crate) rule: GuardRule,
    pub(crate) dry_run: bool,
    seen: Seen,
    pub(crate) outbox: Outbox,
    monitor: MemoryMonitor,
    pub(crate) chooser: Worker<Chosen>,
    pub(crate) ender: Ender,
    pub(crate) groups: Vec<TrackedGroup>,
    pub(crate) owners: Vec<Owner>,
    /// Groups that are followed no more, which the chooser closes.
    pub(crate) retired: Vec<TrackedGroup>,
    /// Owners whose groups are followed as one from the next choice on.
    pub(crate) suspects: Vec<Arc<Path>>,
    /// What they are chosen by, and which are.
    pub(crate) figures: Vec<Figures>,
    pub(crate) places: Vec<usize>,
    pub(crate) buffer: Vec<u8>,
    /// When groups were asked for, and whether there was an answer.
    pub(crate) chosen: Option<Instant>,
    pub(crate) has_chosen: bool,
    pub(crate) choosing_took: Duration,
    looked_at_groups: Option<Instant>,
    /// Whose figures were read last, of the groups and then the owners.
    next_meter: usize,
    pub(crate) is_short: bool,
    pub(crate) endings: Vec<Ending>,
    /// What the last ones that were ended are giving back.
    pub(crate) settling: Option<Settling>,
    /// Groups that were told to end, by their paths, and when.
    pub(crate) ended_lately: Vec<(Instant, u64)>,
    /// How many times in a row less than half came back of what was held.
    pub(crate) in_vain: u32,
    /// Since when memory goes too fast, in each look.
    too_soon: Option<Instant>,
    /// What programs could take when groups were last looked at, and how much less that
    /// was than at the look before.
    headroom_then: u64,
    pub(crate) went_bytes: u64,
    /// What was seen when memory was last far from short.
    pub(crate) calm: Option<Sample>,
    /// Since when what grows is in no group that is known.
    pub(crate) lost: Option<Instant>,
    /// Since when only what grows is ended.
    pub(crate) braked: Option<Instant>,
    pub(crate) failed: Option<Arc<str>>,
    told_blind: Option<Instant>,
    pub(crate) told_nothing: Option<Instant>,
    pub(crate) told_would: Option<Instant>,
}

impl GuardLoop {
    /// One that looks when it is asked to, and does all by itself, or by threads what may wait.
    ///
    /// # Errors
    /// When the machine cannot be looked at, or a thread cannot be started.
    pub fn new(
        host: Host,
        rule: GuardRule,
        dry_run: bool,
        by_threads: bool,
        say: impl FnMut(String) + Send + 'static,
    ) -> Result<GuardLoop, Error> {
        let seen = Seen {
            now: Instant::now(),
            looks: 0,
            late_us_max: 0,
            headroom_bytes: 0,
        };
        let name = |name| by_threads.then_some(name);
        let choose = choosing(host.clone(), rule.clone())?;
        let mut chosen = Chosen::default();
        chosen.retired.reserve(RETIRED_MAX);
        chosen.suspects.reserve(SUSPECTS_MAX);
        let mut guard = GuardLoop {
            monitor: MemoryMonitor::open(&host, by_threads)?,
            outbox: Outbox::new(&host, seen, !dry_run, by_threads, say)?,
            chooser: Worker::new(name("guard-choose"), chosen, choose)?,
            ender: Ender::new(by_threads)?,
            // Without any to end there is nothing to wait for.
            has_chosen: rule.end.is_empty(),
            host,
            rule,
            dry_run,
            seen,
            groups: Vec::new(),
            owners: Vec::new(),
            retired: Vec::with_capacity(RETIRED_MAX),
            suspects: Vec::with_capacity(SUSPECTS_MAX),
            figures: Vec::with_capacity(CANDIDATES_MAX + OWNERS_MAX),
            places: Vec::with_capacity(ENDING_MAX),
            buffer: touched(),
            chosen: None,
            choosing_took: Duration::ZERO,
            looked_at_groups: None,
            next_meter: 0,
            is_short: false,
            endings: Vec::with_capacity(ENDING_MAX),
            settling: None,
            ended_lately: Vec::with_capacity(AGAIN_MAX),
            in_vain: 0,
            too_soon: None,
            headroom_then: 0,
            went_bytes: 0,
            calm: None,
            lost: None,
            braked: None,
            failed: None,
            told_blind: None,
            told_nothing: None,
            told_would: None,
        };
        if guard.has_chosen {
            guard.outbox.say(Event::Chosen(Arc::default(), true));
        }
        Ok(guard)
    }

    /// Looks, and does what is due; when to look again.
    pub fn look(&mut self, now: Instant) -> Duration {
        let pause = self.act(now);
        self.ender.send();
        self.seen.now = now;
        self.seen.looks += 1;
        self.outbox.send(self.seen);
        pause
    }

    fn act(&mut self, now: Instant) -> Duration {
        let Some(sample) = self.monitor.look(now) else {
            self.too_soon = None;
            if is_over(&mut self.told_blind, now) {
                self.outbox.say(Event::Blind);
            }
            return PAUSE_MAX;
        };
        self.too_soon = is_too_soon(&sample).then(|| self.too_soon.unwrap_or(now));
        if self.calm.is_none() || sample.headroom_bytes / 2 >= self.room_below(&sample) {
            self.calm = Some(sample);
            let groups = self.groups.iter_mut().map(|it| &mut it.meter);
            let owners = self.owners.iter_mut().map(|it| &mut it.meter);
            groups.chain(owners).for_each(Meter::is_calm);
        }
        let cause = self.cause(&sample, now);
        self.look_at_groups(&sample, cause, now);
        self.go_on_ending(&sample, now);
        match cause {
            Some(cause) => self.end_some(cause, &sample, now),
            None => self.lost = None,
        }
        self.tell_of_room(&sample, cause);
        self.choose_groups(cause, now);
        self.seen.headroom_bytes = sample.headroom_bytes;
        self.pause(&sample)
    }

    /// Why something has to end now.
    fn cause(&self, sample: &Sample, now: Instant) -> Option<Cause> {
        if sample.headroom_bytes < self.end_below(sample) {
            return Some(Cause::NoRoom);
        }
        // Waiting at the limits of groups counts as well: alone it says nothing of the machine.
        let is_little = sample.headroom_bytes < self.room_below(sample);
        let lasts = |since| now.saturating_duration_since(since) >= TOO_SOON_LASTS;
        if is_little && self.too_soon.is_some_and(lasts) {
            return Some(Cause::TooSoon);
        }
        let most = self.rule.stalled_max.fraction();
        let is_stalled = sample.stalled.is_some_and(|stalled| stalled >= most);
        (is_little && is_stalled).then_some(Cause::Stalled)
    }

    pub(crate) fn end_below(&self, sample: &Sample) -> u64 {
        part(self.rule.end_below, sample).min(END_BELOW_MAX)
    }

    pub(crate) fn room_below(&self, sample: &Sample) -> u64 {
        part(self.rule.room_below, sample).min(ROOM_BELOW_MAX)
    }

    fn tell_of_room(&mut self, sample: &Sample, cause: Option<Cause>) {
        let little = self.room_below(sample);
        let is_short = sample.headroom_bytes < little || is_soon(sample) || cause.is_some();
        // Not to and fro at the edge.
        let stays = self.is_short && sample.headroom_bytes < little / 4 * 5;
        let is_short = is_short || stays;
        if is_short != self.is_short {
            self.is_short = is_short;
            self.outbox.say(Event::Short(is_short, *sample));
        }
    }

    /// Looks at what groups take, where it may matter soon.
    fn look_at_groups(&mut self, sample: &Sample, cause: Option<Cause>, now: Instant) {
        let least = self.room_below(sample).saturating_mul(FOLLOWED_BELOW);
        let is_near =
            sample.headroom_bytes < least || is_soon(sample) || sample.stalled > Some(0.0);
        let waited = cause.is_some() || is_due(self.looked_at_groups, PAUSE_MAX / 2, now);
        if !is_near || !waited {
            return;
        }
        self.looked_at_groups = Some(now);
        self.went_bytes = self.headroom_then.saturating_sub(sample.headroom_bytes);
        self.headroom_then = sample.headroom_bytes;
        let begin = Instant::now();
        let count = self.groups.len();
        let all = count + self.owners.len();
        for _ in 0..all {
            self.next_meter = (self.next_meter + 1) % all;
            match self.next_meter.checked_sub(count) {
                None => self.groups[self.next_meter].look(now, &mut self.buffer),
                Some(at) => self.owners[at].meter.look(now, &mut self.buffer),
            }
            // The rest at the next look.
            if begin.elapsed() > READING_MAX {
                break;
            }
        }
    }

    fn pause(&self, sample: &Sample) -> Duration {
        if !self.endings.is_empty() {
            return PAUSE_MIN;
        }
        let left = sample.headroom_bytes as f64;
        let soonest =
            (left / FILLED_PER_SECOND).min(left / sample.goes.max(sample.goes_lately) / 8.0);
        Duration::try_from_secs_f64(soonest)
            .unwrap_or(PAUSE_MAX)
            .clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

/// Groups are followed where programs can take less than so many times what the rule
/// calls little.
const FOLLOWED_BELOW: u64 = 4;

pub(crate) fn part(share: Percent, sample: &Sample) -> u64 {
    share.of(sample.total_bytes)
}

/// Whether it is time to tell of a thing again; it is told now.
pub(crate) fn is_over(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = is_due(*told, TOLD_EVERY, now);
    if is_over {
        *told = Some(now);
    }
    is_over
}
