//! An attribute of the RAM device that the group added. It is not undone by
//! itself: it goes with the device. What a drive carried that it names is lost.

use serde::{Deserialize, Serialize};

use zmeld_report::units::bytes;

use super::{pin, refuse_to_lose, while_busy, written_over};
use crate::error::Error;
use crate::event::Event;
use crate::step::{DeviceRef, MadeDevice, Record, Reversible, Step, StepContext};
use zmeld_config::{CheckWrites, MeldMode, Named};
use zmeld_linux::compressed::{chosen, MmStat};
use zmeld_linux::text::short;
use zmeld_linux::Host;

/// What is set on the device. In the journal it is the attribute as it is written
/// (`WrittenAttribute`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenAttribute", into = "WrittenAttribute")]
pub enum SetAttribute {
    /// The codec that pages are compressed with.
    Codec(String),
    /// A codec that they may be compressed with again.
    Recompression {
        /// The codec.
        codec: String,
        /// Its place among those that are tried, from 1.
        priority: u8,
    },
    /// A codec's parameters, as [`Codec::parameters`](zmeld_config::Codec::parameters)
    /// has them.
    CodecParameters(String),
    /// Where pages go that are not worth RAM.
    BackingDevice(DeviceRef),
    /// They go there as they are compressed.
    CompressedWriteback,
    /// The device's size, bytes.
    Size(u64),
    /// How much memory it may take, bytes.
    MemoryLimit(u64),
    /// How much may be written to the backing device, in blocks of 4 KiB.
    WritebackLimit(u64),
    /// Whether that limit holds.
    LimitWriteback(bool),
    /// When identical pages are melded.
    Meld(MeldMode),
    /// Whether what is encoded is decoded and compared before it is used.
    CheckWrites(CheckWrites),
}

/// An attribute as it is written, and as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenAttribute {
    /// Its name below `/sys/block/DEVICE`.
    attribute: String,
    /// What is written; the path of `with` where that is given.
    value: String,
    /// A device that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with: Option<DeviceRef>,
}

impl From<SetAttribute> for WrittenAttribute {
    fn from(set: SetAttribute) -> WrittenAttribute {
        WrittenAttribute {
            attribute: set.name().to_owned(),
            value: set.text(),
            with: match set {
                SetAttribute::BackingDevice(device) => Some(device),
                _ => None,
            },
        }
    }
}

impl TryFrom<WrittenAttribute> for SetAttribute {
    type Error = String;

    fn try_from(written: WrittenAttribute) -> Result<SetAttribute, String> {
        let WrittenAttribute {
            attribute,
            value,
            with,
        } = written;
        let wrong = format!("no zmeld writes \"{value}\" to {attribute}");
        let number = value.parse();
        let set = match (attribute.as_str(), with) {
            ("backing_dev", Some(device)) => Some(SetAttribute::BackingDevice(device)),
            (_, Some(_)) => None,
            ("comp_algorithm", None) => Some(SetAttribute::Codec(value)),
            ("recomp_algorithm", None) => recompression(&value),
            ("algorithm_params", None) => Some(SetAttribute::CodecParameters(value)),
            ("compressed_writeback", None) => Some(SetAttribute::CompressedWriteback),
            ("disksize", None) => number.ok().map(SetAttribute::Size),
            ("mem_limit", None) => number.ok().map(SetAttribute::MemoryLimit),
            ("writeback_limit", None) => number.ok().map(SetAttribute::WritebackLimit),
            ("writeback_limit_enable", None) => Some(SetAttribute::LimitWriteback(value != "0")),
            ("meld_mode", None) => MeldMode::named(&value).ok().map(SetAttribute::Meld),
            ("check_writes", None) => CheckWrites::named(&value)
                .ok()
                .map(SetAttribute::CheckWrites),
            (_, None) => None,
        };
        set.ok_or(wrong)
    }
}

/// `algo=zstd priority=1`.
fn recompression(text: &str) -> Option<SetAttribute> {
    let (codec, priority) = text.strip_prefix("algo=")?.split_once(" priority=")?;
    Some(SetAttribute::Recompression {
        codec: codec.to_owned(),
        priority: priority.parse().ok()?,
    })
}

/// What was found where the kernel has no such codec: it keeps its own.
const LACKS: &str = "lacks";
/// What was found where it has a codec that comes before this one.
const UNNEEDED: &str = "unneeded";

