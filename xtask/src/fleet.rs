//! The Python package `fleet/`: its style, its types, its tests, in an environment of
//! its own with the packages that its lock names.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::Log;
use crate::python;
use crate::rust_tests;
use crate::step::{Tally, TestScope};
use crate::workspace;

/// The step's name.
pub const STEP: &str = "fleet";

const LIMIT: Duration = Duration::from_secs(1800);

/// Format, lints, types and tests; with Spark and many machines where `--long`.
pub fn test(log: &Log, scope: TestScope) -> Result<Tally> {
    let long = scope == TestScope::Long;
    let (lock, folder) = match long {
        true => ("requirements-long.lock", "fleet-venv-long"),
        false => ("requirements.lock", "fleet-venv"),
    };
    let programs = match python::environment(log, &package().join(lock), folder)? {
        Ok(programs) => programs,
        Err(why) => return Ok(Tally::skip(STEP, why)),
    };
    let mut tally = Tally::default();
    for (name, arguments) in [
        ("ruff format", ["ruff", "format", "--check"].as_slice()),
        ("ruff check", ["ruff", "check"].as_slice()),
        ("mypy", ["mypy"].as_slice()),
    ] {
        let ran = log.run(&mut command(&programs, arguments), LIMIT)?;
        tally.add(Tally::of(name, ran.succeeded(), "see above"));
    }
    tally.add(pytest(log, &programs, long)?);
    Ok(tally)
}

/// A program of the environment, in the package's folder.
fn command(programs: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(programs.join(words[0]));
    command.args(&words[1..]).current_dir(package());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn package() -> PathBuf {
    workspace::root().join("fleet")
}

fn pytest(log: &Log, programs: &Path, long: bool) -> Result<Tally> {
    let program = rust_tests::zmeld(log)?;
    let mut command = command(programs, &["pytest"]);
    if long {
        command.arg("--long");
    }
    if let Some(program) = program {
        command.env("ZMELD", program);
    }
    let ran = log.run(&mut command, LIMIT)?;
    let mut tally = read_results(&ran.text);
    if !ran.succeeded() && tally.failed.is_empty() {
        tally.add(Tally::fail("pytest", "it failed before or after its tests"));
    }
    if ran.succeeded() && tally.passed == 0 {
        tally.add(Tally::fail("pytest", "no test ran"));
    }
    Ok(tally)
}

/// Reads pytest's summary (`-ra`): what failed and what was skipped, and the counts.
fn read_results(text: &str) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines() {
        if let Some(failed) = line
            .strip_prefix("FAILED ")
            .or_else(|| line.strip_prefix("ERROR "))
        {
            let (name, why) = failed.split_once(" - ").unwrap_or((failed, "see above"));
            tally.failed.push((name.to_owned(), why.to_owned()));
        } else if let Some(skipped) = line.strip_prefix("SKIPPED ") {
            let (place, why) = skipped.split_once(": ").unwrap_or((skipped, "no reason"));
            let place = place.split_once("] ").map_or(place, |(_, place)| place);
            tally.skipped.push((place.to_owned(), why.to_owned()));
        } else if line.contains(" in ") {
            tally.passed = passed(line).unwrap_or(tally.passed);
        }
    }
    tally
}

/// `... 70 passed, 2 skipped in 61.20s ...`
fn passed(line: &str) -> Option<u64> {
    let before = line.split_once(" passed")?.0;
    before.rsplit([' ', '=']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_counted() {
        let text = "\
......F.s [100%]
SKIPPED [1] tests/conftest.py:41: zmeld is not built: cargo build -p zmeld
FAILED tests/test_units.py::test_sizes[0-0 B] - AssertionError: assert '1' == '0'
ERROR tests/test_x.py
============ 1 failed, 7 passed, 1 skipped, 2 warnings in 1.23s ============
";
        let tally = read_results(text);
        assert_eq!(tally.passed, 7);
        let failed: Vec<_> = tally.failed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            failed,
            ["tests/test_units.py::test_sizes[0-0 B]", "tests/test_x.py"]
        );
        let skipped = (
            "tests/conftest.py:41".to_owned(),
            "zmeld is not built: cargo build -p zmeld".to_owned(),
        );
        assert_eq!(tally.skipped, [skipped]);
    }
}
