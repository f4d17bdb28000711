//! The line on standard error while something takes longer than two seconds, and
//! Ctrl-C: the first asks to stop and print what is there, the second ends at once.

use std::io::{stderr, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use zmeld_report::text::{inert, shorten};
use zmeld_report::units::{bytes, seconds};
use zmeld_scan::ScanProgress;

use crate::output;

/// Nothing is shown before.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// A signal to all processes of a group or unit comes a second time, from the one that began this.
const ONE_SIGNAL: Duration = Duration::from_secs(1);
/// The line of a terminal is drawn anew this often.
const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// Work in another thread is looked at this often.
const LOOKED_EVERY: Duration = Duration::from_millis(50);
/// A line this often, if standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// With `--quiet` no message is ever due.
pub fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

pub fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// The flag that Ctrl-C sets, once for the whole program.
pub fn interrupt_flag() -> &'static AtomicBool {
    flag_saying(Some("stopping; Ctrl-C again ends at once"))
}

/// [`interrupt_flag`], without a word on the terminal, which shows something else.
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
        let first = OnceLock::<Instant>::new();
        // If it cannot be installed, Ctrl-C ends the program at once, as ever.
        let _ = ctrlc::set_handler(move || {
            let since = first.get_or_init(Instant::now).elapsed();
            match (word, STOP.swap(true, Ordering::SeqCst)) {
                (Some(word), false) => {
                    output::start_line();
                    output::say(word);
                }
                (Some(_), true) if since >= ONE_SIGNAL => std::process::exit(130),
                _ => {}
            }
        });
    });
    &STOP
}

/// Does `work` in a thread of its own, and `meanwhile` again and again until that is done.
pub fn beside<T: Send>(work: impl FnOnce() -> T + Send, mut meanwhile: impl FnMut()) -> T {
    std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        while !worker.is_finished() {
            std::thread::park_timeout(LOOKED_EVERY);
            meanwhile();
        }
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Runs `work` while the progress it reports is shown.
pub fn show<T: Send>(
    names: &[&str],
    progress: &ScanProgress,
    page_size: u64,
    work: impl FnOnce() -> T + Send,
) -> T {
    let line = Message::of_long_work();
    beside(work, || {
        let at = (progress.phase().max(1) - 1) as usize;
        let expected = progress.expected().map(|pages| pages * page_size);
        let name = names[at.min(names.len() - 1)];
        line.set_amount(name, progress.done() * page_size, expected);
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
    /// Name of the amount, and when and with how many bytes it began.
    name: String,
    since: Option<(Instant, u64)>,
}

impl Message {
    pub fn new() -> Message {
        Message {
            begin: Instant::now(),
            quiet_for: Duration::ZERO,
            shown: Mutex::default(),
        }
    }

    /// For what is mostly over before anybody wonders; a log is told later than a terminal.
    pub fn of_long_work() -> Message {
        let message = Message::of_swapping();
        message.shown().said = Some(message.begin);
        message
    }

    /// For what keeps the machine busy: a log is told as soon as a terminal.
    pub fn of_swapping() -> Message {
        let mut message = Message::new();
        message.quiet_for = QUIET_FOR;
        message
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a message is due, for callers to whom its text is a cost.
    pub fn is_due(&self) -> bool {
        if is_quiet() {
            return false;
        }
        let every = match stderr().is_terminal() {
            true => DRAWN_EVERY,
            false => LINE_EVERY,
        };
        let said = self.shown().said;
        self.begin.elapsed() >= self.quiet_for && said.is_none_or(|at| at.elapsed() >= every)
    }

    /// Shows the work that goes on now.
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

    /// So many bytes of what has that name are done.
    pub fn set_amount(&self, name: &str, done: u64, expected: Option<u64>) {
        let per_second = self.rate(name, done);
        if !self.is_due() {
            return;
        }
        let mut text = format!("{name}: {}", bytes(done));
        // An estimate may be passed; then only what is done is shown.
        if let Some(expected) = expected.filter(|&expected| expected >= done) {
            text += &format!(" of {}", bytes(expected));
            let left = (expected - done) as f64 / per_second;
            if left.is_finite() {
                let left = match left.ceil() {
                    left if left < 60.0 => format!("{left} s"),
                    left => seconds(left),
                };
                text += &format!(", {left} left");
            }
        }
        self.set(&text);
    }

    /// Bytes a second since what has that name began.
    fn rate(&self, name: &str, done: u64) -> f64 {
        let mut shown = self.shown();
        if shown.name != name {
            shown.name = name.to_owned();
            shown.since = Some((Instant::now(), done));
        }
        let (began, before) = shown.since.unwrap_or((self.begin, 0));
        done.saturating_sub(before) as f64 / began.elapsed().as_secs_f64()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_hears_of_swapping_after_two_seconds() {
        for (mut message, is_due) in [
            (Message::of_swapping(), true),
            (Message::of_long_work(), stderr().is_terminal()),
        ] {
            assert!(!message.is_due());
            message.begin -= QUIET_FOR;
            assert_eq!(message.is_due(), is_due);
        }
    }
}
