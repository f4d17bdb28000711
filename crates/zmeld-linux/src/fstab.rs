//! `/etc/fstab` and units of mounts: where systemd mounts only after all swap is on.
//!
//! A unit that awaits such a mount, and that `swap.target` awaits, makes a cycle, which systemd
//! breaks by leaving one of both out.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::iter;
use std::path::{Path, PathBuf};

use crate::octal::unescape;
use crate::tree::Tree;

const PATH: &str = "/etc/fstab";
/// Units of mounts in these come before fstab's of the same point,
const BEFORE: [&str; 2] = ["/etc/systemd/system", "/run/systemd/system"];
/// and in these after it; a unit in an earlier folder hides those of its name in later ones.
pub const PACKAGED_UNITS: [&str; 3] = [
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const BYTES_MAX: u64 = 1 << 20;

/// Network file systems of systemd (`fstype_is_network`).
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

/// Whether a line is one of fstab that has swap.
pub fn has_swap(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().take(3).collect();
    matches!(fields[..], [device, point, "swap"] if !device.starts_with(['#', ';']) && point != "=")
}

/// Mounts made at boot.
#[derive(Debug, Clone, Default)]
pub struct Fstab(Vec<Entry>);

#[derive(Debug, Clone)]
struct Entry {
    source: String,
    point: PathBuf,
    /// It comes after swap by itself.
    is_late: bool,
    /// Units that it comes after, and paths that have to be there before.
    waits_for: Vec<String>,
}

impl Entry {
    /// The mount of a unit's text and its drop-ins; none where it mounts nothing.
    fn new(tree: &Tree, name: &str, mut text: String) -> Option<Entry> {
        for path in drop_ins(tree, name) {
            let bytes = tree.read(&path, BYTES_MAX).unwrap_or_default();
            text = text + "\n" + &String::from_utf8_lossy(&bytes);
        }
        // No two of its sections have such words.
        let words = || text.lines().filter_map(|line| line.split_once('='));
        let all = |wanted| words().filter(move |(word, _)| word.trim() == wanted);
        let last = |wanted| {
            let value = all(wanted).next_back();
            value.map_or("", |(_, value)| value.trim())
        };
        let kind = last("Type");
        let kind = kind.strip_prefix("fuse.").unwrap_or(kind);
        let options = || last("Options").split(',');
        let waits = ORDERING.iter().flat_map(|word| all(word));
        let waits = waits.flat_map(|(_, values)| values.split_whitespace());
        let waits = waits.chain(options().filter_map(|it| {
            let (option, value) = it.split_once('=')?;
            ORDERING_OPTIONS.contains(&option).then_some(value)
        }));
        let (source, point) = (last("What").to_owned(), PathBuf::from(last("Where")));
        (!source.is_empty() && point.is_absolute()).then(|| Entry {
            is_late: kind == "tmpfs"
                || NETWORK.contains(&kind)
                || options().any(|it| it == "_netdev"),
            waits_for: waits.map(str::to_owned).collect(),
            source,
            point,
        })
    }
}

/// Ordering keys of units, and of fstab's options.
const ORDERING: [&str; 5] = [
    "After",
    "Requires",
    "BindsTo",
    "RequiresMountsFor",
    "WantsMountsFor",
];
const ORDERING_OPTIONS: [&str; 3] = [
    "x-systemd.after",
    "x-systemd.requires",
    "x-systemd.requires-mounts-for",
];

/// The drop-ins of a unit as they count, by their names: of two with one name that of the unit
/// itself before that of what its name begins with, and that of an earlier folder.
fn drop_ins(tree: &Tree, unit: &str) -> Vec<PathBuf> {
    let (stem, kind) = unit.rsplit_once('.').unwrap_or((unit, ""));
    let dashes = stem.match_indices('-').map(|(at, _)| &stem[..=at]);
    let begins = dashes.map(|begin| format!("{begin}.{kind}.d"));
    let mut names: Vec<String> = iter::once(format!("{kind}.d")).chain(begins).collect();
    names.push(format!("{unit}.d"));
    let mut files = BTreeMap::new();
    for name in names {
        for folder in PACKAGED_UNITS.iter().rev().chain(BEFORE.iter().rev()) {
            let folder = Path::new(folder).join(&name);
            let found = tree.entries(&folder).unwrap_or_default().into_iter();
            let is_conf = |name: &OsString| Path::new(name).extension() == Some("conf".as_ref());
            let found = found.filter(|(name, _)| is_conf(name));
            files.extend(found.map(|(name, _)| (name.clone(), folder.join(name))));
        }
    }
    files.into_values().collect()
}

/// How the names of systemd's services begin that come before swap.
const EARLY_SERVICES: [&str; 13] = [
    "systemd-cryptsetup",
    "systemd-fsck",
    "systemd-growfs",
    "systemd-integritysetup",
    "systemd-journald",
    "systemd-makefs",
    "systemd-mkswap",
    "systemd-modules-load",
    "systemd-remount-fs",
    "systemd-repart",
    "systemd-tmpfiles-setup-dev",
    "systemd-udev",
    "systemd-veritysetup",
];

/// Whether a unit other than a mount comes when swap is on long since: all but devices, systemd's
/// own services of early boot, and what is reached before swap is.
fn is_late_unit(name: &str) -> bool {
    const EARLY: [&str; 8] = [
        "local-fs",
        "local-fs-pre",
        "swap",
        "cryptsetup",
        "cryptsetup-pre",
        "integritysetup",
        "veritysetup",
        "blockdev@",
    ];
    match name.rsplit_once('.') {
        Some((name, "service")) => !EARLY_SERVICES.iter().any(|it| name.starts_with(it)),
        Some((name, "target")) => {
            let name = name.split_inclusive('@').next().unwrap_or(name);
            !EARLY.contains(&name) && !name.starts_with("initrd")
        }
        Some((_, "socket" | "timer" | "path")) => true,
        _ => false,
    }
}

/// The name of a path's unit of that kind, as `systemd-escape --path --suffix=KIND` makes it.
pub fn unit_name(path: &Path, kind: &str) -> String {
    let path = path.to_string_lossy();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut name = String::new();
    for (at, byte) in parts.join("/").bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if at == 0 => name.push_str("\\x2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => {
                name.push(char::from(byte));
            }
            _ => name.push_str(&format!("\\x{byte:02x}")),
        }
    }
    if name.is_empty() {
        name.push('-');
    }
    format!("{name}.{kind}")
}

