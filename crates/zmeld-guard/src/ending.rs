//! Processes are told to end, as many in one go as give back what is missing, killed where they
//! do not, and waited for.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_send_signal, Signal};
use zmeld_linux::Host;

use crate::choice::{
    choose_owner, choose_processes, took_most, went_bytes, OwnerFigures, ProcessFigures, Right,
    Verdict,
};
use crate::event::{Cause, Event, Gone, Victim};
use crate::guard_loop::{is_over, GuardLoop};
use crate::memory::Sample;
use crate::owners::{Groups, Owner};
use crate::processes::{signal_group, Group, Process};
use crate::worker::Worker;
use crate::{Error, GuardRule};

/// No more processes are on their way out at a time.
pub(crate) const ENDING_MAX: usize = 1024;
/// Nor more rounds, in each of which several are told at once.
pub(crate) const ROUNDS_MAX: usize = 64;
/// What goes in so many seconds until those that are told have ended has to come back, too.
const ENDS_IN_S: f64 = 2.0;
/// One that was killed and has not gone so long after waits in the kernel: it is passed over.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// After so many rounds in a group all of it is killed.
const ROUNDS_IN_GROUP: u32 = 4;
/// One that is left alone for so long begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// So many groups are remembered for that, and asked for at a time.
pub(crate) const GROUPS_MAX: usize = 256;

/// A process on its way out.
#[derive(Debug)]
pub(crate) struct Ending {
    process: Process,
    round: u64,
    since: Instant,
    killed: Option<Instant>,
    /// It goes with all of its group.
    is_whole: bool,
}

impl Ending {
    fn is_stuck(&self, now: Instant) -> bool {
        let killed = self.killed.map(|at| now.duration_since(at));
        killed.is_some_and(|it| it >= STUCK_AFTER)
    }
}

/// Those that were told at once.
#[derive(Debug)]
pub(crate) struct Round {
    number: u64,
    victim: Victim,
    since: Instant,
    was_killed: bool,
    /// It was told that some of it waits in the kernel.
    is_given_up: bool,
}

/// What another thread does, since it opens files, and waits for who makes groups.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// All of a group gets a signal, or is counted.
    Signal(Arc<Group>, Option<Signal>),
    /// A service is marked as systemd-oomd does.
    Mark(Arc<Group>),
}

/// Who does it.
pub(crate) fn ender(
    host: &Host,
    rule: &GuardRule,
    by_thread: bool,
) -> Result<Worker<Vec<Task>>, Error> {
    let (host, rule) = (host.clone(), rule.clone());
    let work = move |tasks: &mut Vec<Task>| {
        let groups = Groups::find(&host, &rule).ok();
        for task in tasks.drain(..) {
            match (task, &groups) {
                (Task::Signal(group, signal), Some(groups)) => signal_group(groups, &group, signal),
                (Task::Mark(group), _) => mark(&host, &group),
                _ => {}
            }
        }
    };
    Worker::new(
        by_thread.then_some("guard-end"),
        Vec::with_capacity(GROUPS_MAX),
        work,
    )
}

/// systemd reads these when processes of a service have ended, and calls its result `oom-kill`.
fn mark(host: &Host, group: &Group) {
    let directory = group.directory.as_ref();
    let Some(directory) = directory.filter(|_| group.shown.ends_with(".service")) else {
        return;
    };
    let path = host.path(directory);
    for name in ["user.oomd_ooms", "user.oomd_kill"] {
        let mut text = [0; 16];
        let length = rustix::fs::getxattr(&path, name, &mut text[..]).unwrap_or(0);
        let before = std::str::from_utf8(&text[..length]).unwrap_or_default();
        let count = before.parse::<u64>().unwrap_or(0) + 1;
        let flags = rustix::fs::XattrFlags::empty();
        // Before Linux 5.7 groups have none.
        let _ = rustix::fs::setxattr(&path, name, count.to_string().as_bytes(), flags);
    }
}

