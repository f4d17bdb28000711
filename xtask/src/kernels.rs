//! The kernels that the module is tested on: fetched by package name, built where
//! they must be, and kept under `target/kernels` until somebody removes them.
//!
//! A kernel's folder is complete when its `ready` file is there, which is written
//! last. What an interrupted run left is used again where it can be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use zmeld_linux::lock::{Attempt, FileLock};

use crate::apt::{Reason, Suite};
use crate::process::Log;
use crate::progress::Progress;
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
}

/// A kernel that we know how to get.
pub struct KernelRecipe {
    /// What the command line calls it.
    pub name: &'static str,
    /// How it runs.
    pub kind: Kind,
    /// Built with every check of its own: slow, in need of more memory, and the
    /// place for a module with assertions and self-tests.
    pub checks: bool,
    suite: &'static str,
    fragments: &'static [&'static str],
    /// Lines that its build prints, as last counted.
    build_lines: u64,
}

/// All kernels.
pub const RECIPES: &[KernelRecipe] = &[
    KernelRecipe {
        name: "um",
        kind: Kind::UserMode,
        checks: false,
        suite: "sid",
        fragments: &["um.config"],
        build_lines: 1600,
    },
    KernelRecipe {
        name: "um-debug",
        kind: Kind::UserMode,
        checks: true,
        suite: "sid",
        fragments: &["um.config", "um-debug.config"],
        build_lines: 1660,
    },
    KernelRecipe {
        name: "6.1",
        kind: Kind::Stock,
        checks: false,
        suite: "bookworm",
        fragments: &[],
        build_lines: 0,
    },
    KernelRecipe {
        name: "6.12",
        kind: Kind::Stock,
        checks: false,
        suite: "bookworm-backports",
        fragments: &[],
        build_lines: 0,
    },
];

/// Modules of stock kernels that guests get, with what these depend on.
const STOCK_MODULES: &[&str] = &[
    "zram",
    "zsmalloc",
    "lz4",
    "lz4hc",
    "lz4_compress",
    "lz4hc_compress",
    "zstd",
    "842",
    "842_compress",
    "842_decompress",
    "lzo",
    "lzo-rle",
    "deflate",
    "ext4",
    "btrfs",
    "loop",
    "dm-mod",
    "dm-crypt",
    "xts",
    "aesni-intel",
    "algif_skcipher",
    "zbud",
    "z3fold",
    "dm-flakey",
    "dm-delay",
    "dm-zero",
    "virtio_blk",
    "virtio_pci",
    "crc32c_generic",
    "crc32c-intel",
    "xxhash_generic",
    "sha256_generic",
    "blake2b_generic",
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
}

impl Kernel {
    /// Its folder, for what belongs to it.
    pub fn folder(&self) -> Result<PathBuf> {
        folder(self.recipe.name)
    }

