//! What a guest boots into: an archive in memory with programs of this machine,
//! the kernel's modules, and what one run adds. Guests see nothing else of the
//! machine, so nothing that they do can harm it.
//!
//! The archive is three, one behind the other, as the kernel takes them: programs
//! and modules are kept, the run's own is made anew.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use zmeld_vm::{libraries_of, Archive};

use crate::foreign;
use crate::kernels::{self, Kernel};
use crate::tools;

/// Programs that every guest gets where this machine has them.
const PROGRAMS: &[&str] = &[
    "bash",
    "kmod",
    "zramctl",
    "losetup",
    "mkswap",
    "swapon",
    "swapoff",
    "blkdiscard",
    "blockdev",
    "mkfs.ext4",
    "e2fsck",
    "mkfs.btrfs",
    "btrfs",
    "dmsetup",
    "modinfo",
    "mount",
    "umount",
    "stat",
    "fallocate",
];

/// Kmod is one program with many names.
const KMOD_NAMES: &[&str] = &["modprobe", "insmod", "rmmod", "lsmod", "depmod"];

/// Folders that are there, empty or not.
const FOLDERS: &[&str] = &[
    "bin", "sbin", "usr/lib", "lib64", "dev", "proc", "sys", "tmp", "run", "mnt", "etc",
];

/// Folders and what first lines of scripts name.
const LINKS: &[(&str, &str)] = &[
    ("usr/bin", "../bin"),
    ("usr/sbin", "../sbin"),
    ("lib", "usr/lib"),
    ("bin/sh", "busybox"),
    ("bin/env", "busybox"),
];

/// What one run adds.
#[derive(Clone)]
pub struct Addition {
    /// Where the guest finds it.
    pub name: String,
    /// Its contents.
    pub bytes: Vec<u8>,
    /// Whether it is a program.
    pub executable: bool,
}

impl Addition {
    /// Text that the guest reads or runs.
    pub fn text(name: &str, text: impl Into<String>, executable: bool) -> Addition {
        Addition {
            name: name.to_owned(),
            bytes: text.into().into_bytes(),
            executable,
        }
    }

    /// A module of the kernel, under its file's name.
    pub fn module(path: &Path) -> Result<Addition> {
        let name = path.file_name().unwrap_or_default();
        Addition::file(&name.to_string_lossy(), path)
    }

    /// A file of this machine.
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
    let folder = kernels::folder("guest")?;
    let mut out = File::create(to)?;
    for part in [
        programs_archive(kernel, &folder, programs)?,
        modules_archive(kernel)?,
    ] {
        std::io::copy(&mut File::open(part)?, &mut out)?;
    }
    let mut own = Archive::new(out, to);
    for addition in additions {
        let name = archive_name(&addition.name);
        own.file(&name, &addition.bytes, addition.executable)?;
    }
    own.finish()?;
    Ok(())
}

/// Where an archive keeps a file: a folder of the name would take the place of the
/// guest's link from /lib to /usr/lib, and its modules with it.
fn archive_name(name: &str) -> String {
    match name.strip_prefix("/lib/") {
        Some(rest) => format!("usr/lib/{rest}"),
        None => name.trim_start_matches('/').to_owned(),
    }
}

/// An archive that is kept: whole under its name, or not there.
fn keep(
    archive: &Path,
    fill: impl FnOnce(&mut Archive<BufWriter<File>>) -> Result<()>,
) -> Result<()> {
    let unfinished = archive.with_extension("unfinished");
    let out = BufWriter::new(File::create(&unfinished)?);
    let mut packed = Archive::new(out, &unfinished);
    fill(&mut packed)?;
    packed.finish()?;
    fs::rename(&unfinished, archive)?;
    Ok(())
}

/// Where a guest's program is here: this machine's, or one of the guest's processor.
pub fn program(kernel: &Kernel, name: &str) -> Option<PathBuf> {
    match &kernel.programs {
        None => tools::on_path(name),
        Some(root) => foreign::find(root, name),
    }
}

/// The libraries of a guest's program: where it looks for each, and where that is here.
pub fn libraries(kernel: &Kernel, program: &Path) -> Result<Vec<(String, PathBuf)>> {
    match &kernel.programs {
        Some(root) => foreign::libraries(root, program),
        // Under its own name: that is where the program looks.
        None => Ok(libraries_of(program)
            .into_iter()
            .map(|library| (library.display().to_string(), library))
            .collect()),
    }
}

/// The archive of programs: kept under a name that tells what is in it.
fn programs_archive(kernel: &Kernel, folder: &Path, more: &[String]) -> Result<PathBuf> {
    let busybox = program(kernel, "busybox").context("busybox-static is not installed")?;
    let mut files = vec![busybox];
    files.extend(PROGRAMS.iter().filter_map(|name| program(kernel, name)));
    for name in more {
        let file = program(kernel, name)
            .with_context(|| format!("{name} is not on this machine, and the guest needs it"))?;
        files.push(file);
    }
    let mut hash = DefaultHasher::new();
    stopping_library(kernel).hash(&mut hash);
    for file in &files {
        (file, fs::metadata(file)?.modified()?).hash(&mut hash);
    }
    let archive = folder.join(format!("programs-{:016x}.cpio", hash.finish()));
    let _held = kernels::lock(folder)?;
    if !archive.exists() {
        keep(&archive, |packed| add_programs(kernel, packed, &files))?;
    }
    Ok(archive)
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

/// The kernel's modules as an archive.
fn modules_archive(kernel: &Kernel) -> Result<PathBuf> {
    let archive = kernel.folder()?.join("modules.cpio");
    let _held = kernels::lock(&kernel.folder()?)?;
    if !archive.exists() {
        // Under usr/lib, where lib points to.
        let modules = kernel.modules.join("lib");
        keep(&archive, |packed| Ok(packed.tree(&modules, "usr/lib")?))?;
    }
    Ok(archive)
}

fn stopping_library(kernel: &Kernel) -> Option<(String, PathBuf)> {
    const NAME: &str = "libgcc_s.so.1";
    if let Some(root) = &kernel.programs {
        return foreign::library(root, NAME);
    }
    let mut command = Command::new(tools::c_compiler());
    let output = command
        .arg(format!("-print-file-name={NAME}"))
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    // Through the folder's links: programs look where the linker's path ends.
    let path = path.is_absolute().then(|| path.canonicalize().ok())??;
    Some((path.display().to_string(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_into_a_linked_folder_goes_behind_the_link() {
        assert_eq!(archive_name("/lib/x/libc.so.6"), "usr/lib/x/libc.so.6");
        assert_eq!(archive_name("/lib64/ld.so"), "lib64/ld.so");
        assert_eq!(archive_name("/guest/lib/a"), "guest/lib/a");
        assert_eq!(archive_name("guest/a"), "guest/a");
    }
}
