//! What a guest boots into: an archive in memory with programs of this machine,
//! the kernel's modules, and what one run adds. Guests see nothing else of the
//! machine, so nothing that they do can harm it.
//!
//! The archive is three, one behind the other, as the kernel takes them: programs
//! and modules are kept, the run's own is made anew.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};

use zmeld_vm::libraries_of;

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

/// What one run adds.
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
    let place = kernels::folder("guest")?;
    let mut out = File::create(to)?;
    for part in [
        programs_archive(&place, programs)?,
        modules_archive(kernel)?,
    ] {
        std::io::copy(&mut File::open(part)?, &mut out)?;
    }
    let own = to.with_extension("tree");
    for addition in additions {
        let path = own.join(archive_name(&addition.name));
        fs::create_dir_all(path.parent().unwrap_or(&own))?;
        fs::write(&path, &addition.bytes)?;
        let mode = if addition.executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    pack(&own, &mut out)?;
    fs::remove_dir_all(&own)?;
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

/// Packs a folder's tree behind what is in `out`.
fn pack(tree: &Path, out: &mut File) -> Result<()> {
    let mut child = Command::new("sh")
        .current_dir(tree)
        .args([
            "-c",
            "find . -mindepth 1 | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet",
        ])
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .spawn()
        .context("cannot start sh")?;
    if !child.wait()?.success() {
        bail!("cpio cannot pack {}: is it installed?", tree.display());
    }
    out.flush()?;
    Ok(())
}

/// The archive of programs: kept under a name that tells what is in it.
fn programs_archive(place: &Path, more: &[String]) -> Result<PathBuf> {
    let busybox = tools::on_path("busybox").context("busybox-static is not installed")?;
    let mut files = vec![busybox.clone()];
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
    let archive = place.join(format!("programs-{:016x}.cpio", hash.finish()));
    let _held = kernels::lock(place)?;
    if archive.exists() {
        return Ok(archive);
    }
    let tree = place.join("programs.tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    for folder in [
        "bin", "sbin", "usr", "lib64", "dev", "proc", "sys", "tmp", "run", "mnt", "etc",
    ] {
        fs::create_dir_all(tree.join(folder))?;
    }
    for (link, target) in [
        ("usr/bin", "../bin"),
        ("usr/sbin", "../sbin"),
        ("lib", "usr/lib"),
    ] {
        fs::create_dir_all(tree.join("usr/lib"))?;
        symlink(target, tree.join(link))?;
    }
    let mut libraries = BTreeSet::new();
    for file in &files {
        let folder = if file.starts_with("/usr/sbin") || file.starts_with("/sbin") {
            "sbin"
        } else {
            "bin"
        };
        let name = file.file_name().unwrap_or_default();
        fs::copy(file, tree.join(folder).join(name))?;
        libraries.extend(libraries_of(file));
    }
    // Loaded by name when a thread is stopped, so ldd does not tell.
    libraries.extend(stopping_library());
    // What the first lines of scripts name.
    for name in ["sh", "env"] {
        symlink("busybox", tree.join("bin").join(name))?;
    }
    for name in KMOD_NAMES {
        let link = tree.join("sbin").join(name);
        if tree.join("bin/kmod").exists() && !link.exists() {
            symlink("../bin/kmod", link)?;
        }
    }
    for library in libraries {
        // Under its own name: that is where the program looks.
        let to = tree.join(library.strip_prefix("/").unwrap_or(&library));
        fs::create_dir_all(to.parent().unwrap_or(&tree))?;
        fs::copy(&library, &to)?;
    }
    write_kept(&tree, &archive)?;
    fs::remove_dir_all(&tree)?;
    Ok(archive)
}

fn write_kept(tree: &Path, archive: &Path) -> Result<()> {
    let unfinished = archive.with_extension("unfinished");
    pack(tree, &mut File::create(&unfinished)?)?;
    fs::rename(&unfinished, archive)?;
    Ok(())
}

/// The kernel's modules as an archive.
fn modules_archive(kernel: &Kernel) -> Result<PathBuf> {
    let archive = kernel.folder()?.join("modules.cpio");
    let _held = kernels::lock(&kernel.folder()?)?;
    if !archive.exists() {
        // Under usr/lib, where lib points to.
        let tree = kernel.folder()?.join("modules.tree/usr");
        if tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        fs::create_dir_all(&tree)?;
        let copied = Command::new("cp")
            .arg("-r")
            .arg(kernel.modules.join("lib"))
            .arg(&tree)
            .status()?;
        if !copied.success() {
            bail!("cannot copy {}", kernel.modules.display());
        }
        let tree = kernel.folder()?.join("modules.tree");
        for link in ["build", "source"] {
            let link = tree
                .join("usr/lib/modules")
                .join(&kernel.release)
                .join(link);
            if link.is_symlink() {
                fs::remove_file(link)?;
            }
        }
        write_kept(&tree, &archive)?;
        fs::remove_dir_all(&tree)?;
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
