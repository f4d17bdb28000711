//! The tools that a machine may lack: whether they are here, and whether they work.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::process::Log;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(900);

/// An empty program needs no time.
const PROBE_LIMIT: Duration = Duration::from_secs(60);

/// The C compiler of the tests: `CC`, or `cc`.
pub fn c_compiler() -> OsString {
    env::var_os("CC").unwrap_or_else(|| "cc".into())
}

/// Whether a program can be started at all.
pub fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

pub use zmeld_vm::on_path;

/// Whether there is a program of that name; it is not started.
pub fn is_on_path(program: &str) -> bool {
    on_path(program).is_some()
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
    match log.run(&mut compile, LIMIT) {
        Err(error) => return Ok(Err(format!("{error:#}"))),
        Ok(ran) if !ran.succeeded() => return Ok(Err(first_line(&ran.text))),
        Ok(_) => {}
    }
    let mut words: Vec<PathBuf> = run_with.iter().map(PathBuf::from).collect();
    words.push(program);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg("-runs=1");
    Ok(match log.run(&mut command, PROBE_LIMIT) {
        Err(error) => Err(format!("{error:#}")),
        Ok(ran) if !ran.succeeded() => Err(first_line(&ran.text)),
        Ok(_) => Ok(()),
    })
}

/// The first line that a program said, after the command's own.
fn first_line(text: &str) -> String {
    text.lines()
        .find(|line| !line.starts_with("$ ") && !line.trim().is_empty())
        .unwrap_or("it said nothing")
        .to_owned()
}

/// Whether this is root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The first number of clang's version, where there is a clang.
pub fn clang_major() -> Option<String> {
    let output = Command::new("clang").arg("-dumpversion").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    version.trim().split('.').next().map(str::to_owned)
}
