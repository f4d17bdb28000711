//! What a guest boots into: an archive in memory with programs of this machine,
//! the kernel's modules, and what one run adds. Guests see nothing else of the
//! machine, so nothing that they do can harm it.
//!
//! The archive is three, one behind the other, as the kernel takes them: programs
//! and modules are kept, the run's own is made anew.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use zmeld_vm::{libraries_of, Archive};

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
        programs_archive(&folder, programs)?,
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

/// The archive of programs: kept under a name that tells what is in it.
fn programs_archive(folder: &Path, more: &[String]) -> Result<PathBuf> {
    let busybox = tools::on_path("busybox").context("busybox-static is not installed")?;
    let mut files = vec![busybox];
    files.extend(PROGRAMS.iter().filter_map(|name| tools::on_path(name)));
    for name in more {
        let file = tools::on_path(name)
            .with_context(|| format!("{name} is not on this machine, and the guest needs it"))?;
        files.push(file);
    }
    let mut hash = DefaultHasher::new();
    stopping_library().hash(&mut hash);
    for file in &files {
        (file, fs::metadata(file)?.modified()?).hash(&mut hash);
    }
    let archive = folder.join(format!("programs-{:016x}.cpio", hash.finish()));
    let _held = kernels::lock(folder)?;
    if !archive.exists() {
        keep(&archive, |packed| add_programs(packed, &files))?;
    }
    Ok(archive)
}

fn add_programs<W: Write>(archive: &mut Archive<W>, files: &[PathBuf]) -> Result<()> {
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    for (link, target) in LINKS {
        archive.link(link, target)?;
    }
    let mut libraries = BTreeSet::new();
    for file in files {
        let folder = if file.starts_with("/usr/sbin") || file.starts_with("/sbin") {
            "sbin"
        } else {
            "bin"
        };
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        archive.copy(file, &format!("{folder}/{name}"))?;
        libraries.extend(libraries_of(file));
        if name == "kmod" {
            for name in KMOD_NAMES {
                archive.link(&format!("sbin/{name}"), &format!("../{folder}/kmod"))?;
            }
        }
    }
    // Loaded by name when a thread is stopped, so ldd does not tell.
    libraries.extend(stopping_library());
    for library in libraries {
        // Under its own name: that is where the program looks.
        archive.copy(&library, &archive_name(&library.to_string_lossy()))?;
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

fn stopping_library() -> Option<PathBuf> {
    let mut command = Command::new(tools::c_compiler());
    let output = command
        .arg("-print-file-name=libgcc_s.so.1")
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    // Through the folder's links: programs look where the linker's path ends.
    path.is_absolute()
        .then(|| path.canonicalize().ok())
        .flatten()
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
