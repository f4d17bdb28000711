//! Benchmarks that need a kernel of their own: zmeld.ko beside zram, and swap on
//! a machine that is short of memory; and surveys of real machines, several of them with the
//! same programs: guests of user-mode Linux that run programs of this machine. What sketches
//! say of them is held against all of their pages by `fleet/shows/real_guests.py`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context, Result};

use crate::bench_runs::{self, setting, timed_setting, BenchArguments};
use crate::guest::Addition;
use crate::kernel_tests::command_line_files;
use crate::kernels::{self, KernelRecipe};
use crate::machine::BootOptions;
use crate::module_build::{self, Flavour};
use crate::pages;
use crate::process::{output_of, run_in_front, Log};
use crate::rust_tests::cargo;
use crate::workspace;

/// Pages of a guest's comparison of codecs, and bytes of each file of them.
const SWAPPED_PAGES: usize = 16_384;
const SWAPPED_PART: usize = 8 << 20;
/// The guest's program prints its JSON behind this line.
const JSON_FOLLOWS: &str = "==== zmeld JSON ====";

/// zmeld.ko beside zram, in one boot of one kernel, on the same pages; and one codec beside
/// the other, on pages that `cargo xtask pages` kept
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    bench: BenchArguments,
    /// Files to take pages from
    #[arg(long, value_name = "PATH", num_args = 1..)]
    input: Vec<PathBuf>,
    /// The benchmark's own, behind these: --rounds N, --pages N, --only melding|codecs,
    /// --codec NAME, --duplicates PERCENT, --jobs N
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn kernel(options: &Options) -> Result<ExitCode> {
    let log = Log::named("bench-kernel")?;
    let kernel = options.bench.kernel(&log)?;
    let module = module_build::build(&log, &kernel, Flavour::Release)?;
    let program = bench_program("kernel")?;
    let pages = collect(&program, options)?;
    let mut files = Vec::new();
    for path in workspace::files(&pages, "pages")? {
        let at = format!("/guest/input/{}.pages", workspace::stem(&path));
        files.push(Addition::file(&at, &path)?);
    }
    let mut passed_on = options.arguments.join(" ");
    if options.input.is_empty() {
        let swapped = swapped_files()?;
        if !swapped.is_empty() {
            passed_on += " --swapped /guest/swapped";
        }
        files.extend(swapped);
    }
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let script = format!(
        "#!/bin/sh\nmodprobe zram || exit 1\n\
         {name} --json /tmp/result.json {passed_on} --input /guest/input || exit\n\
         echo '{JSON_FOLLOWS}'\ncat /tmp/result.json\n"
    );
    let boot = BootOptions {
        script: Some(Addition::text("/guest/script", script, true)),
        module: Some(Addition::module(&module)?),
        variables: vec![("ZMELD_BENCH_BED", timed_setting(&kernel))],
        files,
        programs: vec![program.display().to_string()],
        memory: 1024,
        urgent: true,
        limit: Duration::from_secs(2 * 3600),
        ..BootOptions::default()
    };
    let said = bench_runs::boot(&kernel, &boot)?;
    let (text, json) = said.split_once(JSON_FOLLOWS).unwrap_or((&said, ""));
    print!("{text}");
    if let Some(path) = &options.bench.json {
        workspace::put(path, json.trim_start())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn swapped_files() -> Result<Vec<Addition>> {
    let Some(pages) = pages::held_out(SWAPPED_PAGES)? else {
        return Ok(Vec::new());
    };
    eprintln!("codecs: {}", pages.about);
    let parts = pages.bytes.chunks(SWAPPED_PART);
    let files = parts.enumerate().map(|(number, part)| Addition {
        name: format!("/guest/swapped/{number}.pages"),
        bytes: part.to_vec(),
        executable: false,
    });
    Ok(files.collect())
}

/// Builds a benchmark of zmeld-store; where it is.
fn bench_program(name: &str) -> Result<PathBuf> {
    let mut command = cargo(&["bench", "--no-run", "--package", "zmeld-store"]);
    command.args(["--bench", name, "--message-format=json-render-diagnostics"]);
    output_of(command.stderr(Stdio::inherit()))?
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo named no program")
}

/// Pages of this machine's files, for a guest that has none of them.
fn collect(program: &Path, options: &Options) -> Result<PathBuf> {
    let folder = workspace::work_folder("bench-pages")?;
    workspace::empty_folder(&folder)?;
    let mut command = Command::new(program);
    command.arg("--collect").arg(&folder);
    command.args(&options.arguments);
    if !options.input.is_empty() {
        command.arg("--input").args(&options.input);
    }
    let is_collected = run_in_front(&mut command)?.success();
    ensure!(is_collected, "no pages to measure with");
    Ok(folder)
}

/// A program that needs more memory than there is, with swap on zmeld, on zram, on a disk,
/// and without
#[derive(clap::Args)]
pub struct Swap {
    #[arg(long, value_name = "NAME", default_value = "6.12", value_parser = kernels::named)]
    kernel: &'static KernelRecipe,
}

/// MiB of the guest that is short of memory, and of its program's data.
const SHORT_MEMORY: u64 = 256;

pub fn swap(options: &Swap) -> Result<ExitCode> {
    let log = Log::named("bench-swap")?;
    let kernel = bench_runs::kernel(&log, options.kernel)?;
    let module = module_build::build(&log, &kernel, Flavour::Release)?;
    let tests = workspace::root().join("store/kmod/tests");
    let pages = module_build::guest_program(&log, kernel.recipe, &tests.join("pages.c"))?;
    println!(
        "{SHORT_MEMORY} MiB of memory, a program with 1.5 times as much, 30 % of its pages \
         duplicates\n{}\n",
        setting(&kernel)
    );
    for kind in ["zmeld", "zram", "disk", "none"] {
        let boot = BootOptions {
            script: Some(crate::vm::script(&tests.join("../short-of-memory.sh"))?),
            module: Some(Addition::module(&module)?),
            load: false,
            files: vec![Addition::file("/guest/pages", &pages)?],
            variables: vec![("SWAP", kind.into())],
            memory: SHORT_MEMORY,
            disks: vec![512],
            limit: Duration::from_secs(1800),
            ..BootOptions::default()
        };
        print!("{}", bench_runs::boot(&kernel, &boot)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Surveys of guests that run programs of this machine, some of them the same
#[derive(clap::Args)]
pub struct Surveys {
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

pub fn surveys(options: Surveys) -> Result<ExitCode> {
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
        let script = workspace::root().join("xtask/guest/surveys.sh");
        let boot = BootOptions {
            script: Some(crate::vm::script(&script)?),
            load: false,
            files: files.clone(),
            variables: vec![
                ("NAME", (*name).to_owned()),
                ("PROGRAMS", (*programs).to_owned()),
                ("PLACE", place.display().to_string()),
                ("MACHINE", format!("{:032x}", at + 1)),
                ("SKETCH", options.sketch.to_string()),
            ],
            memory: 384,
            ..BootOptions::default()
        };
        let before = count_surveys(&place)?;
        bench_runs::boot(&kernel, &boot)?;
        ensure!(
            count_surveys(&place)? == before + 1,
            "{name} left no survey"
        );
    }
    println!("{}", place.display());
    Ok(ExitCode::SUCCESS)
}

fn count_surveys(place: &Path) -> Result<usize> {
    let folder = place.join("zmeld-survey-2");
    let mut count = 0;
    for day in fs::read_dir(folder).into_iter().flatten() {
        count += workspace::files(&day?.path(), "parquet")?.len();
    }
    Ok(count)
}
