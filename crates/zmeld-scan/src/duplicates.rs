//! Places of equal pages: within a process, between processes, by kind of memory.

use std::collections::{BTreeMap, HashMap};

use crate::contents::{PageRecord, SortedContents};
use crate::memory::{Owner, Region};
use crate::result::Duplicates;

/// Pages of a group that are physical pages of their own. Those that may be
/// shared and stand in several processes are taken for the same ones: of each
/// process's number of them, the largest.
pub(crate) struct Counter<'a> {
    owners: Vec<u32>,
    regions: &'a [Region],
}

/// Pages of an owner: all, and those that melding would drop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub pages: u64,
    pub duplicates: u64,
}

/// A group by owner: owner, pages, of them perhaps shared.
type ByOwner = Vec<(u32, u64, u64)>;

impl<'a> Counter<'a> {
    pub fn new(regions: &'a [Region]) -> Counter<'a> {
        let mut numbers: HashMap<&Owner, u32> = HashMap::new();
        let owners = regions
            .iter()
            .map(|region| {
                let next = numbers.len() as u32;
                *numbers.entry(&region.owner).or_insert(next)
            })
            .collect();
        Counter { owners, regions }
    }

    /// Its owner's number.
    pub fn owner(&self, record: &PageRecord) -> u32 {
        let region = record.origin.region().0 as usize;
        self.owners.get(region).copied().unwrap_or(u32::MAX)
    }

    fn by_owner(&self, group: &[PageRecord]) -> ByOwner {
        let mut owners: ByOwner = Vec::new();
        let mut places: HashMap<u32, usize> = HashMap::new();
        for record in group {
            let owner = self.owner(record);
            let shared = u64::from(record.origin.maybe_shared());
            // Records are in order of region, so an owner's mostly stand together.
            let place = match owners.last() {
                Some(last) if last.0 == owner => owners.len() - 1,
                _ => *places.entry(owner).or_insert_with(|| {
                    owners.push((owner, 0, 0));
                    owners.len() - 1
                }),
            };
            owners[place].1 += 1;
            owners[place].2 += shared;
        }
        owners
    }

    /// Pages of the group that melding could still bring together.
    pub fn pages(&self, group: &[PageRecord]) -> u64 {
        let all = group.len() as u64;
        if all == 1 || !group.iter().any(|record| record.origin.maybe_shared()) {
            return all;
        }
        self.shares(group).iter().map(|share| share.1).sum()
    }

    /// Pages of the group by owner's number.
    pub fn shares(&self, group: &[PageRecord]) -> Vec<(u32, u64)> {
        let owners = self.by_owner(group);
        let most = owners.iter().map(|owner| owner.2).max().unwrap_or(0);
        let mut is_first = true;
        let share = |(owner, pages, shared): (u32, u64, u64)| {
            // Those of all others are the same ones.
            let is_most = shared == most && std::mem::take(&mut is_first);
            (owner, if is_most { pages } else { pages - shared })
        };
        owners.into_iter().map(share).collect()
    }

    /// The owners in the order of their numbers.
    pub fn owners<'r>(&self, regions: &'r [Region]) -> Vec<&'r Owner> {
        let mut owners: Vec<&Owner> = Vec::new();
        for (number, region) in self.owners.iter().zip(regions) {
            if *number as usize == owners.len() {
                owners.push(&region.owner);
            }
        }
        owners
    }

    /// The whole analysis, and what each owner has.
    pub fn analyse(&self, sorted: &SortedContents) -> (Duplicates, Vec<Tally>) {
        let mut found = Duplicates::default();
        let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
        let count = self.owners.iter().max().map_or(0, |it| *it as usize + 1);
        let mut tallies = vec![Tally::default(); count];
        for group in sorted.groups() {
            if let [only] = group {
                if let Some(tally) = tallies.get_mut(self.owner(only) as usize) {
                    tally.pages += 1;
                }
                continue;
            }
            let shares = self.shares(group);
            let pages: u64 = shares.iter().map(|share| share.1).sum();
            // Melding keeps one, of who has most.
            let keeps = shares.iter().max_by_key(|share| share.1).map(|it| it.0);
            for (owner, pages) in &shares {
                if let Some(tally) = tallies.get_mut(*owner as usize) {
                    tally.pages += pages;
                    tally.duplicates += pages - u64::from(keeps == Some(*owner));
                }
            }
            if pages < 2 {
                continue;
            }
            found.groups += 1;
            let between = (shares.len() as u64 - 1).min(pages - 1);
            found.between_owners_pages += between;
            found.within_owner_pages += pages - 1 - between;
            for record in &group[group.len() - (pages as usize - 1)..] {
                *kinds.entry(self.kind(record)).or_default() += 1;
            }
        }
        found.by_kind = kinds
            .into_iter()
            .map(|(kind, pages)| (kind.to_owned(), pages))
            .collect();
        (found, tallies)
    }

    fn kind(&self, record: &PageRecord) -> &'static str {
        self.regions
            .get(record.origin.region().0 as usize)
            .map_or("unknown", |region| region.kind.as_str())
    }
}
