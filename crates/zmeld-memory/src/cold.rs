//! How much of the memory was not touched for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::RegionKind;

/// How exactly cold pages can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coldness {
    /// Each page by itself, in whatever process it was touched (idle page
    /// tracking): every page delivered was idle for the whole time.
    PerPage,
    /// Mapping by mapping (referenced bits, as smaps sums them up). The number
    /// of cold pages is known for every mapping, but not which they are; pages
    /// are delivered only from mappings in which none was touched.
    PerMapping,
}

/// Pages of one kind by their coldness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColdPages {
    /// Pages in RAM.
    pub resident: u64,
    /// Of these, pages not touched during the wait.
    pub cold: u64,
    /// Of these, pages that were delivered.
    pub delivered: u64,
}

/// The result of looking for cold memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cold {
    /// How exact it is.
    pub coldness: Coldness,
    /// How long memory was watched.
    pub waited: Duration,
    /// By kind of memory.
    pub pages: BTreeMap<RegionKind, ColdPages>,
}

impl Cold {
    /// All kinds together.
    pub fn total(&self) -> ColdPages {
        self.pages
            .values()
            .fold(ColdPages::default(), |sum, pages| ColdPages {
                resident: sum.resident + pages.resident,
                cold: sum.cold + pages.cold,
                delivered: sum.delivered + pages.delivered,
            })
    }
}
