//! The line on standard error while something takes longer than two seconds, and
//! Ctrl-C: the first asks to stop and print what is there, the second ends at once.

use std::io::{stderr, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zmeld_report::text::inert;
use zmeld_scan::ScanProgress;

use crate::output;

/// Nothing is shown before.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// What is measured for less says nothing about the rest.
const PACE_AFTER: Duration = Duration::from_secs(1);
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
        let mut line = Line::new(names, page_size);
        while !worker.is_finished() && !over.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(50));
            line.draw(progress);
        }
        line.clear();
        match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A progress line of its own for waits.
pub struct Wait {
    bar: ProgressBar,
    name: String,
    total: Duration,
}

impl Wait {
    /// Shows that something takes `total`.
    pub fn new(name: &str, total: Duration) -> Wait {
        let bar = ProgressBar::with_draw_target(None, target());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("a valid template"));
        Wait {
            bar,
            name: name.to_owned(),
            total,
        }
    }

    /// So long it has been.
    pub fn tick(&self, elapsed: Duration) {
        let left = self.total.saturating_sub(elapsed).as_secs();
        self.bar
            .set_message(format!("{}: {left} s left", self.name));
        self.bar.tick();
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A progress line for bytes that somebody else counts.
pub struct Meter {
    line: Line<'static>,
    progress: ScanProgress,
}

/// What a meter counts in.
const METER_UNIT: u64 = 4096;

impl Meter {
    /// Shows nothing yet.
    pub fn new(names: &'static [&'static str]) -> Meter {
        Meter {
            line: Line::new(names, METER_UNIT),
            progress: ScanProgress::default(),
        }
    }

    /// So much of it is done. A smaller amount than before, or another whole,
    /// is something new.
    pub fn draw(&mut self, done_bytes: u64, total_bytes: u64) {
        let (done, total) = (done_bytes / METER_UNIT, total_bytes / METER_UNIT);
        let same = self.progress.expected() == Some(total).filter(|&total| total > 0);
        if self.progress.phase() == 0 || !same || done < self.progress.done() {
            self.progress.start(Some(total));
        }
        let more = usize::try_from(done - self.progress.done()).unwrap_or(0);
        self.progress.advance(more);
        self.line.draw(&self.progress);
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        self.line.clear();
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A line of text that says what goes on.
pub struct Message {
    bar: ProgressBar,
    begin: Instant,
    quiet_for: Duration,
    said: std::cell::Cell<Option<Instant>>,
}

impl Message {
    /// Nothing yet.
    pub fn new() -> Message {
        let bar = ProgressBar::with_draw_target(None, target());
        bar.set_style(ProgressStyle::with_template("{wide_msg}").expect("a valid template"));
        Message {
            bar,
            begin: Instant::now(),
            quiet_for: Duration::ZERO,
            said: std::cell::Cell::new(None),
        }
    }

    /// For what is mostly over before anybody wonders.
    pub fn of_long_work() -> Message {
        let mut message = Message::new();
        message.quiet_for = QUIET_FOR;
        message.said.set(Some(message.begin));
        message
    }

    /// Whether it is time for a word, for those to whom finding one is a cost.
    pub fn is_due(&self) -> bool {
        let every = match stderr().is_terminal() {
            true => Duration::from_millis(250),
            false => LINE_EVERY,
        };
        self.begin.elapsed() >= self.quiet_for
            && self.said.get().is_none_or(|at| at.elapsed() >= every)
    }

    /// What goes on now. In a log it is said now and then.
    pub fn set(&self, text: &str) {
        let due = self.is_due();
        if due {
            self.said.set(Some(Instant::now()));
        }
        if stderr().is_terminal() {
            self.bar.set_message(inert(text).into_owned());
            self.bar.tick();
        } else if due {
            output::say(text);
        }
    }

    /// Something that stays on the screen.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| output::say(text));
    }

    /// Nothing goes on any more.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A progress line for steps that several threads count, with the time left.
pub struct Steps {
    what: &'static str,
    started: Instant,
    /// None where nothing is to be shown.
    line: Option<Mutex<Message>>,
}

impl Steps {
    /// Counts `what`, in the plural.
    pub fn new(what: &'static str, quiet: bool) -> Steps {
        Steps {
            what,
            started: Instant::now(),
            line: (!quiet).then(|| Mutex::new(Message::of_long_work())),
        }
    }

    /// So many of them are done.
    pub fn at(&self, done: usize, all: usize) {
        let Some(line) = self.line() else { return };
        if !line.is_due() {
            return;
        }
        let left = match done {
            0 => String::new(),
            done => {
                let each_s = self.started.elapsed().as_secs_f64() / done as f64;
                let left_s = each_s * all.saturating_sub(done) as f64;
                format!(", about {} left", zmeld_report::units::seconds(left_s))
            }
        };
        line.set(&format!("{done} of {all} {}{left}", self.what));
    }

    /// Takes the line away.
    pub fn clear(&self) {
        if let Some(line) = self.line() {
            line.clear();
        }
    }

    fn line(&self) -> Option<MutexGuard<'_, Message>> {
        let line = self.line.as_ref()?;
        Some(line.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn target() -> ProgressDrawTarget {
    if stderr().is_terminal() {
        ProgressDrawTarget::stderr_with_hz(8)
    } else {
        ProgressDrawTarget::hidden()
    }
}

struct Line<'a> {
    names: &'a [&'a str],
    page_size: u64,
    bar: Option<ProgressBar>,
    phase: u64,
    begin: Instant,
    phase_begin: Instant,
    said: Instant,
}

impl<'a> Line<'a> {
    fn new(names: &'a [&'a str], page_size: u64) -> Line<'a> {
        let now = Instant::now();
        Line {
            names,
            page_size,
            bar: None,
            phase: 0,
            begin: now,
            phase_begin: now,
            said: now,
        }
    }

    fn name(&self) -> &'a str {
        let at = (self.phase.max(1) - 1) as usize;
        self.names[at.min(self.names.len() - 1)]
    }

    fn draw(&mut self, progress: &ScanProgress) {
        if self.phase != progress.phase() {
            self.clear();
            self.phase = progress.phase();
            self.phase_begin = Instant::now();
        }
        if self.begin.elapsed() < QUIET_FOR {
            return;
        }
        if !stderr().is_terminal() {
            self.say(progress);
            return;
        }
        let name = self.name();
        // It is drawn only once it has its style.
        let is_new = self.bar.is_none();
        let bar = self.bar.get_or_insert_with(|| {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
        });
        let bytes = progress.done() * self.page_size;
        bar.set_message(pace(progress, self.phase_begin.elapsed(), self.page_size));
        match progress.expected() {
            // An estimate may be passed; then only what is done is shown.
            Some(expected) if expected >= progress.done() => {
                bar.set_length(expected * self.page_size);
                bar.set_style(style(template(columns())));
            }
            _ => bar.set_style(style("{prefix} {binary_bytes}{msg}")),
        }
        bar.set_prefix(name.to_owned());
        bar.set_position(bytes);
        if is_new {
            bar.set_draw_target(target());
        }
        bar.tick();
    }

    /// For logs: a plain line now and then.
    fn say(&mut self, progress: &ScanProgress) {
        if self.said.elapsed() < LINE_EVERY {
            return;
        }
        self.said = Instant::now();
        output::say(format_args!(
            "{}: {} done{}",
            self.name(),
            zmeld_report::units::bytes(progress.done() * self.page_size),
            pace(progress, self.phase_begin.elapsed(), self.page_size)
        ));
    }

    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// How fast it is and how long it takes still, as far as that can be told: after
