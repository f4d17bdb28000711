//! A round of reclaim.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::watch::action::Listener;
use zmeld_linux::Host;

/// A round takes no longer, for whatever else the watch has to do.
pub(super) const ROUND_MAX: Duration = Duration::from_secs(2);

/// A round's machine, time limits and listener.
pub(super) struct Round<'a> {
    pub host: &'a Host,
    /// When it began, for those who look back.
    pub now: Instant,
    /// Nothing more is begun then.
    pub end: Instant,
    /// Memory is short: more is taken at once.
    pub is_pressed: bool,
    pub stop: &'a AtomicBool,
    listener: &'a mut Listener<'a>,
}

impl<'a> Round<'a> {
    pub fn new(
        host: &'a Host,
        now: Instant,
        stop: &'a AtomicBool,
        listener: &'a mut Listener<'a>,
    ) -> Round<'a> {
        Round {
            host,
            now,
            end: host.now() + ROUND_MAX,
            is_pressed: false,
            stop,
            listener,
        }
    }

    pub fn say(&mut self, text: impl Into<String>) {
        (self.listener)(text.into());
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// It has taken its time, or the watch is to end.
    pub fn is_over(&self) -> bool {
        self.is_stopped() || self.host.now() >= self.end
    }
}
