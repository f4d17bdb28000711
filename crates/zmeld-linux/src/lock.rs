//! A file that one program has locked at a time, and who that is.
//!
//! The kernel lets go of the lock with the last descriptor, however a program ends.
//! The file is its owner's alone: whoever can open it can hold its lock, and so keep
//! the owner out. The file stays; it holds the number of the process that has the lock,
//! for the message of whoever waits.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{flock, FlockOperation, OFlags};
use rustix::io::{fcntl_getfd, fcntl_setfd, Errno, FdFlags};

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

/// Who has a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The process, where that is known.
    pub pid: Option<u32>,
}

/// What came of trying to take a lock.
#[derive(Debug)]
pub enum Attempt {
    /// It was free.
    Taken(FileLock),
    /// Somebody has it.
    Held(Holder),
}

impl FileLock {
    /// Takes the lock on a file, which is made if it is missing, unless somebody has it.
    ///
    /// # Errors
    /// When the file cannot be opened, made its owner's alone, or locked; a symbolic
    /// link is none.
    pub fn attempt(path: &Path) -> io::Result<Attempt> {
        let file = open(path)?;
        match lock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Another one may have its name by now: see `FileLock::renew`.
            Ok(()) if !has_name(&file, path) => FileLock::attempt(path),
            Ok(()) => Ok(Attempt::Taken(FileLock::signed(file))),
            Err(Errno::WOULDBLOCK) => Ok(Attempt::Held(Holder {
                pid: written_in(path),
            })),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Puts another file in the place of this one, locked as well. What was started with
    /// the one before, and does not end however it is killed, holds nobody up any more.
    ///
    /// # Errors
    /// When it cannot be made; this one stays then.
    pub fn renew(&mut self, path: &Path) -> io::Result<()> {
        let part = path.with_extension("new");
        match fs::remove_file(&part) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
        let file = open(&part)?;
        lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&part, path)?;
        *self = FileLock::signed(file);
        Ok(())
    }

    /// Takes the lock, and waits for it as long as somebody else has it.
    pub fn wait(path: &Path) -> io::Result<FileLock> {
        let file = open(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        Ok(FileLock::signed(file))
    }

    fn signed(mut file: File) -> FileLock {
        // Only for a message.
        let _ = file.set_len(0);
        let _ = write!(file, "{}", std::process::id());
        FileLock { file }
    }

    /// Passes the lock on to programs that are started: it is held until the last of
    /// them has ended, even where this one was killed.
    pub fn pass_on(&self) -> io::Result<()> {
        let flags = fcntl_getfd(&self.file)?;
        Ok(fcntl_setfd(&self.file, flags & !FdFlags::CLOEXEC)?)
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Left behind, the number misleads nobody: the lock is what counts.
        let _ = self.file.set_len(0);
    }
}

fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// [`flock`]; a signal ends no wait.
fn lock(file: &File, operation: FlockOperation) -> Result<(), Errno> {
    loop {
        match flock(file, operation) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn has_name(file: &File, path: &Path) -> bool {
    let (Ok(one), Ok(other)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn written_in(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Who has the lock on a file; nobody where there is no such file, or who asks may not open
/// it.
pub fn holder(path: &Path) -> Option<Holder> {
    let file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockShared).err()?;
    Some(Holder {
        pid: written_in(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert_eq!(holder(&path), None);
        let Attempt::Taken(first) = FileLock::attempt(&path).unwrap() else {
            panic!("nobody has it");
        };
        let us = Holder {
            pid: Some(std::process::id()),
        };
        let Attempt::Held(told) = FileLock::attempt(&path).unwrap() else {
            panic!("it is held");
        };
        assert_eq!((told, holder(&path)), (us, Some(us)));
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
        drop(FileLock::wait(&path).unwrap());
    }

    #[test]
    fn a_lock_that_is_renewed_is_held_and_the_one_before_holds_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mut first = FileLock::wait(&path).unwrap();
        // As a command that was given up has it.
        let inherited = first.file.try_clone().unwrap();
        first.renew(&path).unwrap();
        assert!(matches!(
            FileLock::attempt(&path).unwrap(),
            Attempt::Held(_)
        ));
        drop(first);
        for _ in 0..1000 {
            if let Attempt::Taken(second) = FileLock::attempt(&path).unwrap() {
                assert!(has_name(&second.file, &path) && !has_name(&inherited, &path));
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it is held");
    }

    #[test]
    fn a_link_is_refused_and_what_it_leads_to_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "untouched").unwrap();
        let link = folder.path().join("lock");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(FileLock::attempt(&link).is_err());
        assert!(FileLock::wait(&link).is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    }
}
