//! What is wrong with a value: what a check says, of drives and files above all.

use std::path::Path;

use zmeld_linux::swaps;

use crate::finding::{Finding, FindingId, Severity};
use crate::location::Location;

/// What is wrong.
#[derive(Default)]
pub struct Found {
    /// Values that are wrong or will disappoint whatever stands beside them.
    pub of_values: Vec<Finding>,
    /// What follows from several keys.
    pub of_several: Vec<Finding>,
}

impl Found {
    pub fn all(mut self) -> Vec<Finding> {
        self.of_values.append(&mut self.of_several);
        self.of_values
    }
}

pub struct Check<'a> {
    pub accept: &'a [FindingId],
    pub found: Found,
}

impl Check<'_> {
    pub(super) fn add(
        &mut self,
        severity: Severity,
        id: Option<FindingId>,
        key: &str,
        what: String,
    ) {
        if id.is_some_and(|id| self.accept.contains(&id)) {
            return;
        }
        let found = match id {
            Some(FindingId::Zvol | FindingId::FileInRam) => &mut self.found.of_values,
            _ => &mut self.found.of_several,
        };
        found.push(Finding {
            id,
            ..Finding::new(severity, key, what)
        });
    }

    /// A value that is an error whatever stands beside it.
    pub fn error_of_value(&mut self, key: &str, what: impl Into<String>) {
        let found = Finding::new(Severity::Critical, key, what);
        self.found.of_values.push(found);
    }

    pub fn error(&mut self, key: &str, what: impl Into<String>) {
        self.add(Severity::Critical, None, key, what.into());
    }

    pub fn warning(&mut self, id: FindingId, key: &str, what: impl Into<String>) {
        self.add(Severity::Warning, Some(id), key, what.into());
    }

    pub fn device(&mut self, device: &Location, key: &str) {
        let Location::Path(path) = device else { return };
        let shown = path.display();
        if !path.starts_with("/dev") || path == Path::new("/dev") {
            let what =
                format!("{shown} is not below /dev; for a swap file write file = \"{shown}\"");
            self.error_of_value(key, what);
        } else if is_ram_device(path) {
            let what = format!("{shown} is in RAM itself; name a drive, or use kind = \"zram\"");
            self.error_of_value(key, what);
        } else if path.starts_with("/dev/zvol") || is_zvol(path) {
            let what = format!(
                "{shown} is a volume of ZFS, which takes memory to write a page: swap on it can \
                 stop the machine when memory is short; use a partition beside the pool"
            );
            self.warning(FindingId::Zvol, key, what);
        }
    }

    /// A device of which nothing is kept, found again by its name alone.
    pub fn overwritten(&mut self, device: &Location, key: &str, what: &str) {
        match device {
            _ if !device.outlives_its_contents() => {
                let tag = match device {
                    Location::Tag { tag, .. } => format!("PART{tag}="),
                    Location::Path(_) => "PARTUUID=".to_owned(),
                };
                let what = format!(
                    "{device} is written over with {what}, so the device would not be found \
                     again; use {tag} or a path below /dev/disk/by-id"
                );
                self.error(key, what);
            }
            Location::Path(path) if !is_stable(path) => {
                let what = format!(
                    "{device} may be another drive after a reboot, and it is written over with \
                     {what}; use PARTUUID= or a path below /dev/disk/by-id"
                );
                self.warning(FindingId::UnstableName, key, what);
            }
            _ => {}
        }
    }
}

/// Folders that are in RAM, or are on many machines.
pub(super) fn in_ram(path: &Path) -> bool {
    ["/tmp", "/run", "/dev/shm", "/var/run"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

fn is_zvol(path: &Path) -> bool {
    let name = path.strip_prefix("/dev").ok().and_then(Path::to_str);
    name.is_some_and(swaps::is_zvol)
}

fn is_ram_device(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|it| swaps::is_numbered(it, &["zram", "zmeld", "ram"]))
}

/// Whether a path below `/dev` keeps meaning the same drive.
fn is_stable(path: &Path) -> bool {
    let stable = [
        "/dev/disk/by-id",
        "/dev/disk/by-partuuid",
        "/dev/disk/by-partlabel",
        "/dev/disk/by-path",
        "/dev/zvol",
    ];
    // A volume group's directory: /dev/GROUP/VOLUME, as /dev/mapper/NAME.
    let volume = path.components().count() == 4 && !path.starts_with("/dev/disk");
    volume || stable.iter().any(|folder| path.starts_with(folder))
}
