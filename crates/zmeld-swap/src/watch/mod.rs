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
mod error;
mod history;
mod limit;
pub mod meld;
pub mod reclaim;
mod recompress;
mod rule;
mod writeback;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zmeld_report::units::percent;

pub use action::Listener;
use action::{Action, ActionResult, UNIT};
pub use error::Error;

use crate::observe::applied::Applied;
use crate::observe::{Device, Observation, Pressure};
use crate::run_folder;
use history::{has_passed, History, BUDGET, MARK};
use reclaim::Reclaimer;
use rule::WatchRule;
use zmeld_config::{Bytes, Config, Span, Watch};
use zmeld_guard::note::{SHORT, SHORT_FOR};
use zmeld_linux::boot::uptime;
use zmeld_linux::service::is_due;
use zmeld_linux::Host;

/// A device with less than this has nothing worth an action.
const STORED_MIN: u64 = 1 << 20;
/// While memory is short, room is made so often at first, and at last.
const ROOM_EVERY: Duration = Duration::from_secs(10);
const ROOM_EVERY_MAX: Duration = Duration::from_secs(600);
/// Nice value of the kernel's work for a rule.
const NICE: i32 = 19;
/// So much is written back a day where the tier has no `daily_limit`.
const DAILY_LIMIT: Bytes = Bytes(2 << 30);
const DAY: Duration = Duration::from_secs(86_400);

