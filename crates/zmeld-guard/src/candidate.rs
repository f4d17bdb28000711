//! A control group that may be ended: what it takes, and how it is told to end.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use zmeld_linux::groups::{GroupPattern, Hierarchy, Version};
use zmeld_linux::{counters, Host};

use super::open::OpenFile;
use super::ring::Ring;

/// Of groups below one, so many lists are open before they are needed.
const BELOW_MAX: usize = 4;
/// No more groups are gone through below one, nor deeper ones.
const BELOW_ALL: usize = 32 << 10;
const BELOW_DEPTH: usize = 128;
/// So many processes that were told to end are looked after each by itself.
const TOLD_MAX: usize = 128;
/// Fewer processes than this can be told one by one.
const MANY: u64 = 64;
/// A path to a process's group is no longer, the host's root included.
const PATH_MAX: usize = 512;

/// What a group takes.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    /// In RAM and in swap, what comes back when it ends.
    held_bytes: u64,
    /// Files in memory.
    shared_bytes: u64,
}

impl Taken {
    fn bytes(self) -> u64 {
        self.held_bytes.saturating_add(self.shared_bytes)
    }
}

/// What is left alone of a group that is ended, with what is below it.
#[derive(Debug)]
pub(super) struct Spared {
    /// By its name,
    pub patterns: Vec<GroupPattern>,
    /// or by its path.
    pub groups: HashSet<PathBuf>,
}

/// Processes that were told to end, and whether they are all that were.
#[derive(Debug, Default)]
struct Told {
    processes: Vec<OwnedFd>,
    are_all: bool,
}

/// A group that may be ended.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Its path from the root of its hierarchy on.
    pub shown: String,
    /// The place in the rule's `end` of what names it.
    pub rank: usize,
    pub directory: PathBuf,
    /// The place of its owner, as groups were chosen last.
    pub owner: usize,
    /// Not all that its owner has is seen.
    pub is_unclear: bool,
    /// It is protected by its owner's own means.
    pub is_sheltered: bool,
    hierarchy: Hierarchy,
    /// Set where some of it may have to be.
    spared: Option<Arc<Spared>>,
    stat: OpenFile,
    swap: Option<OpenFile>,
    /// The lists of its processes, and of those in groups below.
    members: Vec<OpenFile>,
    has_more_below: bool,
    /// Whether there is any process in it or below it (version 2).
    events: Option<OpenFile>,
    told: Told,
    /// As the kernel names it, of a process that is in it.
    kernel_path: Vec<u8>,
    /// What kills all of it at once (`cgroup.kill`, Linux 5.14, version 2).
    kill: Option<File>,
    taken: Ring<u64>,
    now: Taken,
    /// How much more that is than at the last look.
    took_bytes: u64,
    /// How many processes it had, as far as they are followed.
    processes: Ring<u64>,
    count: u64,
}

impl Candidate {
    /// None where it is gone, or has no figures.
    pub fn open(
        host: &Host,
        hierarchy: &Hierarchy,
        directory: &Path,
        rank: usize,
        spared: Option<Arc<Spared>>,
    ) -> Option<Candidate> {
        let file = |name: &str| OpenFile::open(host, directory.join(name));
        // What is protected by its name alone may be anywhere.
        let spared = spared.filter(|it| {
            let is_name = |pattern: &GroupPattern| !pattern.is_path();
            it.patterns.iter().any(is_name)
                || it.groups.iter().any(|group| group.starts_with(directory))
        });
        let mut candidate = Candidate {
            shown: hierarchy.shown(directory),
            rank,
            directory: directory.to_path_buf(),
            owner: 0,
            is_unclear: false,
            is_sheltered: false,
            hierarchy: hierarchy.clone(),
            stat: file("memory.stat")?,
            swap: file("memory.swap.current"),
            members: Vec::new(),
            has_more_below: false,
            events: file("cgroup.events"),
            told: Told {
                processes: Vec::with_capacity(TOLD_MAX),
                are_all: true,
            },
            kernel_path: hierarchy
                .kernel_path(directory)
                .as_os_str()
                .as_bytes()
                .to_vec(),
            kill: OpenOptions::new()
                .write(true)
                .open(host.path(directory.join("cgroup.kill")))
                .ok()
                .filter(|_| spared.is_none()),
            spared,
            taken: Ring::new(),
            now: Taken::default(),
            took_bytes: 0,
            processes: Ring::new(),
            count: 0,
        };
        candidate.follow(host);
        (!candidate.members.is_empty()).then_some(candidate)
    }