/// a while, and of what has begun.
fn pace(progress: &ScanProgress, elapsed: Duration, page_size: u64) -> String {
    let done = progress.done();
    let elapsed = elapsed.as_secs_f64();
    if elapsed < PACE_AFTER.as_secs_f64() || done == 0 {
        return String::new();
    }
    let rate = done as f64 / elapsed;
    let speed = zmeld_report::units::bytes_real(rate * page_size as f64);
    let left = progress
        .expected()
        // Of less than a fiftieth, the rest is a guess.
        .filter(|&expected| expected > done && done >= expected / 50)
        .map(|expected| {
            let seconds = ((expected - done) as f64 / rate).ceil();
            format!(", {} left", zmeld_report::units::seconds(seconds))
        });
    format!(", {speed}/s{}", left.unwrap_or_default())
}

/// How wide the terminal is.
fn columns() -> usize {
    let size = terminal_size::terminal_size_of(stderr());
    size.map_or(80, |(width, _)| usize::from(width.0))
}

/// The line where the whole is known: with the bar only where that leaves room for
/// the numbers.
fn template(columns: usize) -> &'static str {
    match columns {
        90.. => "{prefix} {bar:20} {binary_bytes} of {binary_total_bytes}{msg}",
        _ => "{prefix} {binary_bytes}/{binary_total_bytes}{msg}",
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("a valid template")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_gets_the_numbers_without_a_bar() {
        let filled = |columns| {
            [
                ("{prefix}", "scanning memory"),
                ("{bar:20}", "====================="),
                ("{binary_bytes}", "10.00 GiB"),
                ("{binary_total_bytes}", "20.00 GiB"),
                ("{msg}", ", 1.25 GiB/s, 1m 30s left"),
            ]
            .iter()
            .fold(template(columns).to_owned(), |text, (key, value)| {
                text.replace(key, value)
            })
        };
        assert!(filled(60).len() <= 60, "{}", filled(60));
        assert!(filled(90).len() <= 90 && filled(90).contains("==="));
    }

    #[test]
    fn the_time_left_is_told_when_it_can_be() {
        let progress = ScanProgress::default();
        progress.start(Some(1000));
        assert_eq!(pace(&progress, Duration::from_secs(60), 4096), "");
        progress.advance(10);
        // One in a hundred: only the speed.
        let said = pace(&progress, Duration::from_secs(10), 4096);
        assert_eq!(said, ", 4.00 KiB/s");
        progress.advance(240);
        assert_eq!(pace(&progress, Duration::from_millis(900), 4096), "");
        let said = pace(&progress, Duration::from_secs(10), 4096);
        assert_eq!(said, ", 100 KiB/s, 30.0 s left");
        // An estimate that was passed says nothing of the time.
        progress.advance(1000);
        let said = pace(&progress, Duration::from_secs(10), 4096);
        assert_eq!(said, ", 500 KiB/s");
    }
}
