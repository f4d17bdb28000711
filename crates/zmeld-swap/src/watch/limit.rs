//! The kernel's limit of writeback, lent for one request.
//!
//! The earlier limit is recorded before it is changed: whoever is killed in a request would leave a
//! limit of nearly nothing that nobody set, and no page would be written back any more. The next
//! watch gives it back.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::run_folder::{self, FOLDER};
use crate::watch::action::path;
use crate::watch::error::Error;
use zmeld_linux::{compressed, Host};

/// A request's change of a device's limit, in units of 4 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LentLimit {
    device: String,
    /// The number that no other disk has had since boot; none before Linux 5.15.
    #[serde(default)]
    sequence: Option<String>,
    /// Units left before; none: there was no limit.
    left: Option<u64>,
    /// The limit of the request.
    units: u64,
}

impl LentLimit {
    /// Limits what a request may write, after it is written down what was there.
    pub(super) fn take(
        host: &Host,
        device: &str,
        left: Option<u64>,
        units: u64,
    ) -> Result<LentLimit, Error> {
        let lent = LentLimit {
            device: device.to_owned(),
            sequence: compressed::disk_sequence(host, device)?,
            left,
            units,
        };
        run_folder::replace(host, file(device), 0o600, &lent)?;
        host.write(path(device, "writeback_limit"), &units.to_string())?;
        host.write(path(device, "writeback_limit_enable"), "1")?;
        Ok(lent)
    }

    /// Puts back what was there, less what was written; gives what the request left
    /// of its limit.
    pub(super) fn give_back(&self, host: &Host) -> Result<u64, Error> {
        let limit = path(&self.device, "writeback_limit");
        let rest = host.read_u64(&limit).unwrap_or(0);
        match self.left {
            Some(left) => {
                let spent = self.units.saturating_sub(rest);
                host.write(&limit, &left.saturating_sub(spent).to_string())?;
            }
            None => host.write(path(&self.device, "writeback_limit_enable"), "0")?,
        }
        // If the file stays, the next watch finds its limit given back already.
        run_folder::remove(host, file(&self.device));
        Ok(rest)
    }
}

/// Gives back what a watch that was killed had lent of a device.
pub(super) fn give_back_left(host: &Host, device: &str) -> Result<bool, Error> {
    let lent_file = file(device);
    let Some(bytes) = run_folder::read(host, &lent_file)? else {
        return Ok(false);
    };
    let lent: Option<LentLimit> = serde_json::from_slice(&bytes).ok();
    let is_on = is_on(host, device)?;
    let rest = host.read_u64(path(device, "writeback_limit"))?;
    let sequence = compressed::disk_sequence(host, device)?;
    // Not another device by that name, nor a limit that somebody set since.
    let ours = lent.filter(|lent| {
        lent.device == device && lent.sequence == sequence && is_on && rest <= lent.units
    });
    match ours {
        Some(lent) => lent.give_back(host).map(|_| true),
        None => {
            run_folder::remove(host, &lent_file);
            Ok(false)
        }
    }
}

pub(super) fn is_on(host: &Host, device: &str) -> Result<bool, Error> {
    let text = host.read(path(device, "writeback_limit_enable"))?;
    Ok(compressed::is_on(&text))
}

fn file(device: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("writeback-{device}.json"))
}
