//! A kernel module, loaded where it is not there yet.

use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::step::{LoadModule, Record};
use zmeld_config::advice::module::way_to_module;
use zmeld_linux::command::Invocation;
use zmeld_linux::compressed::device_numbers;
use zmeld_linux::HostError;

impl Reversible for LoadModule {
    fn describe(&self) -> String {
        format!("load the module {}", self.driver.name())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let is_there = context.host.exists(self.driver.control());
        Ok((is_there.then(|| "loaded".to_owned()), None))
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.is_some() {
            return Ok(());
        }
        let (module, sign) = (self.driver.name(), self.driver.control());
        let modprobe = Invocation::new("modprobe").args([module, "num_devices=0"]);
        context.host.run(&modprobe).map_err(|err| match err {
            HostError::Command { said, .. } => Error::ModuleRefused {
                group: context.group.to_owned(),
                module: module.to_owned(),
                said,
                way_out: format!("{}, or choose another tier", way_to_module(module)),
            },
            err => err.into(),
        })?;
        if context.host.exists(&sign) {
            return Ok(());
        }
        Err(Error::malformed(
            sign,
            format!("is missing although the module {module} was loaded"),
        ))
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        Ok(record.done && context.host.exists(self.driver.control()))
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let (module, sign) = (self.driver.name(), self.driver.control());
        if record.before.is_some() || !context.host.exists(&sign) {
            return Ok(());
        }
        // While there are devices of it, it stays.
        context.is_left = !device_numbers(context.host, module)?.is_empty();
        if !context.is_left {
            // Somebody else may use it by now; then it is no longer ours to unload.
            let unload = Invocation::new("modprobe").args(["-r", module]);
            context.host.attempt(&unload)?;
        }
        let stays = context.host.exists(&sign);
        let stays = stays.then(|| format!("the module {module} stays loaded: it is used"));
        context.remains(stays);
        Ok(())
    }
}
