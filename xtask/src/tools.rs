//! The tools that a machine may lack: whether they are here, and whether they work.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
pub use zmeld_vm::on_path;

use crate::process::{output_of, unavailable, Log};
use crate::workspace;

const PROBE_LIMIT: Duration = Duration::from_secs(60);

pub fn c_compiler() -> OsString {
    env::var_os("CC").unwrap_or_else(|| "cc".into())
}

/// Whether there is a program of that name; it is not started.
pub fn is_on_path(program: &str) -> bool {
    on_path(program).is_some()
}

pub fn need(programs: &[&str]) -> Result<()> {
    let is_missing = |program: &&&str| !is_on_path(program);
    let missing: Vec<&str> = programs.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        unavailable!("missing: {}", missing.join(", "));
    }
    Ok(())
}

pub fn need_root(what: &str) -> Result<()> {
    if !is_root() {
        unavailable!("{what}: only root may");
    }
    Ok(())
}

/// Fails if zmeld has set this machine up: setups in a Debian of its own do not see that.
pub fn need_not_set_up() -> Result<()> {
    if Path::new("/run/zmeld/state.json").exists() {
        unavailable!("zmeld has set this machine up: zmeld down first");
    }
    Ok(())
}

/// Whether the compiler makes programs with these flags that also run, behind
/// `run_with` and with the argument `-runs=1`, which libFuzzer obeys and others
/// ignore; if not, what it said.
pub fn works(
    log: &Log,
    compiler: &OsString,
    flags: &[&str],
    source: &str,
    run_with: &[&str],
) -> Result<std::result::Result<(), String>> {
    let folder = workspace::work_folder("probe")?;
    let file = folder.join("probe.c");
    let program = folder.join("probe");
    fs::write(&file, source)?;
    let mut compile = Command::new(compiler);
    compile.args(flags).arg(&file).arg("-o").arg(&program);
    let mut words: Vec<PathBuf> = run_with.iter().map(PathBuf::from).collect();
    words.push(program);
    let mut start = Command::new(&words[0]);
    start.args(&words[1..]).arg("-runs=1");
    for mut command in [compile, start] {
        match log.run_for(&mut command, PROBE_LIMIT) {
            Err(error) => return Ok(Err(format!("{error:#}"))),
            Ok(ran) if !ran.succeeded() => return Ok(Err(first_line(&ran.text))),
            Ok(_) => {}
        }
    }
    Ok(Ok(()))
}

fn first_line(text: &str) -> String {
    text.lines()
        .find(|line| !line.starts_with("$ ") && !line.trim().is_empty())
        .unwrap_or("it said nothing")
        .to_owned()
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// The first number of clang's version, where there is a clang.
pub fn clang_major() -> Option<String> {
    let version = output_of(Command::new("clang").arg("-dumpversion")).ok()?;
    version.split('.').next().map(str::to_owned)
}
