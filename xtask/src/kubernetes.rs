//! Surveys in Kubernetes: the manifest against the schemas of its versions, and a container
//! with just the manifest's rights.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::dist::program;
use crate::package;
use crate::process::Log;
use crate::python;
use crate::rust_tests::cargo;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "kubernetes";
pub const RUN: &str = "kubernetes-run";

pub fn test(log: &Log) -> Result<Tally> {
    let mut check = Command::new(environment(log)?.join("python"));
    check.arg(scripts().join("check.py"));
    check.arg(folder()).arg(package::module_version()?);
    Ok(Tally::of_tap(STEP, &log.run(&mut check)?.text))
}

/// A container of the static program with the rights that the manifest gives it, and with
/// one less.
pub fn run(log: &Log) -> Result<Tally> {
    tools::need_root("running a container so")?;
    tools::need(&["podman", "runc", "unshare", "setpriv"])?;
    let programs = environment(log)?;
    let program = static_program(log)?;
    // In a namespace whose processes are few, and whose first one may be looked at.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    command.arg(programs.join("python"));
    command.arg(scripts().join("run.py"));
    command.args([&folder(), &program, &workspace::work_folder("kubernetes")?]);
    Ok(Tally::of_tap(RUN, &log.run(&mut command)?.text))
}

fn folder() -> PathBuf {
    workspace::root().join("packaging/kubernetes")
}

fn scripts() -> PathBuf {
    workspace::root().join("xtask/kubernetes")
}

fn environment(log: &Log) -> Result<PathBuf> {
    python::environment(log, &scripts().join("requirements.lock"), "kubernetes-venv")
}

/// The program as images have it.
fn static_program(log: &Log) -> Result<PathBuf> {
    let (target, _) = program::target()?;
    let mut build = cargo(&["build", "--package", "zmeld", "--target", target.triple]);
    if !target.flags().is_empty() {
        build.env("CARGO_ENCODED_RUSTFLAGS", target.flags().join("\x1f"));
    }
    log.must(&mut build)?;
    Ok(workspace::target().join(target.triple).join("debug/zmeld"))
}
