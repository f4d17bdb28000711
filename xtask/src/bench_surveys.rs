//! Surveys of real machines, several of them with the same programs: guests of user-mode
//! Linux that run programs of this machine. What sketches say of them is held against all
//! of their pages by `fleet/shows/real_guests.py`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};

use crate::bench_runs;
use crate::kernel_tests::command_line_files;
use crate::kernels;
use crate::machine::BootOptions;
use crate::process::Log;
use crate::vm;
use crate::workspace;

/// Surveys of guests that run programs of this machine, some of them the same
#[derive(clap::Args)]
pub struct Options {
    /// Where surveys go
    #[arg(long, value_name = "FOLDER")]
    place: Option<PathBuf>,
    /// Contents in a sketch; by default more than a guest has, so that every one is listed
    #[arg(long, value_name = "N", default_value_t = 1 << 17)]
    sketch: u64,
}

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

pub fn run(options: Options) -> Result<ExitCode> {
    let place = match options.place {
        Some(place) => place,
        None => workspace::work_folder("surveys")?,
    };
    fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let place = place.canonicalize()?;
    let log = Log::named("bench-surveys")?;
    let um = kernels::recipe("um").context("no user-mode Linux")?;
    let kernel = bench_runs::kernel(&log, um)?;
    // The fleet's secret, which guests copy: only for these surveys.
    if !place.join("key").exists() {
        fs::write(place.join("key"), format!("{}\n", "5a".repeat(32)))?;
    }
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
                set("SKETCH", &options.sketch.to_string()),
            ],
            memory: 384,
            ..BootOptions::default()
        };
        let before = surveys(&place)?;
        bench_runs::boot(&kernel, &boot)?;
        ensure!(surveys(&place)? == before + 1, "{name} left no survey");
    }
    println!("{}", place.display());
    Ok(ExitCode::SUCCESS)
}

fn surveys(place: &Path) -> Result<usize> {
    let folder = place.join("zmeld-survey-2");
    let mut count = 0;
    for day in fs::read_dir(folder).into_iter().flatten() {
        count += workspace::files(&day?.path(), "parquet")?.len();
    }
    Ok(count)
}
