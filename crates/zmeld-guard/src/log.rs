//! What the guard says, told by a thread of ordinary priority: whoever reads it may have
//! stopped, and a write to a full pipe waits for him.

use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::sentry::{thread, GuardEvent};
use super::Error;

/// So much waits to be told; what is more is dropped, and counted.
const WAITING_MAX: usize = 256;
/// What is left at the end is told for so long at most.
const END_MAX: Duration = Duration::from_secs(1);

/// The thread that tells.
#[derive(Debug)]
pub(super) struct Log(Option<JoinHandle<()>>);

/// Where the guard leaves what it says.
pub(super) struct Lines {
    waiting: SyncSender<GuardEvent>,
    dropped: u64,
}

impl Log {
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(say: impl FnMut(GuardEvent) + Send + 'static) -> Result<(Log, Lines), Error> {
        let (waiting, told) = sync_channel(WAITING_MAX);
        let thread = thread("guard-log", move || tell(&told, say))?;
        let lines = Lines {
            waiting,
            dropped: 0,
        };
        Ok((Log(Some(thread)), lines))
    }

    /// Waits for what is left to be told, once nobody leaves more; not for long.
    pub fn end(&mut self) {
        let Some(thread) = self.0.take() else {
            return;
        };
        let begin = Instant::now();
        while !thread.is_finished() && begin.elapsed() < END_MAX {
            std::thread::sleep(Duration::from_millis(5));
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

fn tell(told: &Receiver<GuardEvent>, mut say: impl FnMut(GuardEvent)) {
    while let Ok(event) = told.recv() {
        say(event);
    }
}

impl Lines {
    /// Leaves it to be told; never waits.
    pub fn say(&mut self, event: GuardEvent) {
        if self.dropped > 0 {
            let text = format!(
                "{} lines were not told, since nobody took them",
                self.dropped
            );
            if self.waiting.try_send(GuardEvent::Said(text)).is_err() {
                self.dropped += 1;
                return;
            }
            self.dropped = 0;
        }
        if self.waiting.try_send(event).is_err() {
            self.dropped += 1;
        }
    }
}
