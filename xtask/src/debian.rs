//! A Debian beside the machine's own: a folder that debootstrap fills once from the mirror
//! of the machine's apt, to enter, or kept as an image of a file system that guests boot.
//! That of another processor is set up in a guest: nothing of it runs here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt;
use crate::process::{output_of, unavailable, Log};
use crate::recipes::{self, Arch};
use crate::tools;
use crate::workspace::{self, whole};

/// The label by which the guest's first program finds it.
pub const LABEL: &str = "guest-root";

/// More than it takes, for what a test writes; unwritten blocks take no space.
pub const IMAGE_MIB: u64 = 1024;

/// Beside what every Debian has, the smallest that systemd starts.
pub const PACKAGES: &str =
    "systemd-sysv,libpam-systemd,udev,kmod,dbus,dmsetup,cryptsetup-bin,e2fsprogs";

/// Runs a command in a folder's Debian, in mounts of its own: what is named in front of
/// `--` is there, too, at the second place, and may be read alone where the third word is ro.
const ENTER: &str = r#"
set -e
# A place of its own among the mounts, so that who is in it may mount.
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
	if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$1" "$root$2"; fi
	mount --bind "$1" "$root$2"
	[ "$3" != ro ] || mount -o remount,bind,ro "$root$2"
	shift 3
done
shift
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
	http_proxy="$http_proxy" https_proxy="$https_proxy" "$@"
"#;

/// A command in the Debian at `root`, with variables in front of it, and with `mounts` of
/// this machine's files: where from, where to, `ro` or nothing.
pub fn enter(root: &Path, mounts: &[(&Path, &str, &str)], words: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["sh", "-c", ENTER, "sh"]).env("root", root);
    for (from, to, mode) in mounts {
        command.arg(from).args([to, mode]);
    }
    command.arg("--").args(words);
    command
}

/// A Debian of that name, of the machine's own suite or another, with packages more; made
/// if it is not here.
pub fn base(log: &Log, name: &str, suite: Option<&str>, packages: &str) -> Result<PathBuf> {
    let place = recipes::folder("debian")?;
    let _held = recipes::lock(&place)?;
    workspace::kept(place.join(name), |unfinished| {
        let suite = suite.map_or_else(own_suite, |suite| Ok(suite.to_owned()))?;
        bootstrap(log, unfinished, &suite, &[], packages)
    })
}

/// The Debian whose compilers build modules for kernels that this machine's are too old for:
/// the kernel's own tools, which come with its headers, need that Debian's C library, too.
pub fn compilers(log: &Log, suite: &str) -> Result<PathBuf> {
    let packages = "make,gcc,libc6-dev,libelf1t64,kmod,xz-utils,gcc-aarch64-linux-gnu,\
                    libc6-dev-arm64-cross";
    base(log, &format!("compilers-{suite}"), Some(suite), packages)
}

/// `make` there, which sees what is built and what with, at their own places.
pub fn make(root: &Path) -> Command {
    let kernels = root.ancestors().find(|folder| folder.ends_with("kernels"));
    let places = [kernels.unwrap_or(root).to_owned(), workspace::target()];
    let shown = places.each_ref().map(|place| place.display().to_string());
    let mounts = [0, 1].map(|at| (places[at].as_path(), shown[at].as_str(), ""));
    enter(root, &mounts, &["LC_ALL=C", "make"])
}

/// A copy of a Debian that goes with the test.
pub struct Root(pub PathBuf);

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn copy(log: &Log, base: &Path, step: &str) -> Result<Root> {
    let root = Root(workspace::work_folder(step)?.join("root"));
    workspace::remove(&root.0)?;
    log.must(Command::new("cp").arg("-a").arg(base).arg(&root.0))?;
    give_names(&root.0)?;
    // No daemon is started by a package.
    let policy = root.0.join("usr/sbin/policy-rc.d");
    fs::write(&policy, "#!/bin/sh\nexit 101\n")?;
    fs::set_permissions(&policy, fs::Permissions::from_mode(0o755))?;
    Ok(root)
}

/// Names of mirrors are found there.
pub fn give_names(root: &Path) -> Result<()> {
    fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf"))?;
    fs::copy("/etc/hosts", root.join("etc/hosts"))?;
    Ok(())
}

/// An image of the machine's own suite, or of a later one, which runs its programs, too.
pub fn image(log: &Log, later: Option<&str>) -> Result<PathBuf> {
    let place = recipes::folder("debian")?;
    let _held = recipes::lock(&place)?;
    let name = later.map_or_else(|| "root".to_owned(), |suite| format!("root-{suite}"));
    workspace::kept(place.join(format!("{name}.ext4")), |unfinished| {
        tools::need(&["mke2fs"])?;
        let root = place.join(name);
        let suite = later.map_or_else(own_suite, |suite| Ok(suite.to_owned()))?;
        bootstrap(log, &root, &suite, &[], PACKAGES)?;
        pack(log, &root, unfinished, IMAGE_MIB)?;
        workspace::remove(&root)
    })
}

/// The packages of the machine's own suite for another processor, fetched and not
/// installed: in `var/cache/apt/archives` of that folder.
pub fn fetch(log: &Log, root: &Path, arch: Arch, packages: &str) -> Result<()> {
    let arch = format!("--arch={}", arch.debian());
    bootstrap(log, root, &own_suite()?, &["--foreign", &arch], packages)
}

fn bootstrap(log: &Log, root: &Path, suite: &str, options: &[&str], packages: &str) -> Result<()> {
    tools::need(&["debootstrap"])?;
    tools::need_root("debootstrap")?;
    workspace::remove(root)?;
    let mut install = Command::new("debootstrap");
    install.arg("--variant=minbase").args(options);
    install.arg(format!("--include={packages}"));
    install.arg(suite).arg(root).arg(apt::mirror()?);
    if !log.run(&mut install)?.succeeded() {
        let log = workspace::shown(log.path());
        unavailable!("debootstrap fails: is there a network? (see {log})");
    }
    Ok(())
}

/// A file system of that size with all that is below a folder, without what apt keeps.
pub fn pack(log: &Log, root: &Path, image: &Path, mib: u64) -> Result<()> {
    workspace::remove(&root.join("var/cache/apt"))?;
    workspace::remove(&root.join("var/lib/apt/lists"))?;
    whole(image, |unfinished| {
        make_file_system(log, root, unfinished, mib)
    })
}

pub fn make_file_system(log: &Log, root: &Path, image: &Path, mib: u64) -> Result<()> {
    fs::File::create(image)?.set_len(mib << 20)?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-t", "ext4", "-F", "-L", LABEL, "-d"]);
    log.must(make.arg(root).arg(image))?;
    Ok(())
}

/// The machine's own suite: its programs run in the guest, with its libraries.
pub fn own_suite() -> Result<String> {
    let script = ". /etc/os-release && [ \"$ID\" = debian ] && echo \"$VERSION_CODENAME\"";
    match output_of(Command::new("sh").args(["-c", script])) {
        Ok(suite) if !suite.is_empty() => Ok(suite),
        _ => unavailable!("this machine is no Debian"),
    }
}
