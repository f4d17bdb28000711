//! Benchmarks whose guest prints a line for each run, and what reads these lines.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{bail, Result};
use serde::Serialize;

use crate::kernels::Kernel;
use crate::machine::{self, BootOptions};

/// A line of the guest's: an arm, what was done with it, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    pub arm: String,
    pub part: String,
    pub values: BTreeMap<String, f64>,
}

impl Run {
    /// None: it is something else.
    pub fn of_line(line: &str) -> Option<Run> {
        let mut words = line.split_whitespace();
        let arm = words.next()?.to_owned();
        let part = words.next().filter(|word| !word.contains('='))?.to_owned();
        let pairs = words.map(|word| {
            let (name, number) = word.split_once('=')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        Some(Run {
            arm,
            part,
            values: pairs.collect::<Option<_>>()?,
        })
    }
}

/// Boots, with what the guest says on standard error as it comes; its runs.
///
/// # Errors
/// With all that it said where its script did not end well.
pub fn boot(kernel: &Kernel, boot: &BootOptions) -> Result<Vec<Run>> {
    let mut output = Lines::default();
    let outcome = machine::run(kernel, boot, &mut output)?;
    let text = String::from_utf8_lossy(&output.bytes);
    for complaint in &outcome.complaints {
        eprintln!("the kernel complained: {complaint}");
    }
    match outcome.code {
        Some(0) => Ok(text.lines().filter_map(Run::of_line).collect()),
        Some(code) => bail!("{text}\nthe guest's script ended with {code}"),
        None => bail!("{}\nthe guest ended before its script", outcome.tail()),
    }
}

/// Keeps what a guest says, and shows it as progress.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        std::io::stderr().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_runs_or_something_else() {
        let run = Run::of_line("zram:lz4 time round=1 mean_ns=20.5").unwrap();
        assert_eq!((run.arm.as_str(), run.part.as_str()), ("zram:lz4", "time"));
        assert_eq!(run.values["mean_ns"], 20.5);
        for other in ["", "machine total_mib=3", "# what went wrong", "a b c"] {
            assert_eq!(Run::of_line(other), None, "{other}");
        }
    }
}
