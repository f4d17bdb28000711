//! A new zram or zmeld device, by reading the control class's `hot_add`.
//!
//! A device that is there already is never taken, even where nobody uses it:
//! whoever made it may be about to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::while_busy;
use crate::error::Error;
use crate::kernel::Host;
use crate::step::{MadeDevice, Record, Reversible, StepContext};

pub use crate::config::RamDriver as Driver;

impl Driver {
    /// Its name, also of its module and of its devices.
    pub fn name(self) -> &'static str {
        match self {
            Driver::Zram => "zram",
            Driver::Zmeld => "zmeld",
        }
    }

    /// The directory of `hot_add` and `hot_remove`.
    pub fn control(self) -> PathBuf {
        PathBuf::from(format!("/sys/class/{}-control", self.name()))
    }

    /// The numbers of its devices.
    ///
    /// # Errors
    /// When `/sys/block` cannot be read.
    pub fn numbers(self, host: &Host) -> Result<Vec<u32>, Error> {
        let mut numbers: Vec<u32> = host
            .list("/sys/block")?
            .iter()
            .filter_map(|name| name.strip_prefix(self.name())?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Make a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddDevice {
    /// Of which driver.
    pub driver: Driver,
}

impl AddDevice {
    /// The device that a step has made which was stopped before it could say so:
    /// the kernel gives the lowest number that is free, and nothing has been
    /// written to it yet.
    fn unnamed(&self, host: &Host, before: &str) -> Result<Option<String>, Error> {
        let taken: Vec<u32> = before
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect();
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or(0);
        let name = format!("{}{number}", self.driver.name());
        let size = host.read_optional(format!("/sys/block/{name}/disksize"))?;
        Ok(size.is_some_and(|size| size == "0").then_some(name))
    }

    /// The device of a record, if it is there and still the same one.
    fn device(&self, host: &Host, record: &Record) -> Result<Option<String>, Error> {
        let Some(outcome) = &record.outcome else {
            return self.unnamed(host, record.before.as_deref().unwrap_or_default());
        };
        let name = &outcome.name;
        if !host.exists(format!("/sys/block/{name}")) {
            return Ok(None);
        }
        let is_same = outcome.sequence.is_none() || diskseq(host, name)? == outcome.sequence;
        Ok(is_same.then(|| name.clone()))
    }
}

fn diskseq(host: &Host, name: &str) -> Result<Option<String>, Error> {
    let text = host.read_optional(format!("/sys/block/{name}/diskseq"))?;
    Ok(text.filter(|text| !text.is_empty()))
}

impl Reversible for AddDevice {
    fn describe(&self) -> String {
        format!("add a {} device", self.driver.name())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Option<String>, Error> {
        let numbers = self.driver.numbers(context.host)?;
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        Ok(Some(words.join(" ")))
    }

    fn apply(
        &self,
        context: &mut StepContext<'_>,
        _: Option<&str>,
    ) -> Result<Option<MadeDevice>, Error> {
        let control = self.driver.control().join("hot_add");
        let number = context.host.read_u64(&control)?;
        let name = format!("{}{number}", self.driver.name());
        let sequence = diskseq(context.host, &name)?;
        Ok(Some(MadeDevice { name, sequence }))
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        Ok(record.done && self.device(context.host, record)?.is_some())
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let Some(name) = self.device(context.host, record)? else {
            return Ok(());
        };
        let number = &name[self.driver.name().len()..];
        let control = self.driver.control().join("hot_remove");
        match while_busy(|| context.host.write(&control, number)) {
            Err(err) if super::is_busy(&err) => Err(Error::InUse {
                device: format!("/dev/{name}").into(),
                by: "a program that has it open".to_owned(),
                way_out: format!("end it (fuser -v /dev/{name} names it) and try again"),
            }),
            result => result,
        }
    }

    fn left(&self, host: &Host, record: &Record) -> Result<Option<String>, Error> {
        let device = self.device(host, record)?;
        Ok(device.map(|name| format!("/dev/{name} is still there")))
    }
}
