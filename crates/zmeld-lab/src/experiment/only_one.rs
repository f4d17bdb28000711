//! One experiment at a time on a machine: what another one has set up would look
//! like what a killed one left, and both would measure each other.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};
use zmeld_swap::journal::FOLDER;

use crate::error::Error;

/// Held while an experiment runs; the kernel lets go of it with the process, however that ends.
#[derive(Debug)]
pub(super) struct OnlyOne {
    _held: File,
}

impl OnlyOne {
    /// Takes it, or says who has it.
    pub(super) fn here() -> Result<OnlyOne, Error> {
        OnlyOne::at(&path())
    }

    fn at(path: &Path) -> Result<OnlyOne, Error> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|err| Error::io("create", folder, err))?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|err| Error::io("open", path, err))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let holder = holder(path).unwrap_or_default();
            return Err(Error::Unsafe {
                what: format!(
                    "another experiment is running ({holder}): wait for it, or stop it with Ctrl-C"
                ),
            });
        }
        // Only for the message of whoever comes next.
        let _ = file
            .set_len(0)
            .and_then(|()| write!(file, "{}", std::process::id()));
        Ok(OnlyOne { _held: file })
    }
}

fn path() -> PathBuf {
    Path::new(FOLDER).join("experiment")
}

/// The process of the experiment that is running, in words, if one is: whoever changes the machine's swap meanwhile
/// takes it away from under a workload.
pub fn running() -> Option<String> {
    holder(&path())
}

fn holder(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockShared).err()?;
    let holder = fs::read_to_string(path).unwrap_or_default();
    Some(format!("process {}", holder.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/experiment");
        assert_eq!(holder(&path), None);
        let first = OnlyOne::at(&path).unwrap();
        let err = OnlyOne::at(&path).unwrap_err().to_string();
        assert!(
            err.contains(&format!("process {}", std::process::id())),
            "{err}"
        );
        assert_eq!(
            holder(&path),
            Some(format!("process {}", std::process::id()))
        );
        drop(first);
        assert_eq!(holder(&path), None);
        assert!(OnlyOne::at(&path).is_ok());
    }
}
