//! Groups are told to end, several in one go where many grow together, killed where they do
//! not, and waited for until their memory is back.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::candidate::Candidate;
use crate::choice::{add_hidden, choose, Cause, Choice};
use crate::event::{Event, Gone, How, Victim};
use crate::sentry::{is_over, part, Sentry};
use crate::sight::Seen;

/// No more are on their way out at a time.
pub(crate) const ENDING_MAX: usize = 16;
/// What a group gives back when it ends is waited for before another one is ended: until
/// nothing more came for so long, and no longer than that.
const SETTLE: Duration = Duration::from_secs(2);
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// After so many in a row that gave back less than half of what they held, only what grows
/// is ended for so long: what takes the memory is elsewhere.
const IN_VAIN_MAX: u32 = 2;
const BRAKE: Duration = Duration::from_secs(60);
/// One that has to end once more within so long does not end by being told.
const AGAIN: Duration = Duration::from_secs(60);
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
    candidate: Candidate,
    since: Instant,
    killed: Option<Instant>,
    /// What programs could take when it was told.
    headroom_bytes: u64,
}

impl Ending {
    pub fn directory(&self) -> &Path {
        &self.candidate.place.directory
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

impl Sentry {
    /// Tells some to end, where none is on its way out.
    pub(crate) fn end_some(
        &mut self,
        cause: Cause,
        seen: &Seen,
        now: Instant,
        say: &mut dyn FnMut(Event),
    ) {
        let waits = |it: &Ending| {
            it.killed
                .is_none_or(|at| now.duration_since(at) < WAITED_FOR)
        };
        let is_full = self.endings.len() == ENDING_MAX;
        // Before groups are chosen first there are none.
        if is_full
            || self.endings.iter().any(waits)
            || !self.has_chosen
            || self.is_settling(seen, now)
        {
            return;
        }
        let begin = Instant::now();
        // After some were ended in vain, only what grows: the rest is not to blame. Nor is it
        // where files in memory took what is missing, which stay whoever ends, or while what
        // was killed has not gone.
        let is_braked = self.braked.is_some_and(|at| now.duration_since(at) < BRAKE);
        let choice = Choice {
            cause,
            only_grown: is_braked || self.is_gone_to_files(seen) || !self.endings.is_empty(),
            total_bytes: seen.total_bytes,
            sheltered_max: part(self.rule.protected_max, seen),
            missing_bytes: self.room_below(seen).saturating_sub(seen.headroom_bytes),
            went_bytes: self.went_bytes,
        };
        self.figures.clear();
        let candidates = self.candidates.iter();
        self.figures.extend(candidates.map(|it| it.figures(now)));
        for owner in &self.owners {
            // What is on its way out is followed no more, and grows for a while.
            let mut endings = self.endings.iter();
            if !endings.any(|it| it.directory().starts_with(&owner.directory)) {
                add_hidden(&mut self.figures, owner.figures(now));
            }
        }
        choose(&mut self.figures, &choice, &mut self.places);
        if self.places.is_empty() {
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
                say(Event::Nothing(cause, *seen, why));
            }
            return;
        }
        if self.dry_run {
            if is_over(&mut self.told_would, now) {
                let candidate = &self.candidates[self.places[0]];
                say(Event::Would(victim(candidate, cause, seen, begin, now)));
            }
            return;
        }
        let room = ENDING_MAX - self.endings.len();
        for turn in 0..self.places.len().min(room) {
            let place = self.places[turn];
            // It is behind those of higher places only where they were taken out before.
            let before = self.places[..turn].iter().filter(|it| **it < place);
            let place = place - before.count();
            self.end(place, cause, seen, begin, now, say);
        }
    }

    /// Whether files in memory took half at least of what went since memory was far from
    /// short.
    fn is_gone_to_files(&self, seen: &Seen) -> bool {
        self.calm.is_some_and(|calm| {
            let went = calm.headroom_bytes.saturating_sub(seen.headroom_bytes);
            let files = seen.shared_bytes.saturating_sub(calm.shared_bytes);
            went > 0 && files >= went / 2
        })
    }

    /// Ends one; the others stay in their order.
    fn end(
        &mut self,
        place: usize,
        cause: Cause,
        seen: &Seen,
        begin: Instant,
        now: Instant,
        say: &mut dyn FnMut(Event),
    ) {
        let mut candidate = self.candidates.remove(place);
        let mut lately = self.ended_lately.iter();
        let is_again = lately.any(|(at, place)| {
            now.duration_since(*at) < AGAIN && place.directory == candidate.place.directory
        });
        let how = match candidate.multiplies(now) {
            true => How::Multiplies,
            false if is_again => How::Again,
            false => How::Told,
        };
        let buffer = &mut self.buffer;
        let (how, count) = match how {
            How::Told => match candidate.tell(&mut self.ender, buffer) {
                // Nobody was there any more: the next look takes the next one.
                0 if candidate.is_empty(buffer) == Some(true) => {
                    return self.chooser.retire(candidate)
                }
                // Somebody is there and cannot be told: not the next one's fault.
                0 => (How::Deaf, 0),
                count => (How::Told, count),
            },
            how => (how, candidate.count()),
        };
        if how != How::Told {
            candidate.kill(&mut self.ender, false, buffer);
        }
        let mut victim = victim(&candidate, cause, seen, begin, now);
        victim.processes = count;
        let ended = &candidate.place;
        self.ended_lately
            .retain(|(at, it)| now.duration_since(*at) < AGAIN && it.directory != ended.directory);
        if self.ended_lately.len() == AGAIN_MAX {
            self.ended_lately.remove(0);
        }
        self.ended_lately.push((now, Arc::clone(ended)));
        self.endings.push(Ending {
            since: now,
            headroom_bytes: seen.headroom_bytes,
            killed: (how != How::Told).then_some(now),
            candidate,
        });
        say(Event::Ends(victim, how));
    }

    /// Whether what was ended still gives back memory. Where the last ones gave next to
    /// nothing, what takes the memory is elsewhere.
    fn is_settling(&mut self, seen: &Seen, now: Instant) -> bool {
        let Some(settling) = &mut self.settling else {
            return false;
        };
        let rose = seen.headroom_bytes.saturating_sub(settling.headroom_bytes);
        if rose > seen.total_bytes / 1000 {
            settling.rose = now;
            settling.headroom_bytes = seen.headroom_bytes;
        }
        let age = now.duration_since(settling.since);
        if now.duration_since(settling.rose) < SETTLE && age < SETTLE_MAX {
            return true;
        }
        let is_vain = settling.headroom_bytes < settling.wanted_bytes;
        self.settling = None;
        self.in_vain = match is_vain {
            true => self.in_vain + 1,
            false => 0,
        };
        if self.in_vain >= IN_VAIN_MAX {
            self.in_vain = 0;
            self.braked = Some(now);
        }
        false
    }

    /// Those that were told to end: they have, or are killed.
    pub(crate) fn go_on_ending(&mut self, seen: &Seen, now: Instant, say: &mut dyn FnMut(Event)) {
        // Half of what was little: there is no time to wait for an orderly end.
        let is_pressing = seen.headroom_bytes < self.end_below(seen) / 2;
        let mut at = 0;
        while at < self.endings.len() {
            let ending = &mut self.endings[at];
            let age = now.duration_since(ending.since);
            let is_gone = ending.candidate.has_ended(&mut self.buffer);
            let killed_for = ending.killed.map(|at| now.duration_since(at));
            if is_gone || killed_for.is_some_and(|it| it >= GIVEN_UP_AFTER) {
                let ended = self.endings.remove(at);
                self.settle(&ended, seen, now);
                say(Event::Ended(Gone {
                    group: Arc::clone(&ended.candidate.shown),
                    age,
                    is_gone,
                    was_killed: ended.killed.is_some(),
                    headroom_bytes: seen.headroom_bytes,
                }));
                self.chooser.retire(ended.candidate);
                continue;
            }
            at += 1;
            let is_late = age >= self.rule.grace.duration();
            if !is_late && !is_pressing && ending.killed.is_none() {
                continue;
            }
            // Until it is empty.
            let is_again = ending.killed.is_some();
            ending
                .candidate
                .kill(&mut self.ender, is_again, &mut self.buffer);
            if !is_again {
                ending.killed = Some(now);
                let grace = is_late.then_some(self.rule.grace);
                let group = Arc::clone(&ending.candidate.shown);
                say(Event::Killed(group, grace, seen.headroom_bytes));
            }
        }
    }

    /// Waits for what it held, with what others held that ended with it.
    fn settle(&mut self, ended: &Ending, seen: &Seen, now: Instant) {
        let half = ended.candidate.bytes() / 2;
        let before = self.settling.filter(|it| it.since >= ended.since);
        let wanted_bytes = match before {
            Some(before) => before.wanted_bytes.saturating_add(half),
            None => ended.headroom_bytes.saturating_add(half),
        };
        self.settling = Some(Settling {
            since: now,
            rose: now,
            headroom_bytes: seen.headroom_bytes,
            wanted_bytes,
        });
    }
}

fn victim(
    candidate: &Candidate,
    cause: Cause,
    seen: &Seen,
    begin: Instant,
    now: Instant,
) -> Victim {
    Victim {
        group: Arc::clone(&candidate.shown),
        held_bytes: candidate.bytes(),
        grew_bytes: candidate.grew_bytes(now),
        processes: 0,
        cause,
        seen: *seen,
        reaction: begin.elapsed(),
    }
}
