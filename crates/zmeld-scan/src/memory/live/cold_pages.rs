//! Which pages were found to be cold.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::frames::FrameSet;
use crate::memory::{ColdPages, Coldness, RegionKind, Skips};
use zmeld_linux::smaps::Mapping;

/// Result of a [`ColdTracker`](crate::memory::ColdTracker): give it to
/// [`LiveMemory::only_cold`](crate::memory::LiveMemory::only_cold).
#[derive(Debug)]
pub struct ColdPagesFound {
    pub(crate) waited: Duration,
    pub(crate) found: ColdSet,
    pub(crate) pages: BTreeMap<RegionKind, ColdPages>,
    /// Processes whose bits could not be reset.
    pub(crate) skipped: Skips,
}

#[derive(Debug)]
pub(crate) enum ColdSet {
    /// Frames (heads of compound pages) still idle.
    Idle(FrameSet),
    /// By process: start and end of the mappings in which nothing was touched.
    Mappings(HashMap<i32, Vec<(u64, u64)>>),
}

impl ColdPagesFound {
    /// How exact it is.
    pub fn coldness(&self) -> Coldness {
        match self.found {
            ColdSet::Idle(_) => Coldness::PerPage,
            ColdSet::Mappings(_) => Coldness::PerMapping,
        }
    }

    pub(crate) fn is_cold_mapping(&self, pid: i32, mapping: &Mapping) -> bool {
        match &self.found {
            ColdSet::Idle(_) => true,
            ColdSet::Mappings(cold) => cold
                .get(&pid)
                .is_some_and(|cold| cold.contains(&(mapping.start, mapping.end))),
        }
    }
}
