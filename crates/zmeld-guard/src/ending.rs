//! Processes are told to end, as many in one go as give back what is missing, killed where they
//! do not, and waited for.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::vec::Drain;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::process::{pidfd_send_signal, Signal};
use zmeld_linux::Host;
use zmeld_store::release_memory;

use crate::choice::{choose_processes, AT_ONCE_MAX, ENDING_MAX, LARGEST_MAX};
use crate::error::Error;
use crate::event::{is_over, Cause, Event, Round, Victim};
use crate::guard_loop::GuardLoop;
use crate::memory::{end_below, Sample};
use crate::owners::Groups;
use crate::processes::{in_groups, signal_group, Handle, OpenGroup, Process};
use crate::worker::Mailbox;
use crate::GuardRule;

/// Seconds until told processes have ended; what goes meanwhile has to come back, too.
const ENDS_IN_S: f64 = 2.0;
/// One that was killed and has not gone so long after waits in the kernel: it is passed over.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// After so many rounds in a group all of it is killed.
const ROUNDS_IN_GROUP: u32 = 4;
/// One that is left alone for so long begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// An owner's next round within so long means that the last one ended too few: it ends so many
/// times as many, where half of what was little is gone.
const AGAIN_WITHIN: Duration = Duration::from_secs(5);
const TIMES_AS_MANY: usize = 8;
/// So many groups are remembered for that, and asked for at a time.
pub(crate) const GROUPS_MAX: usize = 256;

/// A process on its way out.
#[derive(Debug)]
pub(crate) struct Ending {
    pub process: Process,
    since: Instant,
    killed: Option<Instant>,
    is_whole: bool,
    /// It was told that it waits in the kernel.
    is_given_up: bool,
    /// Its memory was taken back, and is in the figures by now.
    is_released: bool,
    is_back: bool,
}

impl Ending {
    pub fn is_stuck(&self, now: Instant) -> bool {
        let killed = self.killed.map(|at| now.duration_since(at));
        killed.is_some_and(|it| it >= STUCK_AFTER)
    }
}

/// Task of another thread, since it opens files, and waits for who makes groups.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// All of a group gets a signal, or is counted.
    Signal(Arc<OpenGroup>, Option<Signal>),
    /// A service is marked as systemd-oomd does.
    Mark(Arc<OpenGroup>),
}

pub(crate) fn ender(
    host: &Host,
    rule: &GuardRule,
    thread: Option<&str>,
) -> Result<Mailbox<Task>, Error> {
    let (host, rule) = (host.clone(), rule.clone());
    Mailbox::new(thread, GROUPS_MAX, move |tasks: Drain<Task>| {
        let groups = Groups::find(&host, &rule).ok();
        let tasks: Vec<Task> = tasks.collect();
        let told = tasks.iter().filter_map(|it| match it {
            Task::Signal(group, _) => group.directory.as_deref(),
            Task::Mark(_) => None,
        });
        let told: Vec<&Path> = told.collect();
        let groups = groups.filter(|_| !told.is_empty());
        let listed = groups.as_ref().map(|all| in_groups(all, &told));
        for task in &tasks {
            match (task, groups.as_ref().zip(listed.as_ref())) {
                (Task::Signal(group, signal), Some((all, listed))) => {
                    signal_group(all, listed, group, *signal);
                }
                (Task::Mark(group), _) => mark(&host, group),
                _ => {}
            }
        }
    })
}

/// systemd reads these when processes of a service have ended, and calls its result `oom-kill`.
fn mark(host: &Host, group: &OpenGroup) {
    let directory = group.directory.as_ref();
    let Some(directory) = directory.filter(|_| group.shown.ends_with(".service")) else {
        return;
    };
    let path = host.path(directory);
    for name in ["user.oomd_ooms", "user.oomd_kill"] {
        let mut text = [0; 16];
        let length = rustix::fs::getxattr(&path, name, &mut text[..]).unwrap_or(0);
        let before = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let count = (before.parse::<u64>().unwrap_or(0) + 1).to_string();
        // Before Linux 5.7 groups have none.
        let _ = rustix::fs::setxattr(&path, name, count.as_bytes(), XattrFlags::empty());
    }
}

/// Thread that takes the memory of killed processes, before they run to give it back. It waits for
/// the holder of that memory's lock, so it does nothing else.
pub(crate) fn releaser(thread: Option<&str>) -> Result<Mailbox<Arc<Handle>>, Error> {
    Mailbox::new(thread, ENDING_MAX, |killed: Drain<Arc<Handle>>| {
        for process in killed {
            // Before Linux 5.15, or where it has gone, there is nothing to do.
            let released = release_memory(&process.fd);
            process
                .is_released
                .store(released.is_ok(), Ordering::Relaxed);
            let errno = released.err().and_then(|it| it.raw_os_error());
            let is_gone = errno == Some(Errno::SRCH.raw_os_error());
            process.is_gone.store(is_gone, Ordering::Relaxed);
        }
    })
}

