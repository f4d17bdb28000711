//! How much is reclaimed from a group at a time, by what it cost so far.
//!
//! Cost is measured in parts of what the rule allows: the share of time that tasks
//! waited for memory since the last look, and the share of the group's memory that
//! came back within a minute, whichever is the larger part of its limit. Below the
//! limit a step is a share of the group's memory, less as the cost nears it; at the
//! limit nothing is reclaimed, the step is halved, and nothing is tried until a rest
//! is over and a minute's cost is below half of the limit. Each rest is twice as long
//! as the one before; each minute without one lets the step grow to twice its size.
//! This is how TMO's senpai goes about it, with g-swap's bound on what comes back
//! beside pressure: pressure alone is blind where swap is as fast as RAM.

use std::time::{Duration, Instant};

/// Shares of a group's memory that a step takes at least, and at most where the rule
/// does not begin with more.
const STEP_MIN: f64 = 0.000_2;
const STEP_MAX: f64 = 0.01;
/// No step is longer, so that it does not go on after a stop.
const STEP_BYTES_MAX: u64 = 64 << 20;
/// The share that is taken at once where the machine's memory is short.
const ROOM_STEP: f64 = 0.05;
/// A group with less has nothing worth a step.
pub(super) const MEMORY_MIN: u64 = 16 << 20;
const REST_FIRST: Duration = Duration::from_secs(30);
const REST_MAX: Duration = Duration::from_secs(600);
const MINUTE: Duration = Duration::from_secs(60);

/// A group's recent cost, in parts of what is allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// Of time that tasks waited.
    pub pressure: f64,
    /// Of memory that came back.
    pub comeback: f64,
}

impl Cost {
    fn part(self) -> f64 {
        self.pressure.max(self.comeback)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Turn {
    /// So many bytes are reclaimed.
    Reclaim(u64),
    /// It costs too much: nothing until a rest is over.
    BackOff,
    /// Nothing, since it rests or is too small.
    Rest,
}

#[derive(Debug, Clone)]
pub(super) struct Pace {
    step: f64,
    step_max: f64,
    rest: Duration,
    resting_until: Option<Instant>,
    /// Since when nothing cost too much.
    calm_since: Instant,
}

impl Pace {
    pub fn new(step: f64, now: Instant) -> Pace {
        Pace {
            step,
            step_max: step.max(STEP_MAX),
            rest: REST_FIRST,
            resting_until: None,
            calm_since: now,
        }
    }

    /// The share of the group's memory that a step takes at most.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// The learnt step, the next rest, and the time left of this one; none where nothing ever cost
    /// too much.
    pub fn learnt(&self, now: Instant) -> Option<(f64, Duration, Duration)> {
        let left = self
            .resting_until
            .map(|until| until.saturating_duration_since(now));
        let is_new = self.rest == REST_FIRST && left.is_none();
        (!is_new).then_some((self.step, self.rest, left.unwrap_or_default()))
    }

    pub fn go_on(&mut self, (step, rest, left): (f64, Duration, Duration), now: Instant) {
        self.step = step.clamp(STEP_MIN, self.step_max);
        self.rest = rest.clamp(REST_FIRST, REST_MAX);
        self.resting_until = (!left.is_zero()).then(|| now + left.min(REST_MAX));
    }

    pub fn is_resting(&self) -> bool {
        self.resting_until.is_some()
    }

    pub fn turn(&mut self, memory_bytes: u64, cost: Cost, now: Instant) -> Turn {
        let part = cost.part();
        if let Some(until) = self.resting_until {
            // Half of what is allowed, lest it goes to and fro.
            if now < until || part >= 0.5 {
                return Turn::Rest;
            }
            self.resting_until = None;
            self.calm_since = now;
        }
        if part >= 1.0 {
            self.back_off(now);
            return Turn::BackOff;
        }
        if memory_bytes < MEMORY_MIN {
            self.hold(now);
            return Turn::Rest;
        }
        if now.duration_since(self.calm_since) >= MINUTE {
            self.calm_since = now;
            self.step = (self.step * 2.0).min(self.step_max);
            self.rest = (self.rest / 2).max(REST_FIRST);
        }
        let bytes = memory_bytes as f64 * self.step * (1.0 - part);
        Turn::Reclaim((bytes as u64).min(STEP_BYTES_MAX))
    }

    /// How much is taken at once where memory is short: from what costs half of what is
    /// allowed at most, and nothing while it rests.
    pub fn room(&self, memory_bytes: u64, cost: Cost) -> u64 {
        if self.is_resting() || cost.part() >= 0.5 || memory_bytes < MEMORY_MIN {
            return 0;
        }
        ((memory_bytes as f64 * ROOM_STEP) as u64).min(STEP_BYTES_MAX)
    }

    /// Nothing is tried: a time in which nothing is done proves nothing.
    pub fn hold(&mut self, now: Instant) {
        self.calm_since = now;
    }

    /// It cost too much, or the kernel found less than was asked for, which costs it
    /// many looks through all pages: what is left is in use.
    pub fn back_off(&mut self, now: Instant) {
        self.resting_until = Some(now + self.rest);
        self.rest = (self.rest * 2).min(REST_MAX);
        self.step = (self.step / 2.0).max(STEP_MIN);
    }
}
