//! `/etc/fstab`: where systemd mounts only after all swap is on.
//!
//! What waits for such a mount, and is waited for by `swap.target`, makes a cycle, which systemd
//! breaks by leaving one of both out.

use std::path::{Path, PathBuf};

use crate::octal::unescape;
use crate::tree::Tree;

const PATH: &str = "/etc/fstab";
const BYTES_MAX: u64 = 1 << 20;
/// No mount of a mount stands on more.
const STANDS_ON_MAX: usize = 16;

/// What systemd orders behind the network (`fstype_is_network`).
const NETWORK: [&str; 17] = [
    "afs",
    "ceph",
    "cifs",
    "smb3",
    "smbfs",
    "sshfs",
    "ncpfs",
    "ncp",
    "nfs",
    "nfs4",
    "gfs",
    "gfs2",
    "glusterfs",
    "pvfs2",
    "ocfs2",
    "lustre",
    "davfs",
];

/// What is mounted at boot.
#[derive(Debug, Clone, Default)]
pub struct Fstab(Vec<Entry>);

#[derive(Debug, Clone)]
struct Entry {
    source: String,
    point: PathBuf,
    /// It comes after swap by itself.
    is_late: bool,
}

impl Fstab {
    /// That of a machine; one that cannot be read mounts nothing.
    pub fn read(tree: &Tree) -> Fstab {
        let bytes = tree.read(Path::new(PATH), BYTES_MAX).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
        let entries = lines.filter_map(|line| {
            let mut fields = line.split_whitespace().map(unescape);
            let (source, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
            let options = fields.next().unwrap_or_default();
            let kind = kind.strip_prefix("fuse.").unwrap_or(&kind);
            Some(Entry {
                source,
                point: PathBuf::from(point),
                is_late: kind == "tmpfs"
                    || NETWORK.contains(&kind)
                    || options.split(',').any(|it| it == "_netdev"),
            })
        });
        Fstab(entries.collect())
    }

    /// Whether a path is there only after all swap is on: below a mount from the network or in
    /// RAM, or one of something there, and below `/tmp`, unless that is mounted otherwise.
    pub fn is_late(&self, path: &Path) -> bool {
        self.is_late_after(path, STANDS_ON_MAX)
    }

    fn is_late_after(&self, path: &Path, left: usize) -> bool {
        let tmp = Path::new("/tmp");
        let is_tmp = path.starts_with(tmp) && self.0.iter().all(|it| it.point != tmp);
        // The root and what is in it are mounted before.
        let is_below =
            |it: &&Entry| it.point.components().count() > 1 && path.starts_with(&it.point);
        let mut mounts = self.0.iter().filter(is_below);
        is_tmp
            || mounts.any(|it| {
                let source = Path::new(&it.source);
                let is_path = source.is_absolute() && !source.starts_with("/dev");
                it.is_late || is_path && left > 0 && self.is_late_after(source, left - 1)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;

    #[test]
    fn what_stands_on_a_late_mount_is_late() {
        let late = |text: &str, path: &str| {
            let (_dir, host) = Host::planted(&[(PATH, text)]);
            Fstab::read(host.tree()).is_late(Path::new(path))
        };
        let table = "/dev/sda1 / nfs\n/dev/sda2 /srv ext4\n# none /srv tmpfs\n\
                     host:/k /net/my\\040keys nfs4 ro\n/net/my\\040keys/a /b none bind\n\
                     /b/image /loop ext4 loop\nnone /ram tmpfs\n//h/s /s fuse.sshfs\n\
                     /dev/sdb1 /iscsi ext4 noauto,_netdev\n/c /d none bind\n/d /c none bind\n";
        for path in [
            "/net/my keys/k",
            "/b",
            "/loop/k",
            "/ram/k",
            "/s",
            "/iscsi/k",
            "/tmp/k",
        ] {
            assert!(late(table, path), "{path}");
        }
        for path in ["/k", "/srv/k", "/net", "/rams", "/c/k"] {
            assert!(!late(table, path), "{path}");
        }
        assert!(late("", "/tmp/k") && !late("/dev/sda3 /tmp ext4", "/tmp/k"));
    }
}
