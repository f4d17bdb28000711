//! A tunable below `/proc/sys`, or a parameter of a module.

use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::step::{Record, SetValue};
use zmeld_linux::compressed::ZSWAP;
use zmeld_linux::text::short;
use zmeld_linux::Host;

impl SetValue {
    /// A value for a file.
    pub fn new(path: impl Into<String>, value: impl Into<String>) -> SetValue {
        SetValue {
            path: path.into(),
            value: value.into(),
        }
    }

    /// The kernel rounds, or refuses in silence.
    fn must_say(&self, host: &Host, value: &str) -> Result<(), Error> {
        let read = host.read(&self.path)?;
        if read == value {
            return Ok(());
        }
        let problem = format!("says \"{}\" after \"{value}\" was written", short(&read));
        Err(Error::malformed(&self.path, problem))
    }

    /// Its name, as `sysctl` and the kernel's command line have it: `vm.swappiness`,
    /// `zswap.enabled`.
    pub(crate) fn name(&self) -> String {
        let of = if self.path.starts_with(ZSWAP) {
            "zswap"
        } else {
            "vm"
        };
        format!("{of}.{}", self.path.rsplit('/').next().unwrap_or_default())
    }

    pub(crate) fn words(&self) -> String {
        format!("set {} to {}", self.name(), self.value)
    }
}

impl Reversible for SetValue {
    fn describe(&self) -> String {
        format!("set {} to {}", self.path, self.value)
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        match context.host.read_optional(&self.path)? {
            Some(value) => Ok((Some(value), None)),
            None => Err(Error::feature(
                format!("{} sets {}", context.group, self.path),
                "leave it out of the configuration",
            )),
        }
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.as_ref() != Some(&self.value) {
            context.host.write(&self.path, &self.value)?;
        }
        self.must_say(context.host, &self.value)
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        Ok(record.done && context.host.read_optional(&self.path)? == Some(self.value.clone()))
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let Some(before) = record.before.as_ref().filter(|_| record.is_change()) else {
            return Ok(());
        };
        let Some(now) = context.host.read_optional(&self.path)? else {
            return Ok(());
        };
        if now == *before {
            return Ok(());
        }
        // A value left by a failed step, rounded by the kernel perhaps, is ours.
        if record.done && now != self.value {
            let text = format!(
                "{} says {}, and said {before} before: it was set to {}, and is left as it is",
                self.path,
                short(&now),
                self.value
            );
            context.leave(&text);
            return Ok(());
        }
        context.host.write(&self.path, before)?;
        self.must_say(context.host, before)
    }
}
