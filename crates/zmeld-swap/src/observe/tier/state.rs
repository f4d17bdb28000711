//! A row of the table of tiers.

use serde::Serialize;
use zmeld_config::advice::codec::JUDGED_FROM;
use zmeld_linux::headroom::ratio;

/// The kind of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservedKind {
    /// A zram device used for swap.
    Zram,
    /// A zmeld device used for swap.
    Zmeld,
    /// A zram or zmeld device that is not swap.
    #[default]
    Device,
    /// The compressed cache in front of swap.
    Zswap,
    /// Swap on a drive.
    Disk,
    /// Swap on an encrypted drive.
    EncryptedDisk,
    /// Swap in a file, or below layers, that stands on RAM again.
    OnRam,
}

impl ObservedKind {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            ObservedKind::Zram => "zram",
            ObservedKind::Zmeld => "zmeld",
            ObservedKind::Device => "device",
            ObservedKind::Zswap => "zswap",
            ObservedKind::Disk => "disk",
            ObservedKind::EncryptedDisk => "encrypted disk",
            ObservedKind::OnRam => "on RAM",
        }
    }
}

/// A row of the table. Unknown fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TierState {
    /// The device's name, the swap file's path, or `zswap`.
    pub name: String,
    /// The tier of the configuration that `zmeld up` made it for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_up_as: Option<String>,
    /// Its kind.
    pub kind: ObservedKind,
    /// The codec that new pages are compressed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<String>,
    /// How much can be written to it; of zswap, how much RAM its pool may take.
    pub size_bytes: u64,
    /// Used as `/proc/swaps` counts it; absent where it is not swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Pages that it holds, uncompressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
    /// Their compressed size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compressed_bytes: Option<u64>,
    /// RAM that the objects really take, in whole pages of the allocator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// RAM that the table of slots takes beside that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_bytes: Option<u64>,
    /// Pages in RAM over the RAM that they take; absent below 16 MiB of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Pages kept as one machine word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_filled_bytes: Option<u64>,
    /// Pages kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incompressible_bytes: Option<u64>,
    /// Compressed bytes that melding saves now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub melded_bytes: Option<u64>,
    /// Pages on the backing device or, for zswap, written on to disk since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writeback_bytes: Option<u64>,
    /// The most RAM that it may take; absent: all there is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// Its priority among swap areas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// The ratio of so many pages; of fewer than tell something, none.
pub(crate) fn judged(pages_bytes: u64, used_bytes: u64) -> Option<f64> {
    ratio(pages_bytes, used_bytes).filter(|_| pages_bytes >= JUDGED_FROM)
}
