//! When to survey where nothing else says it: once in each period, at a moment of chance,
//! so that not all machines do it at once, nor one always at the same hour.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The first survey comes within this time, so that who starts it sees that it works.
pub const SOON: Duration = Duration::from_secs(600);

/// One survey in each period. Periods are counted from 1970: one of a day is a day of UTC,
/// of which `zmeld-fleet` takes one survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    every: Duration,
}

impl Schedule {
    /// One in each period of that length.
    pub fn new(every: Duration) -> Schedule {
        Schedule {
            every: every.max(Duration::from_secs(1)),
        }
    }

    pub fn first(&self, now: SystemTime) -> SystemTime {
        now + SOON.min(self.every).mul_f64(fastrand::f64())
    }

    /// The moment of the survey after one that was made now: in the next period.
    pub fn next(&self, now: SystemTime) -> SystemTime {
        self.in_next_period(now, fastrand::f64())
    }

    /// Whether a moment is later than any that would be drawn now: the clock was set back.
    pub fn is_too_far(&self, moment: SystemTime, now: SystemTime) -> bool {
        let left = moment.duration_since(now).unwrap_or_default();
        left > 2 * self.every
    }

    fn in_next_period(&self, now: SystemTime, drawn: f64) -> SystemTime {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let every = self.every.as_secs();
        let begin = (since / every + 1) * every;
        UNIX_EPOCH + Duration::from_secs(begin) + self.every.mul_f64(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn each_day_has_one_moment_wherever_the_last_one_was() {
        let daily = Schedule::new(Duration::from_secs(86_400));
        for now in [0, 1, 43_200, 86_399] {
            assert_eq!(daily.in_next_period(at(now), 0.0), at(86_400));
            assert_eq!(daily.in_next_period(at(now), 0.5), at(129_600));
            let latest = daily.in_next_period(at(now), 0.999_999);
            assert!(latest < at(172_800) && !daily.is_too_far(latest, at(now)));
        }
        assert!(daily.is_too_far(at(172_801), at(0)));
        // A survey that took longer than a period leaves out those that are over.
        let short = Schedule::new(Duration::from_secs(2));
        assert_eq!(short.in_next_period(at(1001), 0.0), at(1002));
    }

    #[test]
    fn the_first_comes_soon_and_moments_differ() {
        let daily = Schedule::new(Duration::from_secs(86_400));
        let drawn: Vec<SystemTime> = (0..64).map(|_| daily.first(at(7))).collect();
        let is_soon = |moment: &SystemTime| *moment >= at(7) && *moment < at(7) + SOON;
        assert!(drawn.iter().all(is_soon));
        assert!(drawn.iter().any(|moment| *moment != drawn[0]));
        let short = Schedule::new(Duration::from_secs(1));
        assert!(short.first(at(7)) < at(8));
        assert!(short.next(at(7)) >= at(8));
    }
}
