//! Layout of a file or a stream: which of its bytes are pages of which region.

use std::path::Path;

use crate::memory::{Note, Owner, Region, RegionId, RegionKind, Skips};

/// Layout of a file or a stream.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub(crate) regions: Vec<Region>,
    /// Of dumps in the order of their offsets, none of which overlap.
    pub(crate) extents: Vec<Extent>,
    /// Pages that a dump does not hold.
    pub(crate) skipped: Skips,
    /// Pages that a dump shows once more.
    pub(crate) shown_again: u64,
    pub(crate) note: Option<Note>,
}

/// A stretch of a file that becomes pages of one region.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) region: RegionId,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Index within the region of the page at `offset`.
    pub(crate) first_page: u64,
}

impl Layout {
    /// All of a file as it is.
    pub(super) fn plain(path: &Path, bytes: u64) -> Layout {
        let mut layout = Layout::default();
        let owner = Owner::File(path.to_path_buf());
        layout.add(owner, RegionKind::File, 0, bytes, 0);
        layout
    }

    /// Adds a region that is one extent.
    pub(crate) fn add(
        &mut self,
        owner: Owner,
        kind: RegionKind,
        offset: u64,
        bytes: u64,
        first_page: u64,
    ) {
        let number = u32::try_from(self.regions.len()).expect("fewer regions than are numbered");
        self.extents.push(Extent {
            region: RegionId(number),
            offset,
            bytes,
            first_page,
        });
        self.regions.push(Region {
            owner,
            kind,
            start: 0,
        });
    }

    pub(crate) fn kind(&self, region: RegionId) -> RegionKind {
        self.regions[region.0 as usize].kind
    }
}

impl Extent {
    /// The rest of it behind so many bytes, which are whole pages or all.
    pub(super) fn behind(self, bytes: u64, page_size: usize) -> Extent {
        Extent {
            offset: self.offset + bytes,
            bytes: self.bytes - bytes,
            first_page: self.first_page + bytes / page_size as u64,
            ..self
        }
    }
}
