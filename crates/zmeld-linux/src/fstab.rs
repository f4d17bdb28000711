//! `/etc/fstab` and units of mounts: where systemd mounts only after all swap is on.
//!
//! What waits for such a mount, and is waited for by `swap.target`, makes a cycle, which systemd
//! breaks by leaving one of both out.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::octal::unescape;
use crate::tree::Tree;

const PATH: &str = "/etc/fstab";
/// Units of mounts in these come before fstab's of the same point,
const BEFORE: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];
/// and in these after it; a unit in an earlier folder hides those of its name in later ones.
const BEHIND: [&str; 3] = [
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
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

impl Entry {
    fn new(source: String, point: String, kind: &str, options: &str) -> Entry {
        let kind = kind.strip_prefix("fuse.").unwrap_or(kind);
        Entry {
            source,
            point: PathBuf::from(point),
            is_late: kind == "tmpfs"
                || NETWORK.contains(&kind)
                || options.split(',').any(|it| it == "_netdev"),
        }
    }
}

impl Fstab {
    /// That of a machine; what cannot be read mounts nothing.
    pub fn read(tree: &Tree) -> Fstab {
        let mut names = HashSet::new();
        let mut all = units(tree, &BEFORE, &mut names);
        for later in [table(tree), units(tree, &BEHIND, &mut names)] {
            let is_new = |it: &Entry| all.iter().all(|earlier: &Entry| earlier.point != it.point);
            let later: Vec<Entry> = later.into_iter().filter(is_new).collect();
            all.extend(later);
        }
        Fstab(all)
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

/// The lines of fstab.
fn table(tree: &Tree) -> Vec<Entry> {
    let bytes = tree.read(Path::new(PATH), BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
    let entries = lines.filter_map(|line| {
        let mut fields = line.split_whitespace().map(unescape);
        let (source, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or_default();
        Some(Entry::new(source, point, &kind, &options))
    });
    entries.collect()
}

/// The units of mounts in those folders whose names are none of these; one that is masked, a link
/// to nothing, mounts nothing.
fn units(tree: &Tree, folders: &[&str], names: &mut HashSet<OsString>) -> Vec<Entry> {
    let mut entries = Vec::new();
    for folder in folders.iter().map(Path::new) {
        for (name, _) in tree.entries(folder).unwrap_or_default() {
            let path = folder.join(&name);
            if path.extension().is_none_or(|it| it != "mount") || !names.insert(name) {
                continue;
            }
            let bytes = tree.read(&path, BYTES_MAX).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            // Only its section [Mount] has such words.
            let word = |wanted: &str| {
                let mut words = text.lines().filter_map(|line| line.split_once('='));
                let found = words.rfind(|(word, _)| word.trim() == wanted);
                found.map(|(_, value)| value.trim().to_owned())
            };
            let (kind, options) = (word("Type"), word("Options"));
            entries.extend(word("What").zip(word("Where")).map(|(source, point)| {
                Entry::new(
                    source,
                    point,
                    &kind.unwrap_or_default(),
                    &options.unwrap_or_default(),
                )
            }));
        }
    }
    entries
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
    #[test]
    fn a_unit_of_a_mount_counts_where_systemd_takes_it() {
        let unit = |point: &str, kind: &str| {
            format!("[Unit]\n[Mount]\nWhat=none\nWhere = {point}\nType={kind}\n")
        };
        let (_dir, host) = Host::planted(&[
            (PATH, "/dev/sda1 /both ext4\n/dev/sda2 /own ext4\n"),
            ("/etc/systemd/system/both.mount", &unit("/both", "nfs")),
            ("/etc/systemd/system/off.mount", ""),
            ("/run/systemd/system/run.mount", &unit("/run1", "tmpfs")),
            ("/usr/lib/systemd/system/own.mount", &unit("/own", "tmpfs")),
            ("/usr/lib/systemd/system/off.mount", &unit("/off", "tmpfs")),
            (
                "/usr/lib/systemd/system/far.mount",
                &unit("/far", "fuse.sshfs"),
            ),
            ("/usr/lib/systemd/system/no.service", &unit("/no", "tmpfs")),
        ]);
        let fstab = Fstab::read(host.tree());
        let late = |path: &&str| fstab.is_late(Path::new(path));
        let all = ["/both/k", "/run1/k", "/far/k", "/own/k", "/off/k", "/no/k"];
        let found: Vec<&str> = all.into_iter().filter(late).collect();
        assert_eq!(found, ["/both/k", "/run1/k", "/far/k"]);
    }
}
