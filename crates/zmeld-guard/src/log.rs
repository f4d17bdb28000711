//! What the guard says, told and noted by threads of ordinary priority: whoever reads it may
//! have stopped, and a write to a full pipe waits for him.

use std::sync::mpsc::{sync_channel, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::Host;

use crate::event::{Event, GuardEvent};
use crate::note::Recorder;
use crate::sentry::{thread, Shared};
use crate::Error;

/// So much waits to be told; what is more is dropped, and counted.
const WAITING_MAX: usize = 256;
/// The note is looked after so often.
const TICK: Duration = Duration::from_secs(1);

/// Where events are left to be told; it never waits.
pub(crate) struct Outbox {
    told: SyncSender<GuardEvent>,
    noted: SyncSender<GuardEvent>,
    dropped: u64,
}

impl Outbox {
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        host: Host,
        shared: Arc<Shared>,
        is_noted: bool,
        mut say: impl FnMut(GuardEvent) + Send + 'static,
    ) -> Result<Outbox, Error> {
        let (told, lines) = sync_channel::<GuardEvent>(WAITING_MAX);
        let (noted, events) = sync_channel::<GuardEvent>(WAITING_MAX);
        thread("guard-log", move || lines.iter().for_each(&mut say))?;
        let mut recorder = Recorder::new(host, is_noted);
        thread("guard-note", move || {
            record(&events, &mut recorder, &shared)
        })?;
        Ok(Outbox {
            told,
            noted,
            dropped: 0,
        })
    }

    pub fn say(&mut self, event: GuardEvent) {
        // Where the recorder stands still, it misses some.
        let _ = self.noted.try_send(event.clone());
        if self.dropped > 0 {
            let told = GuardEvent(Event::Dropped(self.dropped));
            if self.told.try_send(told).is_err() {
                self.dropped += 1;
                return;
            }
            self.dropped = 0;
        }
        if self.told.try_send(event).is_err() {
            self.dropped += 1;
        }
    }
}

fn record(events: &Receiver<GuardEvent>, recorder: &mut Recorder, shared: &Shared) {
    loop {
        match events.recv_timeout(TICK) {
            Ok(event) => recorder.take(&event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        recorder.keep(Instant::now(), shared);
    }
}