impl SetAttribute {
    /// What was found for the codec whose parameters these are, where it is not set.
    fn why_not_set(&self, context: &StepContext<'_>) -> Option<String> {
        let SetAttribute::CodecParameters(parameters) = self else {
            return None;
        };
        let mine = |step: &Step| {
            let priority = match step {
                Step::SetAttribute(SetAttribute::Codec(_)) => 0,
                Step::SetAttribute(SetAttribute::Recompression { priority, .. }) => *priority,
                _ => return false,
            };
            parameters.starts_with(&format!("priority={priority} "))
        };
        let mut records = context.records.iter().rev();
        let codec = records.find(|it| it.group == context.group && mine(&it.step));
        codec.and_then(|it| it.before.clone())
    }

    /// Whether a codec before this one was set.
    fn is_unneeded(&self, context: &StepContext<'_>) -> bool {
        let is_set = |it: &Record| {
            let is_codec = matches!(it.step, Step::SetAttribute(SetAttribute::Codec(_)));
            it.group == context.group && is_codec && it.before.is_none()
        };
        matches!(self, SetAttribute::Codec(_)) && context.records.iter().any(is_set)
    }

    /// Says what is used instead of codecs that the kernel lacks. Which one pages are
    /// compressed with is settled by the device's size.
    fn tell_lacking(&self, context: &mut StepContext<'_>, path: &str) -> Result<(), Error> {
        let (codec, instead) = match self {
            SetAttribute::Size(_) => {
                let codecs = context.records.iter().filter_map(|it| match &it.step {
                    Step::SetAttribute(SetAttribute::Codec(codec)) if it.group == context.group => {
                        Some((codec.as_str(), it.before.as_deref() == Some(LACKS)))
                    }
                    _ => None,
                });
                let codecs: Vec<_> = codecs.collect();
                if codecs.is_empty() || !codecs.iter().all(|(_, lacks)| *lacks) {
                    return Ok(());
                }
                let text = context
                    .host
                    .read(path.replace("disksize", "comp_algorithm"))?;
                let own = chosen(&text).unwrap_or("its own").to_owned();
                let names: Vec<_> = codecs.into_iter().map(|(name, _)| name).collect();
                (
                    names.join(", no "),
                    format!("pages are compressed with {own}"),
                )
            }
            SetAttribute::Recompression { codec, .. } => (
                codec.clone(),
                "none are compressed again with it".to_owned(),
            ),
            _ => return Ok(()),
        };
        let text = format!(
            "{}: the kernel has no codec {codec}: {instead}",
            context.group
        );
        context.tell(Event::Note { text: &text });
        Ok(())
    }

