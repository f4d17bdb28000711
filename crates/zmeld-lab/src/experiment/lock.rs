//! One experiment at a time on a machine: what another one has set up would look
//! like what a killed one left, and both would measure each other.

//!
//! The file is root's alone: whoever can open it could hold its lock, and so forbid
//! experiments, `up` and `down`. Others learn of the holder from `/proc/locks`.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, major, minor, FlockOperation, OFlags};
use zmeld_swap::journal::FOLDER;
use zmeld_swap::{run_folder, Host};

use crate::error::Error;

/// Held while an experiment runs; the kernel lets go of it with the process, however that ends.
#[derive(Debug)]
pub(super) struct ExperimentLock {
    _held: File,
}

impl ExperimentLock {
    /// Takes it, or says who has it.
    pub(super) fn here() -> Result<ExperimentLock, Error> {
        ExperimentLock::on(&Host::here())
    }

    fn on(host: &Host) -> Result<ExperimentLock, Error> {
        run_folder::make(host)?;
        let path = &host.path(path());
        let open = || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits() as i32)
                .open(path)?;
            // A version before made it readable.
            file.set_permissions(Permissions::from_mode(0o600))?;
            Ok(file)
        };
        let mut file: File = open().map_err(|err| Error::io("open", path, err))?;
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
        Ok(ExperimentLock { _held: file })
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
    let meta = fs::symlink_metadata(path).ok()?;
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    if let Some(pid) = locked_by(&locks, &meta) {
        return Some(format!("process {pid}"));
    }
    // Where the file system's number is not the one that the kernel lists locks by.
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockShared).err()?;
    let holder = fs::read_to_string(path).unwrap_or_default();
    Some(format!("process {}", holder.trim()))
}

/// The process that holds a lock on a file: `8: FLOCK  ADVISORY  WRITE 30691 00:18:1234 0 EOF`.
fn locked_by(locks: &str, meta: &fs::Metadata) -> Option<u32> {
    let (device, inode) = (meta.dev(), meta.ino());
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let held = locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, place, ..] if place == file => Some(pid),
            _ => None,
        }
    });
    held?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/zmeld/experiment");
        let host = Host::at(folder.path());
        assert_eq!(holder(&path), None);
        let first = ExperimentLock::on(&host).unwrap();
        let err = ExperimentLock::on(&host).unwrap_err().to_string();
        assert!(
            err.contains(&format!("process {}", std::process::id())),
            "{err}"
        );
        assert_eq!(
            holder(&path),
            Some(format!("process {}", std::process::id()))
        );
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "others can open and so lock it");
        drop(first);
        // A test beside this one may be starting a program: until that runs, it has
        // the file open, too.
        for _ in 0..1000 {
            if holder(&path).is_none() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(holder(&path), None);
        assert!(ExperimentLock::on(&host).is_ok());
    }

    #[test]
    fn a_link_or_a_folder_of_others_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::at(folder.path());
        run_folder::make(&host).unwrap();
        let own = host.path(FOLDER);
        let target = folder.path().join("target");
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, own.join("experiment")).unwrap();
        assert!(ExperimentLock::on(&host).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        fs::remove_file(own.join("experiment")).unwrap();
        fs::set_permissions(&own, Permissions::from_mode(0o777)).unwrap();
        let err = ExperimentLock::on(&host).unwrap_err();
        assert!(err.to_string().contains("closed to others"), "{err}");
    }

    #[test]
    fn a_holder_is_read_from_the_table_of_locks() {
        let folder = tempfile::tempdir().unwrap();
        let meta = fs::metadata(folder.path()).unwrap();
        let place = format!(
            "{:02x}:{:02x}:{}",
            major(meta.dev()),
            minor(meta.dev()),
            meta.ino()
        );
        let line = |kind: &str| format!("1: FLOCK  ADVISORY  {kind} 77 {place} 0 EOF\n");
        assert_eq!(locked_by(&line("WRITE"), &meta), Some(77));
        assert_eq!(locked_by(&line("READ"), &meta), None);
        assert_eq!(
            locked_by("1: FLOCK ADVISORY WRITE 77 00:00:1 0 EOF\n", &meta),
            None
        );
    }
}
