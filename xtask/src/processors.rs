//! Other processors, emulated: zword gives the same bytes on them, and the whole store works
//! on those of 32 bits.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::c_build;
use crate::kernels;
use crate::module_build;
use crate::process::{output_of, Log};
use crate::rust_tests::cargo;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

pub const STEP: &str = "processors";
pub const NARROW: &str = "store-32-bits";
pub const MODULES: &str = "module-32-bits";

const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror"];

struct Processor {
    name: &'static str,
    compiler: &'static str,
    emulator: &'static str,
}

#[rustfmt::skip]
const ALL: [Processor; 5] = [
    Processor { name: "s390x: big endian, 64 bits", compiler: "s390x-linux-gnu-gcc", emulator: "qemu-s390x" },
    Processor { name: "powerpc: big endian, 32 bits", compiler: "powerpc-linux-gnu-gcc", emulator: "qemu-ppc" },
    Processor { name: "armhf: little endian, 32 bits", compiler: "arm-linux-gnueabihf-gcc", emulator: "qemu-arm" },
    Processor { name: "arm64: little endian, 64 bits", compiler: "aarch64-linux-gnu-gcc", emulator: "qemu-aarch64" },
    Processor { name: "i386: little endian, 32 bits", compiler: "i686-linux-gnu-gcc", emulator: "qemu-i386" },
];
/// Of each byte order and of 32 and 64 bits.
const OF_EACH_KIND: &[&Processor] = &[&ALL[0], &ALL[1], &ALL[2], &ALL[3]];
const OF_32_BITS: [&Processor; 2] = [&ALL[4], &ALL[2]];

impl Processor {
    fn need(&self) -> Result<()> {
        tools::need(&[self.compiler, self.emulator])
    }

    /// Compiler of our own sources for it, linking without shared libraries.
    fn strict_compiler(&self, includes: &[PathBuf]) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(STRICT);
        add_store_flags(&mut command, includes);
        command
    }

    /// Compiler of others' sources: no warnings, nothing that only an assembler knows.
    fn library_compiler(&self) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(["-w", "-O2", "-DZSTD_DISABLE_ASM", "-DHAVE_UNISTD_H"]);
        command
    }

    fn run(&self) -> Command {
        Command::new(self.emulator)
    }
}

/// Adds the flags that all of the store's C needs.
fn add_store_flags(command: &mut Command, includes: &[PathBuf]) {
    let store = workspace::root().join("store");
    command.args(["-std=gnu11", "-O2", "-static", "-DZM_PAGE_SHIFT=12"]);
    let own = ["include", "port/user", "zword"].map(|folder| store.join(folder));
    for folder in own.iter().chain(includes) {
        command.arg("-I").arg(folder);
    }
}

fn compile(log: &Log, mut command: Command, sources: &[PathBuf], program: &Path) -> Result<()> {
    log.must(command.args(sources).arg("-o").arg(program))?;
    Ok(())
}

/// Each makes the same objects of the same pages.
pub fn test(log: &Log) -> Result<Tally> {
    let folder = workspace::work_folder(STEP)?;
    let mut sources = vec![c_build::tests_folder().join("round_trip.c")];
    let zword = workspace::root().join("store/zword");
    sources.extend(workspace::files(&zword, "c")?);
    let mut tally = Tally::default();
    for processor in OF_EACH_KIND {
        let ran = processor.need().and_then(|()| {
            let program = folder.join(processor.emulator);
            compile(log, processor.strict_compiler(&[]), &sources, &program)?;
            let ran = log.run(processor.run().arg(&program).arg("same"))?;
            let why = format!("{}: {}", processor.name, ran.text);
            Ok(Tally::of(STEP, ran.succeeded(), why))
        });
        tally.add(Tally::or_skip(STEP, ran)?);
    }
    Ok(tally)
}

/// The C tests and their arguments, which are few: emulation is slow.
const RUNS: &[(&str, &[&str])] = &[
    ("codec", &["1"]),
    ("model", &["1", "800"]),
    ("pass", &["20000"]),
    ("recompress", &[]),
    ("check_writes", &[]),
    ("fingerprint", &["300"]),
    ("changing", &["300"]),
    ("threads", &["3", "1"]),
];

/// The store compiled without a warning, and its C tests, with the codecs' libraries.
pub fn narrow(log: &Log) -> Result<Tally> {
    let mut tally = Tally::default();
    for processor in OF_32_BITS {
        let tested = processor
            .need()
            .and_then(|()| test_store_on(log, processor));
        tally.add(Tally::or_skip(NARROW, tested)?);
    }
    Ok(tally)
}

/// The oldest of clang's versions in Debian 12 that builds the newest kernel for both.
const CLANG: &str = "clang-19";

