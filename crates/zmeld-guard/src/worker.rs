//! Work that may wait for others, done by threads of ordinary priority.
//!
//! A thing goes to its thread, is worked on there, and comes back. Who sends it takes no lock
//! that is held for longer than it takes to move a pointer, waits for nobody, and neither
//! takes memory nor frees any.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};

use crate::Error;

/// Somebody who works on a thing.
pub(crate) struct Worker<T> {
    /// It, while it is here.
    thing: Option<Box<T>>,
    by: By<T>,
}

enum By<T> {
    /// Whoever sends it, at once.
    Sender(Box<dyn FnMut(&mut T) + Send>),
    Thread(Arc<Desk<T>>, Thread),
}

struct Desk<T> {
    stop: AtomicBool,
    papers: Mutex<Papers<T>>,
}

struct Papers<T> {
    to_do: Option<Box<T>>,
    done: Option<Box<T>>,
}

impl<T> Desk<T> {
    fn papers(&self) -> MutexGuard<'_, Papers<T>> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let desk = Arc::new(Desk {
            stop: AtomicBool::new(false),
            papers: Mutex::new(Papers {
                to_do: None,
                done: None,
            }),
        });
        let theirs = Arc::clone(&desk);
        let thread = thread(name, move || {
            let _ = rustix::process::setpriority_process(None, -20);
            while !theirs.stop.load(Ordering::Relaxed) {
                let to_do = theirs.papers().to_do.take();
                let Some(mut thing) = to_do else {
                    std::thread::park();
                    continue;
                };
                work(&mut thing);
                theirs.papers().done = Some(thing);
            }
        })?;
        let by = By::Thread(desk, thread.thread().clone());
        Ok(Worker { thing, by })
    }

    /// The thing, where it is here.
    pub fn get(&mut self) -> Option<&mut T> {
        if let (None, By::Thread(desk, _)) = (&self.thing, &self.by) {
            let papers = desk.papers.try_lock();
            self.thing = papers.ok().and_then(|mut papers| papers.done.take());
        }
        self.thing.as_deref_mut()
    }

    /// Has the thing worked on, where it is here; where it cannot be sent, it stays.
    pub fn send(&mut self) {
        match (&mut self.by, &mut self.thing) {
            (By::Sender(work), Some(thing)) => work(thing),
            (By::Thread(desk, thread), Some(_)) => {
                if let Ok(mut papers) = desk.papers.try_lock() {
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

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        if let By::Thread(desk, thread) = &self.by {
            // It may sleep in the kernel: it is not waited for.
            desk.stop.store(true, Ordering::Relaxed);
            thread.unpark();
        }
    }
}

impl<T> fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

pub(crate) fn thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Error> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    let thread = thread.stack_size(512 << 10).spawn(work);
    thread.map_err(|err| Error::CannotGuard {
        why: format!("no thread can be started: {err}"),
    })
}
