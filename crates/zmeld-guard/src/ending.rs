//! Groups are told to end, several in one go where many grow together, killed where they do
//! not, and waited for until their memory is back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::choice::{add_hidden, choose, Cause, Choice};
use crate::event::{EndedBy, Event, Gone, Victim};
use crate::group::{Owner, TrackedGroup};
use crate::guard_loop::{is_over, part, GuardLoop};
use crate::memory::Sample;

/// No more are on their way out at a time.
pub(crate) const ENDING_MAX: usize = 16;
/// What a group gives back when it ends is waited for before another one is ended: until
/// nothing more came for so long, and no longer than that.
pub(crate) const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// After so many in a row that gave back less than half of what they held, only what grows
/// is ended for so long: what takes the memory is elsewhere.
const IN_VAIN_MAX: u32 = 2;
const BRAKE: Duration = Duration::from_secs(60);
/// One that has to end once more within so long does not end by being told.
const AGAIN: Duration = Duration::from_secs(60);
/// What grows is looked for in groups that were chosen anew before its owner is followed as
/// one.
const LOST_FOR: Duration = Duration::from_secs(2);
/// So many owners wait for that.
pub(crate) const SUSPECTS_MAX: usize = 8;
/// So many are remembered for that.
pub(crate) const AGAIN_MAX: usize = 64;
/// One that was killed and has not gone so long after keeps others from being ended no more:
/// it waits in the kernel.
const WAITED_FOR: Duration = Duration::from_secs(1);
/// It is given up after so long.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

/// A group on its way out.
#[derive(Debug)]
pub(crate) struct Ending {
    group: TrackedGroup,
    victim: Victim,
    since: Instant,
    killed: Option<Instant>,
}

impl Ending {
    pub fn directory(&self) -> &Path {
        &self.group.place.directory
    }

    /// What programs could take when it was told.
    fn headroom_bytes(&self) -> u64 {
        self.victim.sample.headroom_bytes
    }
}

/// Groups that have gone, and whose memory comes back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settling {
    since: Instant,
    /// When it last came back.
    rose: Instant,
    headroom_bytes: u64,
    /// What there would be with half of what they held.
    wanted_bytes: u64,
}

impl GuardLoop {
    /// Tells some to end, where none is on its way out.
    pub(crate) fn end_some(&mut self, cause: Cause, sample: &Sample, now: Instant) {
        let waits = |it: &Ending| {
            it.killed
                .is_none_or(|at| now.duration_since(at) < WAITED_FOR)
        };
        let is_full = self.endings.len() == ENDING_MAX;
        // What was told to end was not enough where half of what was left then has gone since.
        let went_on = |it: &Ending| sample.headroom_bytes < it.headroom_bytes() / 2;
        let is_waiting = self.endings.iter().any(waits) && !self.endings.iter().all(went_on);
        // Before groups are chosen first there are none.
        if is_full || is_waiting || !self.has_chosen {
            return;
        }
        let is_settling = self.is_settling(sample, now);
        if is_settling && !self.goes_elsewhere(sample) {
            return;
        }
        let begin = Instant::now();
        // After some were ended in vain, only what grows: the rest is not to blame. Nor is it
        // where files in memory or the kernel took what is missing, which stay whoever ends,
        // or while what was killed has not gone, or gives its memory back.
        let is_braked = self.braked.is_some_and(|at| now.duration_since(at) < BRAKE);
        let is_waited_for = is_settling || !self.endings.is_empty();
        let choice = Choice {
            cause,
            only_grown: is_braked || self.is_gone_to_others(sample) || is_waited_for,
            total_bytes: sample.total_bytes,
            sheltered_max: part(self.rule.protected_max, sample),
            missing_bytes: self
                .room_below(sample)
                .saturating_sub(sample.headroom_bytes),
            went_bytes: self.went_bytes,
        };
        self.figures.clear();
        let groups = self.groups.iter();
        self.figures.extend(groups.map(|it| it.figures(now)));
        for owner in &self.owners {
            // What is on its way out is followed no more, and grows for a while.
            let mut endings = self.endings.iter();
            if !endings.any(|it| it.directory().starts_with(&owner.directory)) {
                add_hidden(&mut self.figures, owner.figures(now));
            }
        }
        choose(&mut self.figures, &choice, &mut self.places);
        if self.places.is_empty() {
            // What grew most is hidden, and its owner has nothing that could be ended for it,
            // though groups were chosen since.
            let most = self.figures.iter().max_by_key(|it| it.grew);
            let most = most.filter(|it| it.is_hidden && it.grew > 0);
            let lost = *self.lost.get_or_insert(now);
            let lasts = now.duration_since(lost) >= LOST_FOR;
            if let Some(owner) = most.map(|it| it.owner).filter(|_| lasts) {
                self.suspect(|it| it.place == owner);
            }
            if is_over(&mut self.told_nothing, now) {
                let why = match cause {
                    _ if self.rule.end.is_empty() => {
                        "nothing is ended: [watch.guard] end names no group"
                    }
                    Cause::NoRoom if !choice.only_grown => {
                        "nothing that may be ended has processes"
                    }
                    _ => "nothing that may be ended grows",
                };
                self.outbox.say(Event::Nothing(cause, *sample, why));
            }
            return;
        }
        self.lost = None;
        if self.dry_run {
            if is_over(&mut self.told_would, now) {
                let group = &self.groups[self.places[0]];
                self.outbox
                    .say(Event::Would(victim(group, cause, sample, begin, now)));
            }
            return;
        }
        let room = ENDING_MAX - self.endings.len();
        for turn in 0..self.places.len().min(room) {
            let place = self.places[turn];
            // It is behind those of higher places only where they were taken out before.
            let before = self.places[..turn].iter().filter(|it| **it < place);
            let place = place - before.count();
            self.end(place, cause, sample, begin, now);
        }
    }

