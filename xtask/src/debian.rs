//! A Debian with systemd for guests: the smallest there is, made once from the
//! mirror of the machine's own apt, kept as an image of a file system. That of another
//! processor is set up in a guest: nothing of it runs here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::apt::{self, Reason};
use crate::guest::Addition;
use crate::kernels::{self, Arch, Kernel};
use crate::machine::{self, BootOptions};
use crate::process::Log;
use crate::tools;

const INSTALL_LIMIT: Duration = Duration::from_secs(1800);

/// What is left to do in a guest of another processor; the packages are there, unpacked
/// in part.
const SECOND_STAGE: &str = include_str!("../guest/second-stage.sh");

/// The label by which the guest's first program finds it.
pub const LABEL: &str = "guest-root";

/// More than it takes, for what a test writes; unwritten blocks take no space.
pub const IMAGE_MIB: u64 = 1024;

/// Beside what every Debian has.
pub const PACKAGES: &str = "systemd-sysv,udev,kmod,dbus,dmsetup,cryptsetup-bin,e2fsprogs";

/// The image, made if it is not here; if that cannot be, why.
pub fn image(log: &Log) -> Result<std::result::Result<PathBuf, Reason>> {
    let place = kernels::folder("debian")?;
    let _held = kernels::lock(&place)?;
    let image = place.join("root.ext4");
    if image.exists() {
        return Ok(Ok(image));
    }
    if !tools::is_on_path("mke2fs") {
        return Ok(Err("e2fsprogs is not installed".into()));
    }
    let root = place.join("root");
    if let Err(reason) = install(log, &root, PACKAGES)? {
        return Ok(Err(reason));
    }
    pack(log, &root, &image, IMAGE_MIB)?;
    fs::remove_dir_all(&root)?;
    Ok(Ok(image))
}

/// The same for the processor of that kernel, in which it is set up.
pub fn foreign_image(log: &Log, kernel: &Kernel) -> Result<std::result::Result<PathBuf, Reason>> {
    let arch = kernel.recipe.arch;
    let place = kernels::folder("debian")?;
    let _held = kernels::lock(&place)?;
    let image = place.join(format!("root-{}.ext4", arch.debian()));
    if image.exists() {
        return Ok(Ok(image));
    }
    let root = place.join(format!("root-{}", arch.debian()));
    if let Err(reason) = fetch(log, &root, arch, PACKAGES)? {
        return Ok(Err(reason));
    }
    let unfinished = image.with_extension("unfinished");
    make_file_system(log, &root, &unfinished, IMAGE_MIB)?;
    fs::remove_dir_all(&root)?;
    let boot = BootOptions {
        script: Some(Addition::text("/guest/script", SECOND_STAGE, true)),
        kept: Some(unfinished.clone()),
        memory: 1024,
        limit: INSTALL_LIMIT,
        ..BootOptions::default()
    };
    let mut output = Vec::new();
    let outcome = machine::run(kernel, &boot, &mut output)?;
    log.note(&String::from_utf8_lossy(&output))?;
    if outcome.code != Some(0) {
        log.note(&outcome.messages)?;
        bail!(
            "a Debian for {} cannot be set up, see {}",
            arch.debian(),
            crate::workspace::shown(log.path())
        );
    }
    fs::rename(&unfinished, &image)?;
    Ok(Ok(image))
}

/// A Debian of the machine's own suite in that folder, the smallest there is with
/// some packages more; if that cannot be had, why.
pub fn install(log: &Log, root: &Path, packages: &str) -> Result<std::result::Result<(), Reason>> {
    match own_suite() {
        Some(suite) => install_suite(log, root, &suite, packages),
        None => Ok(Err("this machine is no Debian".into())),
    }
}

/// The same of any suite.
pub fn install_suite(
    log: &Log,
    root: &Path,
    suite: &str,
    packages: &str,
) -> Result<std::result::Result<(), Reason>> {
    bootstrap(log, root, suite, &["--variant=minbase"], packages)
}

/// The packages of the machine's own suite for another processor, fetched and not
/// installed: in `var/cache/apt/archives` of that folder.
pub fn fetch(
    log: &Log,
    root: &Path,
    arch: Arch,
    packages: &str,
) -> Result<std::result::Result<(), Reason>> {
    let Some(suite) = own_suite() else {
        return Ok(Err("this machine is no Debian".into()));
    };
    let arch = format!("--arch={}", arch.debian());
    let options = ["--variant=minbase", "--foreign", &arch];
    bootstrap(log, root, &suite, &options, packages)
}

fn bootstrap(
    log: &Log,
    root: &Path,
    suite: &str,
    options: &[&str],
    packages: &str,
) -> Result<std::result::Result<(), Reason>> {
    if !tools::is_on_path("debootstrap") {
        return Ok(Err("debootstrap is not installed".into()));
    }
    if !tools::is_root() {
        return Ok(Err("debootstrap needs root".into()));
    }
    let Some(source) = apt::own_source() else {
        return Ok(Err("the machine's apt names no Debian mirror".into()));
    };
    if root.exists() {
        fs::remove_dir_all(root)?;
    }
    let mut install = Command::new("debootstrap");
    install.args(options).arg(format!("--include={packages}"));
    if let Some(keyring) = &source.signed_by {
        install.arg(format!("--keyring={keyring}"));
    }
    install.arg(suite).arg(root).arg(&source.address);
    if !log.run(&mut install, INSTALL_LIMIT)?.succeeded() {
        let why = format!(
            "debootstrap fails: is there a network? (see {})",
            crate::workspace::shown(log.path())
        );
        return Ok(Err(why));
    }
    Ok(Ok(()))
}

/// A file system of that size with all that is below a folder, without what apt keeps.
pub fn pack(log: &Log, root: &Path, image: &Path, mib: u64) -> Result<()> {
    fs::remove_dir_all(root.join("var/cache/apt"))?;
    fs::remove_dir_all(root.join("var/lib/apt/lists"))?;
    let unfinished = image.with_extension("unfinished");
    make_file_system(log, root, &unfinished, mib)?;
    fs::rename(&unfinished, image)?;
    Ok(())
}

fn make_file_system(log: &Log, root: &Path, image: &Path, mib: u64) -> Result<()> {
    fs::File::create(image)?.set_len(mib << 20)?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-t", "ext4", "-F", "-L", LABEL, "-d"]);
    make.arg(root).arg(image);
    if !log.run(&mut make, INSTALL_LIMIT)?.succeeded() {
        bail!("mke2fs cannot pack {}", root.display());
    }
    Ok(())
}

/// The machine's own suite: its programs run in the guest, with its libraries.
pub fn own_suite() -> Option<String> {
    suite_of(&fs::read_to_string("/etc/os-release").ok()?)
}

fn suite_of(os_release: &str) -> Option<String> {
    let field = |name: &str| {
        let value = os_release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
        Some(value.trim_matches('"').to_owned())
    };
    (field("ID")? == "debian").then(|| field("VERSION_CODENAME"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suite_is_debians() {
        let text = "NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(suite_of(text).as_deref(), Some("bookworm"));
        assert_eq!(suite_of("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(suite_of("ID=\"debian\"\n"), None);
    }
}
