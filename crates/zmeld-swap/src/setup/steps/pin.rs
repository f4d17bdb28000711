//! A swap file is pinned before root works on it: the kernel writes the memory of all
//! programs into it, so that nobody but root may name it, put another in its place or
//! read it.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use zmeld_linux::command::Invocation;
use zmeld_linux::root_owned::{self, Pinned};
use zmeld_linux::shell;
use zmeld_linux::{Host, HostError};

use crate::run_folder::{self, owner};
use crate::setup::context::StepContext;
use crate::setup::error::Error;
use crate::setup::identity::{Identity, PathMatch};
use crate::setup::step::{DeviceRef, Record, Step};

pub(super) fn thing(host: &Host, path: &Path, record: &Record) -> Result<PathMatch, Error> {
    let Some(now) = Identity::of(host, path)? else {
        return Ok(PathMatch::Gone);
    };
    // It is written down before a thing has its name, but for a mapping's.
    let Some(was) = &record.identity else {
        return Ok(PathMatch::Other("it was not made by zmeld"));
    };
    Ok(was.differs(&now).map_or(PathMatch::Same, PathMatch::Other))
}

/// Whether a path names a swap file; what is below `/dev` is the system's.
pub(super) fn is_file(path: &Path) -> bool {
    !path.starts_with("/dev")
}

/// A swap file's place, in folders that are root's alone to write.
pub(super) fn place(host: &Host, path: &Path) -> Result<Pinned, Error> {
    let pinned = Pinned::open(host.root(), &host.path(path), Some(owner(host)));
    pinned.map_err(|err| {
        foreign(host, err, |folder| {
            let below = path.strip_prefix(folder).unwrap_or(Path::new(""));
            match host.tree().link(folder) {
                Some(_) => format!(
                    "a link may lead elsewhere by the time that root writes there; name the file \
                     as {}",
                    host.resolved(folder).join(below).display()
                ),
                None => "whoever may write to a folder of its path can replace it; choose a place \
                     where \
                         root alone may write each folder from / down, such as /var/lib"
                    .to_owned(),
            }
        })
    })
}

/// Refuses a swap file that others may read, and one whose name others may give to
/// another file. It need not be there yet.
pub fn check_owner(host: &Host, path: &Path) -> Result<(), Error> {
    found(host, path).map(drop)
}

fn found(host: &Host, path: &Path) -> Result<(Pinned, Option<Metadata>), Error> {
    let pinned = place(host, path)?;
    let found = pinned.secret(owner(host)).map_err(|err| {
        foreign(host, err, |_| {
            "whoever may read it, or has it open, can read the memory of all programs; remove it, \
             and \
             with its size in the configuration zmeld makes one that is root's alone"
                .to_owned()
        })
    })?;
    Ok((pinned, found))
}

/// The swap file that is there, which nobody but root may read.
pub(super) fn file(host: &Host, path: &Path) -> Result<(Pinned, Metadata), Error> {
    match found(host, path)? {
        (pinned, Some(meta)) => Ok((pinned, meta)),
        _ => Err(Error::io("look at", path, std::io::ErrorKind::NotFound)),
    }
}

/// [`file()`], where it is the one that a step was begun with.
pub(super) fn same_file(host: &Host, path: &Path, record: &Record) -> Result<Pinned, Error> {
    let (pinned, meta) = file(host, path)?;
    match is_of(&meta, record) {
        true => Ok(pinned),
        false => Err(Error::place(
            path,
            "it is another file by now",
            "find out who replaces it",
        )),
    }
}

/// The file that a record is about, wherever it lies: to take back what was done to it.
/// None where another has its name by now.
pub(super) fn recorded(host: &Host, path: &Path, record: &Record) -> Result<Option<Pinned>, Error> {
    let pinned = anywhere(host, path)?;
    let Some(pinned) = pinned else {
        return Ok(None);
    };
    let meta = pinned
        .metadata()
        .map_err(|err| foreign(host, err, |_| String::new()))?;
    let is_it = meta.is_some_and(|meta| meta.is_file() && is_of(&meta, record));
    Ok(is_it.then_some(pinned))
}

/// A file by its path, whoever may write its folders; none where one of them is a link by now.
fn anywhere(host: &Host, path: &Path) -> Result<Option<Pinned>, Error> {
    let folder = host.resolved(path.parent().unwrap_or(Path::new("/")));
    let real = host.path(folder.join(path.file_name().unwrap_or_default()));
    match Pinned::open(host.root(), &real, None) {
        Ok(pinned) => Ok(Some(pinned)),
        Err(HostError::NotOurs { .. }) => Ok(None),
        Err(err) => Err(foreign(host, err, |_| String::new())),
    }
}

