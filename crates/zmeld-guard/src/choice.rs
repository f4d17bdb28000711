//! Whom the guard ends: the owner that holds most, and of him the processes with the highest
//! `oom_score`.
//!
//! Invariant: nobody who holds less than an equal share is ended for another. An equal share is
//! what all owners hold that may be ended, divided by their number; small ones are not counted.

use std::cmp::Reverse;

/// Whoever may not be ended is to blame for no less than this part of what programs can
/// have: less is noise, and where all else shrinks, any noise is more than half.
const BLAMED_PART: u64 = 200;
/// An equal share is one of those who hold no less than this part of what all do: whoever makes
/// many small owners makes nobody large by it.
const COUNTED_PART: u64 = 200;
/// So many processes of an owner are ended at once by their score,
pub(crate) const AT_ONCE_MAX: usize = 256;
/// and so many more by what they hold: small ones may have raised theirs to stand before them.
pub(crate) const LARGEST_MAX: usize = 16;
/// No more processes are on their way out at a time.
pub(crate) const ENDING_MAX: usize = 1024;
const ALL_MAX: usize = AT_ONCE_MAX + LARGEST_MAX;

/// Whether an owner may be ended, in the order in which owners pay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// He may.
    Ended,
    /// He may, after all others (`user.oomd_avoid`).
    Avoided,
    /// He may not: why.
    Kept(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerFigures {
    pub right: Right,
    /// Bytes held, shifted by his `OOMScoreAdjust=`.
    pub holds_bytes: u64,
    /// How much more he holds than ten seconds ago.
    pub took_bytes: u64,
    /// That is less than he holds: root has protected him.
    pub is_shielded: bool,
    /// He waits for memory himself.
    pub is_stalled: bool,
    /// Memory without an owner.
    pub is_nobody: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Of the owner at that place.
    Pays(usize),
    /// Nobody's: the owner at that place took most, and may not be ended, or is protected by root.
    Blamed(usize),
    /// Nobody's: who holds most has nothing that may be ended.
    Nobody,
}

/// Bytes all owners took.
pub(crate) fn went_bytes(owners: &[OwnerFigures]) -> u64 {
    owners.iter().map(|it| it.took_bytes).sum()
}

/// Whether that is more than half of what went, and no noise.
pub(crate) fn took_most(took_bytes: u64, went_bytes: u64, can_bytes: u64) -> bool {
    took_bytes > went_bytes / 2 && took_bytes >= can_bytes / BLAMED_PART
}

/// An equal share of what those hold that may be ended.
pub(crate) fn equal_share(owners: &[OwnerFigures]) -> u64 {
    let may = owners.iter();
    let may = may.filter(|it| !matches!(it.right, Right::Kept(_)) && it.holds_bytes > 0);
    let sum = |least: u64| {
        let counted = may.clone().filter(|it| it.holds_bytes >= least);
        counted.fold((0, 0), |(count, all), it| (count + 1, all + it.holds_bytes))
    };
    let (number, whole) = sum(0);
    let (count, all) = match sum(whole / COUNTED_PART) {
        (0, _) => (number, whole),
        counted => counted,
    };
    all / u64::max(count, 1)
}

/// Chooses whose processes end; `has_some` says which owners have any that may be ended. Where the
/// machine stands still (`is_stall`), somebody who waits himself pays: a user whose own limit
/// throttles him is nobody else's fault.
pub(crate) fn choose_owner(
    owners: &[OwnerFigures],
    can_bytes: u64,
    is_stall: bool,
    mut has_some: impl FnMut(usize) -> bool,
) -> Verdict {
    let went = went_bytes(owners);
    let least = equal_share(owners).max(1);
    let may = |it: &OwnerFigures| {
        let may = !matches!(it.right, Right::Kept(_)) && it.holds_bytes >= least;
        may && (!is_stall || it.is_stalled)
    };
    let mut places: Vec<usize> = (0..owners.len()).filter(|at| may(&owners[*at])).collect();
    places.sort_by_key(|at| (owners[*at].right, Reverse(owners[*at].holds_bytes)));
    // Nobody pays for one who holds more than twice as much and has nothing to be ended, nor for what
    // nobody has any more, unless he took most himself.
    let nobodys = owners.iter().filter(|it| it.is_nobody);
    let nobodys: u64 = nobodys.map(|it| it.holds_bytes).sum();
    let mut passed_bytes = 0;
    let mut first = None;
    for at in places {
        let (holds_bytes, took_bytes) = (owners[at].holds_bytes, owners[at].took_bytes);
        let is_his = holds_bytes >= nobodys / 2 || took_most(took_bytes, went, can_bytes);
        if holds_bytes >= passed_bytes / 2 && is_his && has_some(at) {
            first = Some(at);
            break;
        }
        passed_bytes = passed_bytes.max(holds_bytes);
    }
    let is_blamed = |place: usize, it: &OwnerFigures| {
        let is_kept = matches!(it.right, Right::Kept(_)) || it.is_shielded && first != Some(place);
        is_kept && took_most(it.took_bytes, went, can_bytes)
    };
    let blamed = (0..owners.len()).find(|place| is_blamed(*place, &owners[*place]));
    match (blamed, first) {
        (Some(place), _) => Verdict::Blamed(place),
        (_, Some(place)) => Verdict::Pays(place),
        _ => Verdict::Nobody,
    }
}

/// As many processes as give back what is missing, by their places in `chosen`, of `count` that
/// stand in the order in which they go: the first ones, no fewer than `least`, and where so many do
/// not do, the largest. `gives` says what comes back when one ends, where it may.
pub(crate) fn choose_processes(
    count: usize,
    gives: impl Fn(usize) -> Option<u64>,
    missing_bytes: u64,
    least: usize,
    chosen: &mut Vec<usize>,
) {
    chosen.clear();
    let mut given = 0;
    for at in 0..count {
        if chosen.len() == AT_ONCE_MAX || given >= missing_bytes && chosen.len() >= least {
            break;
        }
        if let Some(bytes) = gives(at) {
            given += bytes;
            chosen.push(at);
        }
    }
    while given < missing_bytes && (AT_ONCE_MAX..ALL_MAX).contains(&chosen.len()) {
        let may = (0..count).filter(|at| !chosen.contains(at));
        let may = may.filter_map(|at| Some((at, gives(at)?)));
        let Some((at, bytes)) = may.max_by_key(|(_, bytes)| *bytes) else {
            return;
        };
        given += bytes;
        chosen.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Owners of a machine of 1,000 MiB: what each holds and took, in MiB; `kept`, `avoided`,
    /// `shielded`, `stalled`, `empty` where he has no process that may be ended; and whose verdict it is.
    const MACHINES: &str = "
who holds most pays, whoever grew
  a 730   0          pays
  b 100  90

who may not be ended and took most is to blame, and nobody pays for it
  a 200  90  kept    blamed
  b 500  10

nor for what root protects
  a   0  90  shielded blamed
  b 500  10

what root protects and is as large all the same pays like any other
  a 500  90  shielded pays
  b 100  10

who may not be ended and took some is not
  a 400  50  kept
  b 300  60          pays
  c 100   0

noise is nobody's fault
  a 200   3  kept
  b 500   0          pays

nobody who holds less than an equal share is ended for another
  a 600   0  empty
  b 100  80

nor for another who has nothing to be ended, where he holds less than half of that
  a 700   0  empty
  b 300  80
  c  20   0
  d  10   0

nor do small ones make an equal share a small one, where the machine stands still
  a 600   0
  b  90  80  stalled
  c   2   0
  d   2   0
  e   2   0
  f   2   0
  g   2   0
  h   2   0
  i   2   0
  j   2   0
  k   2   0

who holds an equal share is, where the largest has nothing to be ended
  a 400   0  empty
  b 300   0          pays
  c  50   0

those that are rather kept pay last
  a 500   0  avoided
  b 480   0          pays
  c  20   0

where none else holds an equal share they pay
  a 900   0  avoided pays
  b  20   0

nobody pays for what nobody has any more
  a 800   0  kept nobody
  b  60   3

but who took most himself
  a 800   0  kept nobody
  b  60   9  pays

where the machine stands still somebody pays who waits
  a 600   0
  b 500   0  stalled pays
  c  10   0  stalled
";

    /// While what was ended is on its way out, nothing goes, and a page is more than half of that.
    #[test]
    fn a_page_is_not_most_of_nothing() {
        let can_bytes = 400 * MIB;
        assert!(!took_most(4096, 0, can_bytes));
        assert!(took_most(3 * MIB, 5 * MIB, can_bytes));
        assert!(!took_most(3 * MIB, 6 * MIB, can_bytes));
    }

    #[test]
    fn on_each_machine_he_pays_that_it_says() {
        let mut count = 0;
        for machine in MACHINES.trim().split("\n\n") {
            let mut lines = machine.lines();
            let name = lines.next().unwrap();
            let words: Vec<Vec<&str>> = lines.map(|it| it.split_whitespace().collect()).collect();
            let has = |place: usize, word: &str| words[place].contains(&word);
            let places = 0..words.len();
            let all: Vec<OwnerFigures> = places
                .clone()
                .map(|at| OwnerFigures {
                    right: match () {
                        () if has(at, "kept") => Right::Kept(""),
                        () if has(at, "avoided") => Right::Avoided,
                        () => Right::Ended,
                    },
                    holds_bytes: words[at][1].parse::<u64>().unwrap() * MIB,
                    took_bytes: words[at][2].parse::<u64>().unwrap() * MIB,
                    is_shielded: has(at, "shielded"),
                    is_stalled: has(at, "stalled"),
                    is_nobody: has(at, "nobody"),
                })
                .collect();
            let of = |word| places.clone().find(|at| has(*at, word));
            let expected = match (of("pays"), of("blamed")) {
                (Some(place), _) => Verdict::Pays(place),
                (_, Some(place)) => Verdict::Blamed(place),
                _ => Verdict::Nobody,
            };
            let found = choose_owner(&all, 1000 * MIB, name.contains("stands still"), |place| {
                !has(place, "empty")
            });
            assert_eq!(found, expected, "{name}");
            count += 1;
        }
        assert_eq!(count, 15);
    }

    #[test]
    fn where_all_are_small_all_are_counted() {
        let one = OwnerFigures {
            right: Right::Ended,
            holds_bytes: 2 * MIB,
            took_bytes: 0,
            is_shielded: false,
            is_stalled: true,
            is_nobody: false,
        };
        let found = choose_owner(&[one; 300], 1000 * MIB, false, |_| true);
        assert_eq!(found, Verdict::Pays(0));
        let none = OwnerFigures {
            holds_bytes: 0,
            ..one
        };
        assert_eq!(equal_share(&[[one; 300], [none; 300]].concat()), 2 * MIB);
    }

    /// A generator of numbers below a bound, from a seed.
    fn numbers(mut state: u64) -> impl FnMut(u64) -> u64 {
        move |below| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        }
    }

    #[test]
    fn nobody_who_holds_less_than_an_equal_share_is_ended_for_another() {
        let (mut paid, mut blamed) = (0, 0);
        for seed in 0..50_000 {
            let mut number = numbers(seed);
            let count = 1 + number(12);
            let all: Vec<OwnerFigures> = (0..count)
                .map(|_| OwnerFigures {
                    right: [Right::Ended, Right::Ended, Right::Avoided, Right::Kept("")]
                        [number(4) as usize],
                    holds_bytes: [0, number(50), number(1000)][number(3) as usize] * MIB,
                    took_bytes: [0, number(100)][number(2) as usize] * MIB,
                    is_shielded: number(8) == 0,
                    is_stalled: number(2) == 0,
                    is_nobody: number(12) == 0,
                })
                .collect();
            let some = number(1 << count);
            match choose_owner(&all, 1000 * MIB, number(4) == 0, |at| some >> at & 1 == 1) {
                Verdict::Pays(place) => {
                    paid += 1;
                    let may = || all.iter().filter(|it| !matches!(it.right, Right::Kept(_)));
                    let holders = may().filter(|it| it.holds_bytes > 0).count() as u64;
                    let held: u64 = may().map(|it| it.holds_bytes).sum();
                    assert!(
                        all[place].holds_bytes * holders + holders > held,
                        "seed {seed}"
                    );
                    assert!(!matches!(all[place].right, Right::Kept(_)), "seed {seed}");
                    let went = went_bytes(&all);
                    let kept = all.iter().filter(|it| matches!(it.right, Right::Kept(_)));
                    let most = kept.map(|it| it.took_bytes).max().unwrap_or(0);
                    assert!(most <= went / 2 || most < 5 * MIB, "seed {seed}");
                }
                Verdict::Blamed(place) => {
                    blamed += 1;
                    let it = all[place];
                    assert!(
                        matches!(it.right, Right::Kept(_)) || it.is_shielded,
                        "seed {seed}"
                    );
                }
                Verdict::Nobody => {}
            }
        }
        assert!(paid > 5_000 && blamed > 500, "{paid} {blamed}");
    }

    fn chosen(all: &[(u64, bool)], missing_mib: u64) -> Vec<usize> {
        let gives = |at: usize| all[at].1.then_some(all[at].0 * MIB);
        let mut chosen = Vec::new();
        choose_processes(all.len(), gives, missing_mib * MIB, 1, &mut chosen);
        chosen
    }

    #[test]
    fn as_many_go_at_once_as_give_back_what_is_missing() {
        assert_eq!(chosen(&[(500, true), (400, true)], 100), [0]);
        assert_eq!(chosen(&[(500, true), (400, true)], 0), [0]);
        assert_eq!(chosen(&[(500, false), (400, true)], 100), [1]);
        assert_eq!(chosen(&[(10, true); 60], 95), (0..10).collect::<Vec<_>>());
        assert!(chosen(&[(10, false); 60], 95).is_empty());
    }

    #[test]
    fn many_small_ones_stand_before_no_large_one() {
        let mut all = vec![(0, true); 2 * AT_ONCE_MAX];
        assert_eq!(chosen(&all, 100).len(), AT_ONCE_MAX + LARGEST_MAX);
        assert_eq!(
            chosen(&[(1, true); 300], AT_ONCE_MAX as u64).len(),
            AT_ONCE_MAX
        );
        all.push((400, true));
        let chosen = chosen(&all, 100);
        assert_eq!(chosen.len(), AT_ONCE_MAX + 1);
        assert_eq!(chosen.last(), Some(&(2 * AT_ONCE_MAX)));
    }
}
