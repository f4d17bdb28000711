//! The one way to read and write what the kernel shows under `/sys` and `/proc`,
//! and to run commands.
//!
//! Paths are always written as the machine knows them, `/sys/block/zram0/...`. A
//! [`Host`] puts its root directory in front, `/` unless a test says otherwise.
//! Reads are bounded and what is no text is made text, so that a hostile tree
//! can neither fill memory nor smuggle control characters into messages.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::fs::{major, minor};

use crate::command::{self, read_device, Ending, Finished, Invocation, ANSWERS_WITHIN};
use crate::error::{is_absent, FileError, HostError};
use crate::swaps::{self, SwapArea};
use crate::text::{made_text, short};
use crate::tree::Tree;

/// More than the kernel says in any file that is read here (`/proc/swaps`,
/// `zoneinfo` of a large machine); what is longer is refused.
pub(crate) const READ_MAX: u64 = 4 << 20;

/// Access to a machine. The real one is [`Direct`]; tests put another in its place, to see every
/// operation and to stop at any of them. One that says nothing of writing and of commands refuses
/// them, as the system would.
pub trait Access: Send + Sync {
    /// Reads a file, at most `limit` bytes of it.
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Writes a value into a file that exists, with one system call.
    fn write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    /// Runs a command to its end, or until `ending` says so.
    fn run(&self, _: &Invocation, _ending: Option<&Ending>) -> io::Result<Finished> {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, NoCommands))
    }

    /// The time by which it is measured how long something took.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// Whether this user is root: what is refused to root no other user may do.
    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }
}

/// That no command is run here, whoever asks: a machine is only looked at, or is a tree of files.
#[derive(Debug, thiserror::Error)]
#[error("permission denied")]
pub struct NoCommands;

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
        store(OpenOptions::new().write(true).open(path)?, value)
    }

    fn run(&self, invocation: &Invocation, ending: Option<&Ending>) -> io::Result<Finished> {
        command::run(invocation, ending)
    }
}

/// The files of another tree; its machine is not here to run commands on.
struct Below(Tree);

impl Below {
    /// A path of the tree as the machine itself names it.
    fn own<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        let below = path.strip_prefix(self.0.root());
        below.map_err(|_| io::ErrorKind::NotFound.into())
    }
}

impl Access for Below {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.0.read(self.own(path)?, limit)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        store(self.0.open_to_write(self.own(path)?)?, value)
    }
}

/// Writes with one system call.
pub(crate) fn store(mut file: File, value: &[u8]) -> io::Result<()> {
    let written = file.write(value)?;
    match written == value.len() {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("only {written} of {} bytes were taken", value.len()),
        )),
    }
}

/// Reads only: nothing is written and no command is run.
struct Reading(Arc<dyn Access>);

impl Access for Reading {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.0.read(path, limit)
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn is_root(&self) -> bool {
        self.0.is_root()
    }
}

/// A machine: a root directory and a way to get at it.
#[derive(Clone)]
pub struct Host {
    tree: Tree,
    access: Arc<dyn Access>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("root", &self.tree.root())
            .finish()
    }
}

impl Host {
    pub fn here() -> Host {
        Host::with("/", Arc::new(Direct))
    }

    /// A tree that looks like a machine, whoever made it: see [`Tree`]. No command is
    /// run, unless it is `/`: give it an [`Access`] of its own ([`Host::with`]) where
    /// more than reading is wanted.
    pub fn at(root: impl Into<PathBuf>) -> Host {
        let tree = Tree::new(root);
        match tree.is_here() {
            true => Host::here(),
            false => Host {
                access: Arc::new(Below(tree.clone())),
                tree,
            },
        }
    }

    /// A machine of these files, in a folder for a time: what tests look at.
    ///
    /// # Panics
    /// If a file cannot be written.
    #[doc(hidden)]
    pub fn planted(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let dir = tempfile::tempdir().expect("a folder can be made");
        let host = Host::at(dir.path());
        for (path, text) in files {
            host.plant(path, text);
        }
        (dir, host)
    }

    /// Writes a file of such a machine, and makes the folders above it.
    ///
    /// # Panics
    /// If it cannot be written.
    #[doc(hidden)]
    pub fn plant(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        let made = fs::create_dir_all(path.parent().unwrap_or(self.root()));
        made.and_then(|()| fs::write(path, bytes))
            .expect("it can be written");
    }

    /// A root directory and a way to get at it.
    pub fn with(root: impl Into<PathBuf>, access: Arc<dyn Access>) -> Host {
        Host {
            tree: Tree::new(root),
            access,
        }
    }

