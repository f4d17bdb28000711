//! Proactive reclaim by `zmeld watch`, out of the note that it keeps in [`FILE`] while it runs.

use serde::{Deserialize, Serialize};

use super::note;
use super::reader::Reader;
pub use zmeld_linux::groups::ProtectedGroup;
use zmeld_linux::Host;
use zmeld_linux::HostError;

pub const FILE: &str = "/run/zmeld/reclaim.json";
const SCHEMA: &str = "zmeld.reclaim/1";
/// More groups than this are not noted: the file must stay one that can be read again.
const GROUPS_MAX: usize = 1024;

/// Results of `[watch.reclaim]` since the watch began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Reclaimed {
    /// Since when, in seconds.
    pub seconds: u64,
    /// How often it looks, in seconds.
    pub every_seconds: u64,
    /// Why nothing is reclaimed anywhere just now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holding: Option<String>,
    /// From which groups, the one that gave most first.
    pub groups: Vec<ReclaimedGroup>,
    /// From which ones not.
    pub protected: Vec<ProtectedGroup>,
    /// Names in the rule that no group has.
    #[serde(default)]
    pub unmatched: Vec<String>,
}

/// Results of reclaim in one group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReclaimedGroup {
    /// Its path from the root of its hierarchy on.
    pub group: String,
    /// In RAM when it was first looked at.
    pub first_memory_bytes: u64,
    /// In RAM now.
    pub memory_bytes: u64,
    /// In swap now.
    pub swap_bytes: u64,
    /// Bytes asked for that went to swap, in all.
    pub reclaimed_bytes: u64,
    /// Bytes reclaimed by anybody that are back, in all.
    pub came_back_bytes: u64,
    /// How long some task of it waited for memory, in all.
    pub stalled_us: u64,
    /// The share of its memory that is reclaimed at a time, at most.
    pub step: f64,
    /// After how many seconds its memory is idle, where that is longer now than the rule has it:
    /// too much came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_after_s: Option<u64>,
    /// Why nothing is reclaimed from it for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_off: Option<String>,
}

/// The note of a running watch.
pub(super) fn read(reader: &mut Reader) -> Option<Reclaimed> {
    note::read(reader, FILE, SCHEMA, |it: &Reclaimed| it.every_seconds)
}

impl Reclaimed {
    /// Notes it for those who ask.
    pub fn keep(mut self, host: &Host) -> Result<(), HostError> {
        self.groups.truncate(GROUPS_MAX);
        self.protected.truncate(GROUPS_MAX);
        self.unmatched.truncate(GROUPS_MAX);
        note::keep(host, FILE, SCHEMA, self)
    }

    /// Bytes reclaimed from all groups.
    pub fn reclaimed_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.reclaimed_bytes).sum()
    }

    /// Bytes of all groups that came back.
    pub fn came_back_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.came_back_bytes).sum()
    }
}
