//! Building zmeld.ko or zword.ko for a kernel: on a copy of its sources, so that
//! several kernels do not meet in one folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Result};

use crate::process::{output_of, Log};
use crate::recipes::{jobs, Kernel, KernelRecipe};
use crate::tools;
use crate::workspace;

pub struct Module {
    /// Its name, and that of its folder below /usr/src.
    pub name: &'static str,
    /// The folders of `store` that it is built from.
    pub sources: &'static [&'static str],
    pub folder: &'static str,
    /// Header of a kernel's features, found when it is built for it.
    pub features: &'static str,
    /// Options without which a kernel has no use for it.
    pub needs: &'static str,
    /// Substitute where it could not be built.
    pub without: &'static str,
}

pub const ZMELD: Module = Module {
    name: "zmeld",
    sources: &["include", "core", "zword", "port/linux", "crypto", "kmod"],
    folder: "kmod",
    features: "kernel_has.h",
    needs: "CONFIG_BLOCK CONFIG_ZSMALLOC",
    without: "zram stands in for it",
};

/// The codec for the kernel's own zswap and zram; its probes are run by the script of zmeld.ko.
pub const ZWORD: Module = Module {
    name: "zword",
    sources: &["include", "zword", "port/linux", "crypto", "kmod"],
    folder: "crypto",
    features: "zword_has.h",
    needs: "CONFIG_CRYPTO_ACOMP2",
    without: "zswap has another compressor",
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Release,
    /// With blocks of 512 bytes: a page has parts, as it has where pages are larger
    /// than 4 KiB.
    SmallBlocks,
    Codec,
}

impl Flavour {
    pub fn module(self) -> &'static Module {
        match self {
            Flavour::Codec => &ZWORD,
            _ => &ZMELD,
        }
    }

    fn file(self) -> String {
        format!("{}.ko", self.module().name)
    }

    /// The folder of its sources, and what the build is told.
    fn build(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Flavour::Release => ("module", &[]),
            Flavour::SmallBlocks => ("module-small-blocks", &["ZMELD_BLOCK_SIZE=512"]),
            Flavour::Codec => ("codec", &[]),
        }
    }
}

/// Builds the module with all warnings that the kernel has; any is an error.
pub fn build(log: &Log, kernel: &Kernel, flavour: Flavour) -> Result<PathBuf> {
    let place = copy_of_sources(kernel.recipe.name, flavour)?;
    let mut command = make(kernel, &place, flavour);
    command.args(["W=1", "modules"]);
    let said = log.must(&mut command)?;
    let warnings = warnings(&said);
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
    let place = copy_of_sources(kernel.recipe.name, flavour)?;
    let mut command = make(kernel, &place, flavour);
    // C=2 reads files that need no compiling, too.
    command.args(["C=2", "CHECK=sparse", "modules"]);
    let said = log.must(&mut command)?;
    if said.contains("sparse is not available or not up to date") {
        return Ok(None);
    }
    let ours = place.parent().unwrap_or(&place).display().to_string();
    let said = said
        .lines()
        .filter(|line| line.contains(&ours) || line.starts_with("../") || !line.contains('/'))
        .filter(|line| line.contains(": warning:") || line.contains(": error:"))
        .map(str::to_owned)
        .collect();
    Ok(Some(said))
}

fn make(kernel: &Kernel, place: &Path, flavour: Flavour) -> Command {
    let mut command = kernel.make();
    command.arg(jobs());
    command.arg(format!("M={}", place.display()));
    command.args(flavour.build().1);
    // If its compilers are not this machine's, there is none beside them.
    if !tools::is_on_path("pahole") || kernel.compilers.is_some() {
        command.arg("CONFIG_DEBUG_INFO_BTF_MODULES=");
    }
    command
}

/// Warnings of the compiler or modpost; that it is not the compiler of the kernel, or that type
/// information is left out, is nothing about our sources.
fn warnings(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.to_lowercase().contains("warning"))
        .filter(|line| !line.contains("the compiler differs from the one used to build"))
        .filter(|line| !line.contains("pahole version differs from the one used to build"))
        .map(str::to_owned)
        .collect()
}

/// Objects of a module, by their paths below the sources.
pub fn objects(module: &Path) -> Result<Vec<String>> {
    let folder = workspace::stem(module.parent().unwrap_or(module));
    let text = workspace::read(&module.with_extension("mod"))?;
    let names = text
        .split_whitespace()
        .map(|it| it.trim_start_matches("./"));
    Ok(names
        .map(|name| match name.strip_prefix("../") {
            Some(beside) => beside.to_owned(),
            None => format!("{folder}/{name}"),
        })
        .collect())
}

