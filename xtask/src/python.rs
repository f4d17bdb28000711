//! Python with the packages that a lock names, and no others: an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::apt::Reason;
use crate::process::Log;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(1800);

/// What was installed last stands here.
const STAMP: &str = "lock";

/// Interpreters, the newest that is likely to be whole first.
const PYTHONS: &[&str] = &["python3", "/usr/bin/python3"];

fn is_usable(python: &str) -> bool {
    let probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";
    let ran = Command::new(python).args(["-c", probe]).output();
    ran.is_ok_and(|output| output.status.success())
}

/// The folder of the environment's programs, under the build's folder; why not, where it
/// cannot be had here.
///
/// # Errors
/// When it was interrupted, or files cannot be read or written.
pub fn environment(
    log: &Log,
    lock: &Path,
    folder: &str,
) -> Result<std::result::Result<PathBuf, Reason>> {
    let Some(python) = PYTHONS.iter().copied().find(|python| is_usable(python)) else {
        return Ok(Err("no Python of 3.10 or newer with venv".into()));
    };
    let wanted =
        fs::read_to_string(lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let folder = workspace::target().join(folder);
    let programs = folder.join("bin");
    let stamp = folder.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(Ok(programs));
    }
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    let mut install = Command::new(programs.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--require-hashes", "-r"]);
    install.arg(lock);
    for mut command in [make, install] {
        if !log.run(&mut command, LIMIT)?.succeeded() {
            let why = "its packages cannot be had, is there a network? The log says more";
            return Ok(Err(why.into()));
        }
    }
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(Ok(programs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_comes_from_no_address() {
        for lock in [
            "fleet/requirements.lock",
            "fleet/requirements-long.lock",
            "xtask/kubernetes/requirements.lock",
        ] {
            let text = fs::read_to_string(workspace::root().join(lock)).unwrap();
            assert!(
                text.contains("--hash=sha256:") && !text.contains("://"),
                "{lock}"
            );
        }
    }
}
