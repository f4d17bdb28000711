//! What is read of another process, and may wait for it.
//!
//! Some files of `/proc/PID` take the lock of that process's address space. Whoever owns it can
//! keep that lock for ever, with a page of a file system of his own, and a dead network mount does
//! so by accident. So they are opened and read by a thread that is left behind where that happens:
//! such a wait ends with the program, and nothing is known of it before that.
//!
//! Nothing else opens these files: `tests/others.rs` looks for it. `stat`, `status`, `comm` and
//! `cgroup` take no such lock.

use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rustix::fs::{openat, Mode, OFlags};

use crate::process;

/// A file of a process that takes its lock when it is opened or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedFile {
    /// Its mappings, with what is in RAM of each.
    Smaps,
    /// Its page tables.
    Pagemap,
    /// Its memory.
    Mem,
    /// What it was started with.
    CommandLine,
    /// Where referenced bits are reset: written.
    ClearRefs,
}

impl LockedFile {
    /// Its path. Only a [`PatientReader`] may open it.
    pub fn path(self, pid: impl std::fmt::Display) -> String {
        format!("/proc/{pid}/{}", self.name())
    }

    fn name(self) -> &'static str {
        match self {
            LockedFile::Smaps => "smaps",
            LockedFile::Pagemap => "pagemap",
            LockedFile::Mem => "mem",
            LockedFile::CommandLine => "cmdline",
            LockedFile::ClearRefs => "clear_refs",
        }
    }
}

/// One process, and no later one with its number.
#[derive(Debug)]
pub struct OtherProcess(File);

impl OtherProcess {
    /// The process with that number that began then, in ticks after the boot.
    ///
    /// # Errors
    /// When it has ended.
    pub fn find(pid: i32, began: u64) -> io::Result<OtherProcess> {
        let process = OtherProcess(File::open(format!("/proc/{pid}"))?);
        let mut stat = Vec::new();
        process
            .file("stat", OFlags::RDONLY)?
            .read_to_end(&mut stat)?;
        match process::began(&String::from_utf8_lossy(&stat)) == Some(began) {
            true => Ok(process),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?.into())
    }

    /// Opens one of its files; within [`PatientReader::run`].
    ///
    /// # Errors
    /// When it has ended, or this user may not.
    pub fn open(&self, file: LockedFile) -> io::Result<File> {
        let flags = match file {
            LockedFile::ClearRefs => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        self.file(file.name(), flags)
    }
}

/// How long the first process that holds a reader up is waited for. Each further one is waited for
/// half as long, so that many cost no more than a few.
const PATIENCE: Duration = Duration::from_secs(2);
const PATIENCE_MIN: Duration = Duration::from_millis(50);
/// A thread that works is asked again so soon.
const LOOKED_EVERY: Duration = Duration::from_millis(25);
/// So many threads may be left behind. Then nothing more is read.
const LEFT_MAX: u32 = 256;

/// Threads that wait for a process and were left behind.
static LEFT: AtomicU32 = AtomicU32::new(0);

type Job = Box<dyn FnOnce() + Send>;

/// Does what may wait for another process, and goes on without it where that holds it up.
#[derive(Debug, Default)]
pub struct PatientReader {
    thread: Option<(Sender<Job>, i32)>,
}

impl PatientReader {
    /// What `work` comes to.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] where it is held up: what was given to `work` is lost.
    pub fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (say, said) = channel();
        let mut job: Job = Box::new(move || {
            if say.send(work()).is_err() {
                // It was left behind, and is held up no more.
                LEFT.fetch_sub(1, Ordering::Relaxed);
            }
        });
        loop {
            let (jobs, id) = match &self.thread {
                Some(thread) => thread,
                None => self.thread.insert(begin()?),
            };
            match jobs.send(job) {
                Ok(()) => {
                    let result = wait(&said, *id);
                    if is_held(&result) {
                        self.thread = None;
                    }
                    return result;
                }
                // It panicked over an earlier job.
                Err(back) => job = back.0,
            }
            self.thread = None;
        }
    }
}

/// Whether that came of a process that holds its readers up.
pub fn is_held<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(err) if err.kind() == io::ErrorKind::TimedOut)
}

/// A thread for jobs, and its number.
fn begin() -> io::Result<(Sender<Job>, i32)> {
    if LEFT.load(Ordering::Relaxed) >= LEFT_MAX {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (jobs, todo) = channel::<Job>();
    let (tell, told) = channel();
    thread::Builder::new().spawn(move || {
        let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get());
        for job in todo {
            job();
        }
    })?;
    let id = told.recv().map_err(io::Error::other)?;
    Ok((jobs, id))
}

fn wait<T>(said: &Receiver<io::Result<T>>, thread: i32) -> io::Result<T> {
    let left = LEFT.load(Ordering::Relaxed);
    let patience = PATIENCE.checked_div(1 << left.min(30)).unwrap_or_default();
    let patience = patience.max(PATIENCE_MIN);
    let mut waited = Duration::ZERO;
    loop {
        match said.recv_timeout(LOOKED_EVERY) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => panic!("the work panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // One that waits for a processor is not held up.
        if !is_running(thread) {
            waited += LOOKED_EVERY;
        }
        if waited >= patience {
            LEFT.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn is_running(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    process::fields(&stat).is_some_and(|fields| fields.first() == Some(&"R"))
}
