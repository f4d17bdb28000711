//! Python with the packages that a lock names, and no others: an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{output_of, unavailable, Log};
use crate::workspace;

/// What was installed last stands here.
const STAMP: &str = "lock";

/// Interpreters, the newest that is likely to be whole first.
const PYTHONS: &[&str] = &["python3", "/usr/bin/python3"];

fn is_usable(python: &str) -> bool {
    let probe = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))";
    output_of(Command::new(python).args(["-c", probe])).is_ok()
}

/// The folder of the environment's programs, under the build's folder.
pub fn environment(log: &Log, lock: &Path, folder: &str) -> Result<PathBuf> {
    let Some(python) = PYTHONS.iter().copied().find(|python| is_usable(python)) else {
        unavailable!("no Python of 3.10 or newer with venv");
    };
    let wanted =
        fs::read_to_string(lock).with_context(|| format!("cannot read {}", lock.display()))?;
    let folder = workspace::target().join(folder);
    let programs = folder.join("bin");
    let stamp = folder.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(programs);
    }
    let mut make = Command::new(python);
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    let mut install = Command::new(programs.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--require-hashes", "-r"]);
    install.arg(lock);
    for mut command in [make, install] {
        if !log.run(&mut command)?.succeeded() {
            unavailable!("its packages cannot be had, is there a network? The log says more");
        }
    }
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_locked_comes_from_no_address() {
        let fleet = ["fleet/requirements.lock", "fleet/requirements-long.lock"];
        for lock in fleet
            .into_iter()
            .chain(["xtask/kubernetes/requirements.lock"])
        {
            let text = fs::read_to_string(workspace::root().join(lock)).unwrap();
            let is_pinned = text.contains("--hash=sha256:") && !text.contains("://");
            assert!(is_pinned, "{lock}");
        }
    }
}
