//! `/proc/self/mountinfo`: what is mounted where.
//!
//! Not by the `procfs` crate, which leaves the escapes in paths and refuses the
//! whole table for one line.

use std::path::PathBuf;

use crate::octal;

/// Where the kernel lists this process's mounts.
pub const PATH: &str = "/proc/self/mountinfo";

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

/// The mounts in the text of a mountinfo file, in its order: a later one covers
/// an earlier one of the same place. Lines that are none are passed over.
pub fn parse(text: &str) -> impl Iterator<Item = Mount> + '_ {
    text.lines().filter_map(mount)
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
        let all: Vec<Mount> = parse(text).collect();
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
    fn this_process_has_a_root() {
        let text = std::fs::read_to_string(PATH).unwrap();
        assert!(parse(&text).any(|mount| mount.point.as_os_str() == "/"));
        assert_eq!(parse(&text).count(), text.lines().count());
    }
}
