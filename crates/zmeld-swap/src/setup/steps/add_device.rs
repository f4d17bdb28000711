//! A new zram or zmeld device, by reading the control class's `hot_add`.
//!
//! A device that is there already is never taken, even where nobody uses it:
//! whoever made it may be about to.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::setup::context::{left_as_it_is, Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::step::{AddDevice, MadeDevice, Record};
use zmeld_linux::compressed::{device_numbers, disk_sequence};
use zmeld_linux::{Host, HostError};

/// udev opens a new device to look at it, for some milliseconds; nothing else
/// that is busy is waited for longer.
const BUSY_WAIT: Duration = Duration::from_secs(3);

/// Tries again while the kernel says that a device is busy.
pub(super) fn while_busy<T>(mut attempt: impl FnMut() -> Result<T, HostError>) -> Result<T, Error> {
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

impl AddDevice {
    /// A device that a step may have made which was stopped before it could say so:
    /// the kernel gives the lowest number that is free, and nothing has been
    /// written to it yet. Another tool may just as well have made it meanwhile.
    fn unnamed(&self, host: &Host, record: &Record) -> Result<Option<String>, Error> {
        let Some(before) = &record.before else {
            return Ok(None);
        };
        let taken = before.split_whitespace().flat_map(str::parse);
        let taken: Vec<u32> = taken.collect();
        let number = (0..).find(|number| !taken.contains(number)).unwrap_or(0);
        let name = format!("{}{number}", self.driver.name());
        let size = host.read_optional(format!("/sys/block/{name}/disksize"))?;
        Ok(size.is_some_and(|size| size == "0").then_some(name))
    }

    /// The device of a record, if it is there and still the same one.
    pub(crate) fn device(&self, host: &Host, record: &Record) -> Result<Option<String>, Error> {
        let Some(outcome) = &record.outcome else {
            return Ok(None);
        };
        let name = &outcome.name;
        if !host.exists(format!("/sys/block/{name}")) {
            return Ok(None);
        }
        let is_same = outcome.sequence.is_none() || disk_sequence(host, name)? == outcome.sequence;
        Ok(is_same.then(|| name.clone()))
    }

    /// Message on a device that is left, which has its name by now or may be it.
    fn other(&self, host: &Host, record: &Record) -> Result<Option<String>, Error> {
        let Some(outcome) = &record.outcome else {
            let name = self.unnamed(host, record)?;
            return Ok(name.map(|name| {
                let (number, control) = (&name[self.driver.name().len()..], self.driver.control());
                format!(
                    "/dev/{name} is left as it is: a run that was stopped may have made it, or \
                     another tool; if nobody needs it: echo {number} > {}/hot_remove",
                    control.display()
                )
            }));
        };
        let path = Path::new("/dev").join(&outcome.name);
        let Some(name) = self.device(host, record)? else {
            let is_there = host.exists(format!("/sys/block/{}", outcome.name));
            return Ok(is_there.then(|| left_as_it_is(&path, "it is another device by now")));
        };
        let area = host.swap_on(&Path::new("/dev").join(name))?;
        Ok(area.map(|_| left_as_it_is(&path, "somebody else swaps to it")))
    }
}

impl Reversible for AddDevice {
    fn describe(&self) -> String {
        format!("add a {} device", self.driver.name())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let numbers = device_numbers(context.host, self.driver.name())?;
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        Ok((Some(words.join(" ")), None))
    }

    fn apply(&self, context: &mut StepContext<'_>, _: &Record) -> Result<(), Error> {
        let control = self.driver.control().join("hot_add");
        let number = context.host.read_u64(&control)?;
        let name = format!("{}{number}", self.driver.name());
        let sequence = disk_sequence(context.host, &name).unwrap_or_default();
        context.made = Some(MadeDevice { name, sequence });
        Ok(())
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        Ok(record.done && self.device(context.host, record)?.is_some())
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        if let Some(text) = self.other(context.host, record)? {
            context.leave(&text);
            return Ok(());
        }
        let Some(name) = self.device(context.host, record)? else {
            return Ok(());
        };
        let number = &name[self.driver.name().len()..];
        let control = self.driver.control().join("hot_remove");
        match while_busy(|| context.host.write(&control, number)) {
            Err(err) if is_busy(&err) => Err(Error::place(
                format!("/dev/{name}"),
                "it is in use by a program that has it open",
                format!("end it (fuser -v /dev/{name} names it) and try again"),
            )),
            result => result,
        }
    }
}
