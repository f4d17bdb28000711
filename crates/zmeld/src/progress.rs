//! The line on standard error while something takes longer than two seconds, and
//! Ctrl-C: the first asks to stop and print what is there, the second ends at once.

use std::io::{stderr, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use zmeld_report::text::{inert, shorten};
use zmeld_report::units::{bytes, bytes_real, seconds};
use zmeld_scan::ScanProgress;

use crate::output;

/// Nothing is shown before.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// What is measured for less says nothing about the rest.
const PACE_AFTER: Duration = Duration::from_secs(1);
/// The line of a terminal is drawn anew this often.
const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// Where standard error is no terminal, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The flag that Ctrl-C sets, once for the whole program.
pub fn interrupt_flag() -> &'static AtomicBool {
    flag_saying(Some("stopping; Ctrl-C again ends at once"))
}

/// The same, without a word on the terminal, which shows something else.
pub fn silent_interrupt_flag() -> &'static AtomicBool {
    flag_saying(None)
}

/// For what has nothing to show before its end: Ctrl-C says so and ends at once.
pub fn end_on_interrupt(word: &'static str) {
    let _ = ctrlc::set_handler(move || {
        output::start_line();
        output::say(word);
        std::process::exit(130);
    });
}

fn flag_saying(word: Option<&'static str>) -> &'static AtomicBool {
    static STOP: AtomicBool = AtomicBool::new(false);
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        // If it cannot be installed, Ctrl-C ends the program at once, as ever.
        let _ = ctrlc::set_handler(move || {
            let again = STOP.swap(true, Ordering::SeqCst);
            match word {
                Some(_) if again => std::process::exit(130),
                Some(word) => {
                    output::start_line();
                    output::say(word);
                }
                None => {}
            }
        });
    });
    &STOP
}

/// Runs `work` while the progress it reports is shown.
pub fn show<T: Send>(
    names: &[&str],
    progress: &ScanProgress,
    page_size: u64,
    work: impl FnOnce() -> T + Send,
) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let result = work();
            over.store(true, Ordering::SeqCst);
            result
        });
        let mut line = Amount::default();
        while !worker.is_finished() && !over.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(50));
            let at = (progress.phase().max(1) - 1) as usize;
            let expected = progress.expected().map(|pages| pages * page_size);
            line.draw(
                names[at.min(names.len() - 1)],
                progress.done() * page_size,
                expected,
            );
        }
        line.message.clear();
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A line of text that says what goes on: on a terminal one that is written over, in a log
/// one now and then.
pub struct Message {
    begin: Instant,
    quiet_for: Duration,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    said: Option<Instant>,
    is_on_screen: bool,
}

impl Message {
    /// Nothing yet.
    pub fn new() -> Message {
        Message {
            begin: Instant::now(),
            quiet_for: Duration::ZERO,
            shown: Mutex::default(),
        }
    }

    /// For what is mostly over before anybody wonders.
    pub fn of_long_work() -> Message {
        let mut message = Message::new();
        message.quiet_for = QUIET_FOR;
        message.shown().said = Some(message.begin);
        message
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time for a word, for those to whom finding one is a cost.
    pub fn is_due(&self) -> bool {
        let every = match stderr().is_terminal() {
            true => DRAWN_EVERY,
            false => LINE_EVERY,
        };
        let said = self.shown().said;
        self.begin.elapsed() >= self.quiet_for && said.is_none_or(|at| at.elapsed() >= every)
    }

    /// What goes on now.
    pub fn set(&self, text: &str) {
        if !self.is_due() {
            return;
        }
        let mut shown = self.shown();
        shown.said = Some(Instant::now());
        match stderr().is_terminal() {
            true => {
                let size = terminal_size::terminal_size_of(stderr());
                let columns = size.map_or(80, |(width, _)| usize::from(width.0));
                output::draw_line(&shorten(&inert(text), columns.saturating_sub(1)));
                shown.is_on_screen = true;
            }
            false => output::say(text),
        }
    }

    /// Something that stays on the screen.
    pub fn say(&self, text: &str) {
        self.clear();
        output::say(text);
    }

    /// Nothing goes on any more.
    pub fn clear(&self) {
        let mut shown = self.shown();
        if std::mem::take(&mut shown.is_on_screen) {
            output::draw_line("");
        }
        if stderr().is_terminal() {
            // The next word is not waited for.
            shown.said = None;
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A progress line for bytes that somebody counts.
pub struct Amount {
    message: Message,
    name: String,
    done: u64,
    begin: Instant,
}

impl Default for Amount {
    fn default() -> Amount {
        Amount {
            message: Message::of_long_work(),
            name: String::new(),
            done: 0,
            begin: Instant::now(),
        }
    }
}

impl Amount {
    /// So much is done of what has that name. A smaller amount than before is something new.
    pub fn draw(&mut self, name: &str, done: u64, expected: Option<u64>) {
        if self.name != name || done < self.done {
            self.begin = Instant::now();
            name.clone_into(&mut self.name);
        }
        self.done = done;
        if self.message.is_due() {
            let far = far(done, expected, self.begin.elapsed());
            self.message.set(&format!("{name}: {far}"));
        }
    }

    /// Takes the line away.
    pub fn clear(&self) {
        self.message.clear();
    }
}

/// How far it is in bytes, how fast, and how long it takes still, as far as that can be told:
/// after a while, and of what has begun.
fn far(done: u64, expected: Option<u64>, elapsed: Duration) -> String {
    // An estimate may be passed; then only what is done is shown.
    let expected = expected.filter(|&expected| expected >= done);
    let of = expected.map(|expected| format!(" of {}", bytes(expected)));
    let so_far = format!("{}{}", bytes(done), of.unwrap_or_default());
    if elapsed < PACE_AFTER || done == 0 {
        return so_far;
    }
    let rate = done as f64 / elapsed.as_secs_f64();
    // Of less than a fiftieth, the rest is a guess.
    let known = expected.filter(|&expected| expected > done && done >= expected / 50);
    let left = known.map(|expected| {
        let left_s = ((expected - done) as f64 / rate).ceil();
        format!(", {} left", seconds(left_s))
    });
    format!(
        "{so_far}, {}/s{}",
        bytes_real(rate),
        left.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_when_it_can_be() {
        let far = |done: u64, milliseconds| {
            far(
                done << 12,
                Some(1000 << 12),
                Duration::from_millis(milliseconds),
            )
        };
        assert_eq!(far(0, 60_000), "0 B of 3.91 MiB");
        // One in a hundred: only the speed.
        assert_eq!(far(10, 10_000), "40.0 KiB of 3.91 MiB, 4.00 KiB/s");
        assert_eq!(far(250, 900), "1000 KiB of 3.91 MiB");
        assert_eq!(
            far(250, 10_000),
            "1000 KiB of 3.91 MiB, 100 KiB/s, 30.0 s left"
        );
        // An estimate that was passed says nothing of the time.
        assert_eq!(far(1250, 10_000), "4.88 MiB, 500 KiB/s");
    }
}
