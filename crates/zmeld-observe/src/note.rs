//! What `zmeld watch` notes in zmeld's folder while it runs, for those who ask.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::lately::{uptime, BOOT};
use super::reader::Reader;
use crate::run_folder;
use zmeld_linux::Host;
use zmeld_linux::HostError;

/// A note that is older than two rounds and this is of a watch that runs no more.
const STALE_S: f64 = 60.0;

#[derive(Serialize, Deserialize)]
struct Note<T> {
    schema: String,
    boot: String,
    uptime_s: f64,
    told: T,
}

/// What a watch that runs has noted there; `every_s`: how often it looks, in seconds.
pub(super) fn read<T: DeserializeOwned>(
    reader: &mut Reader,
    file: &str,
    schema: &str,
    every_s: impl Fn(&T) -> u64,
) -> Option<T> {
    let text = reader.own(file)?;
    let boot = reader.optional(BOOT).unwrap_or_default();
    let uptime_s = uptime(reader.optional("/proc/uptime").as_deref())?;
    match serde_json::from_str::<Note<T>>(&text) {
        Ok(note) if note.schema == schema => {
            let old_s = 2.0 * every_s(&note.told) as f64 + STALE_S;
            let is_now = note.boot == boot.trim() && uptime_s - note.uptime_s <= old_s;
            is_now.then_some(note.told)
        }
        _ => {
            reader.malformed(file, "it holds no note of zmeld watch");
            None
        }
    }
}

/// Notes it.
pub(super) fn keep<T: Serialize>(
    host: &Host,
    file: &str,
    schema: &str,
    told: T,
) -> Result<(), HostError> {
    let Some(uptime_s) = uptime(host.read_optional("/proc/uptime")?.as_deref()) else {
        return Ok(());
    };
    let note = Note {
        schema: schema.to_owned(),
        boot: host.read_optional(BOOT)?.unwrap_or_default(),
        uptime_s,
        told,
    };
    run_folder::replace(host, file, 0o644, &note)
}
