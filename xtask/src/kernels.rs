//! The kernels that the module is tested on: fetched by package name, built where
//! they must be, and kept under `target/kernels` until somebody removes them.
//!
//! A kernel's folder is complete when its `ready` file is there, which is written
//! last. What an interrupted run left is used again where it can be.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use zmeld_linux::lock::{Attempt, FileLock};

use crate::apt::{Reason, Suite};
use crate::compilers;
use crate::foreign;
use crate::process::Log;
use crate::progress::Progress;
use crate::stock_kernels;
use crate::tools;
use crate::workspace;

const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const UNPACK_LIMIT: Duration = Duration::from_secs(1800);

/// How a kernel runs.
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
    /// What kbuild calls the processor of kernels that we build.
    fn kbuild(self) -> &'static str {
        match self {
            Kind::UserMode => "um",
            _ => "x86_64",
        }
    }
}

/// What a kernel is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// This machine's.
    Amd64,
    /// Emulated.
    Arm64,
}

impl Arch {
    /// As Debian calls it.
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

/// A kernel that we know how to get.
pub struct KernelRecipe {
    /// What the command line calls it.
    pub name: &'static str,
    /// How it runs.
    pub kind: Kind,
    /// What it runs on.
    pub arch: Arch,
    /// Built with every check of its own: slow, in need of more memory, and the
    /// place for a module with assertions and self-tests.
    pub checks: bool,
    /// Where its packages are.
    pub suite: &'static str,
    /// A stock kernel's version as far as it is chosen, and its flavour.
    pub series: (&'static str, &'static str),
    /// The Debian whose compilers build modules for it, where this machine's are too
    /// old for it.
    pub compilers: Option<&'static str>,
    fragments: &'static [&'static str],
    /// Patches against its sources, for what goes wrong in them under our tests.
    fixes: &'static [&'static str],
    /// Lines that its build prints, as last counted.
    build_lines: u64,
}

impl KernelRecipe {
    /// Bytes of its pages.
    pub fn page_bytes(&self) -> u64 {
        match self.series.1.ends_with("-16k") {
            true => 16 << 10,
            false => 4 << 10,
        }
    }
}

const fn user_mode(name: &'static str, checks: bool, build_lines: u64) -> KernelRecipe {
    KernelRecipe {
        name,
        kind: Kind::UserMode,
        arch: Arch::Amd64,
        checks,
        suite: "sid",
        series: ("", ""),
        compilers: None,
        fragments: match checks {
            true => &["um.config", "um-debug.config"],
            false => &["um.config"],
        },
        fixes: &["um-out-of-memory.patch"],
        build_lines,
    }
}

const WATCHING: KernelRecipe = KernelRecipe {
    kind: Kind::Watching,
    checks: false,
    fragments: &["kcsan.config"],
    fixes: &[],
    ..user_mode("kcsan", false, 2070)
};

const fn stock(
    name: &'static str,
    arch: Arch,
    suite: &'static str,
    series: (&'static str, &'static str),
) -> KernelRecipe {
    KernelRecipe {
        name,
        kind: Kind::Stock,
        arch,
        checks: false,
        suite,
        series,
        compilers: None,
        fragments: &[],
        fixes: &[],
        build_lines: 0,
    }
}

/// One that is built with the compilers of the newest stable Debian.
const fn newer(
    name: &'static str,
    arch: Arch,
    series: (&'static str, &'static str),
) -> KernelRecipe {
    KernelRecipe {
        compilers: Some("trixie"),
        ..stock(name, arch, "trixie-backports", series)
    }
}

use Arch::{Amd64, Arm64};

/// All kernels.
#[rustfmt::skip]
pub const RECIPES: &[KernelRecipe] = &[
    user_mode("um", false, 1600),
    user_mode("um-debug", true, 1660),
    WATCHING,
    stock("6.1", Amd64, "bookworm", ("6.1", "amd64")),
    stock("6.12", Amd64, "bookworm-backports", ("6.12", "amd64")),
    stock("6.12-rt", Amd64, "bookworm-backports", ("6.12", "rt-amd64")),
    newer("7.2", Amd64, ("7.2", "amd64")),
    newer("7.3", Amd64, ("7.3", "amd64")),
    newer("7.3-rt", Amd64, ("7.3", "rt-amd64")),
    stock("6.1-arm64", Arm64, "bookworm", ("6.1", "arm64")),
    stock("6.12-arm64-16k", Arm64, "bookworm-backports", ("6.12", "arm64-16k")),
    newer("7.3-arm64", Arm64, ("7.3", "arm64")),
    newer("7.3-arm64-16k", Arm64, ("7.3", "arm64-16k")),
];