impl Fstab {
    /// That of a machine; what cannot be read mounts nothing.
    pub fn read(tree: &Tree) -> Fstab {
        let mut names = HashSet::new();
        let mut all = units(tree, &BEFORE, &mut names);
        for later in [table(tree), units(tree, &PACKAGED_UNITS, &mut names)] {
            let is_new = |it: &Entry| all.iter().all(|earlier: &Entry| earlier.point != it.point);
            let later: Vec<Entry> = later.into_iter().filter(is_new).collect();
            all.extend(later);
        }
        Fstab(all)
    }

    /// Whether a path is there only after all swap is on: below a mount from the network or in
    /// RAM, or one of something there, and below `/tmp`, unless that is mounted otherwise.
    pub fn is_late(&self, path: &Path) -> bool {
        self.is_late_after(path, &mut HashSet::new())
    }

    /// [`Self::is_late`]; `seen` are mounts that were looked at.
    fn is_late_after<'a>(&'a self, path: &Path, seen: &mut HashSet<&'a Path>) -> bool {
        let tmp = Path::new("/tmp");
        let is_tmp = path.starts_with(tmp) && self.0.iter().all(|it| it.point != tmp);
        // The root and what is in it are mounted before.
        let is_below =
            |it: &&Entry| it.point.components().count() > 1 && path.starts_with(&it.point);
        let mut mounts = self.0.iter().filter(is_below);
        is_tmp
            || mounts.any(|it| {
                let mut needs = iter::once(&it.source).chain(&it.waits_for);
                let is_new = seen.insert(&it.point);
                it.is_late || is_new && needs.any(|it| self.is_late_need(it, seen))
            })
    }

    /// [`Self::is_late`] of what a mount needs: a path, or a unit.
    fn is_late_need<'a>(&'a self, need: &str, seen: &mut HashSet<&'a Path>) -> bool {
        let path = Path::new(need);
        if path.is_absolute() {
            return !path.starts_with("/dev") && self.is_late_after(path, seen);
        }
        let is_it = |it: &&Entry| unit_name(&it.point, "mount") == need;
        match self.0.iter().find(is_it) {
            Some(mount) => self.is_late_after(&mount.point, seen),
            None => is_late_unit(need),
        }
    }
}

