//! One line on standard error while something takes long: what, how far, and how
//! long it will still take. Of steps, by what each took the last time, and before that by
//! what such steps took on two cores.

use std::collections::BTreeMap;
use std::fs;
use std::io::{stderr, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::workspace;

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

/// Seconds of a step whose name begins so, on two cores from a clean checkout.
#[rustfmt::skip]
const FIRST_SECONDS: &[(&str, u64)] = &[
    ("format", 3), ("core-sources", 1), ("clippy", 90), ("cargo-test", 420), ("documentation", 40),
    ("kernel-um", 420), ("kernel-", 90), ("module-", 60), ("guest-um-debug", 240), ("guest-um", 25),
    ("guest-", 60), ("machine-um", 60), ("machine-", 200), ("dkms", 80), ("fuzz_", 45),
    ("clean-root", 1200), ("", 15),
];

pub struct Pace {
    file: PathBuf,
    known: BTreeMap<String, u64>,
    said: Instant,
}

impl Pace {
    /// With what earlier runs took.
    pub fn new() -> Result<Pace> {
        let file = workspace::work_folder("")?.join("seconds.json");
        let text = fs::read(&file).unwrap_or_default();
        Ok(Pace {
            known: serde_json::from_slice(&text).unwrap_or_default(),
            file,
            said: Instant::now(),
        })
    }

    /// Says that the first of these steps begins, as number `done + 1` of all.
    pub fn begins(&mut self, names: &[&str], done: usize) {
        let Some(first) = names.first() else { return };
        let left: u64 = names.iter().map(|name| self.seconds(name)).sum();
        let left = match left {
            0..=90 => format!("{left} s"),
            _ => format!("{} min", left.div_ceil(60)),
        };
        let total = names.len() + done;
        let line = format!("[{}/{total}] {first}; about {left} left", done + 1);
        if stderr().is_terminal() {
            eprint!("\r\x1b[K{line}");
        } else if self.said.elapsed() >= LINE_EVERY {
            eprintln!("{line}");
            self.said = Instant::now();
        }
    }

    /// Clears the line for what is to be said, and keeps what the step took.
    pub fn ended(&mut self, name: &str, took: Duration) -> Result<()> {
        if stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        self.known.insert(name.to_owned(), took.as_secs());
        let text = serde_json::to_string(&self.known)?;
        fs::write(&self.file, text).with_context(|| format!("cannot write {}", self.file.display()))
    }

    fn seconds(&self, name: &str) -> u64 {
        let known = self.known.get(name).copied();
        let begins = |(begin, _): &&(&str, u64)| name.starts_with(begin);
        let first = || FIRST_SECONDS.iter().find(begins);
        known.or_else(|| Some(first()?.1)).unwrap_or_default()
    }
}