    /// The attribute's name below `/sys/block/DEVICE`.
    pub fn name(&self) -> &'static str {
        match self {
            SetAttribute::Codec(_) => "comp_algorithm",
            SetAttribute::Recompression { .. } => "recomp_algorithm",
            SetAttribute::CodecParameters(_) => "algorithm_params",
            SetAttribute::BackingDevice(_) => "backing_dev",
            SetAttribute::CompressedWriteback => "compressed_writeback",
            SetAttribute::Size(_) => "disksize",
            SetAttribute::MemoryLimit(_) => "mem_limit",
            SetAttribute::WritebackLimit(_) => "writeback_limit",
            SetAttribute::LimitWriteback(_) => "writeback_limit_enable",
            SetAttribute::Meld(_) => "meld_mode",
            SetAttribute::CheckWrites(_) => "check_writes",
        }
    }

    /// What the kernel has where this is not written, of what it changes on a device in
    /// use; none of anything else.
    pub(crate) fn as_it_comes(&self) -> Option<SetAttribute> {
        match self {
            SetAttribute::MemoryLimit(_) => Some(SetAttribute::MemoryLimit(0)),
            SetAttribute::WritebackLimit(_) => Some(SetAttribute::WritebackLimit(0)),
            SetAttribute::LimitWriteback(_) => Some(SetAttribute::LimitWriteback(false)),
            SetAttribute::Meld(_) => Some(SetAttribute::Meld(MeldMode::Off)),
            SetAttribute::CheckWrites(_) => Some(SetAttribute::CheckWrites(CheckWrites::Auto)),
            _ => None,
        }
    }

    /// What is written; nothing for a device, whose path is not known yet.
    fn text(&self) -> String {
        match self {
            SetAttribute::Codec(codec) => codec.clone(),
            SetAttribute::Recompression { codec, priority } => {
                format!("algo={codec} priority={priority}")
            }
            SetAttribute::CodecParameters(parameters) => parameters.clone(),
            SetAttribute::BackingDevice(_) => String::new(),
            SetAttribute::CompressedWriteback => "1".to_owned(),
            SetAttribute::LimitWriteback(holds) => u8::from(*holds).to_string(),
            SetAttribute::Size(number)
            | SetAttribute::MemoryLimit(number)
            | SetAttribute::WritebackLimit(number) => number.to_string(),
            SetAttribute::Meld(mode) => mode.name().to_owned(),
            SetAttribute::CheckWrites(value) => value.name().to_owned(),
        }
    }

    /// What it does, for people: sizes are not read as bytes.
    pub(crate) fn words(&self) -> String {
        match self {
            SetAttribute::Size(size) | SetAttribute::MemoryLimit(size) => {
                format!("set its {} to {}", self.name(), bytes(*size))
            }
            _ => self.describe(),
        }
    }

    /// What it is on a device now, for people, where the device shows it.
    pub fn in_effect(&self, host: &Host, device: &str) -> Option<String> {
        let read = |name: &str| {
            let text = host.read_optional(format!("/sys/block/{device}/{name}"));
            text.ok().flatten()
        };
        let amount = |text: &str| text.parse().ok().map(bytes);
        match self {
            SetAttribute::Size(_) => amount(&read("disksize")?),
            SetAttribute::MemoryLimit(_) => match MmStat::parse(&read("mm_stat")?)?.limit_bytes {
                0 => Some("none".to_owned()),
                limit => Some(bytes(limit)),
            },
            SetAttribute::Codec(_) | SetAttribute::Meld(_) | SetAttribute::CheckWrites(_) => {
                chosen(&read(self.name())?).map(str::to_owned)
            }
            SetAttribute::Recompression { priority, .. } => {
                let text = read(self.name())?;
                let mine = |line: &&str| line.starts_with(&format!("#{priority}:"));
                let line = text.lines().find(mine).and_then(chosen);
                Some(line.unwrap_or("none").to_owned())
            }
            SetAttribute::BackingDevice(_) => read(self.name()).map(|text| short(&text)),
            _ => None,
        }
    }

    fn path(&self, context: &StepContext<'_>) -> Result<String, Error> {
        match context.added()? {
            Some(name) => Ok(format!("/sys/block/{name}/{}", self.name())),
            None => Err(context.no_device()),
        }
    }

    fn value(&self, context: &StepContext<'_>) -> Result<String, Error> {
        match self {
            SetAttribute::BackingDevice(device) => Ok(context.path(device)?.display().to_string()),
            set => Ok(set.text()),
        }
    }

    /// What reading the attribute back says: as wanted, otherwise, or nothing.
    fn seen(&self, context: &StepContext<'_>, path: &str) -> Result<Seen, Error> {
        let wanted = self.value(context)?;
        let read = match self {
            SetAttribute::CodecParameters(_) => None,
            SetAttribute::MemoryLimit(_) => {
                // Only to be written; `mm_stat` shows it.
                let stat = context.host.read(path.replace("mem_limit", "mm_stat"))?;
                MmStat::parse(&stat).map(|stat| stat.limit_bytes.to_string())
            }
            _ => Some(context.host.read(path)?),
        };
        let Some(read) = read else {
            return Ok(Seen::Nothing);
        };
        let same = match self {
            // `lzo [lz4] zstd`
            SetAttribute::Codec(_) | SetAttribute::Meld(_) | SetAttribute::CheckWrites(_) => {
                chosen(&read) == Some(wanted.as_str())
            }
            // `#1: lzo [zstd]`, a line for each priority.
            SetAttribute::Recompression { codec, priority } => read
                .lines()
                .filter_map(|line| line.strip_prefix(&format!("#{priority}:")))
                .any(|line| chosen(line) == Some(codec.as_str())),
            SetAttribute::BackingDevice(_) => {
                context.host.resolved(read.as_ref()) == context.host.resolved(wanted.as_ref())
            }
            // Writeback that is under way uses it up.
            SetAttribute::WritebackLimit(limit) => {
                read.parse().is_ok_and(|left: u64| left <= *limit)
            }
            _ => read == wanted,
        };
        Ok(match same {
            true => Seen::Wanted,
            false => Seen::Other(read),
        })
    }
}

/// What an attribute says of itself.
enum Seen {
    Wanted,
    Other(String),
    Nothing,
}

/// The codecs that an attribute offers, without brackets.
fn offered(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .filter(|word| !word.starts_with('#'))
        .map(|word| word.trim_matches(['[', ']']))
        .collect()
}

