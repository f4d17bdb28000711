//! A control group that may be ended: what it takes, and how it is told to end.
//!
//! Who looks opens nothing: the files are open already. What has to be opened, lists of
//! groups that came below it meanwhile, and what the kernel does under a lock that whoever
//! makes groups holds (`cgroup.kill`), a thread of its own does ([`Ender`]).

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, pidfd_send_signal, test_kill_process, Pid, PidfdFlags, Signal};
use zmeld_linux::groups::{GroupPattern, Hierarchy};
use zmeld_linux::{counters, Host};

use crate::choice::Figures;
use crate::meter::Meter;
use crate::open::{is_removed, touched, OpenFile};
use crate::ring::Ring;
use crate::sentry::thread;
use crate::Error;

/// Of groups below one, so many lists are open before they are needed.
const BELOW_MAX: usize = 16;
/// No more groups are gone through below one, nor deeper ones.
const BELOW_ALL: usize = 32 << 10;
const BELOW_DEPTH: usize = 32;
/// nor those with a longer path: the kernel takes 4,096 bytes. What is below is killed as a
/// whole, since nothing is protected so deep.
const BELOW_PATH: usize = 3 << 10;
/// So many processes that were told to end are looked after each by itself.
const TOLD_MAX: usize = 128;
/// Fewer processes than this can be told one by one.
const MANY: u64 = 64;
/// So many processes are held before it is looked once more who is in the group.
const HELD_MAX: usize = 32;
/// So many groups wait to be ended by another thread.
const ASKED_MAX: usize = 64;

/// What is left alone of a group that is ended, with what is below it.
#[derive(Debug)]
pub(crate) struct Spared {
    /// By its name,
    pub patterns: Vec<GroupPattern>,
    /// or by its path.
    pub groups: HashSet<PathBuf>,
}

/// Where a group is, and how all of it is reached.
#[derive(Debug)]
pub(crate) struct Place {
    pub directory: PathBuf,
    host: Host,
    hierarchy: Hierarchy,
    /// Set where some of it may have to be.
    spared: Option<Arc<Spared>>,
    /// What kills all of it at once (`cgroup.kill`, Linux 5.14, version 2).
    kill: Option<File>,
    /// Another thread is to kill it, and has not begun.
    is_asked: AtomicBool,
}

impl Place {
    /// Goes through it and the groups below it, as long as `take` says true, without those
    /// that are spared; whether it did to the end. It is told which it goes no deeper than.
    fn walk(&self, group: &Path, depth: usize, take: &mut dyn FnMut(&Path, bool) -> bool) -> bool {
        let is_spared = self.spared.as_ref().is_some_and(|spared| {
            let shown = self.hierarchy.shown(group);
            spared.groups.contains(group) || spared.patterns.iter().any(|it| it.matches(&shown))
        });
        if is_spared {
            return true;
        }
        let is_deepest = depth == BELOW_DEPTH || group.as_os_str().len() > BELOW_PATH;
        let mut goes_on = take(group, is_deepest);
        if goes_on && !is_deepest {
            // One that is gone has none.
            let _ = self.host.each_folder(group, &mut |name| {
                goes_on = self.walk(&group.join(name), depth + 1, take);
                goes_on
            });
        }
        goes_on
    }

    /// Sends a signal to all that is in it and below it by now.
    fn signal(&self, signal: Signal, buffer: &mut [u8]) {
        let whole = self.kill.as_ref().filter(|_| signal == Signal::KILL);
        if whole.is_some_and(|file| file.write_at(b"1", 0).is_ok()) {
            return;
        }
        let mut groups = 0;
        self.walk(&self.directory, 0, &mut |group, is_deepest| {
            if is_deepest && signal == Signal::KILL {
                // On version 1 there is no such file.
                let _ = self.host.write(group.join("cgroup.kill"), "1");
            }
            if let Some(list) = OpenFile::open(&self.host, group.join("cgroup.procs")) {
                signal_listed(
                    |buffer| list.read(buffer),
                    Some(signal),
                    buffer,
                    &mut |_| (),
                );
            }
            groups += 1;
            groups < BELOW_ALL
        });
    }
}

