//! Packages for Debian and what comes from it, by `dpkg-deb` on a tree.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::release::{Package, Release};
use super::tree::Tree;
use crate::process::{output_of, Log};
use crate::recipes::Arch;
use crate::workspace;

/// Makes the package; the tree gets dpkg's own folder for as long as that takes.
pub fn make(
    log: &Log,
    release: &Release,
    package: &Package,
    arch: Option<Arch>,
    tree: &Tree,
) -> Result<PathBuf> {
    let arch = arch.map_or("all", Arch::debian);
    let (name, version) = (package.name, &release.version);
    let place = release.folder.join(format!("{name}_{version}_{arch}.deb"));
    // Before there is more in it than is installed.
    tree.paths()?;
    let size = output_of(
        Command::new("du")
            .args(["-sk", "--apparent-size"])
            .arg(&tree.root),
    )?;
    let size = size.split_whitespace().next().unwrap_or("0");
    let mut sums = Command::new("sh");
    let script = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum";
    let sums = output_of(sums.current_dir(&tree.root).args(["-c", script]))? + "\n";
    let text = package.fill(&package.control()?, version);
    let text = text.replace("@ARCH@", arch).replace("@SIZE@", size);
    let control = tree.root.join("DEBIAN");
    tree.file("DEBIAN/control", text)?;
    tree.file("DEBIAN/md5sums", sums)?;
    for script in ["preinst", "postinst", "prerm", "postrm"] {
        let path = format!("packaging/debian/{}.{script}", package.scripts());
        if let Ok(text) = fs::read_to_string(workspace::root().join(path)) {
            tree.program(&format!("DEBIAN/{script}"), package.fill(&text, version))?;
        }
    }
    fs::set_permissions(&control, fs::Permissions::from_mode(0o755))?;
    let mut build = Command::new("dpkg-deb");
    build.args("--root-owner-group -Zxz -z6 --threads-max=1 --build".split(' '));
    build.arg(&tree.root).arg(&place);
    build.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    let built = log.must(&mut build);
    workspace::remove(&control)?;
    built.map(|_| place)
}
