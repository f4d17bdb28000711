//! Pages as a visit delivers them.
#![allow(dead_code)] // Each test uses its part.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

use zmeld_scan::memory::{LiveMemory, LiveOptions, RegionKind, Selection, Source, Visit};
use zmeld_store::page_size;

pub struct Seen {
    /// By address of the page and process: kind, contents.
    pub pages: BTreeMap<(i32, u64), (RegionKind, Vec<u8>)>,
    /// Pages marked as maybe shared.
    pub maybe_shared: u64,
    pub visit: Visit,
}

impl Seen {
    /// The pages of a mapping of `pages` pages at `start`, by index.
    pub fn at(&self, start: u64, pages: u64) -> BTreeMap<u64, &(RegionKind, Vec<u8>)> {
        let size = page_size() as u64;
        self.pages
            .iter()
            .filter(|((_, address), _)| (start..start + pages * size).contains(address))
            .map(|((_, address), page)| ((address - start) / size, page))
            .collect()
    }
}

pub fn live(selection: Selection) -> LiveMemory {
    LiveMemory::open(LiveOptions::new(selection)).unwrap()
}

/// Visits and keeps everything. Fails if a page comes twice.
pub fn see(source: &dyn Source, threads: usize) -> Seen {
    let size = source.page_size();
    let pages = Mutex::new(BTreeMap::new());
    let marked = Mutex::new(0);
    let visit = source
        .visit(threads, &AtomicBool::new(false), &|batch| {
            assert!(!batch.bytes.is_empty() && batch.bytes.len() % size == 0);
            if let Some(flags) = batch.maybe_shared {
                assert_eq!(flags.len(), batch.bytes.len() / size);
                *marked.lock().unwrap() += flags.iter().filter(|&&flag| flag).count() as u64;
            }
            for (n, bytes) in (batch.first_page..).zip(batch.bytes.chunks(size)) {
                let twice = pages
                    .lock()
                    .unwrap()
                    .insert((batch.region, n), (batch.kind, bytes.to_vec()));
                assert!(twice.is_none(), "page {n} of {:?} came twice", batch.region);
            }
        })
        .unwrap();
    let pages: BTreeMap<_, _> = pages
        .into_inner()
        .unwrap()
        .into_iter()
        .map(|((region, n), page)| {
            let region = &visit.regions[region.0 as usize];
            assert_eq!(region.kind, page.0);
            let pid = match &region.owner {
                zmeld_scan::memory::Owner::Process { pid, .. } => *pid,
                _ => 0,
            };
            ((pid, region.start + n * size as u64), page)
        })
        .collect();
    assert_eq!(pages.len() as u64, visit.counted.delivered);
    Seen {
        pages,
        maybe_shared: marked.into_inner().unwrap(),
        visit,
    }
}
