//! A swap file, with all of its blocks.
//!
//! It is made without a name, and given its own when it is written down which file it
//! is and all of its blocks are there: a run that was killed, and a machine that lost
//! its power, leave none that is in part there or whose owner is in doubt.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{fallocate, ioctl_getflags, ioctl_setflags, FallocateFlags, IFlags, StatFs};

use super::pin::{self, thing};
use crate::setup::context::{Before, Reversible, StepContext};
use crate::setup::error::Error;
use crate::setup::identity::{Identity, PathMatch};
use crate::setup::step::{CreateFile, Record};
use zmeld_linux::Host;
use zmeld_report::units::bytes;

/// `f_type` of file systems that matter here (`linux/magic.h`, and the file
/// systems that are not in it).
const BTRFS: i64 = 0x9123_683e;
const CANNOT_HOLD_SWAP: [(i64, &str); 9] = [
    (0x0102_1994, "tmpfs, which is itself memory"),
    (0x8584_58f6, "ramfs, which is itself memory"),
    (0x794c_7630, "overlayfs, which cannot hold a swap file"),
    (0x6969, "NFS, which this does not set up"),
    (0xff53_4d42, "CIFS, which cannot hold a swap file"),
    (0x2fc1_2fc1, "ZFS, which cannot hold a swap file"),
    (0x7371_7368, "squashfs, which cannot be written"),
    (0x6573_5546, "FUSE, which cannot hold a swap file"),
    (0xca45_1a4e, "bcachefs, which cannot hold a swap file"),
];

const WHERE: &str = "put the file on ext4, XFS or btrfs, or use a partition";

/// Refuses a place that is not root's alone, and one whose file system cannot hold a
/// swap file or has no room beside the files that are to be made, of which `taken` has the bytes by
/// file system, and from then on this one's, too.
pub fn check_place(
    host: &Host,
    path: &Path,
    size_bytes: u64,
    taken: &mut BTreeMap<u64, u64>,
) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let failed = |cause| Error::io("look at", folder, cause);
    let place = pin::place(host, path)?;
    let found = place.file_system().map_err(failed)?;
    let kind = kind(&found);
    if let Some((_, what)) = CANNOT_HOLD_SWAP.iter().find(|(magic, _)| *magic == kind) {
        return Err(Error::place(
            path,
            format!("{} is on {what}", folder.display()),
            WHERE,
        ));
    }
    let others = taken.entry(place.device().map_err(failed)?).or_default();
    #[allow(clippy::unnecessary_cast)]
    let (free, all) = (
        (found.f_bavail as u64, found.f_bsize as u64),
        (found.f_blocks as u64, found.f_frsize as u64),
    );
    take(path, size_bytes, free, all, others)
}

/// The kind of a file system, `f_type`.
#[allow(clippy::unnecessary_cast)] // other widths on other architectures
fn kind(found: &StatFs) -> i64 {
    (found.f_type as i64) & 0xffff_ffff
}

/// Takes of what a file system has free, beside what other files are to take of it. What is free
/// and all of it are blocks and their size.
fn take(
    path: &Path,
    size_bytes: u64,
    free: (u64, u64),
    all: (u64, u64),
    others: &mut u64,
) -> Result<(), Error> {
    let (free, all) = (free.0 * free.1, all.0 * all.1);
    let free = free.saturating_sub(*others);
    if free.saturating_sub(reserve(all)) < size_bytes {
        return Err(no_room(path, size_bytes, (free, *others), reserve(all)));
    }
    *others += size_bytes;
    Ok(())
}

/// Space left to others on a file system: without it nothing can be written any more, no log and no
/// configuration either.
const RESERVE_MAX: u64 = 1 << 30;
const RESERVE_PART: u64 = 20;

fn reserve(all_bytes: u64) -> u64 {
    RESERVE_MAX.min(all_bytes / RESERVE_PART)
}

/// Whether a swap file was made and nothing was written into it since, as where power
/// was lost before it had a header: what is written into it loses nothing.
pub(crate) fn is_unwritten(host: &Host, path: &Path) -> bool {
    pin::file(host, path).is_ok_and(|(pinned, _)| pinned.is_unwritten().unwrap_or(false))
}

/// Refuses an existing file that cannot be swapped to: one that others may read, or
/// with holes, since the kernel writes to its blocks directly.
pub fn check_file(host: &Host, path: &Path) -> Result<(), Error> {
    use std::os::unix::fs::MetadataExt;
    let (_, meta) = pin::file(host, path)?;
    let wrong = |problem: String, way_out: &str| Err(Error::place(path, problem, way_out));
    if !meta.is_file() {
        return wrong("it is no file".to_owned(), "name a device as \"device\"");
    }
    if meta.nlink() > 1 {
        return wrong(
            format!(
                "it has {} hard links, and each of them leads to it",
                meta.nlink()
            ),
            "remove the others, or let zmeld make a file",
        );
    }
    if meta.blocks() * 512 < meta.len() {
        return wrong(
            format!(
                "it has holes: {} of {} bytes have blocks",
                meta.blocks() * 512,
                meta.len()
            ),
            "remove it and let zmeld create it, or write it with dd",
        );
    }
    check_place(host, path, 0, &mut BTreeMap::new())
}

