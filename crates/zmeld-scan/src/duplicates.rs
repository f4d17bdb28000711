//! Where equal pages are: within a process, between processes, in what kind of
//! memory, and in which large groups.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use zmeld_memory::{Owner, Region};

use crate::contents::{PageRecord, SortedContents};

/// What melding would find.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Duplicates {
    /// Contents that stand in more than one page.
    pub groups: u64,
    /// Pages that melding would drop because the same owner has the content already.
    pub within_owner_pages: u64,
    /// Pages that melding would drop because another owner has the content.
    pub between_owners_pages: u64,
    /// Pages that melding would drop, by the kind of memory that they are in.
    pub by_kind: BTreeMap<String, u64>,
    /// The largest groups.
    pub largest: Vec<Group>,
}

/// Pages with one content.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Group {
    /// How many pages there are.
    pub pages: u64,
    /// Who holds most of them, the largest first; at most ten.
    pub holders: Vec<Holder>,
    /// Owners beyond these.
    pub more_holders: u64,
}

/// One owner's part of a group.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Holder {
    /// Whose they are: `comm (pid)`, a path.
    pub owner: String,
    /// What kind of memory they are in, of the first.
    pub kind: String,
    /// How many.
    pub pages: u64,
}

/// Pages of a group that are physical pages of their own. Those that may be
/// shared and stand in several processes are taken for the same ones: of each
/// process's number of them, the largest.
pub(crate) struct Counter<'a> {
    owners: Vec<u32>,
    regions: &'a [Region],
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

    fn owner(&self, record: &PageRecord) -> u32 {
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
        all - shared_again(&self.by_owner(group))
    }

    /// The whole analysis; groups of one are passed over.
    pub fn analyse(&self, sorted: &SortedContents, largest: usize) -> Duplicates {
        let mut found = Duplicates::default();
        let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
        // The largest, and some more; ties by hash, so a run repeats.
        let mut top: Vec<(u64, &[PageRecord])> = Vec::new();
        let cut = |top: &mut Vec<(u64, &[PageRecord])>| {
            top.sort_by_key(|(pages, group)| Reverse((*pages, group[0].high)));
            top.truncate(largest);
        };
        for group in sorted.groups().filter(|group| group.len() > 1) {
            let owners = self.by_owner(group);
            let pages = group.len() as u64 - shared_again(&owners);
            if pages < 2 {
                continue;
            }
            found.groups += 1;
            let between = (owners.len() as u64 - 1).min(pages - 1);
            found.between_owners_pages += between;
            found.within_owner_pages += pages - 1 - between;
            for record in &group[group.len() - (pages as usize - 1)..] {
                *kinds.entry(self.kind(record)).or_default() += 1;
            }
            top.push((pages, group));
            if top.len() > 2 * largest {
                cut(&mut top);
            }
        }
        found.by_kind = kinds
            .into_iter()
            .map(|(kind, pages)| (kind.to_owned(), pages))
            .collect();
        cut(&mut top);
        let described = top.into_iter();
        found.largest = described
            .map(|(pages, group)| self.describe(pages, group))
            .collect();
        found
    }

    fn kind(&self, record: &PageRecord) -> &'static str {
        self.regions
            .get(record.origin.region().0 as usize)
            .map_or("unknown", |region| region.kind.as_str())
    }

    fn describe(&self, pages: u64, group: &[PageRecord]) -> Group {
        let mut owners = self.by_owner(group);
        owners.sort_by_key(|&(owner, pages, _)| (Reverse(pages), owner));
        let more_holders = owners.len().saturating_sub(10) as u64;
        owners.truncate(10);
        let holder = |&(owner, pages, _): &(u32, u64, u64)| {
            let first = group.iter().find(|record| self.owner(record) == owner);
            let first = first.expect("an owner has a page");
            let region = self.regions.get(first.origin.region().0 as usize);
            Holder {
                owner: region.map_or_else(String::new, |region| region.owner.to_string()),
                kind: self.kind(first).to_owned(),
                pages,
            }
        };
        Group {
            pages,
            holders: owners.iter().map(holder).collect(),
            more_holders,
        }
    }
}

fn shared_again(owners: &ByOwner) -> u64 {
    let all: u64 = owners.iter().map(|owner| owner.2).sum();
    let largest = owners.iter().map(|owner| owner.2).max().unwrap_or(0);
    all - largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::{Contents, PageOrigin};
    use zmeld_memory::{RegionId, RegionKind};

    fn regions() -> Vec<Region> {
        // Two mappings of process 1, one of process 2.
        [
            (1, RegionKind::Heap),
            (1, RegionKind::Anonymous),
            (2, RegionKind::Heap),
        ]
        .into_iter()
        .map(|(pid, kind)| Region {
            owner: Owner::Process {
                pid,
                comm: "test".into(),
            },
            kind,
            start: 0,
        })
        .collect()
    }

    fn sorted(pages: &[(u64, u32, bool)]) -> SortedContents {
        let contents = Contents::new();
        for (at, &(content, region, shared)) in pages.iter().enumerate() {
            let origin = PageOrigin::new(RegionId(region), at as u64, shared);
            contents.add(PageRecord::new(u128::from(content) << 70, origin));
        }
        contents.sort(1)
    }

    #[test]
    fn what_melding_drops_is_split_by_owner_and_kind() {
        let regions = regions();
        let counter = Counter::new(&regions);
        // Content 1: twice in process 1, once in 2. Content 2: three times in 1.
        let sorted = sorted(&[
            (1, 0, false),
            (1, 1, false),
            (1, 2, false),
            (2, 0, false),
            (2, 0, false),
            (2, 1, false),
            (3, 2, false),
        ]);
        let found = counter.analyse(&sorted, 5);
        assert_eq!(found.groups, 2);
        assert_eq!(found.within_owner_pages, 3);
        assert_eq!(found.between_owners_pages, 1);
        assert_eq!(found.by_kind.values().sum::<u64>(), 4);
        assert_eq!(found.largest.len(), 2);
        assert_eq!(found.largest[0].holders[0].owner, "test (1)");
    }

    #[test]
    fn pages_that_may_be_shared_by_fork_are_no_saving() {
        let regions = regions();
        let counter = Counter::new(&regions);
        let sorted = sorted(&[
            (1, 0, true),
            (1, 2, true),
            (2, 0, true),
            (2, 1, true),
            (2, 2, true),
        ]);
        let found = counter.analyse(&sorted, 5);
        // Content 1 is one page that two map; content 2 two pages of process 1.
        assert_eq!(
            (
                found.groups,
                found.within_owner_pages + found.between_owners_pages
            ),
            (1, 1)
        );
        let pages: Vec<_> = sorted.groups().map(|group| counter.pages(group)).collect();
        assert_eq!(pages, [1, 2]);
    }

    #[test]
    fn only_the_largest_groups_are_kept() {
        let regions = regions();
        let pages: Vec<_> = (0..50u64)
            .flat_map(|content| (0..=content).map(move |_| (content, 0, false)))
            .collect();
        let found = Counter::new(&regions).analyse(&sorted(&pages), 3);
        let sizes: Vec<_> = found.largest.iter().map(|group| group.pages).collect();
        assert_eq!(sizes, [50, 49, 48]);
    }
}
