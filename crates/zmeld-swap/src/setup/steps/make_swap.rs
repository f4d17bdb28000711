//! A swap header on a device or file that carries nothing else.

use std::path::Path;

use super::header::{before_header, has_header, refuse_to_lose, signatures, wipe, written_over};
use super::pin;
use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::step::{DeviceRef, MakeSwap, Mode, Record, Step};
use zmeld_linux::command::Invocation;
use zmeld_linux::swap_header;
use zmeld_linux::{shell, Host};
use zmeld_report::units::bytes;

/// `mkswap` has room for so many bytes of a label.
const LABEL_MAX: usize = 15;

/// Record where [`MakeSwap`] had nothing to do.
pub(super) const IS_SWAP: &str = "swap";

/// Record of a mapping with a new key.
const FRESH: &str = "fresh";

/// [`signatures`], where the area of a hibernation that was not resumed is the swap area that
/// `swapon` makes of it again: where it is named by its own UUID or label, or is a file. Any other
/// device's image may be another system's, whose area may well have the same label.
pub(crate) fn swap_signatures(host: &Host, path: &Path) -> Result<Vec<String>, Error> {
    let found = signatures(host, path)?;
    if found != ["swsuspend"] {
        return Ok(found);
    }
    let named = ["/dev/disk/by-uuid", "/dev/disk/by-label"];
    let is_it = named.iter().any(|it| path.starts_with(it)) || pin::is_file(path);
    Ok(match is_it {
        true => vec![IS_SWAP.to_owned()],
        false => found,
    })
}

/// Refuses an area that was cut behind its header.
pub(crate) fn refuse_cut(host: &Host, path: &Path) -> Result<(), Error> {
    let Some((is, header)) = swap_header::cut_to(host, path) else {
        return Ok(());
    };
    let problem = format!(
        "its swap header is of an area of {}, and it has {}",
        bytes(header.size_bytes),
        bytes(is)
    );
    let way_out = format!("mkswap {} makes it anew", shell::path(path));
    Err(Error::place(path, problem, way_out))
}

/// Whether a mapping shows nothing that was there before: this run gave it a new key. Of an
/// earlier one somebody may have written to it since.
fn is_fresh(context: &StepContext<'_>, device: &DeviceRef) -> bool {
    let DeviceRef::Mapped(name) = device else {
        return false;
    };
    let mut now = context.ours().filter(|record| record.run == context.run);
    now.any(|record| match &record.step {
        Step::FormatLuks(_) => record.before.is_none(),
        Step::OpenCrypt(open) => open.name == *name && matches!(open.mode, Mode::Random { .. }),
        _ => false,
    })
}

impl Reversible for MakeSwap {
    fn describe(&self) -> String {
        format!("make {} a swap area", self.device.name())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let path = context.path(&self.device)?;
        // Made by this very plan, and empty or noise: nothing can be lost.
        let is_fresh = is_fresh(context, &self.device);
        let is_new = is_fresh || self.device == DeviceRef::Added;
        if pin::is_file(&path) {
            pin::file(context.host, &path)?;
        }
        let found = match is_new {
            true => Vec::new(),
            false => swap_signatures(context.host, &path)?,
        };
        if found == [IS_SWAP] {
            refuse_cut(context.host, &path)?;
        }
        let (before, identity) =
            before_header(context.host, &path, &found, IS_SWAP, |it| &mut it.swap)?;
        let fresh = is_fresh.then(|| FRESH.to_owned());
        Ok((before.or(fresh), identity))
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.as_deref() == Some(IS_SWAP) {
            return Ok(());
        }
        let path = context.path(&self.device)?;
        let label: String = self.label.chars().take(LABEL_MAX).collect();
        let mut mkswap = Invocation::new("mkswap").args(["--label", &label]);
        if let Some(uuid) = record.identity.as_ref().and_then(|it| it.swap.as_ref()) {
            mkswap = mkswap.args(["--uuid", uuid]);
        }
        mkswap = match pin::is_file(&path) {
            true => pin::given(mkswap, &pin::same_file(context.host, &path, record)?),
            false => {
                let device = pin::same_device(context, &self.device, record)?;
                // Another may have had the name when it was looked at.
                if self.device != DeviceRef::Added && record.before.is_none() {
                    refuse_to_lose(context.host, &device)?;
                }
                mkswap.arg(context.host.path(device))
            }
        };
        context.host.run(&mkswap)?;
        Ok(())
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        has_header(context, &self.device, record, |path| {
            Ok(swap_signatures(context.host, path)? == [IS_SWAP])
        })
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        // The header goes with a device that goes, and one that was there stays. So does that
        // of a file which stays, or it would be taken for another's.
        let path = match &self.device {
            DeviceRef::Path(path) if record.before.is_none() => &pin::own_name(context.host, path),
            device => {
                context.remains(written_over(device, record));
                return Ok(());
            }
        };
        let makes_it = |it: &Record| matches!(it.step, Step::CreateFile(_));
        if pin::is_file(path) && !context.ours().any(makes_it) {
            return Ok(());
        }
        wipe(context, path, record, IS_SWAP)
    }
}
