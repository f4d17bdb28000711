//! An attribute of the RAM device that the group added. It is not undone by
//! itself: it goes with the device. What a drive carried that it names is lost.

use serde::{Deserialize, Serialize};

use zmeld_report::units::bytes;

use super::{refuse_to_lose, while_busy, written_over};
use crate::error::Error;
use crate::step::{DeviceRef, MadeDevice, Record, Reversible, StepContext};
use zmeld_linux::text::short;
use zmeld_linux::Host;

/// Write an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttribute {
    /// Its name below `/sys/block/DEVICE`.
    pub attribute: String,
    /// What to write; `{}` stands for the path of `with`.
    pub value: String,
    /// A device that the value names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<DeviceRef>,
}

impl SetAttribute {
    /// An attribute with a value.
    pub fn new(attribute: &str, value: impl Into<String>) -> SetAttribute {
        SetAttribute {
            attribute: attribute.to_owned(),
            value: value.into(),
            with: None,
        }
    }

    /// What it does, for people: sizes are not read as bytes.
    pub(crate) fn words(&self) -> String {
        match (self.attribute.as_str(), self.value.parse()) {
            ("disksize" | "mem_limit", Ok(size)) => {
                format!("set its {} to {}", self.attribute, bytes(size))
            }
            _ => self.describe(),
        }
    }

    fn path(&self, context: &StepContext<'_>) -> Result<String, Error> {
        match context.added()? {
            Some(name) => Ok(format!("/sys/block/{name}/{}", self.attribute)),
            None => Err(context.no_device()),
        }
    }

    fn value(&self, context: &StepContext<'_>) -> Result<String, Error> {
        match &self.with {
            None => Ok(self.value.clone()),
            Some(device) => Ok(context.path(device)?.display().to_string()),
        }
    }

    /// What reading the attribute back says: as wanted, otherwise, or nothing.
    fn seen(&self, context: &StepContext<'_>, path: &str) -> Result<Seen, Error> {
        let wanted = self.value(context)?;
        let limit = self.attribute == "mem_limit";
        let read = if limit {
            // Only to be written; the fourth column of mm_stat shows it.
            let stat = path.replace("mem_limit", "mm_stat");
            context
                .host
                .read(stat)?
                .split_whitespace()
                .nth(3)
                .map(str::to_owned)
        } else {
            match self.attribute.as_str() {
                "algorithm_params" => None,
                _ => Some(context.host.read(path)?),
            }
        };
        let Some(read) = read else {
            return Ok(Seen::Nothing);
        };
        let same = match self.attribute.as_str() {
            // `lzo [lz4] zstd`
            "comp_algorithm" | "meld_mode" => chosen(&read) == Some(wanted.as_str()),
            // `#1: lzo [zstd]`, a line for each priority.
            "recomp_algorithm" => {
                let field = |name| {
                    let of = |pair: &'_ str| pair.strip_prefix(name).map(str::to_owned);
                    wanted.split(' ').find_map(of).unwrap_or_default()
                };
                let (algorithm, priority) = (field("algo="), field("priority="));
                read.lines()
                    .filter_map(|line| line.strip_prefix(&format!("#{priority}:")))
                    .any(|line| chosen(line) == Some(algorithm.as_str()))
            }
            "backing_dev" => {
                context.host.resolved(read.as_ref()) == context.host.resolved(wanted.as_ref())
            }
            _ => read == wanted,
        };
        Ok(if same {
            Seen::Wanted
        } else {
            Seen::Other(read)
        })
    }
}

/// What an attribute says of itself.
enum Seen {
    Wanted,
    Other(String),
    Nothing,
}

/// The word in brackets; the text itself where there are none.
fn chosen(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let bracketed = words.find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    bracketed.or_else(|| Some(text.trim()).filter(|text| !text.contains(char::is_whitespace)))
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
        let value = match &self.with {
            Some(device) => device.name(),
            None => self.value.clone(),
        };
        format!("set its {} to {value}", self.attribute)
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Option<String>, Error> {
        let path = self.path(context)?;
        if !context.host.exists(&path) {
            return Err(Error::KernelFeature {
                what: format!("{} sets {}", context.group, self.attribute),
                way_out: "leave it out of the configuration, or boot a kernel that was built \
                          with it"
                    .to_owned(),
            });
        }
        // What is behind a mapping with a random key was looked at when it was opened.
        if let Some(DeviceRef::Path(drive)) = &self.with {
            refuse_to_lose(context.host, drive)?;
        }
        let codec = match self.attribute.as_str() {
            "comp_algorithm" => Some(self.value.as_str()),
            "recomp_algorithm" => self.value.split(' ').find_map(|w| w.strip_prefix("algo=")),
            _ => None,
        };
        if let Some(codec) = codec {
            let text = context.host.read(&path)?;
            let mut there = offered(&text);
            there.dedup();
            // The crypto interface of older kernels finds more than it lists.
            if !there.is_empty() && !there.contains(&codec) && self.attribute == "comp_algorithm" {
                return Err(Error::NoCodec {
                    codec: codec.to_owned(),
                    there: short(&there.join(", ")),
                });
            }
        }
        Ok(None)
    }

    fn apply(
        &self,
        context: &mut StepContext<'_>,
        _: &Record,
    ) -> Result<Option<MadeDevice>, Error> {
        let path = self.path(context)?;
        let value = self.value(context)?;
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
        // What is used up as it works, or cannot be read, is taken to hold.
        if matches!(
            self.attribute.as_str(),
            "writeback_limit" | "algorithm_params"
        ) {
            return Ok(record.done);
        }
        Ok(record.done && !matches!(self.seen(context, &path)?, Seen::Other(_)))
    }

    fn undo(&self, _: &mut StepContext<'_>, _: &Record) -> Result<(), Error> {
        Ok(())
    }

    fn left(&self, _: &Host, record: &Record) -> Result<Option<String>, Error> {
        // Behind a mapping with a random key nothing stood.
        Ok(match &self.with {
            Some(drive @ DeviceRef::Path(_)) => written_over(drive, record),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_what_stands_in_brackets() {
        assert_eq!(chosen("lzo [lzo-rle] lz4"), Some("lzo-rle"));
        assert_eq!(chosen("off"), Some("off"));
        assert_eq!(chosen("lzo lz4"), None);
        assert_eq!(offered("#1: lzo [zstd]"), ["lzo", "zstd"]);
    }
}
