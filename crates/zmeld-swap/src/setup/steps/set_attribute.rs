//! An attribute of the RAM device that the part added. It goes with the device; where
//! that stays in use, it becomes as the kernel has it. Contents of a drive that it names
//! are lost.

use std::io::ErrorKind;

use zmeld_report::units::bytes;

use super::add_device::while_busy;
use super::header::{refuse_to_lose, written_over};
use super::pin;
use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::event::Event;
use crate::setup::step::{DeviceRef, Record, SetAttribute, Step};
use zmeld_config::advice::machine::Machine;
use zmeld_config::RamDriver;
use zmeld_linux::compressed::{choices, chosen, recompression, MmStat};
use zmeld_linux::crypto::takes_unlisted;
use zmeld_linux::release::{self, KernelVersion};
use zmeld_linux::text::short;
use zmeld_linux::Host;

#[derive(Clone, Copy, PartialEq)]
enum Shows {
    /// As it was written.
    Same,
    /// Among others, in brackets: `lzo [lz4] zstd`.
    Chosen,
    /// The same with a line for each priority: `#1: lzo [zstd]`.
    ChosenOfPriority,
    /// In `mm_stat`: it can only be written.
    Limit,
    /// Less than was written: writeback that is under way uses it up.
    AtMost,
    /// The path of a device.
    Device,
    /// Not at all.
    Nothing,
}

/// Every attribute; what the kernel has where it is not written, of those that change on a
/// device in use; and how it shows what it is.
const ATTRIBUTES: [(&str, Option<&str>, Shows); 11] = [
    (CODEC, None, Shows::Chosen),
    (RECOMPRESSION, None, Shows::ChosenOfPriority),
    (PARAMETERS, None, Shows::Nothing),
    ("backing_dev", None, Shows::Device),
    ("compressed_writeback", None, Shows::Same),
    (SIZE, None, Shows::Same),
    (LIMIT, Some("0"), Shows::Limit),
    ("writeback_limit", Some("0"), Shows::AtMost),
    ("writeback_limit_enable", Some("0"), Shows::Same),
    ("meld_mode", Some("off"), Shows::Chosen),
    ("check_writes", Some("auto"), Shows::Chosen),
];

pub(crate) const CODEC: &str = "comp_algorithm";
pub(crate) const PARAMETERS: &str = "algorithm_params";
pub(crate) const SIZE: &str = "disksize";
pub(crate) const LIMIT: &str = "mem_limit";
const RECOMPRESSION: &str = "recomp_algorithm";

/// Attributes that not every kernel's zram has: the tier's key, where it is one key that sets it,
/// since when they are there, and what the kernel is built with for them.
const LATE: [(&str, &str, KernelVersion, &str); 4] = [
    (
        "backing_dev",
        "writeback",
        KernelVersion::new(4, 14),
        "CONFIG_ZRAM_WRITEBACK",
    ),
    (
        RECOMPRESSION,
        "recompress",
        KernelVersion::new(6, 2),
        "CONFIG_ZRAM_MULTI_COMP",
    ),
    (PARAMETERS, "codec", KernelVersion::new(6, 12), ""),
    (
        "compressed_writeback",
        "writeback.compressed",
        KernelVersion::new(7, 1),
        "CONFIG_ZRAM_WRITEBACK",
    ),
];

/// Recorded where the kernel has no such codec: it keeps its own.
const LACKS: &str = "lacks";
/// Recorded where it has a codec that comes before this one.
const UNNEEDED: &str = "unneeded";

impl SetAttribute {
    /// An attribute with its value.
    pub fn new(attribute: &str, value: impl ToString) -> SetAttribute {
        SetAttribute {
            attribute: attribute.to_owned(),
            value: value.to_string(),
            with: None,
        }
    }

    /// A codec that pages may be compressed with again, and its place among those, from 1.
    pub fn recompression(codec: &str, priority: u8) -> SetAttribute {
        SetAttribute::new(RECOMPRESSION, format!("algo={codec} priority={priority}"))
    }

    /// The step that sets the backing device.
    pub fn backing(device: DeviceRef) -> SetAttribute {
        SetAttribute {
            with: Some(device),
            ..SetAttribute::new("backing_dev", "")
        }
    }

