//! Packages for Debian and what comes from it, by `dpkg-deb` on a tree.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use super::tree::Tree;
use super::{Package, Release};
use crate::kernels::Arch;
use crate::process::Log;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(900);

/// The scripts that dpkg runs.
const SCRIPTS: &[&str] = &["preinst", "postinst", "prerm", "postrm"];

/// Makes the package; the tree gets dpkg's own folder for as long as that takes.
pub fn make(
    log: &Log,
    release: &Release,
    package: &Package,
    arch: Option<Arch>,
    tree: &Tree,
) -> Result<PathBuf> {
    let arch = arch.map_or("all", Arch::debian);
    let place = release
        .folder
        .join(format!("{}_{}_{arch}.deb", package.name, release.version));
    let control = tree.root().join("DEBIAN");
    fs::create_dir_all(&control)?;
    fs::set_permissions(&control, fs::Permissions::from_mode(0o755))?;
    let put = |name: &str, text: &str, mode: u32| -> Result<()> {
        let path = control.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    put(
        "control",
        &control_file(release, package, arch, size_kib(tree)?),
        0o644,
    )?;
    put("md5sums", &sums(tree)?, 0o644)?;
    for script in SCRIPTS {
        let path = format!("packaging/debian/{}.{script}", package.scripts());
        if let Ok(text) = fs::read_to_string(workspace::root().join(path)) {
            put(script, &package.fill(&text, &release.version), 0o755)?;
        }
    }
    let mut build = Command::new("dpkg-deb");
    build.args([
        "--root-owner-group",
        "-Zxz",
        "-z6",
        "--threads-max=1",
        "--build",
    ]);
    build.arg(tree.root()).arg(&place);
    build.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    let built = log.run(&mut build, LIMIT)?.succeeded();
    fs::remove_dir_all(&control)?;
    if !built {
        bail!("dpkg-deb fails, see {}", workspace::shown(log.path()));
    }
    Ok(place)
}

fn control_file(release: &Release, package: &Package, arch: &str, size_kib: u64) -> String {
    let mut text = format!(
        "Package: {}\nVersion: {}\nArchitecture: {arch}\nInstalled-Size: {size_kib}\n\
         Maintainer: The zmeld developers <zmeld@zmeld.invalid>\nSection: {}\nPriority: optional\n",
        package.name, release.version, package.section
    );
    for (field, value) in package.debian {
        text += &format!("{field}: {value}\n");
    }
    text += &format!("Description: {}\n", package.summary);
    for line in package.description.lines() {
        text += &format!(" {line}\n");
    }
    text
}

/// What it takes on disk, as dpkg counts: whole KiB for each file.
fn size_kib(tree: &Tree) -> Result<u64> {
    let mut sum = 0;
    for path in tree.paths() {
        sum += fs::symlink_metadata(inside(tree, path))?
            .len()
            .div_ceil(1024);
    }
    Ok(sum)
}

fn sums(tree: &Tree) -> Result<String> {
    let is_file = |path: &&String| !inside(tree, path).is_symlink();
    let files = tree.paths().iter().filter(is_file);
    let output = Command::new("md5sum")
        .current_dir(tree.root())
        .args(files.map(|path| path.trim_start_matches('/')))
        .output()
        .context("cannot start md5sum")?;
    if !output.status.success() {
        bail!("md5sum fails: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn inside(tree: &Tree, path: &str) -> PathBuf {
    tree.root()
        .join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)))
}
