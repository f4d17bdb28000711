//! A step: one change to the machine that can be checked, applied, verified and
//! undone, and that is written down before it is made.
//!
//! Rules that make a killed run harmless:
//! 1. Before a step is applied, what has to be known to undo it is on disk
//!    ([`Record::before`]).
//! 2. Undoing tolerates a step that was not applied at all, half, or twice.
//! 3. Undoing touches only what the step made: a device that was replaced or a
//!    value that somebody else changed since stays as it is, and so does whatever
//!    has the name by now of what it made ([`Record::identity`]).

use std::mem::discriminant;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::setup::identity::Identity;
use zmeld_config::{Cipher, Discard, RamDriver};

/// A device that a step works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRef {
    /// One that was there before, or a file.
    Path(PathBuf),
    /// The RAM device that this part added.
    Added,
    /// The encrypted mapping of that name.
    Mapped(String),
}

/// One change to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Step {
    LoadModule(LoadModule),
    AddDevice(AddDevice),
    SetAttribute(SetAttribute),
    CreateFile(CreateFile),
    FormatLuks(FormatLuks),
    OpenCrypt(OpenCrypt),
    MakeSwap(MakeSwap),
    SwapOn(SwapOn),
    SetValue(SetValue),
    SwapOff(SwapOff),
}

/// Load a driver's module, which makes no device by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadModule {
    /// Which driver's.
    #[serde(rename = "module")]
    pub driver: RamDriver,
}

/// Make a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddDevice {
    /// Of which driver.
    pub driver: RamDriver,
}

/// An attribute as it is written, and as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttribute {
    /// Its name below `/sys/block/DEVICE`.
    pub attribute: String,
    /// The value to write; empty where the path of `with` is written.
    pub value: String,
    /// A device that is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<DeviceRef>,
}

/// Create a swap file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateFile {
    /// Where.
    pub path: PathBuf,
    /// How large, in bytes.
    pub size_bytes: u64,
}

/// Make a LUKS2 volume, unless there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatLuks {
    pub device: DeviceRef,
    pub key_file: PathBuf,
    pub cipher: Cipher,
}

/// How a mapping encrypts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// As the volume's header says.
    Luks { key_file: PathBuf },
    /// Plain, with a random key.
    Random { cipher: Cipher },
}

/// Open a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCrypt {
    /// Its name below `/dev/mapper`.
    pub name: String,
    /// The device below it.
    pub device: DeviceRef,
    /// How.
    pub mode: Mode,
    /// Whether freed pages are told to the drive, which shows where they were.
    pub allow_discards: bool,
}

/// Write a swap header, unless there is one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeSwap {
    /// Where.
    pub device: DeviceRef,
    /// Its label.
    pub label: String,
}

/// Switch a swap area on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapOn {
    /// Which.
    pub device: DeviceRef,
    /// The higher first; below 0 the kernel chooses.
    pub priority: i16,
    /// Which freed pages the device is told of.
    pub discard: Discard,
}

/// Set a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetValue {
    /// The file.
    pub path: String,
    /// The new value.
    pub value: String,
}

/// Switch off somebody else's swap area. The earlier state is its priority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwapOff {
    /// Which.
    pub path: PathBuf,
    /// Which freed pages it is told of when it is switched on again.
    #[serde(default)]
    pub discard: Discard,
}

/// A step as it was begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The part of the plan that it belongs to.
    pub group: String,
    /// The step.
    pub step: Step,
    /// Whether it was seen to be applied; if not, it may be, in part.
    pub done: bool,
    /// The earlier state, as the step needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The device that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<MadeDevice>,
    /// Which thing it is about: what it works on, or what it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The run that began it.
    pub run: u64,
}

impl Record {
    /// Whether taking it back does no more than to end what is on, and is known to be the same.
    pub(crate) fn only_ends(&self) -> bool {
        let is_end = matches!(
            self.step,
            Step::SwapOn(_) | Step::OpenCrypt(_) | Step::AddDevice(_)
        );
        let is_known = |made: &MadeDevice| made.sequence.is_some();
        is_end && (self.identity.is_some() || self.outcome.as_ref().is_some_and(is_known))
    }

