//! Which kernels there are, and where each is kept.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use zmeld_linux::lock::{Attempt, FileLock};

use crate::workspace;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// As a program, built from the newest sources.
    UserMode,
    /// In QEMU, as Debian ships it.
    Stock,
    /// In QEMU, built from the newest sources to watch for data races.
    Watching,
}

impl Kind {
    /// Kbuild's name of the processor of kernels that we build.
    pub fn kbuild(self) -> &'static str {
        match self {
            Kind::UserMode => "um",
            _ => "x86_64",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    pub fn debian(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }

    /// The prefix of compilers for it, where they are not this machine's own.
    pub fn cross(self) -> Option<&'static str> {
        match self {
            Arch::Amd64 => None,
            Arch::Arm64 => Some("aarch64-linux-gnu-"),
        }
    }
}

/// Modules of a kernel, as its guests get them.
pub const MODULES_ARCHIVE: &str = "modules.cpio";
/// What a kernel says that boots alone.
pub const BOOT_ALONE: &str = "boot-alone.log";

pub struct KernelRecipe {
    pub name: &'static str,
    pub kind: Kind,
    /// Built with every check of its own: slow, in need of more memory, and the
    /// place for a module with assertions.
    pub checks: bool,
    pub suite: &'static str,
    /// A stock kernel's version as far as it is chosen, and its flavour.
    pub series: (&'static str, &'static str),
    pub fragments: &'static [&'static str],
    /// Patches against its sources, for what goes wrong in them under our tests.
    pub fixes: &'static [&'static str],
    /// With zword in its sources, by `kernel-patch`.
    pub has_zword: bool,
}

impl KernelRecipe {
    pub fn arch(&self) -> Arch {
        match self.series.1.contains("arm64") {
            true => Arch::Arm64,
            false => Arch::Amd64,
        }
    }

    /// The Debian whose compilers build modules for it, where this machine's are too
    /// old for it: the newest stable one.
    pub fn compilers(&self) -> Option<&'static str> {
        (self.suite == "trixie-backports").then_some("trixie")
    }

    pub fn page_bytes(&self) -> u64 {
        match self.series.1.ends_with("-16k") {
            true => 16 << 10,
            false => 4 << 10,
        }
    }
}

const fn user_mode(name: &'static str, checks: bool) -> KernelRecipe {
    KernelRecipe {
        name,
        kind: Kind::UserMode,
        checks,
        suite: "sid",
        series: ("", ""),
        fragments: match checks {
            true => &["um.config", "um-kasan.config", "um-debug.config"],
            false => &["um.config"],
        },
        fixes: &["um-out-of-memory.patch"],
        has_zword: false,
    }
}

const fn with_zword(
    name: &'static str,
    suite: &'static str,
    fragments: &'static [&'static str],
) -> KernelRecipe {
    KernelRecipe {
        suite,
        fragments,
        has_zword: true,
        ..user_mode(name, false)
    }
}

const WATCHING: KernelRecipe = KernelRecipe {
    kind: Kind::Watching,
    checks: false,
    fragments: &["kcsan.config"],
    fixes: &[],
    ..user_mode("kcsan", false)
};

const fn stock(
    name: &'static str,
    suite: &'static str,
    series: (&'static str, &'static str),
) -> KernelRecipe {
    KernelRecipe {
        name,
        kind: Kind::Stock,
        checks: false,
        suite,
        series,
        fragments: &[],
        fixes: &[],
        has_zword: false,
    }
}

const ZWORD: &[&str] = &["um.config", "um-zword.config", "um-kasan.config"];

#[rustfmt::skip]
pub const RECIPES: &[KernelRecipe] = &[
    user_mode("um", false),
    user_mode("um-debug", true),
    with_zword("um-zword", "sid", ZWORD),
    // With KASAN's frames a swap-out reaches the end of a task's stack there.
    with_zword("um-zword-6.12", "bookworm-backports", &["um.config", "um-zword.config"]),
    with_zword("um-zword-7.3", "trixie-backports", ZWORD),
    WATCHING,
    stock("6.1", "bookworm", ("6.1", "amd64")),
    stock("6.12", "bookworm-backports", ("6.12", "amd64")),
    stock("6.12-rt", "bookworm-backports", ("6.12", "rt-amd64")),
    stock("7.2", "trixie-backports", ("7.2", "amd64")),
    stock("7.3", "trixie-backports", ("7.3", "amd64")),
    stock("7.3-rt", "trixie-backports", ("7.3", "rt-amd64")),
    stock("6.1-arm64", "bookworm", ("6.1", "arm64")),
    stock("6.12-arm64-16k", "bookworm-backports", ("6.12", "arm64-16k")),
    stock("7.3-arm64", "trixie-backports", ("7.3", "arm64")),
    stock("7.3-arm64-16k", "trixie-backports", ("7.3", "arm64-16k")),
];

pub struct Kernel {
    pub recipe: &'static KernelRecipe,
    pub release: String,
    /// Program to start, or image for QEMU.
    pub image: PathBuf,
    /// Folder of module builds: the `-C` of make.
    pub build: PathBuf,
    /// Its whole source, where that is here: checkpatch, headers.
    pub source: Option<PathBuf>,
    /// A folder with `lib/modules`, as guests get it.
    pub modules: PathBuf,
    /// The root of the Debian whose compilers build its modules.
    pub compilers: Option<PathBuf>,
    /// The folder of the guest's programs, where they are not this machine's.
    pub programs: Option<PathBuf>,
}

impl Kernel {
    pub fn folder(&self) -> Result<PathBuf> {
        folder(self.recipe.name)
    }
}

pub fn recipe(name: &str) -> Option<&'static KernelRecipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

pub fn named(name: &str) -> Result<&'static KernelRecipe, String> {
    let known: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
    recipe(name).ok_or_else(|| format!("there is none of that name: {}", known.join(", ")))
}

pub fn folder(name: &str) -> Result<PathBuf> {
    let folder = workspace::target().join("kernels").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Kbuild follows links in some places and compares names in others.
    Ok(folder.canonicalize()?)
}

/// One at a time: another run may be making the same thing.
pub fn lock(folder: &Path) -> Result<FileLock> {
    let path = folder.join("lock");
    let cannot = || format!("cannot lock {}", path.display());
    match FileLock::attempt(&path).with_context(cannot)? {
        Attempt::Taken(held) => Ok(held),
        Attempt::Held(_) => {
            eprintln!("waiting for another run in {}", workspace::shown(folder));
            FileLock::wait(&path).with_context(cannot)
        }
    }
}

pub fn jobs() -> String {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    format!("-j{jobs}")
}

pub fn guest_folder() -> PathBuf {
    workspace::root().join("xtask/guest")
}