impl GuardLoop {
    /// Tells some to end, where those that were told already do not do.
    pub(crate) fn end_some(&mut self, cause: Cause, sample: &Sample, now: Instant) {
        let begin = Instant::now();
        self.figure(sample, now);
        let (owners, processes, listed) = (&self.owners, &self.processes, &self.listed);
        let (endings, passed) = (&self.endings, &self.passed);
        let went = went_bytes(&self.figures);
        let may_go = |process: &Process| {
            let is_told = endings.iter().any(|it| it.process.pid == process.pid);
            let is_passed = process.passed.is_some_and(|id| {
                let of_owner = || passed.iter().filter(|it| it.owner == process.owner);
                // One that took more than half of what went shields nobody, nor do all together.
                let took = |it: &crate::owners::PassedOver| it.meter.took_bytes(now);
                let own = of_owner().find(|it| it.id == id).map(took);
                let all: u64 = of_owner().map(took).sum();
                let is_most = |took| took_most(took, went, sample.can_bytes);
                own.is_some_and(|own| !is_most(own) && !is_most(all))
            });
            !is_told && !is_passed
        };
        let has_some = |at: usize| {
            let place = owners.get(at).map(|it| &it.place);
            let mut own = processes.iter().filter(|it| Some(&it.owner) == place);
            // Nobody else pays while his are on their way out; of one that was not looked into
            // it is not known.
            let is_going = |it: &Ending| Some(&it.process.owner) == place && !it.is_stuck(now);
            let is_unknown = place.is_some_and(|place| !listed.contains(place));
            is_unknown || own.any(may_go) || endings.iter().any(is_going)
        };
        let is_stall = cause == Cause::Stalled;
        let verdict = choose_owner(&self.figures, sample.can_bytes, is_stall, has_some);
        let place = match verdict {
            Verdict::Pays(place) => place,
            verdict => return self.tell_of_nobody(verdict, cause, sample, now),
        };
        let owner = &owners[place];
        let is_his = |it: &Process| it.owner == owner.place;
        let in_time = endings.iter().filter(|it| !it.is_stuck(now));
        let pending: u64 = in_time.map(|it| it.process.gives_bytes).sum();
        let rate: f64 = owners.iter().map(|it| it.meter.rate(now)).sum();
        let room = match cause {
            Cause::NoRoom => sample.headroom_bytes,
            Cause::Stalled => sample.available_bytes,
        };
        let missing = self.end_below(sample).saturating_sub(room) + (rate * ENDS_IN_S) as u64;
        if pending > 0 && pending >= missing {
            return;
        }
        self.process_figures.clear();
        self.process_figures
            .extend(processes.iter().map(|it| ProcessFigures {
                gives_bytes: it.gives_bytes,
                may_go: is_his(it) && may_go(it),
            }));
        choose_processes(
            &self.process_figures,
            missing.saturating_sub(pending),
            &mut self.chosen,
        );
        self.chosen.truncate(ENDING_MAX - self.endings.len());
        // Those of an owner who holds most only now are listed first.
        let Some(first) = self.chosen.first().map(|at| &self.processes[*at]) else {
            return;
        };
        let victim = Victim {
            owner: owner.shown.clone(),
            held_bytes: owner.meter.now.all_bytes,
            took_bytes: owner.meter.took_bytes(now),
            went_bytes: went,
            group: first.group.shown.clone(),
            process: first.name.clone(),
            pid: first.pid,
            score: first.score,
            processes: self.chosen.len() as u64,
            is_whole: first.group.is_whole,
            cause,
            sample: *sample,
            reaction: Duration::ZERO,
        };
        if self.dry_run {
            if is_over(&mut self.told_would, now) {
                self.outbox.say(Event::Would(victim));
            }
            return;
        }
        if self.rounds.len() < ROUNDS_MAX {
            self.end_round(victim, begin, now);
        }
    }

    /// What each owner is judged by; behind them what is nobody's.
    pub(crate) fn figure(&mut self, sample: &Sample, now: Instant) {
        self.figures.clear();
        let can = sample.can_bytes as i64;
        self.figures
            .extend(self.owners.iter().map(|it| OwnerFigures {
                right: it.right,
                holds_bytes: shifted(it, can),
                took_bytes: it.meter.took_bytes(now),
                is_shielded: it.shift < 0,
                is_stalled: it.is_stalled,
            }));
        self.figures.push(OwnerFigures {
            right: Right::Kept("it is charged to nobody who is there"),
            holds_bytes: self.nobody.now.all_bytes,
            took_bytes: self.nobody.took_bytes(now),
            is_shielded: false,
            is_stalled: false,
        });
    }

    fn tell_of_nobody(&mut self, verdict: Verdict, cause: Cause, sample: &Sample, now: Instant) {
        // What is on its way out may do.
        let in_time = |it: &Ending| !it.is_stuck(now);
        if self.endings.iter().any(in_time) || !is_over(&mut self.told_nothing, now) {
            return;
        }
        let blamed = match verdict {
            Verdict::Blamed(place) => Some((place, true)),
            _ => (0..self.owners.len())
                .max_by_key(|at| self.figures[*at].holds_bytes)
                .map(|at| (at, false)),
        };
        let event = blamed.map(|(place, is_blamed)| {
            let figures = self.figures[place];
            let (shown, meter) = match self.owners.get(place) {
                Some(owner) => (owner.shown.clone(), &owner.meter),
                None => (self.nobodys.clone(), &self.nobody),
            };
            let why = match figures.right {
                Right::Kept(why) => why,
                _ if is_blamed => "OOMScoreAdjust= protects it",
                _ => "nothing of it may be ended",
            };
            let took = is_blamed.then_some(figures.took_bytes);
            Event::Nothing(cause, *sample, shown, meter.now.all_bytes, took, why)
        });
        if let Some(event) = event {
            self.outbox.say(event);
        }
    }

