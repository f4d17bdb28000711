//! A file that one program has locked at a time, and who that is.
//!
//! The kernel lets go of the lock with the last descriptor, however a program ends.
//! The file is its owner's alone: whoever can open it can hold its lock, and so keep
//! the owner out. The file stays, and is empty. Who has the lock `/proc/locks` tells.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{flock, major, minor, FlockOperation, OFlags};
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
            Ok(()) => Ok(Attempt::Taken(FileLock { file })),
            // It may be free again by now.
            Err(Errno::WOULDBLOCK) => {
                Ok(Attempt::Held(holder(path).unwrap_or(Holder { pid: None })))
            }
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
        *self = FileLock { file };
        Ok(())
    }

    /// Takes the lock, and waits for it as long as somebody else has it.
    pub fn wait(path: &Path) -> io::Result<FileLock> {
        let file = open(path)?;
        lock(&file, FlockOperation::LockExclusive)?;
        Ok(FileLock { file })
    }

    /// Passes the lock on to programs that are started: it is held until the last of
    /// them has ended, even where this one was killed.
    pub fn pass_on(&self) -> io::Result<()> {
        let flags = fcntl_getfd(&self.file)?;
        Ok(fcntl_setfd(&self.file, flags & !FdFlags::CLOEXEC)?)
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

/// Who has the lock on a file; nobody where there is no such file. Whoever asks needs no
/// right to open it, and keeps nobody from the lock meanwhile.
pub fn holder(path: &Path) -> Option<Holder> {
    let file = fs::symlink_metadata(path).ok()?;
    let (dev, inode) = (file.dev(), file.ino());
    let wanted = format!("{:02x}:{:02x}:{inode}", major(dev), minor(dev));
    holder_of(&wanted, &fs::read_to_string("/proc/locks").ok()?)
}

/// Whether somebody has the lock on a file, by the lock itself: `/proc/locks` leaves out who is in
/// another PID namespace. Nobody else gets it meanwhile.
pub fn is_taken(path: &Path) -> bool {
    let file = OpenOptions::new().read(true).open(path);
    file.is_ok_and(|it| lock(&it, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
}

/// `2: FLOCK  ADVISORY  WRITE 31494 fe:00:9986779 0 EOF`; who waits for it has a line with
/// `->` before the kind.
fn holder_of(file: &str, locks: &str) -> Option<Holder> {
    let mut lines = locks.lines().map(|line| line.split_whitespace().skip(1));
    lines.find_map(|mut words| {
        // Who looks whether it is taken has it for reading, for a moment.
        let is_it = words.next()? == "FLOCK" && words.clone().nth(1)? == "WRITE";
        let is_it = is_it && words.clone().nth(3)? == file;
        let pid = words.nth(2)?.parse().ok();
        is_it.then_some(Holder { pid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_lock_is_told_from_who_waits_and_from_other_locks() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE -1 fe:02:7 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 14 fe:02:8 0 EOF\n5: FLOCK\n\n";
        let pid = |file| holder_of(file, locks).map(|it| it.pid);
        assert_eq!((pid("fe:00:77"), pid("fe:02:8")), (Some(Some(12)), None));
        assert_eq!((pid("fe:00:7"), pid("fe:02:7")), (None, Some(None)));
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
