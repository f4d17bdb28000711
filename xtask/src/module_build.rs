//! Building zmeld.ko or zword.ko for a kernel: on a copy of its sources, so that
//! several kernels do not meet in one folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::kernels::{Kernel, KernelRecipe};
use crate::process::Log;
use crate::tools;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(900);

/// The folders of `store` that zmeld.ko is built from.
pub const SOURCES: &[&str] = &["include", "core", "zword", "port/linux", "kmod"];

/// The same of zword.ko, whose probes are run by the script of zmeld.ko.
pub const CODEC_SOURCES: &[&str] = &["include", "zword", "port/linux", "crypto", "kmod"];

/// Which module is built, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// As users build it.
    Release,
    /// With assertions, and self-tests when it is loaded.
    Debug,
    /// The same with blocks of 512 bytes: a page has parts, as it has where pages
    /// are larger than 4 KiB.
    SmallBlocks,
    /// The same with fingerprints of one bit: many pages share one, and are no
    /// twins.
    NarrowFingerprints,
    /// zword.ko, as users build it.
    Codec,
}

impl Flavour {
    /// What a kernel gets where nobody asks for another.
    pub fn of(recipe: &KernelRecipe) -> Flavour {
        if recipe.checks {
            Flavour::Debug
        } else {
            Flavour::Release
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Flavour::Release => "module",
            Flavour::Debug => "module-debug",
            Flavour::SmallBlocks => "module-small-blocks",
            Flavour::NarrowFingerprints => "module-narrow-fingerprints",
            Flavour::Codec => "codec",
        }
    }

    fn sources(self) -> &'static [&'static str] {
        match self {
            Flavour::Codec => CODEC_SOURCES,
            _ => SOURCES,
        }
    }

    /// Where its Kbuild is, below its sources.
    fn kbuild(self) -> &'static str {
        match self {
            Flavour::Codec => "crypto",
            _ => "kmod",
        }
    }

    /// The module's file.
    fn file(self) -> &'static str {
        match self {
            Flavour::Codec => "zword.ko",
            _ => "zmeld.ko",
        }
    }

    /// What the kernel has, found when the module is built for it.
    pub fn features(self) -> &'static str {
        match self {
            Flavour::Codec => CODEC_FEATURES,
            _ => FEATURES,
        }
    }

    fn variables(self) -> &'static [&'static str] {
        match self {
            Flavour::Codec => &[],
            Flavour::Release => &["ZMELD_DEBUG=0"],
            Flavour::Debug => &["ZMELD_DEBUG=1"],
            Flavour::SmallBlocks => &["ZMELD_DEBUG=1", "ZMELD_BLOCK_SIZE=512"],
            Flavour::NarrowFingerprints => &["ZMELD_DEBUG=1", "ZMELD_FINGERPRINT_BITS=1"],
        }
    }
}

/// Whether there is a module to build.
pub fn is_there() -> bool {
    workspace::root().join("store/kmod/Kbuild").exists()
}

/// Builds the module with all warnings that the kernel has; any is an error.
pub fn build(log: &Log, kernel: &Kernel, flavour: Flavour) -> Result<PathBuf> {
    let place = copy_of_sources(kernel, flavour)?;
    build_at(log, kernel, flavour, &place)
}

/// The same from another store than the workspace's.
pub fn build_from(log: &Log, kernel: &Kernel, flavour: Flavour, store: &Path) -> Result<PathBuf> {
    let folder = format!("{}-of-copy", flavour.folder());
    let place = copy_of(store, kernel, flavour, &folder)?;
    build_at(log, kernel, flavour, &place)
}

fn build_at(log: &Log, kernel: &Kernel, flavour: Flavour, place: &Path) -> Result<PathBuf> {
    let mut command = make(kernel, place, flavour);
    command.args(["W=1", "modules"]);
    let ran = log.run(&mut command, LIMIT)?;
    if !ran.succeeded() {
        bail!(
            "{} does not build for {}",
            flavour.file(),
            kernel.recipe.name
        );
    }
    let warnings = warnings(&ran.text);
    if !warnings.is_empty() {
        bail!(
            "{} builds for {} with warnings:\n{}",
            flavour.file(),
            kernel.recipe.name,
            warnings.join("\n")
        );
    }
    Ok(place.join(flavour.file()))
}

/// Has sparse read all of it; what it says about our files. None: the kernel's build
/// refuses this machine's sparse, and goes on without.
pub fn sparse(log: &Log, kernel: &Kernel, flavour: Flavour) -> Result<Option<Vec<String>>> {
    let place = copy_of_sources(kernel, flavour)?;
    let mut command = make(kernel, &place, flavour);
    // C=2 reads files that need no compiling, too.
    command.args(["C=2", "CHECK=sparse", "modules"]);
    let ran = log.run(&mut command, LIMIT)?;
    if !ran.succeeded() {
        bail!(
            "sparse fails on {} for {}",
            flavour.file(),
            kernel.recipe.name
        );
    }
    if ran
        .text
        .contains("sparse is not available or not up to date")
    {
        return Ok(None);
    }
    let ours = place.parent().unwrap_or(&place).display().to_string();
    let said = ran
        .text
        .lines()
        .filter(|line| line.contains(&ours) || line.starts_with("../") || !line.contains('/'))
        .filter(|line| line.contains(": warning:") || line.contains(": error:"))
        .map(str::to_owned)
        .collect();
    Ok(Some(said))
}

