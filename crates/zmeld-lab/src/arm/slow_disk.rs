//! A disk that is as slow as wanted: a file on a loop device, past the page
//! cache, its rates limited by the block controller.
//!
//! In version 1 the kernel charges swap-out to the root group, whatever the
//! process, so that the limit is set there, for this one device; in version 2
//! it is charged to the group, and the limit is the group's. A limit is on
//! rates: a queue of an own, as a real drive has, is not imitated.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::{size, Bases};
use crate::error::Error;
use crate::limit::Group;
use crate::name::{self, is_left_behind};

/// How large and how slow. Without a rate it is as fast as what it stands on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// Where the file goes.
    #[serde(default = "folder")]
    pub folder: PathBuf,
}

fn folder() -> PathBuf {
    PathBuf::from("/var/tmp")
}

/// How the name of its file ends.
const ENDING: &str = ".disk";

const ROOT: &str = "/sys/fs/cgroup/blkio";

impl SlowDisk {
    /// Its size; errors name `place`.
    pub(crate) fn bytes(&self, place: &str, bases: Bases) -> Result<u64, Error> {
        size(&self.size, bases).ok_or_else(|| Error::Recipe {
            name: place.to_owned(),
            problem: format!("{:?} is no size of a disk", self.size),
        })
    }

    /// Makes the file that it is.
    pub(crate) fn create(&self, bytes: u64) -> Result<DiskFile, Error> {
        let file = self.folder.join(name::own(ENDING));
        let free = rustix::fs::statvfs(&self.folder)
            .map_err(|err| Error::io("look at", &self.folder, err.into()))?;
        if free.f_bavail * free.f_frsize < bytes + (512 << 20) {
            return Err(Error::Unsafe {
                what: format!(
                    "a disk of {} does not fit into {} with 512 MiB to spare: name another folder in the recipe",
                    zmeld_report::units::bytes(bytes),
                    self.folder.display()
                ),
            });
        }
        // Anybody may write where it lies: it must not be there already.
        let made = File::create_new(&file).map_err(|err| Error::io("create", &file, err))?;
        let file = DiskFile(file);
        rustix::fs::fallocate(&made, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|err| Error::io("allocate", file.path(), err.into()))?;
        Ok(file)
    }

    /// Makes it, as a loop device.
    pub(super) fn attach(&self, bytes: u64, group: &Group) -> Result<Attached, Error> {
        let mut attached = Attached {
            device: PathBuf::new(),
            limits: Vec::new(),
            file: self.create(bytes)?,
        };
        let said = losetup(&[
            "--find",
            "--show",
            "--direct-io=on",
            &attached.file.path().display().to_string(),
        ])?;
        attached.device = PathBuf::from(said.trim());
        let device = attached.device.clone();
        self.throttle(&device, group, &mut attached.limits)?;
        Ok(attached)
    }

