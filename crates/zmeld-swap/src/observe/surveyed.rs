//! What became of the surveys of `[watch.survey]`, out of the note that it keeps in
//! [`FILE`] while it runs.

use serde::{Deserialize, Serialize};

use super::note;
use super::reader::Reader;
use crate::error::Error;
use zmeld_linux::Host;

/// Where it is noted.
pub const FILE: &str = "/run/zmeld/survey.json";
const SCHEMA: &str = "zmeld.survey.note/1";
/// How often it is noted, in seconds.
pub(crate) const EVERY_S: u64 = 60;

/// What became of surveys since the watch began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surveyed {
    /// Surveys that were left behind.
    pub done: u64,
    /// Those that gave up, since memory was short.
    pub gave_up: u64,
    /// Those that failed.
    pub failed: u64,
    /// When the last one was left behind, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_done: Option<u64>,
    /// Why the last one failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// One is being made now.
    pub is_running: bool,
}

/// What a watch that runs has noted.
pub(super) fn read(reader: &mut Reader) -> Option<Surveyed> {
    note::read(reader, FILE, SCHEMA, |_: &Surveyed| EVERY_S)
}

impl Surveyed {
    /// Notes it for those who ask.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn keep(self, host: &Host) -> Result<(), Error> {
        note::keep(host, FILE, SCHEMA, self)
    }
}