    /// Whether it changed something: a value that was as wanted before is written down,
    /// so that all of a plan is, and was not set.
    pub fn is_change(&self) -> bool {
        match &self.step {
            Step::SetValue(set) => self.before.as_ref() != Some(&set.value),
            // A codec that the kernel lacks was not set.
            Step::SetAttribute(_) => self.before.is_none(),
            _ => true,
        }
    }
}

/// A RAM device that a step made. In the journal: `zram1 42`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct MadeDevice {
    /// Its name: `zram1`.
    pub name: String,
    /// The number that no other disk has had since boot (from Linux 5.15); none
    /// before.
    pub sequence: Option<String>,
}

impl From<String> for MadeDevice {
    fn from(text: String) -> MadeDevice {
        let (name, sequence) = match text.split_once(' ') {
            Some((name, sequence)) => (name.to_owned(), Some(sequence.to_owned())),
            None => (text, None),
        };
        MadeDevice { name, sequence }
    }
}

impl From<MadeDevice> for String {
    fn from(device: MadeDevice) -> String {
        match device.sequence {
            Some(sequence) => format!("{} {sequence}", device.name),
            None => device.name,
        }
    }
}

impl Step {
    /// The change in a few words: exact, as it is recorded and as JSON has it.
    pub fn describe(&self) -> String {
        self.reversible().describe()
    }

    /// [`Self::describe`] for people: "23.5 GiB" in place of bytes.
    pub fn words(&self) -> String {
        match self {
            Step::SetAttribute(step) => step.words(),
            Step::SetValue(step) => step.words(),
            step => step.describe(),
        }
    }

    /// The drive or file that it works on, or makes.
    pub(crate) fn place(&self) -> Option<&Path> {
        let device = match self {
            Step::CreateFile(step) => return Some(&step.path),
            Step::FormatLuks(step) => &step.device,
            Step::OpenCrypt(step) => &step.device,
            Step::MakeSwap(step) => &step.device,
            Step::SwapOn(step) => &step.device,
            Step::SetAttribute(step) => step.with.as_ref()?,
            _ => return None,
        };
        match device {
            DeviceRef::Path(path) => Some(path),
            _ => None,
        }
    }

    /// Whether it is changed alone, while what its part made is in use.
    pub fn is_live(&self) -> bool {
        match self {
            Step::SetValue(_) => true,
            Step::SetAttribute(set) => set.is_live(),
            _ => false,
        }
    }

    /// Whether pages go to its tier from then on.
    pub(crate) fn switches_on(&self) -> bool {
        match self {
            Step::SwapOn(_) => true,
            Step::SetValue(set) => set.path.ends_with("zswap/parameters/enabled"),
            _ => false,
        }
    }

    /// Whether it replaces another one of its part: both are about the same.
    pub fn replaces(&self, other: &Step) -> bool {
        match (self, other) {
            (Step::SetValue(one), Step::SetValue(other)) => one.path == other.path,
            (Step::SetAttribute(one), Step::SetAttribute(other)) => one.sets() == other.sets(),
            (Step::SwapOff(one), Step::SwapOff(other)) => one.path == other.path,
            (one, other) => discriminant(one) == discriminant(other),
        }
    }
}

impl DeviceRef {
    /// Its path, where that does not hang on what was added.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        match self {
            DeviceRef::Path(path) => Some(path.clone()),
            DeviceRef::Mapped(name) => Some(Path::new("/dev/mapper").join(name)),
            DeviceRef::Added => None,
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            DeviceRef::Path(path) => path.display().to_string(),
            DeviceRef::Added => "the new device".to_owned(),
            DeviceRef::Mapped(name) => format!("/dev/mapper/{name}"),
        }
    }
}
