//! One line on standard error while something takes long: what, how far, and how
//! long it will still take.

use std::io::{stderr, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Nothing is shown before.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// Where standard error is no terminal, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// A piece of work of known size.
pub struct Progress {
    name: String,
    bar: ProgressBar,
    total: u64,
    done: u64,
    begin: Instant,
    said: Instant,
}

impl Progress {
    /// Begins work of `total` units.
    pub fn new(name: &str, total: u64) -> Progress {
        let target = if stderr().is_terminal() {
            ProgressDrawTarget::stderr_with_hz(4)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Progress {
            name: name.to_owned(),
            bar,
            total: total.max(1),
            done: 0,
            begin: Instant::now(),
            said: Instant::now(),
        }
    }

    /// So many more units are done.
    pub fn add(&mut self, units: u64) {
        self.at(self.done + units);
    }

    /// So many units are done.
    pub fn at(&mut self, done: u64) {
        self.done = done.min(self.total);
        let elapsed = self.begin.elapsed();
        if elapsed < QUIET_FOR {
            return;
        }
        let text = self.text(elapsed);
        if self.bar.is_hidden() {
            if self.said.elapsed() >= LINE_EVERY {
                eprintln!("{text}");
                self.said = Instant::now();
            }
        } else {
            self.bar.set_message(text);
            self.bar.tick();
        }
    }

    fn text(&self, elapsed: Duration) -> String {
        let percent = 100 * self.done / self.total;
        if self.done == 0 {
            return format!("{}: {percent} %", self.name);
        }
        let left = elapsed.mul_f64((self.total - self.done) as f64 / self.done as f64);
        // Half a minute is as exact as such a guess is.
        let left = Duration::from_secs(left.as_secs());
        format!("{}: {percent} %, {} left", self.name, HumanDuration(left))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_long_it_will_take() {
        let mut progress = Progress::new("build", 200);
        assert_eq!(progress.text(Duration::from_secs(1)), "build: 0 %");
        progress.at(50);
        let text = progress.text(Duration::from_secs(60));
        assert_eq!(text, "build: 25 %, 3 minutes left");
        progress.at(1000);
        let text = progress.text(Duration::from_secs(60));
        assert_eq!(text, "build: 100 %, 0 seconds left");
    }
}