impl GuardLoop {
    /// Tells some to end, where those that were told already do not do.
    pub(crate) fn end_some(&mut self, cause: Cause, sample: &Sample, now: Instant) {
        self.let_go_of_stuck();
        let in_time = self.endings.iter().filter(|it| !it.is_stuck(now));
        let pending = in_time.clone().filter(|it| !it.is_back);
        let pending: u64 = pending.map(|it| it.process.gives_bytes).sum();
        let is_going = in_time.count() > 0;
        let Some(account) = &self.plan.account else {
            return;
        };
        if account.spared.is_some() {
            // Pending ends may suffice.
            if !is_going && is_over(&mut self.told_nothing, now) {
                let event = Event::Nothing(cause, *sample, account.clone());
                self.outbox.say(event);
            }
            return;
        }
        let room = match cause {
            Cause::NoRoom => sample.headroom_bytes,
            Cause::Stalled => sample.available_bytes,
        };
        let goes = (self.plan.rate * ENDS_IN_S) as u64;
        let missing = end_below(&self.rule, sample).saturating_sub(room) + goes;
        let is_others = |it: &Round| it.victim.account.id != account.id;
        if is_going && (pending >= missing || self.round.as_ref().is_some_and(is_others)) {
            return;
        }
        let (processes, endings) = (&self.plan.processes, &self.endings);
        let is_told = |pid| endings.iter().any(|it| it.process.pid == pid);
        let gives = |at: usize| {
            let it: &Process = &processes[at];
            // Its growth until then is saved, too.
            let takes = (it.rate * ENDS_IN_S) as u64;
            (!is_told(it.pid)).then_some(it.gives_bytes + takes)
        };
        let missing = missing.saturating_sub(pending);
        let is_pressing = !is_going && room < end_below(&self.rule, sample) / 2;
        let last = self.last.filter(|(owner, _, at)| {
            *owner == account.id && now.duration_since(*at) < AGAIN_WITHIN
        });
        let most = last.map_or(0, |(_, most, _)| most);
        let least = if is_pressing { most * TIMES_AS_MANY } else { 0 };
        choose_processes(
            processes.len(),
            gives,
            missing,
            least.max(1),
            &mut self.chosen,
        );
        self.chosen.truncate(ENDING_MAX - self.endings.len());
        let Some(first) = self.chosen.first().map(|at| &processes[*at]) else {
            return;
        };
        let victim = Victim {
            account: account.clone(),
            group: first.group.shown.clone(),
            process: first.name.clone(),
            pid: first.pid,
            score: first.score,
            processes: self.chosen.len() as u64,
            is_whole: first.group.is_whole,
            cause,
            sample: *sample,
        };
        if !self.dry_run {
            self.last = Some((account.id, self.chosen.len().max(most), now));
            self.tell(victim, now);
        } else if is_over(&mut self.told_would, now) {
            self.outbox.say(Event::Would(victim));
        }
    }

    /// Forgets stuck processes where there is no room for others.
    fn let_go_of_stuck(&mut self) {
        let count = self.endings.len() + AT_ONCE_MAX + LARGEST_MAX;
        // None is closed here: that may take its time.
        let room = self.retired.capacity() - self.retired.len();
        for _ in 0..count.saturating_sub(ENDING_MAX).min(room) {
            let Some(at) = self.endings.iter().position(|it| it.is_given_up) else {
                return;
            };
            self.retire(at);
        }
    }

    /// Leaves one to be closed by others, where there is room.
    fn retire(&mut self, at: usize) {
        let process = self.endings.swap_remove(at).process;
        if self.retired.len() < self.retired.capacity() {
            self.retired.push(process);
        }
    }

