//! A disk that is as slow as wanted: a file on a loop device, past the page
//! cache, its rates limited by the block controller.
//!
//! In version 1 the kernel charges swap-out to the root group, whatever the
//! process, so that the limit is set there, for this one device; in version 2
//! it is charged to the group, and the limit is the group's. A limit is on
//! rates: a queue of an own, as a real drive has, is not imitated.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use zmeld_linux::command::Invocation;
use zmeld_linux::Host;

use super::size::{size, SizeBases};
use crate::error::Error;
use crate::folder;
use crate::limit::RunGroup;

/// How large and how slow. Without a rate it is as fast as what it stands on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowDisk {
    /// `512MiB`, `200% of footprint`.
    pub size: String,
    /// Reads, MB/s (10⁶ bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_mb_per_s: Option<f64>,
    /// Writes, MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mb_per_s: Option<f64>,
    /// Reads a second, of whatever size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_per_s: Option<u64>,
    /// Writes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes_per_s: Option<u64>,
    /// Folder of the file.
    #[serde(default = "folder")]
    pub folder: PathBuf,
}

fn folder() -> PathBuf {
    PathBuf::from("/var/tmp")
}

/// How the name of the folder ends that its file lies in, and what the file is called.
const ENDING: &str = ".disk";
const FILE: &str = "disk";

const ROOT: &str = "/sys/fs/cgroup/blkio";
/// The block controller's names of the rates, in version 1 and in version 2.
const RATES: [(&str, &str); 4] = [
    ("read_bps", "rbps"),
    ("write_bps", "wbps"),
    ("read_iops", "riops"),
    ("write_iops", "wiops"),
];

impl SlowDisk {
    /// Its size; errors name `place`.
    pub(crate) fn bytes(&self, place: &str, bases: SizeBases) -> Result<u64, Error> {
        let what = || format!("{:?} is no size of a disk", self.size);
        size(&self.size, bases).ok_or_else(|| Error::recipe(place, what()))
    }

    /// Makes the file that it is.
    pub(crate) fn create(&self, bytes: u64) -> Result<DiskFile, Error> {
        let free = rustix::fs::statvfs(&self.folder)
            .map_err(|err| Error::io("look at", &self.folder, err.into()))?;
        if free.f_bavail * free.f_frsize < bytes + (512 << 20) {
            return Err(Error::Unsafe(format!(
                "a disk of {} does not fit into {} with 512 MiB to spare: name another folder in the recipe",
                zmeld_report::units::bytes(bytes),
                self.folder.display()
            )));
        }
        // Pages of all programs go there, where anybody may look for it.
        let folder = folder::create_in(&self.folder, ENDING)?;
        let path = folder.path().join(FILE);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|err| Error::io("create", &path, err))?;
        rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|err| Error::io("allocate", &path, err.into()))?;
        Ok(DiskFile { path, made, folder })
    }

    /// Makes it, as a loop device.
    pub(super) fn attach(&self, bytes: u64, group: &RunGroup) -> Result<AttachedDisk, Error> {
        let mut attached = AttachedDisk {
            device: PathBuf::new(),
            file: self.create(bytes)?,
        };
        let said = losetup(&[
            "--find",
            "--show",
            "--direct-io=on",
            &attached.file.path.display().to_string(),
        ])?;
        attached.device = PathBuf::from(said.trim());
        let device = attached.device.clone();
        let meta = attached.file.made.metadata();
        let meta = meta.map_err(|err| Error::io("look at", &attached.file.path, err))?;
        if !stands_on(&device, &meta) {
            return Err(Error::Unsafe(format!(
                "{} was replaced while a disk was made of it: others can rename what lies in {}, so name another \
                 folder in the recipe",
                attached.file.path.display(),
                self.folder.display()
            )));
        }
        self.throttle(&device, group)?;
        Ok(attached)
    }

    /// Slows a disk down; in version 2 of control groups that goes with the group.
    pub(super) fn throttle(&self, device: &Path, group: &RunGroup) -> Result<(), Error> {
        let number = number(device)?;
        let rates = [
            bytes_per_s(self.read_mb_per_s),
            bytes_per_s(self.write_mb_per_s),
            self.reads_per_s,
            self.writes_per_s,
        ];
        for ((old, new), rate) in RATES.into_iter().zip(rates) {
            let Some(rate) = rate else { continue };
            let root = of_root(old);
            let (file, value) = match root.exists() {
                true => (root, format!("{number} {rate}")),
                false => (group.file("io.max"), format!("{number} {new}={rate}")),
            };
            fs::write(&file, value).map_err(|err| match err.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Error::Missing(format!(
                    "a slow disk needs the block controller with throttling, and {} cannot be written: {err}; \
                     leave its rates out of the recipe",
                    file.display()
                )),
                _ => Error::io("write", &file, err),
            })?;
        }
        Ok(())
    }
}

