//! `/proc/PID/mountinfo`: what is mounted where.
//!
//! Not by the `procfs` crate, which leaves the escapes in paths and refuses the
//! whole table for one line.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::PathBuf;

use crate::error::is_absent;
use crate::text::inert;
use crate::{octal, Host, HostError};

/// The kernel's list of this process's mounts.
pub const PATH: &str = "/proc/self/mountinfo";

/// The kernel has 100,000 mounts at the most; what is longer is refused.
const BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device's numbers, as `stat` tells them of files on it.
    pub device: (u32, u32),
    /// The folder of the file system that is mounted, `/` for all of it.
    pub root: PathBuf,
    pub point: PathBuf,
    /// The options of this mount, separated by commas.
    pub options: String,
    /// The kind of file system, `ext4`.
    pub kind: String,
    /// Its source, a device's path or any name.
    pub source: PathBuf,
    /// The options of the file system, separated by commas.
    pub file_system_options: String,
}

/// The mounts in such a file as [`PATH`], in its order: a later one covers an earlier one of the
/// same place. None where there is no such file; lines that are none are passed over.
///
/// By lines: any user may mount until the whole is longer than what [`Host::read`] takes.
///
/// # Errors
/// When the file cannot be read, or is too long to be the kernel's.
pub fn read(host: &Host, path: &str) -> Result<Vec<Mount>, HostError> {
    let failed = |cause| HostError::io("read", path, cause);
    let file = match host.tree().open_file(path.as_ref()) {
        Err(cause) if is_absent(&cause) => return Ok(Vec::new()),
        file => file.map_err(failed)?,
    };
    let mut table = BufReader::new(file.take(BYTES_MAX));
    let mut mounts = Vec::new();
    for line in table.by_ref().split(b'\n') {
        let line = line.map_err(failed)?;
        mounts.extend(mount(&inert(&String::from_utf8_lossy(&line))));
    }
    match table.get_ref().limit() {
        0 => Err(failed(ErrorKind::FileTooLarge.into())),
        _ => Ok(mounts),
    }
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`
fn mount(line: &str) -> Option<Mount> {
    // The optional fields in the middle end with a dash. Names cannot hold one
    // between blanks, for their blanks are escaped.
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let mut after = after.split(' ');
    let (major, minor) = before.next()?.split_once(':')?;
    let path = |text: &str| PathBuf::from(octal::unescape_name(text.as_bytes()));
    Some(Mount {
        device: (major.parse().ok()?, minor.parse().ok()?),
        root: path(before.next()?),
        point: path(before.next()?),
        options: before.next()?.to_owned(),
        kind: after.next()?.to_owned(),
        source: path(after.next()?),
        file_system_options: after.next().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text =
            "36 35 98:0 /mnt\\0401 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root \
                    rw,errors=continue\n\
                    no mount\n\
                    22 1 0:30 /@ / rw - btrfs /dev/sda1\n";
        let (_dir, host) = Host::planted(&[(PATH, text)]);
        let all = read(&host, PATH).unwrap();
        assert_eq!(
            all[0],
            Mount {
                device: (98, 0),
                root: "/mnt 1".into(),
                point: "/mnt 2".into(),
                options: "rw,noatime".to_owned(),
                kind: "ext3".to_owned(),
                source: "/dev/root".into(),
                file_system_options: "rw,errors=continue".to_owned(),
            }
        );
        assert_eq!(all[1].point.as_os_str(), "/");
        assert_eq!(all[1].source.as_os_str(), "/dev/sda1");
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn a_table_that_users_made_long_is_read_and_an_endless_one_refused() {
        let mut table = "22 1 0:30 / /a rw - tmpfs a rw\n".repeat(200_000);
        table.push_str("22 1 8:1 / /last rw - ext4 /dev/a rw\n");
        let (_dir, host) = Host::planted(&[(PATH, &table)]);
        let last = read(&host, PATH).unwrap().pop().unwrap();
        assert_eq!(last.point.as_os_str(), "/last");
        let file = std::fs::File::options().write(true).open(host.path(PATH));
        file.unwrap().set_len(2 * BYTES_MAX).unwrap();
        assert!(read(&host, PATH).is_err());
    }

    #[test]
    fn this_process_has_a_root() {
        let text = std::fs::read_to_string(PATH).unwrap();
        let all = read(&Host::here(), PATH).unwrap();
        assert!(all.iter().any(|mount| mount.point.as_os_str() == "/"));
        assert_eq!(all.len(), text.lines().count());
    }
}
