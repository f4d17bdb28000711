//! Which group is ended.

use std::time::Instant;

use super::candidate::Candidate;

/// A group has grown where it takes this share of RAM more than ten seconds ago,
const GREW: f64 = 0.01;
/// and no less nor more than this: less is no growth, more one on any machine.
const GREW_BYTES_MIN: u64 = 8 << 20;
const GREW_BYTES_MAX: u64 = 128 << 20;

/// Why one has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Programs can take no more.
    NoRoom,
    /// Before a group has ended they can take no more.
    TooSoon,
    /// Nothing goes on for want of memory, though they could.
    Stalled,
}

/// What is known of a group.
#[derive(Debug, Clone, Copy)]
struct Figures {
    rank: usize,
    bytes: u64,
    grew_bytes: u64,
    took_bytes: u64,
    /// Not all that its owner has is seen.
    is_unclear: bool,
}

/// The place of the one that is ended: the one that grew most; where memory goes too fast,
/// of those that took half of the `went_bytes` since the last look. Where none grew enough
/// by itself, the one that grew most if all of them together did. Where they did not, and
/// programs can take no more, the largest of those that the rule names first; of those
/// whose owner hides some, where any do.
pub(super) fn choose(
    candidates: &[Candidate],
    cause: Cause,
    total_bytes: u64,
    went_bytes: u64,
    now: Instant,
) -> Option<usize> {
    let figures = candidates.iter().map(|it| Figures {
        rank: it.rank,
        bytes: it.bytes(),
        grew_bytes: it.grew_bytes(now),
        took_bytes: it.took_bytes(),
        is_unclear: it.is_unclear,
    });
    // What goes fast may go elsewhere: who takes it has half of it at least.
    let takes = |it: &Figures| cause != Cause::TooSoon || it.took_bytes >= went_bytes / 2;
    chosen(figures, cause, total_bytes, takes)
}

fn chosen(
    figures: impl Iterator<Item = Figures> + Clone,
    cause: Cause,
    total_bytes: u64,
    takes: impl Fn(&Figures) -> bool,
) -> Option<usize> {
    let least = (total_bytes as f64 * GREW) as u64;
    let least = least.clamp(GREW_BYTES_MIN, GREW_BYTES_MAX);
    let grown = figures
        .clone()
        .enumerate()
        .filter(|(_, it)| takes(it))
        .max_by_key(|(_, it)| it.grew_bytes);
    let together = figures
        .clone()
        .fold(0_u64, |sum, it| sum.saturating_add(it.grew_bytes));
    let is_enough = |it: &Figures| match cause {
        Cause::TooSoon => it.grew_bytes >= least,
        Cause::NoRoom | Cause::Stalled => together >= least,
    };
    let grown = grown.filter(|(_, it)| is_enough(it));
    if grown.is_some() || cause != Cause::NoRoom {
        return grown.map(|(at, _)| at);
    }
    let held = figures.enumerate().filter(|(_, it)| it.bytes > 0);
    let first = |it: &Figures| (!it.is_unclear, it.rank, std::cmp::Reverse(it.bytes));
    held.min_by_key(|(_, it)| first(it)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn figures(all: &[(usize, u64, u64)]) -> impl Iterator<Item = Figures> + Clone + '_ {
        all.iter().map(|(rank, bytes, grew)| Figures {
            rank: *rank,
            bytes: bytes * MIB,
            grew_bytes: grew * MIB,
            took_bytes: grew * MIB / 10,
            is_unclear: false,
        })
    }

    #[test]
    fn the_one_that_grew_most_goes_whatever_is_named_first_and_is_largest() {
        let all = [(0, 900, 0), (1, 100, 50), (2, 300, 80), (3, 400, 79)];
        for cause in [Cause::NoRoom, Cause::TooSoon, Cause::Stalled] {
            assert_eq!(chosen(figures(&all), cause, 1024 * MIB, |_| true), Some(2));
        }
    }

    #[test]
    fn where_none_grew_the_first_named_goes_and_nothing_that_waits_only() {
        // 10 MiB together are less than 1 % of RAM.
        let all = [(1, 900, 5), (0, 100, 0), (0, 300, 5), (0, 0, 0)];
        assert_eq!(
            chosen(figures(&all), Cause::NoRoom, 1024 * MIB, |_| true),
            Some(2)
        );
        for cause in [Cause::TooSoon, Cause::Stalled] {
            assert_eq!(chosen(figures(&all), cause, 1024 * MIB, |_| true), None);
        }
        assert_eq!(
            chosen(figures(&[]), Cause::NoRoom, 1024 * MIB, |_| true),
            None
        );
        assert_eq!(
            chosen(figures(&[(0, 0, 0)]), Cause::NoRoom, MIB, |_| true),
            None
        );
    }

    #[test]
    fn where_many_grow_by_little_each_what_holds_still_is_left() {
        let mut all = vec![(0, 500, 0), (0, 400, 0)];
        all.extend((0..40).map(|at| (1, 10, u64::from(at == 7) + 1)));
        for cause in [Cause::NoRoom, Cause::Stalled] {
            let place = chosen(figures(&all), cause, 512 * MIB, |_| true);
            assert_eq!(place, Some(9), "{cause:?}");
        }
    }

    #[test]
    fn a_little_is_no_growth_on_a_small_machine() {
        // 1 % of RAM is less than 8 MiB.
        let all = [(1, 48, 7), (0, 100, 0)];
        for (grew, place) in [(7, Some(1)), (8, Some(0))] {
            let all = [(1, 48, grew), all[1]];
            assert_eq!(
                chosen(figures(&all), Cause::NoRoom, 256 * MIB, |_| true),
                place
            );
        }
    }

    #[test]
    fn where_none_grew_it_is_one_of_the_owner_who_hides_some() {
        let all = [(0, 900, 0), (1, 100, 0), (1, 0, 0)];
        let figures = figures(&all).enumerate().map(|(at, it)| Figures {
            is_unclear: at > 0,
            ..it
        });
        let place = chosen(figures, Cause::NoRoom, 1024 * MIB, |_| true);
        assert_eq!(place, Some(1));
    }
}
