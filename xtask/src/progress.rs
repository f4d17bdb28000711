//! One line on standard error while something takes long: what, how far, and how
//! long it will still take. Of steps, by what each took the last time, and before that by
//! what such steps took on two cores.

use std::collections::BTreeMap;
use std::fs;
use std::io::{stderr, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace;

/// The line of a terminal is drawn anew this often.
const DRAWN_EVERY: Duration = Duration::from_millis(250);
/// Where standard error is no terminal, a line this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

pub struct Progress {
    name: String,
    total: u64,
    done: u64,
    begin: Instant,
    said: Option<Instant>,
}

impl Progress {
    pub fn new(name: &str, total: u64) -> Progress {
        Progress {
            name: name.to_owned(),
            total: total.max(1),
            done: 0,
            begin: Instant::now(),
            said: None,
        }
    }

    pub fn add(&mut self, units: u64) {
        self.done = (self.done + units).min(self.total);
        let (every, is_line) = match stderr().is_terminal() {
            true => (DRAWN_EVERY, false),
            false => (LINE_EVERY, true),
        };
        if self.said.unwrap_or(self.begin).elapsed() < every {
            return;
        }
        self.said = Some(Instant::now());
        let line = self.line(self.begin.elapsed());
        match is_line {
            true => eprintln!("{line}"),
            false => eprint!("\r\x1b[K{line}"),
        }
    }

    fn line(&self, elapsed: Duration) -> String {
        let percent = 100 * self.done / self.total;
        // Of less than a fiftieth, the rest is a guess.
        let left = (percent >= 2).then(|| {
            let rest = (self.total - self.done) as f64 / self.done as f64;
            format!(", {} left", rough(elapsed.mul_f64(rest).as_secs()))
        });
        format!("{}: {percent} %{}", self.name, left.unwrap_or_default())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

fn rough(seconds: u64) -> String {
    match seconds {
        0..=90 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
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
        let left = rough(left);
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
