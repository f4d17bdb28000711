//! Which thing it is that a step works on: what has the same name later may be
//! another. A loop device is given another file, a file is replaced, a device's
//! number is taken by another tool's, a swap area is made anew.
//!
//! It is written down before a step is applied, or as soon as the thing is there.
//! A different thing is somebody else's: it is left, and named.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::rand::{getrandom, GetRandomFlags};
use serde::{Deserialize, Serialize};
use zmeld_linux::error::is_absent;
use zmeld_linux::swap_header::SwapHeader;
use zmeld_linux::Host;

use crate::setup::error::Error;

/// Marks of a thing among others of its name. Unknown ones are not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// A block device's numbers, `7:0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The disk's place in the sequence of all disks since boot (from Linux 5.15), before that a
    /// loop device's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The device mapper's UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<String>,
    /// A file: its device, its inode, and when that was made, since the number of a
    /// file that is gone is given to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The UUID in the swap header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<String>,
    /// The UUID in the LUKS header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub luks: Option<String>,
}

/// Comparison of a path's target with the thing of a record.
pub(crate) enum PathMatch {
    /// Nothing is there.
    Gone,
    Same,
    /// It is another, for this reason.
    Other(&'static str),
}

impl Identity {
    /// Identity of a path's target; none where nothing is.
    pub fn of(host: &Host, path: &Path) -> Result<Option<Identity>, Error> {
        let Some((mut identity, meta)) = Identity::without_header(host, path)? else {
            return Ok(None);
        };
        identity.read_header(host, path, &meta)?;
        Ok(Some(identity))
    }

    /// Adds what its header says.
    fn read_header(&mut self, host: &Host, path: &Path, meta: &Metadata) -> Result<(), Error> {
        let header = header(host, path, meta)?;
        (self.swap, self.luks) = (swap_uuid(&header), luks_uuid(&header));
        Ok(())
    }

    /// The same without what is read from the thing itself, which may not answer.
    fn without_header(host: &Host, path: &Path) -> Result<Option<(Identity, Metadata)>, Error> {
        let Some(meta) = metadata(host, path)? else {
            return Ok(None);
        };
        let mut identity = Identity::default();
        if let Some(folder) = block_folder(host, path, &meta) {
            let text = |name: &str| {
                let text = host.read_optional(folder.join(name))?;
                Ok::<_, Error>(text.filter(|text| !text.is_empty()))
            };
            identity.device = meta
                .file_type()
                .is_block_device()
                .then(|| number(meta.rdev()));
            identity.disk = match text("diskseq")? {
                Some(sequence) => Some(sequence),
                // A partition's is its disk's.
                None if host.exists(folder.join("partition")) => text("../diskseq")?,
                None => text("loop/backing_file")?,
            };
            identity.mapping = text("dm/uuid")?;
        } else if meta.is_file() {
            identity.file = Some(Identity::file_of(&meta));
        }
        Ok(Some((identity, meta)))
    }

    /// A file's device, inode and creation time.
    pub(crate) fn file_of(meta: &Metadata) -> String {
        let place = format!("{} {}", number(meta.dev()), meta.ino());
        let since = meta.created().ok();
        let since = since.and_then(|since| since.duration_since(std::time::UNIX_EPOCH).ok());
        match since {
            Some(since) => format!("{place} {}.{:09}", since.as_secs(), since.subsec_nanos()),
            None => place,
        }
    }

    /// The difference to what is there now, in words.
    pub fn differs(&self, now: &Identity) -> Option<&'static str> {
        // A thing that lost its header is still the same.
        let other = |was: &Option<String>, is: &Option<String>| was.is_some() && was != is;
        let another = |was: &Option<String>, is: &Option<String>| is.is_some() && other(was, is);
        if other(&self.device, &now.device) || other(&self.disk, &now.disk) {
            Some("it is another device by now")
        } else if other(&self.mapping, &now.mapping) {
            Some("it is another mapping by now")
        } else if other(&self.file, &now.file) {
            Some("it is another file by now")
        } else if another(&self.swap, &now.swap) {
            Some("somebody else has made it a swap area since")
        } else if another(&self.luks, &now.luks) {
            Some("somebody else has made it a LUKS volume since")
        } else {
            None
        }
    }
}

/// How long one that did not answer is not asked again: whoever waits for it holds up others.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(3600);

