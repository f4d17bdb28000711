//! What a plan asks of a tier, whatever its kind: a kind is a module beside this one.

use zmeld_advice::CompressedPlace;
use zmeld_config::{FindingId, Kind, Tier};

use super::{Draft, Steps};
use crate::error::Error;
use crate::swapoff_check::PlannedCapacity;

/// The warning that a tier is worth beside other swap, and its place where it is an area.
pub(super) type Conflict = Option<(FindingId, Option<CompressedPlace>)>;

pub(crate) trait PlannedTier {
    /// Plans its steps.
    fn plan(
        &self,
        draft: &mut Draft<'_>,
        tier: &Tier,
        priority: i16,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error>;

    /// Adds what pages can go to once it is on.
    fn add_capacity(&self, _ram_bytes: u64, _coming: &mut PlannedCapacity) {}

    /// What it is beside compressed swap of somebody else: the warning, and its place among
    /// swap areas where it is one. None: they do not get in each other's way.
    fn conflict(&self, _ram_bytes: u64, _priority: i16) -> Conflict {
        None
    }

    /// Whether it is on, as an earlier run set it up.
    fn is_active(&self, draft: &Draft<'_>, group: &str) -> bool {
        !draft.areas_of(draft.recorded(group)).is_empty()
    }
}

pub(crate) fn of(kind: &Kind) -> &dyn PlannedTier {
    match kind {
        Kind::Ram(device) => device,
        Kind::Zswap(zswap) => zswap,
        Kind::Disk(disk) => disk,
    }
}
