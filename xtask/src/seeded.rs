//! Faults put into the store, one at a time, each of which its tests have to find.
//!
//! `store/tests/seeded/NAME.patch` is a plausible fault. Its head says what is wrong, and
//! which steps find it, with their arguments:
//!
//! ```text
//! fault: A block is given away while it is read.
//! found-by: interleave-asan
//! ```
//!
//! A fault is found where one of these fails.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::c_build;
use crate::c_tests::CTestEnvironment;
use crate::process::{self, output_of, was_interrupted, Log};
use crate::step::{Tally, TestScope};
use crate::tools;
use crate::workspace;

pub const STEP: &str = "seeded";

/// How many have their turn where time is short.
const DRAWN: usize = 4;

/// A test that comes to no end, and does not compute either, has found something.
const LIMIT: Duration = Duration::from_secs(300);

/// One fault, as its patch tells of it.
struct Fault {
    name: String,
    patch: PathBuf,
    about: String,
    found_by: Vec<String>,
}

impl Fault {
    fn read(patch: &Path) -> Result<Fault> {
        let text = fs::read_to_string(patch)?;
        let said = |key: &str| -> Vec<String> {
            let lines = text.lines().take_while(|line| !line.starts_with("--- "));
            lines
                .filter_map(|line| line.strip_prefix(key))
                .map(|rest| rest.trim().to_owned())
                .collect()
        };
        let about = said("fault:").pop();
        let found_by = said("found-by:");
        if found_by.is_empty() {
            bail!("{} has no test", workspace::shown(patch));
        }
        Ok(Fault {
            name: workspace::stem(patch),
            patch: patch.to_owned(),
            about: about.with_context(|| format!("{} says no fault", workspace::shown(patch)))?,
            found_by,
        })
    }
}

fn all() -> Result<Vec<Fault>> {
    let patches = workspace::files(&c_build::tests_folder().join("seeded"), "patch")?;
    patches.iter().map(|patch| Fault::read(patch)).collect()
}

/// Those whose turn it is with this commit.
fn drawn(mut faults: Vec<Fault>) -> Vec<Fault> {
    let mut git = process::git();
    git.current_dir(workspace::root());
    let commit = output_of(git.args(["rev-parse", "HEAD"])).unwrap_or_default();
    faults.sort_by_cached_key(|fault| {
        let mut hash = DefaultHasher::new();
        (&commit, &fault.name).hash(&mut hash);
        hash.finish()
    });
    faults.truncate(DRAWN);
    faults
}

pub fn test(log: &Log, environment: &CTestEnvironment, scope: TestScope) -> Result<Tally> {
    tools::need(&["patch"])?;
    let mut faults = all()?;
    let mut tally = Tally::default();
    if scope == TestScope::Long {
        tally.add(sound(log, environment, &faults)?);
    } else {
        faults = drawn(faults);
    }
    for fault in &faults {
        log.note(&format!("seeded: {}: {}", fault.name, fault.about))?;
        let found = find(log, environment, fault);
        tally.add(match Tally::or_skip(&fault.name, found) {
            Err(error) if !was_interrupted() => Tally::fail(&fault.name, format!("{error:#}")),
            found => found?,
        });
    }
    Ok(tally)
}

/// A test that fails without a fault finds none: all that are to find one pass.
fn sound(log: &Log, environment: &CTestEnvironment, faults: &[Fault]) -> Result<Tally> {
    let copy = copy(log, STEP)?;
    let tests: BTreeSet<&String> = faults.iter().flat_map(|fault| &fault.found_by).collect();
    let mut tally = Tally::default();
    for test in tests {
        let name = format!("{STEP}: {test}");
        let found = fails_as_told(log, environment, test, &copy)
            .map(|failed| Tally::of(&name, !failed, "it fails without a fault"));
        tally.add(Tally::or_skip(&name, found)?);
    }
    Ok(tally)
}

fn find(log: &Log, environment: &CTestEnvironment, fault: &Fault) -> Result<Tally> {
    let copy = copy(log, STEP)?;
    apply(log, fault, &copy)?;
    let mut skipped = Tally::default();
    for test in &fault.found_by {
        match fails_as_told(log, environment, test, &copy) {
            Ok(true) => return Ok(Tally::pass()),
            Ok(false) => {}
            Err(error) => skipped.add(Tally::or_skip(&fault.name, Err(error))?),
        }
    }
    if !skipped.skipped.is_empty() {
        return Ok(skipped);
    }
    Ok(Tally::fail(
        &fault.name,
        format!(
            "not found by {}: {}",
            fault.found_by.join(", "),
            fault.about
        ),
    ))
}

/// The same of a step with its arguments behind it.
fn fails_as_told(
    log: &Log,
    environment: &CTestEnvironment,
    test: &str,
    copy: &Path,
) -> Result<bool> {
    let mut words = test.split_whitespace().map(str::to_owned);
    let step = words.next().unwrap_or_default();
    fails(log, environment, &step, &[words.collect()], copy)
}

/// Whether one of a step's runs with these arguments fails on a copy.
pub fn fails(
    log: &Log,
    environment: &CTestEnvironment,
    step: &str,
    runs: &[Vec<String>],
    copy: &Path,
) -> Result<bool> {
    for arguments in runs {
        let mut command = environment.command_of_copy(log, step, copy)?;
        match log.run_for(command.args(arguments), LIMIT) {
            Ok(ran) if ran.succeeded() => {}
            Err(error) if was_interrupted() => return Err(error),
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// A step's copy of the folder `store`, with the times of its files.
pub fn copy(log: &Log, step: &str) -> Result<PathBuf> {
    let store = workspace::work_folder(step)?.canonicalize()?.join("store");
    workspace::remove(&store)?;
    let own = workspace::root().join("store");
    log.must(Command::new("cp").arg("-a").arg(own).arg(&store))?;
    Ok(store)
}

fn apply(log: &Log, fault: &Fault, copy: &Path) -> Result<()> {
    let mut patch = Command::new("patch");
    patch.args(["-p2", "--batch", "--fuzz=0", "--silent", "--reject-file=-"]);
    patch.arg("-d").arg(copy).arg("-i").arg(&fault.patch);
    let applied = log.must(&mut patch).map(|_| ());
    applied.context("a fault does not apply to the sources any more: make it anew")
}

#[cfg(test)]
mod tests {
    /// A run has a few of them alone, and one with a name that is gone is found late.
    #[test]
    fn every_fault_is_found_by_a_test_that_there_is() {
        for fault in super::all().unwrap() {
            for test in &fault.found_by {
                let step = test.split(' ').next().unwrap();
                assert!(crate::c_tests::of_step(step).is_ok(), "{step}");
                // It is linked with the library that cargo built, without the fault.
                assert!(!step.ends_with("-built"), "{}", fault.name);
            }
        }
    }
}
