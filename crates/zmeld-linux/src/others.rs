//! What is read of another process, and may wait for it.
//!
//! Some files of `/proc/PID` take the lock of that process's address space. Whoever owns it can
//! keep that lock for ever, with a page of a file system of his own, and a dead network mount does
//! so by accident. So they are opened and read by a thread that is left behind where that happens:
//! such a wait ends with the program, and nothing is known of it before that.
//!
//! Nothing else opens these files: `tests/others.rs` looks for it. `stat`, `status`, `comm` and
//! `cgroup` take no such lock.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
    /// Its path. Only a [`ReaderOf`] may open it.
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

    /// Opens one of its files; within [`ReaderOf::run`].
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

/// So long one process is waited for, in all of its readings; each of them earns as much again as
/// it read.
const PATIENCE: Duration = Duration::from_secs(2);
/// And so long all processes of one user.
const PATIENCE_OF_USER: Duration = Duration::from_secs(10);
/// When so many processes of one user held their readers up, his others are not tried.
const HELD_MAX: u32 = 4;
/// A thread that works is asked again so soon.
const LOOKED_EVERY: Duration = Duration::from_millis(25);
/// Shorter sleeps are nobody's fault.
const NO_WAIT: Duration = Duration::from_millis(1);

/// Threads that wait for a process and were left behind.
static LEFT: AtomicU32 = AtomicU32::new(0);
/// Who was waited for.
static WAITS: Mutex<Option<Waits>> = Mutex::new(None);

/// Whether threads are left that wait, so that this process may not end as a whole.
pub fn are_left() -> bool {
    LEFT.load(Ordering::Relaxed) > 0
}

#[derive(Default)]
struct Waits {
    processes: HashMap<i32, OfProcess>,
    users: HashMap<u32, OfUser>,
}

struct OfProcess {
    user: u32,
    waited: Duration,
    is_held: bool,
}

#[derive(Default)]
struct OfUser {
    waited: Duration,
    held: u32,
}

impl Waits {
    /// Counts what a reading slept and ran, and says whether that is enough.
    fn add(&mut self, pid: i32, slept: Duration, ran: Duration) -> io::Result<()> {
        let process = self.processes.entry(pid).or_insert_with(|| OfProcess {
            user: real_user(pid),
            waited: Duration::ZERO,
            is_held: false,
        });
        let user = self.users.entry(process.user).or_default();
        for waited in [&mut process.waited, &mut user.waited] {
            *waited = (*waited + slept).saturating_sub(ran);
        }
        if !process.is_held && process.waited >= PATIENCE {
            process.is_held = true;
            user.held += 1;
        }
        if process.is_held {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match user.held >= HELD_MAX || user.waited >= PATIENCE_OF_USER {
            true => Err(io::ErrorKind::QuotaExceeded.into()),
            false => Ok(()),
        }
    }
}

/// As [`Waits::add`]; nobody is asked for his user before somebody was waited for.
fn add(pid: i32, slept: Duration, ran: Duration) -> io::Result<()> {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    if waits.is_none() && slept.is_zero() {
        return Ok(());
    }
    waits.get_or_insert_default().add(pid, slept, ran)
}

/// Who began a process. The owner of its directory in /proc is root where it hides its memory.
fn real_user(pid: i32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let users = process::status(&status, "Uid").unwrap_or_default();
    let real = users.split_whitespace().next();
    real.and_then(|it| it.parse().ok()).unwrap_or(u32::MAX)
}

/// How long this thread has run and waited for a processor.
fn busy() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut times = text.split_whitespace().map(str::parse::<u64>);
    let (ran, queued) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_nanos(ran + queued))
}

type Job = Box<dyn FnOnce() + Send>;

/// Does what may wait for another process, and goes on without it where that holds it up.
#[derive(Debug, Default)]
pub struct PatientReader {
    thread: Option<(Sender<Job>, i32)>,
}

/// A [`PatientReader`] that reads one process.
#[derive(Debug)]
pub struct ReaderOf<'a> {
    reader: &'a mut PatientReader,
    pid: i32,
}

/// What a job came to, how long it slept, and how long it did not.
type Said<T> = (io::Result<T>, Duration, Duration);

impl PatientReader {
    /// For what is read of that process.
    pub fn of(&mut self, pid: i32) -> ReaderOf<'_> {
        ReaderOf { reader: self, pid }
    }
}