    /// Tells those that were chosen.
    fn end_round(&mut self, mut victim: Victim, begin: Instant, now: Instant) {
        self.round += 1;
        // From behind, so that places in front stay.
        self.chosen.sort_unstable();
        let first = self.endings.len();
        while let Some(place) = self.chosen.pop() {
            let process = self.processes.swap_remove(place);
            let _ = pidfd_send_signal(&process.fd, Signal::TERM);
            self.endings.push(Ending {
                is_whole: process.group.is_whole,
                process,
                round: self.round,
                since: now,
                killed: None,
            });
        }
        self.struck
            .retain(|(_, _, at)| now.duration_since(*at) < FORGOTTEN_AFTER);
        for at in first..self.endings.len() {
            let group = self.endings[at].process.group.clone();
            if self.endings[first..at]
                .iter()
                .any(|it| it.process.group.id == group.id)
            {
                continue;
            }
            let rounds = self.strike(group.id, now);
            let is_again = rounds >= ROUNDS_IN_GROUP && group.directory.is_some();
            let ending = &mut self.endings[at];
            ending.is_whole |= is_again;
            victim.is_whole |= is_again;
            ending.killed = is_again.then_some(now);
            let (is_whole, is_main) = (ending.is_whole, ending.process.is_main);
            if is_whole {
                let signal = if is_again { Signal::KILL } else { Signal::TERM };
                group.left.store(1, Ordering::Relaxed);
                self.ask(Task::Signal(group.clone(), Some(signal)));
            }
            if is_whole || is_main {
                self.ask(Task::Mark(group));
            }
        }
        victim.reaction = begin.elapsed();
        self.outbox.say(Event::Ends(victim.clone()));
        self.rounds.push(Round {
            number: self.round,
            victim,
            since: now,
            was_killed: false,
            is_given_up: false,
        });
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

    fn ask(&mut self, task: Task) {
        if self.tasks.len() < GROUPS_MAX {
            self.tasks.push(task);
        }
    }

    /// Those that were told to end: they have, or are killed. Whether any has.
    pub(crate) fn go_on_ending(&mut self, sample: &Sample, now: Instant) -> bool {
        let (count, end_below) = (self.endings.len(), self.end_below(sample));
        // Half of what was little: there is no time to wait for an orderly end.
        let is_pressing = sample.headroom_bytes < end_below / 2;
        let mut at = 0;
        while at < self.endings.len() {
            let ending = &mut self.endings[at];
            let is_left = ending.is_whole && ending.process.group.left.load(Ordering::Relaxed) > 0;
            if has_gone(&ending.process) && !is_left {
                let ended = self.endings.swap_remove(at);
                if self.retired.len() < self.retired.capacity() {
                    self.retired.push(ended.process);
                }
                continue;
            }
            at += 1;
            let is_late = now.duration_since(ending.since) >= self.rule.grace.duration();
            let is_kill = ending.killed.is_some() || is_late || is_pressing;
            if is_kill {
                ending.killed.get_or_insert(now);
                let _ = pidfd_send_signal(&ending.process.fd, Signal::KILL);
                let mut rounds = self.rounds.iter_mut();
                if let Some(round) = rounds.find(|it| it.number == ending.round) {
                    round.was_killed = true;
                }
            }
            if ending.is_whole {
                // Until nothing is left in it.
                let group = Arc::clone(&ending.process.group);
                self.ask(Task::Signal(group, is_kill.then_some(Signal::KILL)));
            }
        }
        self.tell_of_rounds(sample, now);
        self.endings.len() < count
    }

    /// Tells of those of whom all have gone, or wait in the kernel.
    fn tell_of_rounds(&mut self, sample: &Sample, now: Instant) {
        let mut at = 0;
        while at < self.rounds.len() {
            let number = self.rounds[at].number;
            let own = || self.endings.iter().filter(|it| it.round == number);
            let (is_gone, is_stuck) = (own().next().is_none(), own().all(|it| it.is_stuck(now)));
            if !is_stuck || (self.rounds[at].is_given_up && !is_gone) {
                at += 1;
                continue;
            }
            let round = self.rounds.swap_remove(at);
            let gone = Gone {
                age: now.duration_since(round.since),
                is_gone,
                was_killed: round.was_killed,
                headroom_bytes: sample.headroom_bytes,
                victim: round.victim.clone(),
            };
            if !is_gone {
                self.rounds.push(Round {
                    is_given_up: true,
                    ..round
                });
            }
            self.outbox.say(Event::Ended(gone));
        }
    }
}

/// What an owner holds, as his `OOMScoreAdjust=` shifts it.
pub(crate) fn shifted(owner: &Owner, can_bytes: i64) -> u64 {
    let held = owner.meter.now.all_bytes as i64;
    (held + owner.shift * (can_bytes / 1000)).max(0) as u64
}

/// Whether a process has ended: its descriptor can be read then.
fn has_gone(process: &Process) -> bool {
    let mut fds = [PollFd::new(&process.fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
