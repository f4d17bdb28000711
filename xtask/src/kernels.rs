//! The kernels that the module is tested on: fetched by package name, built where
//! they must be, and kept under `target/kernels` until somebody removes them.
//!
//! A kernel's folder is complete when its `ready` file is there, which is written
//! last. Leftovers of an interrupted run are used again where they can be.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Result};

use crate::apt::Suite;
use crate::debian;
use crate::guest;
use crate::kernel_patch;
use crate::process::Log;
use crate::recipes::{
    folder, guest_folder, jobs, lock, Arch, Kernel, KernelRecipe, Kind, BOOT_ALONE, MODULES_ARCHIVE,
};
use crate::stock_kernels;
use crate::tools;
use crate::workspace;

impl Kernel {
    pub fn make(&self) -> Command {
        let mut command = match &self.compilers {
            None => Command::new("make"),
            Some(root) => debian::make(root),
        };
        command.arg("-C").arg(&self.build);
        if let Some(prefix) = self.recipe.arch().cross() {
            command.arg(format!("ARCH={}", self.recipe.arch().debian()));
            command.arg(format!("CROSS_COMPILE={prefix}"));
        }
        if self.recipe.kind == Kind::UserMode {
            command.arg("ARCH=um");
        }
        command
    }
}

pub fn provide(log: &Log, recipe: &'static KernelRecipe) -> Result<Kernel> {
    let compilers = recipe
        .compilers()
        .map(|suite| debian::compilers(log, suite));
    let compilers = compilers.transpose()?;
    let programs = match recipe.arch() {
        Arch::Amd64 => None,
        other => Some(guest::foreign_root(log, other)?),
    };
    let place = folder(recipe.name)?;
    let _held = lock(&place)?;
    let ready = place.join("ready");
    let configuration = configuration(recipe)?;
    let there = fs::read_to_string(&ready).unwrap_or_default();
    let there = there.trim_end();
    // A kernel of another configuration is made anew.
    let release = match there.split_once(' ').unwrap_or((there, "")) {
        (release, from) if !release.is_empty() && from == configuration => release.to_owned(),
        _ => {
            // What was made of the one before.
            for made in [MODULES_ARCHIVE, BOOT_ALONE] {
                workspace::remove(&place.join(made))?;
            }
            let release = match recipe.kind {
                Kind::UserMode | Kind::Watching => build_from_source(log, recipe, &place)?,
                Kind::Stock => stock_kernels::fetch(log, recipe, &place)?,
            };
            fs::write(&ready, format!("{release} {configuration}").trim_end())?;
            release
        }
    };
    let build = place.join("build");
    let (image, build, source) = match recipe.kind {
        Kind::UserMode => (
            build.join("linux"),
            build,
            Some(source_folder(recipe.suite)?.join("linux")),
        ),
        Kind::Watching => (build.join("arch/x86/boot/bzImage"), build, None),
        Kind::Stock => (
            stock_kernels::image(&place, &release),
            place.join(format!("root/usr/src/linux-headers-{release}")),
            None,
        ),
    };
    Ok(Kernel {
        recipe,
        release,
        image,
        build,
        source,
        modules: place.join("modules"),
        compilers,
        programs,
    })
}

/// Hash of a kernel's configuration; empty where we make none.
fn configuration(recipe: &KernelRecipe) -> Result<String> {
    if recipe.fragments.is_empty() {
        return Ok(String::new());
    }
    let mut hash = DefaultHasher::new();
    let files = recipe.fragments.iter().chain(recipe.fixes);
    let mut files: Vec<PathBuf> = files.map(|it| guest_folder().join(it)).collect();
    if recipe.has_zword {
        files.extend(kernel_patch::files()?);
    }
    for file in files {
        fs::read(file)?.hash(&mut hash);
    }
    Ok(format!("{:016x}", hash.finish()))
}

/// A suite's newest kernel's sources, unpacked, shared by all builds.
fn source(log: &Log, suite: &str) -> Result<PathBuf> {
    let place = source_folder(suite)?;
    let _held = lock(&place)?;
    workspace::kept(place.join("linux"), |unfinished| {
        let suite = Suite::open(log, suite, Arch::Amd64, &place.join("apt"))?;
        let package = suite.dependency("linux-source", "linux-source-")?;
        let packed = place.join("packed");
        suite.unpack(log, std::slice::from_ref(&package), &packed)?;
        fs::create_dir_all(unfinished)?;
        eprintln!("unpacking {package}");
        let mut command = Command::new("tar");
        command.arg("-xJf");
        command.arg(packed.join(format!("usr/src/{package}.tar.xz")));
        command.arg("-C").arg(unfinished).args([
            "--strip-components=1",
            // Half of the archive, and nothing that user-mode Linux is built from.
            "--exclude=*/drivers/gpu/drm/amd/include/*",
            "--exclude=*/Documentation/translations/*",
            "--exclude=*/tools/testing/selftests/*",
            "--exclude=*/tools/perf/*",
        ]);
        log.must(&mut command)?;
        workspace::remove(&packed)
    })
}

