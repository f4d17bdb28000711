//! Programs of another processor, for guests that have one: Debian's packages for it,
//! unpacked and not set up, so that nothing of theirs runs here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt;
use crate::debian;
use crate::kernels::{self, Arch};
use crate::process::{output_of, Log};
use crate::workspace;

/// What guests start, with what it depends on.
const PACKAGES: &str =
    "busybox-static,bash,kmod,mount,util-linux,e2fsprogs,btrfs-progs,dmsetup,cryptsetup-bin,fio";

/// A link that names a place from the root on would lead out of the folder: it leads to
/// the same place in it.
const KEEP_LINKS_INSIDE: &str = r#"
find "$0" -lname '/*' | while read -r link; do
	ln -sfn "$(realpath -ms --relative-to="${link%/*}" "$0$(readlink "$link")")" "$link"
done
"#;

/// The folder of its programs, made if it is not here.
pub fn root(log: &Log, arch: Arch) -> Result<PathBuf> {
    let place = kernels::folder("debian")?;
    let _held = kernels::lock(&place)?;
    let root = place.join(format!("programs-{}", arch.debian()));
    workspace::kept(root, |unfinished| {
        let fetched = place.join(format!("fetched-{}", arch.debian()));
        debian::fetch(log, &fetched, arch, PACKAGES)?;
        fs::create_dir_all(unfinished)?;
        apt::unpack_all(log, &fetched.join("var/cache/apt/archives"), unfinished)?;
        log.must(&mut keep_links_inside(unfinished))?;
        workspace::remove(&fetched)
    })
}

fn keep_links_inside(root: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", KEEP_LINKS_INSIDE]).arg(root);
    command
}

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
        // A script names nothing.
        let said = output_of(Command::new("readelf").args(["-W", "-d", "-l"]).arg(&file));
        for name in named(&said.unwrap_or_default()) {
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
fn named(text: &str) -> Vec<String> {
    let after = |line: &str, word: &str| {
        let (_, rest) = line.split_once(word)?;
        Some(rest.trim_end().trim_end_matches(']').to_owned())
    };
    text.lines()
        .filter_map(|line| match line.contains("(NEEDED)") {
            true => after(line, "["),
            false => after(line, "program interpreter: "),
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
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside() {
        let root = workspace::work_folder("unit/foreign").unwrap();
        workspace::empty_folder(&root).unwrap();
        fs::create_dir_all(root.join("usr/sbin")).unwrap();
        fs::write(root.join("usr/kmod"), "theirs").unwrap();
        symlink("/usr/kmod", root.join("usr/sbin/modinfo")).unwrap();
        symlink("/usr/sbin/modinfo", root.join("twice")).unwrap();
        symlink("usr/kmod", root.join("beside")).unwrap();
        output_of(&mut keep_links_inside(&root)).unwrap();
        for name in ["usr/sbin/modinfo", "twice", "beside"] {
            assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "theirs");
        }
    }

    #[test]
    fn what_a_program_names_is_read() {
        let text = "      [Requesting program interpreter: /lib/ld-linux-aarch64.so.1]\n\
            0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n\
            0x000000000000000c (INIT)               0x2f98\n";
        assert_eq!(named(text), ["/lib/ld-linux-aarch64.so.1", "libc.so.6"]);
    }
}
