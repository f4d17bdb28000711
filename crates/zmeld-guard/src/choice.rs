//! Which groups are ended.

use std::cmp::Reverse;

use crate::ending::SETTLE;
use crate::open::WINDOW;

/// Groups have grown where they take this share of RAM more than ten seconds ago,
const GREW: f64 = 0.01;
/// and no less nor more than this: less is no growth, more one on any machine.
const GREW_BYTES_MIN: u64 = 8 << 20;
const GREW_BYTES_MAX: u64 = 128 << 20;

/// Why one has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Programs can take no more.
    NoRoom,
    /// Before a group has ended they can take no more.
    TooSoon,
    /// Nothing goes on for want of memory, though they could.
    Stalled,
}

/// What it is chosen by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub cause: Cause,
    /// Nothing is ended that does not grow.
    pub only_grown: bool,
    /// All RAM.
    pub total_bytes: u64,
    /// So much each owner can protect by his own means.
    pub sheltered_max: u64,
    /// What has to come back.
    pub missing_bytes: u64,
    /// How much less programs could take than at the last look.
    pub went_bytes: u64,
}

/// What is known of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub rank: usize,
    pub bytes: u64,
    /// With files in memory.
    pub all_bytes: u64,
    /// How much more that is than ten seconds ago, and than at the last look.
    pub grew: i64,
    pub took: i64,
    /// And than when memory was last far from short.
    pub grew_slowly: i64,
    pub owner: usize,
    /// Not all that its owner has is seen.
    pub is_unclear: bool,
    /// It is protected by its owner's own means.
    pub is_sheltered: bool,
    /// So is more of his, which is not followed: what is not seen of him may be that.
    pub has_more_sheltered: bool,
    /// Nobody is in it that could be ended: it is a group that was left, or what its owner
    /// takes beside those that are followed.
    pub is_hidden: bool,
}

/// Adds what an owner, of whom these are all figures, has beside those that are followed.
pub(crate) fn add_hidden(all: &mut Vec<Figures>, owner: Figures) {
    let mut hidden = Figures {
        is_hidden: true,
        ..owner
    };
    for it in all.iter().filter(|it| it.owner == owner.owner) {
        hidden.grew -= it.grew;
        hidden.took -= it.took;
        hidden.grew_slowly -= it.grew_slowly;
        hidden.all_bytes = hidden.all_bytes.saturating_sub(it.all_bytes);
    }
    all.push(hidden);
}

/// Which are ended, by their places, in `chosen`, of which no more are wanted than there is
/// room for.
///
/// Where all of them together grew: the one that grew most, and those that grew half as much
/// at least, until what they hold covers what is missing, and what they take in two seconds more.
/// Where memory goes too fast, only if
/// they took half of what went since the last look: it may go elsewhere. In place of one that
/// its owner protects by his own means, or hides, the largest that he does not.
///
/// Where nothing grew, and programs can take no more, the same by how much they grew since
/// memory was far from short. Where nothing did, of those that the rule names first the
/// largest of the owner who has most, in however many groups he has it; of an owner who hides
/// some, where any does.
pub(crate) fn choose(all: &mut [Figures], choice: &Choice, chosen: &mut Vec<usize>) {
    chosen.clear();
    // What goes on growing until the next ones follow has to come back, too.
    let pace = SETTLE.as_secs_f64() / WINDOW.as_secs_f64();
    if choose_grown(all, choice, pace, chosen) || choice.cause != Cause::NoRoom || choice.only_grown
    {
        return;
    }
    all.iter_mut().for_each(|it| it.grew = it.grew_slowly);
    if choose_grown(all, choice, 0.0, chosen) {
        return;
    }
    let of_owner = |owner: usize| -> u64 {
        let own = all.iter().filter(|it| it.owner == owner);
        own.map(|it| it.all_bytes).sum()
    };
    let held = all.iter().enumerate().filter(|(_, it)| it.bytes > 0);
    let free = held.filter(|(_, it)| !is_kept(all, it, choice));
    let first = |it: &Figures| {
        let sizes = (of_owner(it.owner), it.bytes);
        (!it.is_unclear, it.rank, Reverse(sizes))
    };
    chosen.extend(free.min_by_key(|(_, it)| first(it)).map(|(at, _)| at));
}

/// Whether they grew; and who is ended for it.
fn choose_grown(all: &[Figures], choice: &Choice, pace: f64, chosen: &mut Vec<usize>) -> bool {
    let least = (choice.total_bytes as f64 * GREW) as u64;
    let least = least.clamp(GREW_BYTES_MIN, GREW_BYTES_MAX);
    let most = all.iter().map(|it| it.grew).max().unwrap_or(0);
    let grown = || all.iter().filter(|it| it.grew >= most / 2 && most > 0);
    let grew = bytes(grown().map(|it| it.grew).sum());
    let took = bytes(grown().map(|it| it.took.max(0)).sum());
    let is_theirs = choice.cause != Cause::TooSoon || took >= choice.went_bytes / 2;
    if grew >= least && is_theirs {
        let missing = choice.missing_bytes + (grew as f64 * pace) as u64;
        choose_until_covered(all, most / 2, missing, choice, chosen);
    }
    grew >= least
}