    fn known(&self) -> (Option<&'static str>, Shows) {
        let mut all = ATTRIBUTES.iter();
        let known = all.find(|it| it.0 == self.attribute);
        known.map_or((None, Shows::Same), |it| (it.1, it.2))
    }

    /// The codec that it names, and the priority of that: 0 for the first one.
    fn codec(&self) -> Option<(&str, &str)> {
        match self.attribute.as_str() {
            CODEC => Some((&self.value, "0")),
            RECOMPRESSION => self.value.strip_prefix("algo=")?.split_once(" priority="),
            _ => None,
        }
    }

    /// The setting that it is about: of two for the same one, the later replaces the earlier.
    pub(crate) fn sets(&self) -> String {
        let of = match (self.attribute.as_str(), self.codec()) {
            (RECOMPRESSION, Some((_, priority))) => priority,
            // `priority=1 level=3`
            (PARAMETERS, _) => self.value.split_whitespace().next().unwrap_or_default(),
            _ => "",
        };
        format!("{} {of}", self.attribute)
    }

    /// The reason recorded for the codec whose parameters these are, where it is not set.
    fn why_not_set(&self, context: &StepContext<'_>) -> Option<String> {
        if self.attribute != PARAMETERS {
            return None;
        }
        let is_mine = |step: &Step| match step {
            Step::SetAttribute(set) => set.codec().is_some_and(|(_, priority)| {
                self.value.starts_with(&format!("priority={priority} "))
            }),
            _ => false,
        };
        let mut records = context.ours().rev();
        let codec = records.find(|it| is_mine(&it.step));
        codec.and_then(|it| it.before.clone())
    }

