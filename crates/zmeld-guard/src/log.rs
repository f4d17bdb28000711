//! What the guard says, told and noted by threads of ordinary priority: whoever reads it may
//! have stopped, and a write to a full pipe waits for him.

use zmeld_linux::Host;

use crate::event::Event;
use crate::guard_loop::Seen;
use crate::note::Recorder;
use crate::worker::Worker;
use crate::Error;

/// So much waits to be told; what is more is dropped.
const WAITING_MAX: usize = 256;

/// Events that wait, and who tells them.
#[derive(Debug)]
struct Teller {
    waiting: Vec<Event>,
    worker: Worker<(Seen, Vec<Event>)>,
}

impl Teller {
    fn new(
        thread_name: Option<&str>,
        seen: Seen,
        mut tell: impl FnMut(&Seen, &mut Vec<Event>) + Send + 'static,
    ) -> Result<Teller, Error> {
        let sent = (seen, Vec::with_capacity(WAITING_MAX));
        Ok(Teller {
            waiting: Vec::with_capacity(WAITING_MAX),
            worker: Worker::new(thread_name, sent, move |(seen, events)| tell(seen, events))?,
        })
    }

    fn leave(&mut self, event: Event) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(event);
        }
    }

    fn send(&mut self, seen: Seen) {
        if let Some((last, events)) = self.worker.get() {
            *last = seen;
            // Those that were told are none any more.
            if events.is_empty() {
                std::mem::swap(events, &mut self.waiting);
            }
            self.worker.send();
        }
    }
}

/// Where events are left to be told; it never waits.
#[derive(Debug)]
pub(crate) struct Outbox {
    log: Teller,
    note: Teller,
}

impl Outbox {
    pub fn new(
        host: &Host,
        seen: Seen,
        is_noted: bool,
        by_threads: bool,
        mut say: impl FnMut(String) + Send + 'static,
    ) -> Result<Outbox, Error> {
        let name = |name| by_threads.then_some(name);
        let mut recorder = Recorder::new(host.clone(), is_noted);
        let log = move |_: &Seen, events: &mut Vec<Event>| {
            events.drain(..).for_each(|event| say(event.to_string()));
        };
        let note = move |seen: &Seen, events: &mut Vec<Event>| {
            events.drain(..).for_each(|event| recorder.take(&event));
            recorder.keep(seen);
        };
        Ok(Outbox {
            log: Teller::new(name("guard-log"), seen, log)?,
            note: Teller::new(name("guard-note"), seen, note)?,
        })
    }

    pub fn say(&mut self, event: Event) {
        // Where the recorder or the log stands still, it misses some.
        if !matches!(event, Event::Chosen(_, false)) {
            self.log.leave(event.clone());
        }
        self.note.leave(event);
    }

    /// Once a look.
    pub fn send(&mut self, seen: Seen) {
        self.log.send(seen);
        self.note.send(seen);
    }
}