    /// Slows a disk down. What has to be written where to take that back goes to `limits`; in version 2 of control groups
    /// it goes with the group.
    pub(super) fn throttle(
        &self,
        device: &Path,
        group: &Group,
        limits: &mut Vec<(PathBuf, String)>,
    ) -> Result<(), Error> {
        let name = device
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let path = PathBuf::from(format!("/sys/block/{name}/dev"));
        let number = fs::read_to_string(&path).map_err(|err| Error::io("read", path, err))?;
        let number = number.trim();
        let rates = [
            ("read_bps", "rbps", bytes_per_s(self.read_mb_per_s)),
            ("write_bps", "wbps", bytes_per_s(self.write_mb_per_s)),
            ("read_iops", "riops", self.reads_per_s),
            ("write_iops", "wiops", self.writes_per_s),
        ];
        for (old, new, rate) in rates {
            let Some(rate) = rate else { continue };
            let root = Path::new(ROOT).join(format!("blkio.throttle.{old}_device"));
            let (file, value) = match root.exists() {
                true => {
                    limits.push((root.clone(), format!("{number} 0")));
                    (root, format!("{number} {rate}"))
                }
                false => (group.file("io.max"), format!("{number} {new}={rate}")),
            };
            fs::write(&file, value).map_err(|err| match err.kind() {
                std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => Error::Missing {
                    what: format!(
                        "a slow disk needs the block controller with throttling, and {} cannot be written: {err}; \
                         leave its rates out of the recipe",
                        file.display()
                    ),
                },
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

/// The file of a disk; dropping it removes it.
#[derive(Debug)]
pub(crate) struct DiskFile(PathBuf);

impl DiskFile {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        // What fails here is tried again by the next experiment.
        let _ = fs::remove_file(&self.0);
    }
}

/// A disk that is there; dropping it removes it.
#[derive(Debug)]
pub(super) struct Attached {
    device: PathBuf,
    limits: Vec<(PathBuf, String)>,
    // Last: it goes when nothing uses it any more.
    file: DiskFile,
}

impl Attached {
    pub(super) fn device(&self) -> &Path {
        &self.device
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // What fails here is tried again by the next experiment.
        for (file, nothing) in &self.limits {
            let _ = fs::write(file, nothing);
        }
        if self.device.parent().is_some() {
            let _ = losetup(&["--detach", &self.device.display().to_string()]);
        }
    }
}

fn losetup(arguments: &[&str]) -> Result<String, Error> {
    let output = Command::new("losetup")
        .args(arguments)
        .output()
        .map_err(|err| match err.kind() {
            std::io::ErrorKind::NotFound => Error::Missing {
                what: "losetup is not installed: install util-linux (mount on Debian)".to_owned(),
            },
            _ => Error::io("run", "losetup", err),
        })?;
    if !output.status.success() {
        return Err(Error::Missing {
            what: format!(
                "losetup {} failed: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
                    .trim()
                    .replace('\n', "; ")
            ),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Loop devices whose maker is gone, with their files.
fn left_devices() -> Vec<(fs::DirEntry, PathBuf)> {
    let mut left = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file")) else {
            continue;
        };
        let file = PathBuf::from(backing.trim().trim_end_matches(" (deleted)"));
        if is_left(&file) {
            left.push((entry, file));
        }
    }
    left
}

/// Disks whose maker is gone, in words.
pub(super) fn leftovers() -> Vec<String> {
    let mut files: Vec<PathBuf> = left_devices().into_iter().map(|(_, file)| file).collect();
    for entry in fs::read_dir(folder()).into_iter().flatten().flatten() {
        let file = entry.path();
        if is_left(&file) && !files.contains(&file) {
            files.push(file);
        }
    }
    files.iter().map(|file| of_a_killed_one(file)).collect()
}

/// Removes disks whose maker is gone. Returns what was found.
pub(super) fn clear_leftovers() -> Vec<String> {
    let mut found = Vec::new();
    for (entry, file) in left_devices() {
        let number = fs::read_to_string(entry.path().join("dev")).unwrap_or_default();
        let limits = ["read_bps", "write_bps", "read_iops", "write_iops"].map(|name| {
            let path = Path::new(ROOT).join(format!("blkio.throttle.{name}_device"));
            (path, format!("{} 0", number.trim()))
        });
        found.push(of_a_killed_one(&file));
        drop(Attached {
            device: Path::new("/dev").join(entry.file_name()),
            limits: limits.into(),
            file: DiskFile(file),
        });
    }
    // Those of virtual machines are on no loop device.
    for entry in fs::read_dir(folder()).into_iter().flatten().flatten() {
        let file = entry.path();
        if is_left(&file) {
            found.push(of_a_killed_one(&file));
            drop(DiskFile(file));
        }
    }
    found
}

/// Whether it is the file of a disk whose maker is gone.
fn is_left(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    is_left_behind(name) && name.to_string_lossy().ends_with(ENDING)
}

fn of_a_killed_one(file: &Path) -> String {
    format!(
        "a disk of an experiment that was killed ({})",
        file.display()
    )
}
