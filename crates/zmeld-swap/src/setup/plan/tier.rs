//! A plan's work on a tier, by its kind.

use zmeld_config::advice::size::table_bytes;
use zmeld_config::advice::CompressedPlace;
use zmeld_config::{FindingId, Kind, Tier};

use super::{disk, ram, zswap, Planner, Steps};
use crate::setup::error::Error;
use crate::setup::swapoff_check::PlannedCapacity;

/// Adds what pages can go to once it is on.
pub(crate) fn add_capacity(kind: &Kind, ram_bytes: u64, coming: &mut PlannedCapacity) {
    match kind {
        Kind::Ram(device) => {
            let size = device.size.bytes(ram_bytes);
            let limit = device.memory_limit;
            let limit = limit.map_or(u64::MAX, |it| it.bytes(ram_bytes));
            coming.in_ram_bytes = coming.in_ram_bytes.saturating_add(size.min(limit));
            coming.tables_bytes += table_bytes(size, rustix::param::page_size() as u64);
        }
        Kind::Zswap(_) => {}
        // How large a drive is shows when it is on.
        Kind::Disk(_) => coming.on_disk_bytes = u64::MAX,
    }
}

/// Its conflict with others' compressed swap: the warning, and its place among swap areas where it
/// is one. None: they do not get in each other's way.
pub(super) fn conflict(
    kind: &Kind,
    ram_bytes: u64,
    priority: i16,
) -> Option<(FindingId, Option<CompressedPlace>)> {
    match kind {
        Kind::Ram(device) => {
            let limit = device.memory_limit.map_or(0, |it| it.bytes(ram_bytes));
            let size = device.size.bytes(ram_bytes);
            let page_size = rustix::param::page_size() as u64;
            let place = CompressedPlace::device(i32::from(priority), size, limit, page_size);
            Some((FindingId::SecondDevice, Some(place)))
        }
        Kind::Zswap(_) => Some((FindingId::ZramWithZswap, None)),
        Kind::Disk(_) => None,
    }
}

impl Planner<'_> {
    /// Plans its steps.
    pub(super) fn plan(
        &mut self,
        tier: &Tier,
        priority: i16,
        steps: &mut Steps<'_>,
    ) -> Result<(), Error> {
        match &tier.kind {
            Kind::Ram(device) => ram::plan(device, self, tier, priority, steps),
            Kind::Zswap(zswap) => zswap::plan(zswap, self, steps),
            Kind::Disk(disk) => disk::plan(disk, self, tier, priority, steps),
        }
    }

    /// Whether it is on, as an earlier run set it up.
    pub(super) fn is_active(&self, kind: &Kind, group: &str) -> bool {
        let mut recorded = self.recorded(group);
        match kind {
            Kind::Zswap(_) => {
                let zswap = self.machine.zswap.as_ref();
                recorded.next().is_some() && zswap.is_some_and(|it| it.is_enabled)
            }
            Kind::Ram(_) | Kind::Disk(_) => !self.areas_of(recorded).is_empty(),
        }
    }
}
