//! The one way to read and write what the kernel shows under `/sys` and `/proc`,
//! and to run the commands that set swap up.
//!
//! Paths are always written as the machine knows them, `/sys/block/zram0/...`. A
//! [`Host`] puts its root directory in front, `/` unless a test says otherwise.
//! Reads are bounded and what is no text is made text, so that a hostile tree
//! can neither fill memory nor smuggle control characters into messages.

mod command;
mod swaps;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

pub use command::{Finished, Invocation};
pub use swaps::ActiveSwap;

use crate::error::Error;

/// More than the kernel says in any file that is read here (`/proc/swaps`,
/// `zoneinfo` of a large machine); what is longer is refused.
const READ_MAX: u64 = 4 << 20;

/// What a machine lets one do. The real one is [`Direct`]; tests put another in
/// its place, to see every operation and to stop at any of them.
pub trait Access: Send + Sync {
    /// Reads a file, at most `limit` bytes of it.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Writes a value into a file that exists, with one system call.
    ///
    /// # Errors
    /// What the system says.
    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()>;

    /// Runs a command to its end.
    ///
    /// # Errors
    /// When it cannot be started.
    fn run(&self, invocation: &Invocation) -> io::Result<Finished>;

    /// The same; once `stop` is set, the command is asked to end (SIGINT).
    ///
    /// # Errors
    /// When it cannot be started.
    fn run_until(&self, invocation: &Invocation, stop: &AtomicBool) -> io::Result<Finished> {
        let _ = stop;
        self.run(invocation)
    }
}

/// The machine's own files and commands.
#[derive(Debug, Clone, Copy, Default)]
pub struct Direct;

impl Access for Direct {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        // Neither created nor cut off: these are the kernel's files.
        let mut file = OpenOptions::new().write(true).open(path)?;
        let written = file.write(value)?;
        if written == value.len() {
            Ok(())
        } else {
            Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("only {written} of {} bytes were taken", value.len()),
            ))
        }
    }

    fn run(&self, invocation: &Invocation) -> io::Result<Finished> {
        command::run(invocation, None)
    }

    fn run_until(&self, invocation: &Invocation, stop: &AtomicBool) -> io::Result<Finished> {
        command::run(invocation, Some(stop))
    }
}

/// A machine: a root directory and a way to get at it.
#[derive(Clone)]
pub struct Host {
    root: PathBuf,
    access: Arc<dyn Access>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("root", &self.root).finish()
    }
}

impl Default for Host {
    fn default() -> Host {
        Host::here()
    }
}

impl Host {
    /// This machine.
    pub fn here() -> Host {
        Host::with("/", Arc::new(Direct))
    }

    /// A tree that looks like a machine. Commands run on this machine all the
    /// same, so give it an [`Access`] of its own ([`Host::with`]) where more than
    /// reading is wanted.
    pub fn at(root: impl Into<PathBuf>) -> Host {
        Host::with(root, Arc::new(Direct))
    }

    /// A root directory and a way to get at it.
    pub fn with(root: impl Into<PathBuf>, access: Arc<dyn Access>) -> Host {
        Host {
            root: root.into(),
            access,
        }
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a path of the machine lies for this process.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Is there such a file, device or directory?
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a file, without white space around it.
    ///
    /// # Errors
    /// When it cannot be read or is longer than anything the kernel says.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, Error> {
        Ok(clean(&self.read_bytes(path)?).trim().to_owned())
    }

    /// The bytes of a file, for names in it that need not be text.
    ///
    /// # Errors
    /// Those of [`Host::read`].
    pub(crate) fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
        let path = path.as_ref();
        let bytes = self
            .access
            .read(&self.path(path), READ_MAX + 1)
            .map_err(|cause| Error::io("read", path, cause))?;
        if bytes.len() as u64 > READ_MAX {
            return Err(Error::malformed(
                path,
                format!("is longer than {READ_MAX} bytes: it is not the kernel's"),
            ));
        }
        Ok(bytes)
    }

    /// The first bytes of a file or device.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read_start(&self, path: &Path, bytes: usize) -> Result<Vec<u8>, Error> {
        let read = self.access.read(&self.path(path), bytes as u64);
        read.map_err(|cause| Error::io("read", path, cause))
    }

    /// The text of a file that may not be there: another kernel, no such module.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn read_optional(&self, path: impl AsRef<Path>) -> Result<Option<String>, Error> {
        match self.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(Error::Io { cause, .. }) if is_absent(&cause) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// The number in a file.
    ///
    /// # Errors
    /// When it cannot be read or holds no number.
    pub fn read_u64(&self, path: impl AsRef<Path>) -> Result<u64, Error> {
        let path = path.as_ref();
        let text = self.read(path)?;
        text.parse().map_err(|_| {
            Error::malformed(
                path,
                format!("holds \"{}\" where a number is expected", short(&text)),
            )
        })
    }

    /// The names in a directory, sorted; none where there is no such directory. Those
    /// that are not text are left out: the kernel gives no such name, but to a control
    /// group (`Host::folders`).
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        let path = path.as_ref();
        let entries = match fs::read_dir(self.path(path)) {
            Ok(entries) => entries,
            Err(cause) if is_absent(&cause) => return Ok(Vec::new()),
            Err(cause) => return Err(Error::io("list", path, cause)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| Error::io("list", path, cause))?;
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The directories in a directory, sorted, whatever they are called; symbolic
    /// links are none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub(crate) fn folders(&self, path: &Path) -> Result<Vec<PathBuf>, Error> {
        let entries = match fs::read_dir(self.path(path)) {
            Ok(entries) => entries,
            Err(cause) if is_absent(&cause) => return Ok(Vec::new()),
            Err(cause) => return Err(Error::io("list", path, cause)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|cause| Error::io("list", path, cause))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path.join(entry.file_name()));
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// Writes a value into one of the kernel's files, which must be there.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn write(&self, path: impl AsRef<Path>, value: &str) -> Result<(), Error> {
        let path = path.as_ref();
        self.access
            .write(&self.path(path), value.as_bytes())
            .map_err(|cause| Error::io(format!("write \"{value}\" to"), path, cause))
    }

    /// Runs a command and gives its standard output.
    ///
    /// # Errors
    /// When it is not installed or comes back with an error; its standard error
    /// is quoted.
    pub fn run(&self, invocation: &Invocation) -> Result<String, Error> {
        output(invocation, self.attempt(invocation)?)
    }

    /// [`Host::run`]; once `stop` is set, the command is asked to end.
    ///
    /// # Errors
    /// Those of [`Host::run`]; a command that was ended is one that came back with
    /// an error.
    pub fn run_until(&self, invocation: &Invocation, stop: &AtomicBool) -> Result<String, Error> {
        output(
            invocation,
            self.started(invocation, self.access.run_until(invocation, stop))?,
        )
    }

    /// Runs a command whose exit code is an answer.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn attempt(&self, invocation: &Invocation) -> Result<Finished, Error> {
        self.started(invocation, self.access.run(invocation))
    }

    fn started(
        &self,
        invocation: &Invocation,
        result: io::Result<Finished>,
    ) -> Result<Finished, Error> {
        result.map_err(|cause| {
            if cause.kind() == io::ErrorKind::NotFound {
                Error::NotInstalled {
                    program: invocation.program.clone(),
                    package: command::package(&invocation.program),
                }
            } else {
                Error::io("run", &invocation.program, cause)
            }
        })
    }
}

