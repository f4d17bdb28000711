//! Memory of a control group by its files, version 2.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{counters, Host, HostError};

use crate::observe::Pressure;

/// Why nothing is taken that needs swap.
pub(super) const NO_SWAP: &str = "no swap is on to take its memory";
pub(super) const NO_SWAP_HERE: &str =
    "memory.swap.max allows it no swap, its own or that of a group above";

/// For how long what came back counts.
const WINDOW: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub at: Instant,
    /// In RAM, with the page cache.
    pub memory_bytes: u64,
    /// Of it, what the kernel would spare of itself: the larger one of `memory.min` and
    /// `memory.low`. Not where a group is asked by itself, as here.
    pub kept_bytes: u64,
    pub swap_bytes: u64,
    /// How long some task waited for memory, in all.
    pub stalled_us: u64,
    /// Pages that were swapped out and are back, in all.
    pub refaults: u64,
    /// Pages that came out of swap, in all, where that is told (Linux 6.13; of zswap before).
    pub swapped_in: u64,
}

impl Reading {
    /// None where the group is gone, or its kernel does not measure pressure.
    pub fn take(host: &Host, group: &Path, at: Instant) -> Result<Option<Reading>, HostError> {
        let text = |name: &str| host.read_optional(group.join(name));
        let (Some(memory_bytes), Some(stat), Some(pressure)) = (
            host.number(group.join("memory.current"))?,
            text("memory.stat")?,
            text("memory.pressure")?.and_then(|text| Pressure::parse(&text)),
        ) else {
            return Ok(None);
        };
        let counted = |name: &str| counters::count(&stat, name);
        Ok(Some(Reading {
            at,
            memory_bytes,
            kept_bytes: kept(host, group)?.unwrap_or(0),
            swap_bytes: host.number(group.join("memory.swap.current"))?.unwrap_or(0),
            stalled_us: pressure.some.total_us,
            // With generations, a page that comes back on another node is no refault.
            refaults: counted("workingset_refault_anon"),
            swapped_in: counted("pswpin") + counted("zswpin") + counted("swpin_zero"),
        }))
    }

    pub fn came_back_since(&self, first: &Reading) -> u64 {
        let refaults = self.refaults.saturating_sub(first.refaults);
        refaults.max(self.swapped_in.saturating_sub(first.swapped_in))
    }
}

/// The larger of a group's `memory.min` and `memory.low`; none where it has neither.
pub(super) fn kept(host: &Host, group: &Path) -> Result<Option<u64>, HostError> {
    let number = |file: &str| host.number(group.join(file));
    Ok(number("memory.min")?.max(number("memory.low")?))
}

/// How many bytes the groups above one have besides what `memory.min` and `memory.low` keep for
/// them, the least of them. The kernel does not spare that where a group below is asked by
/// itself.
pub(super) fn beyond_kept(host: &Host, group: &Path) -> Result<u64, HostError> {
    let mut least = u64::MAX;
    for above in group.ancestors().skip(1) {
        // The root has none.
        let Some(kept) = kept(host, above)? else {
            break;
        };
        if kept > 0 {
            let has = host.number(above.join("memory.current"))?.unwrap_or(0);
            least = least.min(has.saturating_sub(kept));
        }
    }
    Ok(least)
}

/// Why nothing may go to swap, of whatever group.
pub(super) fn no_swap(host: &Host) -> Option<&'static str> {
    let text = host.read_optional(meminfo::PATH).ok().flatten();
    let swap = text.and_then(|text| Meminfo::new(&text).bytes("SwapTotal"));
    swap.is_none_or(|bytes| bytes == 0).then_some(NO_SWAP)
}

/// Why nothing of that group may.
pub(super) fn no_swap_of(host: &Host, group: &Path) -> Result<Option<&'static str>, HostError> {
    for folder in group.ancestors() {
        match host.number(folder.join("memory.swap.max"))? {
            // The root has none.
            None => break,
            Some(0) => return Ok(Some(NO_SWAP_HERE)),
            Some(_) => {}
        }
    }
    Ok(None)
}

/// How many bytes a group may have in swap besides, by its own limit and by those above it.
pub(super) fn swap_room(host: &Host, group: &Path) -> Result<u64, HostError> {
    let mut room = u64::MAX;
    for folder in group.ancestors() {
        let Some(max) = host.number(folder.join("memory.swap.max"))? else {
            break;
        };
        if max < u64::MAX {
            let has = host.number(folder.join("memory.swap.current"))?;
            room = room.min(max.saturating_sub(has.unwrap_or(0)));
        }
    }
    Ok(room)
}

#[derive(Debug, Clone, Default)]
pub(super) struct History {
    readings: VecDeque<Reading>,
}

impl History {
    pub fn last(&self) -> Option<&Reading> {
        self.readings.back()
    }

    /// Whether the counters were begun anew: another group has that path now.
    pub fn is_of_another(&self, reading: &Reading) -> bool {
        self.last().is_some_and(|last| {
            reading.stalled_us < last.stalled_us
                || reading.refaults < last.refaults
                || reading.swapped_in < last.swapped_in
        })
    }

    pub fn add(&mut self, reading: Reading) {
        self.readings.push_back(reading);
        // One that is older than the window stays: what came back since is counted.
        while self
            .readings
            .get(1)
            .is_some_and(|second| reading.at.duration_since(second.at) >= WINDOW)
        {
            self.readings.pop_front();
        }
    }

    /// The share of the time between the last two that some task waited for memory.
    pub fn stalled(&self) -> f64 {
        let mut last = self.readings.iter().rev();
        let (Some(now), Some(before)) = (last.next(), last.next()) else {
            return 0.0;
        };
        let time_us = now.at.duration_since(before.at).as_micros().max(1) as f64;
        now.stalled_us.saturating_sub(before.stalled_us) as f64 / time_us
    }

    /// Pages that came back within the window.
    pub fn came_back(&self) -> u64 {
        match (self.readings.front(), self.readings.back()) {
            (Some(first), Some(last)) => last.came_back_since(first),
            _ => 0,
        }
    }
}
