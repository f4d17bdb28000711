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
        Attempt::Held(holder) => Err(Error::Unsafe {
            what: format!(
                "another experiment is running ({}): wait for it, or stop it with Ctrl-C",
                words(lock::holder(path).unwrap_or(holder))
            ),
        }),
    }
}

fn words(holder: Holder) -> String {
    match holder.pid {
        Some(pid) => format!("process {pid}"),
        None => "a process that cannot be told".to_owned(),
    }
}

fn path() -> PathBuf {
    Path::new(FOLDER).join("experiment")
}

/// The process of the experiment that is running, in words, if one is: whoever changes the machine's swap meanwhile
/// takes it away from under a workload.
pub fn running() -> Option<String> {
    lock::holder(&path()).map(words)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_second_is_told_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        let _first = take(&host).unwrap();
        let err = take(&host).unwrap_err().to_string();
        let us = format!("process {}", std::process::id());
        assert!(err.contains(&us), "{err}");
    }

    #[test]
    fn a_link_or_a_folder_of_others_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        run_folder::make(&host).unwrap();
        let own = host.path(FOLDER);
        let target = folder.path().join("target");
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, own.join("experiment")).unwrap();
        assert!(take(&host).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        fs::remove_file(own.join("experiment")).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
        let err = take(&host).unwrap_err();
        assert!(err.to_string().contains("closed to others"), "{err}");
    }
}
