//! The published way to merge, as a baseline: one cell for each bucket of the
//! hash table, the hash of the stored bytes computed anew for each look, counts
//! in a tree, and no comparison of bytes.
//!
//! Source: the merge of identical pages inside zram as published in 2023, whose
//! steps are: for each entry, copy its object out and hash it; an empty bucket
//! takes the entry's index; from a taken one, that entry's object is hashed
//! too; where the hashes are equal, the later entry's object is freed, its
//! handle points at the other's, and the tree counts the reference.
//!
//! The hash is xxh64, the fastest of those that kernels offer.

use std::collections::BTreeMap;

use xxhash_rust::xxh64::xxh64;
use zmeld_store::page_size;

/// Names an object.
type Handle = usize;

/// A table of entries and the objects that they name.
pub struct Device {
    entries: Vec<Handle>,
    objects: Vec<Option<Box<[u8]>>>,
    references: BTreeMap<Handle, u32>,
}

impl Device {
    /// One entry for each object.
    pub fn new(objects: impl Iterator<Item = Box<[u8]>>) -> Device {
        let objects: Vec<_> = objects.map(Some).collect();
        Device {
            entries: (0..objects.len()).collect(),
            objects,
            references: BTreeMap::new(),
        }
    }

    /// Merges what has equal hashes and meets in the table; the objects freed.
    pub fn merge(&mut self) -> usize {
        const EMPTY: usize = usize::MAX;
        let count = self.entries.len();
        let mut table = vec![EMPTY; count];
        let mut copy = vec![0u8; page_size()];
        let mut merged = 0;
        for index in 0..count {
            let hash = self.hash(index, &mut copy);
            let bucket = (hash % count as u64) as usize;
            let other = table[bucket];
            if other == EMPTY {
                table[bucket] = index;
            } else if self.hash(other, &mut copy) == hash {
                self.share(index, other);
                merged += 1;
            }
        }
        merged
    }

    /// Entries whose object is not the one that `right` tells: data lost.
    pub fn wrong(&self, right: impl Fn(usize) -> Box<[u8]>) -> usize {
        (0..self.entries.len())
            .filter(|&index| self.objects[self.entries[index]].as_ref() != Some(&right(index)))
            .count()
    }

    fn hash(&self, index: usize, copy: &mut [u8]) -> u64 {
        let object = self.objects[self.entries[index]]
            .as_ref()
            .expect("an entry names an object");
        let copy = &mut copy[..object.len()];
        copy.copy_from_slice(object);
        xxh64(copy, 0)
    }

    fn share(&mut self, index: usize, other: usize) {
        self.objects[self.entries[index]] = None;
        let handle = self.entries[other];
        self.entries[index] = handle;
        self.references
            .entry(handle)
            .and_modify(|count| *count += 1)
            .or_insert(2);
    }
}