    /// `make` for modules of this kernel.
    pub fn make(&self) -> Command {
        let mut command = Command::new("make");
        command.arg("-C").arg(&self.build);
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
    let place = folder(recipe.name)?;
    let _held = lock(&place)?;
    let ready = place.join("ready");
    if let Ok(release) = fs::read_to_string(&ready) {
        return Ok(Ok(kernel(recipe, &place, release.trim())?));
    }
    let made = match recipe.kind {
        Kind::UserMode => build_user_mode(log, recipe, &place)?,
        Kind::Stock => fetch_stock(log, recipe, &place)?,
    };
    let release = match made {
        Ok(release) => release,
        Err(reason) => return Ok(Err(reason)),
    };
    fs::write(&ready, format!("{release}\n"))?;
    Ok(Ok(kernel(recipe, &place, &release)?))
}

fn kernel(recipe: &'static KernelRecipe, place: &Path, release: &str) -> Result<Kernel> {
    let (image, build, source) = match recipe.kind {
        Kind::UserMode => (
            place.join("build/linux"),
            place.join("build"),
            Some(folder("source")?.join("linux")),
        ),
        Kind::Stock => (
            place.join(format!("root/boot/vmlinuz-{release}")),
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
    })
}

/// Programs that a build of the kernel or of a module starts.
fn missing_tool(programs: &[&str]) -> Option<Reason> {
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
    let suite = match Suite::open(log, suite, &place.join("apt"))? {
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

fn jobs() -> String {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    format!("-j{jobs}")
}

fn build_user_mode(
    log: &Log,
    recipe: &KernelRecipe,
    place: &Path,
) -> Result<std::result::Result<String, Reason>> {
    let needed = [
        "make", "gcc", "ld", "flex", "bison", "bc", "xz", "tar", "depmod",
    ];
    if let Some(reason) = missing_tool(&needed) {
        return Ok(Err(reason));
    }
    let source = match source(log, recipe.suite)? {
        Ok(source) => source,
        Err(reason) => return Ok(Err(reason)),
    };
    let build = place.join("build");
    fs::create_dir_all(&build)?;
    let make = || {
        let mut command = Command::new("make");
        command.arg("-C").arg(&source).arg("ARCH=um");
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

/// Defaults, then our fragments, then the questions that these raise.
fn configure(
    log: &Log,
    recipe: &KernelRecipe,
    source: &Path,
    build: &Path,
    make: &dyn Fn() -> Command,
) -> Result<()> {
    if !log.run(make().arg("defconfig"), BUILD_LIMIT)?.succeeded() {
        bail!("the kernel cannot be configured: {}", source.display());
    }
    let config = build.join(".config");
    let mut merge = Command::new(source.join("scripts/kconfig/merge_config.sh"));
    merge.current_dir(source).env("ARCH", "um");
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

fn fetch_stock(
    log: &Log,
    recipe: &KernelRecipe,
    place: &Path,
) -> Result<std::result::Result<String, Reason>> {
    if let Some(reason) = missing_tool(&["depmod", "xz"]) {
        return Ok(Err(reason));
    }
    let suite = match Suite::open(log, recipe.suite, &place.join("apt"))? {
        Ok(suite) => suite,
        Err(reason) => return Ok(Err(reason)),
    };
    let image = suite.dependency("linux-image-amd64", "linux-image-")?;
    let release = image
        .trim_start_matches("linux-image-")
        .trim_end_matches("-unsigned")
        .to_owned();
    let headers = format!("linux-headers-{release}");
    let mut packages = vec![image, headers.clone()];
    for name in suite.dependencies(&headers)? {
        if name.ends_with("-common") || name.starts_with("linux-kbuild-") {
            packages.push(name);
        }
    }
    let root = place.join("root");
    suite.unpack(log, &packages, &root)?;
    redirect_headers(&root, &release)?;
    choose_modules(log, &root, &release, &place.join("modules"))?;
    Ok(Ok(release))
}

/// The packages expect to lie in `/usr/src`; here they lie under `root`.
fn redirect_headers(root: &Path, release: &str) -> Result<()> {
    let makefile = root.join(format!("usr/src/linux-headers-{release}/Makefile"));
    let text = fs::read_to_string(&makefile).with_context(|| {
        format!(
            "no header package of the known form: {}",
            makefile.display()
        )
    })?;
    let there = format!("include {}/usr/src/", root.display());
    let text = text.replace("include /usr/src/", &there);
    fs::write(&makefile, text)?;
    Ok(())
}

/// Copies the modules that guests need, unpacked, into a folder of their own.
fn choose_modules(log: &Log, root: &Path, release: &str, to: &Path) -> Result<()> {
    let unfinished = to.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    let from = root.join("lib/modules").join(release);
    let depmod = |root: &Path| -> Result<()> {
        let mut command = Command::new("depmod");
        command.arg("-b").arg(root).arg(release);
        match log.run(&mut command, UNPACK_LIMIT)?.succeeded() {
            true => Ok(()),
            false => bail!("depmod fails on {}", root.display()),
        }
    };
    depmod(root)?;
    let dependencies = fs::read_to_string(from.join("modules.dep"))?;
    let target = unfinished.join("lib/modules").join(release);
    for path in zmeld_vm::with_dependencies(&dependencies, STOCK_MODULES) {
        let copy = target.join(&path);
        fs::create_dir_all(copy.parent().unwrap_or(&target))?;
        fs::copy(from.join(&path), &copy)?;
        if path.ends_with(".xz") {
            let mut command = Command::new("xz");
            command.arg("-d").arg(&copy);
            if !log.run(&mut command, UNPACK_LIMIT)?.succeeded() {
                bail!("{} cannot be unpacked", copy.display());
            }
        }
    }
    for name in [
        "modules.order",
        "modules.builtin",
        "modules.builtin.modinfo",
    ] {
        fs::copy(from.join(name), target.join(name))?;
    }
    depmod(&unfinished)?;
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::rename(&unfinished, to)?;
    Ok(())
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
