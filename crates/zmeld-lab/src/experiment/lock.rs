//! One experiment at a time on a machine: what another one has set up would look
//! like what a killed one left, and both would measure each other.

use std::path::{Path, PathBuf};

use zmeld_linux::lock::{self, Attempt, FileLock, Holder};
use zmeld_linux::Host;
use zmeld_observe::run_folder::{self, FOLDER};

use crate::error::Error;

/// Takes it, to be held while an experiment runs, or says who has it.
pub(super) fn take(host: &Host) -> Result<FileLock, Error> {
    run_folder::make(host)?;
    let path = &host.path(path());
    match FileLock::attempt(path).map_err(|err| Error::io("lock", path, err))? {
        Attempt::Taken(held) => Ok(held),
        Attempt::Held(holder) => Err(Error::Unsafe(format!(
            "another experiment is running ({}): wait for it, or stop it with Ctrl-C",
            words(holder)
        ))),
    }
}

/// Whom the kernel names took the lock and lives: what it starts does not inherit it.
fn words(holder: Holder) -> String {
    match holder.pid {
        Some(pid) => format!("process {pid}"),
        None => "a process that cannot be told".to_owned(),
    }
}

fn path() -> PathBuf {
    Path::new(FOLDER).join("experiment")
}

/// The process of the experiment that is running, in words, if one is.
pub fn running() -> Option<String> {
    lock::holder(&path()).map(words)
}

/// The same for whoever changes the machine's swap, which would take it away from under a
/// workload: by the lock itself, too.
pub fn surely_running() -> Option<String> {
    running().or_else(|| lock::is_taken(&path()).then(|| words(Holder { pid: None })))
}
