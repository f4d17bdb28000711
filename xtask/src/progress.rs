//! One line on standard error while something takes long: what, how far, and how
//! long it will still take.

use std::io::{stderr, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Where standard error is no terminal, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

pub struct Progress {
    bar: ProgressBar,
    name: String,
    said: Instant,
}

impl Progress {
    pub fn new(name: &str, total: u64) -> Progress {
        let bar = ProgressBar::new(total.max(1)).with_message(name.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{msg}: {percent} %, {eta} left") {
            bar.set_style(style);
        }
        Progress {
            bar,
            name: name.to_owned(),
            said: Instant::now(),
        }
    }

    pub fn add(&mut self, units: u64) {
        self.bar.inc(units);
        if !stderr().is_terminal() && self.said.elapsed() >= LINE_EVERY {
            let percent = 100 * self.bar.position() / self.bar.length().unwrap_or(1);
            let left = HumanDuration(self.bar.eta());
            eprintln!("{}: {percent} %, {left} left", self.name);
            self.said = Instant::now();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