fn is_of(meta: &Metadata, record: &Record) -> bool {
    let known = record.identity.as_ref().and_then(|it| it.file.as_ref());
    known.is_none_or(|known| *known == Identity::file_of(meta))
}

/// Names a device to a command, or a file that stays the same while it runs.
pub(super) fn named(host: &Host, command: Invocation, path: &Path) -> Result<Invocation, Error> {
    let pinned = match is_file(path) {
        true => anywhere(host, path)?,
        false => None,
    };
    Ok(match pinned {
        Some(pinned) => given(command, &pinned),
        None => command.arg(host.path(path)),
    })
}

pub(super) fn given(command: Invocation, pinned: &Pinned) -> Invocation {
    match pinned.file() {
        Some(file) => command.object(pinned.path(), file),
        None => command.arg(pinned.path()),
    }
}

/// Refuses a key that others may read or exchange, or that a link leads to.
pub fn check_key_file(host: &Host, path: &Path) -> Result<(), Error> {
    let shown = shell::path(path);
    let said = |err| {
        foreign(host, err, |_| {
            format!(
                "whoever may read or replace it can read all that is swapped; name the \
                 file itself, in folders that root alone may write, such as /etc/zmeld, and chmod \
                 600 {shown}"
            )
        })
    };
    let pinned = Pinned::open(host.root(), &host.path(path), Some(owner(host))).map_err(said)?;
    match pinned.secret(owner(host)).map_err(said)? {
        Some(meta) if meta.is_file() && meta.len() > 0 => Ok(()),
        Some(_) => Err(Error::place(
            path,
            "it holds no key",
            format!("make one: dd if=/dev/urandom of={shown} bs=64 count=1"),
        )),
        None => Err(Error::io("read the key in", path, ErrorKind::NotFound)),
    }
}

/// A foreign file's error, with the way out.
fn foreign(host: &Host, err: HostError, way_out: impl FnOnce(&Path) -> String) -> Error {
    run_folder::foreign(host, err, way_out).into()
}

/// Refuses a dictionary that others may write, or exchange.
pub fn check_dictionary(host: &Host, path: &Path) -> Result<(), Error> {
    let way_out = "the kernel reads all of it into memory; name the file itself, root's alone to \
                   write, such as below /etc/zmeld";
    let said = |err| foreign(host, err, |_| way_out.to_owned());
    let absent = || {
        let way_out = "name one that is there, or leave it out";
        Error::place(path, "there is no such dictionary", way_out)
    };
    let folder = path.parent().map(|it| host.tree().metadata(it));
    match folder {
        Some(Ok(meta)) if !meta.is_dir() => return Err(absent()),
        Some(Err(err)) if err.kind() == std::io::ErrorKind::NotFound => return Err(absent()),
        _ => {}
    }
    let pinned = Pinned::open(host.root(), &host.path(path), Some(owner(host))).map_err(said)?;
    match pinned.metadata().map_err(said)? {
        Some(meta) if meta.is_symlink() => {
            Err(Error::place(path, "it is a symbolic link", way_out))
        }
        Some(meta) if !meta.is_file() => Err(Error::place(path, "it is no file", way_out)),
        Some(meta) => root_owned::check(path, &meta, owner(host)).map_err(said),
        None => Err(absent()),
    }
}

/// Refuses a device that is named in a folder which others may write, that others than the group
/// `disk` may open, or that is made of a file of theirs: a label, or a user's loop device, leads to any.
pub fn check_device(host: &Host, path: &Path) -> Result<(), Error> {
    place(host, path)?;
    let device = host.resolved(path);
    let Ok(meta) = host.tree().metadata(&device) else {
        return Ok(());
    };
    if meta.file_type().is_char_device() {
        let way_out = "name a drive or a partition (lsblk lists them)";
        return Err(Error::place(device, "it is no block device", way_out));
    }
    let way_out = "find out who opened it to others, and name a device that is root's alone";
    if meta.uid() != 0 && meta.uid() != owner(host) {
        let problem = format!("it belongs to another user (uid {})", meta.uid());
        return Err(Error::place(device, problem, way_out));
    }
    if meta.file_type().is_block_device() {
        let opened_to = root_owned::opened_to(&host.path(&device), &meta, &disk_groups(host)?);
        let other = opened_to.map_err(|err| Error::io("look at", &device, err))?;
        if let Some(other) = other {
            return Err(Error::place(
                device,
                format!("{other} may open it"),
                way_out,
            ));
        }
    }
    let name = device.file_name().unwrap_or_default();
    check_below(host, &Path::new("/sys/class/block").join(name), 0)
}