/// Of a module that is built for 32 bits, the divisions of 64 bits that no kernel has.
pub fn divisions_of_64_bits(
    log: &Log,
    name: &str,
    make: &dyn Fn() -> Command,
    level: &str,
) -> Result<Vec<String>> {
    let place = copy_of_sources(name, Flavour::Release)?;
    let mut command = make();
    command.arg(format!("M={}", place.display()));
    log.must(command.arg(format!("KCFLAGS={level}")).arg("modules"))?;
    let symbols = output_of(Command::new("nm").arg("-u").arg(place.join("zmeld.o")))?;
    let is_missing = |symbol: &&str| symbol.ends_with("di3") || symbol.ends_with("ldivmod");
    let missing = symbols.split_whitespace().filter(is_missing);
    Ok(missing.map(str::to_owned).collect())
}

fn copy_of_sources(kernel: &str, flavour: Flavour) -> Result<PathBuf> {
    let store = workspace::root().join("store");
    // By checkout, not by kernel: checkouts may share `target/kernels`.
    let place = workspace::work_folder(&format!("module/{kernel}"))?
        .canonicalize()?
        .join(flavour.build().0);
    for part in flavour.module().sources {
        mirror(&store.join(part), &place.join(part))?;
    }
    Ok(place.join(flavour.module().folder))
}

/// Makes `to` hold the sources of `from`: what is the same keeps its time, so that
/// make leaves it; what is gone goes.
pub fn mirror(from: &Path, to: &Path) -> Result<()> {
    let wanted = sources_below(from)?;
    for path in &wanted {
        let (bytes, copy) = (fs::read(from.join(path))?, to.join(path));
        if fs::read(&copy).ok().as_ref() != Some(&bytes) {
            fs::create_dir_all(copy.parent().unwrap_or(to))?;
            fs::write(&copy, bytes)?;
        }
    }
    for path in sources_below(to)?.difference(&wanted) {
        fs::remove_file(to.join(path))?;
    }
    Ok(())
}

/// The sources below a folder, without tests and what a build makes.
fn sources_below(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for path in workspace::all_files(folder)? {
        let path = path.strip_prefix(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_made = name.ends_with(".mod.c")
            || name.ends_with(".borrowed.c")
            || [ZMELD, ZWORD].iter().any(|it| it.features == name);
        let is_source = matches!(&*name, "Kbuild" | "Makefile" | "probe.sh")
            || name.ends_with(".c")
            || name.ends_with(".h");
        if is_source && !is_made && !path.iter().any(|part| part == "tests") {
            found.insert(path.to_owned());
        }
    }
    Ok(found)
}

/// A program for guests, from a C file, without libraries.
pub fn guest_program(log: &Log, recipe: &KernelRecipe, source: &Path) -> Result<PathBuf> {
    let name = format!("guest/{}-{}", recipe.arch().debian(), recipe.page_bytes());
    let folder = workspace::work_folder(&name)?;
    let program = folder.join(workspace::stem(source));
    let mut command = match recipe.arch().cross() {
        None => Command::new(tools::c_compiler()),
        Some(prefix) => Command::new(format!("{prefix}gcc")),
    };
    command.args("-std=gnu11 -O2 -Wall -Wextra -Werror -static".split(' '));
    command.arg(format!("-DPAGE={}", recipe.page_bytes()));
    command.arg(source).arg("-o").arg(&program).arg("-lpthread");
    log.must(&mut command)?;
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

    /// `docs/abi` names a file where the module makes one of that name.
    #[test]
    fn every_file_that_is_described_is_made() {
        let kmod = workspace::root().join("store/kmod");
        let sources = workspace::files(&kmod, "c").unwrap();
        let made: String = sources
            .iter()
            .map(|it| workspace::read(it).unwrap())
            .collect();
        let described = workspace::root().join("docs/abi/sysfs-block-zmeld");
        for line in workspace::read(&described).unwrap().lines() {
            let Some(path) = line.strip_prefix("What:") else {
                continue;
            };
            let name = path.rsplit('/').next().unwrap();
            let is_made =
                made.contains(&format!("({name})")) || made.contains(&format!("\"{name}\""));
            assert!(is_made, "{line}");
        }
    }
}
