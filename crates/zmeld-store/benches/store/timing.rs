//! Time that a thread spent computing, and sides that take turns.
//!
//! Sides are compared chunk by chunk, each chunk by all sides one after the
//! other, in an order that rotates: what disturbs the machine for a moment then
//! disturbs all of them. The clock is the thread's own, so that time in which
//! another program had the processor does not count; where threads are what is
//! measured, the clock is the wall's, and the tables say so.

use std::ops::Range;
use std::time::Duration;

use nix::time::{clock_gettime, ClockId};

/// Pages that one side works on before it is the next one's turn: 1 MiB.
const CHUNK: usize = 256;

/// How long this thread has been computing.
pub fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every Linux has this clock");
    Duration::from(now)
}

/// Nanoseconds of this thread that `work` takes, and its result.
pub fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let started = thread_time();
    let result = work();
    ((thread_time() - started).as_nanos() as f64, result)
}

/// One of the things that are compared: works on the pages of a range.
pub type Side<'a> = Box<dyn FnMut(Range<usize>) + 'a>;

/// Lets all sides work on `pages` pages in turns; nanoseconds of each.
pub fn in_turns(sides: &mut [Side], pages: usize, round: usize) -> Vec<f64> {
    let mut spent = vec![0.0; sides.len()];
    for (chunk, start) in (0..pages).step_by(CHUNK).enumerate() {
        let range = start..(start + CHUNK).min(pages);
        for turn in 0..sides.len() {
            let at = (turn + chunk + round) % sides.len();
            spent[at] += timed(|| sides[at](range.clone())).0;
        }
    }
    spent
}
