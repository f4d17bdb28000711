//! Checks and tests of cargo.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{output_of, unavailable, Log};
use crate::step::{skip_lines, Rest, Tally, TestScope};
use crate::{tools, workspace};

/// Cargo in the workspace's top folder. The same profile for all of it, so
/// that the libraries are compiled once.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root()).args(arguments);
    // Cargo's variables about this program. A build script that asks for one (ring's) would run
    // again, and much be compiled again, whenever cargo is run by hand between.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    command
}

/// The command line, built, with the guard beside it.
pub fn zmeld(log: &Log) -> Result<PathBuf> {
    // A test of it among the targets gives all libraries the features that the step of
    // all tests gives them; with others they would be compiled once more.
    let targets = "--workspace --bin zmeld --bin zmeld-guard --test machine".split(' ');
    log.must(cargo(&["build"]).args(targets))?;
    Ok(workspace::target().join("debug/zmeld"))
}

/// The program of one of zmeld-swap's tests, built.
pub fn test_program(log: &Log, name: &str) -> Result<PathBuf> {
    let words = ["build", "--workspace", "--test", name];
    log.must(&mut cargo(&words))?;
    let said = output_of(cargo(&words).args(["--quiet", "--message-format=json"]))?;
    executable(&said, name)
}

/// Path of a program in cargo's JSON messages.
pub fn executable(said: &str, name: &str) -> Result<PathBuf> {
    let messages = said.lines().map(serde_json::from_str::<serde_json::Value>);
    let mut of_name = messages.flatten().filter(|it| it["target"]["name"] == name);
    let path = of_name.find_map(|it| it["executable"].as_str().map(PathBuf::from));
    path.context("cargo named no program")
}

pub fn format(log: &Log) -> Result<Tally> {
    need_component("rustfmt", "fmt")?;
    let mut fmt = cargo(&["fmt", "--all", "--check"]);
    Tally::of_run(log, "format", &mut fmt, "run `cargo fmt --all`")
}

pub fn clippy(log: &Log) -> Result<Tally> {
    need_component("clippy", "clippy")?;
    let words = "clippy --workspace --all-targets -- -D warnings";
    let mut clippy = cargo(&[]);
    Tally::of_run(
        log,
        "clippy",
        clippy.args(words.split(' ')),
        "warnings, see above",
    )
}

fn need_component(component: &str, command: &str) -> Result<()> {
    if output_of(&mut cargo(&[command, "--version"])).is_err() {
        unavailable!("{component} is missing: `rustup component add {component}`");
    }
    Ok(())
}

pub fn documentation(log: &Log) -> Result<Tally> {
    let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    Tally::of_run(log, "documentation", &mut command, "broken, see above")
}

pub fn tests(log: &Log) -> Result<Rest> {
    log.must(&mut cargo(&["test", "--workspace", "--no-run"]))?;
    Ok(Box::new(|log| {
        let words = "test --workspace --no-fail-fast -- --show-output";
        run_tests(log, "cargo test", cargo(&[]).args(words.split(' ')))
    }))
}

/// Experiments in virtual machines that boot this kernel.
pub fn build_machines(log: &Log) -> Result<()> {
    let words = ["test", "--workspace", "--test", "machine", "--no-run"];
    log.must(&mut cargo(&words)).map(|_| ())
}

pub fn machines(log: &Log, name: &str, image: &Path) -> Result<Tally> {
    let mut command = cargo(&["test", "--workspace", "--test", "machine"]);
    command.args(["--", "--show-output"]);
    command.env("ZMELD_TEST_KERNEL", image);
    run_tests(log, name, &mut command)
}

pub const ALONE: &str = "alone";

/// The programs of tests that look at this machine, or change it.
const LIVE: [&str; 3] = ["command", "swap", "turn"];

/// So many, where not `--long`.
const DRAWN: usize = 8;

/// Runs a program where nothing of zmeld's is in `/run`, `/var/lib` and `/etc`, as on a new
/// machine, and fails where something of that is left.
const NEW: &str = r#"
set -e
mount -t tmpfs -o mode=755 run /run
mkdir /run/new
for place in /etc /var/lib; do
	ls -d "$place"/zmeld* >/dev/null 2>&1 || continue
	mkdir -p "/run/new$place" "/run/new/work$place"
	mount -t overlay -o "lowerdir=$place,upperdir=/run/new$place,workdir=/run/new/work$place" new "$place"
	rm -rf "$place"/zmeld*
done
"$@"
left=$(ls -d /run/zmeld* /var/lib/zmeld* /etc/zmeld* 2>/dev/null | grep -vx /run/zmeld-tests) || exit 0
echo "left behind: $left"
exit 1
"#;

