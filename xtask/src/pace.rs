//! How far a run of steps is, and how long it will still take: by what each step
//! took the last time, and before that by what it took on two cores.

use std::collections::BTreeMap;
use std::fs;
use std::io::{stderr, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::workspace;

/// Where standard error is no terminal, a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Seconds of a step whose name begins so, on two cores from a clean checkout.
const FIRST_SECONDS: &[(&str, u64)] = &[
    ("format", 3),
    ("core-sources", 1),
    ("clippy", 90),
    ("cargo-test", 420),
    ("documentation", 40),
    ("kernel-um", 420),
    ("kernel-", 90),
    ("module-", 60),
    ("guest-um-debug", 240),
    ("guest-um", 25),
    ("guest-", 60),
    ("machine-um", 60),
    ("machine-", 200),
    ("dkms", 80),
    ("fuzz_", 45),
    ("clean-root", 1200),
    ("container", 900),
];

/// Of any other.
const OTHER_SECONDS: u64 = 15;

/// The pace of one run.
pub struct Pace {
    file: PathBuf,
    known: BTreeMap<String, u64>,
    said: Instant,
}

impl Pace {
    /// With what earlier runs took.
    pub fn new() -> Result<Pace> {
        let file = workspace::work_folder("")?.join("seconds");
        let text = fs::read_to_string(&file).unwrap_or_default();
        Ok(Pace {
            known: read(&text),
            file,
            said: Instant::now(),
        })
    }

    /// Says that the first of these steps begins, as number `done + 1` of all.
    pub fn begins(&mut self, names: &[&str], done: usize) {
        let Some(first) = names.first() else { return };
        let left: u64 = names.iter().map(|name| self.seconds(name)).sum();
        let total = names.len() + done;
        let line = format!("[{}/{total}] {first}; about {} left", done + 1, shown(left));
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
        let lines: Vec<String> = self
            .known
            .iter()
            .map(|(name, seconds)| format!("{name} {seconds}\n"))
            .collect();
        fs::write(&self.file, lines.concat())
            .with_context(|| format!("cannot write {}", self.file.display()))
    }

    fn seconds(&self, name: &str) -> u64 {
        let first = || {
            let known = FIRST_SECONDS
                .iter()
                .find(|(begin, _)| name.starts_with(begin));
            known.map_or(OTHER_SECONDS, |(_, seconds)| *seconds)
        };
        self.known.get(name).copied().unwrap_or_else(first)
    }
}

fn read(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (name, seconds) = line.split_once(' ')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        })
        .collect()
}

fn shown(seconds: u64) -> String {
    match seconds {
        0..=90 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_took_last_time_counts_before_what_it_may_take() {
        let pace = Pace {
            file: PathBuf::new(),
            known: read("guest-um-random 7\nnonsense\nmodel-asan x\n"),
            said: Instant::now(),
        };
        assert_eq!(pace.seconds("guest-um-random"), 7);
        assert_eq!(pace.seconds("guest-um-swap"), 25);
        assert_eq!(pace.seconds("guest-um-debug-swap"), 240);
        assert_eq!(pace.seconds("model-asan"), OTHER_SECONDS);
        assert_eq!(
            (shown(80), shown(600), shown(601)),
            ("80 s".into(), "10 min".into(), "11 min".into())
        );
    }
}
