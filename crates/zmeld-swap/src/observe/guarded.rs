//! What `[watch.guard]` saw and did, out of the note that it keeps in [`FILE`].

use serde::{Deserialize, Serialize};

use super::note;
use super::reader::Reader;
use super::reclaimed::ProtectedGroup;
use crate::error::Error;
use crate::room::Hierarchy;
use zmeld_linux::Host;

/// Where it is noted.
pub const FILE: &str = "/run/zmeld/guard.json";
const SCHEMA: &str = "zmeld.guard/1";
/// While memory is short nothing is noted, so that a note may be older than the
/// guard's pace.
const EVERY_S: u64 = 300;
/// More groups than this are not noted.
const GROUPS_MAX: usize = 64;
/// Nor more that were ended, the latest ones.
const ENDED_MAX: usize = 16;

/// What the guard saw and did since the watch began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Guarded {
    /// Since when, in seconds.
    pub seconds: u64,
    /// How often it looked.
    pub looks: u64,
    /// How much later than it should have a look came, at most, in microseconds.
    pub late_us_max: u64,
    /// How much more programs can take.
    pub headroom_bytes: u64,
    /// That is little.
    pub is_short: bool,
    /// What may be ended, as it was last looked for.
    pub watched: Vec<String>,
    /// What the rule names and may not be ended.
    pub protected: Vec<ProtectedGroup>,
    /// What the rule names and no group is called.
    pub unmatched: Vec<String>,
    /// How many groups were ended.
    pub ended_total: u64,
    /// The latest ones.
    pub ended: Vec<EndedGroup>,
}

/// A group that was ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedGroup {
    /// Its path from the root of its hierarchy on.
    pub group: String,
    /// Why, in words and figures.
    pub why: String,
    /// What was done before that.
    pub tried: Vec<String>,
    /// What it held.
    pub held_bytes: u64,
    /// How many processes were told to end.
    pub processes: u64,
    /// They did not, and were killed.
    pub was_killed: bool,
    /// From the look to the last signal, in microseconds.
    pub reaction_us: u64,
    /// From the first signal to its end; absent where it does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// What a watch that runs has noted.
pub(super) fn read(reader: &mut Reader) -> Option<Guarded> {
    note::read(reader, FILE, SCHEMA, |_| EVERY_S)
}

/// Services that end programs when memory is short, as distributions have them.
const OTHERS: [&str; 4] = [
    "systemd-oomd.service",
    "earlyoom.service",
    "nohang.service",
    "nohang-desktop.service",
];

/// Those of them that run, by their control groups.
pub(super) fn others(reader: &Reader) -> Vec<String> {
    let hierarchy = Hierarchy::find(reader.host()).ok().flatten();
    let services = hierarchy.map(|it| it.top.join("system.slice"));
    let Some(services) = services else {
        return Vec::new();
    };
    let mut others = OTHERS.map(str::to_owned).to_vec();
    others.retain(|name| reader.host().exists(services.join(name)));
    others
}

impl Guarded {
    /// Another one was ended.
    pub(crate) fn ended(&mut self, group: EndedGroup) {
        self.ended_total += 1;
        self.ended.push(group);
        if self.ended.len() > ENDED_MAX {
            self.ended.remove(0);
        }
    }

    /// Notes it for those who ask.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn keep(mut self, host: &Host) -> Result<(), Error> {
        self.watched.truncate(GROUPS_MAX);
        self.protected.truncate(GROUPS_MAX);
        self.unmatched.truncate(GROUPS_MAX);
        note::keep(host, FILE, SCHEMA, self)
    }
}