/// Who does what the one that looks may not.
#[derive(Debug)]
pub(crate) enum Ender {
    /// Whoever asks, at once.
    Here(Vec<u8>),
    /// A thread of ordinary priority.
    Thread(SyncSender<(Arc<Place>, Signal)>),
}

impl Ender {
    pub fn here() -> Ender {
        Ender::Here(touched())
    }

    /// # Errors
    /// When the thread cannot be started.
    pub fn start() -> Result<Ender, Error> {
        let (ask, asked) = sync_channel::<(Arc<Place>, Signal)>(ASKED_MAX);
        let mut buffer = touched();
        thread("guard-end", move || {
            let _ = rustix::process::setpriority_process(None, -20);
            for (place, signal) in asked {
                place.is_asked.store(false, Ordering::Relaxed);
                place.signal(signal, &mut buffer);
            }
        })?;
        Ok(Ender::Thread(ask))
    }

    fn ask(&mut self, place: &Arc<Place>, signal: Signal) {
        match self {
            Ender::Here(buffer) => place.signal(signal, buffer),
            // Where too many wait, it is asked again at the next look.
            Ender::Thread(ask) => {
                if !place.is_asked.swap(true, Ordering::Relaxed)
                    && ask.try_send((Arc::clone(place), signal)).is_err()
                {
                    place.is_asked.store(false, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Processes that were told to end, and whether they are all that were.
#[derive(Debug, Default)]
struct Told {
    processes: Vec<OwnedFd>,
    are_all: bool,
}

/// A group that may be ended.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// Its path from the root of its hierarchy on.
    pub shown: Arc<str>,
    pub place: Arc<Place>,
    /// The place in the rule's `end` of what names it.
    pub rank: usize,
    /// The place of its owner, as groups were chosen last.
    pub owner: usize,
    /// Not all that its owner has is seen.
    pub is_unclear: bool,
    /// It is protected by its owner's own means.
    pub is_sheltered: bool,
    pub meter: Meter,
    /// Nobody is in it or below it: what is charged to it still is elsewhere.
    is_left: bool,
    /// The lists of its processes, and of those in groups below.
    members: Vec<OpenFile>,
    has_more_below: bool,
    /// Whether there is any process in it or below it (version 2).
    events: Option<OpenFile>,
    told: Told,
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
        // What is protected by its name alone may be anywhere.
        let spared = spared.filter(|it| {
            let is_name = |pattern: &GroupPattern| !pattern.is_path();
            it.patterns.iter().any(is_name)
                || it.groups.iter().any(|group| group.starts_with(directory))
        });
        let kill = host.path(directory.join("cgroup.kill"));
        let kill = OpenOptions::new().write(true).open(kill).ok();
        let place = Place {
            directory: directory.to_path_buf(),
            host: host.clone(),
            hierarchy: hierarchy.clone(),
            kill: kill.filter(|_| spared.is_none()),
            spared,
            is_asked: AtomicBool::new(false),
        };
        // The lists of the groups that are below it by now, so many.
        let mut members = Vec::with_capacity(BELOW_MAX);
        let is_all = place.walk(directory, 0, &mut |group, is_deepest| {
            let is_one_more = members.len() == BELOW_MAX;
            if !is_one_more {
                members.extend(OpenFile::open(host, group.join("cgroup.procs")));
            }
            !is_one_more && !is_deepest
        });
        let candidate = Candidate {
            shown: hierarchy.shown(directory).into(),
            place: Arc::new(place),
            rank,
            owner: 0,
            is_unclear: false,
            is_sheltered: false,
            meter: Meter::open(host, hierarchy, directory)?,
            is_left: false,
            members,
            has_more_below: !is_all,
            events: OpenFile::open(host, directory.join("cgroup.events")),
            told: Told {
                processes: Vec::with_capacity(TOLD_MAX),
                are_all: true,
            },
            processes: Ring::new(),
            count: 0,
        };
        (!candidate.members.is_empty()).then_some(candidate)
    }

    /// What is known of it under that name already.
    pub fn go_on(&mut self, before: &Candidate) {
        self.meter.go_on(&before.meter);
        // Of other lists the count says nothing.
        if self.members.len() == before.members.len() && !self.has_more_below {
            self.processes = before.processes;
            self.count = before.count;
        }
    }

    /// Looks at what it takes.
    pub fn look(&mut self, now: Instant, buffer: &mut [u8]) {
        self.is_left = self.is_empty(buffer) == Some(true);
        self.meter.look(now, buffer);
        let lists = self.members.iter().filter_map(|list| {
            let text = list.read(buffer).ok()?;
            Some(text.lines().count() as u64)
        });
        self.count = lists.sum();
        self.processes.keep(now, self.count);
    }

    /// What it is chosen by.
    pub fn figures(&self, now: Instant) -> Figures {
        Figures {
            rank: self.rank,
            bytes: self.bytes(),
            all_bytes: self.meter.now.bytes(),
            grew: self.meter.grew(now),
            took: self.meter.took,
            grew_slowly: self.meter.grew_slowly(),
            owner: self.owner,
            is_unclear: self.is_unclear,
            is_sheltered: self.is_sheltered,
            is_hidden: self.is_left,
        }
    }

    /// In RAM and in swap, without files in memory and the page cache: what comes back
    /// when it ends; nothing where nobody is in it.
    pub fn bytes(&self) -> u64 {
        match self.is_left {
            true => 0,
            false => self.meter.now.held_bytes,
        }
    }

    /// How much more it takes than ten seconds ago.
    pub fn grew_bytes(&self, now: Instant) -> u64 {
        u64::try_from(self.meter.grew(now)).unwrap_or(0)
    }

    /// Whether it has ended: nothing is in it or below it, or all that were told have gone,
    /// and what is there now was begun since.
    pub fn has_ended(&self, buffer: &mut [u8]) -> bool {
        let is_empty = self.is_empty(buffer);
        let mut told = self.told.processes.iter();
        let are_gone = self.told.are_all && told.len() > 0 && told.all(has_gone);
        match is_empty {
            Some(true) => true,
            Some(false) if !are_gone => false,
            // One that leaves its memory to a child has not.
            _ => self.meter.read(buffer).map_or(0, |it| it.held_bytes) < self.bytes() / 2,
        }
    }

    /// Whether no process is in it or below it; none where what is open does not tell.
    pub fn is_empty(&self, buffer: &mut [u8]) -> Option<bool> {
        let events = self.events.as_ref().filter(|_| self.place.spared.is_none());
        let Some(events) = events else {
            let mut lists = self.members.iter();
            let is_empty = lists.all(|list| match list.read(buffer) {
                Ok(text) => text.trim().is_empty(),
                Err(err) => is_removed(&err),
            });
            return (!self.has_more_below || !is_empty).then_some(is_empty);
        };
        Some(match events.read(buffer) {
            Ok(text) => counters::value(text, "populated") == Some(0),
            Err(err) => is_removed(&err),
        })
    }

    /// Whether its processes have doubled since it was first looked at, or within ten
    /// seconds: by telling each of them to end they are not ended, nor is there time for it.
    pub fn multiplies(&self, now: Instant) -> bool {
        let before = self.processes.oldest(now);
        let doubled = before.is_some_and(|(_, before)| self.count / 2 >= before);
        self.count >= MANY && doubled && self.place.kill.is_some()
    }

    /// How many processes it had at the last look, as far as they are followed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Tells all of its processes to end, and how many of those are known.
    pub fn tell(&mut self, ender: &mut Ender, buffer: &mut [u8]) -> u64 {
        if self.has_more_below {
            ender.ask(&self.place, Signal::TERM);
            self.told.are_all = false;
        }
        self.signal(Some(Signal::TERM), buffer)
    }

    /// Kills all of it; once more, where it was asked for and somebody is there still, each
    /// that is known.
    pub fn kill(&mut self, ender: &mut Ender, is_again: bool, buffer: &mut [u8]) {
        if is_again || self.place.kill.is_none() {
            self.signal(Some(Signal::KILL), buffer);
        }
        if self.place.kill.is_some() || self.has_more_below {
            ender.ask(&self.place, Signal::KILL);
        }
        // Nothing but its emptiness tells that it has ended.
        self.told.are_all = false;
    }

    /// Goes the way to a signal once, without one, so that its pages are there.
    pub fn rehearse(&mut self, buffer: &mut [u8]) {
        self.signal(None, buffer);
    }

    fn signal(&mut self, signal: Option<Signal>, buffer: &mut [u8]) -> u64 {
        let Candidate { members, told, .. } = self;
        let mut keep = |process| match told.processes.len() < TOLD_MAX {
            _ if signal.is_none() => {}
            true => told.processes.push(process),
            false => told.are_all = false,
        };
        let members = members.iter();
        members
            .map(|list| signal_listed(|buffer| list.read(buffer), signal, buffer, &mut keep))
            .sum()
    }
}

/// Sends a signal to each process of a list, or none. Each is held by its descriptor first,
/// and looked for in the list again then, so that it is this one that gets the signal and none
/// that has its number by now. `keep` gets those that were told.
fn signal_listed(
    mut read: impl for<'a> FnMut(&'a mut [u8]) -> io::Result<&'a str>,
    signal: Option<Signal>,
    buffer: &mut [u8],
    keep: &mut dyn FnMut(OwnedFd),
) -> u64 {
    let own = rustix::process::getpid();
    let (first, second) = buffer.split_at_mut(buffer.len() / 2);
    let Ok(text) = read(first) else {
        return 0;
    };
    let mut pids = pids(text).filter(|pid| *pid != own && !pid.is_init());
    let mut sent = 0;
    loop {
        let mut held: [Option<(Pid, OwnedFd)>; HELD_MAX] = [const { None }; HELD_MAX];
        let mut count = 0;
        for pid in pids.by_ref().take(HELD_MAX) {
            count += 1;
            let process = pidfd_open(pid, PidfdFlags::empty()).ok();
            held[count - 1] = process.map(|process| (pid, process));
        }
        if count == 0 {
            return sent;
        }
        let Ok(text) = read(second) else {
            return sent;
        };
        for pid in self::pids(text) {
            let is_it = |it: &&mut Option<(Pid, OwnedFd)>| {
                it.as_ref().is_some_and(|(held, _)| *held == pid)
            };
            let Some((_, process)) = held.iter_mut().find(is_it).and_then(Option::take) else {
                continue;
            };
            let result = match signal {
                Some(signal) => pidfd_send_signal(&process, signal),
                None => test_kill_process(pid),
            };
            if result.is_ok() {
                sent += 1;
                keep(process);
            }
        }
    }
}

/// The processes of a list; one that is longer than its buffer may end within a number.
fn pids(text: &str) -> impl Iterator<Item = Pid> + '_ {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .filter_map(|line| Pid::from_raw(line.parse().ok()?))
}

/// Whether a process has ended: its descriptor can be read then.
fn has_gone(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_is_elsewhere_by_now_is_left() {
        let start = || Command::new("sleep").arg("1000").spawn().unwrap();
        let (mut member, mut other) = (start(), start());
        let lists = [
            format!("{}\n{}\n", member.id(), other.id()),
            format!("{}\n", member.id()),
        ];
        let mut lists = lists.iter();
        let sent = signal_listed(
            |buffer| {
                let list = lists.next().unwrap().as_bytes();
                buffer[..list.len()].copy_from_slice(list);
                Ok(std::str::from_utf8(&buffer[..list.len()]).unwrap())
            },
            Some(Signal::TERM),
            &mut touched(),
            &mut |_| (),
        );
        assert_eq!(sent, 1);
        assert!(!member.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