/// Rules and what was done so far.
pub struct Watcher {
    host: Host,
    config: Config,
    /// How it is found out what `zmeld up` set up.
    applied: fn(&Host) -> Option<Applied>,
    dry_run: bool,
    devices: BTreeMap<String, History>,
    holding: bool,
    rules: Vec<WatchRule>,
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
    /// Anything was begun.
    has_acted: bool,
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
            rules: rules(&config.watch),
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
            has_acted: false,
            asked: None,
        }
    }

    /// That rule alone has one turn from `now` on, whenever it had the last; false where there
    /// is no such rule.
    pub fn ask(&mut self, rule: &str, now: Instant) -> bool {
        self.asked = Some(self.uptime(now));
        self.reclaimer = None;
        self.rules.retain(|it| it.name == rule);
        !self.rules.is_empty()
    }

    /// Whether anything was begun so far, by what was due.
    pub fn has_acted(&self) -> bool {
        self.has_acted
    }

    /// Whether there is any rule.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty() || self.reclaimer.is_some()
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
        if self.asked.is_none() && self.is_too_busy(listener) {
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
            let history = self.devices.get_mut(&device.name);
            if history.is_some_and(|it| it.forget_marks(longest, now)) {
                self.keep(listener);
            }
        }
    }

    /// How long the machine was up then, in seconds.
    fn uptime(&mut self, now: Instant) -> f64 {
        let read = || (now, uptime(&self.host).ok().flatten().unwrap_or_default());
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
        let ages = self.rules.iter().filter_map(|rule| rule.idle_after);
        ages.map(Span::duration).max().unwrap_or_default()
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
            // A limit lent by a killed watch is nobody's own.
            let given_back = !self.dry_run
                && limit::give_back_left(&self.host, &device.name).unwrap_or(false)
                && limit::is_on(&self.host, &device.name).is_ok_and(|is_on| !is_on);
            let mut history = History::kept(&self.host, &device.name);
            let is_limited = device.writeback_limit_bytes.is_some();
            if is_limited && history.last(BUDGET).is_none() && !given_back {
                // A limit that stands already was given today, perhaps by us.
                history.note(BUDGET, now);
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

    /// Actions due on a device, with reasons; also those due first so that others can follow.
    fn due(&self, device: &Device, now: f64) -> Vec<Action> {
        let Some(history) = self.devices.get(&device.name) else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        actions.extend(self.budget_due(device, history, now));
        if device.in_memory_bytes() < STORED_MIN {
            return actions;
        }
        // After so long pages are told apart by marks that are made now.
        let mut marking = None;
        for rule in &self.rules {
            let (turn, part) = (rule.name, history.parts.get(rule.name).copied());
            let Some(plan) = (rule.plan)(device, part, self.is_pressed) else {
                continue;
            };
            let last = history.last(turn);
            let is_asked = self
                .asked
                .is_some_and(|asked| last.is_none_or(|last| last < asked));
            let is_turn = self.is_pressed || part.is_some() || is_asked;
            if !is_turn && !has_passed(last, rule.every.duration(), now) {
                continue;
            }
            // Else the action marks by age itself, or finds out that it cannot.
            let age = rule.idle_after;
            if let (Some(age), Some(false)) = (age, history.marks_by_age) {
                let marked = history.last(MARK);
                if marked.is_none() {
                    marking = marking.max(Some(age));
                }
                if marked.is_none_or(|at| now - at < age.seconds as f64) {
                    continue;
                }
            }
            let due = match (part, self.asked) {
                (Some(_), _) => "its last turn was stopped by its time limit".to_owned(),
                (None, Some(_)) => "asked for".to_owned(),
                (None, None) => format!("due every {}", rule.every),
            };
            actions.push(Action {
                device: device.name.clone(),
                turn,
                reason: format!("{due}; {}", plan.why),
                mark: age.filter(|_| history.marks_by_age != Some(false)),
                what: plan.what,
                act: plan.act,
            });
        }
        actions.extend(marking.map(|age| Action {
            device: device.name.clone(),
            turn: MARK,
            reason: format!(
                "this kernel does not tell how old pages are: all are marked now, and those \
                 not used for {age} are the idle ones"
            ),
            mark: None,
            what: "mark all pages".to_owned(),
            act: Box::new(|host, device, _| {
                host.write(action::path(device, "idle"), "all")?;
                Ok(ActionResult::Done("marked".to_owned()))
            }),
        }));
        actions
    }

    /// The daily limit of a tier's writeback, given anew each day.
    fn budget_due(&self, device: &Device, history: &History, now: f64) -> Option<Action> {
        device.backing.as_ref()?;
        // By the journal: a device of another tool may have the same priority.
        let applied = (self.applied)(&self.host)?;
        let tier = self.config.tier(&applied.tier_of(&device.name)?.name)?;
        let limit = tier.kind.ram()?.writeback.as_ref()?.daily_limit;
        // A drive is not worn out where nobody said how much it may be written.
        let of_rule = self.config.watch.writeback.as_ref().map(|_| DAILY_LIMIT);
        let limit = limit.or(of_rule)?;
        // A timer comes a little sooner some days, and an hour sooner on one of the year.
        let day = self
            .asked
            .map_or(DAY, |_| DAY - Duration::from_secs(2 * 3600));
        has_passed(history.last(BUDGET), day, now).then(|| Action {
            device: device.name.clone(),
            turn: BUDGET,
            reason: format!("the tier {} may write {limit} a day", tier.name),
            mark: None,
            what: format!("allow writeback of {limit}"),
            act: Box::new(move |host, device, _| {
                let units = (limit.0 / UNIT).to_string();
                host.write(action::path(device, "writeback_limit"), &units)?;
                host.write(action::path(device, "writeback_limit_enable"), "1")?;
                Ok(ActionResult::Done("given".to_owned()))
            }),
        })
    }

    fn perform(
        &mut self,
        action: &Action,
        now: f64,
        stop: &AtomicBool,
        listener: &mut Listener<'_>,
    ) {
        self.has_acted = true;
        let history = self.devices.entry(action.device.clone()).or_default();
        if self.dry_run {
            history.note(action.turn, now);
            // Pages cannot be marked for later without marking them.
            history.marks_by_age = Some(true);
            listener(format!(
                "would {}: {}, because {}",
                action.device, action.what, action.reason
            ));
            return;
        }
        listener(format!(
            "{}: {}, because {}",
            action.device, action.what, action.reason
        ));
        // After a suspend all is due at once, on battery, too: it gives way to whoever computes,
        // unless memory is short.
        let be_nice = |nice| rustix::process::setpriority_process(None, nice);
        let _ = be_nice(if self.is_pressed { 0 } else { NICE });
        let performed = action.perform(&self.host, stop);
        let _ = be_nice(0);
        let done = match performed {
            Ok(ActionResult::Done(text)) => {
                history.note(action.turn, now);
                text
            }
            Ok(ActionResult::Stopped(text, pages)) => {
                history.note_part(action.turn, pages);
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
                history.note(action.turn, now);
                format!("{} failed: {err}", action.what)
            }
        };
        listener(format!("{}: {done}", action.device));
        self.keep(listener);
    }

    fn keep(&self, listener: &mut Listener<'_>) {
        if self.dry_run {
            return;
        }
        if let Err(err) = history::keep(&self.host, &self.devices) {
            listener(format!("the action cannot be recorded: {err}"));
        }
    }
}

/// Whether the guard says that memory is short.
pub fn is_short(host: &Host) -> bool {
    let told = run_folder::since_written(host, SHORT);
    told.is_some_and(|age| age < SHORT_FOR)
}

/// The rules that a configuration has, in the order in which they have their turns.
fn rules(watch: &Watch) -> Vec<WatchRule> {
    let all = [
        watch.recompress.clone().map(recompress::rule),
        watch.writeback.clone().map(writeback::rule),
        watch.meld.clone().map(meld::rule),
    ];
    all.into_iter().flatten().collect()
}