    /// Opens the lists of processes of the groups that are below it by now, so many.
    fn follow(&mut self, host: &Host) {
        let mut members = Vec::with_capacity(BELOW_MAX);
        self.has_more_below = !self.walk(host, &self.directory, 0, &mut |group| {
            let is_one_more = members.len() == BELOW_MAX;
            if !is_one_more {
                members.extend(OpenFile::open(host, group.join("cgroup.procs")));
            }
            !is_one_more
        });
        self.members = members;
    }

    /// Goes through a group and those below it, as long as `take` says true, without those
    /// that are spared; whether it did to the end.
    fn walk(
        &self,
        host: &Host,
        group: &Path,
        depth: usize,
        take: &mut dyn FnMut(&Path) -> bool,
    ) -> bool {
        let is_spared = self.spared.as_ref().is_some_and(|spared| {
            let shown = self.hierarchy.shown(group);
            spared.groups.contains(group) || spared.patterns.iter().any(|it| it.matches(&shown))
        });
        if is_spared {
            return true;
        }
        let mut goes_on = take(group);
        if goes_on && depth < BELOW_DEPTH {
            // One that is gone has none.
            let _ = host.each_folder(group, &mut |name| {
                goes_on = self.walk(host, &group.join(name), depth + 1, take);
                goes_on
            });
        }
        goes_on
    }

    /// What is known of it under that name already.
    pub fn go_on(&mut self, before: &Candidate) {
        self.taken = before.taken;
        self.now = before.now;
        self.took_bytes = before.took_bytes;
        // Of other lists the count says nothing.
        if self.members.len() == before.members.len() && !self.has_more_below {
            self.processes = before.processes;
            self.count = before.count;
        }
    }

    /// Looks at what it takes.
    pub fn look(&mut self, now: Instant, buffer: &mut [u8]) {
        let before = self.now.bytes();
        // One that is gone, or empty, gives nothing back.
        self.now = match self.seems_empty(buffer) {
            Some(true) => Taken::default(),
            _ => self.read(buffer).unwrap_or_default(),
        };
        self.took_bytes = self.now.bytes().saturating_sub(before);
        self.taken.keep(now, self.now.bytes());
        let lists = self.members.iter().filter_map(|list| {
            let text = list.read(buffer).ok()?;
            Some(text.lines().count() as u64)
        });
        self.count = lists.sum();
        self.processes.keep(now, self.count);
    }

    /// It was not there at that time.
    pub fn began_after(&mut self, then: Instant) {
        self.taken.keep(then, 0);
    }

    /// How much more it takes than at the look before the last one.
    pub fn took_bytes(&self) -> u64 {
        self.took_bytes
    }

    /// In RAM and in swap, without files in memory and the page cache: what comes back
    /// when it ends.
    pub fn bytes(&self) -> u64 {
        self.now.held_bytes
    }

    /// The same with files in memory.
    pub fn all_bytes(&self) -> u64 {
        self.now.bytes()
    }

    /// How much more it takes than ten seconds ago, files in memory (tmpfs) included: who
    /// fills memory with those is who runs away, though they stay when he ends.
    pub fn grew_bytes(&self, now: Instant) -> u64 {
        let before = self.taken.oldest(now);
        before.map_or(0, |(_, before)| self.now.bytes().saturating_sub(before))
    }

