//! The guard: the thread that looks, and acts.
//!
//! Invariants: from one look to the next it opens nothing, takes and frees no memory, closes no
//! file, and waits for nobody: what other threads do for it is taken where it is there, and else
//! at the next look (`worker.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::mm::MlockAllFlags;
use rustix::process::{getpid, getrlimit, pidfd_open, setrlimit, PidfdFlags, Resource};
use zmeld_linux::command::Invocation;
use zmeld_linux::service::Watchdog;
use zmeld_linux::{Host, HostError};

use crate::choice::{equal_share, OwnerFigures, ProcessFigures, Right, AT_ONCE_MAX, LARGEST_MAX};
use crate::ending::{ender, shifted, Ending, Round, Task, ENDING_MAX, GROUPS_MAX, ROUNDS_MAX};
use crate::event::{Cause, Event};
use crate::log::Outbox;
use crate::memory::{is_soon, MemoryMonitor, Sample};
use crate::meter::Meter;
use crate::open::touched;
use crate::owners::{Finder, Found, Owner, PassedOver, Place, OWNERS_MAX};
use crate::processes::{Listed, Lister, Process, LISTED_MAX};
use crate::worker::{thread, Worker};
use crate::{is_due, Error, GuardRule};

/// How often it looks, at least and at most.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// As fast as a program can fill memory: it looks so often that no more than this goes
/// between two looks, as far as the shortest pause allows.
const FILLED_PER_SECOND: f64 = 4.0 * (1_u64 << 30) as f64;
/// What owners hold is read for so long in a look.
const READING_MAX: Duration = Duration::from_millis(50);
/// On a large machine a share of memory is a lot: this is little, and this very little.
const ROOM_BELOW_MAX: u64 = 4 << 30;
const END_BELOW_MAX: u64 = 1 << 30;
/// Owners are looked at, and processes listed, where programs can take less than so many times
/// what the rule calls little.
const WATCHED_BELOW: u64 = 4;
const LISTED_BELOW: u64 = 2;
/// How often owners are looked for; and while memory is short, since what runs away may have
/// begun just now.
const FIND_EVERY: Duration = Duration::from_secs(10);
const FIND_EVERY_SHORT: Duration = Duration::from_secs(1);
/// A thing that stays is told again after so long.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Files that may be open: more than owners, their processes, and those on their way out have.
const FILES: u64 = 8192;
/// Above what rtkit gives to any user who asks (20), below the kernel's own threads (50).
const PRIORITY: &str = "40";

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

