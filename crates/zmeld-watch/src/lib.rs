//! The rules of `zmeld watch` at work: what others leave to nobody.
//!
//! [`Watcher::round`] looks at an observation and at the time, and does what is due;
//! everything it does, or would do, is told to a listener with its reason. A device
//! may come or go between two rounds, and an action that fails is told and tried
//! again when the rule is next due.
//!
//! Idle pages: where the kernel tracks when pages were used
//! (`CONFIG_ZRAM_TRACK_ENTRY_ACTIME`), it is asked to mark those of the rule's age.
//! Elsewhere all pages are marked, and those whose mark is still there when the
//! rule's age has passed are the idle ones.

mod action;
mod history;
mod limit;
pub mod meld;
pub mod reclaim;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zmeld_report::units::{bytes, percent};

use action::{Action, ActionKind, ActionResult, UNIT};

use history::History;
use reclaim::Reclaimer;
use zmeld_config::{Config, Kind, PageFilter, Span, Watch};
use zmeld_guard::note::{SHORT, SHORT_FOR};
use zmeld_linux::{Host, HostError};
use zmeld_observe::applied::Applied;
use zmeld_observe::lately::uptime;
use zmeld_observe::run_folder;
use zmeld_observe::{share, Device, Observation, Pressure};

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine did not say or do what it was asked for.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Nothing can be reclaimed ahead of time on this machine.
    #[error("nothing can be reclaimed: {why}")]
    CannotReclaim {
        /// Why, and the way out.
        why: String,
    },
    /// A pass cannot be run as things are: why, and the way out.
    #[error("{0}")]
    Refused(String),
    /// Nothing that melds is here: why, and the way out.
    #[error("{0}")]
    Missing(String),
}

impl Error {
    /// Whether a privilege or something of the kernel is missing.
    pub fn is_missing(&self) -> bool {
        match self {
            Error::Host(err) => err.is(Errno::ACCESS) || err.is(Errno::PERM),
            err => matches!(err, Error::Missing(_)),
        }
    }
}

/// A pass is stopped after so long and goes on in the next round.
const PASS_TIME_MAX_MS: u64 = 1_000;
/// A device with less than this has nothing worth an action.
const STORED_MIN: u64 = 1 << 20;
/// While memory is short, room is made so often at first, and at last.
const ROOM_EVERY: Duration = Duration::from_secs(10);
const ROOM_EVERY_MAX: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86_400);

/// Somebody who is told, a line at a time.
pub type Listener<'a> = dyn FnMut(String) + 'a;

/// Rules and what was done so far.
pub struct Watcher {
    host: Host,
    config: Config,
    /// How it is found out what `zmeld up` set up.
    applied: fn(&Host) -> Option<Applied>,
    dry_run: bool,
    devices: BTreeMap<String, History>,
    holding: bool,
    reclaimer: Option<Reclaimer>,
    /// Some moment, and how long the machine was up then, in seconds.
    clock: Option<(Instant, f64)>,
    /// When room was last made because memory was short.
    room_made: Option<Instant>,
    room_pause: Duration,
    /// It is now: rules are not held back by their own limits.
    is_pressed: bool,
    /// Some action was done in part.
    has_more: bool,
    /// Rules are due whose last turn was before then, in seconds since boot.
    asked: Option<f64>,
}

impl Watcher {
    /// Rules for a host, and how it is found out there what `zmeld up` set up. A dry run marks nothing, writes nothing, melds nothing.
    pub fn new(
        host: Host,
        config: Config,
        dry_run: bool,
        applied: fn(&Host) -> Option<Applied>,
    ) -> Watcher {
        let dry_run = dry_run || config.watch.dry_run;
        let rule = config.watch.reclaim.clone();
        Watcher {
            host,
            config,
            dry_run,
            devices: BTreeMap::new(),
            holding: false,
            applied,
            reclaimer: rule.map(|rule| Reclaimer::new(rule, dry_run)),
            clock: None,
            room_made: None,
            room_pause: ROOM_EVERY,
            is_pressed: false,
            has_more: false,
            asked: None,
        }
    }

    /// Every rule has one turn from `now` on, whenever it had the last.
    pub fn ask(&mut self, now: Instant) {
        self.asked = Some(self.uptime(now));
    }

    /// Whether there is any rule.
    pub fn has_rules(&self) -> bool {
        self.config.watch.has_rules()
    }

