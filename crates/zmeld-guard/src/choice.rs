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

/// What it is chosen by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub cause: Cause,
    /// All RAM.
    pub total_bytes: u64,
    /// So much each owner can protect by his own means.
    pub sheltered_max: u64,
}

/// What is known of a group.
#[derive(Debug, Clone, Copy)]
struct Figures {
    rank: usize,
    bytes: u64,
    /// With files in memory.
    all_bytes: u64,
    grew_bytes: u64,
    took_bytes: u64,
    owner: usize,
    /// Not all that its owner has is seen.
    is_unclear: bool,
    /// It is protected by its owner's own means.
    is_sheltered: bool,
}

/// The place of the one that is ended: the one that grew most; where memory goes too fast,
/// of those that took half of the `went_bytes` since the last look. Where none grew enough
/// by itself, the one that grew most if all of them together did. Where they did not, and
/// programs can take no more, the largest of those that the rule names first; of those
/// whose owner hides some, where any do.
///
/// In place of one that its owner protects by his own means, the largest that he does not.
pub(super) fn choose(
    candidates: &[Candidate],
    choice: Choice,
    went_bytes: u64,
    now: Instant,
) -> Option<usize> {
    let figures = candidates.iter().map(|it| Figures {
        rank: it.rank,
        bytes: it.bytes(),
        all_bytes: it.all_bytes(),
        grew_bytes: it.grew_bytes(now),
        took_bytes: it.took_bytes(),
        owner: it.owner,
        is_unclear: it.is_unclear,
        is_sheltered: it.is_sheltered,
    });
    // What goes fast may go elsewhere: who takes it has half of it at least.
    let takes = |it: &Figures| choice.cause != Cause::TooSoon || it.took_bytes >= went_bytes / 2;
    chosen(figures, choice, takes)
}

fn chosen(
    figures: impl Iterator<Item = Figures> + Clone,
    choice: Choice,
    takes: impl Fn(&Figures) -> bool,
) -> Option<usize> {
    let least = (choice.total_bytes as f64 * GREW) as u64;
    let least = least.clamp(GREW_BYTES_MIN, GREW_BYTES_MAX);
    // No more than its owner may protect.
    let is_kept = |it: &Figures| {
        let all = figures.clone();
        let own = all.filter(|other| other.owner == it.owner && other.is_sheltered);
        it.is_sheltered && own.map(|other| other.all_bytes).sum::<u64>() <= choice.sheltered_max
    };
    let all = || figures.clone().enumerate();
    let free = || all().filter(|(_, it)| !is_kept(it));
    let together = figures.clone().map(|it| it.grew_bytes).sum::<u64>();
    let is_enough = |it: &Figures| match choice.cause {
        Cause::TooSoon => it.grew_bytes >= least,
        Cause::NoRoom | Cause::Stalled => together >= least,
    };
    let grown = all().filter(|(_, it)| takes(it));
    let grown = grown.max_by_key(|(_, it)| it.grew_bytes);
    if let Some((at, grown)) = grown.filter(|(_, it)| is_enough(it)) {
        if !is_kept(&grown) {
            return Some(at);
        }
        let own = free().filter(|(_, it)| it.owner == grown.owner && it.bytes > 0);
        let others = free().filter(|(_, it)| it.grew_bytes >= least && takes(it));
        let other = own.max_by_key(|(_, it)| it.bytes);
        let other = other.or_else(|| others.max_by_key(|(_, it)| it.grew_bytes));
        return other.map(|(at, _)| at);
    }
    if choice.cause != Cause::NoRoom {
        return None;
    }
    let held = free().filter(|(_, it)| it.bytes > 0);
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
            all_bytes: bytes * MIB,
            took_bytes: grew * MIB / 10,
            owner: 0,
            is_unclear: false,
            is_sheltered: false,
        })
    }

    fn choice(cause: Cause, total_bytes: u64) -> Choice {
        Choice {
            cause,
            total_bytes,
            sheltered_max: total_bytes / 4,
        }
    }

    #[test]
    fn the_one_that_grew_most_goes_whatever_is_named_first_and_is_largest() {
        let all = [(0, 900, 0), (1, 100, 50), (2, 300, 80), (3, 400, 79)];
        for cause in [Cause::NoRoom, Cause::TooSoon, Cause::Stalled] {
            assert_eq!(
                chosen(figures(&all), choice(cause, 1024 * MIB), |_| true),
                Some(2)
            );
        }
    }

    #[test]
    fn where_none_grew_the_first_named_goes_and_nothing_that_waits_only() {
        // 10 MiB together are less than 1 % of RAM.
        let all = [(1, 900, 5), (0, 100, 0), (0, 300, 5), (0, 0, 0)];
        assert_eq!(
            chosen(figures(&all), choice(Cause::NoRoom, 1024 * MIB), |_| true),
            Some(2)
        );
        for cause in [Cause::TooSoon, Cause::Stalled] {
            assert_eq!(
                chosen(figures(&all), choice(cause, 1024 * MIB), |_| true),
                None
            );
        }
        assert_eq!(
            chosen(figures(&[]), choice(Cause::NoRoom, 1024 * MIB), |_| true),
            None
        );
        assert_eq!(
            chosen(figures(&[(0, 0, 0)]), choice(Cause::NoRoom, MIB), |_| true),
            None
        );
    }

    #[test]
    fn where_many_grow_by_little_each_what_holds_still_is_left() {
        let mut all = vec![(0, 500, 0), (0, 400, 0)];
        all.extend((0..40).map(|at| (1, 10, u64::from(at == 7) + 1)));
        for cause in [Cause::NoRoom, Cause::Stalled] {
            let place = chosen(figures(&all), choice(cause, 512 * MIB), |_| true);
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
                chosen(figures(&all), choice(Cause::NoRoom, 256 * MIB), |_| true),
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
        let place = chosen(figures, choice(Cause::NoRoom, 1024 * MIB), |_| true);
        assert_eq!(place, Some(1));
    }

    #[test]
    fn what_its_owner_protects_is_ended_in_nobody_elses_place() {
        // The hider, something else of his own, and another's.
        let machine = |holds: u64, own: u64| {
            let all = [(0, holds, 150), (1, own, 0), (0, 400, 0)];
            let figures: Vec<_> = figures(&all).collect();
            let figures = figures.into_iter().enumerate().map(|(at, it)| Figures {
                owner: at / 2,
                is_sheltered: at == 0,
                ..it
            });
            chosen(figures, choice(Cause::NoRoom, 1000 * MIB), |_| true)
        };
        assert_eq!(machine(200, 20), Some(1));
        assert_eq!(machine(200, 0), None);
        // More than a quarter of RAM is protected no more.
        assert_eq!(machine(300, 20), Some(0));
    }
}
