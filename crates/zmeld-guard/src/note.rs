//! What the guard saw and did, as it is noted for those who ask.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zmeld_linux::groups::ProtectedGroup;
use zmeld_linux::{file, own, Host};

use crate::Error;

/// Where zmeld's notes are: root's alone.
pub const FOLDER: &str = "/run/zmeld";
/// Where it is noted.
pub const FILE: &str = "/run/zmeld/guard.json";
/// It is there, and younger than [`SHORT_FOR`], while memory is short.
pub const SHORT: &str = "/run/zmeld/short";
/// It is written anew while memory stays short.
pub const SHORT_FOR: Duration = Duration::from_secs(15);
/// What is noted there.
pub const SCHEMA: &str = "zmeld.guard/1";
/// While memory is short nothing is noted, so that a note may be older than the
/// guard's pace.
pub const EVERY_S: u64 = 300;
/// More groups than this are not noted.
const GROUPS_MAX: usize = 64;
/// Nor more that were ended, the latest ones.
const ENDED_MAX: usize = 16;

/// What the guard saw and did since it began.
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

/// The note in its file.
#[derive(Serialize)]
struct Note<'a> {
    schema: &'a str,
    boot: String,
    uptime_s: f64,
    told: Guarded,
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
        let uptime = host.read("/proc/uptime")?;
        let uptime = uptime.split_whitespace().next();
        let note = Note {
            schema: SCHEMA,
            boot: host.read("/proc/sys/kernel/random/boot_id")?,
            uptime_s: uptime.and_then(|it| it.parse().ok()).unwrap_or(0.0),
            told: self,
        };
        let bytes = serde_json::to_vec_pretty(&note).map_err(|err| Error::CannotGuard {
            why: format!("its note cannot be written: {err}"),
        })?;
        put(host, FILE, &bytes)
    }
}

/// Tells others that memory is short, or that it is not.
pub(crate) fn tell_short(host: &Host, is_short: bool) -> Result<(), Error> {
    match is_short {
        true => put(host, SHORT, b""),
        false => {
            // It may not be there.
            let _ = std::fs::remove_file(host.path(SHORT));
            Ok(())
        }
    }
}

fn put(host: &Host, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let failed = |why: String| Error::CannotGuard {
        why: format!("{path} cannot be written: {why}"),
    };
    let owner = host.root().metadata().map_or(0, |meta| meta.uid());
    own::make_folder(&host.path(FOLDER), owner).map_err(|err| failed(err.to_string()))?;
    file::replace_with_mode(&host.path(path), bytes, 0o644).map_err(|err| failed(err.to_string()))
}