    fn read(&self, buffer: &mut [u8]) -> Option<Taken> {
        let stat = self.stat.read(buffer).ok()?;
        let sum = |names: &[&str]| -> u64 {
            let counted = counters::parse(stat).filter(|(name, _)| names.contains(name));
            counted.fold(0, |sum, (_, bytes)| sum.saturating_add(bytes))
        };
        if self.hierarchy.version == Version::One {
            return Some(Taken {
                held_bytes: sum(&["total_rss", "total_swap"]),
                shared_bytes: sum(&["total_shmem"]),
            });
        }
        // What a bomb of processes takes is the kernel's; as one sum from 5.18 on.
        let kernel = match counters::value(stat, "kernel") {
            // What can be had back at any time is no burden.
            Some(bytes) => bytes.saturating_sub(sum(&["slab_reclaimable"])),
            None => sum(&["kernel_stack", "pagetables", "slab_unreclaimable"]),
        };
        let ram = kernel.saturating_add(sum(&["anon"]));
        let shared_bytes = sum(&["shmem"]);
        let swap = self.swap.as_ref().and_then(|file| {
            let text = file.read(buffer).ok()?;
            text.trim().parse::<u64>().ok()
        });
        Some(Taken {
            held_bytes: ram.saturating_add(swap.unwrap_or(0)),
            shared_bytes,
        })
    }

    /// Whether it has ended: nothing is in it or below it, or all that were told have gone,
    /// and what is there now was begun since.
    pub fn has_ended(&self, host: &Host, buffer: &mut [u8]) -> bool {
        let told = &self.told.processes;
        let is_whole = self.told.are_all && !told.is_empty();
        if is_whole && told.iter().all(has_gone) {
            // One that leaves its memory to a child has not.
            let left = self.read(buffer).map_or(0, |it| it.held_bytes);
            if left < self.now.held_bytes / 2 {
                return true;
            }
        }
        self.is_empty(host, buffer)
    }

    /// Whether no process is in it or below it.
    pub fn is_empty(&self, host: &Host, buffer: &mut [u8]) -> bool {
        self.seems_empty(buffer).unwrap_or_else(|| {
            self.walk(host, &self.directory, 0, &mut |group| {
                OpenFile::open(host, group.join("cgroup.procs"))
                    .is_none_or(|list| is_list_empty(&list, buffer))
            })
        })
    }

    /// The same by what is open already; none where that does not tell.
    fn seems_empty(&self, buffer: &mut [u8]) -> Option<bool> {
        let is_all = !self.has_more_below;
        let events = self.events.as_ref().filter(|_| self.spared.is_none());
        let Some(events) = events else {
            let mut lists = self.members.iter();
            let is_empty = lists.all(|list| is_list_empty(list, buffer));
            return (is_all || !is_empty).then_some(is_empty);
        };
        Some(match events.read(buffer) {
            Ok(text) => counters::value(text, "populated") == Some(0),
            Err(err) => is_removed(&err),
        })
    }

    /// How many processes it has, where those have doubled since it was first looked at, or
    /// within ten seconds: by telling each of them to end they are not ended, nor is there
    /// time for it.
    pub fn multiplies(&self, now: Instant) -> Option<u64> {
        let (_, before) = self.processes.oldest(now)?;
        let multiply = self.count >= MANY && self.count / 2 >= before;
        (multiply && self.kill.is_some()).then_some(self.count)
    }

    /// How many processes it had at the last look, as far as they are followed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Tells all of its processes to end, and how many those are.
    pub fn tell(&mut self, host: &Host, buffer: &mut [u8]) -> usize {
        match self.has_more_below {
            true => self.signal_all(host, Signal::TERM, buffer),
            false => self.signal(host, Signal::TERM, buffer),
        }
    }

    /// Kills all of it. Where the kernel cannot do that at once, the groups that came
    /// below it meanwhile are looked for, which takes memory.
    pub fn kill(&mut self, host: &Host, buffer: &mut [u8]) {
        let whole = self.kill.as_ref().map(|file| file.write_at(b"1", 0));
        if !matches!(whole, Some(Ok(_))) {
            self.signal_all(host, Signal::KILL, buffer);
        }
    }

    /// Nothing but its emptiness tells that it has ended.
    pub fn ends_when_empty(&mut self) {
        self.told.are_all = false;
    }

