//! Reads of another process that may wait for it.
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
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{openat, Mode, OFlags};

use crate::process;

/// A file of a process that takes its lock when it is opened or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedFile {
    /// Its mappings, with what is in RAM of each.
    Smaps,
    Pagemap,
    Mem,
    CommandLine,
    /// Resets referenced bits when written.
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
/// And so long all processes of one user,
const PATIENCE_OF_USER: Duration = Duration::from_secs(10);
/// and those of all users but root.
const PATIENCE_OF_ALL: Duration = Duration::from_secs(60);
/// A program that goes on for long waits no larger share of its time: what was waited is forgotten
/// so much more slowly than time goes by.
const FORGOTTEN_BY: u32 = 50;
/// Limit of threads left behind for one user's processes: his others are not tried.
const LEFT_MAX: u32 = 4;
/// The same for all users' processes: only root's are.
const LEFT_MAX_OF_ALL: u32 = 32;
/// A thread that works is asked again so soon.
const LOOKED_EVERY: Duration = Duration::from_millis(25);
/// Shorter sleeps are nobody's fault.
const NO_WAIT: Duration = Duration::from_millis(1);
/// Of more processes those are forgotten that nobody waited for.
const KNOWN_MAX: usize = 4096;
const ROOT: u32 = 0;

static WAITS: Mutex<Option<Waits>> = Mutex::new(None);

/// Whether threads are left that wait, so that this process may not end as a whole.
pub fn are_left() -> bool {
    let waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    waits.as_ref().is_some_and(|waits| waits.all.left > 0)
}

#[derive(Default)]
struct Waits {
    processes: HashMap<i32, (u32, Wait)>,
    users: HashMap<u32, Wait>,
    all: Wait,
}

/// How long was waited, not long since.
#[derive(Default)]
struct Wait {
    lasted: Duration,
    until: Option<Instant>,
    /// Threads that still wait.
    left: u32,
}

impl Wait {
    fn add(&mut self, slept: Duration, earned: Duration, now: Instant) {
        let since = now.duration_since(self.until.replace(now).unwrap_or(now));
        let forgotten = earned + since / FORGOTTEN_BY;
        self.lasted = (self.lasted + slept).saturating_sub(forgotten);
    }
}

impl Waits {
    /// Counts what a reading slept and ran, and says whether that is enough.
    fn add(
        &mut self,
        pid: i32,
        slept: Duration,
        ran: Duration,
        now: Instant,
        who: impl Fn(i32) -> u32,
    ) -> io::Result<()> {
        if self.processes.len() >= KNOWN_MAX {
            let counts = |wait: &Wait| wait.left > 0 || !wait.lasted.is_zero();
            self.processes.retain(|_, (_, wait)| counts(wait));
        }
        let (id, process) = self
            .processes
            .entry(pid)
            .or_insert_with(|| (who(pid), Wait::default()));
        // A number is another process's by then, and a process another user's.
        if !slept.is_zero() && process.left == 0 && process.lasted.is_zero() {
            *id = who(pid);
        }
        let (user, all) = (self.users.entry(*id).or_default(), &mut self.all);
        for wait in [&mut *process, &mut *user, &mut *all] {
            wait.add(slept, ran, now);
        }
        if process.left > 0 || process.lasted >= PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let is_user_gone = user.left >= LEFT_MAX || user.lasted >= PATIENCE_OF_USER;
        let is_all_gone = all.left >= LEFT_MAX_OF_ALL || all.lasted >= PATIENCE_OF_ALL;
        match is_user_gone || is_all_gone && *id != ROOT {
            true => Err(io::ErrorKind::QuotaExceeded.into()),
            false => Ok(()),
        }
    }

    /// Counts a thread that is left behind, or one that waits no more.
    fn leave(&mut self, pid: i32, change: impl Fn(u32) -> u32) {
        let Some((id, process)) = self.processes.get_mut(&pid) else {
            return;
        };
        let user = self.users.entry(*id).or_default();
        for wait in [process, user, &mut self.all] {
            wait.left = change(wait.left);
        }
    }
}

/// As [`Waits::add`]; nobody is asked for his user before somebody was waited for.
fn add(pid: i32, slept: Duration, ran: Duration) -> io::Result<()> {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    if waits.is_none() && slept.is_zero() {
        return Ok(());
    }
    let waits = waits.get_or_insert_default();
    let who = |pid| accountable(real_user(pid));
    waits.add(pid, slept, ran, Instant::now(), who)
}

/// As [`Waits::leave`].
fn leave(pid: i32, change: impl Fn(u32) -> u32) {
    let mut waits = WAITS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(waits) = waits.as_mut() {
        waits.leave(pid, change);
    }
}

/// A process's real user. Its directory in /proc is root's where it hides its memory.
fn real_user(pid: i32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    process::user(&status).unwrap_or(u32::MAX)
}

/// The first of the subordinate ids that a user is one of, all of them one user's; else himself.
fn accountable(user: u32) -> u32 {
    static RANGES: OnceLock<Vec<Range<u32>>> = OnceLock::new();
    let read = || ranges(&fs::read_to_string("/etc/subuid").unwrap_or_default());
    let mut ranges = RANGES.get_or_init(read).iter();
    let range = ranges.find(|it| it.contains(&user));
    range.map_or(user, |it| it.start)
}

