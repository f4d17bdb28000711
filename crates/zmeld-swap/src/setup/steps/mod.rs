//! The steps, one file each.

mod add_device;
mod create_file;
mod crypt;
mod load_module;
mod make_swap;
mod pin;
mod set_attribute;
mod set_value;
mod swap_off;
mod swap_on;

use std::path::Path;
use std::time::{Duration, Instant};

pub use add_device::AddDevice;
pub(crate) use create_file::is_unwritten;
pub use create_file::{check_file, check_place, CreateFile};
pub use crypt::{FormatLuks, Mode, OpenCrypt};
pub use load_module::LoadModule;
pub(crate) use make_swap::{refuse_cut, swap_signatures};
pub use make_swap::{signatures, MakeSwap};
pub use pin::{check_device, check_dictionary, check_key_file, check_owner};
pub use set_attribute::SetAttribute;
pub(crate) use set_attribute::{CODEC, LIMIT, PARAMETERS, SIZE};
pub use set_value::SetValue;
pub use swap_off::SwapOff;
pub use swap_on::SwapOn;
pub(crate) use swap_on::{areas, Area};

use zmeld_linux::command::Invocation;
use zmeld_linux::shell;
use zmeld_linux::HostError;

use crate::setup::error::Error;
use crate::setup::identity::{new_uuid, Identity};
use crate::setup::step::{Before, DeviceRef, Record, StepContext};
use zmeld_linux::Host;

/// udev opens a new device to look at it, for some milliseconds; nothing else
/// that is busy is waited for longer.
const BUSY_WAIT: Duration = Duration::from_secs(3);

/// Tries again while the kernel says that a device is busy.
fn while_busy<T>(mut attempt: impl FnMut() -> Result<T, HostError>) -> Result<T, Error> {
    let begin = Instant::now();
    loop {
        match attempt().map_err(Error::from) {
            Err(err) if is_busy(&err) && begin.elapsed() < BUSY_WAIT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            result => return result,
        }
    }
}

fn is_busy(err: &Error) -> bool {
    err.refused_with() == Some(std::io::ErrorKind::ResourceBusy)
}

/// Comparison of a path's target with the thing of a record.
pub(crate) enum PathMatch {
    /// Nothing is there.
    Gone,
    Same,
    /// It is another, for this reason.
    Other(&'static str),
}

fn thing(host: &Host, path: &Path, record: &Record) -> Result<PathMatch, Error> {
    let Some(now) = Identity::of(host, path)? else {
        return Ok(PathMatch::Gone);
    };
    // It is written down before a thing has its name, but for a mapping's.
    let Some(was) = &record.identity else {
        return Ok(PathMatch::Other("it was not made by zmeld"));
    };
    Ok(was.differs(&now).map_or(PathMatch::Same, PathMatch::Other))
}

/// The record before a header of that kind is made, unless there is one, with the new UUID. Refuses
/// a place that carries anything else.
fn before_header(
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
fn has_header(
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
fn wipe(
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
fn written_over(device: &DeviceRef, record: &Record) -> Option<String> {
    let path = device.path()?;
    let is_lost = record.done && record.before.is_none();
    is_lost.then(|| format!("what stood on {} was written over", path.display()))
}
