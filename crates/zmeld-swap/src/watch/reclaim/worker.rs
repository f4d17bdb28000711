//! Who looks at processes and swaps out what they do not touch, in a thread of its own:
//! reading `smaps` and `process_madvise` wait as long as somebody holds the map of a
//! process's memory, and any user can have his own held.
//!
//! The watch gives an order, one at a time, and with it all that is noted of the processes
//! of each group; later it asks whether that is done, and never waits for it. An order is
//! void when it is old: of what is carried out after a long wait, nothing is told to the
//! kernel any more.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use zmeld_linux::Host;

use super::advise::Advise;
use super::processes::Processes;
use super::{Round, ANSWER_MAX, ROUND_MAX};
use crate::error::Error;

/// One group's turn.
#[derive(Debug)]
pub(super) struct Task {
    pub group: PathBuf,
    pub processes: Box<Processes>,
    pub wanted: u64,
    pub idle_after: Duration,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Done {
    pub group: PathBuf,
    pub processes: Box<Processes>,
    pub reclaimed_bytes: u64,
    /// Its turn had not come when the order's time was over.
    pub is_left: bool,
}

struct Order {
    tasks: Vec<Task>,
    now: Instant,
    /// Its time is counted from here on, not from when it is taken up.
    began: Instant,
    is_short: bool,
}

/// The thread.
pub(super) struct Worker {
    orders: Sender<Order>,
    done: Receiver<Vec<Done>>,
    /// Which process it stands at.
    at: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    /// Since when it is at an order.
    since: Option<Instant>,
    /// It was said at which process it stands.
    told: Option<u32>,
}

/// What is heard of it.
pub(super) enum Heard {
    /// Nothing new.
    Nothing,
    /// It does not answer, and stands at that process.
    Stands(u32),
    /// It did what it was told to; it had stood at that process before.
    Done(Vec<Done>, Option<u32>),
    /// It ended by itself.
    Ended,
}

impl Worker {
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(host: &Host, advise: Arc<dyn Advise>) -> Result<Worker, Error> {
        let (orders, taken) = channel::<Order>();
        let (give, done) = channel();
        let at = Arc::new(AtomicU32::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let host = host.clone();
        let shared = (Arc::clone(&at), Arc::clone(&stop));
        // It is not waited for when the watch ends: it may stand at a process by then.
        thread::Builder::new()
            .name("reclaim".to_owned())
            .spawn(move || {
                let (at, stop) = shared;
                for order in taken {
                    let done = order.carry_out(&host, &*advise, &at, &stop);
                    at.store(0, Ordering::Relaxed);
                    if give.send(done).is_err() {
                        break;
                    }
                }
            })
            .map_err(|err| Error::CannotReclaim {
                why: format!("no thread can be started: {err}"),
            })?;
        Ok(Worker {
            orders,
            done,
            at,
            stop,
            since: None,
            told: None,
        })
    }

    pub fn is_busy(&self) -> bool {
        self.since.is_some()
    }

    /// The process that it stands at, as it was told.
    pub fn stands_at(&self) -> Option<u32> {
        self.told
    }

    /// Gives an order, where it is at none.
    pub fn give(&mut self, tasks: Vec<Task>, now: Instant, is_short: bool) {
        let order = Order {
            tasks,
            now,
            began: Instant::now(),
            is_short,
        };
        // Where it has ended, that is heard next.
        let _ = self.orders.send(order);
        self.since = Some(now);
    }

    /// What is new.
    pub fn hear(&mut self, now: Instant) -> Heard {
        let Some(since) = self.since else {
            return Heard::Nothing;
        };
        match self.done.try_recv() {
            Ok(done) => {
                self.since = None;
                self.stop.store(false, Ordering::Relaxed);
                Heard::Done(done, self.told.take())
            }
            Err(TryRecvError::Disconnected) => Heard::Ended,
            Err(TryRecvError::Empty) => {
                let pid = self.at.load(Ordering::Relaxed);
                let is_late = now.duration_since(since) >= ANSWER_MAX && pid != 0;
                if !is_late || self.told == Some(pid) {
                    return Heard::Nothing;
                }
                self.told = Some(pid);
                // Nothing more of it is begun, whatever the clock says.
                self.stop.store(true, Ordering::Relaxed);
                Heard::Stands(pid)
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Order {
    fn carry_out(
        self,
        host: &Host,
        advise: &dyn Advise,
        at: &AtomicU32,
        stop: &AtomicBool,
    ) -> Vec<Done> {
        let round = Round {
            now: self.now,
            began: self.began,
            end: self.began + ROUND_MAX,
            stop,
            is_short: self.is_short,
            at: Some(at),
        };
        let tasks = self.tasks.into_iter();
        let done = tasks.map(|task| {
            let mut processes = task.processes;
            let is_left = round.is_over();
            let mut reclaimed_bytes = 0;
            if !is_left {
                processes.look(host, advise, task.wanted, task.idle_after, &round);
                reclaimed_bytes = processes.page_out(host, advise, task.wanted, &round);
            }
            Done {
                group: task.group,
                processes,
                reclaimed_bytes,
                is_left,
            }
        });
        done.collect()
    }
}
