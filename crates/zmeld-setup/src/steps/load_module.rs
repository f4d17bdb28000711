//! A kernel module, loaded where it is not there yet.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::step::{Before, Record, Reversible, StepContext};
use zmeld_linux::command::Invocation;
use zmeld_linux::HostError;

/// Load a module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadModule {
    /// Its name.
    pub module: String,
    /// Its parameters, `num_devices=0`.
    pub options: Vec<String>,
    /// A directory that is there once it is loaded.
    pub sign: String,
    /// Its devices in `/sys/block` begin with this: while there are any, it stays.
    pub devices: Option<String>,
}

/// How a kernel gets a module that it has not got.
fn way_to_module(module: &str) -> String {
    let way = zmeld_advice::module::way_to_module(module);
    format!("{way}, or choose another tier")
}

impl Reversible for LoadModule {
    fn describe(&self) -> String {
        format!("load the module {}", self.module)
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let is_there = context.host.exists(&self.sign);
        Ok((is_there.then(|| "loaded".to_owned()), None))
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.is_some() {
            return Ok(());
        }
        let modprobe = Invocation::new("modprobe")
            .arg(self.module.as_str())
            .args(self.options.iter().map(String::as_str));
        context.host.run(&modprobe).map_err(|err| match err {
            HostError::Command { said, .. } => Error::ModuleRefused {
                group: context.group.to_owned(),
                module: self.module.clone(),
                said,
                way_out: way_to_module(&self.module),
            },
            err => err.into(),
        })?;
        if context.host.exists(&self.sign) {
            return Ok(());
        }
        Err(Error::malformed(
            &self.sign,
            format!("is missing although the module {} was loaded", self.module),
        ))
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        Ok(record.done && context.host.exists(&self.sign))
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if record.before.is_some() || !context.host.exists(&self.sign) {
            return Ok(());
        }
        let others = context.host.list("/sys/block")?;
        let is_of_module = |name: &String| {
            let mut devices = self.devices.iter();
            devices.any(|devices| name.starts_with(devices.as_str()))
        };
        context.is_left = others.iter().any(is_of_module);
        if !context.is_left {
            // Somebody else may use it by now; then it is no longer ours to unload.
            let unload = Invocation::new("modprobe").args(["-r", self.module.as_str()]);
            context.host.attempt(&unload)?;
        }
        let stays = context.host.exists(&self.sign);
        let stays = stays.then(|| format!("the module {} stays loaded: it is used", self.module));
        context.remains(stays);
        Ok(())
    }
}