    /// Whether something was done in part in the last round, and another one should not be
    /// waited for.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Does what is due now, each action for about a second; it ends early where `stop` is
    /// set.
    pub fn round(
        &mut self,
        seen: &Observation,
        now: Instant,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) {
        let now = self.uptime(now);
        self.has_more = false;
        self.follow_devices(seen, now, listener);
        if self.is_too_busy(listener) {
            return;
        }
        self.act(seen, now, stop, listener);
    }

    /// Does at once what the rules would do from time to time, since memory is short.
    pub fn make_room(&mut self, now: Instant, stop: &AtomicBool, listener: &mut Listener<'_>) {
        if !is_due(self.room_made, self.room_pause, now) {
            return;
        }
        // One that stays short is not worn out for nothing.
        let is_long_ago = self
            .room_made
            .is_none_or(|at| now.duration_since(at) >= 2 * ROOM_EVERY_MAX);
        self.room_pause = match is_long_ago {
            true => ROOM_EVERY,
            false => (self.room_pause * 2).min(ROOM_EVERY_MAX),
        };
        self.room_made = Some(now);
        if let Some(reclaimer) = &mut self.reclaimer {
            reclaimer.make_room(&self.host, now, stop, listener);
        }
        let now = self.uptime(now);
        let seen = Observation::read(&self.host, rustix::param::page_size() as u64);
        self.follow_devices(&seen, now, listener);
        self.is_pressed = true;
        self.act(&seen, now, stop, listener);
        self.is_pressed = false;
    }