impl ReaderOf<'_> {
    /// What `work` comes to.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] where it is held up: what was given to `work` is lost.
    /// [`io::ErrorKind::QuotaExceeded`] where other processes of that user held up too much.
    pub fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        add(self.pid, Duration::ZERO, Duration::ZERO)?;
        let (say, said) = channel::<Said<T>>();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let mut job: Job = Box::new(move || {
            let (begin, before) = (Instant::now(), busy());
            let result = work();
            let took = begin.elapsed();
            let busy = before.and_then(|before| busy()?.checked_sub(before));
            let slept = took.saturating_sub(busy.unwrap_or(took));
            let _ = say.send((result, slept, took.saturating_sub(slept)));
            if over.swap(true, Ordering::Relaxed) {
                // It was left behind, and is held up no more.
                LEFT.fetch_sub(1, Ordering::Relaxed);
            }
        });
        loop {
            let (jobs, id) = match &self.reader.thread {
                Some(thread) => thread,
                None => self.reader.thread.insert(begin()?),
            };
            match jobs.send(job) {
                Ok(()) => {
                    let result = wait(self.pid, &said, *id, &is_over);
                    if is_held(&result) {
                        self.reader.thread = None;
                    }
                    return result;
                }
                // It panicked over an earlier job.
                Err(back) => job = back.0,
            }
            self.reader.thread = None;
        }
    }
}

/// Whether that came of processes that hold their readers up.
pub fn is_held<T>(result: &io::Result<T>) -> bool {
    use io::ErrorKind::{QuotaExceeded, TimedOut};
    matches!(result, Err(err) if matches!(err.kind(), TimedOut | QuotaExceeded))
}

/// A thread for jobs, and its number.
fn begin() -> io::Result<(Sender<Job>, i32)> {
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

fn wait<T>(pid: i32, said: &Receiver<Said<T>>, thread: i32, is_over: &AtomicBool) -> io::Result<T> {
    let mut counted = Duration::ZERO;
    let refused = loop {
        match said.recv_timeout(LOOKED_EVERY) {
            Ok((result, slept, ran)) => {
                // What it says itself is exact, where the kernel tells it.
                let slept = slept.saturating_sub(counted);
                let slept = if slept < NO_WAIT {
                    Duration::ZERO
                } else {
                    slept
                };
                let _ = add(pid, slept, ran);
                return result;
            }
            Err(RecvTimeoutError::Disconnected) => panic!("the work panicked"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        // One that waits for a processor is not held up.
        let slept = if is_running(thread) {
            Duration::ZERO
        } else {
            LOOKED_EVERY
        };
        counted += slept;
        if let Err(refused) = add(pid, slept, Duration::ZERO) {
            break refused;
        }
    };
    LEFT.fetch_add(1, Ordering::Relaxed);
    match is_over.swap(true, Ordering::Relaxed) {
        false => Err(refused),
        // It ended meanwhile, and does not count itself as gone.
        true => {
            LEFT.fetch_sub(1, Ordering::Relaxed);
            said.recv().map_err(io::Error::other)?.0
        }
    }
}

fn is_running(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    process::fields(&stat).is_some_and(|fields| fields.first() == Some(&"R"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_short_waits_are_as_long_as_a_long_one_and_tire_of_their_user_alone() {
        let mut waits = Waits::default();
        let (none, short) = (Duration::ZERO, PATIENCE / 20);
        let users = [(1, 7), (2, 7), (3, 7), (4, 7), (5, 7), (6, 8)];
        for (pid, user) in users {
            let process = OfProcess {
                user,
                waited: none,
                is_held: false,
            };
            waits.processes.insert(pid, process);
        }
        let kind = |result: io::Result<()>| result.err().map(|err| err.kind());
        // What is read is worth a wait.
        for _ in 0..100 {
            assert_eq!(kind(waits.add(5, short, short)), None);
        }
        for pid in 1..=4 {
            assert!((0..19).all(|_| waits.add(pid, short, none).is_ok()));
            for _ in 0..2 {
                assert_eq!(
                    kind(waits.add(pid, short, none)),
                    Some(io::ErrorKind::TimedOut)
                );
            }
        }
        assert_eq!(
            kind(waits.add(5, none, none)),
            Some(io::ErrorKind::QuotaExceeded)
        );
        assert_eq!(kind(waits.add(6, PATIENCE - short, none)), None);
    }
}