/// Drives that did not answer, and when they were asked.
static SILENT: Mutex<Vec<(PathBuf, Instant)>> = Mutex::new(Vec::new());

fn silent() -> MutexGuard<'static, Vec<(PathBuf, Instant)>> {
    SILENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The start of a device or a file; empty where it cannot be read.
fn header(host: &Host, path: &Path, meta: &Metadata) -> Result<Vec<u8>, Error> {
    let bytes = rustix::param::page_size();
    answer(&host.path(path), || host.read_header(path, meta, bytes))
}

fn answer(path: &Path, read: impl FnOnce() -> io::Result<Vec<u8>>) -> Result<Vec<u8>, Error> {
    silent().retain(|(_, asked)| asked.elapsed() < ASKED_AGAIN_AFTER);
    let is_silent = silent().iter().any(|(it, _)| it == path);
    let result = match is_silent {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => read(),
    };
    result.map_err(|cause| {
        let mut cause = cause;
        if cause.kind() == io::ErrorKind::TimedOut {
            if !is_silent {
                silent().push((path.to_path_buf(), Instant::now()));
            }
            cause = io::Error::new(cause.kind(), "it does not answer (dmesg)");
        }
        Error::io("read", path, cause)
    })
}

/// Whether that is the device which an identity is of. One that is another's is not read:
/// it may not answer. One that does not answer is what the kernel says it is.
pub(crate) fn is_device_of(host: &Host, path: &Path, was: &Identity) -> Result<bool, Error> {
    let is_known = was.disk.is_some() || was.mapping.is_some();
    let seen = Identity::without_header(host, path)?;
    let same = seen.filter(|(now, _)| is_known && was.differs(now).is_none());
    let Some((mut now, meta)) = same else {
        return Ok(false);
    };
    match now.read_header(host, path, &meta) {
        Err(err) if !err.is_timeout() => Err(err),
        _ => Ok(was.differs(&now).is_none()),
    }
}

/// Identity of a file, where it is one.
pub(crate) fn file(host: &Host, path: &Path) -> Result<Option<String>, Error> {
    let meta = metadata(host, path)?.filter(Metadata::is_file);
    Ok(meta.as_ref().map(Identity::file_of))
}

/// Whether a device stands on another, as the kernel has it; none where it does not
/// say.
pub(crate) fn stands_on(host: &Host, upper: &Path, lower: &Path) -> Result<Option<bool>, Error> {
    let folder = |path: &Path| {
        let meta = metadata(host, path)?;
        Ok::<_, Error>(meta.and_then(|meta| block_folder(host, path, &meta)))
    };
    let (Some(upper), Some(lower)) = (folder(upper)?, folder(lower)?) else {
        return Ok(None);
    };
    let below = host.list(upper.join("slaves"))?;
    let lower = host.resolved(&lower);
    let name = lower.file_name().and_then(|name| name.to_str());
    Ok((!below.is_empty()).then(|| below.iter().any(|it| Some(it.as_str()) == name)))
}

/// A UUID that nothing else has, in the form that `mkswap` and `cryptsetup` take.
pub(crate) fn new_uuid() -> Result<String, Error> {
    let mut bytes = [0u8; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty());
    if filled != Ok(bytes.len()) {
        let cause = filled.err().map_or_else(
            || io::Error::from(io::ErrorKind::UnexpectedEof),
            io::Error::from,
        );
        return Err(Error::io("take", "random numbers", cause));
    }
    Ok(random_uuid(bytes))
}

/// Version 4, as RFC 9562 has it.
fn random_uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = 0x40 + (bytes[6] & 0x0f);
    bytes[8] = 0x80 + (bytes[8] & 0x3f);
    uuid(&bytes)
}

fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn metadata(host: &Host, path: &Path) -> Result<Option<Metadata>, Error> {
    match host.tree().metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(cause) if is_absent(&cause) => Ok(None),
        Err(cause) => Err(Error::io("look at", path, cause)),
    }
}

fn number(device: u64) -> String {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    format!("{major}:{minor}")
}

/// The folder of a block device in sysfs. A tree that only looks like a machine has files in place
/// of devices.
fn block_folder(host: &Host, path: &Path, meta: &Metadata) -> Option<PathBuf> {
    if meta.file_type().is_block_device() {
        return Some(Path::new("/sys/dev/block").join(number(meta.rdev())));
    }
    let real = host.resolved(path);
    let name = real.file_name().filter(|_| real.starts_with("/dev"))?;
    Some(Path::new("/sys/block").join(name))
}

