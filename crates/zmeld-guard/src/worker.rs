//! Work that may wait for others, done by threads of ordinary priority.
//!
//! A thing goes to its thread, is worked on there, and comes back. The sender takes no lock that is
//! held for longer than it takes to move a pointer, waits for nobody, and neither takes memory nor
//! frees any.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::vec::Drain;

use rustix::process::setpriority_process;
use zmeld_linux::command::Invocation;
use zmeld_linux::{Host, HostError};

use crate::error::Error;

/// Above what rtkit gives to any user who asks (20), below the kernel's own threads (50).
const PRIORITY: &str = "40";

pub(crate) struct Worker<T> {
    /// It, while it is here.
    thing: Option<Box<T>>,
    by: By<T>,
}

enum By<T> {
    /// Whoever sends it, at once.
    Sender(Box<dyn FnMut(&mut T) + Send>),
    Thread(Arc<Mutex<Papers<T>>>, Thread),
}

struct Papers<T> {
    to_do: Option<Box<T>>,
    done: Option<Box<T>>,
}

fn locked<T>(papers: &Mutex<Papers<T>>) -> MutexGuard<'_, Papers<T>> {
    papers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Send + 'static> Worker<T> {
    /// Whoever sends the thing works on it, or a thread of that name.
    pub fn new(
        thread_name: Option<&str>,
        thing: T,
        mut work: impl FnMut(&mut T) + Send + 'static,
    ) -> Result<Worker<T>, Error> {
        let thing = Some(Box::new(thing));
        let Some(name) = thread_name else {
            let by = By::Sender(Box::new(work));
            return Ok(Worker { thing, by });
        };
        let papers = Arc::new(Mutex::new(Papers {
            to_do: None,
            done: None,
        }));
        let theirs = Arc::clone(&papers);
        let thread = thread(name, move || {
            let _ = rustix::process::setpriority_process(None, -20);
            loop {
                let to_do = locked(&theirs).to_do.take();
                let Some(mut thing) = to_do else {
                    std::thread::park();
                    continue;
                };
                work(&mut thing);
                locked(&theirs).done = Some(thing);
            }
        })?;
        let by = By::Thread(papers, thread);
        Ok(Worker { thing, by })
    }

    pub fn get(&mut self) -> Option<&mut T> {
        if let (None, By::Thread(papers, _)) = (&self.thing, &self.by) {
            let papers = papers.try_lock();
            self.thing = papers.ok().and_then(|mut papers| papers.done.take());
        }
        self.thing.as_deref_mut()
    }

    /// Has the thing worked on, where it is here; where it cannot be sent, it stays.
    pub fn send(&mut self) {
        match (&mut self.by, &mut self.thing) {
            (By::Sender(work), Some(thing)) => work(thing),
            (By::Thread(papers, thread), Some(_)) => {
                if let Ok(mut papers) = papers.try_lock() {
                    papers.to_do = self.thing.take();
                    thread.unpark();
                }
            }
            (_, None) => {}
        }
    }

    /// Sees what was done, and has it done anew.
    pub fn renew(&mut self, mut see: impl FnMut(&mut T)) {
        if let Some(thing) = self.get() {
            see(thing);
        }
        self.send();
        if let Some(thing) = self.get() {
            see(thing);
        }
    }
}

/// Things that wait for who works on them, as many as there was room made for; more are dropped.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    waiting: Vec<T>,
    worker: Worker<Vec<T>>,
}

impl<T: Send + 'static> Mailbox<T> {
    pub fn new(
        thread_name: Option<&str>,
        room: usize,
        mut work: impl FnMut(Drain<T>) + Send + 'static,
    ) -> Result<Mailbox<T>, Error> {
        let (waiting, sent) = (Vec::with_capacity(room), Vec::with_capacity(room));
        let worker = Worker::new(thread_name, sent, move |sent: &mut Vec<T>| {
            work(sent.drain(..));
        })?;
        Ok(Mailbox { waiting, worker })
    }

    pub fn leave(&mut self, thing: T) {
        if self.waiting.len() < self.waiting.capacity() {
            self.waiting.push(thing);
        }
    }

    pub fn waiting(&self) -> &[T] {
        &self.waiting
    }

    pub fn last_waiting(&mut self) -> Option<&mut T> {
        self.waiting.last_mut()
    }

    pub fn send(&mut self) {
        if let Some(sent) = self.worker.get().filter(|_| !self.waiting.is_empty()) {
            std::mem::swap(sent, &mut self.waiting);
            self.worker.send();
        }
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

/// A thread that goes on as long as this process does.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Thread, Error> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.stack_size(512 << 10).spawn(work);
    match thread {
        Ok(handle) => Ok(handle.thread().clone()),
        Err(err) => Err(Error::CannotGuard {
            why: format!("no thread can be started: {err}"),
        }),
    }
}

/// This thread runs before all that run away, or where it may not, more than its turn.
pub(crate) fn hurry(host: &Host) -> Result<(), HostError> {
    let _ = setpriority_process(None, -20);
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let first = Invocation::new("chrt").args(["-R", "-f", "-p", PRIORITY, &thread.to_string()]);
    host.run(&first).map(|_| ())
}

#[test]
fn a_mailbox_takes_what_there_is_room_for() {
    let mut mailbox = Mailbox::new(None, 2, |_: Drain<u64>| ()).unwrap();
    (0..3).for_each(|it| mailbox.leave(it));
    assert_eq!(mailbox.waiting(), [0, 1]);
}