/// Each of these tests alone, in an order of the seed.
pub fn alone(log: &Log, scope: TestScope, seed: u64) -> Result<Tally> {
    tools::need(&["unshare"])?;
    if !tools::is_root() {
        unavailable!("only root may mount");
    }
    let of = |program: &str| {
        let mut command = cargo(&["test", "--workspace", "--test", program]);
        command.args(["--", "--show-output"]);
        command
    };
    let mut tests = Vec::new();
    for program in LIVE {
        let list = log.must(of(program).args(["--list", "--format", "terse"]))?;
        let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(|name| (program, name.to_owned())));
    }
    tests.sort_by_cached_key(|test| {
        let mut hash = DefaultHasher::new();
        (seed, test).hash(&mut hash);
        hash.finish()
    });
    if scope == TestScope::Default {
        tests.truncate(DRAWN);
    }
    log.note(&format!("in the order of seed {seed}"))?;
    let mut tally = Tally::default();
    for (program, name) in tests {
        let test = of(program);
        let mut command = Command::new("unshare");
        command.current_dir(workspace::root());
        command.args(["--mount", "--propagation", "private", "sh", "-c", NEW, "sh"]);
        command.arg(test.get_program()).args(test.get_args());
        tally.add(run_tests(log, &name, command.args(["--exact", &name]))?);
    }
    Ok(tally)
}

pub fn run_tests(log: &Log, name: &str, command: &mut Command) -> Result<Tally> {
    let ran = log.run(command)?;
    Ok(read_results(&ran.text).whole(name, &ran))
}

/// Reads the test harness's output. A test that says `SKIP: reason` counts as
/// skipped and not as passed.
fn read_results(text: &str) -> Tally {
    let mut tally = Tally::default();
    let mut said_by = None;
    let mut last_skipped = None;
    let mut passed_by_skipping = 0;
    for line in text.lines() {
        if let Some(results) = line.strip_prefix("test result: ") {
            tally.passed += number_before(results, " passed");
            said_by = None;
        } else if let Some(name) = output_header(line) {
            said_by = Some(name.to_owned());
        } else if let Some((name, verdict)) = verdict(line) {
            if verdict == "FAILED" {
                let said = what_it_said(text, name);
                tally.failed.push((name.to_owned(), said));
            } else if let Some(reason) = verdict.strip_prefix("ignored") {
                let reason = reason.trim_start_matches([',', ' ']);
                let reason = if reason.is_empty() { "ignored" } else { reason };
                tally.skipped.push((name.to_owned(), reason.to_owned()));
            }
        } else if let (Some(name), Some(reason)) = (&said_by, skip_lines(line).next()) {
            if last_skipped.as_ref() != Some(name) {
                passed_by_skipping += 1;
                last_skipped = Some(name.clone());
            }
            tally.skipped.push((name.clone(), reason));
        }
    }
    tally.passed = tally.passed.saturating_sub(passed_by_skipping);
    tally
}

const SAID_LINES: usize = 40;

/// Place and message of a failed test's panic.
fn what_it_said(text: &str, name: &str) -> String {
    let thread = format!("thread '{name}' ");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&thread));
    let panic = lines
        .next()
        .and_then(|line| line.split_once("panicked at "));
    let Some((_, at)) = panic else {
        return "see above".to_owned();
    };
    let ends = |line: &&str| output_header(line).is_some() || *line == "failures:";
    let said: Vec<&str> = lines
        .take_while(|line| !ends(line))
        .take(SAID_LINES)
        .collect();
    format!("{at} {}", said.join("\n").trim_end())
}

/// `---- name stdout ----`
fn output_header(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// `test name ... verdict`
fn verdict(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next();
    digits.unwrap_or_default().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_output_is_counted() {
        let text = "\
test needs_a_device ... ok
test slow ... ignored, takes an hour
test broken ... FAILED
---- needs_a_device stdout ----
SKIP: no zram here
failures:
---- broken stdout ----
thread 'broken' (17) panicked at src/lib.rs:5:9:
one is not two
failures:
    broken
test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
SKIP: outside of any test
";
        let tally = read_results(text);
        assert_eq!(tally.passed, 4);
        let failed = ("broken".into(), "src/lib.rs:5:9: one is not two".into());
        assert_eq!(tally.failed, [failed]);
        let skipped = [
            ("slow", "takes an hour"),
            ("needs_a_device", "no zram here"),
        ];
        assert_eq!(
            tally.skipped,
            skipped.map(|(name, why)| (name.into(), why.into()))
        );
    }
}