impl Reversible for SetAttribute {
    fn describe(&self) -> String {
        let value = match self {
            SetAttribute::BackingDevice(device) => device.name(),
            set => set.text(),
        };
        format!("set its {} to {value}", self.name())
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Option<String>, Error> {
        let path = self.path(context)?;
        if !context.host.exists(&path) {
            return Err(Error::KernelFeature {
                what: format!("{} sets {}", context.group, self.name()),
                way_out: "leave it out of the configuration, or boot a kernel that was built \
                          with it"
                    .to_owned(),
            });
        }
        // What is behind a mapping with a random key was looked at when it was opened.
        if let SetAttribute::BackingDevice(DeviceRef::Path(drive)) = self {
            refuse_to_lose(context.host, drive)?;
        }
        let codec = match self {
            SetAttribute::Codec(codec) | SetAttribute::Recompression { codec, .. } => Some(codec),
            _ => None,
        };
        if self.is_unneeded(context) {
            return Ok(Some(UNNEEDED.to_owned()));
        }
        if let Some(codec) = codec {
            let text = context.host.read(&path)?;
            let mut there = offered(&text);
            there.dedup();
            // The crypto interface of older kernels finds more than it lists.
            if !there.is_empty() && !there.contains(&codec.as_str()) {
                if !context.only_named {
                    return Ok(Some(LACKS.to_owned()));
                }
                return Err(Error::NoCodec {
                    codec: codec.clone(),
                    there: short(&there.join(", ")),
                });
            }
        }
        Ok(self.why_not_set(context))
    }

    fn apply(
        &self,
        context: &mut StepContext<'_>,
        record: &Record,
    ) -> Result<Option<MadeDevice>, Error> {
        let path = self.path(context)?;
        match record.before.as_deref() {
            None => {}
            Some(LACKS) => {
                self.tell_lacking(context, &path)?;
                return Ok(None);
            }
            Some(_) => return Ok(None),
        }
        if let SetAttribute::Size(_) = self {
            self.tell_lacking(context, &path)?;
        }
        let value = match self {
            SetAttribute::BackingDevice(device) => {
                let drive = pin::same_device(context, device, record)?;
                if let DeviceRef::Path(_) = device {
                    refuse_to_lose(context.host, &drive)?;
                }
                drive.display().to_string()
            }
            set => set.text(),
        };
        while_busy(|| context.host.write(&path, &value))?;
        // The kernel rounds, refuses in silence, or drops parameters it does not
        // know: only what is read back counts.
        if let Seen::Other(read) = self.seen(context, &path)? {
            return Err(Error::malformed(
                &path,
                format!("says \"{}\" after \"{value}\" was written", short(&read)),
            ));
        }
        Ok(None)
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        if context.added()?.is_none() {
            return Ok(false);
        }
        let path = self.path(context)?;
        // What is used up as it works, or cannot be read, is taken to hold; and so is what
        // the kernel lacks, which another run would not find either.
        let is_lacking = record.before.is_some();
        let is_unseen = matches!(
            self,
            SetAttribute::WritebackLimit(_) | SetAttribute::CodecParameters(_)
        );
        if is_lacking || is_unseen {
            return Ok(record.done);
        }
        Ok(record.done && !matches!(self.seen(context, &path)?, Seen::Other(_)))
    }

    fn undo(&self, _: &mut StepContext<'_>, _: &Record) -> Result<(), Error> {
        Ok(())
    }

    fn left(&self, _: &Host, record: &Record) -> Result<Option<String>, Error> {
        // Behind a mapping with a random key nothing stood.
        Ok(match self {
            SetAttribute::BackingDevice(drive @ DeviceRef::Path(_)) => written_over(drive, record),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_has_attributes_as_they_are_written() {
        let all = [
            SetAttribute::Codec("lz4".to_owned()),
            SetAttribute::Recompression {
                codec: "zstd".to_owned(),
                priority: 2,
            },
            SetAttribute::CodecParameters("priority=0 level=3".to_owned()),
            SetAttribute::BackingDevice(DeviceRef::Mapped("zmeld-a".to_owned())),
            SetAttribute::CompressedWriteback,
            SetAttribute::Size(1 << 30),
            SetAttribute::MemoryLimit(1 << 29),
            SetAttribute::WritebackLimit(256),
            SetAttribute::LimitWriteback(true),
            SetAttribute::Meld(MeldMode::Auto),
            SetAttribute::CheckWrites(CheckWrites::On),
        ];
        for set in all {
            let text = serde_json::to_string(&set).unwrap();
            let again: SetAttribute = serde_json::from_str(&text).unwrap();
            assert_eq!(again, set, "{text}");
        }
        // What a version before wrote.
        let text = r#"{"attribute":"recomp_algorithm","value":"algo=zstd priority=1"}"#;
        let set: SetAttribute = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&set).unwrap(), text);
        for wrong in [
            r#"{"attribute":"recomp_algorithm","value":"zstd"}"#,
            r#"{"attribute":"disksize","value":"-1"}"#,
            r#"{"attribute":"reset","value":"1"}"#,
        ] {
            let err = serde_json::from_str::<SetAttribute>(wrong).unwrap_err();
            assert!(err.to_string().contains("no zmeld writes"), "{err}");
        }
    }

    #[test]
    fn the_choice_is_what_stands_in_brackets() {
        assert_eq!(offered("#1: lzo [zstd]"), ["lzo", "zstd"]);
    }
}
