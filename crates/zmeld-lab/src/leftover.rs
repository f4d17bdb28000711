//! Leftovers of experiments that are over.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use zmeld_linux::Host;
use zmeld_swap::setup::journal::{Owner, State};

use crate::error::Error;
use crate::limit;
use crate::variant::{self, slow_disk, TakingBack};

/// Something that was left; it is told in words.
#[derive(Debug)]
pub(crate) enum Leftover {
    /// Control groups, with what runs in them.
    Groups(Vec<PathBuf>),
    /// Swap, set up in so many steps.
    Swap(usize),
    /// A loop device, and the folder of its file.
    Disk(PathBuf, PathBuf),
    /// The folder of a disk's file that no device stands on, as of a virtual machine.
    File(PathBuf),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = "of an experiment that was killed";
        match self {
            Leftover::Groups(all) => write!(f, "control groups {whose} ({})", all.len()),
            Leftover::Swap(steps) => write!(f, "swap {whose} ({steps} steps)"),
            Leftover::Disk(_, folder) | Leftover::File(folder) => {
                write!(f, "a disk {whose} ({})", folder.display())
            }
        }
    }
}

impl Leftover {
    /// Whether it would take part in swap that is set up now; the rest only takes up room.
    pub(crate) fn is_set_up(&self) -> bool {
        matches!(self, Leftover::Swap(_) | Leftover::Disk(..))
    }

    /// Takes it back. Leftovers other than swap that cannot be are found again by the next one.
    pub(crate) fn clear(&self, host: &Host, how: &mut TakingBack<'_>) -> Result<(), Error> {
        match self {
            Leftover::Groups(all) => {
                for group in all {
                    limit::remove(group);
                }
            }
            Leftover::Swap(_) => variant::take_back_swap(host, how)?,
            // It may have become another's since, or has to stay with its file.
            Leftover::Disk(device, _)
                if !slow_disk::left_devices().iter().any(|(it, _)| it == device)
                    || slow_disk::detach(device).is_err() => {}
            Leftover::Disk(_, folder) | Leftover::File(folder) => {
                drop(fs::remove_dir_all(folder));
            }
        }
        Ok(())
    }
}

/// All that was left, as far as no experiment runs: what one that does has would be in it. Groups
/// come first, so that no workload of one is in the way of its swap. Changes nothing.
pub(crate) fn leftovers(host: &Host) -> Result<Vec<Leftover>, Error> {
    // Without control groups, none is left.
    let groups = limit::hierarchy().map_or(Vec::new(), |it| limit::left(&it));
    let state = State::read_of(host, Owner::Experiment)?;
    let steps = state.map_or(0, |state| state.records.len());
    let mut left = Vec::new();
    left.extend((!groups.is_empty()).then_some(Leftover::Groups(groups)));
    left.extend((steps > 0).then_some(Leftover::Swap(steps)));
    let devices = slow_disk::left_devices();
    let mut files = slow_disk::left_files();
    files.retain(|folder| devices.iter().all(|(_, of_device)| of_device != folder));
    let disk = |(device, folder)| Leftover::Disk(device, folder);
    left.extend(devices.into_iter().map(disk));
    left.extend(files.into_iter().map(Leftover::File));
    Ok(left)
}