    /// Those in all groups that are below it by now, too, one list at a time.
    fn signal_all(&mut self, host: &Host, signal: Signal, buffer: &mut [u8]) -> usize {
        let mut told = std::mem::take(&mut self.told);
        let (mut sent, mut groups) = (0, 0);
        let is_all = self.walk(host, &self.directory, 0, &mut |group| {
            if let Some(list) = OpenFile::open(host, group.join("cgroup.procs")) {
                sent += self.signal_list(host, &list, signal, buffer, &mut told);
            }
            groups += 1;
            groups < BELOW_ALL
        });
        told.are_all &= is_all;
        self.told = told;
        sent
    }

    fn signal(&mut self, host: &Host, signal: Signal, buffer: &mut [u8]) -> usize {
        let mut told = std::mem::take(&mut self.told);
        let lists = self.members.iter();
        let sent = lists
            .map(|list| self.signal_list(host, list, signal, buffer, &mut told))
            .sum();
        self.told = told;
        sent
    }

    /// Those of one list; `told` keeps the first of them.
    fn signal_list(
        &self,
        host: &Host,
        list: &OpenFile,
        signal: Signal,
        buffer: &mut [u8],
        told: &mut Told,
    ) -> usize {
        let own = rustix::process::getpid();
        let mut sent = 0;
        let Ok(text) = list.read(buffer) else {
            return 0;
        };
        // A list that is longer than the buffer may end within a number.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for pid in whole.lines().filter_map(|line| line.parse::<i32>().ok()) {
            let Some(pid) = Pid::from_raw(pid) else {
                continue;
            };
            if pid == own || pid.is_init() {
                continue;
            }
            if let Some(process) = self.send(host, pid, signal) {
                sent += 1;
                match told.processes.len() < TOLD_MAX {
                    true => told.processes.push(process),
                    false => told.are_all = false,
                }
            }
        }
        sent
    }

    /// The process is held first and looked at then, so that it is this one that gets
    /// the signal and none that has its number by now.
    fn send(&self, host: &Host, pid: Pid, signal: Signal) -> Option<OwnedFd> {
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let is_told = self.has(host, pid) && pidfd_send_signal(&process, signal).is_ok();
        is_told.then_some(process)
    }

    /// Goes the way to a signal once, without one, so that its pages are there.
    pub fn rehearse(&self, host: &Host) {
        let own = rustix::process::getpid();
        if pidfd_open(own, PidfdFlags::empty()).is_ok() {
            self.has(host, own);
        }
    }

    /// Whether a process is in it, or in a group below it.
    fn has(&self, host: &Host, pid: Pid) -> bool {
        let mut path = [0_u8; PATH_MAX];
        let mut rest = &mut path[..];
        let root = host.root().as_os_str().as_bytes();
        let number = pid.as_raw_nonzero();
        let written = rest
            .write_all(root)
            .and_then(|()| write!(rest, "/proc/{number}/cgroup"));
        let left = rest.len();
        if written.is_err() {
            return false;
        }
        let path = &path[..PATH_MAX - left];
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else {
            return false;
        };
        // A path of a group is no longer than that, and the lines of version 1 are few.
        let mut text = [0_u8; 8192];
        let mut length = 0;
        while length < text.len() {
            match rustix::io::read(&file, &mut text[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(_) => return false,
            }
        }
        text[..length].split(|byte| *byte == b'\n').any(|line| {
            let path = self.hierarchy.version.path_of(line);
            path.and_then(|path| path.strip_prefix(self.kernel_path.as_slice()))
                .is_some_and(|below| below.is_empty() || below.starts_with(b"/"))
        })
    }
}

/// Whether a process has ended: its descriptor can be read then.
fn has_gone(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn is_list_empty(list: &OpenFile, buffer: &mut [u8]) -> bool {
    match list.read(buffer) {
        Ok(text) => text.trim().is_empty(),
        Err(err) => is_removed(&err),
    }
}

/// Whether the group that an open file is of was removed.
fn is_removed(err: &io::Error) -> bool {
    err.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}