    /// Tells those that were chosen.
    fn tell(&mut self, mut victim: Victim, now: Instant) {
        // From behind, so that places in front stay.
        self.chosen.sort_unstable();
        let first = self.endings.len();
        while let Some(place) = self.chosen.pop() {
            let process = self.plan.processes.remove(place);
            let _ = pidfd_send_signal(&process.handle.fd, Signal::TERM);
            self.endings.push(Ending {
                is_whole: process.group.is_whole,
                process,
                since: now,
                killed: None,
                is_given_up: false,
                is_released: false,
                is_back: false,
            });
        }
        let is_kept = |at: Instant| now.duration_since(at) < FORGOTTEN_AFTER;
        self.struck.retain(|(_, _, at)| is_kept(*at));
        for at in first..self.endings.len() {
            let group = self.endings[at].process.group.clone();
            let mut before = self.endings[first..at].iter();
            if before.any(|it| it.process.group.id == group.id) {
                continue;
            }
            let is_again = self.strike(group.id, now) >= ROUNDS_IN_GROUP;
            let is_again = is_again && group.directory.is_some() && !group.lets_in;
            if is_again {
                // Whatever is begun in it until it is empty.
                let _ = group.since.set(u64::MAX);
            }
            let ending = &mut self.endings[at];
            ending.is_whole |= is_again;
            ending.killed = is_again.then_some(now);
            let (is_whole, is_main) = (ending.is_whole, ending.process.is_main);
            victim.is_whole |= is_whole;
            if is_whole {
                let signal = if is_again { Signal::KILL } else { Signal::TERM };
                group.left.store(1, Ordering::Relaxed);
                self.ender.leave(Task::Signal(group.clone(), Some(signal)));
            }
            if is_whole || is_main {
                self.ender.leave(Task::Mark(group));
            }
        }
        self.outbox.say(Event::Ends(victim.clone()));
        match &mut self.round {
            Some(round) => {
                round.told = now;
                round.victim.processes += victim.processes;
                round.victim.is_whole |= victim.is_whole;
            }
            None => {
                self.round = Some(Round {
                    victim,
                    since: now,
                    told: now,
                    was_killed: false,
                    age: Duration::ZERO,
                    is_gone: true,
                    headroom_bytes: 0,
                });
            }
        }
    }

    /// How many rounds there were in a group lately.
    fn strike(&mut self, id: u64, now: Instant) -> u32 {
        if let Some(it) = self.struck.iter_mut().find(|it| it.0 == id) {
            (it.1, it.2) = (it.1 + 1, now);
            return it.1;
        }
        if self.struck.len() < GROUPS_MAX {
            self.struck.push((id, 1, now));
        }
        1
    }

    /// Those that were told to end: they have, or are killed. Whether any has.
    pub(crate) fn go_on_ending(&mut self, sample: &Sample, now: Instant) -> bool {
        let (count, little) = (self.endings.len(), end_below(&self.rule, sample));
        // Half of what was little: there is no time to wait for an orderly end.
        let is_pressing = sample.headroom_bytes < little / 2;
        let mut at = 0;
        while at < self.endings.len() {
            let ending = &mut self.endings[at];
            let group = &ending.process.group;
            let is_left = ending.is_whole && group.left.load(Ordering::Relaxed) > 0;
            if has_gone(&ending.process) && !is_left {
                self.retire(at);
                continue;
            }
            at += 1;
            ending.is_back = ending.is_released;
            ending.is_released = ending.process.handle.is_released.load(Ordering::Relaxed);
            let is_late = now.duration_since(ending.since) >= self.rule.grace.duration();
            let is_kill = ending.killed.is_some() || is_late || is_pressing;
            if is_kill {
                let is_first = ending.killed.is_none();
                ending.killed.get_or_insert(now);
                let _ = pidfd_send_signal(&ending.process.handle.fd, Signal::KILL);
                if is_first || ending.is_given_up {
                    self.releaser.leave(Arc::clone(&ending.process.handle));
                }
                let round = self.round.as_mut().filter(|_| !ending.is_given_up);
                round.into_iter().for_each(|it| it.was_killed = true);
            }
            if is_left {
                // Until nothing is left in it, and once for all that go with it.
                let group = &ending.process.group;
                let signal = is_kill.then_some(Signal::KILL);
                let is_it = |it: &Task| matches!(it, Task::Signal(of, with) if Arc::ptr_eq(of, group) && *with == signal);
                if !self.ender.waiting().iter().any(is_it) {
                    self.ender.leave(Task::Signal(Arc::clone(group), signal));
                }
            }
        }
        self.tell_of_round(sample, now);
        self.endings.len() < count
    }

    /// Tells of those of whom all have gone, or wait in the kernel.
    fn tell_of_round(&mut self, sample: &Sample, now: Instant) {
        let mut own = self.endings.iter_mut().filter(|it| !it.is_given_up);
        if own.any(|it| !it.is_stuck(now)) {
            return;
        }
        let Some(mut round) = self.round.take() else {
            return;
        };
        for ending in self.endings.iter_mut().filter(|it| !it.is_given_up) {
            (ending.is_given_up, round.is_gone) = (true, false);
        }
        round.age = now.duration_since(round.since);
        round.headroom_bytes = sample.headroom_bytes;
        self.outbox.say(Event::Ended(round));
    }
}

/// Whether a process has ended: its descriptor can be read then, or it has no memory any more.
fn has_gone(process: &Process) -> bool {
    if process.handle.is_gone.load(Ordering::Relaxed) {
        return true;
    }
    let mut fds = [PollFd::new(&process.handle.fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
