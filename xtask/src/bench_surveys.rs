//! Surveys of real machines, several of them with the same programs: guests of user-mode
//! Linux that run programs of this machine. What sketches say of them is held against all
//! of their pages by `fleet/shows/real_guests.py`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};

use crate::arguments::Arguments;
use crate::bench_guest::named_kernel;
use crate::bench_runs;
use crate::kernel_tests::command_line_files;
use crate::machine::BootOptions;
use crate::process::Log;
use crate::vm;
use crate::workspace;

/// MiB of a guest.
const MEMORY: u64 = 384;
/// More contents than a guest has: every one is listed, so that what sketches say can be
/// held against all.
const ALL: u64 = 1 << 17;
/// What each guest runs: kinds of programs, each with what it does differently.
const GUESTS: &[(&str, &str)] = &[
    ("web-1", "web:1"),
    ("web-2", "web:2"),
    ("web-2b", "web:2"),
    ("words-1", "words:200"),
    ("words-2", "words:200"),
    ("words-3", "words:80"),
    ("lines-1", "lines:1"),
    ("mixed-1", "web:1 words:200 lines:1"),
    ("mixed-2", "web:3 web:4 lines:1"),
];

/// Runs `bench surveys`.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let mut place = workspace::work_folder("surveys")?;
    let mut sketch = ALL;
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--place" => place = PathBuf::from(arguments.value()?),
            "--sketch" => sketch = arguments.number()?,
            other => bail!("there is no argument {other:?}"),
        }
    }
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let place = place.canonicalize()?;
    let log = Log::create(&workspace::work_folder("logs")?.join("bench-surveys.log"))?;
    let kernel = match named_kernel(&log, "um")? {
        Ok(kernel) => kernel,
        Err(code) => return Ok(code),
    };
    write_key(&place)?;
    let files = command_line_files(&log)?;
    for (at, (name, programs)) in GUESTS.iter().enumerate() {
        eprintln!("{name}: {programs}");
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let script = workspace::root().join("xtask/guest/surveys.sh");
        let boot = BootOptions {
            script: Some(vm::script(&script)?),
            load: false,
            files: files.clone(),
            variables: vec![
                set("NAME", name),
                set("PROGRAMS", programs),
                set("PLACE", &place.display().to_string()),
                set("MACHINE", &format!("{:032x}", at + 1)),
                set("SKETCH", &sketch.to_string()),
            ],
            memory: MEMORY,
            limit: Duration::from_secs(900),
            ..BootOptions::default()
        };
        let before = surveys(&place)?;
        bench_runs::boot(&kernel, &boot)?;
        ensure!(surveys(&place)? == before + 1, "{name} left no survey");
    }
    println!("{}", place.display());
    Ok(ExitCode::SUCCESS)
}

/// The fleet's secret, which guests copy: only for these surveys.
fn write_key(place: &Path) -> Result<()> {
    let path = place.join("key");
    if !path.exists() {
        fs::write(&path, format!("{}\n", "5a".repeat(32)))?;
    }
    Ok(())
}

/// How many there are.
fn surveys(place: &Path) -> Result<usize> {
    let folder = place.join("zmeld-survey-2");
    let mut count = 0;
    for day in fs::read_dir(folder).into_iter().flatten() {
        count += workspace::files(&day?.path(), "parquet")?.len();
    }
    Ok(count)
}