fn no_room(path: &Path, size_bytes: u64, (free, others): (u64, u64), reserve: u64) -> Error {
    let beside = match others {
        0 => String::new(),
        others => format!(" beside {} of other swap files", bytes(others)),
    };
    Error::place(
        path,
        format!(
            "the file system has {} free{beside}, of which {} stay free, and the file takes {}",
            bytes(free),
            bytes(reserve),
            bytes(size_bytes)
        ),
        "make room or choose a smaller size",
    )
}

impl CreateFile {
    fn fill(&self, file: &File) -> io::Result<()> {
        let fd = file.as_fd();
        if kind(&rustix::fs::fstatfs(fd)?) == BTRFS {
            // Copy on write would move the blocks; only an empty file takes the flag.
            let flags = ioctl_getflags(fd)?;
            ioctl_setflags(fd, flags | IFlags::NOCOW)?;
        }
        fallocate(fd, FallocateFlags::empty(), 0, self.size_bytes)?;
        file.sync_all()
    }

    fn failed(&self, cause: io::Error) -> Error {
        match cause.kind() {
            io::ErrorKind::AlreadyExists => self.is_there(),
            io::ErrorKind::Unsupported => Error::place(
                &self.path,
                "its file system makes no file without a name (O_TMPFILE)",
                WHERE,
            ),
            _ => Error::io("create", &self.path, cause),
        }
    }

    fn is_there(&self) -> Error {
        Error::place(
            &self.path,
            "it is there already",
            "remove it, or leave out its size to use it as it is",
        )
    }
}

impl Reversible for CreateFile {
    fn describe(&self) -> String {
        format!(
            "create {} with {}",
            self.path.display(),
            bytes(self.size_bytes)
        )
    }

    fn before(&self, context: &mut StepContext<'_>) -> Result<Before, Error> {
        if context.host.exists(&self.path) {
            return Err(self.is_there());
        }
        check_place(
            context.host,
            &self.path,
            self.size_bytes,
            &mut BTreeMap::new(),
        )?;
        Ok((None, None))
    }

    fn apply(&self, context: &mut StepContext<'_>, _record: &Record) -> Result<(), Error> {
        // It gets its name once it is whole, and written down which file it is.
        let host = context.host;
        let pinned = pin::place(host, &self.path)?;
        let failed = |cause: io::Error| self.failed(cause);
        let file = pinned.create_unnamed().map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        context.remember(Identity {
            file: Some(Identity::file_of(&meta)),
            ..Identity::default()
        })?;
        self.fill(&file).map_err(|cause| match cause.kind() {
            io::ErrorKind::Unsupported => Error::place(
                &self.path,
                "its file system gives no blocks ahead (fallocate)",
                WHERE,
            ),
            _ => failed(cause),
        })?;
        pinned.give_name_to(&file).map_err(failed)
    }

    fn holds(&self, context: &mut StepContext<'_>, record: &Record) -> Result<bool, Error> {
        let found = thing(context.host, &self.path, record)?;
        Ok(record.done && matches!(found, PathMatch::Same))
    }

    fn undo(&self, context: &mut StepContext<'_>, record: &Record) -> Result<(), Error> {
        let found = thing(context.host, &self.path, record)?;
        if !context.is_own(&self.path, &found) {
            return Ok(());
        }
        match pin::recorded(context.host, &self.path, record)? {
            Some(pinned) => {
                let removed = pinned.remove();
                removed.map_err(|cause| Error::io("remove", &self.path, cause))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_a_file_system_is_not_taken() {
        assert_eq!(reserve(100 << 20), 5 << 20);
        assert_eq!(reserve(1 << 40), 1 << 30);
        let err = no_room(Path::new("/a"), 9 << 20, (9 << 20, 0), 5 << 20).to_string();
        assert!(err.contains("of which 5.00 MiB stay free"), "{err}");
    }

    #[test]
    fn files_that_are_to_be_made_share_what_is_free() {
        let mut others = 0;
        let mut take = |mib: u64| {
            take(
                Path::new("/a"),
                mib << 20,
                (25 << 10, 4096),
                (200 << 10, 1024),
                &mut others,
            )
        };
        take(50).unwrap();
        take(40).unwrap();
        let err = take(1).unwrap_err().to_string();
        let wanted =
            "has 10.0 MiB free beside 90.0 MiB of other swap files, of which 10.0 MiB stay";
        assert!(err.contains(wanted), "{err}");
    }
}