/// What is there now is there to stay, the program's text with it; what comes, as it is
/// touched.
fn lock_memory() -> rustix::io::Result<()> {
    rustix::mm::mlockall(MlockAllFlags::CURRENT)?;
    rustix::mm::mlockall(MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
}

/// This thread runs before all that run away, or where it may not, more than its turn.
pub(crate) fn hurry(host: &Host) -> Result<(), HostError> {
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
    finder: Worker<Found>,
    lister: Worker<Listed>,
    ender: Worker<Vec<Task>>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) passed: Vec<PassedOver>,
    /// What programs hold that is charged to no owner.
    pub(crate) nobody: Meter,
    pub(crate) nobodys: Arc<str>,
    /// The processes of the owners who hold most, and whose those are.
    pub(crate) processes: Vec<Process>,
    pub(crate) listed: Vec<Arc<Place>>,
    /// Processes that have gone, which the lister closes.
    pub(crate) retired: Vec<Process>,
    /// What they are chosen by, and which are.
    pub(crate) figures: Vec<OwnerFigures>,
    pub(crate) process_figures: Vec<ProcessFigures>,
    pub(crate) chosen: Vec<usize>,
    buffer: Vec<u8>,
    found: Option<Instant>,
    finding_took: Duration,
    was_listed: Option<Instant>,
    listing_took: Duration,
    has_found: bool,
    /// It is known who of them waits for memory.
    knows_stalls: bool,
    looked_at_owners: Option<Instant>,
    /// Whose figures were read last, of the owners and then what is passed over.
    next_meter: usize,
    is_short: bool,
    pub(crate) endings: Vec<Ending>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) round: u64,
    /// Groups in which some were ended, how often, and when last.
    pub(crate) struck: Vec<(u64, u32, Instant)>,
    failed: Option<Arc<str>>,
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
        if let Err(err) = pidfd_open(getpid(), PidfdFlags::empty()) {
            let why = format!(
                "a process cannot be held while it is ended (pidfd_open: {err}): Linux 5.3 or \
                 later is needed"
            );
            return Err(Error::CannotGuard { why });
        }
        let seen = Seen {
            now: Instant::now(),
            looks: 0,
            late_us_max: 0,
            headroom_bytes: 0,
        };
        let name = |name| by_threads.then_some(name);
        let mut finder = Finder::new(host.clone(), rule.clone());
        let mut lister = Lister::new(host.clone(), rule.clone(), by_threads);
        let listed = Listed {
            asked: Vec::with_capacity(LISTED_MAX),
            retired: Vec::with_capacity(ENDING_MAX),
            ..Listed::default()
        };
        let find = move |it: &mut Found| finder.find(it);
        let list = move |it: &mut Listed| lister.list(it);
        let mut lister = Worker::new(name("guard-list"), listed, list)?;
        // It begins before it is needed.
        lister.send();
        Ok(GuardLoop {
            monitor: MemoryMonitor::open(&host, by_threads)?,
            outbox: Outbox::new(&host, &rule, seen, !dry_run, by_threads, say)?,
            finder: Worker::new(name("guard-find"), Found::default(), find)?,
            lister,
            ender: ender(&host, &rule, by_threads)?,
            tasks: Vec::with_capacity(GROUPS_MAX),
            host,
            rule,
            dry_run,
            seen,
            owners: Vec::new(),
            passed: Vec::new(),
            nobody: Meter::counted(0),
            nobodys: "memory of nobody who is there".into(),
            processes: Vec::new(),
            listed: Vec::with_capacity(LISTED_MAX),
            retired: Vec::with_capacity(ENDING_MAX),
            figures: Vec::with_capacity(OWNERS_MAX + 1),
            process_figures: Vec::with_capacity(LISTED_MAX * (AT_ONCE_MAX + LARGEST_MAX)),
            chosen: Vec::with_capacity(AT_ONCE_MAX + LARGEST_MAX),
            buffer: touched(),
            found: None,
            finding_took: Duration::ZERO,
            was_listed: None,
            listing_took: Duration::ZERO,
            has_found: false,
            knows_stalls: false,
            looked_at_owners: None,
            next_meter: 0,
            is_short: false,
            endings: Vec::with_capacity(ENDING_MAX),
            rounds: Vec::with_capacity(ROUNDS_MAX),
            round: 0,
            struck: Vec::with_capacity(GROUPS_MAX),
            failed: None,
            told_blind: None,
            told_nothing: None,
            told_would: None,
        })
    }

    /// Looks, and does what is due; when to look again.
    pub fn look(&mut self, now: Instant) -> Duration {
        let pause = self.act(now);
        if let Some(sent) = self.ender.get().filter(|_| !self.tasks.is_empty()) {
            std::mem::swap(sent, &mut self.tasks);
            self.ender.send();
        }
        self.seen.now = now;
        self.seen.looks += 1;
        self.outbox.send(self.seen);
        pause
    }

    fn act(&mut self, now: Instant) -> Duration {
        let Some(sample) = self.monitor.look(now) else {
            if is_over(&mut self.told_blind, now) {
                self.outbox.say(Event::Blind);
            }
            return PAUSE_MAX;
        };
        self.seen.headroom_bytes = sample.headroom_bytes;
        let cause = self.cause(&sample);
        self.tell_of_room(&sample, cause);
        self.find_owners(cause, now);
        let room = self.room_below(&sample);
        let headroom = sample.headroom_bytes;
        // What compressing gives is not certain: pages that come may not compress.
        let available = sample.available_bytes;
        let is_near = |times| {
            let is_little = headroom < room * times || available < room * times / 2;
            is_little || is_soon(&sample) || sample.stalled > Some(0.0)
        };
        if is_near(WATCHED_BELOW) {
            self.look_at_owners(&sample, cause.is_some(), now);
        }
        if is_near(LISTED_BELOW) {
            self.list_processes(&sample, now);
        }
        // What has ended just now is in the next look's figures.
        let has_ended = self.go_on_ending(&sample, now);
        let is_known = self.has_found && (cause != Some(Cause::Stalled) || self.knows_stalls);
        if let Some(cause) = cause.filter(|_| is_known && !has_ended) {
            self.end_some(cause, &sample, now);
        }
        self.pause(&sample)
    }

    /// Why something has to end now.
    fn cause(&self, sample: &Sample) -> Option<Cause> {
        let little = self.end_below(sample);
        if sample.headroom_bytes < little {
            return Some(Cause::NoRoom);
        }
        let most = self.rule.stalled_above.fraction();
        let is_stalled = sample.stalled.is_some_and(|stalled| stalled > most);
        (sample.available_bytes < little && is_stalled).then_some(Cause::Stalled)
    }

    pub(crate) fn end_below(&self, sample: &Sample) -> u64 {
        self.rule.end_below.of(sample.can_bytes).min(END_BELOW_MAX)
    }

    fn room_below(&self, sample: &Sample) -> u64 {
        self.rule
            .room_below
            .of(sample.can_bytes)
            .min(ROOM_BELOW_MAX)
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

    /// Looks for owners where that is due, and goes on with those that were found.
    fn find_owners(&mut self, cause: Option<Cause>, now: Instant) {
        self.follow(now);
        // A tenth of the time at most, whatever there is to look at.
        let every = match self.is_short || cause.is_some() {
            true => FIND_EVERY_SHORT,
            false => FIND_EVERY,
        };
        let is_due = is_due(self.found, every.max(self.finding_took * 9), now);
        if let Some(asked) = self.finder.get().filter(|_| is_due) {
            self.found = Some(now);
            asked.asked = Some(now);
            asked.is_stall = cause == Some(Cause::Stalled);
            self.finder.send();
            self.follow(now);
        }
    }

    fn follow(&mut self, now: Instant) {
        let Some(found) = self.finder.get().filter(|it| it.is_new) else {
            return;
        };
        found.is_new = false;
        self.finding_took = found.took;
        if found.failed.is_some() {
            // Those that are known stay.
            if found.failed != self.failed {
                std::mem::swap(&mut self.failed, &mut found.failed);
                if let Some(why) = &self.failed {
                    self.outbox.say(Event::Failed(Arc::clone(why)));
                }
            }
            return;
        }
        std::mem::swap(&mut self.failed, &mut found.failed);
        self.knows_stalls = found.is_stall;
        // What is followed no more goes back to be closed.
        std::mem::swap(&mut self.owners, &mut found.owners);
        std::mem::swap(&mut self.passed, &mut found.passed);
        for owner in &mut self.owners {
            let before = found.owners.iter().find(|it| it.id == owner.id);
            if let Some(before) = before {
                owner.meter.go_on(&before.meter);
            }
            owner.meter.look(now, &mut self.buffer);
        }
        for passed in &mut self.passed {
            if let Some(before) = found.passed.iter().find(|it| it.id == passed.id) {
                passed.meter.go_on(&before.meter);
            }
            passed.meter.look(now, &mut self.buffer);
        }
        let is_first = !std::mem::replace(&mut self.has_found, true);
        self.outbox
            .say(Event::Found(Arc::clone(&found.report), is_first));
    }

    /// Looks at what they hold.
    fn look_at_owners(&mut self, sample: &Sample, is_urgent: bool, now: Instant) {
        if !is_urgent && !is_due(self.looked_at_owners, PAUSE_MAX / 2, now) {
            return;
        }
        self.looked_at_owners = Some(now);
        let begin = Instant::now();
        let count = self.owners.len();
        for _ in 0..count + self.passed.len() {
            self.next_meter = (self.next_meter + 1) % (count + self.passed.len());
            let meter = match self.next_meter.checked_sub(count) {
                None => &mut self.owners[self.next_meter].meter,
                Some(at) => &mut self.passed[at].meter,
            };
            meter.look(now, &mut self.buffer);
            // The rest at the next look.
            if begin.elapsed() > READING_MAX {
                break;
            }
        }
        let owned: u64 = self.owners.iter().map(|it| it.meter.now.ram_bytes).sum();
        self.nobody.count(sample.in_ram_bytes.saturating_sub(owned));
        self.nobody.look(now, &mut self.buffer);
    }

    /// Has the processes listed of those who hold most and may be ended.
    fn list_processes(&mut self, sample: &Sample, now: Instant) {
        self.take_list();
        // A fifth of the time at most: it goes before other programs.
        let is_due = is_due(self.was_listed, self.listing_took * 4, now);
        if !is_due || self.owners.is_empty() {
            return;
        }
        let can = sample.can_bytes as i64;
        self.figure(sample, now);
        let least = equal_share(&self.figures);
        let Some(asked) = self.lister.get() else {
            return;
        };
        let mut below = (u64::MAX, usize::MAX);
        while asked.asked.len() < LISTED_MAX {
            let may = self.owners.iter().enumerate().filter(|(at, it)| {
                let holds = (shifted(it, can), *at);
                !matches!(it.right, Right::Kept(_)) && holds.0 >= least.max(1) && holds < below
            });
            let Some((at, owner)) = may.max_by_key(|(at, it)| (shifted(it, can), *at)) else {
                break;
            };
            below = (shifted(owner, can), at);
            asked.asked.push(Arc::clone(&owner.place));
        }
        std::mem::swap(&mut asked.retired, &mut self.retired);
        self.was_listed = Some(now);
        self.lister.send();
        self.take_list();
    }

    fn take_list(&mut self) {
        let Some(listed) = self.lister.get().filter(|it| it.is_new) else {
            return;
        };
        listed.is_new = false;
        self.listing_took = listed.took;
        std::mem::swap(&mut self.processes, &mut listed.processes);
        std::mem::swap(&mut self.listed, &mut listed.listed);
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

/// Whether it is time to tell of a thing again; it is told now.
pub(crate) fn is_over(told: &mut Option<Instant>, now: Instant) -> bool {
    let is_over = is_due(*told, TOLD_EVERY, now);
    if is_over {
        *told = Some(now);
    }
    is_over
}
