//! Python parts: the package `fleet/` with its style, its types and its tests, what looks after
//! surveys in Kubernetes, and what reads dumps. Each has an environment of its own with the
//! packages that a lock names, and no others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::dist::program;
use crate::package;
use crate::process::{output_of, unavailable, Log};
use crate::rust_tests::{cargo, zmeld};
use crate::step::{Rest, Tally, TestScope};
use crate::tools;
use crate::workspace;

const STAMP: &str = "lock";

/// Interpreters, the newest that is likely to be whole first.
const PYTHONS: &[&str] = &["python3", "/usr/bin/python3"];

fn is_usable(python: &str) -> bool {
    let probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";
    output_of(Command::new(python).args(["-c", probe])).is_ok()
}

/// The folder of the environment's programs, under the build's folder.
fn environment(log: &Log, locks: &[PathBuf], folder: &str) -> Result<PathBuf> {
    let Some(python) = PYTHONS.iter().copied().find(|python| is_usable(python)) else {
        unavailable!("no Python of 3.10 or newer with venv");
    };
    let texts: Result<Vec<String>> = locks.iter().map(|lock| workspace::read(lock)).collect();
    let wanted = texts?.concat();
    let folder = workspace::target().join(folder);
    let programs = folder.join("bin");
    let stamp = folder.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    let mut install = Command::new(programs.join("python"));
    // The locks name all that is needed.
    install.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    install.arg("--require-hashes");
    for lock in locks {
        install.arg("-r").arg(lock);
    }
    for mut command in [make, install] {
        if !log.run(&mut command)?.succeeded() {
            unavailable!("its packages cannot be had, is there a network? The log says more");
        }
    }
    workspace::put(&stamp, wanted)?;
    Ok(programs)
}

pub const FLEET: &str = "fleet";

/// Format, lints, types and tests; with Spark and many machines where `--long`.
pub fn fleet(log: &Log, scope: TestScope) -> Result<Rest> {
    let long = scope == TestScope::Long;
    let (locks, folder): (&[_], _) = match long {
        true => (
            &["requirements.lock", "requirements-spark.lock"],
            "fleet-venv-long",
        ),
        false => (&["requirements.lock"], "fleet-venv"),
    };
    let locks = Vec::from_iter(locks.iter().map(|lock| package().join(lock)));
    let programs = environment(log, &locks, folder)?;
    // Its tests with the program are skipped where that does not build.
    let program = zmeld(log).ok();
    Ok(Box::new(move |log| {
        let mut tally = Tally::default();
        for (name, words) in [
            ("ruff format", "ruff format --check"),
            ("ruff check", "ruff check"),
            ("mypy", "mypy"),
        ] {
            let mut command = command(&programs, words);
            tally.add(Tally::of_run(log, name, &mut command, "see above")?);
        }
        let mut pytest = command(&programs, if long { "pytest --long" } else { "pytest" });
        if let Some(program) = program {
            pytest.env("ZMELD", program);
        }
        let ran = log.run(&mut pytest)?;
        tally.add(read_results(&ran.text).whole("pytest", &ran));
        Ok(tally)
    }))
}

fn command(programs: &Path, words: &str) -> Command {
    let mut words = words.split(' ');
    let mut command = Command::new(programs.join(words.next().unwrap_or_default()));
    command.args(words).current_dir(package());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn package() -> PathBuf {
    workspace::root().join("fleet")
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

/// Program that makes mutants of C.
pub fn mutate(log: &Log) -> Result<PathBuf> {
    let lock = workspace::root().join("xtask/mutants/requirements.lock");
    Ok(environment(log, &[lock], "mutants-venv")?.join("mutate"))
}

/// The manifest against the schemas of Kubernetes, and a container with just its rights.
pub const MANIFEST: &str = "kubernetes";
pub const CONTAINER: &str = "kubernetes-run";

pub fn manifest(log: &Log) -> Result<Tally> {
    let mut check = Command::new(kubernetes_environment(log)?.join("python"));
    check.arg(scripts().join("check.py"));
    check.arg(manifests()).arg(package::module_version()?);
    Ok(Tally::of_tap(MANIFEST, &log.run(&mut check)?.text))
}

/// A container of the static program with the rights that the manifest gives it, and with
/// one less.
pub fn container(log: &Log) -> Result<Tally> {
    tools::need_root("running a container so")?;
    tools::need(&["podman", "runc", "unshare", "setpriv"])?;
    let programs = kubernetes_environment(log)?;
    let program = static_program(log)?;
    // In a namespace whose processes are few, and whose first one may be looked at.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    command.arg(programs.join("python"));
    command.arg(scripts().join("run.py"));
    command.args([
        &manifests(),
        &program,
        &workspace::work_folder("kubernetes")?,
    ]);
    Ok(Tally::of_tap(CONTAINER, &log.run(&mut command)?.text))
}

/// Dumps, counted by readers that are not ours.
pub const DUMPS: &str = "world-dumps";

pub fn dumps(log: &Log) -> Result<Tally> {
    let scripts = workspace::root().join("xtask/dumps");
    let lock = scripts.join("requirements.lock");
    let programs = environment(log, &[lock], "dumps-venv")?;
    let mut judge = Command::new(programs.join("python"));
    judge.arg(scripts.join("judge.py"));
    judge.args([&zmeld(log)?, &workspace::work_folder("dumps")?]);
    Ok(Tally::of_tap(DUMPS, &log.run(&mut judge)?.text))
}

fn manifests() -> PathBuf {
    workspace::root().join("packaging/kubernetes")
}

fn scripts() -> PathBuf {
    workspace::root().join("xtask/kubernetes")
}

fn kubernetes_environment(log: &Log) -> Result<PathBuf> {
    let lock = scripts().join("requirements.lock");
    environment(log, &[lock], "kubernetes-venv")
}

fn static_program(log: &Log) -> Result<PathBuf> {
    let target = program::target()?;
    log.must(&mut cargo(&[
        "build",
        "--package",
        "zmeld",
        "--target",
        target.triple,
    ]))?;
    Ok(workspace::target().join(target.triple).join("debug/zmeld"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_comes_from_no_address() {
        for lock in [
            "fleet/requirements.lock",
            "fleet/requirements-spark.lock",
            "xtask/dumps/requirements.lock",
            "xtask/kubernetes/requirements.lock",
        ] {
            let text = fs::read_to_string(workspace::root().join(lock)).unwrap();
            let is_pinned = text.contains("--hash=sha256:") && !text.contains("://");
            assert!(is_pinned, "{lock}");
        }
    }
}
