//! A control group that may be ended: what it takes, and how it is told to end; and its owner.
//!
//! Who looks opens nothing: the files are open already. What has to be opened, lists of
//! groups that came below it meanwhile, and what the kernel does under a lock that whoever
//! makes groups holds (`cgroup.kill`), a thread of its own does ([`Ender`]).

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, pidfd_send_signal, test_kill_process, Pid, PidfdFlags, Signal};
use zmeld_linux::groups::{GroupPattern, Hierarchy, Version};
use zmeld_linux::host::is_absent;
use zmeld_linux::{counters, Host};

use crate::choice::Figures;
use crate::open::{touched, OpenFile, Ring};
use crate::worker::Worker;
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
/// So many processes are signalled in a look by who looks: more would take too long.
const SIGNALLED_MAX: usize = 512;
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
    /// How many processes whoever went through it last met.
    seen: AtomicUsize,
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

    /// Sends a signal to all that is in it and below it by now, or none.
    fn signal(&self, signal: Option<Signal>, buffer: &mut [u8]) {
        let is_kill = signal == Some(Signal::KILL);
        let whole = self.kill.as_ref().filter(|_| is_kill);
        if whole.is_some_and(|file| file.write_at(b"1", 0).is_ok()) {
            return;
        }
        let (mut groups, mut seen) = (0, 0);
        self.walk(&self.directory, 0, &mut |group, is_deepest| {
            if is_deepest && is_kill {
                // On version 1 there is no such file.
                let _ = self.host.write(group.join("cgroup.kill"), "1");
            }
            // Opened anew each time: version 1 keeps the list for who has it open.
            let path = group.join("cgroup.procs");
            let open = || OpenFile::open(&self.host, &path).ok_or(io::ErrorKind::NotFound);
            seen += signal_listed(
                |buffer| open()?.read(buffer),
                signal,
                usize::MAX,
                buffer,
                &mut |_| (),
            );
            groups += 1;
            groups < BELOW_ALL
        });
        self.seen.store(seen, Ordering::Relaxed);
    }
}

/// Who does what the one that looks may not.
#[derive(Debug)]
pub(crate) struct Ender {
    asked: Asked,
    worker: Worker<Asked>,
    /// So many processes are signalled by who looks, in this look.
    left: usize,
}

type Asked = Vec<(Arc<Place>, Option<Signal>)>;

impl Ender {
    pub fn new(by_thread: bool) -> Result<Ender, Error> {
        let mut buffer = touched();
        let end = move |asked: &mut Asked| {
            asked
                .iter()
                .for_each(|(place, signal)| place.signal(*signal, &mut buffer));
            asked.clear();
        };
        let name = by_thread.then_some("guard-end");
        Ok(Ender {
            asked: Vec::with_capacity(ASKED_MAX),
            worker: Worker::new(name, Vec::with_capacity(ASKED_MAX), end)?,
            left: SIGNALLED_MAX,
        })
    }

    /// It is done from the end of the look on; where too many wait, it is asked again at the
    /// next look.
    fn ask(&mut self, place: &Arc<Place>, signal: Option<Signal>) {
        let is_it =
            |(it, other): &(Arc<Place>, Option<Signal>)| Arc::ptr_eq(it, place) && *other == signal;
        if self.asked.len() < ASKED_MAX && !self.asked.iter().any(is_it) {
            self.asked.push((Arc::clone(place), signal));
        }
    }

    /// Once a look.
    pub fn send(&mut self) {
        self.left = SIGNALLED_MAX;
        if let Some(sent) = self.worker.get().filter(|_| !self.asked.is_empty()) {
            std::mem::swap(sent, &mut self.asked);
            self.worker.send();
        }
    }
}

