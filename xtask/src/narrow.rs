//! The store on processors of 32 bits, emulated: compiled without a warning, and its C
//! tests, with the codecs' libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{bail, Result};

use crate::c_build;
use crate::library_sources;
use crate::process::Log;
use crate::processors::{Processor, ARMHF, I386};
use crate::step::Tally;
use crate::workspace;

/// The step's name.
pub const STEP: &str = "store-32-bits";

const LIMIT: Duration = Duration::from_secs(1800);

/// The C tests and their arguments, as short as `--quick` has them: emulation is slow.
const RUNS: &[(&str, &[&str])] = &[
    ("codec", &["1"]),
    ("model", &["1", "800"]),
    ("exhaustive", &["3"]),
    ("pass", &["20000"]),
    ("inline", &["1"]),
    ("recompress", &[]),
    ("check_writes", &[]),
    ("fingerprint", &["300"]),
    ("changing", &["300"]),
    ("threads", &["3", "1"]),
];

/// Builds the store for each of them and runs its tests.
pub fn test(log: &Log) -> Result<Tally> {
    let mut tally = Tally::default();
    for processor in [I386, ARMHF] {
        tally.add(match processor.missing() {
            Some(reason) => Tally::skip(STEP, format!("{}: {reason}", processor.name)),
            None => test_on(log, &processor)?,
        });
    }
    Ok(tally)
}

fn test_on(log: &Log, processor: &Processor) -> Result<Tally> {
    let folder = format!("{STEP}/{}", processor.emulator);
    let libraries = [
        ("lz4", library_sources::lz4()?),
        ("zstd", library_sources::zstd()?),
        ("zlib", library_sources::zlib()?),
    ];
    let (mut includes, mut objects) = (Vec::new(), Vec::new());
    for (name, library) in libraries {
        let mut compiler = processor.library_compiler();
        compiler.arg("-I").arg(&library.include);
        let into = workspace::work_folder(&format!("{folder}/{name}"))?;
        objects.extend(compile(log, compiler, &library.files, &into)?);
        includes.push(library.include);
    }
    let into = workspace::work_folder(&format!("{folder}/store"))?;
    let compiler = processor.strict_compiler(&includes);
    objects.extend(compile(log, compiler, &c_build::sources()?, &into)?);
    let folder = workspace::work_folder(&folder)?;
    let mut tally = Tally::default();
    for (name, arguments) in RUNS {
        let program = folder.join(name);
        let mut command = processor.strict_compiler(&includes);
        command.arg(c_build::tests_folder().join(format!("{name}.c")));
        command
            .args(&objects)
            .args(["-lpthread", "-o"])
            .arg(&program);
        if !log.run(&mut command, LIMIT)?.succeeded() {
            bail!(
                "store/tests/{name}.c does not compile for {}",
                processor.name
            );
        }
        let ran = log.run(processor.run().arg(&program).args(*arguments), LIMIT)?;
        tally.add(Tally::of(
            STEP,
            ran.succeeded(),
            format!("{}: {name}: {}", processor.name, ran.status),
        ));
        tally.add_skip_lines(STEP, &ran.text);
    }
    Ok(tally)
}

/// Compiles files; their objects have the sources' names, so a folder is for one library.
fn compile(
    log: &Log,
    mut compiler: Command,
    sources: &[PathBuf],
    folder: &Path,
) -> Result<Vec<PathBuf>> {
    compiler.current_dir(folder).arg("-c").args(sources);
    if !log.run(&mut compiler, LIMIT)?.succeeded() {
        bail!("{} does not compile", folder.display());
    }
    let object = |source: &PathBuf| folder.join(format!("{}.o", workspace::stem(source)));
    Ok(sources.iter().map(object).collect())
}