    /// This host for who only looks: nothing is written and no command is run, as if
    /// the system refused it to this user.
    pub fn without_commands(&self) -> Host {
        Host {
            tree: self.tree.clone(),
            access: Arc::new(Reading(self.access.clone())),
        }
    }

    /// The time by which it is measured how long something took on this machine.
    pub fn now(&self) -> Instant {
        self.access.now()
    }

    pub fn root(&self) -> &Path {
        self.tree.root()
    }

    /// Whether it is the machine that this program runs on.
    pub fn is_here(&self) -> bool {
        self.tree.is_here()
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// A machine's path as this process sees it.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.tree.path(path.as_ref())
    }

    /// Whether this user is root.
    pub fn is_root(&self) -> bool {
        self.access.is_root()
    }

    /// Is there such a file, device or directory?
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.tree.metadata(path.as_ref()).is_ok()
    }

    /// The text of a file, without white space around it.
    pub fn read(&self, path: impl AsRef<Path>) -> Result<String, HostError> {
        Ok(made_text(&self.read_bytes(path)?).trim().to_owned())
    }

    /// The bytes of a file, for names in it that need not be text.
    pub fn read_bytes(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, HostError> {
        let path = path.as_ref();
        let bytes = self
            .access
            .read(&self.path(path), READ_MAX + 1)
            .map_err(|cause| FileError::new("read", path, cause))?;
        if bytes.len() as u64 > READ_MAX {
            return Err(HostError::malformed(
                path,
                format!("is longer than {READ_MAX} bytes: it is not the kernel's"),
            ));
        }
        Ok(bytes)
    }

    /// The first bytes of a file or device.
    pub fn read_start(&self, path: &Path, bytes: usize) -> Result<Vec<u8>, FileError> {
        let read = self.access.read(&self.path(path), bytes as u64);
        read.map_err(|cause| FileError::new("read", path, cause))
    }

    /// The first bytes of a device or a file whose metadata are known; empty where they cannot
    /// be read. A drive is asked by another process, which does not wait for ever.
    ///
    /// # Errors
    /// That a drive does not answer.
    pub fn read_header(&self, path: &Path, meta: &Metadata, bytes: usize) -> io::Result<Vec<u8>> {
        if meta.file_type().is_block_device() {
            return read_device(&self.path(path), bytes, ANSWERS_WITHIN);
        }
        match self.read_start(path, bytes) {
            Err(err) if err.cause.kind() == io::ErrorKind::TimedOut => Err(err.cause),
            read => Ok(read.unwrap_or_default()),
        }
    }

    /// The text of a file that may not be there: another kernel, no such module.
    pub fn read_optional(&self, path: impl AsRef<Path>) -> Result<Option<String>, HostError> {
        match self.read(path) {
            Ok(text) => Ok(Some(text)),
            Err(err) if err.is_absent() => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// The number in a file that may not be there, `max` the largest one; none where it holds
    /// none.
    pub fn number(&self, path: impl AsRef<Path>) -> Result<Option<u64>, HostError> {
        Ok(self.read_optional(path)?.as_deref().and_then(number))
    }

    /// The number in a file.
    pub fn read_u64(&self, path: impl AsRef<Path>) -> Result<u64, HostError> {
        let path = path.as_ref();
        let text = self.read(path)?;
        text.parse().map_err(|_| {
            HostError::malformed(
                path,
                format!("holds \"{}\" where a number is expected", short(&text)),
            )
        })
    }

    /// The names in a directory, sorted; none where there is no such directory. Those
    /// that are not text are left out: the kernel gives no such name, but to a control
    /// group (`Host::folders`).
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<String>, HostError> {
        let path = path.as_ref();
        let entries = match self.tree.entries(path) {
            Ok(entries) => entries,
            Err(cause) if is_absent(&cause) => return Ok(Vec::new()),
            Err(cause) => return Err(FileError::new("list", path, cause).into()),
        };
        let names = entries.into_iter().map(|(name, _)| name.into_string());
        let mut names: Vec<String> = names.flatten().collect();
        names.sort();
        Ok(names)
    }

    /// The directories in a directory, sorted, whatever they are called; symbolic
    /// links are none.
    pub fn folders(&self, path: &Path) -> Result<Vec<PathBuf>, HostError> {
        let mut folders = Vec::new();
        self.each_folder(path, &mut |name| {
            folders.push(path.join(name));
            true
        })?;
        folders.sort();
        Ok(folders)
    }

    /// The names of [`Host::folders`] one by one, as the kernel gives them, as long as
    /// `take` says true: anybody may have made more than there is memory for.
    pub fn each_folder(
        &self,
        path: &Path,
        take: &mut dyn FnMut(&OsStr) -> bool,
    ) -> Result<(), HostError> {
        let visited = self
            .tree
            .visit(path, &mut |name, is_folder| !is_folder || take(&name));
        match visited {
            Err(cause) if !is_absent(&cause) => Err(FileError::new("list", path, cause).into()),
            _ => Ok(()),
        }
    }

    pub fn processes(&self) -> Result<Vec<u32>, HostError> {
        let names = self.list("/proc")?.into_iter();
        Ok(names.filter_map(|name| name.parse().ok()).collect())
    }

    /// Writes a value into one of the kernel's files, which must be there.
    pub fn write(&self, path: impl AsRef<Path>, value: &str) -> Result<(), HostError> {
        let path = path.as_ref();
        self.access
            .write(&self.path(path), value.as_bytes())
            .map_err(|cause| FileError::new(format!("write \"{value}\" to"), path, cause))?;
        Ok(())
    }

    /// Runs a command and gives its standard output.
    ///
    /// # Errors
    /// When it is not installed or comes back with an error; its standard error
    /// is quoted.
    pub fn run(&self, invocation: &Invocation) -> Result<String, HostError> {
        output(invocation, self.attempt(invocation)?)
    }

    /// [`Host::run`], and ends the command where `ending` says so.
    ///
    /// # Errors
    /// Those of [`Host::run`]; a command that was ended is one that came back with
    /// an error.
    pub fn run_until(&self, invocation: &Invocation, ending: &Ending) -> Result<String, HostError> {
        output(
            invocation,
            self.started(invocation, self.access.run(invocation, Some(ending)))?,
        )
    }

    /// Whether a command is known to be missing: the folders of root's commands are there, and
    /// none has it.
    pub fn lacks_program(&self, name: &str) -> bool {
        let folders = command::SYSTEM_PATH.split(':').map(Path::new);
        let mut there = folders.filter(|it| self.exists(it)).peekable();
        there.peek().is_some() && !there.any(|it| self.exists(it.join(name)))
    }

    /// Runs a command whose exit code is an answer.
    pub fn attempt(&self, invocation: &Invocation) -> Result<Finished, HostError> {
        self.started(invocation, self.access.run(invocation, None))
    }

    /// The active swap areas. A line that is none is refused: what is switched off, and
    /// whether it is, is decided by it.
    ///
    /// # Errors
    /// When `/proc/swaps` cannot be read or has a line that is none.
    pub fn swaps(&self) -> Result<Vec<SwapArea>, HostError> {
        // A kernel without swap has no such file.
        let Some(text) = self.read_optional(swaps::PATH)? else {
            return Ok(Vec::new());
        };
        swaps::parse(&text)
            .map(|area| {
                let area = area.map_err(|line| {
                    let problem = format!("has a line that is no swap area: {}", short(line));
                    HostError::malformed(swaps::PATH, problem)
                })?;
                Ok(self.with_its_path(area))
            })
            .collect()
    }

    /// An area by the path that it has here. A device that was swapped on in another mount
    /// namespace (a service with `PrivateTmp=`) the kernel shows from its file system's root,
    /// `/zram2`.
    fn with_its_path(&self, mut area: SwapArea) -> SwapArea {
        let below = area.path.strip_prefix("/").unwrap_or(&area.path);
        let here = Path::new("/dev").join(below);
        let is_here = || area.path.starts_with("/dev") || self.exists(&area.path);
        if !area.is_file && !is_here() && self.exists(&here) {
            area.path = here;
        }
        area
    }

    /// The active swap area behind a path, which may be a symbolic link.
    pub fn swap_on(&self, path: &Path) -> Result<Option<SwapArea>, HostError> {
        let real = self.resolved(path);
        Ok(self
            .swaps()?
            .into_iter()
            .find(|swap| swap.path == real || swap.path == path))
    }

    /// How large a device or partition is; none where that cannot be told.
    pub fn device_bytes(&self, device: &Path) -> Option<u64> {
        let real = self.resolved(device);
        let node = Path::new("/sys/class/block").join(real.file_name()?);
        let sectors = self.read_optional(node.join("size")).ok()??;
        sectors.trim().parse::<u64>().ok()?.checked_mul(512)
    }

    /// The block device of that number, `8:2`; none where there is none.
    pub fn block_device(&self, number: &str) -> Option<PathBuf> {
        let node = Path::new("/sys/dev/block").join(number);
        let real = self.resolved(&node);
        let name = real.file_name().filter(|_| real != node)?;
        Some(Path::new("/dev").join(name))
    }

    /// Whether a loop device stands on this very file: a path can be made to name another one.
    ///
    /// # Errors
    /// Those of [`Host::run`].
    pub fn stands_on(&self, device: &Path, file: &Metadata) -> Result<bool, HostError> {
        let losetup = Invocation::new("losetup").args(["--noheadings", "--output"]);
        let losetup = losetup.args(["BACK-MAJ:MIN,BACK-INO"]);
        let said = self.run(&losetup.arg(self.path(device)))?;
        let (major, minor) = (major(file.dev()), minor(file.dev()));
        let is = [format!("{major}:{minor}"), file.ino().to_string()];
        Ok(said.split_whitespace().eq(is))
    }

    /// A path with its symbolic links resolved, as the machine names it; the
    /// path itself where there is nothing.
    pub fn resolved(&self, path: &Path) -> PathBuf {
        let real = self.tree.resolved(path);
        real.unwrap_or_else(|| path.to_path_buf())
    }

    fn started(
        &self,
        invocation: &Invocation,
        result: io::Result<Finished>,
    ) -> Result<Finished, HostError> {
        result.map_err(|cause| {
            if cause.kind() == io::ErrorKind::NotFound {
                HostError::NotInstalled {
                    program: invocation.program.clone(),
                    package: command::package(&invocation.program),
                }
            } else {
                FileError::new("run", &invocation.program, cause).into()
            }
        })
    }
}

/// The number that a file holds, `max` the largest one.
pub(crate) fn number(text: &str) -> Option<u64> {
    match text {
        "max" => Some(u64::MAX),
        text => text.parse().ok(),
    }
}

/// A successful command's output.
fn output(invocation: &Invocation, finished: Finished) -> Result<String, HostError> {
    if finished.code == Some(0) {
        return Ok(finished.output);
    }
    Err(HostError::Command {
        command: invocation.to_string(),
        status: finished.status(),
        said: finished.said(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_below_the_root_and_named_without_it() {
        let (_dir, host) = Host::planted(&[("/sys/block/zram0/disksize", " 4096\n")]);
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
        let at = "/sys/block/zram0/disksize";
        let (_dir, host) = Host::planted(&[]);
        host.plant(at, b"\x1b[2J\xff\x00 12\n");
        assert_eq!(host.read(at).unwrap(), "?[2J\u{fffd}? 12");
        let err = host.read_u64(at).unwrap_err().to_string();
        assert!(!err.contains('\x1b') && err.contains("number"), "{err}");
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
        let (_dir, host) = Host::planted(&[]);
        let at = "/sys/block/zram0/comp_algorithm";
        let err = host.write(at, "lz4").unwrap_err();
        assert_eq!(
            err.to_string(),
            "cannot write \"lz4\" to /sys/block/zram0/comp_algorithm: No such file or directory"
        );
        assert!(!host.exists(at), "writing must not create a file");
        host.plant(at, "");
        host.write(at, "lz4").unwrap();
        assert_eq!(host.read(at).unwrap(), "lz4");
    }

    const HEAD: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

    #[test]
    fn an_area_is_found_by_a_link_and_where_another_namespace_swaps_to_it() {
        let swaps = format!(
            "{HEAD}/zram1 partition 1024 0 5\n/mapper/it partition 1024 0 4\n\
             /gone partition 1024 0 3\n/zram1 file 1024 0 2\n"
        );
        let devices = [("/dev/zram1", ""), ("/dev/mapper/it", "")];
        let (dir, host) = Host::planted(&devices);
        host.plant(swaps::PATH, swaps);
        // As /dev/mapper has them.
        std::os::unix::fs::symlink("../zram1", dir.path().join("dev/mapper/link")).unwrap();
        let paths = host.swaps().unwrap().into_iter().map(|swap| swap.path);
        let seen = ["/dev/zram1", "/dev/mapper/it", "/gone", "/zram1"].map(PathBuf::from);
        assert_eq!(paths.collect::<Vec<_>>(), seen);
        for path in ["/dev/zram1", "/dev/mapper/link"] {
            let found = host.swap_on(Path::new(path)).unwrap().unwrap();
            assert_eq!(found.priority, 5);
        }
        assert_eq!(host.swap_on(Path::new("/dev/zram2")).unwrap(), None);
    }

    #[test]
    fn a_line_that_is_no_area_is_refused() {
        let swaps = format!("{HEAD}/dev/zram1 partition 1024 512\n");
        let (_dir, wrong) = Host::planted(&[(swaps::PATH, &swaps)]);
        let err = wrong.swaps().unwrap_err().to_string();
        assert!(err.starts_with("/proc/swaps has a line"), "{err}");
    }
}