    /// Does what is due on each device.
    fn act(
        &mut self,
        seen: &Observation,
        now: f64,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) {
        let longest = self.longest_idle();
        for device in seen.devices.iter().filter(|device| device.initialised) {
            for action in self.due(device, now) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                self.perform(&action, now, stop, listener);
            }
            if let Some(history) = self.devices.get_mut(&device.name) {
                history.forget_marks(longest, now);
            }
        }
    }

    /// How long the machine was up then, in seconds.
    fn uptime(&mut self, now: Instant) -> f64 {
        let read = || {
            let text = self.host.read_optional("/proc/uptime").ok().flatten();
            (now, uptime(text.as_deref()).unwrap_or_default())
        };
        let (then, up) = *self.clock.get_or_insert_with(read);
        up + now.duration_since(then).as_secs_f64()
    }

    /// Reclaims idle memory where that is due. It has a pace of its own: what it costs has to
    /// be seen within seconds. It ends early where `stop` is set.
    pub fn reclaim(&mut self, now: Instant, stop: &AtomicBool, listener: &mut Listener<'_>) {
        let due = self.reclaimer.as_ref().is_some_and(|it| it.is_due(now));
        let busy = due.then(|| self.busy()).flatten();
        if let (Some(reclaimer), true) = (&mut self.reclaimer, due) {
            reclaimer.round(&self.host, now, busy, stop, listener);
        }
    }

    /// How long the rule that waits longest waits for idle pages.
    fn longest_idle(&self) -> Duration {
        let watch = &self.config.watch;
        let recompress = watch
            .recompress
            .as_ref()
            .map(|it| (it.pages, it.idle_after));
        let writeback = watch.writeback.as_ref().map(|it| (it.pages, it.idle_after));
        let all = [recompress, writeback].into_iter().flatten();
        let all = all.filter(|(which, _)| needs_idle(*which));
        all.map(|(_, age)| age.duration()).max().unwrap_or_default()
    }

    fn follow_devices(&mut self, seen: &Observation, now: f64, listener: &mut Listener<'_>) {
        let is_there = |name: &str| seen.device(name).is_some_and(|d| d.initialised);
        self.devices.retain(|name, _| {
            let stays = is_there(name);
            if !stays {
                listener(format!("{name}: gone"));
            }
            stays
        });
        for device in seen.devices.iter().filter(|device| device.initialised) {
            if self.devices.contains_key(&device.name) {
                continue;
            }
            listener(format!("{}: watched from now on", device.name));
            // What a watch that was killed lent is no limit of anybody's.
            let given_back = !self.dry_run
                && limit::give_back_left(&self.host, &device.name).unwrap_or(false)
                && !limit::is_on(&self.host, &device.name);
            let mut history = History::kept(&self.host, &device.name);
            if history.budget.is_none() && !given_back {
                // A limit that stands already was given today, perhaps by us.
                history.budget = device.writeback_limit_bytes.map(|_| now);
            }
            self.devices.insert(device.name.clone(), history);
        }
    }

    fn is_too_busy(&mut self, listener: &mut Listener<'_>) -> bool {
        let busy = self.busy();
        let is_busy = busy.is_some();
        if let (Some(why), false) = (busy, self.holding) {
            listener(format!("holding: {why}"));
        }
        self.holding = is_busy;
        is_busy
    }

    /// Why the processors are to be left alone, where they are busy.
    fn busy(&self) -> Option<String> {
        let limit = self.config.watch.cpu_pressure_max.fraction();
        let text = self.host.read_optional("/proc/pressure/cpu").ok()??;
        let waiting = Pressure::parse(&text)?.some.avg10_percent / 100.0;
        (waiting > limit).then(|| {
            format!(
                "tasks waited for a processor {} of the last 10 s, more than {}",
                percent(waiting),
                percent(limit)
            )
        })
    }

    /// What is due on a device, with reasons; also what is due first so that it can
    /// be done later.
    fn due(&self, device: &Device, now: f64) -> Vec<Action> {
        let Some(history) = self.devices.get(&device.name) else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        actions.extend(self.budget_due(device, history, now));
        if device.in_memory_bytes() < STORED_MIN {
            return actions;
        }
        let watch = &self.config.watch;
        let is_turn = |last, every| self.is_turn(last, every, now);
        let action = |reason, mark, kind| Action {
            device: device.name.clone(),
            reason,
            mark,
            kind,
        };
        // After so long pages are told apart by marks that are made now.
        let mut marking = None;
        let mut is_ready = |pages, idle_after: Span| match history.marks_by_age {
            // The action marks by age itself, or finds out that it cannot.
            None | Some(true) => true,
            Some(false) if !needs_idle(pages) => true,
            Some(false) if history.marked.is_none() => {
                marking = marking.max(Some(idle_after));
                false
            }
            Some(false) => has_passed(history.marked, idle_after.duration(), now),
        };
        let mark = |pages, idle_after: Span| {
            (needs_idle(pages) && history.marks_by_age != Some(false)).then_some(idle_after)
        };
        let held = device.held.unwrap_or_default();
        let recompress = watch.recompress.as_ref().filter(|rule| {
            !device.recompression.is_empty()
                && is_turn(history.recompressed, rule.every)
                && is_ready(rule.pages, rule.idle_after)
        });
        actions.extend(recompress.map(|rule| {
            let reason = format!(
                "{}; {} are compressed to {}",
                self.due_every(rule.every),
                bytes(device.in_memory_bytes()),
                bytes(held.compressed_bytes)
            );
            let kind = ActionKind::Recompress {
                rule: rule.clone(),
                codecs: device.recompression.clone(),
                pages_max: rule.max_pages.map_or(u64::MAX, |most| {
                    most.saturating_sub(history.recompressed_pages)
                }),
            };
            action(reason, mark(rule.pages, rule.idle_after), kind)
        }));
        let whole = match held.limit_bytes {
            0 => device.size_bytes,
            limit => limit,
        };
        let fill = share(held.memory_used_bytes, whole);
        let writeback = watch.writeback.as_ref().filter(|rule| {
            (self.is_pressed || fill >= rule.above.fraction())
                && device.backing.is_some()
                && is_turn(history.written_back, rule.every)
                && is_ready(rule.pages, rule.idle_after)
        });
        actions.extend(writeback.map(|rule| {
            let reason = format!(
                "{}; it uses {} of its limit, the rule begins at {}",
                self.due_every(rule.every),
                percent(fill),
                percent(rule.above.fraction())
            );
            let asked = history.written_pages.saturating_mul(UNIT);
            let kind = ActionKind::WriteBack {
                pages: rule.pages,
                bytes_max: rule.at_most.0.saturating_sub(asked),
            };
            action(reason, mark(rule.pages, rule.idle_after), kind)
        }));
        if let Some(age) = marking {
            let reason = format!(
                "this kernel does not tell how old pages are: all are marked now, and those \
                 not used for {age} are the idle ones"
            );
            actions.push(action(reason, None, ActionKind::MarkAll));
        }
        actions.extend(self.meld_due(watch, device, history, now));
        actions
    }

    fn is_turn(&self, last: Option<f64>, every: Span, now: f64) -> bool {
        let is_asked = self
            .asked
            .is_some_and(|asked| last.is_none_or(|last| last < asked));
        self.is_pressed || is_asked || has_passed(last, every.duration(), now)
    }

    /// Why it is a rule's turn.
    fn due_every(&self, every: Span) -> String {
        match self.asked {
            Some(_) => "asked for".to_owned(),
            None => format!("due every {every}"),
        }
    }

    fn meld_due(
        &self,
        watch: &Watch,
        device: &Device,
        history: &History,
        now: f64,
    ) -> Option<Action> {
        let rule = watch.meld.as_ref()?;
        let melding = device.melding.as_ref()?;
        let is_turn = history.resume || self.is_turn(history.melded, rule.every, now);
        if !is_turn || melding.mode == "off" {
            return None;
        }
        let least = rule.duplicates_min.fraction();
        let reason = match (history.resume, melding.duplicates_sampled()) {
            (true, _) => "the last pass was stopped by its time limit".to_owned(),
            (false, Some(part)) => format!(
                "{}; the last sample had {} of duplicates, from {} on it pays",
                self.due_every(rule.every),
                percent(part),
                percent(least)
            ),
            (false, None) => format!(
                "{} stored and no pass yet; from {} of duplicates on it pays",
                bytes(device.in_memory_bytes()),
                percent(least)
            ),
        };
        let threshold = (least * 1000.0).round().clamp(0.0, 1000.0);
        let mut request = "start".to_owned();
        if threshold > 0.0 {
            request += &format!(" threshold={threshold}");
        }
        request += &format!(" time_ms={PASS_TIME_MAX_MS}");
        if history.resume {
            request += " resume";
        }
        Some(Action {
            device: device.name.clone(),
            reason,
            mark: None,
            kind: ActionKind::Meld(request),
        })
    }

    /// The daily limit of a tier's writeback, given anew each day.
    fn budget_due(&self, device: &Device, history: &History, now: f64) -> Option<Action> {
        device.backing.as_ref()?;
        // By the journal: a device of another tool may have the same priority.
        let applied = (self.applied)(&self.host)?;
        let tier = self.config.tier(&applied.tier_of(&device.name)?.name)?;
        let Kind::Ram(ram) = &tier.kind else {
            return None;
        };
        let limit = ram.writeback.as_ref()?.daily_limit?;
        has_passed(history.budget, DAY, now).then(|| Action {
            device: device.name.clone(),
            reason: format!("the tier {} may write {limit} a day", tier.name),
            mark: None,
            kind: ActionKind::Budget(limit.0),
        })
    }

    fn perform(
        &mut self,
        action: &Action,
        now: f64,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) {
        let history = self.devices.entry(action.device.clone()).or_default();
        if self.dry_run {
            history.note(action, now);
            // Pages cannot be marked for later without marking them.
            history.marks_by_age = Some(true);
            listener(format!(
                "would {}: {}, because {}",
                action.device,
                action.what(),
                action.reason
            ));
            return;
        }
        listener(format!(
            "{}: {}, because {}",
            action.device,
            action.what(),
            action.reason
        ));
        let done = match action.perform(&self.host, stop) {
            Ok(ActionResult::Done(text)) => {
                history.note(action, now);
                text
            }
            Ok(ActionResult::Stopped(text, pages)) => {
                history.note_part(action, pages, now);
                self.has_more = true;
                text
            }
            Ok(ActionResult::NoAges) => {
                // The next round marks all pages and waits.
                history.marks_by_age = Some(false);
                "put off: this kernel does not tell how old pages are".to_owned()
            }
            Err(err) => {
                // Not at once again, but when the rule is next due.
                history.note(action, now);
                format!("{} failed: {err}", action.what())
            }
        };
        listener(format!("{}: {done}", action.device));
        if let Err(err) = history::keep(&self.host, &self.devices) {
            listener(format!("what was done cannot be noted: {err}"));
        }
    }
}

/// Whether the guard says that memory is short.
pub fn is_short(host: &Host) -> bool {
    let told = run_folder::since_written(host, SHORT);
    told.is_some_and(|age| age < SHORT_FOR)
}

fn is_due(last: Option<Instant>, every: Duration, now: Instant) -> bool {
    last.is_none_or(|last| now.duration_since(last) >= every)
}

/// The same of seconds since boot.
fn has_passed(last: Option<f64>, every: Duration, now: f64) -> bool {
    last.is_none_or(|last| now - last >= every.as_secs_f64())
}

fn needs_idle(which: PageFilter) -> bool {
    matches!(which, PageFilter::Idle | PageFilter::HugeIdle)
}
