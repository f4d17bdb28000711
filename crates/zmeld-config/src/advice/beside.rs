//! Two compressed places for swapped pages at once, of which one is zmeld's: what they
//! do to each other, and what they may take of RAM together. The plan refuses it, and
//! the findings name it where both are on.

use zmeld_report::units::bytes;

use crate::advice::active::ActiveSwap;
use crate::tier::SlotTable;

/// Effect of zswap on a compressed device behind it.
pub const IN_FRONT: &str = "zswap in front of it compresses every page twice";

/// A compressed device that is swapped to, or would be.
#[derive(Clone, Copy, Debug)]
pub struct CompressedPlace {
    priority: i32,
    /// The most RAM that it takes, with its table.
    takes_bytes: u64,
}

impl CompressedPlace {
    /// A device of that size, whose pool may take so much; 0: no limit.
    pub fn device(table: SlotTable, priority: i32, size_bytes: u64, limit_bytes: u64) -> Self {
        let pool = match limit_bytes {
            0 => size_bytes,
            limit => limit.min(size_bytes),
        };
        CompressedPlace {
            priority,
            takes_bytes: pool.saturating_add(table.bytes(size_bytes)),
        }
    }

    /// An area that is a compressed device.
    pub fn of(area: &ActiveSwap, page_size: u64) -> Self {
        let limit = area.memory_limit_bytes;
        let (priority, size) = (area.area.priority, area.area.size_bytes);
        let table = SlotTable::new(area.driver, area.meld, page_size);
        CompressedPlace::device(table, priority, size, limit)
    }
}

/// Effect of one beside the other.
pub fn beside(one: CompressedPlace, other: CompressedPlace, ram_bytes: u64) -> String {
    let what = match one.priority == other.priority {
        true => "with the same priority pages go to both in turn",
        false => "the one of higher priority fills first and keeps the coldest pages",
    };
    let together = one.takes_bytes.saturating_add(other.takes_bytes);
    format!(
        "{what}, and together they may take {} of the {} of RAM",
        bytes(together),
        bytes(ram_bytes)
    )
}