    /// The codecs that pages may be compressed with so far, each with what was found for it.
    fn codecs<'a>(context: &'a StepContext<'_>) -> Vec<(&'a str, Option<&'a str>)> {
        let codecs = context.ours().filter_map(|it| match &it.step {
            Step::SetAttribute(set) if set.attribute == CODEC => {
                Some((set.value.as_str(), it.before.as_deref()))
            }
            _ => None,
        });
        codecs.collect()
    }

    /// Says what is used instead of codecs that the kernel lacks. Which one pages are
    /// compressed with is settled by the device's size.
    fn tell_lacking(&self, context: &mut StepContext<'_>, path: &str) -> Result<(), Error> {
        let (codec, instead) = match (self.attribute.as_str(), self.codec()) {
            (SIZE, _) => {
                let codecs = Self::codecs(context);
                if codecs.is_empty() || !codecs.iter().all(|it| it.1 == Some(LACKS)) {
                    return Ok(());
                }
                let text = context.host.read(path.replace(SIZE, CODEC))?;
                let own = chosen(&text).unwrap_or("its own");
                let names: Vec<_> = codecs.into_iter().map(|(name, _)| name).collect();
                let instead = format!("pages are compressed with {own}");
                (names.join(", no "), instead)
            }
            (RECOMPRESSION, Some((codec, _))) => {
                let instead = "none are compressed again with it";
                (codec.to_owned(), instead.to_owned())
            }
            _ => return Ok(()),
        };
        let group = context.group;
        let text = format!("{group}: the kernel has no codec {codec}: {instead}");
        context.tell(Event::Note { text: &text });
        Ok(())
    }

    /// Whether the kernel changes it on a device in use.
    pub(crate) fn is_live(&self) -> bool {
        self.known().0.is_some()
    }

    /// The step, for people: sizes are not shown as bytes.
    pub(crate) fn words(&self) -> String {
        match (self.attribute.as_str(), self.value.parse()) {
            (SIZE | LIMIT, Ok(size)) => format!("set its {} to {}", self.attribute, bytes(size)),
            _ => self.describe(),
        }
    }

    /// Its value on a device now, for people, where the device shows it.
    pub fn in_effect(&self, host: &Host, device: &str) -> Option<String> {
        let now = self.now(host, &format!("/sys/block/{device}/{}", self.attribute));
        let now = now.ok().flatten()?;
        Some(match (self.attribute.as_str(), now.parse()) {
            (LIMIT, Ok(0)) => "none".to_owned(),
            (SIZE | LIMIT, Ok(size)) => bytes(size),
            _ if now.is_empty() => "none".to_owned(),
            _ => short(&now),
        })
    }

    fn not_offered(&self, group: &str) -> Error {
        let late = LATE.iter().find(|it| it.0 == self.attribute);
        Error::NoAttribute {
            group: group.to_owned(),
            attribute: self.attribute.clone(),
            key: match self.attribute == PARAMETERS && !self.value.starts_with("priority=0") {
                true => "recompress",
                false => late.map_or("", |it| it.1),
            },
        }
    }

    /// Foresees the answer of [`Reversible::before`] for a device that is not there yet, as far
    /// as another one, or the kernel's release and how it was built, show it.
    pub(crate) fn offered_by(
        &self,
        driver: RamDriver,
        machine: &Machine,
        host: &Host,
        group: &str,
    ) -> Result<(), Error> {
        let mut late = LATE.iter();
        let Some((name, _, since, option)) = late.find(|it| it.0 == self.attribute) else {
            return Ok(());
        };
        let there = &machine.feature(driver).attributes;
        let is_offered = if !there.is_empty() {
            there.iter().any(|it| it == name)
        } else if driver == RamDriver::Zram {
            let built = release::configuration(host, &machine.kernel).unwrap_or_default();
            let without = format!("# {option} is not set");
            let is_without = !option.is_empty() && built.lines().any(|line| line == without);
            let version = KernelVersion::parse(&machine.kernel);
            !is_without && version.is_none_or(|it| it >= *since)
        } else {
            true
        };
        match is_offered {
            true => Ok(()),
            false => Err(self.not_offered(group)),
        }
    }

    fn path(&self, context: &StepContext<'_>) -> Result<String, Error> {
        match context.added()? {
            Some(name) => Ok(format!("/sys/block/{name}/{}", self.attribute)),
            None => Err(context.no_device()),
        }
    }

    /// Its value as it would be written; none where the device does not show it.
    fn now(&self, host: &Host, path: &str) -> Result<Option<String>, Error> {
        let shows = self.known().1;
        if shows == Shows::Nothing {
            return Ok(None);
        }
        let text = match shows {
            Shows::Limit => host.read(path.replace(LIMIT, "mm_stat"))?,
            _ => host.read(path)?,
        };
        Ok(match (shows, self.codec()) {
            (Shows::Limit, _) => MmStat::parse(&text).map(|stat| stat.limit_bytes.to_string()),
            (Shows::Chosen, _) => Some(chosen(&text).unwrap_or(&text).to_owned()),
            (Shows::ChosenOfPriority, Some((_, priority))) => {
                let mut all = recompression(&text);
                let chosen = priority.parse().ok().and_then(|it| all.remove(&it));
                Some(chosen.unwrap_or_default())
            }
            _ => Some(text),
        })
    }

    /// Says what the kernel does take, which by itself says no more than "Invalid argument".
    fn explained(&self, host: &Host, path: &str, value: &str, err: Error) -> Error {
        if err.refused_with() != Some(ErrorKind::InvalidInput) {
            return err;
        }
        let takes = match (self.attribute.as_str(), host.read(path)) {
            (SIZE | PARAMETERS, _) => {
                "a codec does not take the level or the dictionary that it is \
                                       given: give another, or none"
                    .to_owned()
            }
            ("backing_dev", _) => "it takes a drive or a partition that nothing uses".to_owned(),
            (_, Ok(text)) => format!("this kernel has {}", short(&choices(&text).join(", "))),
            (_, Err(_)) => "this kernel does not take it: leave it out".to_owned(),
        };
        Error::malformed(
            path,
            format!("refuses \"{}\" (EINVAL): {takes}", short(value)),
        )
    }

    /// Its value where that is not the written one.
    fn differs(&self, context: &StepContext<'_>, path: &str) -> Result<Option<String>, Error> {
        let host = context.host;
        let Some(now) = self.now(host, path)? else {
            return Ok(None);
        };
        let is_same = match (&self.with, self.codec()) {
            (Some(device), _) => {
                host.resolved(now.as_ref()) == host.resolved(&context.path(device)?)
            }
            (None, Some((codec, _))) => now == codec,
            _ if self.known().1 == Shows::AtMost => {
                matches!((now.parse::<u64>(), self.value.parse()), (Ok(left), Ok(most)) if left <= most)
            }
            _ => now == self.value,
        };
        Ok((!is_same).then_some(now))
    }
}

