//! `/proc/PID/mountinfo`: what is mounted where.
//!
//! Not by the `procfs` crate, which leaves the escapes in paths and refuses the
//! whole table for one line.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use crate::host::is_absent;
use crate::{octal, Host, HostError};

/// Where the kernel lists this process's mounts.
pub const PATH: &str = "/proc/self/mountinfo";
/// Those of the first process, the machine's.
pub const FIRST: &str = "/proc/1/mountinfo";

/// A longer line is passed over: paths and options are as long as who mounts likes.
const LINE_MAX: u64 = 1 << 20;
/// The kernel has 100,000 mounts at the most; what is longer is refused.
const TABLE_MAX: u64 = 256 << 20;

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device's numbers, as `stat` tells them of files on it.
    pub device: (u32, u32),
    /// The folder of the file system that is mounted, `/` for all of it.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// The options of this mount, separated by commas.
    pub options: String,
    /// The kind of file system, `ext4`.
    pub kind: String,
    /// What was mounted, a device's path or any name.
    pub source: PathBuf,
    /// The options of the file system, separated by commas.
    pub file_system_options: String,
}

/// The mounts in [`PATH`] or [`FIRST`], in its order: a later one covers an earlier one of the
/// same place. None where there is no such file; lines that are none are passed over.
///
/// Read by lines: any user may mount until the whole is longer than [`Host::read`] takes.
///
/// # Errors
/// When the file cannot be read, or is too long to be the kernel's.
pub fn read(host: &Host, path: &str) -> Result<Vec<Mount>, HostError> {
    let failed = |cause| HostError::io("read", path, cause);
    let file = match host.tree().open_file(path.as_ref()) {
        Err(cause) if is_absent(&cause) => return Ok(Vec::new()),
        file => file.map_err(failed)?,
    };
    let mut table = BufReader::new(file.take(TABLE_MAX));
    let (mut mounts, mut line, mut is_rest) = (Vec::new(), Vec::new(), false);
    loop {
        line.clear();
        let mut part = table.by_ref().take(LINE_MAX);
        if part.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let is_cut = part.limit() == 0 && !line.ends_with(b"\n");
        if !is_rest && !is_cut {
            mounts.extend(mount(String::from_utf8_lossy(&line).trim_end()));
        }
        is_rest = is_cut;
    }
    match table.get_ref().limit() {
        0 => Err(HostError::malformed(
            path,
            format!("is longer than {TABLE_MAX} bytes: it is not the kernel's"),
        )),
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

    /// The mounts of a tree whose table that is.
    fn read_in(table: &[u8]) -> Vec<Mount> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        std::fs::write(dir.path().join("proc/self/mountinfo"), table).unwrap();
        read(&Host::at(dir.path()), PATH).unwrap()
    }

    #[test]
    fn mounts_are_read() {
        let all = read_in(
            b"36 35 98:0 /mnt\\0401 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root \
                    rw,errors=continue\n\
                    no mount\n\
                    22 1 0:30 /@ / rw - btrfs /dev/sda1\n",
        );
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
    fn however_long_the_table_and_its_lines_are_the_last_mount_is_seen() {
        let mut table = b"22 1 0:30 / /a rw - tmpfs a rw\n".repeat(200_000);
        // Its rest is no line of its own.
        table.resize(table.len() + LINE_MAX as usize, b'x');
        table.extend(b"1 1 8:1 / /rest rw - ext4 /dev/b rw\n22 1 8:1 / /last rw - ext4 /dev/a rw");
        let all = read_in(&table);
        assert_eq!(all.len(), 200_001);
        assert_eq!(all[200_000].point.as_os_str(), "/last");
    }

    #[test]
    fn this_process_has_a_root() {
        let text = std::fs::read_to_string(PATH).unwrap();
        let all = read(&Host::here(), PATH).unwrap();
        assert!(all.iter().any(|mount| mount.point.as_os_str() == "/"));
        assert_eq!(all.len(), text.lines().count());
    }
}
