//! Notes in zmeld's folder for those who ask, as long as the machine is up.

use serde::de::DeserializeOwned;
use serde::Serialize;

use super::reader::Reader;
use crate::run_folder;
use zmeld_linux::boot::{self, Note};
use zmeld_linux::{Host, HostError};

/// A note that is older than two rounds and this is of a watch that runs no more.
const STALE_S: f64 = 60.0;

/// The note of a running watch; `every_s`: how often it looks, in seconds.
pub(super) fn read<T: DeserializeOwned>(
    reader: &mut Reader,
    file: &str,
    schema: &str,
    every_s: impl Fn(&T) -> u64,
) -> Option<T> {
    let (told, old_s) = since_boot(reader, file, schema)?;
    let most_s = 2.0 * every_s(&told) as f64 + STALE_S;
    (old_s <= most_s).then_some(told)
}

/// Seconds since boot.
pub(super) fn uptime(reader: &mut Reader) -> Option<f64> {
    reader.known(boot::uptime(reader.host()))?
}

/// The note since the machine booted, and its age in seconds.
pub(super) fn since_boot<T: DeserializeOwned>(
    reader: &mut Reader,
    file: &str,
    schema: &str,
) -> Option<(T, f64)> {
    let text = reader.own(file)?;
    let boot = reader.known(boot::boot_id(reader.host()));
    let uptime_s = uptime(reader)?;
    match serde_json::from_str::<Note<T>>(&text) {
        Ok(note) if note.schema == schema => {
            let is_of_boot = note.boot == boot.unwrap_or_default();
            is_of_boot.then_some((note.told, uptime_s - note.uptime_s))
        }
        _ => {
            reader.malformed(file, "it holds no such note");
            None
        }
    }
}

pub(super) fn keep<T: Serialize>(
    host: &Host,
    file: &str,
    schema: &str,
    told: T,
) -> Result<(), HostError> {
    match Note::new(host, schema, told)? {
        Some(note) => run_folder::replace(host, file, 0o644, &note),
        None => Ok(()),
    }
}