impl Reversible for SetAttribute {
    fn describe(&self) -> String {
        let device = self.with.as_ref().map(DeviceRef::name);
        let value = device.unwrap_or_else(|| self.value.clone());
        format!("set its {} to {value}", self.attribute)
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        let path = self.path(context)?;
        if !context.host.exists(&path) {
            return Err(self.not_offered(context.group));
        }
        // A drive below a random-key mapping was checked when that was opened.
        if let Some(DeviceRef::Path(drive)) = &self.with {
            refuse_to_lose(context.host, drive)?;
        }
        let Some((codec, _)) = self.codec() else {
            return Ok((self.why_not_set(context), None));
        };
        // One before it was set.
        if self.attribute == CODEC && Self::codecs(context).iter().any(|it| it.1.is_none()) {
            return Ok((Some(UNNEEDED.to_owned()), None));
        }
        // Which codecs there are to compress with again is not shown before one is chosen.
        let text = context.host.read(path.replace(RECOMPRESSION, CODEC))?;
        let there = choices(&text);
        let is_there = there.iter().any(|it| it == codec);
        let device = context.added()?.unwrap_or_default();
        if is_there || takes_unlisted(context.host, Some(&device), codec)? {
            return Ok((None, None));
        }
        match context.only_named {
            false => Ok((Some(LACKS.to_owned()), None)),
            true => Err(Error::NoCodec {
                codec: codec.to_owned(),
                there: short(&there.join(", ")),
            }),
        }
    }

    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let path = self.path(context)?;
        match record.before.as_deref() {
            Some(LACKS) => return self.tell_lacking(context, &path),
            Some(_) => return Ok(()),
            None if self.attribute == SIZE => self.tell_lacking(context, &path)?,
            None => {}
        }
        let value = match &self.with {
            Some(device) => {
                let drive = pin::same_device(context, device, record)?;
                if let DeviceRef::Path(_) = device {
                    refuse_to_lose(context.host, &drive)?;
                }
                drive.display().to_string()
            }
            None => self.value.clone(),
        };
        while_busy(|| context.host.write(&path, &value))
            .map_err(|err| self.explained(context.host, &path, &value, err))?;
        // The kernel rounds, refuses in silence, or drops parameters it does not
        // know: only what is read back counts.
        match self.differs(context, &path)? {
            Some(now) => Err(Error::malformed(
                &path,
                format!("says \"{}\" after \"{value}\" was written", short(&now)),
            )),
            None => Ok(()),
        }
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        if !record.done || context.added()?.is_none() {
            return Ok(false);
        }
        // A value that is used up or cannot be read is taken to hold; and so is one that the kernel
        // lacks, which another run would not find either.
        if record.before.is_some() || matches!(self.known().1, Shows::AtMost | Shows::Nothing) {
            return Ok(true);
        }
        let path = self.path(context)?;
        Ok(self.differs(context, &path)?.is_none())
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        // Behind a mapping with a random key nothing stood.
        if let Some(drive @ DeviceRef::Path(_)) = &self.with {
            context.remains(written_over(drive, record));
        }
        match self.known().0 {
            Some(value) if context.is_in_use()? => {
                let path = self.path(context)?;
                while_busy(|| context.host.write(&path, value))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_has_attributes_as_they_are_written() {
        for (set, text) in [
            (
                SetAttribute::recompression("zstd", 1),
                r#"{"attribute":"recomp_algorithm","value":"algo=zstd priority=1"}"#,
            ),
            (
                SetAttribute::backing(DeviceRef::Mapped("zmeld-a".to_owned())),
                r#"{"attribute":"backing_dev","value":"","with":{"mapped":"zmeld-a"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&set).unwrap(), text);
            assert_eq!(serde_json::from_str::<SetAttribute>(text).unwrap(), set);
        }
    }
}