/// What a command printed, where it succeeded.
fn output(invocation: &Invocation, finished: Finished) -> Result<String, Error> {
    if finished.code == Some(0) {
        return Ok(finished.output);
    }
    Err(Error::Command {
        command: invocation.to_string(),
        status: finished.status(),
        said: finished.said(),
    })
}

/// Nothing of the kind is there. A device that vanishes between two reads says
/// "no such device".
pub(crate) fn is_absent(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || cause.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error())
}

/// Bytes as text; what is neither text nor white space becomes a question mark.
fn clean(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| match c {
            '\n' | '\t' | ' ' => c,
            c if c.is_control() => '?',
            c => c,
        })
        .collect()
}

/// As much of a text as a message can hold.
pub(crate) fn short(text: &str) -> String {
    const MAX: usize = 60;
    let line = text.replace(['\n', '\t'], " ");
    if line.chars().count() <= MAX {
        return line;
    }
    let mut cut: String = line.chars().take(MAX).collect();
    cut.push_str("...");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        fs::create_dir_all(host.path("/sys/block/zram0")).unwrap();
        (dir, host)
    }

    #[test]
    fn files_are_read_below_the_root_and_named_without_it() {
        let (_dir, host) = tree();
        fs::write(host.path("/sys/block/zram0/disksize"), " 4096\n").unwrap();
        assert_eq!(host.read("/sys/block/zram0/disksize").unwrap(), "4096");
        assert_eq!(host.read_u64("/sys/block/zram0/disksize").unwrap(), 4096);
        assert_eq!(
            host.read_optional("/sys/block/zram0/nothing").unwrap(),
            None
        );
        let err = host.read("/sys/block/zram0/nothing").unwrap_err();
        assert_eq!(
            err.to_string(),
            "cannot read /sys/block/zram0/nothing: No such file or directory"
        );
        assert_eq!(host.list("/sys/block").unwrap(), ["zram0"]);
        assert!(host.list("/sys/class/none").unwrap().is_empty());
    }

    #[test]
    fn what_a_hostile_tree_says_stays_bounded_and_harmless() {
        let (_dir, host) = tree();
        let at = "/sys/block/zram0/disksize";
        fs::write(host.path(at), b"\x1b[2J\xff\x00 12\n").unwrap();
        assert_eq!(host.read(at).unwrap(), "?[2J\u{fffd}? 12");
        let err = host.read_u64(at).unwrap_err().to_string();
        assert!(!err.contains('\x1b') && err.contains("number"), "{err}");
        fs::write(host.path(at), "").unwrap();
        assert!(host.read_u64(at).is_err());
        for number in ["-1", "18446744073709551616", "1e9", "0x10"] {
            fs::write(host.path(at), number).unwrap();
            assert!(host.read_u64(at).is_err(), "{number}");
        }
        fs::write(host.path(at), vec![b'1'; READ_MAX as usize + 5]).unwrap();
        let err = host.read(at).unwrap_err().to_string();
        assert!(err.contains("longer") && err.len() < 200, "{err}");
        fs::remove_file(host.path(at)).unwrap();
        fs::create_dir(host.path(at)).unwrap();
        assert!(host.read(at).is_err());
    }

    #[test]
    fn values_are_written_only_where_a_file_is() {
        let (_dir, host) = tree();
        let at = "/sys/block/zram0/comp_algorithm";
        let err = host.write(at, "lz4").unwrap_err();
        assert_eq!(
            err.to_string(),
            "cannot write \"lz4\" to /sys/block/zram0/comp_algorithm: No such file or directory"
        );
        assert!(!host.exists(at), "writing must not create a file");
        fs::write(host.path(at), "").unwrap();
        host.write(at, "lz4").unwrap();
        assert_eq!(host.read(at).unwrap(), "lz4");
    }
}
