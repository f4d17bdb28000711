//! What a step is given, and what each can do: look, apply, hold, undo.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::setup::error::Error;
use crate::setup::event::{Event, Listener};
use crate::setup::identity::{Identity, PathMatch};
use crate::setup::step::{DeviceRef, MadeDevice, Record, Step};
use zmeld_linux::Host;

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
        let part = self.group;
        self.records.iter().filter(move |it| it.group == part)
    }

    /// The name of the device that this part added, `zram1`; none where it is gone,
    /// and another has its name perhaps.
    pub(crate) fn added(&self) -> Result<Option<String>, Error> {
        added(self.host, self.records, self.group)
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
            crate::run_folder::STATE,
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

/// The name of the device that a part added, if it is there and still the same.
pub(crate) fn added(host: &Host, records: &[Record], part: &str) -> Result<Option<String>, Error> {
    let mut ours = records.iter().rev().filter(|record| record.group == part);
    let device = ours.find_map(|record| match &record.step {
        Step::AddDevice(step) => Some(step.device(host, record)),
        _ => None,
    });
    device.unwrap_or(Ok(None))
}

/// The path of a device of a part's steps; none where it is not there, or not the
/// same any more.
pub(crate) fn path_of(
    host: &Host,
    records: &[Record],
    part: &str,
    device: &DeviceRef,
) -> Result<Option<PathBuf>, Error> {
    Ok(match device {
        DeviceRef::Added => added(host, records, part)?.map(|name| Path::new("/dev").join(name)),
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
