//! A swap area that somebody else set up, switched off as long as zmeld's own takes
//! its place.
//!
//! Its device stays as it is, with all its settings: a zram device whose area is off holds no
//! pages, only its table. So taking it back is one `swapon`.
//!
//! Whoever set it up may take it down meanwhile: without a swap header nothing can
//! be switched on, which must not keep zmeld's own areas on.

use std::path::Path;

use super::header::signatures;
use super::make_swap::IS_SWAP;
use super::pin::thing;
use super::swap_on::switch_off;
use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::identity::{Identity, PathMatch};
use crate::setup::step::{Record, SwapOff};
use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

impl Reversible for SwapOff {
    fn describe(&self) -> String {
        format!("take the place of {}", self.path.display())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let Some(swap) = context.host.swap_on(&self.path)? else {
            return Ok((None, None));
        };
        let identity = Identity::of(context.host, &self.path)?;
        Ok((Some(swap.priority.to_string()), identity))
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.is_none() {
            return Ok(());
        }
        switch_off(context, &self.path)?;
        Ok(())
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        Ok(record.done && context.host.swap_on(&self.path)?.is_none())
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        // It was off before, its device is gone, or somebody switched it on again.
        let Some(priority) = &record.before else {
            return Ok(());
        };
        if context.host.swap_on(&self.path)?.is_some() {
            return Ok(());
        }
        let found = thing(context.host, &self.path, record)?;
        if !context.is_own(&self.path, &found) {
            if let PathMatch::Gone = found {
                context.remains(format!("{} is no longer swapped to", self.path.display()));
            }
            return Ok(());
        }
        let mut swapon = Invocation::new("swapon");
        if !priority.starts_with('-') {
            swapon = swapon.args(["--priority", priority]);
        }
        let swapon = super::swap_on::discarding(swapon, self.discard);
        let swapon = swapon.arg(context.host.path(&self.path));
        let Err(err) = context.host.run(&swapon) else {
            return Ok(());
        };
        match lost_header(context.host, &self.path) {
            Ok(true) => {
                context.leave(&format!(
                    "{} is no longer swapped to: it was reset since, or holds something else; \
                     whoever set it up has to do it again",
                    self.path.display()
                ));
                Ok(())
            }
            // Why it could not be switched on matters more.
            Ok(false) | Err(_) => Err(err.into()),
        }
    }
}

/// Whether there is no swap header any more: the device was reset (what has no size
/// cannot be looked at), or somebody else uses it.
fn lost_header(host: &Host, path: &Path) -> Result<bool, Error> {
    let real = host.resolved(path);
    if let Some(name) = real.file_name().and_then(|name| name.to_str()) {
        let size = host.read_optional(format!("/sys/block/{name}/disksize"))?;
        if size.is_some_and(|size| size == "0") {
            return Ok(true);
        }
    }
    Ok(!signatures(host, path)?.iter().any(|it| it == IS_SWAP))
}
