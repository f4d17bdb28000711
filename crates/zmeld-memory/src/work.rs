//! A queue of work that makes more work, shared by the workers of one visit.
//!
//! Invariants: the queue is finished when it is empty and no worker holds an
//! item; a worker that panics wakes the others, so that the panic surfaces
//! instead of hanging the visit. Last in, first out: a process's mappings are
//! done before the next process is opened, which bounds memory and open files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
    items: Vec<T>,
    busy: usize,
    abandoned: bool,
}

impl<T: Send> Queue<T> {
    pub(crate) fn new(items: Vec<T>) -> Self {
        Queue {
            state: Mutex::new(QueueState {
                items,
                busy: 0,
                abandoned: false,
            }),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn push(&self, item: T) {
        self.lock().items.push(item);
        self.changed.notify_one();
    }

    pub(crate) fn extend(&self, items: impl IntoIterator<Item = T>) {
        self.lock().items.extend(items);
        self.changed.notify_all();
    }

    /// Runs `threads` workers until the queue is finished or `stop` is set.
    /// Each has a state of its own from `start`; the states are returned.
    pub(crate) fn run<W: Send>(
        &self,
        threads: usize,
        stop: &AtomicBool,
        start: impl Fn() -> W + Sync,
        work: impl Fn(&mut W, T) + Sync,
    ) -> Vec<W> {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.max(1))
                .map(|_| {
                    scope.spawn(|| {
                        let mut state = start();
                        while let Some(taken) = self.take(stop) {
                            let TakenItem { item, release } = taken;
                            work(&mut state, item);
                            drop(release);
                        }
                        state
                    })
                })
                .collect();
            workers
                .into_iter()
                .map(|worker| {
                    worker
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        })
    }

    fn take(&self, stop: &AtomicBool) -> Option<TakenItem<'_, T>> {
        let mut state = self.lock();
        loop {
            if state.abandoned || stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(item) = state.items.pop() {
                state.busy += 1;
                return Some(TakenItem {
                    item,
                    release: ItemGuard { queue: self },
                });
            }
            if state.busy == 0 {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TakenItem<'a, T: Send> {
    item: T,
    release: ItemGuard<'a, T>,
}

struct ItemGuard<'a, T: Send> {
    queue: &'a Queue<T>,
}

impl<T: Send> Drop for ItemGuard<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.busy -= 1;
        if std::thread::panicking() {
            state.abandoned = true;
        }
        drop(state);
        self.queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_surfaces_instead_of_hanging() {
        let queue = Queue::new(vec![1, 2, 3]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.run(
                2,
                &AtomicBool::new(false),
                || (),
                |(), item| assert_ne!(item, 2, "on purpose"),
            );
        }));
        assert!(result.is_err());
    }
}
