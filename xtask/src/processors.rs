//! Other processors, emulated: zword gives the same bytes on them, and how many
//! instructions it takes there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::c_build;
use crate::process::Log;
use crate::step::Tally;
use crate::tools;
use crate::workspace;

/// The step's name.
pub const STEP: &str = "processors";

const LIMIT: Duration = Duration::from_secs(900);

/// For our own sources.
const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror"];

/// A kind of processor: how programs for it are compiled and run.
pub struct Processor {
    /// Its name in tables.
    pub name: &'static str,
    compiler: &'static str,
    /// What runs its programs.
    pub emulator: &'static str,
}

/// Of each byte order and of 32 and 64 bits.
const PROCESSORS: &[Processor] = &[
    Processor {
        name: "s390x: big endian, 64 bits",
        compiler: "s390x-linux-gnu-gcc",
        emulator: "qemu-s390x",
    },
    Processor {
        name: "powerpc: big endian, 32 bits",
        compiler: "powerpc-linux-gnu-gcc",
        emulator: "qemu-ppc",
    },
    ARMHF,
    ARM64,
];

/// The store is tested on it, too.
pub const ARMHF: Processor = Processor {
    name: "armhf: little endian, 32 bits",
    compiler: "arm-linux-gnueabihf-gcc",
    emulator: "qemu-arm",
};

/// The store is tested on it.
pub const I386: Processor = Processor {
    name: "i386: little endian, 32 bits",
    compiler: "i686-linux-gnu-gcc",
    emulator: "qemu-i386",
};

/// The one that instructions are counted on.
pub const ARM64: Processor = Processor {
    name: "arm64: little endian, 64 bits",
    compiler: "aarch64-linux-gnu-gcc",
    emulator: "qemu-aarch64",
};

/// Instructions of this one are counted, too: no other machine's.
pub const X86_64: Processor = Processor {
    name: "x86-64: little endian, 64 bits",
    compiler: "x86_64-linux-gnu-gcc",
    emulator: "qemu-x86_64",
};

impl Processor {
    /// What is missing to run programs of its.
    pub fn missing(&self) -> Option<String> {
        let missing: Vec<&str> = [self.compiler, self.emulator]
            .into_iter()
            .filter(|program| !tools::is_on_path(program))
            .collect();
        (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")))
    }

    /// What compiles our own sources for it, and links without shared libraries.
    pub fn strict_compiler(&self, includes: &[PathBuf]) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(STRICT);
        add_store_flags(&mut command, includes);
        command
    }

    /// What compiles others' sources: no warnings, nothing that only an assembler knows.
    pub fn library_compiler(&self) -> Command {
        let mut command = Command::new(self.compiler);
        command.args(["-w", "-O2", "-DZSTD_DISABLE_ASM", "-DHAVE_UNISTD_H"]);
        command
    }

    /// What runs its programs.
    pub fn run(&self) -> Command {
        Command::new(self.emulator)
    }
}

/// What all of the store's C needs.
pub fn add_store_flags(command: &mut Command, includes: &[PathBuf]) {
    let store = workspace::root().join("store");
    command.args(["-std=gnu11", "-O2", "-static", "-DZM_PAGE_SHIFT=12"]);
    for folder in ["include", "port/user", "zword"] {
        command.arg("-I").arg(store.join(folder));
    }
    for folder in includes {
        command.arg("-I").arg(folder);
    }
}

/// Compiles a program of ours.
pub fn compile(log: &Log, mut command: Command, sources: &[PathBuf], program: &Path) -> Result<()> {
    command.args(sources).arg("-o").arg(program);
    if !log.run(&mut command, LIMIT)?.succeeded() {
        bail!("{} does not compile", workspace::shown(&sources[0]));
    }
    Ok(())
}

/// Compresses the same pages on each of them and on this machine's.
pub fn test(log: &Log) -> Result<Tally> {
    let folder = workspace::work_folder(STEP)?;
    let mut sources = vec![c_build::tests_folder().join("processors.c")];
    sources.extend(workspace::files(
        &workspace::root().join("store/zword"),
        "c",
    )?);
    // The same bytes for all: this program.
    let pages = std::env::current_exe()?;
    let own = folder.join("own");
    let mut compiler = Command::new(tools::c_compiler());
    compiler.args(STRICT);
    add_store_flags(&mut compiler, &[]);
    compile(log, compiler, &sources, &own)?;
    let ran = log.run(Command::new(&own).arg(&pages), LIMIT)?;
    let expected = results(&ran.text);
    if !ran.succeeded() || expected.is_empty() {
        return Ok(Tally::fail(STEP, "fails on this machine's processor"));
    }
    let mut tally = Tally::pass();
    for processor in PROCESSORS {
        if let Some(reason) = processor.missing() {
            tally.add(Tally::skip(STEP, format!("{}: {reason}", processor.name)));
            continue;
        }
        let program = folder.join(processor.emulator);
        compile(log, processor.strict_compiler(&[]), &sources, &program)?;
        let ran = log.run(processor.run().arg(&program).arg(&pages), LIMIT)?;
        tally.add(Tally::of(
            STEP,
            ran.succeeded() && results(&ran.text) == expected,
            format!("{}: other bytes than on this machine", processor.name),
        ));
    }
    Ok(tally)
}

/// The lines with hashes.
fn results(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| line.contains(" pages of "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_not_the_command() {
        let text = "$ qemu-arm x\n12 pages of 4096 bytes, level 1: 70 bytes, ab\n";
        assert_eq!(
            results(text),
            ["12 pages of 4096 bytes, level 1: 70 bytes, ab"]
        );
    }
}
