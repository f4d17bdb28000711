//! The contents seen: 24 bytes for each page, in shards by hash, sorted at the
//! end so that equal pages stand together.

use std::cmp::Ordering;
use std::sync::Mutex;

use crate::memory::RegionId;
use rayon::prelude::*;
use rayon::ThreadPoolBuilder;

const SHARDS: usize = 64;

/// Origin of a page: 24 bits of region, 39 of page, 1 for "perhaps shared".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageOrigin(u64);

impl PageOrigin {
    const PAGE_BITS: u32 = 39;

    pub fn new(region: RegionId, page: u64, maybe_shared: bool) -> PageOrigin {
        debug_assert!(page < 1 << Self::PAGE_BITS);
        PageOrigin(
            u64::from(region.0) << (Self::PAGE_BITS + 1)
                | (page & ((1 << Self::PAGE_BITS) - 1)) << 1
                | u64::from(maybe_shared),
        )
    }

    pub fn region(self) -> RegionId {
        RegionId((self.0 >> (Self::PAGE_BITS + 1)) as u32)
    }

    pub fn maybe_shared(self) -> bool {
        self.0 & 1 == 1
    }

    /// The place, whatever was thought of its being shared.
    pub fn place(self) -> u64 {
        self.0 >> 1
    }
}

/// One page: its hash in two halves, so that it needs no padding, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageRecord {
    pub high: u64,
    pub low: u64,
    pub origin: PageOrigin,
}

const _: () = assert!(std::mem::size_of::<PageRecord>() == 24);

impl PageRecord {
    pub fn new(hash: u128, origin: PageOrigin) -> PageRecord {
        PageRecord {
            high: (hash >> 64) as u64,
            low: hash as u64,
            origin,
        }
    }

    pub fn same_content(&self, other: &PageRecord) -> bool {
        self.high == other.high && self.low == other.low
    }
}

/// All pages, while they are being read.
pub(crate) struct Contents {
    shards: Vec<Mutex<Vec<PageRecord>>>,
}

fn shard_of(high: u64) -> usize {
    (high >> (64 - SHARDS.ilog2())) as usize
}

impl Contents {
    pub fn new() -> Contents {
        Contents {
            shards: (0..SHARDS).map(|_| Mutex::new(Vec::new())).collect(),
        }
    }

    pub fn add(&self, record: PageRecord) {
        let shard = self.shards[shard_of(record.high)].lock();
        let mut shard = shard.expect("no worker panicked");
        // A quarter more at a time, not double: memory is what is short here.
        if shard.len() == shard.capacity() {
            let more = (shard.len() / 4).max(1024);
            shard.reserve_exact(more);
        }
        shard.push(record);
    }

    pub fn sort(self, threads: usize) -> SortedContents {
        let shards = self.shards.into_iter();
        let shards = shards.map(|shard| shard.into_inner().expect("no worker panicked"));
        let mut shards: Vec<Vec<PageRecord>> = shards.collect();
        let pool = ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
        let sort = || {
            shards
                .par_iter_mut()
                .for_each(|shard| shard.sort_unstable())
        };
        pool.expect("threads can be started").install(sort);
        SortedContents { shards }
    }
}

/// All pages, equal ones together.
pub(crate) struct SortedContents {
    shards: Vec<Vec<PageRecord>>,
}

impl SortedContents {
    /// Every content's pages.
    pub fn groups(&self) -> impl Iterator<Item = &[PageRecord]> {
        self.shards
            .iter()
            .flat_map(|shard| shard.chunk_by(PageRecord::same_content))
    }

    /// How many pages there are.
    pub fn pages(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }

    /// The pages with this hash; empty where there are none.
    pub fn find(&self, hash: u128) -> &[PageRecord] {
        let wanted = PageRecord::new(hash, PageOrigin(0));
        let shard = &self.shards[shard_of(wanted.high)];
        // In steps that grow with the logarithm of the shard: a full scan asks once for
        // each page, and half of them may be one content.
        let order = |it: &PageRecord| (it.high, it.low).cmp(&(wanted.high, wanted.low));
        let start = shard.partition_point(|it| order(it) == Ordering::Less);
        let count = shard[start..].partition_point(|it| order(it) == Ordering::Equal);
        &shard[start..start + count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_keep_their_parts() {
        let origin = PageOrigin::new(RegionId::MAX, (1 << 39) - 1, true);
        assert_eq!(origin.region(), RegionId::MAX);
        assert!(origin.maybe_shared());
        let other = PageOrigin::new(RegionId(5), 77, false);
        assert_eq!(other.region(), RegionId(5));
        assert!(!other.maybe_shared());
        assert_eq!(
            other.place(),
            PageOrigin::new(RegionId(5), 77, true).place()
        );
    }
}
