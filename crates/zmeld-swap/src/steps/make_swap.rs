//! A swap header on a device or file that carries nothing else.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::kernel::{Host, Invocation};
use crate::step::{DeviceRef, MadeDevice, Record, Reversible, StepContext};

/// `mkswap` has room for so many bytes of a label.
const LABEL_MAX: usize = 15;

/// What was found where [`MakeSwap`] had nothing to do.
pub(super) const IS_SWAP: &str = "swap";

/// Write a swap header, unless there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeSwap {
    /// Where.
    pub device: DeviceRef,
    /// What to call it.
    pub label: String,
}

/// What a device or file carries: the types of the signatures that `wipefs`
/// finds, `ext4`, `swap`, `gpt`.
///
/// # Errors
/// When it cannot be looked at.
pub fn signatures(host: &Host, path: &Path) -> Result<Vec<String>, Error> {
    let text = host.run(
        &Invocation::new("wipefs")
            .args(["--noheadings", "--output", "TYPE"])
            .arg(host.path(path)),
    )?;
    let mut types: Vec<String> = text
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    types.dedup();
    Ok(types)
}

impl Reversible for MakeSwap {
    fn describe(&self) -> String {
        format!("make {} a swap area", self.device.name())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Option<String>, Error> {
        let path = context.path(&self.device)?;
        // Made by this very plan, and empty: nothing can be lost.
        if self.device == DeviceRef::Added {
            return Ok(None);
        }
        let found = signatures(context.host, &path)?;
        if found == [IS_SWAP] {
            return Ok(Some(IS_SWAP.to_owned()));
        }
        if found.is_empty() {
            return Ok(None);
        }
        Err(Error::Carries {
            device: path.clone(),
            found: found.join(", "),
        })
    }

    fn apply(
        &self,
        context: &mut StepContext<'_>,
        before: Option<&str>,
    ) -> Result<Option<MadeDevice>, Error> {
        if before == Some(IS_SWAP) {
            return Ok(None);
        }
        let path = context.path(&self.device)?;
        let label: String = self.label.chars().take(LABEL_MAX).collect();
        let mkswap = Invocation::new("mkswap")
            .args(["--label", &label])
            .arg(context.host.path(&path));
        context.host.run(&mkswap)?;
        Ok(None)
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        let path = context.path(&self.device)?;
        if !record.done || !context.host.exists(&path) {
            return Ok(false);
        }
        // A device of the plan's own is nobody else's to change.
        Ok(self.device == DeviceRef::Added || signatures(context.host, &path)? == [IS_SWAP])
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        // The header goes with a device that goes, and one that was there stays.
        let path = match &self.device {
            DeviceRef::Path(path) if record.before.is_none() => path,
            _ => return Ok(()),
        };
        if !context.host.exists(path) || signatures(context.host, path)? != [IS_SWAP] {
            return Ok(());
        }
        let wipefs = Invocation::new("wipefs")
            .args(["--all", "--types", IS_SWAP])
            .arg(context.host.path(path));
        context.host.run(&wipefs).map(drop)
    }

    fn left(&self, host: &Host, record: &Record) -> Result<Option<String>, Error> {
        match &self.device {
            // A file that is gone holds nothing that was lost.
            DeviceRef::Path(path) if !host.exists(path) => Ok(None),
            device => Ok(super::written_over(device, record)),
        }
    }
}
