//! Work that makes more work, shared by the workers of one visit.
//!
//! A worker does what it made itself first, the last of it before the rest: a process's
//! mappings are done before the next process is opened, which bounds memory and open files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::{Scope, ThreadPoolBuilder};

struct Workers<'a, W, F> {
    states: Vec<Mutex<W>>,
    stop: &'a AtomicBool,
    work: F,
}

impl<W: Send, F> Workers<'_, W, F> {
    fn add<'s, T>(&'s self, scope: &Scope<'s>, item: T)
    where
        T: Send + 's,
        F: Fn(&mut W, T, &dyn Fn(T)) + Sync,
    {
        scope.spawn(move |scope| {
            // After a panic nothing else begins.
            let is_over = self.states.iter().any(Mutex::is_poisoned);
            if is_over || self.stop.load(Ordering::Relaxed) {
                return;
            }
            let number = rayon::current_thread_index().expect("a worker of the pool");
            let state = self.states[number].lock();
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            (self.work)(&mut state, item, &|more| self.add(scope, more));
        });
    }
}

/// Runs `threads` workers until nothing is left to do or `stop` is set. Each has a state of
/// its own from `start`; the states are returned. `work` is also told where more work goes.
pub(crate) fn run<T: Send, W: Send>(
    threads: usize,
    stop: &AtomicBool,
    items: impl IntoIterator<Item = T> + Send,
    start: impl Fn() -> W,
    work: impl Fn(&mut W, T, &dyn Fn(T)) + Sync + Send,
) -> Vec<W> {
    let threads = threads.max(1);
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let workers = Workers {
        states: (0..threads).map(|_| Mutex::new(start())).collect(),
        stop,
        work,
    };
    pool.expect("threads can be started").scope(|scope| {
        for item in items {
            workers.add(scope, item);
        }
    });
    let states = workers.states.into_iter();
    let states = states.map(|it| it.into_inner().unwrap_or_else(PoisonError::into_inner));
    states.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_surfaces_instead_of_hanging() {
        let result = std::panic::catch_unwind(|| {
            let work = |(): &mut (), item: u32, _: &dyn Fn(u32)| assert_ne!(item, 2, "on purpose");
            run(2, &AtomicBool::new(false), [1, 2, 3], || (), work);
        });
        assert!(result.is_err());
    }
}
