//! Programs of another processor, for guests that have one: Debian's packages for it,
//! unpacked and not set up, so that nothing of theirs runs here.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};

use crate::apt::Reason;
use crate::debian;
use crate::kernels::{self, Arch};
use crate::process::Log;
use crate::workspace;

const UNPACK_LIMIT: Duration = Duration::from_secs(900);

/// What guests start, with what it depends on.
const PACKAGES: &str =
    "busybox-static,bash,kmod,mount,util-linux,e2fsprogs,btrfs-progs,dmsetup,cryptsetup-bin,fio";

/// The folder of its programs, made if it is not here; if that cannot be, why.
pub fn root(log: &Log, arch: Arch) -> Result<std::result::Result<PathBuf, Reason>> {
    let place = kernels::folder("debian")?;
    let _held = kernels::lock(&place)?;
    let root = place.join(format!("programs-{}", arch.debian()));
    if root.exists() {
        return Ok(Ok(root));
    }
    let fetched = root.with_extension("fetched");
    if let Err(reason) = debian::fetch(log, &fetched, arch, PACKAGES)? {
        return Ok(Err(reason));
    }
    let unfinished = root.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)?;
    for package in workspace::files(&fetched.join("var/cache/apt/archives"), "deb")? {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(&package).arg(&unfinished);
        if !log.run(&mut command, UNPACK_LIMIT)?.succeeded() {
            bail!("{} cannot be unpacked", package.display());
        }
    }
    keep_links_inside(&unfinished, &unfinished)?;
    fs::remove_dir_all(&fetched)?;
    fs::rename(&unfinished, &root)?;
    Ok(Ok(root))
}

/// A link that names a place from the root on would lead out of the folder: it leads to
/// the same place in it.
fn keep_links_inside(root: &Path, folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            keep_links_inside(root, &path)?;
        } else if entry.file_type()?.is_symlink() {
            let target = fs::read_link(&path)?;
            let Ok(below) = target.strip_prefix("/") else {
                continue;
            };
            let up = folder.strip_prefix(root)?.components().count();
            fs::remove_file(&path)?;
            symlink(Path::new(&"../".repeat(up)).join(below), &path)?;
        }
    }
    Ok(())
}

/// Where a program of that name is below the folder.
pub fn find(root: &Path, name: &str) -> Option<PathBuf> {
    ["usr/bin", "bin", "usr/sbin", "sbin"]
        .iter()
        .map(|folder| root.join(folder).join(name))
        .find(|path| path.is_file())
}

/// The libraries that a program is linked with, directly or not, and its loader: where
/// it looks for each, and where that is here.
pub fn libraries(root: &Path, program: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = vec![program.to_owned()];
    while let Some(file) = next.pop() {
        for name in needed(&file)? {
            if !seen.insert(name.clone()) {
                continue;
            }
            let (place, path) =
                library(root, &name).with_context(|| format!("{} needs {name}", file.display()))?;
            next.push(path.clone());
            found.push((place, path));
        }
    }
    Ok(found)
}

/// What a program or library names: libraries, and a loader with its path.
fn needed(file: &Path) -> Result<Vec<String>> {
    let output = Command::new("readelf")
        .args(["-W", "-d", "-l"])
        .arg(file)
        .output()
        .context("cannot start readelf")?;
    // A script names nothing.
    Ok(named(&String::from_utf8_lossy(&output.stdout)))
}

fn named(text: &str) -> Vec<String> {
    let after = |line: &str, word: &str, end: char| {
        let (_, rest) = line.split_once(word)?;
        Some(rest.trim_end().trim_end_matches(end).to_owned())
    };
    text.lines()
        .filter_map(|line| match line.contains("(NEEDED)") {
            true => after(line, "[", ']'),
            false => after(line, "program interpreter: ", ']'),
        })
        .collect()
}

/// Where programs look for a library, and where that is here.
pub fn library(root: &Path, name: &str) -> Option<(String, PathBuf)> {
    if let Some(below) = name.strip_prefix('/') {
        let path = root.join(below).canonicalize().ok()?;
        return Some((name.to_owned(), path));
    }
    let folders = ["lib", "usr/lib"].map(|folder| root.join(folder));
    folders.iter().find_map(|folder| {
        let entries = fs::read_dir(folder).ok()?.flatten();
        let places = entries.map(|entry| entry.path().join(name));
        let path = places
            .chain([folder.join(name)])
            .find(|path| path.exists())?;
        let place = path.strip_prefix(root).ok()?.display().to_string();
        Some((format!("/{place}"), path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_inside() {
        let root = workspace::work_folder("unit/foreign").unwrap();
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("usr/sbin")).unwrap();
        fs::write(root.join("usr/kmod"), "theirs").unwrap();
        symlink("/usr/kmod", root.join("usr/sbin/modinfo")).unwrap();
        symlink("usr/kmod", root.join("beside")).unwrap();
        keep_links_inside(&root, &root).unwrap();
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        assert_eq!(read("usr/sbin/modinfo"), "theirs");
        assert_eq!(read("beside"), "theirs");
    }

    #[test]
    fn what_a_program_names_is_read() {
        let text = "      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]\n\
            0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n\
            0x000000000000000c (INIT)               0x2f98\n";
        assert_eq!(named(text), ["/lib/ld-linux-aarch64.so.1", "libc.so.6"]);
    }
}
