//! What `zmeld watch` reclaims before it is needed, out of the note that it keeps
//! in [`FILE`] while it runs.

use serde::{Deserialize, Serialize};

use super::lately::{uptime, BOOT};
use super::reader::Reader;
use crate::error::Error;
use crate::run_folder;
use zmeld_linux::Host;

/// Where it is noted.
pub const FILE: &str = "/run/zmeld/reclaim.json";
const SCHEMA: &str = "zmeld.reclaim/1";
/// A note that is older than two rounds and this is of a watch that runs no more.
const STALE_S: f64 = 60.0;
/// More groups than this are not noted: the file must stay one that can be read again.
const GROUPS_MAX: usize = 1024;

/// What the rule of `[watch.reclaim]` did since the watch began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// What the rule names and no group is called.
    #[serde(default)]
    pub unmatched: Vec<String>,
}

/// What came of reclaiming a group's memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReclaimedGroup {
    /// Its path from the root of its hierarchy on.
    pub group: String,
    /// In RAM when it was first looked at.
    pub first_memory_bytes: u64,
    /// In RAM now.
    pub memory_bytes: u64,
    /// In swap now.
    pub swap_bytes: u64,
    /// What was asked for and reclaimed, in all.
    pub reclaimed_bytes: u64,
    /// What was reclaimed, by anybody, and is back, in all.
    pub came_back_bytes: u64,
    /// How long some task of it waited for memory, in all.
    pub stalled_us: u64,
    /// The share of its memory that is reclaimed at a time, at most.
    pub step: f64,
    /// Why nothing is reclaimed from it for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing_off: Option<String>,
}

/// A group from which nothing is reclaimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtectedGroup {
    /// Its path from the root of its hierarchy on.
    pub group: String,
    /// Why.
    pub why: String,
}

#[derive(Serialize, Deserialize)]
struct Note {
    schema: String,
    boot: String,
    uptime_s: f64,
    reclaimed: Reclaimed,
}

/// What a watch that runs has noted.
pub(super) fn read(reader: &mut Reader) -> Option<Reclaimed> {
    let text = reader.own(FILE)?;
    let boot = reader.optional(BOOT).unwrap_or_default();
    let uptime_s = uptime(reader.optional("/proc/uptime").as_deref())?;
    match serde_json::from_str::<Note>(&text) {
        Ok(note) if note.schema == SCHEMA => {
            let old_s = 2.0 * note.reclaimed.every_seconds as f64 + STALE_S;
            let is_now = note.boot == boot.trim() && uptime_s - note.uptime_s <= old_s;
            is_now.then_some(note.reclaimed)
        }
        _ => {
            reader.malformed(FILE, "it holds no note of what was reclaimed");
            None
        }
    }
}

impl Reclaimed {
    /// Notes it for those who ask.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(mut self, host: &Host) -> Result<(), Error> {
        let Some(uptime_s) = uptime(host.read_optional("/proc/uptime")?.as_deref()) else {
            return Ok(());
        };
        self.groups.truncate(GROUPS_MAX);
        self.protected.truncate(GROUPS_MAX);
        self.unmatched.truncate(GROUPS_MAX);
        let note = Note {
            schema: SCHEMA.to_owned(),
            boot: host.read_optional(BOOT)?.unwrap_or_default(),
            uptime_s,
            reclaimed: self,
        };
        run_folder::replace(host, FILE, 0o644, &note)
    }

    /// What was reclaimed from all groups, in bytes.
    pub fn reclaimed_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.reclaimed_bytes).sum()
    }

    /// What of all groups came back, in bytes.
    pub fn came_back_bytes(&self) -> u64 {
        self.groups.iter().map(|group| group.came_back_bytes).sum()
    }
}