    /// Whether what no program gives back took half at least of what went since memory was
    /// far from short.
    fn is_gone_to_others(&self, sample: &Sample) -> bool {
        self.calm.is_some_and(|calm| {
            let went = calm.headroom_bytes.saturating_sub(sample.headroom_bytes);
            let others = sample.others_bytes.saturating_sub(calm.others_bytes);
            went > 0 && others >= went / 2
        })
    }

    /// Those of a group's owner are followed as one for a while, since they cannot be told
    /// apart: whether his tree is known.
    fn suspect(&mut self, is_his: impl Fn(&Owner) -> bool) -> bool {
        let owner = self.owners.iter().find(|it| is_his(it));
        let Some(owner) = owner.map(|it| Arc::clone(&it.directory)) else {
            return false;
        };
        if self.suspects.len() < SUSPECTS_MAX && !self.suspects.contains(&owner) {
            self.suspects.push(owner);
        }
        true
    }

    /// Ends one; the others stay in their order.
    fn end(&mut self, place: usize, cause: Cause, sample: &Sample, begin: Instant, now: Instant) {
        let mut group = self.groups.remove(place);
        let id = group.id();
        self.ended_lately
            .retain(|(at, _)| now.duration_since(*at) < AGAIN);
        let is_again = self.ended_lately.iter().any(|(_, it)| *it == id);
        let how = match group.multiplies(now) {
            true => EndedBy::ForkBomb,
            false if is_again => EndedBy::SecondTime,
            false => EndedBy::Sigterm,
        };
        let buffer = &mut self.buffer;
        let (how, count) = match how {
            EndedBy::Sigterm => match group.tell(&mut self.ender, buffer) {
                // Nobody was there any more: the next look takes the next one.
                0 if group.is_empty(buffer) == Some(true) => return self.retire(group),
                // Somebody is there and cannot be told: not the next one's fault.
                0 => (EndedBy::NotSignalled, 0),
                count => (EndedBy::Sigterm, count),
            },
            how => (how, group.count()),
        };
        if how != EndedBy::Sigterm {
            group.kill(&mut self.ender, false, buffer);
        }
        let mut victim = victim(&group, cause, sample, begin, now);
        victim.processes = count;
        if self.ended_lately.len() == AGAIN_MAX {
            self.ended_lately.remove(0);
        }
        self.ended_lately.push((now, id));
        self.endings.push(Ending {
            since: now,
            killed: (how != EndedBy::Sigterm).then_some(now),
            victim: victim.clone(),
            group,
        });
        self.outbox.say(Event::Ends(victim, how));
    }

