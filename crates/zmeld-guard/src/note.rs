//! Note of what the guard saw and did, for those who ask.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use zmeld_linux::boot::Note;
use zmeld_linux::lock::{Attempt, FileLock};
use zmeld_linux::service::is_due;
use zmeld_linux::{file, root_owned, Host, HostError};

use crate::error::Error;
use crate::event::{Event, Seen};

/// Folder of zmeld's notes: root's alone.
pub const FOLDER: &str = "/run/zmeld";
/// The guard's note.
pub const FILE: &str = "/run/zmeld/guard.json";
/// It is there, and younger than [`SHORT_FOR`], while memory is short.
pub const SHORT: &str = "/run/zmeld/short";
/// It is written anew while memory stays short.
pub const SHORT_FOR: Duration = Duration::from_secs(15);
/// Locked by the guard while it is at work.
pub const LOCK: &str = "/run/zmeld/guard";
/// Schema of it.
pub const SCHEMA: &str = "zmeld.guard/3";
/// A note of a guard that runs is not much older, in seconds.
pub const EVERY_S: u64 = 60;
/// It is written so often, and when something ended.
const NOTE_EVERY: Duration = Duration::from_secs(10);
const SHORT_EVERY: Duration = Duration::from_secs(5);
/// No more that were ended are noted, the latest ones.
const ENDED_MAX: usize = 16;

/// The guard's record since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// How many processes were ended.
    pub ended_total: u64,
    /// The latest ones.
    pub ended: Vec<Ended>,
}

/// Processes that were told to end at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ended {
    /// Their owner: a group's path from the root of its hierarchy on.
    pub owner: String,
    /// The name of the first one.
    pub process: String,
    /// Why, in words and figures.
    pub why: String,
    /// How many they were.
    pub processes: u64,
    /// They did not, and were killed.
    pub was_killed: bool,
    /// From the first signal to its end; absent where it does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// Takes the lock by which others know that a guard is at work, to be held as long as it is.
///
/// # Errors
/// When another one is; when the lock cannot be taken.
pub fn lock(host: &Host) -> Result<FileLock, Error> {
    make_folder(host)?;
    let path = host.path(LOCK);
    let holder = match FileLock::attempt(&path).map_err(|it| HostError::io("lock", LOCK, it))? {
        Attempt::Taken(lock) => return Ok(lock),
        Attempt::Held(holder) => holder,
    };
    let who = holder.pid.map(|pid| format!(" (process {pid})"));
    let why = format!(
        "another zmeld-guard is at work{}: stop it (systemctl stop zmeld-guard), or leave this to \
         it",
        who.unwrap_or_default()
    );
    Err(Error::CannotGuard { why })
}

fn make_folder(host: &Host) -> Result<(), HostError> {
    let owner = host.root().metadata().map_or(0, |meta| meta.uid());
    root_owned::make_folder(&host.path(FOLDER), owner)
}

#[derive(Debug)]
pub(crate) struct Recorder {
    host: Host,
    /// Nothing is written where it only says what it would do.
    is_on: bool,
    note: Guarded,
    noted: Option<Instant>,
    told_short: Option<Instant>,
    began: Option<Instant>,
}

impl Recorder {
    pub fn new(host: Host, is_on: bool) -> Recorder {
        Recorder {
            host,
            is_on,
            note: Guarded::default(),
            noted: None,
            told_short: None,
            began: None,
        }
    }

    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Short(is_short, _) => {
                self.note.is_short = *is_short;
                self.told_short = None;
                if !is_short && self.is_on {
                    // It may not be there.
                    let _ = std::fs::remove_file(self.host.path(SHORT));
                }
            }
            Event::Ended(gone) => {
                let victim = &gone.victim;
                self.note.ended.push(Ended {
                    owner: victim.account.owner.to_string(),
                    process: victim.process.to_string(),
                    why: victim.to_string(),
                    processes: victim.processes,
                    was_killed: gone.was_killed,
                    took_ms: gone.is_gone.then_some(gone.age.as_millis() as u64),
                });
                self.note.ended_total += victim.processes;
                let too_many = self.note.ended.len().saturating_sub(ENDED_MAX);
                self.note.ended.drain(..too_many);
                self.noted = None;
            }
            Event::Looked(seen) => self.keep(seen),
            _ => {}
        }
    }

    /// Writes what is due.
    fn keep(&mut self, seen: &Seen) {
        let now = seen.now;
        let began = *self.began.get_or_insert(now);
        if !self.is_on {
            return;
        }
        if self.note.is_short && is_due(self.told_short, SHORT_EVERY, now) {
            self.told_short = Some(now);
            let _ = self.put(SHORT, b"");
        }
        if !is_due(self.noted, NOTE_EVERY, now) {
            return;
        }
        self.noted = Some(now);
        self.note.seconds = now.duration_since(began).as_secs();
        self.note.looks = seen.looks;
        self.note.late_us_max = seen.late_us_max;
        self.note.headroom_bytes = seen.headroom_bytes;
        let note = Note::new(&self.host, SCHEMA, &self.note).ok().flatten();
        if let Some(Ok(bytes)) = note.map(|it| serde_json::to_vec_pretty(&it)) {
            // An old note shows as old; the next one may succeed.
            let _ = self.put(FILE, &bytes);
        }
    }

    fn put(&self, path: &str, bytes: &[u8]) -> Option<()> {
        make_folder(&self.host).ok()?;
        file::replace(&self.host.path(path), bytes, Some(0o644)).ok()
    }
}
