//! One action on one device: what is written to which attribute, and what came of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::watch::error::Error;
use rustix::io::Errno;
use zmeld_config::Span;
use zmeld_linux::{Host, HostError};

/// An action takes so long in one go: the kernel holds the device's lock through a request,
/// and somebody may wait for it, or for the watch.
const TURN: Duration = Duration::from_secs(1);
/// A request to the kernel takes about so long,
const PIECE: Duration = Duration::from_millis(250);
/// and is so many pages of 4 KiB at first.
const PIECE_FIRST: u64 = 4096;

/// Somebody who is told, a line at a time.
pub type Listener<'a> = dyn FnMut(String) + 'a;

pub(super) struct Pieces<'a> {
    host: &'a Host,
    stop: &'a AtomicBool,
    end: Instant,
    began: Instant,
    pages: u64,
    /// Pages asked for so far, and at most.
    pub asked: u64,
    most: u64,
}

impl<'a> Pieces<'a> {
    pub fn new(host: &'a Host, most: u64, stop: &'a AtomicBool) -> Pieces<'a> {
        let now = host.now();
        Pieces {
            host,
            stop,
            end: now + TURN,
            began: now,
            pages: PIECE_FIRST,
            asked: 0,
            most,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.began = self.host.now();
        let pages = self.pages.min(self.most - self.asked);
        self.asked += pages;
        pages
    }

    /// The last piece was done: whether it is another one's turn now.
    pub fn is_over(&mut self) -> bool {
        let now = self.host.now();
        let times = PIECE.as_secs_f64() / (now - self.began).as_secs_f64();
        self.pages = (self.pages as f64 * times.min(4.0)) as u64;
        self.stop.load(Ordering::Relaxed) || now >= self.end
    }

    pub fn is_all(&self) -> bool {
        self.asked >= self.most
    }
}

/// Carries an action out on the device of that name.
pub(super) type Act = Box<dyn Fn(&Host, &str, &AtomicBool) -> Result<ActionResult, Error>>;

/// Something to do on a device, and why.
pub(super) struct Action {
    pub device: String,
    /// The turn's name: a rule's, or that of an action beside the rules.
    pub turn: &'static str,
    pub reason: String,
    /// Pages of this age are marked idle before, where the kernel can tell ages.
    pub mark: Option<Span>,
    pub what: String,
    pub act: Act,
}

pub(super) enum ActionResult {
    Done(String),
    /// Done in part, to go on later; so many pages were asked for.
    Stopped(String, u64),
    /// Idle pages were asked for by age, and the kernel knows no ages.
    NoAges,
}

pub(super) fn path(device: &str, attribute: &str) -> String {
    format!("/sys/block/{device}/{attribute}")
}

pub(super) fn stat<T>(
    host: &Host,
    device: &str,
    name: &str,
    parse: fn(&str) -> Option<T>,
) -> Result<T, Error> {
    let path = path(device, name);
    parse(&host.read(&path)?)
        .ok_or_else(|| HostError::malformed(&path, "does not have the kernel's columns").into())
}

impl Action {
    pub fn perform(&self, host: &Host, stop: &AtomicBool) -> Result<ActionResult, Error> {
        if let Some(age) = self.mark {
            match host.write(path(&self.device, "idle"), &age.seconds.to_string()) {
                Err(err) if err.is(Errno::INVAL) => return Ok(ActionResult::NoAges),
                marked => marked?,
            }
        }
        (self.act)(host, &self.device, stop)
    }
}

/// The kernel counts writeback in units of 4 KiB.
pub(super) const UNIT: u64 = 4096;
