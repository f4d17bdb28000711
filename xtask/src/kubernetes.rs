//! Surveys in Kubernetes: the manifest against the schemas of its versions, and a container
//! with just the manifest's rights.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::apt::Reason;
use crate::dist::program;
use crate::package;
use crate::process::Log;
use crate::python;
use crate::rust_tests::cargo;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

/// The step that reads the manifest.
pub const STEP: &str = "kubernetes";
/// The step that runs a container.
pub const RUN: &str = "kubernetes-run";

const LIMIT: Duration = Duration::from_secs(3600);

/// The manifest against the schemas.
pub fn test(log: &Log) -> Result<Tally> {
    let programs = match environment(log)? {
        Ok(programs) => programs,
        Err(why) => return Ok(Tally::skip(STEP, why)),
    };
    let mut check = Command::new(programs.join("python"));
    check.arg(scripts().join("check.py"));
    check.arg(folder()).arg(package::module_version()?);
    let ran = log.run(&mut check, LIMIT)?;
    Ok(read_results(&ran.text, ran.succeeded()))
}

/// A container of the static program with the rights that the manifest gives it, and with
/// one less.
pub fn run(log: &Log) -> Result<Tally> {
    if !tools::is_root() {
        return Ok(Tally::skip(RUN, "only root runs a container so"));
    }
    for program in ["podman", "runc", "unshare", "setpriv"] {
        if !tools::is_on_path(program) {
            return Ok(Tally::skip(RUN, format!("{program} is not installed")));
        }
    }
    let programs = match environment(log)? {
        Ok(programs) => programs,
        Err(why) => return Ok(Tally::skip(RUN, why)),
    };
    let program = static_program(log)?;
    // In a namespace whose processes are few, and whose first one may be looked at.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    command.arg(programs.join("python"));
    command.arg(scripts().join("run.py"));
    command.args([&folder(), &program, &workspace::work_folder("kubernetes")?]);
    let ran = log.run(&mut command, LIMIT)?;
    Ok(read_results(&ran.text, ran.succeeded()))
}

fn folder() -> PathBuf {
    workspace::root().join("packaging/kubernetes")
}

fn scripts() -> PathBuf {
    workspace::root().join("xtask/kubernetes")
}

fn environment(log: &Log) -> Result<std::result::Result<PathBuf, Reason>> {
    python::environment(log, &scripts().join("requirements.lock"), "kubernetes-venv")
}

/// The program as images have it.
fn static_program(log: &Log) -> Result<PathBuf> {
    let (target, _) = program::target()?;
    let mut build = cargo(&["build", "--package", "zmeld", "--target", target.triple]);
    if !target.flags().is_empty() {
        build.env("CARGO_ENCODED_RUSTFLAGS", target.flags().join("\x1f"));
    }
    if !log.run(&mut build, LIMIT)?.succeeded() {
        bail!("the static program does not build");
    }
    let built = workspace::target().join(target.triple).join("debug/zmeld");
    match is_file(&built) {
        true => Ok(built),
        false => bail!("cargo left no {}", built.display()),
    }
}

fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file())
}

/// Lines `ok NAME`, `FAILED NAME - WHY` and `SKIP: WHY`.
fn read_results(text: &str, succeeded: bool) -> Tally {
    let mut tally = Tally::default();
    for line in text.lines() {
        if line.starts_with("ok ") {
            tally.passed += 1;
        } else if let Some(failed) = line.strip_prefix("FAILED ") {
            tally.add(match failed.split_once(" - ") {
                Some((name, why)) => Tally::fail(name, why),
                None => Tally::fail(failed, "see above"),
            });
        }
    }
    tally.add_skip_lines(RUN, text);
    let silent = tally.passed == 0 && tally.skipped.is_empty();
    if tally.failed.is_empty() && (silent || !succeeded) {
        tally.add(Tally::fail(STEP, "it ended before its checks did"));
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let tally = read_results("ok one\nFAILED two - why - so\nok three\n", false);
        assert_eq!((tally.passed, tally.failed.len()), (2, 1));
        assert_eq!(tally.failed[0], ("two".to_owned(), "why - so".to_owned()));
        assert_eq!(read_results("ok one\n", false).failed.len(), 1);
        assert_eq!(read_results("", true).failed.len(), 1);
        let skipped = read_results("SKIP: no containers\n", true);
        assert_eq!((skipped.failed.len(), skipped.skipped.len()), (0, 1));
    }
}