/// A rate as the kernel and QEMU take it.
pub(crate) fn bytes_per_s(mb_per_s: Option<f64>) -> Option<u64> {
    mb_per_s.map(|rate| (rate * 1e6) as u64)
}

/// The file of a disk, in a folder of its own; dropping it removes both. The next experiment tries
/// again if that fails.
#[derive(Debug)]
pub(crate) struct DiskFile {
    pub(crate) path: PathBuf,
    made: File,
    folder: TempDir,
}

/// A disk that is there; dropping it removes it.
#[derive(Debug)]
pub(super) struct AttachedDisk {
    pub(super) device: PathBuf,
    // Last: it goes when nothing uses it any more.
    file: DiskFile,
}

impl Drop for AttachedDisk {
    fn drop(&mut self) {
        // The next experiment tries again.
        if detach(&self.device).is_err() {
            // Its name says whose the device is.
            self.file.folder.disable_cleanup(true);
        }
    }
}

pub(crate) fn detach(device: &Path) -> Result<(), Error> {
    if device.file_name().is_none() {
        return Ok(());
    }
    let number = number(device).unwrap_or_default();
    for (rate, _) in RATES {
        // There are none in version 2, and not each of them was set.
        let _ = fs::write(of_root(rate), format!("{number} 0"));
    }
    losetup(&["--detach", &device.display().to_string()]).map(|_| ())
}

/// A device's numbers, `7:0`.
fn number(device: &Path) -> Result<String, Error> {
    let name = device.file_name().unwrap_or_default();
    Ok(Host::here().read(Path::new("/sys/block").join(name).join("dev"))?)
}

/// The root group's file with the limits of a rate, in version 1.
fn of_root(rate: &str) -> PathBuf {
    Path::new(ROOT).join(format!("blkio.throttle.{rate}_device"))
}

fn losetup(arguments: &[&str]) -> Result<String, Error> {
    let said = Host::here().run(&Invocation::new("losetup").args(arguments));
    said.map_err(|err| Error::Missing(err.to_string()))
}

fn stands_on(device: &Path, file: &fs::Metadata) -> bool {
    Host::here().stands_on(device, file).unwrap_or_default()
}

/// Loop devices whose maker is gone, with the folders of their files.
pub(crate) fn left_devices() -> Vec<(PathBuf, PathBuf)> {
    let mut left = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file")) else {
            continue;
        };
        let file = Path::new(backing.trim_end_matches('\n'));
        let Some(folder) = file.parent().filter(|_| file.ends_with(FILE)) else {
            continue;
        };
        let device = Path::new("/dev").join(entry.file_name());
        // Anybody who may attach files of their own chooses their paths.
        let is_disk = folder.to_string_lossy().ends_with(ENDING) && folder::is_left(folder);
        if is_disk && is_its_file(file, &device) {
            left.push((device, folder.to_owned()));
        }
    }
    left
}

/// Whether the device stands on the file, which is root's alone. Others than root cannot look into its folder, and
/// are told by its name.
fn is_its_file(file: &Path, device: &Path) -> bool {
    let is_own = |meta: &fs::Metadata| {
        meta.is_file() && meta.uid() == 0 && meta.nlink() == 1 && meta.mode() & 0o077 == 0
    };
    match fs::symlink_metadata(file) {
        Ok(meta) => is_own(&meta) && stands_on(device, &meta),
        Err(err) => err.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// Folders of disks whose maker is gone.
pub(crate) fn left_files() -> Vec<PathBuf> {
    folder::left_in(&folder(), ENDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_swapped_out_can_be_read_by_root_alone() {
        let place = tempfile::tempdir().unwrap();
        let disk = SlowDisk {
            folder: place.path().to_owned(),
            ..SlowDisk::default()
        };
        let Ok(file) = disk.create(1 << 20) else {
            eprintln!("skipped: no 512 MiB are free in {}", place.path().display());
            return;
        };
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(&file.path), 0o600);
        assert_eq!(mode(file.path.parent().unwrap()), 0o700);
        assert_eq!(fs::metadata(&file.path).unwrap().len(), 1 << 20);
        drop(file);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_is_told_by_its_file_and_not_by_a_path() {
        let place = tempfile::tempdir().unwrap();
        let [ours, other] = ["ours", "other"].map(|name| place.path().join(name));
        for path in [&ours, &other] {
            fs::write(path, [0; 1 << 16]).unwrap();
        }
        let meta = fs::metadata(&ours).unwrap();
        let Ok(device) = losetup(&["--find", "--show", &ours.display().to_string()]) else {
            eprintln!("skipped: no loop device is to be had");
            return;
        };
        let device = PathBuf::from(device.trim());
        let is_so = stands_on(&device, &meta);
        fs::rename(&other, &ours).unwrap();
        let is_other = stands_on(&device, &fs::metadata(&ours).unwrap());
        detach(&device).unwrap();
        assert!(is_so && !is_other);
    }
}
