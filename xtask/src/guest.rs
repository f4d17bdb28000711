//! A guest boots into an archive in memory with programs of this machine, the kernel's modules, and
//! what one run adds. Guests see nothing else of the machine, so nothing that they do can harm it.
//!
//! The archive is three, one behind the other, as the kernel takes them: programs
//! and modules are kept, the run's own is made anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use zmeld_vm::{libraries_of, Archive};

use crate::process::{output_of, unavailable, Log};
use crate::recipes::{self, Arch, Kernel};
use crate::tools;
use crate::workspace;
use crate::{apt, debian};

/// Programs that every guest gets where this machine has them.
const PROGRAMS: &str = "bash kmod zramctl losetup mkswap swapon swapoff blkdiscard blockdev \
    mkfs.ext4 e2fsck dmsetup modinfo mount umount stat fallocate";

const KMOD_NAMES: &[&str] = &["modprobe", "insmod", "rmmod", "lsmod", "depmod"];

const FOLDERS: &[&str] = &[
    "bin", "sbin", "usr/lib", "lib64", "dev", "proc", "sys", "tmp", "run", "mnt", "etc",
];

/// The groups that device nodes belong to.
const GROUPS: &[u8] = b"root:x:0:\ndisk:x:6:\n";

/// Folders and what first lines of scripts name.
const LINKS: &[(&str, &str)] = &[
    ("usr/bin", "../bin"),
    ("usr/sbin", "../sbin"),
    ("lib", "usr/lib"),
    ("bin/sh", "busybox"),
    ("bin/env", "busybox"),
];

#[derive(Clone)]
pub struct Addition {
    pub name: String,
    pub bytes: Vec<u8>,
    pub executable: bool,
}

impl Addition {
    pub fn text(name: &str, text: impl Into<String>, executable: bool) -> Addition {
        Addition {
            name: name.to_owned(),
            bytes: text.into().into_bytes(),
            executable,
        }
    }

    pub fn module(path: &Path) -> Result<Addition> {
        let name = path.file_name().unwrap_or_default();
        Addition::file(&name.to_string_lossy(), path)
    }

    pub fn file(name: &str, path: &Path) -> Result<Addition> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mode = fs::metadata(path)?.permissions().mode();
        Ok(Addition {
            name: name.to_owned(),
            bytes,
            executable: mode & 0o111 != 0,
        })
    }
}

/// Writes the archive for one run.
///
/// # Errors
/// Says what is missing where a program was asked for by name.
pub fn write_archive(
    kernel: &Kernel,
    programs: &[String],
    additions: &[Addition],
    to: &Path,
) -> Result<()> {
    let folder = recipes::folder("guest")?;
    let mut out = File::create(to)?;
    for part in [
        programs_archive(kernel, &folder, programs)?,
        modules_archive(kernel)?,
    ] {
        std::io::copy(&mut File::open(part)?, &mut out)?;
    }
    let mut own = Archive::new(out, to);
    own.file("etc/group", GROUPS, false)?;
    for addition in additions {
        let name = archive_name(&addition.name);
        own.file(&name, &addition.bytes, addition.executable)?;
    }
    own.finish()?;
    Ok(())
}

/// Path of a file in an archive: a folder of the name would take the place of the
/// guest's link from /lib to /usr/lib, and its modules with it.
fn archive_name(name: &str) -> String {
    match name.strip_prefix("/lib/") {
        Some(rest) => format!("usr/lib/{rest}"),
        None => name.trim_start_matches('/').to_owned(),
    }
}

fn keep(
    place: &Path,
    fill: impl FnOnce(&mut Archive<BufWriter<File>>) -> Result<()>,
) -> Result<()> {
    let mut packed = Archive::new(BufWriter::new(File::create(place)?), place);
    fill(&mut packed)?;
    packed.finish()?;
    Ok(())
}

/// Path here of a guest's program: this machine's, or one of the guest's processor.
pub fn program(kernel: &Kernel, name: &str) -> Result<PathBuf> {
    let found = match &kernel.programs {
        None => tools::on_path(name),
        Some(root) => find_foreign(root, name),
    };
    match found {
        Some(found) => Ok(found),
        None => unavailable!("{name} is not on this machine, and the guest needs it"),
    }
}

/// The libraries of a guest's program: where it looks for each, and where that is here.
pub fn libraries(kernel: &Kernel, program: &Path) -> Result<Vec<(String, PathBuf)>> {
    match &kernel.programs {
        Some(root) => foreign_libraries(root, program),
        // Under its own name: that is where the program looks.
        None => Ok(libraries_of(program)
            .into_iter()
            .map(|library| (library.display().to_string(), library))
            .collect()),
    }
}

