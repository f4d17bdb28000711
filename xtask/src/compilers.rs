//! The compilers of another Debian, for kernels that this machine's are too old for:
//! the kernel's own tools, which come with its headers, need that Debian's C library,
//! too. It is a folder that debootstrap fills once; nothing runs in it but make.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt::Reason;
use crate::debian;
use crate::kernels;
use crate::process::Log;
use crate::tools;
use crate::workspace;

const PACKAGES: &str =
    "make,gcc,libc6-dev,libelf1t64,kmod,xz-utils,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross";

/// Runs a program there that sees what is built and what with, at their own places.
const ENTER: &str = r#"
set -e
for place; do
	shift
	[ "$place" != -- ] || break
	mkdir -p "$root$place"
	mount --bind "$place" "$root$place"
done
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root "$@"
"#;

/// Its root, made if it is not here; if that cannot be, why.
pub fn root(log: &Log, suite: &str) -> Result<std::result::Result<PathBuf, Reason>> {
    if !tools::is_root() {
        return Ok(Err(format!("the compilers of {suite} are run by root")));
    }
    let place = kernels::folder("debian")?;
    let _held = kernels::lock(&place)?;
    let root = place.join(format!("compilers-{suite}"));
    if root.exists() {
        return Ok(Ok(root));
    }
    let unfinished = root.with_extension("unfinished");
    if let Err(reason) = debian::install_suite(log, &unfinished, suite, PACKAGES)? {
        return Ok(Err(reason));
    }
    fs::remove_dir_all(unfinished.join("var/cache/apt"))?;
    fs::rename(&unfinished, &root)?;
    Ok(Ok(root))
}

/// A program there, in mounts of its own.
pub fn command(root: &Path, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child"]);
    command.args(["sh", "-c", ENTER, "sh"]);
    command.env("root", root);
    let mut places: Vec<PathBuf> = root
        .ancestors()
        .find(|folder| folder.ends_with("kernels"))
        .map(Path::to_owned)
        .into_iter()
        .collect();
    places.push(workspace::target());
    command.args(places).arg("--").arg(program);
    command
}