/// The group to which every distribution opens block devices: who is in it is as good as root.
fn disk_groups(host: &Host) -> Result<Vec<u32>, Error> {
    let text = host.read_optional("/etc/group")?.unwrap_or_default();
    let number = |line: &str| line.strip_prefix("disk:")?.split(':').nth(1)?.parse().ok();
    Ok(text.lines().filter_map(number).collect())
}

/// The device that a step works on, by the kernel's own name. It is held to what it was
/// when the step was begun, and when an earlier one of the part wrote to it.
pub(super) fn same_device(
    context: &StepContext<'_>,
    device: &DeviceRef,
    record: &Record,
) -> Result<PathBuf, Error> {
    let host = context.host;
    let path = own_name(host, &context.path(device)?);
    // The drive of an experiment is made of a file of its own, in a folder for all.
    if !context.only_named {
        check_device(host, &path)?;
    }
    let written = context.ours().filter(|it| match &it.step {
        Step::FormatLuks(format) => it.done && format.device == *device,
        Step::MakeSwap(make) => it.done && make.device == *device,
        _ => false,
    });
    let mut own = record.clone();
    if let (Step::FormatLuks(_) | Step::MakeSwap(_), Some(is)) = (&record.step, &mut own.identity) {
        // The header is not written yet.
        (is.swap, is.luks) = (None, None);
    }
    let mut known: Vec<&Record> = written.collect();
    known.push(&own);
    for record in known.into_iter().filter(|it| it.identity.is_some()) {
        if let PathMatch::Other(why) = thing(host, &path, record)? {
            return Err(Error::place(
                path,
                why,
                "find out what has its name, and try again",
            ));
        }
    }
    Ok(path)
}

/// A device by the kernel's own name: a label leads elsewhere as soon as a stick has it.
pub(super) fn own_name(host: &Host, path: &Path) -> PathBuf {
    match is_file(path) {
        true => path.to_path_buf(),
        false => host.resolved(path),
    }
}

/// Devices stand on each other no deeper than that.
const DEPTH_MAX: usize = 8;

/// Checks the layers below a device: a loop device's file has to meet the rules of a swap file,
/// however deep it is.
fn check_below(host: &Host, device: &Path, depth: usize) -> Result<(), Error> {
    // A partition has it above itself.
    for path in ["loop/backing_file", "../loop/backing_file"] {
        let Some(file) = host.read_optional(device.join(path))? else {
            continue;
        };
        let is_above = path.starts_with("..");
        let device = device.join(if is_above { ".." } else { "" });
        let file = Path::new(file.trim_end_matches('\n'));
        let is_gone = file.to_string_lossy().ends_with(" (deleted)") || !host.exists(file);
        if is_gone || !is_made_of(host, &device, file)? {
            return Err(Error::place(
                file,
                "a loop device uses it, and other programs may",
                "name the file itself, as file = \"PATH\", in a place of root's",
            ));
        }
        check_owner(host, file)?;
    }
    let below = host.list(device.join("slaves")).unwrap_or_default();
    for name in below.iter().filter(|_| depth < DEPTH_MAX) {
        check_below(host, &Path::new("/sys/class/block").join(name), depth + 1)?;
    }
    Ok(())
}

/// Whether a loop device is made of the file that has this path here. Its own says what the
/// path was where it was opened, which may be a mount namespace of a user's.
fn is_made_of(host: &Host, device: &Path, file: &Path) -> Result<bool, Error> {
    // Other users, and runs that only look, are not told: root asks again.
    if !host.is_root() {
        return Ok(true);
    }
    let device = host.resolved(device);
    let device = Path::new("/dev").join(device.file_name().unwrap_or_default());
    let meta = host.tree().metadata(file);
    let meta = meta.map_err(|err| Error::io("look at", file, err))?;
    match host.stands_on(&device, &meta).map_err(Error::from) {
        Err(err) if err.refused_with() == Some(ErrorKind::PermissionDenied) => Ok(true),
        said => said,
    }
}