/// Those that grew by so much, or what their owners have in their place.
fn choose_until_covered(
    all: &[Figures],
    least: i64,
    missing: u64,
    choice: &Choice,
    chosen: &mut Vec<usize>,
) {
    let (mut covered, mut below) = (0, i64::MAX);
    let mut last = None;
    while chosen.len() < chosen.capacity() && (chosen.is_empty() || covered < missing) {
        // The next by growth, of equal ones by place.
        let rest = all.iter().enumerate().filter(|(at, it)| {
            let is_behind = it.grew < below || (it.grew == below && Some(*at) > last);
            is_behind && it.grew >= least
        });
        let next = rest.max_by_key(|(at, it)| (it.grew, Reverse(*at)));
        let Some((at, grown)) = next else { return };
        (below, last) = (grown.grew, Some(at));
        let place = match is_kept(all, grown, choice) {
            false => Some(at),
            true => {
                let own = all.iter().enumerate().filter(|(at, it)| {
                    it.owner == grown.owner && it.bytes > 0 && !chosen.contains(at)
                });
                let free = own.filter(|(_, it)| !is_kept(all, it, choice));
                free.max_by_key(|(_, it)| it.bytes).map(|(at, _)| at)
            }
        };
        if let Some(at) = place.filter(|at| !chosen.contains(at)) {
            covered += all[at].bytes;
            chosen.push(at);
        }
    }
}

fn bytes(grew: i64) -> u64 {
    u64::try_from(grew).unwrap_or(0)
}

/// Whether its owner protects it, and no more than he may; what he hides nobody can end.
fn is_kept(all: &[Figures], it: &Figures, choice: &Choice) -> bool {
    if it.is_hidden {
        return true;
    }
    let own = all.iter().filter(|other| other.owner == it.owner);
    let own = own.filter(|other| other.is_sheltered || other.is_hidden && it.has_more_sheltered);
    it.is_sheltered && own.map(|other| other.all_bytes).sum::<u64>() <= choice.sheltered_max
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Machines of 1,024 MiB, each with what is missing; then a line a group: its name, its
    /// owner, its rank, what it holds, how much it grew and took since the last look, all in
    /// MiB; what it is besides; and `ended` by its turn. A line `all` is an owner in all.
    const MACHINES: &str = "
where none grew the first named goes: 30
  larger   a 1 900   5  0
  first    b 0 300   4  0  ended 1
  smaller  c 0 100   0  0
  empty    d 0   0   0  0

until what they hold covers what is missing: 100
  one      a 1  40  10  0  ended 2
  two      b 1  40  11  0  ended 1
  three    c 1  40   9  0  ended 3
  four     d 1  40   8  0

and what they take in two seconds more: 30
  one      a 1  40  30  3  ended 1
  two      b 1  40  30  3  ended 2
  three    c 1  40  30  3
  four     d 1  40  30  3

the one that grows most is enough where it holds enough: 100
  large    a 1 200  90  0  ended 1
  other    b 1 100  80  0

a little is no growth: 30
  grew     a 1  48   7  0
  first    b 0 100   0  0  ended 1

where none grew it is one of the owner who hides some: 30
  largest  a 0 900   0  0
  hides    b 1 100   0  0  unclear ended 1

what its owner protects is ended in nobody else's place, not even where he has nothing else: 30
  hider    a 0 200 150 15  sheltered
  other    b 0 400   0  0

what its owner hides is ended in nobody else's place: 30
  own      a 0  20   0  0  ended 1
  other    b 0 400  20  0
  all      a 0 300 150 15
  all      b 0 400  20  0

who only moves from group to group has not grown: 30
  left     a 0   0   0  0  left
  own      a 0  20   0  0
  other    b 0 400   0  0  ended 1
  all      a 0 100   0  0

who has most has it in many groups: 30
  larger   a 0 200   0  0
  one      b 0 100   0  0
  two      b 0 110   0  0  ended 1
  all      a 0 200   0  0
  all      b 0 300   0  0

what an owner hides is not protected: 30
  shell    a 0  20   0  0  sheltered
  own      a 1  20   0  0  ended 1
  all      a 0 500 150 15

but where more is protected than is followed: 30
  hider    a 0 200 150 15  sheltered more ended 1
  own      a 1  20   0  0
  all      a 0 500 150 15
";

    #[test]
    fn on_each_machine_those_are_ended_that_it_says() {
        let mut count = 0;
        for machine in MACHINES.trim().split("\n\n") {
            let mut lines = machine.lines();
            let (name, missing) = lines.next().unwrap().split_once(": ").unwrap();
            let choice = Choice {
                cause: Cause::NoRoom,
                only_grown: false,
                total_bytes: 1024 * MIB,
                sheltered_max: 256 * MIB,
                missing_bytes: missing.parse::<u64>().unwrap() * MIB,
                went_bytes: 0,
            };
            let mut all = Vec::new();
            let mut expected = Vec::new();
            for (place, line) in lines.enumerate() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let mib = |at: usize| words[at].parse::<i64>().unwrap() * MIB as i64;
                let owner = words[1].as_bytes()[0].into();
                let group = Figures {
                    rank: words[2].parse().unwrap(),
                    bytes: bytes(mib(3)),
                    all_bytes: bytes(mib(3)),
                    grew: mib(4),
                    took: mib(5),
                    grew_slowly: 0,
                    owner,
                    is_hidden: words.contains(&"left"),
                    is_unclear: words.contains(&"unclear"),
                    is_sheltered: words.contains(&"sheltered"),
                    has_more_sheltered: words.contains(&"more"),
                };
                if words[0] == "all" {
                    add_hidden(&mut all, group);
                    continue;
                }
                all.push(group);
                if let Some(at) = words.iter().position(|word| *word == "ended") {
                    expected.push((words[at + 1].parse::<usize>().unwrap(), place));
                }
            }
            expected.sort();
            let expected: Vec<usize> = expected.into_iter().map(|(_, place)| place).collect();
            let mut chosen = Vec::with_capacity(8);
            choose(&mut all, &choice, &mut chosen);
            assert_eq!(chosen, expected, "{name}");
            count += 1;
        }
        assert_eq!(count, 12);
    }
}
