//! Which group is ended.

use std::time::Instant;

use super::candidate::Candidate;

/// A group has grown where it takes this share of RAM more than ten seconds ago,
const GREW_MIN: f64 = 0.01;
/// or this much, on a large machine.
const GREW_BYTES_MIN: u64 = 128 << 20;

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
}

/// The place of the one that is ended: the one that grew most; where memory goes too fast,
/// of those that took half of the `went_bytes` since the last look. Where none did, and
/// programs can take no more, the largest of those that the rule names first.
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
    let least = ((total_bytes as f64 * GREW_MIN) as u64).min(GREW_BYTES_MIN);
    let grown = figures
        .clone()
        .enumerate()
        .filter(|(_, it)| it.grew_bytes > 0 && it.grew_bytes >= least && takes(it))
        .max_by_key(|(_, it)| it.grew_bytes);
    if grown.is_some() || cause != Cause::NoRoom {
        return grown.map(|(at, _)| at);
    }
    let held = figures.enumerate().filter(|(_, it)| it.bytes > 0);
    held.min_by_key(|(_, it)| (it.rank, std::cmp::Reverse(it.bytes)))
        .map(|(at, _)| at)
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
        // 10 MiB are less than 1 % of RAM.
        let all = [(1, 900, 10), (0, 100, 0), (0, 300, 5), (0, 0, 0)];
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
}
