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
use super::budget::Budget;
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
                let mut budget = Budget::default();
                for order in taken {
                    let done = order.carry_out(&host, &*advise, &at, &stop, &mut budget);
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
        budget: &mut Budget,
    ) -> Vec<Done> {
        let round = Round {
            now: self.now,
            began: self.began,
            end: self.began + ROUND_MAX,
            stop,
            is_short: self.is_short,
            at: Some(at),
        };
        let mut tasks = self.tasks;
        // What looks may take is for all groups; who waited longest is the first.
        let mut looks: Vec<&mut Task> = tasks.iter_mut().collect();
        looks.sort_by_key(|task| task.processes.looked());
        for task in looks {
            if round.is_over() {
                break;
            }
            let (wanted, idle_after) = (task.wanted, task.idle_after);
            let processes = &mut task.processes;
            processes.look(host, advise, wanted, idle_after, &round, budget);
        }
        let done = tasks.into_iter().map(|task| {
            let mut processes = task.processes;
            let is_left = round.is_over();
            let mut reclaimed_bytes = 0;
            if !is_left {
                reclaimed_bytes = processes.page_out(host, advise, task.wanted, &round, budget);
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs::{self, File};
    use std::io;
    use std::ops::Range;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::path::Path;
    use std::sync::Mutex;

    use super::super::parts::Room;
    use super::super::processes::{Of, Whose};
    use super::*;

    /// Notes who is looked at, which takes 20 ms at least.
    #[derive(Default)]
    struct Noted(Mutex<Vec<u32>>);

    impl Advise for Noted {
        fn hold(&self, pid: u32) -> io::Result<OwnedFd> {
            self.0.lock().unwrap().push(pid);
            thread::sleep(Duration::from_millis(20));
            Ok(File::open("/dev/null")?.into())
        }

        fn forget(
            &self,
            _: BorrowedFd,
            ranges: &[Range<u64>],
            _: Instant,
        ) -> io::Result<Vec<Range<u64>>> {
            Ok(ranges.to_vec())
        }

        fn page_out(&self, _: BorrowedFd, _: Range<u64>) -> io::Result<()> {
            Ok(())
        }
    }

    fn process(root: &Path, pid: u32) {
        let folder = root.join(format!("proc/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        let put = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        put("stat", &format!("{pid} (it) S {}", "1 ".repeat(30)));
        put("status", "RssAnon: 65536 kB\nVmSwap: 0 kB\n");
        put(
            "smaps",
            "10000000-14000000 rw-p 00000000 00:00 0\nRss: 65536 kB\n",
        );
    }

    #[test]
    fn all_groups_have_one_budget_of_looks_and_each_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let room = Room::new(1 << 20);
        let pids: Vec<u32> = (101..=110).collect();
        let mut groups: Vec<Box<Processes>> = Vec::new();
        for pid in &pids {
            process(dir.path(), *pid);
            // Each of them without those of the others.
            let others = pids.iter().filter(|other| *other != pid);
            let whose = Whose {
                of: Of::Root(
                    None,
                    others.map(|it| (*it, "another")).collect::<HashMap<_, _>>(),
                ),
                protect: Vec::new(),
            };
            let mut processes = Processes::new(&host, whose.clone(), &room);
            let stop = AtomicBool::new(false);
            processes.choose(&host, whose, &stop).unwrap();
            groups.push(Box::new(processes));
        }
        let noted = Noted::default();
        let mut budget = Budget::default();
        let begin = Instant::now();
        for round in 0..1000 {
            let task = |processes| Task {
                group: PathBuf::new(),
                processes,
                wanted: 1 << 20,
                idle_after: Duration::from_secs(1),
            };
            let order = Order {
                tasks: groups.into_iter().map(task).collect(),
                now: begin + Duration::from_secs(5 * round),
                began: Instant::now(),
                is_short: false,
            };
            let (at, stop) = (AtomicU32::new(0), AtomicBool::new(false));
            let done = order.carry_out(&host, &noted, &at, &stop, &mut budget);
            groups = done.into_iter().map(|it| it.processes).collect();
            let noted = noted.0.lock().unwrap();
            // A hundredth of 5 s, and the look that goes beyond.
            assert!(round > 0 || (1..=3).contains(&noted.len()), "{noted:?}");
            if noted.len() >= pids.len() {
                break;
            }
        }
        let mut first: Vec<u32> = noted.0.lock().unwrap()[..pids.len()].to_vec();
        first.sort_unstable();
        assert_eq!(first, pids, "nobody had a second turn before all had one");
    }
}
