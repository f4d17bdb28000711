//! What threads have of their own while they take batches in turn.

use std::sync::Mutex;

/// Workers' states, taken by whichever thread has a batch.
pub(crate) struct Workers<W> {
    idle: Mutex<Vec<W>>,
}

impl<W> Workers<W> {
    pub fn new() -> Workers<W> {
        Workers {
            idle: Mutex::new(Vec::new()),
        }
    }

    pub fn give(&self, worker: W) {
        self.idle.lock().expect("no panic").push(worker);
    }

    /// Runs `work` with a state that nobody else has.
    pub fn with<E>(
        &self,
        make: impl FnOnce() -> Result<W, E>,
        work: impl FnOnce(&mut W) -> Result<(), E>,
    ) -> Result<(), E> {
        let idle = self.idle.lock().expect("no panic").pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => make()?,
        };
        let result = work(&mut worker);
        self.give(worker);
        result
    }

    /// The states of those that are over.
    pub fn all(&mut self) -> &mut Vec<W> {
        self.idle.get_mut().expect("no panic")
    }

    pub fn into_all(self) -> Vec<W> {
        self.idle.into_inner().expect("no panic")
    }
}