fn table(tree: &Tree) -> Vec<Entry> {
    let bytes = tree.read(Path::new(PATH), BYTES_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
    let entries = lines.filter_map(|line| {
        let mut fields = line.split_whitespace().map(unescape);
        let (source, point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let options = fields.next().unwrap_or_default();
        let unit = format!("What={source}\nWhere={point}\nType={kind}\nOptions={options}");
        Entry::new(tree, &unit_name(Path::new(&point), "mount"), unit)
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
            if path.extension().is_none_or(|it| it != "mount") || !names.insert(name.clone()) {
                continue;
            }
            let bytes = tree.read(&path, BYTES_MAX).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            entries.extend(Entry::new(tree, &name.to_string_lossy(), text));
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
        // Behind what is late: a path, a unit, and what each of these is.
        let net = "host:/k /net nfs4\n";
        let options = |options: &str| format!("{net}/dev/sda1 /srv ext4 nofail,{options}\n");
        for late_by in [
            "x-systemd.requires=/net",
            "x-systemd.requires-mounts-for=/net/x",
            "x-systemd.after=net.mount",
            "x-systemd.after=sysinit.target",
            "x-systemd.after=dbus.socket",
            "x-systemd.requires=zfs-mount.service",
            "x-systemd.after=systemd-logind.service",
        ] {
            assert!(late(&options(late_by), "/srv/swap"), "{late_by}");
        }
        for early_by in [
            "x-systemd.requires=/dev/sdb1",
            "x-systemd.after=blockdev@dev-sda1.target",
            "x-systemd.after=systemd-fsck@dev-sda1.service",
            "x-systemd.requires-mounts-for=/etc",
            "x-systemd.device-timeout=9",
        ] {
            assert!(!late(&options(early_by), "/srv/swap"), "{early_by}");
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
            (
                PATH,
                "/dev/sda1 /both ext4\n/dev/sda2 /own ext4\n/dev/sda3 /a/b ext4\n\
                 /dev/sda4 /c-d ext4\n/dev/sda7 /e/f ext4\n/dev/sda5 /pool ext4 x-systemd.requires=zfs.service\n\
                 /dev/sda6 /fsck ext4 x-systemd.after=systemd-fsck@dev-sda6.service\n",
            ),
            ("/etc/systemd/system/both.mount", &unit("/both", "nfs")),
            ("/etc/systemd/system/off.mount", ""),
            ("/run/systemd/system/run.mount", &unit("/run1", "tmpfs")),
            ("/usr/lib/systemd/system/own.mount", &unit("/own", "tmpfs")),
            ("/usr/lib/systemd/system/off.mount", &unit("/off", "tmpfs")),
            (
                "/usr/lib/systemd/system/far.mount",
                &unit("/far", "fuse.sshfs"),
            ),
            // A drop-in counts in whatever folder it is, but for a later one of its name.
            ("/usr/lib/systemd/system/own.mount.d/a.conf", ""),
            (
                "/etc/systemd/system/e-.mount.d/x.conf",
                "[Unit]\nRequiresMountsFor=/far/a\n",
            ),
            (
                "/run/systemd/system/a-b.mount.d/late.conf",
                "[Unit]\nAfter=network-online.target\n",
            ),
            (
                "/usr/lib/systemd/system/c\\x2dd.mount.d/type.conf",
                "[Mount]\nType=nfs\n",
            ),
            (
                "/etc/systemd/system/c\\x2dd.mount.d/type.conf",
                "[Mount]\nOptions=ro\n",
            ),
            ("/usr/lib/systemd/system/no.service", &unit("/no", "tmpfs")),
        ]);
        let fstab = Fstab::read(host.tree());
        let late = |path: &&str| fstab.is_late(Path::new(path));
        let all = [
            "/both/k", "/run1/k", "/far/k", "/own/k", "/off/k", "/no/k", "/a/b/k", "/c-d/k",
            "/pool/k", "/fsck/k", "/e/f/k",
        ];
        let found: Vec<&str> = all.into_iter().filter(late).collect();
        assert_eq!(
            found,
            ["/both/k", "/run1/k", "/far/k", "/a/b/k", "/pool/k", "/e/f/k"]
        );
    }
}
