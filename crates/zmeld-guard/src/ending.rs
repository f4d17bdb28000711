//! One group at a time is told to end, killed where it does not, and waited for until
//! its memory is back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::candidate::Candidate;
use super::choice::{choose, Cause, Choice};
use super::note::EndedGroup;
use super::sentry::{is_over, part, Ending, GuardEvent, Sentry, Settling};
use super::sight::Seen;
use super::text::bytes;

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
/// One that has not gone so long after SIGKILL is given up: it waits in the kernel.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(10);

impl Sentry {
    /// Tells one to end, where none is on its way out.
    pub(crate) fn end_one(
        &mut self,
        cause: Cause,
        seen: &Seen,
        now: Instant,
        say: &mut dyn FnMut(GuardEvent),
    ) {
        // Before groups are chosen first there are none.
        if self.ending.is_some() || !self.has_chosen || self.is_settling(seen, now) {
            return;
        }
        // After some were ended in vain, only what grows: the rest is not to blame.
        let is_braked = self.braked.is_some_and(|at| now.duration_since(at) < BRAKE);
        let rule = match is_braked {
            true => Cause::Stalled,
            false => cause,
        };
        let begin = Instant::now();
        let choice = Choice {
            cause: rule,
            total_bytes: seen.total_bytes,
            sheltered_max: part(self.rule.protected_max, seen),
        };
        let Some(place) = choose(&self.candidates, choice, self.went_bytes, now) else {
            if is_over(&mut self.told.nothing, now) {
                say(GuardEvent::Said(format!(
                    "{}; {}",
                    self.why(cause, seen),
                    match rule {
                        _ if self.rule.end.is_empty() =>
                            "nothing is ended: [watch.guard] end names no group",
                        Cause::NoRoom => "nothing that may be ended has processes",
                        Cause::TooSoon | Cause::Stalled => "nothing that may be ended grows",
                    }
                )));
            }
            return;
        };
        if self.dry_run {
            if is_over(&mut self.told.would, now) {
                let said = what(&self.candidates[place], now);
                let why = self.why(cause, seen);
                say(GuardEvent::Said(format!("would end {said}; {why}")));
            }
            return;
        }
        let mut candidate = self.candidates.swap_remove(place);
        let at_once = match candidate.multiplies(now) {
            Some(count) => Some((count, "which multiply")),
            None => self
                .is_again(&candidate, now)
                .then(|| (candidate.count(), "again within a minute")),
        };
        let count = match at_once {
            Some((count, _)) => {
                candidate.kill(&self.host, &mut self.buffer);
                count
            }
            None => candidate.tell(&self.host, &mut self.buffer) as u64,
        };
        let reaction = begin.elapsed();
        let is_deaf = count == 0 && !candidate.is_empty(&self.host, &mut self.buffer);
        if is_deaf {
            // Somebody is there and cannot be told: not the next one's fault.
            candidate.kill(&self.host, &mut self.buffer);
        } else if count == 0 {
            // Nobody was there any more: the next look takes the next one.
            return;
        }
        // It is done: from here on memory may be taken.
        self.remember(candidate.directory.clone(), now);
        let why = format!("{}; {}", what(&candidate, now), self.why(cause, seen));
        let was_killed = is_deaf || at_once.is_some();
        if was_killed {
            candidate.ends_when_empty();
        }
        self.ending = Some(Ending {
            since: now,
            headroom_bytes: seen.headroom_bytes,
            killed: was_killed.then_some(now),
            told: EndedGroup {
                group: candidate.shown.clone(),
                why: why.clone(),
                held_bytes: candidate.bytes(),
                processes: count,
                was_killed,
                reaction_us: u64::try_from(reaction.as_micros()).unwrap_or(u64::MAX),
                took_ms: None,
            },
            candidate,
        });
        say(GuardEvent::Said(format!(
            "ends {why} ({})",
            match at_once {
                Some((count, why)) => format!("SIGKILL to {count} processes, {why}"),
                None => format!("SIGTERM to {count} processes"),
            }
        )));
    }

    /// Whether it was told to end within a minute already.
    fn is_again(&self, candidate: &Candidate, now: Instant) -> bool {
        let mut lately = self.ended_lately.iter();
        lately.any(|(at, directory)| {
            now.duration_since(*at) < AGAIN && *directory == candidate.directory
        })
    }

    fn remember(&mut self, directory: PathBuf, now: Instant) {
        self.ended_lately
            .retain(|(at, it)| now.duration_since(*at) < AGAIN && *it != directory);
        if self.ended_lately.len() == AGAIN_MAX {
            self.ended_lately.remove(0);
        }
        self.ended_lately.push((now, directory));
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

    /// One that was told to end: it has, or is killed.
    pub(crate) fn go_on_ending(
        &mut self,
        seen: &Seen,
        now: Instant,
        say: &mut dyn FnMut(GuardEvent),
    ) {
        // Half of what was little: there is no time to wait for an orderly end.
        let is_pressing = seen.headroom_bytes < self.end_below(seen) / 2;
        let Some(ending) = &mut self.ending else {
            return;
        };
        let age = now.duration_since(ending.since);
        let is_gone = ending.candidate.has_ended(&self.host, &mut self.buffer);
        let is_given_up = ending
            .killed
            .is_some_and(|at| now.duration_since(at) >= GIVEN_UP_AFTER);
        if is_gone || is_given_up {
            ending.told.took_ms = is_gone.then_some(age.as_millis() as u64);
            say(GuardEvent::Said(format!(
                "{} {} {:.1} s; programs can take {} more",
                ending.told.group,
                match is_gone {
                    true => "ended after",
                    false => "does not end, it waits in the kernel: given up after",
                },
                age.as_secs_f64(),
                bytes(seen.headroom_bytes)
            )));
            if let Some(ended) = self.ending.take() {
                self.settling = Some(Settling {
                    since: now,
                    rose: now,
                    headroom_bytes: seen.headroom_bytes,
                    wanted_bytes: ended.headroom_bytes + ended.told.held_bytes / 2,
                });
                self.note.ended(ended.told);
            }
            self.noted = None;
            return;
        }
        let is_late = age >= self.rule.grace.duration();
        // Until it is empty.
        if !is_late && !is_pressing && ending.killed.is_none() {
            return;
        }
        ending.candidate.kill(&self.host, &mut self.buffer);
        ending.told.was_killed = true;
        if ending.killed.is_none() {
            ending.killed = Some(now);
            say(GuardEvent::Said(format!(
                "{} is killed (SIGKILL): {}",
                ending.told.group,
                match is_late {
                    true => format!("it did not end within {}", self.rule.grace),
                    false => format!("programs can take {} more", bytes(seen.headroom_bytes)),
                }
            )));
        }
    }
}

fn what(candidate: &Candidate, now: Instant) -> String {
    let grew = candidate.grew_bytes(now);
    let holds = format!("{}: it holds {}", candidate.shown, bytes(candidate.bytes()));
    match grew {
        0 => holds,
        grew => format!("{holds}, {} more than 10 s ago", bytes(grew)),
    }
}