/// The ranges of `/etc/subuid`: a user, the first id and how many on each line.
fn ranges(text: &str) -> Vec<Range<u32>> {
    let range = |line: &str| {
        let mut numbers = line
            .split(':')
            .skip(1)
            .map(|it| it.trim().parse::<u32>().ok());
        let (first, count) = (numbers.next()??, numbers.next()??);
        // Root's own, which is everybody's, tells nobody apart.
        (first > ROOT).then_some(first..first.checked_add(count)?)
    };
    text.lines().filter_map(range).collect()
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

/// Result of a job, how long it slept, and how long it ran.
type Answer<T> = (io::Result<T>, Duration, Duration);

impl PatientReader {
    /// For what is read of that process.
    pub fn of(&mut self, pid: i32) -> ReaderOf<'_> {
        ReaderOf { reader: self, pid }
    }
}

impl ReaderOf<'_> {
    /// Result of `work`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] where it is held up: what was given to `work` is lost.
    /// [`io::ErrorKind::QuotaExceeded`] where other processes of that user, or of all, held up too much.
    pub fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        add(self.pid, Duration::ZERO, Duration::ZERO)?;
        let (pid, (say, said)) = (self.pid, channel::<Answer<T>>());
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
                leave(pid, |left| left.saturating_sub(1));
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

/// Whether a read failed since processes hold readers up.
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

fn wait<T>(
    pid: i32,
    said: &Receiver<Answer<T>>,
    thread: i32,
    is_over: &AtomicBool,
) -> io::Result<T> {
    let mut counted = Duration::ZERO;
    let refused = loop {
        match said.recv_timeout(LOOKED_EVERY) {
            Ok((result, slept, ran)) => {
                // Its own figure is exact, where the kernel tells it.
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
    leave(pid, |left| left + 1);
    match is_over.swap(true, Ordering::Relaxed) {
        false => Err(refused),
        // It ended meanwhile, and does not count itself as gone.
        true => {
            leave(pid, |left| left.saturating_sub(1));
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

    /// Waits for processes of those users, with numbers from 1.
    struct Played(Waits, Vec<u32>);

    impl Played {
        fn add(
            &mut self,
            pid: i32,
            slept: Duration,
            ran: Duration,
            now: Instant,
        ) -> io::Result<()> {
            let users = &self.1;
            self.0
                .add(pid, slept, ran, now, |pid| users[pid as usize - 1])
        }
    }

    fn waits(users: &[u32]) -> Played {
        Played(Waits::default(), users.to_vec())
    }

    fn kind(result: io::Result<()>) -> Option<io::ErrorKind> {
        result.err().map(|err| err.kind())
    }

    const NONE: Duration = Duration::ZERO;
    const SHORT: Duration = Duration::from_millis(100);
    const HELD: Option<io::ErrorKind> = Some(io::ErrorKind::TimedOut);
    const NOT_TRIED: Option<io::ErrorKind> = Some(io::ErrorKind::QuotaExceeded);

    #[test]
    fn many_short_waits_are_as_long_as_a_long_one_and_tire_of_their_user_alone() {
        let (mut waits, now) = (waits(&[7, 7, 7, 7, 7, 7, 8]), Instant::now());
        // Progress is worth a wait.
        for _ in 0..100 {
            assert_eq!(kind(waits.add(6, SHORT, SHORT, now)), None);
        }
        for pid in 1..=5 {
            assert!((0..19).all(|_| waits.add(pid, SHORT, NONE, now).is_ok()));
            assert_eq!(kind(waits.add(pid, SHORT, NONE, now)), HELD);
            assert_eq!(kind(waits.add(pid, NONE, NONE, now)), HELD);
        }
        assert_eq!(kind(waits.add(6, NONE, NONE, now)), NOT_TRIED);
        assert_eq!(kind(waits.add(7, PATIENCE - SHORT, NONE, now)), None);
        // A process that is another user's by then counts for him.
        waits.1[5] = 9;
        assert_eq!(kind(waits.add(6, SHORT, NONE, now)), None);
        waits.1[5] = 7;
        // In time that is forgotten.
        let later = now + SHORT * 2 * FORGOTTEN_BY;
        assert_eq!(kind(waits.add(1, SHORT, NONE, later)), None);
        assert_eq!(kind(waits.add(6, NONE, NONE, later)), None);
    }

    #[test]
    fn a_process_that_keeps_a_thread_is_not_tried_again_before_it_lets_it_go() {
        let (mut waits, now) = (waits(&[7, 7, 7, 7, 7]), Instant::now());
        for pid in 1..=4 {
            let _ = waits.add(pid, PATIENCE, NONE, now);
            waits.0.leave(pid, |left| left + 1);
        }
        let later = now + PATIENCE * 10 * FORGOTTEN_BY;
        assert_eq!(kind(waits.add(1, NONE, NONE, later)), HELD);
        assert_eq!(kind(waits.add(5, NONE, NONE, later)), NOT_TRIED);
        waits.0.leave(1, |left| left - 1);
        assert_eq!(kind(waits.add(1, NONE, NONE, later)), None);
        assert_eq!(kind(waits.add(5, NONE, NONE, later)), None);
    }

    #[test]
    fn however_many_users_there_are_the_wait_has_an_end_and_root_is_read() {
        let users: Vec<u32> = (1000..2000).chain([ROOT]).collect();
        let (mut waits, now) = (waits(&users), Instant::now());
        let mut tried = 0;
        for pid in 1..=1000 {
            if kind(waits.add(pid, NONE, NONE, now)).is_none() {
                tried += 1;
                let _ = waits.add(pid, PATIENCE, NONE, now);
            }
        }
        assert_eq!(tried, PATIENCE_OF_ALL.as_secs() / PATIENCE.as_secs());
        assert_eq!(kind(waits.add(1001, NONE, NONE, now)), None);
    }

    #[test]
    fn subordinate_ids_are_one_users() {
        let text = "root:0:4294967295\nroot:100000:65536\nuser:200000:10\n# none\nbad:x:1\nlast:4294967295:9\n";
        assert_eq!(ranges(text), [100_000..165_536, 200_000..200_010]);
    }
}