fn swap_uuid(start: &[u8]) -> Option<String> {
    let header = SwapHeader::parse(start).filter(|it| !it.is_suspended);
    header.map(|it| uuid(&it.uuid))
}

/// The first header of LUKS, in both of its versions.
fn luks_uuid(page: &[u8]) -> Option<String> {
    const MAGIC: &[u8] = b"LUKS\xba\xbe";
    const UUID_AT: usize = 168;
    const UUID_BYTES: usize = 40;
    let bytes = page.get(UUID_AT..UUID_AT + UUID_BYTES)?;
    let text = bytes.split(|byte| *byte == 0).next()?;
    let text = std::str::from_utf8(text).ok()?;
    let is_luks = page.starts_with(MAGIC) && text.chars().all(|c| c.is_ascii_graphic());
    (is_luks && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_same_name_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::at(dir.path());
        let path = Path::new("/swap");
        let put = || std::fs::write(host.path(path), "x").unwrap();
        put();
        let first = Identity::of(&host, path).unwrap().unwrap();
        assert_eq!(first.differs(&first), None);
        // It may well be given the same inode.
        std::fs::remove_file(host.path(path)).unwrap();
        assert_eq!(Identity::of(&host, path).unwrap(), None);
        put();
        let second = Identity::of(&host, path).unwrap().unwrap();
        assert_eq!(first.differs(&second), Some("it is another file by now"));
    }

    /// A partition has the number of its disk.
    #[test]
    fn a_block_device_is_known_by_its_numbers() {
        assert_eq!(number(rustix::fs::makedev(7, 250)), "7:250");
        let (_dir, host) = Host::planted(&[
            ("/dev/other", ""),
            ("/sys/dev/block/7:250/partition", "1\n"),
            ("/sys/dev/block/diskseq", "42\n"),
        ]);
        let mknod = std::process::Command::new("mknod")
            .arg(host.path("/dev/one"))
            .args(["b", "7", "250"])
            .status();
        if !mknod.is_ok_and(|it| it.success()) {
            eprintln!("SKIP: only root makes nodes");
            return;
        }
        let found = Identity::without_header(&host, Path::new("/dev/one"));
        let (found, _) = found.unwrap().unwrap();
        assert_eq!(found.device.as_deref(), Some("7:250"));
        assert_eq!(found.disk.as_deref(), Some("42"));
    }

    #[test]
    fn a_drive_that_does_not_answer_is_waited_for_once() {
        let path = Path::new("/dev/dead");
        let late = || Err(io::ErrorKind::TimedOut.into());
        for read in [late, || unreachable!()] {
            let err = answer(path, read).unwrap_err();
            assert!(err.is_timeout(), "{err}");
        }
    }

    #[test]
    fn headers_tell_their_uuid() {
        assert_ne!(new_uuid().unwrap(), new_uuid().unwrap());
        for (byte, text) in [
            (0, "00000000-0000-4000-8000-000000000000"),
            (255, "ffffffff-ffff-4fff-bfff-ffffffffffff"),
        ] {
            assert_eq!(random_uuid([byte; 16]), text);
        }
        let mut page = vec![0u8; 4096];
        page[1036..1052].copy_from_slice(&(1..17).collect::<Vec<u8>>());
        assert_eq!(swap_uuid(&page), None);
        page[4086..].copy_from_slice(b"SWAPSPACE2");
        let text = "01020304-0506-0708-090a-0b0c0d0e0f10";
        assert_eq!(swap_uuid(&page).unwrap(), text);
        assert_eq!(luks_uuid(&page), None);
        page[..6].copy_from_slice(b"LUKS\xba\xbe");
        assert_eq!(luks_uuid(&page), None);
        page[168..204].copy_from_slice(text.as_bytes());
        assert_eq!(luks_uuid(&page).unwrap(), text);
        for short in [0, 6, 100, 180, 1036, 1040] {
            assert_eq!(luks_uuid(&page[..short.min(170)]), None);
            assert_eq!(swap_uuid(&page[..short]), None);
        }
        page[0] = b'l';
        assert_eq!(luks_uuid(&page), None);
    }
}
