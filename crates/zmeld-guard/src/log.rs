//! What the guard says, told and noted by threads of ordinary priority: whoever reads it may
//! have stopped, and a write to a full pipe waits for him.

use zmeld_linux::Host;

use crate::event::GuardEvent;
use crate::guard_loop::Seen;
use crate::note::Recorder;
use crate::worker::Worker;
use crate::Error;

/// So much waits to be told; what is more is dropped.
const WAITING_MAX: usize = 256;

/// Events that wait, and who tells them.
#[derive(Debug)]
struct Teller {
    waiting: Vec<GuardEvent>,
    worker: Worker<(Seen, Vec<GuardEvent>)>,
}

impl Teller {
    fn new(
        thread_name: Option<&str>,
        seen: Seen,
        mut tell: impl FnMut(&Seen, &mut Vec<GuardEvent>) + Send + 'static,
    ) -> Result<Teller, Error> {
        let sent = (seen, Vec::with_capacity(WAITING_MAX));
        Ok(Teller {
            waiting: Vec::with_capacity(WAITING_MAX),
            worker: Worker::new(thread_name, sent, move |(seen, events)| tell(seen, events))?,
        })
    }

    /// Whether there is room for one more.
    fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
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
        mut say: impl FnMut(GuardEvent) + Send + 'static,
    ) -> Result<Outbox, Error> {
        let name = |name| by_threads.then_some(name);
        let mut recorder = Recorder::new(host.clone(), is_noted);
        let log = move |_: &Seen, events: &mut Vec<GuardEvent>| events.drain(..).for_each(&mut say);
        let note = move |seen: &Seen, events: &mut Vec<GuardEvent>| {
            events.drain(..).for_each(|event| recorder.take(&event));
            recorder.keep(seen);
        };
        Ok(Outbox {
            log: Teller::new(name("guard-log"), seen, log)?,
            note: Teller::new(name("guard-note"), seen, note)?,
        })
    }

    pub fn say(&mut self, event: GuardEvent) {
        // Where the recorder or the log stands still, it misses some.
        if self.log.has_room() && !event.is_noted_only() {
            self.log.waiting.push(event.clone());
        }
        if self.note.has_room() {
            self.note.waiting.push(event);
        }
    }

    /// Once a look.
    pub fn send(&mut self, seen: Seen) {
        self.log.send(seen);
        self.note.send(seen);
    }
}