    /// Whether what was ended still gives back memory. Where the last ones gave next to
    /// nothing, what takes the memory is elsewhere.
    fn is_settling(&mut self, sample: &Sample, now: Instant) -> bool {
        let Some(settling) = &mut self.settling else {
            return false;
        };
        let rose = sample
            .headroom_bytes
            .saturating_sub(settling.headroom_bytes);
        if rose > sample.total_bytes / 1000 {
            settling.rose = now;
            settling.headroom_bytes = sample.headroom_bytes;
        }
        let age = now.duration_since(settling.since);
        if now.duration_since(settling.rose) < SETTLE && age < SETTLE_MAX {
            return true;
        }
        let is_vain = settling.headroom_bytes < settling.wanted_bytes;
        self.settling = None;
        self.count_vain(is_vain, now);
        false
    }

    fn count_vain(&mut self, is_vain: bool, now: Instant) {
        self.in_vain = if is_vain { self.in_vain + 1 } else { 0 };
        if self.in_vain >= IN_VAIN_MAX {
            self.in_vain = 0;
            self.braked = Some(now);
        }
    }

    /// Whether memory goes while it should come back: somebody else takes it.
    fn goes_elsewhere(&self, sample: &Sample) -> bool {
        self.settling.is_some_and(|settling| {
            let fell = settling
                .headroom_bytes
                .saturating_sub(sample.headroom_bytes);
            fell > sample.total_bytes / 100
        })
    }

    /// Those that were told to end: they have, or are killed.
    pub(crate) fn go_on_ending(&mut self, sample: &Sample, now: Instant) {
        // Half of what was little: there is no time to wait for an orderly end.
        let is_pressing = sample.headroom_bytes < self.end_below(sample) / 2;
        let mut at = 0;
        while at < self.endings.len() {
            let ending = &mut self.endings[at];
            let age = now.duration_since(ending.since);
            ending.group.ask_who_is_there(&mut self.ender);
            let is_gone = ending.group.has_ended(&mut self.buffer);
            let killed_for = ending.killed.map(|at| now.duration_since(at));
            if is_gone || killed_for.is_some_and(|it| it >= GIVEN_UP_AFTER) {
                let ended = self.endings.remove(at);
                // Who left it has given nothing back, which is not waited for; he is among
                // the others of his owner.
                match is_gone && ended.group.keeps_half(&mut self.buffer) {
                    true if self.suspect(|it| it.has(ended.directory())) => {}
                    true => self.count_vain(true, now),
                    false => self.settle(&ended, sample, now),
                }
                self.outbox.say(Event::Ended(Gone {
                    victim: ended.victim,
                    age,
                    is_gone,
                    was_killed: ended.killed.is_some(),
                    headroom_bytes: sample.headroom_bytes,
                }));
                self.retire(ended.group);
                continue;
            }
            at += 1;
            let is_late = age >= self.rule.grace.duration();
            if !is_late && !is_pressing && ending.killed.is_none() {
                continue;
            }
            // Until it is empty; what `cgroup.kill` kills needs a while.
            let is_again = ending.killed.is_some();
            let is_slow = killed_for.is_some_and(|it| it >= WAITED_FOR);
            ending
                .group
                .kill(&mut self.ender, is_slow, &mut self.buffer);
            if !is_again {
                ending.killed = Some(now);
                let grace = is_late.then_some(self.rule.grace);
                let group = Arc::clone(&ending.group.shown);
                self.outbox
                    .say(Event::Killed(group, grace, sample.headroom_bytes));
            }
        }
    }

    /// Waits for what it held, with what others held that ended with it.
    fn settle(&mut self, ended: &Ending, sample: &Sample, now: Instant) {
        let half = ended.group.bytes() / 2;
        let before = self.settling.filter(|it| it.since >= ended.since);
        let wanted_bytes = match before {
            Some(before) => before.wanted_bytes.saturating_add(half),
            None => ended.headroom_bytes().saturating_add(half),
        };
        self.settling = Some(Settling {
            since: now,
            rose: now,
            headroom_bytes: sample.headroom_bytes,
            wanted_bytes,
        });
    }
}

fn victim(
    group: &TrackedGroup,
    cause: Cause,
    sample: &Sample,
    begin: Instant,
    now: Instant,
) -> Victim {
    Victim {
        group: Arc::clone(&group.shown),
        held_bytes: group.bytes(),
        grew_bytes: group.grew_bytes(now),
        processes: 0,
        cause,
        sample: *sample,
        reaction: begin.elapsed(),
    }
}