/// A kernel that is here.
pub struct Kernel {
    /// How it came.
    pub recipe: &'static KernelRecipe,
    /// What `uname -r` says in it.
    pub release: String,
    /// What is started: a program, or an image for QEMU.
    pub image: PathBuf,
    /// Where modules are built: the `-C` of make.
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
    /// Its folder, for what belongs to it.
    pub fn folder(&self) -> Result<PathBuf> {
        folder(self.recipe.name)
    }

    /// `make` for modules of this kernel.
    pub fn make(&self) -> Command {
        let mut command = match &self.compilers {
            None => Command::new("make"),
            Some(root) => compilers::command(root, "make"),
        };
        command.arg("-C").arg(&self.build);
        if let Some(prefix) = self.recipe.arch.cross() {
            command.arg(format!("ARCH={}", self.recipe.arch.debian()));
            command.arg(format!("CROSS_COMPILE={prefix}"));
        }
        if self.recipe.kind == Kind::UserMode {
            command.arg("ARCH=um");
        }
        command
    }
}

/// The recipe of that name.
pub fn recipe(name: &str) -> Option<&'static KernelRecipe> {
    RECIPES.iter().find(|recipe| recipe.name == name)
}

/// A folder under `target/kernels`, made if it is missing.
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

/// The kernel, fetched and built if it is not here; if that cannot be, why.
pub fn provide(
    log: &Log,
    recipe: &'static KernelRecipe,
) -> Result<std::result::Result<Kernel, Reason>> {
    let compilers = match recipe.compilers {
        None => None,
        Some(suite) => match compilers::root(log, suite)? {
            Ok(root) => Some(root),
            Err(reason) => return Ok(Err(reason)),
        },
    };
    let programs = match recipe.arch {
        Arch::Amd64 => None,
        other => match foreign::root(log, other)? {
            Ok(root) => Some(root),
            Err(reason) => return Ok(Err(reason)),
        },
    };
    let kernel = |place: &Path, release: &str| -> Result<Kernel> {
        Ok(Kernel {
            compilers,
            programs,
            ..kernel(recipe, place, release)?
        })
    };
    let place = folder(recipe.name)?;
    let _held = lock(&place)?;
    let ready = place.join("ready");
    let configuration = configuration(recipe)?;
    let there = fs::read_to_string(&ready).unwrap_or_default();
    // What was made from another configuration is made anew.
    let there = there.trim_end();
    let (release, made_from) = there.split_once(' ').unwrap_or((there, ""));
    if !release.is_empty() && made_from == configuration {
        return Ok(Ok(kernel(&place, release)?));
    }
    let made = match recipe.kind {
        Kind::UserMode | Kind::Watching => build_from_source(log, recipe, &place)?,
        Kind::Stock => stock_kernels::fetch(log, recipe, &place)?,
    };
    let release = match made {
        Ok(release) => release,
        Err(reason) => return Ok(Err(reason)),
    };
    fs::write(&ready, format!("{release} {configuration}").trim_end())?;
    Ok(Ok(kernel(&place, &release)?))
}

/// What a kernel's configuration is made of, in a word that differs with it; empty where we make none.
fn configuration(recipe: &KernelRecipe) -> Result<String> {
    if recipe.fragments.is_empty() {
        return Ok(String::new());
    }
    let mut hash = DefaultHasher::new();
    for file in recipe.fragments.iter().chain(recipe.fixes) {
        fs::read(guest_folder().join(file))?.hash(&mut hash);
    }
    Ok(format!("{:016x}", hash.finish()))
}

