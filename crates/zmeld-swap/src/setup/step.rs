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
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::setup::error::Error;
use crate::setup::event::{Event, Listener};
use crate::setup::identity::Identity;
use crate::setup::steps::{
    areas, AddDevice, CreateFile, FormatLuks, LoadModule, MakeSwap, OpenCrypt, PathMatch,
    SetAttribute, SetValue, SwapOff, SwapOn,
};
use zmeld_linux::Host;

/// A device that a step works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceRef {
    /// One that was there before, or a file.
    Path(PathBuf),
    /// The RAM device that this group added.
    Added,
    /// The encrypted mapping of that name.
    Mapped(String),
}

/// One change to the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
#[allow(missing_docs)] // Each is told where it is defined.
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

/// The context of a step.
pub struct StepContext<'a> {
    /// The machine.
    pub host: &'a Host,
    /// Steps begun so far.
    pub records: &'a [Record],
    /// The part of the plan that the step belongs to.
    pub group: &'a str,
    /// The number of the run, as its records have it.
    pub run: u64,
    /// The listener for events.
    pub listener: &'a mut Listener<'a>,
    /// Set when the run is to stop; none while it goes back.
    pub stop: Option<&'a AtomicBool>,
    /// Whether areas are switched off even where that costs a program.
    pub force: bool,
    /// Whether what the kernel lacks is an error: an experiment compares what it names.
    pub only_named: bool,
    /// Writes down at once which thing a step made; none where nothing is applied.
    pub remember: Option<Remember<'a>>,
    /// The device that a step made, which later ones need.
    pub made: Option<MadeDevice>,
    /// Whether what a step is about was left as it is, being somebody else's by now.
    pub is_left: bool,
    /// Differences that remain after a step was taken back, in words.
    pub remains: Vec<String>,
}

/// Writes down which thing a step made.
pub type Remember<'a> = &'a mut dyn FnMut(Identity) -> Result<(), Error>;

impl<'a> StepContext<'a> {
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        (self.listener)(event);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::SeqCst))
    }

    pub(crate) fn ours(&self) -> impl DoubleEndedIterator<Item = &'a Record> {
        let group = self.group;
        self.records.iter().filter(move |it| it.group == group)
    }

    /// The name of the device that this group added, `zram1`; none where it is gone,
    /// and another has its name perhaps.
    pub(crate) fn added(&self) -> Result<Option<String>, Error> {
        added(self.host, self.records, self.group)
    }

    /// Whether the device that this group added is still swapped to by it.
    pub(crate) fn is_in_use(&self) -> Result<bool, Error> {
        let area = areas(self.host, self.records, self.ours()).next();
        Ok(area.transpose()?.is_some())
    }

    /// The path of a device; none where the step that makes it was not done, or
    /// what it made is gone.
    pub(crate) fn path_of(&self, device: &DeviceRef) -> Result<Option<PathBuf>, Error> {
        path_of(self.host, self.records, self.group, device)
    }

    /// [`StepContext::path_of`] where the device has to be there.
    pub(crate) fn path(&self, device: &DeviceRef) -> Result<PathBuf, Error> {
        self.path_of(device)?.ok_or_else(|| self.no_device())
    }

    pub(crate) fn no_device(&self) -> Error {
        Error::malformed(
            crate::observe::run_folder::STATE,
            format!(
                "does not say which device {} has, or that device is gone",
                self.group
            ),
        )
    }

    /// Writes down at once which thing the step made.
    pub(crate) fn remember(&mut self, identity: Identity) -> Result<(), Error> {
        match &mut self.remember {
            Some(remember) => remember(identity),
            None => Ok(()),
        }
    }

    /// Says what is not taken back since it is not what the step was about.
    pub(crate) fn tell_left(&mut self, path: &Path, why: &str) {
        self.leave(&left_as_it_is(path, why));
    }

    /// Whether what was found is there and the step's own; what is another's is left, and named.
    pub(crate) fn is_own(&mut self, path: &Path, found: &PathMatch) -> bool {
        if let PathMatch::Other(why) = found {
            self.tell_left(path, why);
        }
        matches!(found, PathMatch::Same)
    }

    /// Says of something that it is left, and why.
    pub(crate) fn leave(&mut self, text: &str) {
        self.is_left = true;
        self.tell(Event::Note { text });
        self.remains(text.to_owned());
    }

    /// Puts down what is not as it was before the step.
    pub(crate) fn remains(&mut self, text: impl Into<Option<String>>) {
        self.remains.extend(text.into());
    }
}

/// Message for something that is not what a step was about.
pub(crate) fn left_as_it_is(path: &Path, why: &str) -> String {
    format!("{} is left as it is: {why}", path.display())
}

/// The name of the device that a group added, if it is there and still the same.
pub(crate) fn added(host: &Host, records: &[Record], group: &str) -> Result<Option<String>, Error> {
    let mut ours = records.iter().rev().filter(|record| record.group == group);
    let device = ours.find_map(|record| match &record.step {
        Step::AddDevice(step) => Some(step.device(host, record)),
        _ => None,
    });
    device.unwrap_or(Ok(None))
}

/// The path of a device of a group's steps; none where it is not there, or not the
/// same any more.
pub(crate) fn path_of(
    host: &Host,
    records: &[Record],
    group: &str,
    device: &DeviceRef,
) -> Result<Option<PathBuf>, Error> {
    Ok(match device {
        DeviceRef::Added => added(host, records, group)?.map(|name| Path::new("/dev").join(name)),
        device => device.path(),
    })
}

/// The record before a change: what undoing needs, and the identity of the thing, as far as it is
/// known, so that a killed run takes nothing else.
pub(crate) type Before = (Option<String>, Option<Identity>);

/// A change that can be applied, looked at and taken back.
pub(crate) trait Reversible {
    /// The change in a few words that name the device.
    fn describe(&self) -> String;

    /// Looks before anything is changed: refuses what must not be done.
    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error>;

    /// Makes the change and sees that it was made.
    fn apply(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error>;

    /// Is the change, made in an earlier run, still in place?
    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error>;

    /// Takes the change back, and puts down what is not as it was before; nothing is left
    /// to do where it was not made.
    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error>;
}

impl Step {
    /// The change in a few words: exact, as it is recorded and as JSON has it.
    pub fn describe(&self) -> String {
        self.reversible().describe()
    }

    /// The same for people: "23.5 GiB" in place of bytes.
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

    /// Whether it is changed alone, while what its group made is in use.
    pub fn is_live(&self) -> bool {
        match self {
            Step::SetValue(_) => true,
            Step::SetAttribute(set) => set.is_live(),
            _ => false,
        }
    }

    /// Whether it replaces another one of its group: both are about the same.
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
