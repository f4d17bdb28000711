//! What stands on a drive or file: its signatures, and a header that a step makes there.

use std::path::Path;

use super::pin::{self, thing};
use crate::setup::context::{Before, StepContext};
use crate::setup::error::Error;
use crate::setup::identity::{new_uuid, Identity, PathMatch};
use crate::setup::step::{DeviceRef, Record};
use zmeld_linux::command::Invocation;
use zmeld_linux::{shell, Host};

/// Signatures that `wipefs` finds on a device or file: `ext4`, `swap`, `gpt`.
pub fn signatures(host: &Host, path: &Path) -> Result<Vec<String>, Error> {
    let wipefs = Invocation::new("wipefs").args(["--noheadings", "--output", "TYPE"]);
    let text = host.run(&pin::named(host, wipefs, path)?);
    let text = text.map_err(|err| match err.to_string() {
        said if said.contains("resource busy") => Error::place(
            path,
            "it is in use by a file system, a mapping or an array",
            format!(
                "name another device; lsblk {} shows what has this one",
                shell::path(path)
            ),
        ),
        said if said.contains(": Permission denied") => Error::Privilege {
            what: format!("reading {}", path.display()),
            is_root: host.is_root(),
        },
        _ => err.into(),
    })?;
    let mut types: Vec<String> = text
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    types.dedup();
    Ok(types)
}

/// The record before a header of that kind is made, unless there is one, with the new UUID. Refuses
/// a place that carries anything else.
pub(super) fn before_header(
    host: &Host,
    path: &Path,
    found: &[String],
    kind: &str,
    uuid: fn(&mut Identity) -> &mut Option<String>,
) -> Result<Before, Error> {
    let mut identity = Identity::of(host, path)?.unwrap_or_default();
    if found == [kind] {
        return Ok((Some(kind.to_owned()), Some(identity)));
    }
    if !found.is_empty() {
        return Err(carries(path, found));
    }
    *uuid(&mut identity) = Some(new_uuid()?);
    Ok((None, Some(identity)))
}

/// Whether a header of that kind is still there, on the same thing.
pub(super) fn has_header(
    context: &StepContext<'_>,
    device: &DeviceRef,
    record: &Record,
    has: impl Fn(&Path) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let Some(path) = context.path_of(device)?.filter(|_| record.done) else {
        return Ok(false);
    };
    let is_same = matches!(thing(context.host, &path, record)?, PathMatch::Same);
    // A device of the plan's own is nobody else's to change.
    Ok(is_same && (*device == DeviceRef::Added || has(&path)?))
}

/// Takes a header of that kind back, where nothing else is there by now.
pub(super) fn wipe(
    context: &mut StepContext<'_>,
    path: &Path,
    record: &Record,
    kind: &str,
) -> Result<(), Error> {
    let host = context.host;
    let found = thing(host, path, record)?;
    if !context.is_own(path, &found) {
        return Ok(());
    }
    if !pin::is_file(path) {
        context.remains(written_over(&DeviceRef::Path(path.to_owned()), record));
    }
    if signatures(host, path)? != [kind] {
        return Ok(());
    }
    let wipefs = Invocation::new("wipefs").args(["--all", "--types", kind]);
    // Another may have had the name when it was looked at.
    let wipefs = match pin::is_file(path) {
        true => match pin::recorded(host, path, record)? {
            Some(pinned) => pin::given(wipefs, &pinned),
            None => return Ok(()),
        },
        false => match thing(host, path, record)? {
            PathMatch::Same => wipefs.arg(host.path(path)),
            PathMatch::Gone | PathMatch::Other(_) => return Ok(()),
        },
    };
    host.run(&wipefs)?;
    Ok(())
}

/// Refuses a drive that is about to be written over, where it carries anything that
/// is known.
pub(crate) fn refuse_to_lose(host: &Host, drive: &Path) -> Result<(), Error> {
    let found = signatures(host, drive)?;
    match found.is_empty() {
        true => Ok(()),
        false => Err(carries(drive, &found)),
    }
}

/// That a drive carries what may not be lost.
pub(crate) fn carries(drive: &Path, found: &[String]) -> Error {
    let problem = format!("it carries {}, which would be lost", found.join(", "));
    let shown = shell::path(drive);
    let way_out =
        format!("name another device, or run wipefs --all {shown} if nothing on it is needed");
    Error::place(drive, problem, way_out)
}

/// That a drive which carried nothing that is known was written to: what stood
/// there does not come back.
pub(super) fn written_over(device: &DeviceRef, record: &Record) -> Option<String> {
    let path = device.path()?;
    let is_lost = record.done && record.before.is_none();
    is_lost.then(|| format!("what stood on {} was written over", path.display()))
}