fn kernel(recipe: &'static KernelRecipe, place: &Path, release: &str) -> Result<Kernel> {
    let (image, build, source) = match recipe.kind {
        Kind::UserMode => (
            place.join("build/linux"),
            place.join("build"),
            Some(folder("source")?.join("linux")),
        ),
        Kind::Watching => (
            place.join("build/arch/x86/boot/bzImage"),
            place.join("build"),
            None,
        ),
        Kind::Stock => (
            stock_kernels::image(place, release),
            place.join(format!("root/usr/src/linux-headers-{release}")),
            None,
        ),
    };
    Ok(Kernel {
        recipe,
        release: release.to_owned(),
        image,
        build,
        source,
        modules: place.join("modules"),
        compilers: None,
        programs: None,
    })
}

/// Programs that a build of the kernel or of a module starts.
pub fn missing_tool(programs: &[&str]) -> Option<Reason> {
    let missing: Vec<&str> = programs
        .iter()
        .copied()
        .filter(|program| !tools::is_on_path(program))
        .collect();
    (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")))
}

/// The newest kernel's sources, unpacked, shared by both builds.
fn source(log: &Log, suite: &str) -> Result<std::result::Result<PathBuf, Reason>> {
    let place = folder("source")?;
    let _held = lock(&place)?;
    let linux = place.join("linux");
    if linux.exists() {
        return Ok(Ok(linux));
    }
    let suite = match Suite::open(log, suite, Arch::Amd64, &place.join("apt"))? {
        Ok(suite) => suite,
        Err(reason) => return Ok(Err(reason)),
    };
    let package = suite.dependency("linux-source", "linux-source-")?;
    let packed = place.join("packed");
    suite.unpack(log, std::slice::from_ref(&package), &packed)?;
    let archive = packed.join(format!("usr/src/{package}.tar.xz"));
    let unfinished = place.join("linux.unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)?;
    let mut progress = Progress::new(&format!("unpacking {package}"), unpacked_bytes(&archive));
    let mut command = Command::new("tar");
    command.arg("-xJf").arg(&archive).arg("-C").arg(&unfinished);
    command.args([
        "--strip-components=1",
        "--checkpoint=1000",
        // Half of the archive, and nothing that user-mode Linux is built from.
        "--exclude=*/drivers/gpu/drm/amd/include/*",
        "--exclude=*/Documentation/translations/*",
        "--exclude=*/tools/testing/selftests/*",
        "--exclude=*/tools/perf/*",
    ]);
    let ran = log.run_watched(&mut command, UNPACK_LIMIT, &mut |text| {
        let records = text.lines().filter_map(|line| line.rsplit(' ').next());
        if let Some(record) = records
            .filter_map(|word| word.parse::<u64>().ok())
            .next_back()
        {
            progress.at(record * 10_240);
        }
    })?;
    if !ran.succeeded() {
        bail!("{} cannot be unpacked", archive.display());
    }
    fs::rename(&unfinished, &linux)?;
    fs::remove_dir_all(&packed)?;
    Ok(Ok(linux))
}

/// What xz says that an archive unpacks to; 1 if it does not say.
fn unpacked_bytes(archive: &Path) -> u64 {
    let output = Command::new("xz")
        .args(["--robot", "-l"])
        .arg(archive)
        .output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    let text = String::from_utf8_lossy(&text).into_owned();
    let totals = text.lines().find_map(|line| line.strip_prefix("totals\t"));
    let bytes = totals.and_then(|totals| totals.split('\t').nth(3)?.parse().ok());
    bytes.unwrap_or(1)
}

/// Takes what is known to be wrong out of the sources, once. A newer kernel may have another remedy, which is noted.
fn fix(log: &Log, recipe: &KernelRecipe, source: &Path) -> Result<()> {
    let _held = lock(&folder("source")?)?;
    for file in recipe.fixes {
        let applies = |options: &[&str]| -> Result<bool> {
            let mut patch = Command::new("patch");
            patch.args(["-p1", "--batch", "--silent", "--reject-file=-"]);
            patch.args(options).arg("-d").arg(source);
            patch.arg("-i").arg(guest_folder().join(file));
            Ok(log.run(&mut patch, BUILD_LIMIT)?.succeeded())
        };
        if applies(&["--reverse", "--force", "--dry-run"])? {
            continue;
        }
        if !applies(&["--forward", "--dry-run"])? {
            log.note(&format!("note: {file} does not apply to these sources"))?;
        } else if !applies(&["--forward"])? {
            bail!("{file} was applied in part to {}", source.display());
        }
    }
    Ok(())
}

fn jobs() -> String {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    format!("-j{jobs}")
}

fn build_from_source(
    log: &Log,
    recipe: &KernelRecipe,
    place: &Path,
) -> Result<std::result::Result<String, Reason>> {
    let needed = [
        "make", "gcc", "ld", "flex", "bison", "bc", "xz", "tar", "depmod", "patch",
    ];
    if let Some(reason) = missing_tool(&needed) {
        return Ok(Err(reason));
    }
    let source = match source(log, recipe.suite)? {
        Ok(source) => source,
        Err(reason) => return Ok(Err(reason)),
    };
    fix(log, recipe, &source)?;
    let build = place.join("build");
    fs::create_dir_all(&build)?;
    let make = || {
        let mut command = Command::new("make");
        command.arg("-C").arg(&source);
        command.arg(format!("ARCH={}", recipe.kind.kbuild()));
        command.arg(format!("O={}", build.display()));
        command
    };
    configure(log, recipe, &source, &build, &make)?;
    let mut progress = Progress::new(&format!("building {}", recipe.name), recipe.build_lines);
    let mut command = make();
    command.arg(jobs());
    let ran = log.run_watched(&mut command, BUILD_LIMIT, &mut |text| {
        let is_work = |line: &&str| line.starts_with("  ");
        progress.add(text.lines().filter(is_work).count() as u64);
    })?;
    drop(progress);
    if !ran.succeeded() {
        bail!(
            "the kernel does not build, see {}",
            workspace::shown(log.path())
        );
    }
    let modules = place.join("modules");
    let mut command = make();
    command.args(["-s", "modules_install"]);
    command.arg(format!("INSTALL_MOD_PATH={}", modules.display()));
    if !log.run(&mut command, BUILD_LIMIT)?.succeeded() {
        bail!("the kernel's modules cannot be installed into its folder");
    }
    let release = fs::read_to_string(build.join("include/config/kernel.release"))?;
    Ok(Ok(release.trim().to_owned()))
}

/// Defaults (or nothing), then our fragments, then the questions that these raise.
fn configure(
    log: &Log,
    recipe: &KernelRecipe,
    source: &Path,
    build: &Path,
    make: &dyn Fn() -> Command,
) -> Result<()> {
    let base = match recipe.kind {
        Kind::Watching => "allnoconfig",
        _ => "defconfig",
    };
    if !log.run(make().arg(base), BUILD_LIMIT)?.succeeded() {
        bail!("the kernel cannot be configured: {}", source.display());
    }
    let config = build.join(".config");
    let mut merge = Command::new(source.join("scripts/kconfig/merge_config.sh"));
    merge.current_dir(source).env("ARCH", recipe.kind.kbuild());
    merge.env("KCONFIG_CONFIG", &config);
    merge.arg("-m").arg(&config);
    for fragment in recipe.fragments {
        merge.arg(guest_folder().join(fragment));
    }
    let merged = log.run(&mut merge, BUILD_LIMIT)?.succeeded();
    if !merged
        || !log
            .run(make().arg("olddefconfig"), BUILD_LIMIT)?
            .succeeded()
    {
        bail!("the kernel's configuration cannot be merged");
    }
    let text = fs::read_to_string(&config)?;
    for fragment in recipe.fragments {
        let wanted = fs::read_to_string(guest_folder().join(fragment))?;
        for line in options_not_taken(&wanted, &text) {
            log.note(&format!("note: {line} of {fragment} was not taken"))?;
        }
    }
    Ok(())
}

/// Options that a configuration does not have as a fragment wants them; a module
/// is as good as built in.
fn options_not_taken(fragment: &str, config: &str) -> Vec<String> {
    let has = |line: &str| config.lines().any(|there| there == line);
    fragment
        .lines()
        .filter(|line| line.ends_with("=y"))
        .filter(|line| !has(line) && !has(&line.replace("=y", "=m")))
        .map(str::to_owned)
        .collect()
}

/// What guests and kernel builds bring along.
pub fn guest_folder() -> PathBuf {
    workspace::root().join("xtask/guest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_is_not_taken_is_named() {
        let config = "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n";
        let fragment = "# words\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\nCONFIG_D=n\n";
        assert_eq!(options_not_taken(fragment, config), ["CONFIG_C=y"]);
    }
}