/// A group that may be ended.
#[derive(Debug)]
pub(crate) struct TrackedGroup {
    /// Its path from the root of its hierarchy on.
    pub shown: Arc<str>,
    pub place: Arc<Place>,
    /// What was found of it as groups were chosen last: its owner, and how it is protected.
    pub found: Figures,
    pub meter: Meter,
    /// Nobody is in it or below it: what is charged to it still is elsewhere.
    is_left: bool,
    /// The lists of its processes, and of those in groups below; none on version 1, where
    /// whoever reads one waits for others who do.
    members: Vec<OpenFile>,
    has_more_below: bool,
    /// Whether there is any process in it or below it (version 2).
    events: Option<OpenFile>,
    /// Processes that were told to end, and whether they are all that were.
    told: Vec<OwnedFd>,
    are_all_told: bool,
    /// How many processes it had, as far as they are followed.
    processes: Ring<u64>,
    count: u64,
}

impl TrackedGroup {
    /// None where it is gone, or has no figures.
    pub fn open(
        host: &Host,
        hierarchy: &Hierarchy,
        directory: &Path,
        found: Figures,
        spared: Option<Arc<Spared>>,
        buffer: &mut [u8],
    ) -> Option<TrackedGroup> {
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
            seen: AtomicUsize::new(0),
        };
        // The lists of the groups that are below it by now, so many.
        let mut members = Vec::with_capacity(BELOW_MAX);
        let is_listed = hierarchy.version == Version::Two;
        let is_all = is_listed
            && place.walk(directory, 0, &mut |group, is_deepest| {
                let is_one_more = members.len() == BELOW_MAX;
                if !is_one_more {
                    members.extend(OpenFile::open(host, group.join("cgroup.procs")));
                }
                !is_one_more && !is_deepest
            });
        match is_listed {
            true if members.is_empty() => return None,
            true => {}
            false => place.signal(None, buffer),
        }
        Some(TrackedGroup {
            shown: hierarchy.shown(directory).into(),
            place: Arc::new(place),
            found,
            meter: Meter::open(host, hierarchy, directory)?,
            is_left: false,
            members,
            has_more_below: !is_all,
            events: OpenFile::open(host, directory.join("cgroup.events")),
            told: Vec::with_capacity(TOLD_MAX),
            are_all_told: true,
            processes: Ring::new(),
            count: 0,
        })
    }

    /// What is known of it under that name already.
    pub fn go_on(&mut self, before: &TrackedGroup) {
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

    /// What its path is known by.
    pub fn id(&self) -> u64 {
        let mut id = DefaultHasher::new();
        self.shown.hash(&mut id);
        id.finish()
    }

    /// What it is chosen by.
    pub fn figures(&self, now: Instant) -> Figures {
        Figures {
            bytes: self.bytes(),
            is_hidden: self.is_left,
            ..self.meter.figures(now, self.found)
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

    /// On version 1 another thread looks who is there.
    pub fn ask_who_is_there(&self, ender: &mut Ender) {
        if self.members.is_empty() {
            ender.ask(&self.place, None);
        }
    }

    /// Whether it has ended: nothing is in it or below it, nor has moved elsewhere, or all
    /// that were told have gone, and what is there now was begun since.
    pub fn has_ended(&self, buffer: &mut [u8]) -> bool {
        let is_empty = self.is_empty(buffer);
        let are_told_gone = self.told.iter().all(has_gone);
        let are_gone = self.are_all_told && !self.told.is_empty() && are_told_gone;
        match is_empty {
            Some(true) => are_told_gone,
            Some(false) if !are_gone => false,
            // One that leaves its memory to a child has not.
            _ => !self.keeps_half(buffer),
        }
    }

    /// Whether it still holds half of what it held.
    pub fn keeps_half(&self, buffer: &mut [u8]) -> bool {
        let taken = self.meter.read(buffer).unwrap_or_default();
        self.meter.now.held_bytes > 0 && taken.held_bytes >= self.meter.now.held_bytes / 2
    }

    /// Whether no process is in it or below it; none where what is open does not tell.
    pub fn is_empty(&self, buffer: &mut [u8]) -> Option<bool> {
        if self.members.is_empty() {
            return Some(self.count() == 0);
        }
        let events = self.events.as_ref().filter(|_| self.place.spared.is_none());
        let Some(events) = events else {
            let mut lists = self.members.iter();
            let is_empty = lists.all(|list| match list.read(buffer) {
                Ok(text) => text.trim().is_empty(),
                Err(err) => is_absent(&err),
            });
            return (!self.has_more_below || !is_empty).then_some(is_empty);
        };
        Some(match events.read(buffer) {
            Ok(text) => counters::value(text, "populated") == Some(0),
            Err(err) => is_absent(&err),
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
        match self.members.is_empty() {
            true => self.place.seen.load(Ordering::Relaxed) as u64,
            false => self.count,
        }
    }

    /// Tells all of its processes to end, and how many of those are known.
    pub fn tell(&mut self, ender: &mut Ender, buffer: &mut [u8]) -> u64 {
        let has_more = self.has_more(ender);
        let told = self.signal(Some(Signal::TERM), ender, buffer);
        if has_more {
            ender.ask(&self.place, Some(Signal::TERM));
            self.are_all_told = false;
        }
        match self.members.is_empty() {
            true => self.count(),
            false => told,
        }
    }

    /// Kills all of it, and who was told to end and has moved elsewhere; where that is slow,
    /// each that is known.
    pub fn kill(&mut self, ender: &mut Ender, is_slow: bool, buffer: &mut [u8]) {
        for process in &self.told {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        let has_more = self.has_more(ender);
        let is_by_one = is_slow || self.place.kill.is_none();
        let found = is_by_one && self.signal(Some(Signal::KILL), ender, buffer) > 0;
        // Who was not there when its lists were opened.
        if self.place.kill.is_some() || has_more || !found {
            ender.ask(&self.place, Some(Signal::KILL));
        }
        // Nothing but its emptiness tells that it has ended.
        self.are_all_told = false;
    }

    /// Whether it has processes that are not signalled here, in this look.
    fn has_more(&self, ender: &Ender) -> bool {
        self.has_more_below || self.count > ender.left as u64
    }

    /// Goes the way to a signal once, without one, so that its pages are there.
    pub fn rehearse(&mut self, ender: &mut Ender, buffer: &mut [u8]) {
        self.signal(None, ender, buffer);
    }

    /// It is followed no more.
    pub fn forget(&mut self) {
        self.told.clear();
    }

    fn signal(&mut self, signal: Option<Signal>, ender: &mut Ender, buffer: &mut [u8]) -> u64 {
        let (told, are_all_told) = (&mut self.told, &mut self.are_all_told);
        let mut keep = |process| match told.len() < TOLD_MAX {
            _ if signal.is_none() => {}
            true => told.push(process),
            false => *are_all_told = false,
        };
        let mut sent = 0;
        for list in &self.members {
            let most = ender.left.saturating_sub(sent);
            if most > 0 {
                sent += signal_listed(|it| list.read(it), signal, most, buffer, &mut keep);
            }
        }
        let tried = usize::try_from(self.count).unwrap_or(usize::MAX);
        ender.left = ender.left.saturating_sub(tried.max(sent));
        sent as u64
    }
}

/// Sends a signal to each process of a list, or none. Each is held by its descriptor first,
/// and looked for in the list again then, so that it is this one that gets the signal and none
/// that has its number by now. `keep` gets those that were told.
fn signal_listed(
    mut read: impl for<'a> FnMut(&'a mut [u8]) -> io::Result<&'a str>,
    signal: Option<Signal>,
    most: usize,
    buffer: &mut [u8],
    keep: &mut dyn FnMut(OwnedFd),
) -> usize {
    let own = rustix::process::getpid();
    let (first, second) = buffer.split_at_mut(buffer.len() / 2);
    let Ok(text) = read(first) else {
        return 0;
    };
    let pids_there = pids(text).filter(|pid| *pid != own && !pid.is_init());
    let mut pids = pids_there.take(most);
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

/// What a group takes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    /// In RAM and in swap, what comes back when it ends.
    pub held_bytes: u64,
    /// Files in memory.
    pub shared_bytes: u64,
}

impl Taken {
    pub fn bytes(self) -> u64 {
        self.held_bytes.saturating_add(self.shared_bytes)
    }
}

/// The files of it, and what they said lately.
#[derive(Debug)]
pub(crate) struct Meter {
    version: Version,
    stat: OpenFile,
    swap: Option<OpenFile>,
    /// What the kernel takes for it, on version 1; all that it takes.
    usage: Option<OpenFile>,
    taken: Ring<u64>,
    pub now: Taken,
    /// How much more that is than at the last look.
    pub took: i64,
    /// What it took when memory was last far from short.
    calm_bytes: Option<u64>,
}

/// Who has groups: a user or a service. What they take together is his, whatever he makes of
/// them and wherever he moves his processes.
#[derive(Debug)]
pub(crate) struct Owner {
    pub directory: Arc<Path>,
    /// The place of it, as groups were chosen last.
    pub place: usize,
    pub meter: Meter,
}

impl Owner {
    /// Whether a group is one of several of his.
    pub fn has(&self, group: &Path) -> bool {
        group != &*self.directory && group.starts_with(&self.directory)
    }

    /// All that he has.
    pub fn figures(&self, now: Instant) -> Figures {
        let found = Figures {
            owner: self.place,
            ..Figures::default()
        };
        self.meter.figures(now, found)
    }
}

impl Meter {
    /// None where it is gone, or has no figures.
    pub fn open(host: &Host, hierarchy: &Hierarchy, directory: &Path) -> Option<Meter> {
        Some(Meter {
            version: hierarchy.version,
            stat: OpenFile::open(host, directory.join("memory.stat"))?,
            swap: OpenFile::open(host, directory.join("memory.swap.current")),
            usage: OpenFile::open(
                host,
                directory.join(match hierarchy.version {
                    Version::One => "memory.kmem.usage_in_bytes",
                    Version::Two => "memory.current",
                }),
            ),
            taken: Ring::new(),
            now: Taken::default(),
            took: 0,
            calm_bytes: None,
        })
    }

    /// What is known of it already.
    pub fn go_on(&mut self, before: &Meter) {
        self.taken = before.taken;
        self.now = before.now;
        self.took = before.took;
        self.calm_bytes = before.calm_bytes;
    }

    /// Looks at it. What cannot be read stays as it was: it is no growth from nothing later.
    pub fn look(&mut self, now: Instant, buffer: &mut [u8]) {
        let Some(taken) = self.read(buffer) else {
            return;
        };
        self.took = taken.bytes() as i64 - self.now.bytes() as i64;
        self.now = taken;
        self.taken.keep(now, taken.bytes());
        self.calm_bytes.get_or_insert(taken.bytes());
    }

    /// Memory is far from short.
    pub fn is_calm(&mut self) {
        self.calm_bytes = Some(self.now.bytes());
    }

    /// It was not there at that time.
    pub fn began_after(&mut self, then: Instant) {
        self.taken.keep(then, 0);
        self.calm_bytes = Some(0);
    }

    /// What was found of a group, with what it takes.
    fn figures(&self, now: Instant, found: Figures) -> Figures {
        let bytes = self.now.bytes();
        Figures {
            all_bytes: bytes,
            grew: self.grew(now),
            took: self.took,
            // Than when memory was last far from short.
            grew_slowly: bytes as i64 - self.calm_bytes.unwrap_or(bytes) as i64,
            ..found
        }
    }

    /// How much more it takes than ten seconds ago, files in memory (tmpfs) included: who
    /// fills memory with those is who runs away, though they stay when he ends.
    pub fn grew(&self, now: Instant) -> i64 {
        let before = self.taken.oldest(now);
        before.map_or(0, |(_, before)| self.now.bytes() as i64 - before as i64)
    }

    /// What it takes now, nothing where it is gone; none where that cannot be read.
    pub fn read(&self, buffer: &mut [u8]) -> Option<Taken> {
        let stat = match self.stat.read(buffer) {
            Err(err) if is_absent(&err) => return Some(Taken::default()),
            stat => stat.ok()?,
        };
        // Version 1 has `total_` before each, for all below it.
        let total = match self.version {
            Version::One => "total_",
            Version::Two => "",
        };
        let figure = |name: &str| -> Option<u64> {
            stat.lines().find_map(|line| {
                let value = line.strip_prefix(total)?.strip_prefix(name)?;
                value.strip_prefix(' ')?.trim().parse().ok()
            })
        };
        let of = |name: &str| figure(name).unwrap_or(0);
        let anon_bytes = figure("anon").or_else(|| figure("rss"))?;
        let (shared_bytes, sock, file) = (of("shmem"), of("sock"), of("file"));
        let (kernel, reclaimable) = (figure("kernel"), of("slab_reclaimable"));
        let (swap, in_both) = (figure("swap"), of("swapcached"));
        // Pages of files that cannot be had back, since they are locked: what is neither
        // memory of programs nor of tmpfs of what cannot.
        let locked =
            (anon_bytes + shared_bytes).saturating_sub(of("active_anon") + of("inactive_anon"));
        let locked_files = of("unevictable").saturating_sub(locked);
        let mut number = |file: &Option<OpenFile>| -> Option<u64> {
            file.as_ref()?.read(buffer).ok()?.trim().parse().ok()
        };
        // What a bomb of processes takes is the kernel's, as one sum from 5.18 on; on version 2
        // before that it is the rest. What can be had back at any time is no burden.
        let kernel = kernel.or_else(|| {
            let all: u64 = number(&self.usage)?;
            Some(match self.version {
                Version::One => all,
                Version::Two => all.saturating_sub(anon_bytes + file + sock),
            })
        });
        let kernel = kernel.unwrap_or(0).saturating_sub(reclaimable);
        let ram = anon_bytes + locked_files + kernel + sock;
        // What is in RAM again and in swap still counts once.
        let swap = swap.or_else(|| number(&self.swap)).unwrap_or(0);
        Some(Taken {
            held_bytes: ram + swap.saturating_sub(in_both),
            shared_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

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
            usize::MAX,
            &mut touched(),
            &mut |_| (),
        );
        assert_eq!(sent, 1);
        assert!(!member.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// Where each of thousands is held and told there is no look meanwhile: another thread
    /// tells most of them.
    #[test]
    fn a_group_of_many_processes_takes_no_longer_to_tell() {
        let (_root, host) = Host::planted(&[]);
        let put = |path: &str, text: &str| host.plant(path, text);
        let mut last = Command::new("sleep");
        let mut last = last.arg("infinity").stdout(Stdio::null()).spawn().unwrap();
        let mount = "30 1 0:26 / /cg rw shared:4 - cgroup2 cgroup2 rw\n";
        put("proc/self/mountinfo", mount);
        put("cg/cgroup.controllers", "memory\n");
        put("cg/a/memory.stat", "anon 1\n");
        // Beyond what the kernel numbers.
        let all: String = (0..7000)
            .map(|at| format!("{}\n", 5_000_000 + at))
            .collect();
        put("cg/a/cgroup.procs", &format!("{all}{}\n", last.id()));
        let hierarchy = Hierarchy::find(&host).unwrap().unwrap();
        let group = TrackedGroup::open(
            &host,
            &hierarchy,
            Path::new("/cg/a"),
            Figures::default(),
            None,
            &mut touched(),
        );
        let (mut group, mut buffer) = (group.unwrap(), touched());
        group.look(Instant::now(), &mut buffer);
        let mut ender = Ender::new(false).unwrap();
        assert_eq!(group.tell(&mut ender, &mut buffer), 0);
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(last.try_wait().unwrap().is_none());
        ender.send();
        assert!(!last.wait().unwrap().success());
    }
}