/// The archive of programs: kept under a name that tells what is in it.
fn programs_archive(kernel: &Kernel, folder: &Path, more: &[String]) -> Result<PathBuf> {
    let mut files = vec![program(kernel, "busybox")?];
    let usual = PROGRAMS.split_whitespace();
    files.extend(usual.filter_map(|name| program(kernel, name).ok()));
    for name in more {
        files.push(program(kernel, name)?);
    }
    let mut hash = DefaultHasher::new();
    stopping_library(kernel).hash(&mut hash);
    for file in &files {
        (file, fs::metadata(file)?.modified()?).hash(&mut hash);
    }
    let archive = folder.join(format!("programs-{:016x}.cpio", hash.finish()));
    let _held = recipes::lock(folder)?;
    workspace::kept(archive, |unfinished| {
        keep(unfinished, |packed| add_programs(kernel, packed, &files))
    })
}

fn add_programs<W: Write>(
    kernel: &Kernel,
    archive: &mut Archive<W>,
    files: &[PathBuf],
) -> Result<()> {
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    for (link, target) in LINKS {
        archive.link(link, target)?;
    }
    let mut libraries = BTreeMap::new();
    for file in files {
        let is_for_root = file.parent().is_some_and(|folder| folder.ends_with("sbin"));
        let folder = if is_for_root { "sbin" } else { "bin" };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.copy(file, &format!("{folder}/{name}"))?;
        libraries.extend(self::libraries(kernel, file)?);
        if name == "kmod" {
            for name in KMOD_NAMES {
                archive.link(&format!("sbin/{name}"), &format!("../{folder}/kmod"))?;
            }
        }
    }
    // Loaded by name when a thread is stopped, so nothing names it.
    libraries.extend(stopping_library(kernel));
    for (place, library) in libraries {
        archive.copy(&library, &archive_name(&place))?;
    }
    Ok(())
}

fn modules_archive(kernel: &Kernel) -> Result<PathBuf> {
    let _held = recipes::lock(&kernel.folder()?)?;
    // Under usr/lib, where lib points to.
    let modules = kernel.modules.join("lib");
    workspace::kept(
        kernel.folder()?.join(recipes::MODULES_ARCHIVE),
        |unfinished| keep(unfinished, |packed| Ok(packed.tree(&modules, "usr/lib")?)),
    )
}

fn stopping_library(kernel: &Kernel) -> Option<(String, PathBuf)> {
    const NAME: &str = "libgcc_s.so.1";
    if let Some(root) = &kernel.programs {
        return foreign_library(root, NAME);
    }
    let mut command = Command::new(tools::c_compiler());
    let path = output_of(command.arg(format!("-print-file-name={NAME}"))).ok()?;
    let path = PathBuf::from(path);
    // Through the folder's links: programs look where the linker's path ends.
    let path = path.is_absolute().then(|| path.canonicalize().ok())??;
    Some((path.display().to_string(), path))
}

// Programs of another processor, for guests that have one: Debian's packages for it,
// unpacked and not set up, so that nothing of theirs runs here.

/// Packages of guests' programs, fetched with their dependencies.
const FOREIGN_PACKAGES: &str =
    "busybox-static,bash,kmod,mount,util-linux,e2fsprogs,dmsetup,cryptsetup-bin";

/// A link that names a place from the root on would lead out of the folder: it leads to
/// the same place in it.
const KEEP_LINKS_INSIDE: &str = r#"
find "$0" -lname '/*' | while read -r link; do
	ln -sfn "$(realpath -ms --relative-to="${link%/*}" "$0$(readlink "$link")")" "$link"
done
"#;

/// The folder of its programs, made if it is not here.
pub fn foreign_root(log: &Log, arch: Arch) -> Result<PathBuf> {
    let place = recipes::folder("debian")?;
    let _held = recipes::lock(&place)?;
    let root = place.join(format!("programs-{}", arch.debian()));
    workspace::kept(root, |unfinished| {
        let fetched = place.join(format!("fetched-{}", arch.debian()));
        debian::fetch(log, &fetched, arch, FOREIGN_PACKAGES)?;
        fs::create_dir_all(unfinished)?;
        apt::unpack_all(log, &fetched.join("var/cache/apt/archives"), unfinished)?;
        let mut keep_inside = Command::new("sh");
        log.must(keep_inside.args(["-c", KEEP_LINKS_INSIDE]).arg(unfinished))?;
        workspace::remove(&fetched)
    })
}

fn find_foreign(root: &Path, name: &str) -> Option<PathBuf> {
    ["usr/bin", "bin", "usr/sbin", "sbin"]
        .iter()
        .map(|folder| root.join(folder).join(name))
        .find(|path| path.is_file())
}

/// The libraries that a program is linked with, directly or not, and its loader: where
/// it looks for each, and where that is here.
fn foreign_libraries(root: &Path, program: &Path) -> Result<Vec<(String, PathBuf)>> {
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
            let (place, path) = foreign_library(root, &name)
                .with_context(|| format!("{} needs {name}", file.display()))?;
            next.push(path.clone());
            found.push((place, path));
        }
    }
    Ok(found)
}

/// Names in a program or library: libraries, and a loader with its path.
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

/// Path by which programs find a library, and its path here.
fn foreign_library(root: &Path, name: &str) -> Option<(String, PathBuf)> {
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
