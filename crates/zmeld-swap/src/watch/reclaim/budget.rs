//! How long all processes together may be looked at: a hundredth of the time, since a process
//! cannot map memory while its `smaps` is read.
//!
//! Long looks, at the largest processes, have half of it at most, one after the other, so that
//! they keep nobody else waiting for minutes; the rest, or all where there are none, is for the
//! others.

use std::time::{Duration, Instant};

/// Looks take no larger share of the time than one in so many.
const PAUSE: u32 = 100;
/// So much of what they may take is taken at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// A look that takes longer is a long one.
pub(super) const SHORT_MAX: Duration = Duration::from_millis(500);
/// Who had the next turn and did not take it for so long, may have ended.
const TURN: Duration = Duration::from_secs(60);

/// What looks took, as far as it is not paid for with time without any.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// When it will be.
    paid: Option<Instant>,
    /// The same of long ones.
    long_paid: Option<Instant>,
    /// When the process was last looked at that waits longest for a long one.
    longest: Option<Instant>,
}

impl Budget {
    pub fn allows(&self, now: Instant) -> bool {
        self.paid.is_none_or(|paid| paid < now + AT_ONCE)
    }

    /// Whether a process may be looked at that takes long, and was looked at last at that time.
    pub fn allows_long(&mut self, last: Instant, now: Instant) -> bool {
        let is_first = self.longest.is_none_or(|longest| last <= longest);
        let is_turn = match self.long_paid {
            Some(paid) if now < paid => false,
            Some(paid) => is_first || now >= paid + TURN,
            None => true,
        };
        if is_turn {
            self.longest = None;
        } else if is_first {
            self.longest = Some(last);
        }
        is_turn
    }

    /// A look was taken just now; `is_long`: at a process that takes long.
    pub fn charge(&mut self, took: Duration, is_long: bool, now: Instant) {
        if is_long {
            let paid = self.long_paid.map_or(now, |paid| paid.max(now));
            self.long_paid = Some(paid + took * PAUSE * 2);
            return;
        }
        let share = match self.long_paid.is_some_and(|paid| now < paid) {
            true => 2,
            false => 1,
        };
        let paid = self.paid.map_or(now, |paid| paid.max(now));
        self.paid = Some(paid + took * PAUSE * share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long each was looked at in an hour, where all want to be at any time; by what a look
    /// at it takes.
    fn shares(takes: &[Duration]) -> Vec<Duration> {
        let begin = Instant::now();
        let mut now = begin;
        let mut budget = Budget::default();
        let mut last = vec![begin; takes.len()];
        let mut sums = vec![Duration::ZERO; takes.len()];
        let hours = 10;
        while now < begin + Duration::from_secs(hours * 3600) {
            let mut turns: Vec<usize> = (0..takes.len()).collect();
            turns.sort_by_key(|at| last[*at]);
            for at in turns {
                let takes = &takes[at];
                let is_long = *takes > SHORT_MAX;
                let is_allowed =
                    budget.allows(now) && (!is_long || budget.allows_long(last[at], now));
                if is_allowed {
                    now += *takes;
                    last[at] = now;
                    sums[at] += *takes;
                    budget.charge(*takes, is_long, now);
                }
            }
            now += Duration::from_millis(500);
        }
        sums.iter().map(|sum| *sum / hours as u32).collect()
    }

    #[test]
    fn all_looks_together_take_a_hundredth_and_long_ones_half_of_it() {
        let ms = Duration::from_millis;
        for takes in [
            vec![ms(10); 1],
            vec![ms(10); 40],
            vec![ms(3000)],
            vec![ms(3000), ms(600), ms(4000)],
            vec![ms(10), ms(3000), ms(400), ms(4000)],
        ] {
            let shares = shares(&takes);
            let all: Duration = shares.iter().sum();
            let long = takes.iter().zip(&shares).filter(|it| *it.0 > SHORT_MAX);
            let long: Duration = long.map(|it| *it.1).sum();
            assert!(all <= ms(36_400), "{takes:?}: {shares:?}");
            assert!(long <= ms(18_400), "{takes:?}: {shares:?}");
            // Nobody is forgotten.
            assert!(shares.iter().all(|share| *share > ms(50)), "{shares:?}");
            let is_with_short = takes.iter().any(|it| *it <= SHORT_MAX);
            assert!(!is_with_short || all - long >= ms(16_000), "{shares:?}");
        }
    }

    #[test]
    fn who_waits_longest_has_the_next_long_look_if_it_is_there_still() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut budget = Budget::default();
        budget.charge(Duration::from_secs(1), true, at(100));
        assert!(!budget.allows_long(at(20), at(110)));
        assert!(!budget.allows_long(at(10), at(120)));
        assert!(!budget.allows_long(at(20), at(301)));
        assert!(budget.allows_long(at(10), at(302)));
        budget.charge(Duration::from_secs(1), true, at(303));
        assert!(!budget.allows_long(at(20), at(400)));
        // It has ended.
        assert!(!budget.allows_long(at(303), at(504)));
        assert!(budget.allows_long(at(303), at(563)));
    }
}
