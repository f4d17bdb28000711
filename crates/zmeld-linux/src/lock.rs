//! A file that one program has locked at a time, and who that is.
//!
//! The kernel lets go of the lock with the last descriptor, however a program ends. The file is its
//! owner's alone: whoever can open it can hold its lock, and so keep the owner out. The file stays.
//! The holder is written in it, with when that process began: one that was killed leaves its number
//! there. `/proc/locks` is not read, which any user can make as long as he likes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{flock, FlockOperation, OFlags};
use rustix::io::{fcntl_getfd, fcntl_setfd, Errno, FdFlags};

use crate::process::began_of;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The process that took it, where it is known and lives. A command that inherited the lock may
    /// have it longer.
    pub pid: Option<u32>,
}

/// Result of trying to take a lock.
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
        loop {
            match lock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Another one may have its name by now: see `FileLock::renew`.
                Ok(()) if !has_name(&file, path) => return FileLock::attempt(path),
                Ok(()) => return Ok(Attempt::Taken(FileLock::held(file)?)),
                Err(Errno::WOULDBLOCK) => {}
                Err(cause) => return Err(cause.into()),
            }
            // A query shares the lock for a moment: that is no holder.
            match lock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => thread::sleep(AGAIN),
                Err(Errno::WOULDBLOCK) => return Ok(Attempt::Held(named_in(&file))),
                Err(cause) => return Err(cause.into()),
            }
        }
    }

    /// With this process written in its file.
    fn held(file: File) -> io::Result<FileLock> {
        let began = began_of(std::process::id()).unwrap_or_default();
        let text = format!("{} {began}\n", std::process::id());
        file.set_len(0)?;
        file.write_all_at(text.as_bytes(), 0)?;
        Ok(FileLock { file })
    }

    /// Puts another file in the place of this one, locked as well. A process started with the one
    /// before that does not end however it is killed holds nobody up any more.
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
        let renewed = FileLock::held(file)?;
        fs::rename(&part, path)?;
        *self = renewed;
        Ok(())
    }

    /// Takes the lock, and waits for it as long as somebody else has it.
    pub fn wait(path: &Path) -> io::Result<FileLock> {
        let file = open(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        FileLock::held(file)
    }

    /// Passes the lock on to programs that are started: it is held until the last of
    /// them has ended, even where this one was killed.
    pub fn pass_on(&self) -> io::Result<()> {
        let flags = fcntl_getfd(&self.file)?;
        Ok(fcntl_setfd(&self.file, flags & !FdFlags::CLOEXEC)?)
    }
}

impl Drop for FileLock {
    /// Clears the pid: an inheritor has another.
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
    }
}

/// How soon a lock is tried again that somebody shares.
const AGAIN: Duration = Duration::from_micros(50);

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

/// The holder of the lock on a file; none where there is no such file. Asking keeps nobody from it.
///
/// # Errors
/// When this user may not open it: then it cannot be told.
pub fn holder(path: &Path) -> io::Result<Option<Holder>> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match lock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(None),
        Err(Errno::WOULDBLOCK) => Ok(Some(named_in(&file))),
        Err(cause) => Err(cause.into()),
    }
}

/// The process named in the file, unless it has ended: its number may be another's by now.
fn named_in(file: &File) -> Holder {
    let mut bytes = [0; 64];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]);
    let named = text.trim_end().split_once(' ');
    let named = named.and_then(|(pid, time)| Some((pid.parse().ok()?, time.parse().ok()?)));
    Holder {
        pid: named
            .filter(|it| began_of(it.0) == Some(it.1))
            .map(|it| it.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_anothers_by_now_is_not_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::wait(&path).unwrap();
        let us = std::process::id();
        let named = || holder(&path).unwrap().map(|it| it.pid);
        assert_eq!(named(), Some(Some(us)));
        // As one that was killed leaves it, whose command has the lock still.
        for left in [
            format!("{us} 1\n"),
            "4194304 7\n".into(),
            "x".into(),
            String::new(),
        ] {
            fs::write(&path, &left).unwrap();
            assert_eq!(named(), Some(None), "{left}");
        }
        drop(held);
        assert_eq!(named(), None);
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
        for _ in 0..60_000 {
            if let Attempt::Taken(second) = FileLock::attempt(&path).unwrap() {
                assert!(has_name(&second.file, &path) && !has_name(&inherited, &path));
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it is held");
    }
}
