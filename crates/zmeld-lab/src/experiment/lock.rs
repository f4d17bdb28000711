//! One experiment at a time on a machine: what another one has set up would look
//! like what a killed one left, and both would measure each other.

use std::path::{Path, PathBuf};

use zmeld_linux::lock::{self, Attempt, FileLock, Holder};
use zmeld_linux::Host;
use zmeld_swap::run_folder::{self, FOLDER};

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

/// Children of an experiment do not inherit the lock.
fn words(holder: Holder) -> String {
    match holder.pid {
        Some(pid) => format!("process {pid}"),
        None => "a process that cannot be told".to_owned(),
    }
}

fn path() -> PathBuf {
    Path::new(FOLDER).join("experiment")
}

/// Whether an experiment is running.
#[derive(Debug)]
pub enum Running {
    /// None is.
    No,
    /// This process has one, in words.
    Yes(String),
    /// Only root may ask.
    Unknown,
}

/// Whether one is running, by its lock.
pub fn running() -> Running {
    match lock::holder(&path()) {
        Ok(None) => Running::No,
        Ok(Some(holder)) => Running::Yes(words(holder)),
        Err(_) => Running::Unknown,
    }
}