fn source_folder(suite: &str) -> Result<PathBuf> {
    match suite {
        "sid" => folder("source"),
        _ => folder(&format!("source-{suite}")),
    }
}

/// The sources, to be patched; the files that stay are shared.
fn copied(log: &Log, source: &Path, place: &Path) -> Result<PathBuf> {
    let copy = place.join("source");
    workspace::remove(&copy)?;
    let mut link = Command::new("cp");
    log.must(link.arg("-al").arg(source).arg(&copy))?;
    Ok(copy)
}

/// Takes what is known to be wrong out of the sources, once. A newer kernel may have another remedy, which is noted.
fn fix(log: &Log, recipe: &KernelRecipe, source: &Path) -> Result<()> {
    let _held = lock(&source_folder(recipe.suite)?)?;
    for file in recipe.fixes {
        let applies = |options: &[&str]| -> Result<bool> {
            let mut patch = Command::new("patch");
            patch.args(["-p1", "--batch", "--silent", "--reject-file=-"]);
            patch.args(options).arg("-d").arg(source);
            patch.arg("-i").arg(guest_folder().join(file));
            Ok(log.run(&mut patch)?.succeeded())
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

fn build_from_source(log: &Log, recipe: &KernelRecipe, place: &Path) -> Result<String> {
    tools::need(&[
        "make", "gcc", "ld", "flex", "bison", "bc", "xz", "tar", "depmod", "patch",
    ])?;
    let source = source(log, recipe.suite)?;
    fix(log, recipe, &source)?;
    let source = match recipe.has_zword {
        true => copied(log, &source, place)?,
        false => source,
    };
    let build = place.join("build");
    fs::create_dir_all(&build)?;
    let make = || {
        let mut command = Command::new("make");
        command.arg("-C").arg(&source);
        command.arg(format!("ARCH={}", recipe.kind.kbuild()));
        command.arg(format!("O={}", build.display()));
        command
    };
    let base = match recipe.kind {
        Kind::Watching => "allnoconfig",
        _ => "defconfig",
    };
    configure(log, (base, recipe.fragments), &source, &build, &make)?;
    eprintln!("building {}, which takes minutes", recipe.name);
    log.must(make().arg(jobs()))?;
    if recipe.has_zword {
        // Each patch builds, not only all of them.
        kernel_patch::put_in(log, &source, &|patch| {
            eprintln!("building it with {}", workspace::shown(patch));
            configure(log, (base, recipe.fragments), &source, &build, &make)?;
            log.must(make().arg(jobs())).map(|_| ())
        })?;
    }
    let modules = format!("INSTALL_MOD_PATH={}", place.join("modules").display());
    log.must(make().args(["-s", "modules_install", &modules]))?;
    let release = fs::read_to_string(build.join("include/config/kernel.release"))?;
    Ok(release.trim().to_owned())
}

/// `make` for modules, in a folder where the newest kernel's headers are for another processor;
/// nothing of that kernel is built.
pub fn headers(
    log: &Log,
    (processor, compiler): (&str, &str),
    compiler_word: String,
    fragment: &'static str,
) -> Result<impl Fn() -> Command> {
    let source = source(log, "sid")?;
    let build = workspace::work_folder(&format!("headers/{processor}-{compiler}"))?;
    let build = build.canonicalize()?;
    let words = [
        format!("ARCH={processor}"),
        compiler_word,
        format!("O={}", build.display()),
        // Without a kernel nobody knows what it exports.
        "KBUILD_MODPOST_WARN=1".to_owned(),
    ];
    let folder = source.clone();
    let make = move || {
        let mut command = Command::new("make");
        command.arg("-C").arg(&folder).arg(jobs()).args(&words);
        command
    };
    configure(log, ("allnoconfig", &[fragment]), &source, &build, &make)?;
    log.must(make().arg("modules_prepare"))?;
    Ok(make)
}

/// Defaults (or nothing), then our fragments, then the questions that these raise.
fn configure(
    log: &Log,
    (base, fragments): (&str, &[&str]),
    source: &Path,
    build: &Path,
    make: &dyn Fn() -> Command,
) -> Result<()> {
    log.must(make().arg(base))?;
    let config = build.join(".config");
    let mut merge = Command::new(source.join("scripts/kconfig/merge_config.sh"));
    merge.current_dir(source);
    merge.env("KCONFIG_CONFIG", &config);
    merge.arg("-m").arg(&config);
    for fragment in fragments {
        merge.arg(guest_folder().join(fragment));
    }
    log.must(&mut merge)?;
    log.must(make().arg("olddefconfig"))?;
    Ok(())
}