/// zmeld.ko builds for them, by either compiler and at either level, and divides no 64 bits.
pub fn modules(log: &Log) -> Result<Tally> {
    let mut tally = Tally::default();
    for (processor, name) in OF_32_BITS.iter().zip(["i386", "arm"]) {
        for compiler in [processor.compiler, CLANG] {
            let built = builds_module(log, name, compiler);
            tally.add(Tally::or_skip(MODULES, built)?);
        }
    }
    Ok(tally)
}

fn builds_module(log: &Log, processor: &str, compiler: &str) -> Result<Tally> {
    tools::need(&[compiler])?;
    let word = match compiler.strip_prefix("clang") {
        Some(version) => {
            let [linker, lister] = ["ld.lld", "llvm-nm"].map(|tool| format!("{tool}{version}"));
            tools::need(&[&linker, &lister])?;
            format!("LLVM={version}")
        }
        None => format!("CROSS_COMPILE={}", compiler.trim_end_matches("gcc")),
    };
    let make = kernels::headers(log, (processor, compiler), word, "32-bits.config")?;
    let mut tally = Tally::default();
    for level in ["-O2", "-Os"] {
        let name = format!("{processor}-{compiler}{level}");
        let found = module_build::divisions_of_64_bits(log, &name, &make, level)?;
        let why = format!("{name}: {}", found.join(" "));
        tally.add(Tally::of(MODULES, found.is_empty(), why));
    }
    Ok(tally)
}

fn test_store_on(log: &Log, processor: &Processor) -> Result<Tally> {
    let folder = format!("{NARROW}/{}", processor.emulator);
    // The objects have the sources' names, so a folder is for one library.
    let objects_in = |name: &str, mut compiler: Command, sources: &[PathBuf]| {
        let folder = workspace::work_folder(&format!("{folder}/{name}"))?;
        compiler.current_dir(&folder).arg("-c").args(sources);
        log.must(&mut compiler)?;
        let object = |source: &PathBuf| folder.join(format!("{}.o", workspace::stem(source)));
        Ok::<Vec<PathBuf>, anyhow::Error>(sources.iter().map(object).collect())
    };
    let (mut includes, mut objects) = (Vec::new(), Vec::new());
    for (name, (files, include)) in [("lz4", lz4()?), ("zstd", zstd()?), ("zlib", zlib()?)] {
        let mut compiler = processor.library_compiler();
        compiler.arg("-I").arg(&include);
        objects.extend(objects_in(name, compiler, &files)?);
        includes.push(include);
    }
    let strict = || processor.strict_compiler(&includes);
    objects.extend(objects_in("store", strict(), &c_build::sources()?)?);
    let mut tally = Tally::default();
    for (name, arguments) in RUNS {
        let program = workspace::work_folder(&folder)?.join(name);
        let mut command = strict();
        command.arg(c_build::tests_folder().join(format!("{name}.c")));
        command.args(&objects).arg("-lpthread");
        log.must(command.arg("-o").arg(&program))?;
        let ran = log.run(processor.run().arg(&program).args(*arguments))?;
        let why = format!("{}: {name}: {}", processor.name, ran.status);
        tally.add(Tally::of(NARROW, ran.succeeded(), why));
        tally.add_skip_lines(NARROW, &ran.text);
    }
    Ok(tally)
}

/// The sources of a codec's library and the folder of its headers, where cargo keeps them: for
/// processors that cargo builds nothing for.
type LibrarySources = (Vec<PathBuf>, PathBuf);

fn lz4() -> Result<LibrarySources> {
    let include = crate_folder("lz4-sys")?.join("liblz4/lib");
    let files = ["lz4.c", "lz4hc.c"].map(|name| include.join(name));
    Ok((files.to_vec(), include))
}

fn zstd() -> Result<LibrarySources> {
    let include = crate_folder("zstd-sys")?.join("zstd/lib");
    let mut files = Vec::new();
    for part in ["common", "compress", "decompress"] {
        files.extend(workspace::files(&include.join(part), "c")?);
    }
    Ok((files, include))
}

/// Without files of its own format.
fn zlib() -> Result<LibrarySources> {
    let include = crate_folder("libz-sys")?.join("src/zlib");
    let mut files = workspace::files(&include, "c")?;
    files.retain(|file| !workspace::stem(file).starts_with("gz"));
    Ok((files, include))
}

fn crate_folder(name: &str) -> Result<PathBuf> {
    let text = output_of(&mut cargo(&["metadata", "--format-version", "1"]))?;
    let known: serde_json::Value = serde_json::from_str(&text)?;
    let packages = known["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str())
        .with_context(|| format!("cargo knows no {name}"))?;
    Ok(Path::new(manifest).with_file_name(""))
}