fn make(kernel: &Kernel, place: &Path, flavour: Flavour) -> Command {
    let mut command = kernel.make();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    command.arg(format!("-j{jobs}"));
    command.arg(format!("M={}", place.display()));
    command.args(flavour.variables());
    // Where its compilers are not this machine's, there is none beside them.
    if !tools::is_on_path("pahole") || kernel.compilers.is_some() {
        command.arg("CONFIG_DEBUG_INFO_BTF_MODULES=");
    }
    command
}

/// What the compiler or modpost had to say; that it is not the compiler of the
/// kernel, or that type information is left out, is nothing about our sources.
fn warnings(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.to_lowercase().contains("warning"))
        .filter(|line| !line.contains("the compiler differs from the one used to build"))
        .filter(|line| !line.contains("pahole version differs from the one used to build"))
        .map(str::to_owned)
        .collect()
}

fn copy_of_sources(kernel: &Kernel, flavour: Flavour) -> Result<PathBuf> {
    let store = workspace::root().join("store");
    copy_of(&store, kernel, flavour, flavour.folder())
}

fn copy_of(store: &Path, kernel: &Kernel, flavour: Flavour, folder: &str) -> Result<PathBuf> {
    // By checkout, not by kernel: checkouts may share `target/kernels`.
    let place = workspace::work_folder(&format!("module/{}", kernel.recipe.name))?
        .canonicalize()?
        .join(folder);
    for part in flavour.sources() {
        mirror(&store.join(part), &place.join(part))?;
    }
    Ok(place.join(flavour.kbuild()))
}

/// Makes `to` hold the sources of `from`: what is the same keeps its time, so that
/// make leaves it; what is gone goes.
pub fn mirror(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_owned();
        if path.is_dir() {
            if name != "tests" {
                mirror(&path, &to.join(&name))?;
            }
            continue;
        }
        if !is_source(&path) {
            continue;
        }
        let (bytes, copy) = (fs::read(&path)?, to.join(&name));
        if fs::read(&copy).ok().as_ref() != Some(&bytes) {
            fs::write(&copy, bytes)?;
        }
        names.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_owned();
        if is_source(&path) && !names.contains(&name) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// What a kernel has, found when zmeld.ko is built for it.
pub const FEATURES: &str = "kernel_has.h";

/// The same for zword.ko.
pub const CODEC_FEATURES: &str = "zword_has.h";

fn is_source(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if matches!(&*name, FEATURES | CODEC_FEATURES) {
        return false;
    }
    if name == "probe.sh" {
        return true;
    }
    match path
        .extension()
        .map(|extension| extension.to_string_lossy())
    {
        Some(extension) => matches!(&*extension, "c" | "h") && !name.ends_with(".mod.c"),
        None => matches!(&*name, "Kbuild" | "Makefile"),
    }
}

/// A program for guests, from a C file, without libraries.
pub fn guest_program(log: &Log, recipe: &KernelRecipe, source: &Path) -> Result<PathBuf> {
    let name = format!("guest/{}-{}", recipe.arch.debian(), recipe.page_bytes());
    let folder = workspace::work_folder(&name)?;
    let program = folder.join(workspace::stem(source));
    let mut command = match recipe.arch.cross() {
        None => Command::new(tools::c_compiler()),
        Some(prefix) => Command::new(format!("{prefix}gcc")),
    };
    command.args([
        "-std=gnu11",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-static",
    ]);
    command.arg(format!("-DPAGE={}", recipe.page_bytes()));
    command.arg(source).arg("-o").arg(&program).arg("-lpthread");
    if !log.run(&mut command, LIMIT)?.succeeded() {
        bail!("{} does not compile", workspace::shown(source));
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_of_the_compiler_is_seen() {
        let text = "warning: the compiler differs from the one used to build the kernel\n\
                    /x/store/core/page.c:3:5: warning: unused variable\n  CC [M]  page.o\n";
        assert_eq!(
            warnings(text),
            ["/x/store/core/page.c:3:5: warning: unused variable"]
        );
    }

    #[test]
    fn a_copy_follows_its_source() {
        let folder = workspace::work_folder("unit/mirror").unwrap();
        let (from, to) = (folder.join("from"), folder.join("to"));
        for old in [&from, &to] {
            let _ = fs::remove_dir_all(old);
        }
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("a.c"), "1").unwrap();
        fs::write(from.join("sub/b.h"), "2").unwrap();
        fs::write(from.join("a.o"), "product").unwrap();
        mirror(&from, &to).unwrap();
        assert!(to.join("a.c").exists() && to.join("sub/b.h").exists());
        assert!(!to.join("a.o").exists());
        fs::write(to.join("a.o"), "kept").unwrap();
        fs::remove_file(from.join("a.c")).unwrap();
        mirror(&from, &to).unwrap();
        assert!(!to.join("a.c").exists() && to.join("a.o").exists());
    }
}
