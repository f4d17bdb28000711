//! Benchmarks that need a kernel of their own: zmeld.ko beside zram, and swap on
//! a machine that is short of memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context, Result};

use crate::bench_runs::{self, setting, timed_setting};
use crate::guest::Addition;
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
    #[arg(long, value_name = "NAME", default_value = "um", value_parser = kernels::named)]
    kernel: &'static KernelRecipe,
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    #[arg(long, value_name = "N")]
    pages: Option<String>,
    #[arg(long, value_parser = ["melding", "codecs"])]
    only: Option<String>,
    #[arg(long, value_name = "NAME")]
    codec: Vec<String>,
    #[arg(long, value_name = "PERCENT")]
    duplicates: Vec<String>,
    #[arg(long, value_name = "N")]
    jobs: Vec<String>,
    /// Files to take pages from
    #[arg(long, value_name = "PATH", num_args = 1..)]
    input: Vec<PathBuf>,
}

impl Options {
    fn passed_on(&self) -> Vec<String> {
        let once = [
            ("--rounds", &self.rounds),
            ("--pages", &self.pages),
            ("--only", &self.only),
        ];
        let many = [
            ("--codec", &self.codec),
            ("--duplicates", &self.duplicates),
            ("--jobs", &self.jobs),
        ];
        let once = once
            .into_iter()
            .flat_map(|(name, value)| value.iter().map(move |it| (name, it)));
        let many = many
            .into_iter()
            .flat_map(|(name, all)| all.iter().map(move |it| (name, it)));
        once.chain(many)
            .flat_map(|(name, value)| [name.to_owned(), value.clone()])
            .collect()
    }
}

/// zmeld.ko beside the zram of the same kernel.
pub fn kernel(options: &Options) -> Result<ExitCode> {
    let log = Log::named("bench-kernel")?;
    let kernel = bench_runs::kernel(&log, options.kernel)?;
    let module = module_build::build(&log, &kernel, Flavour::Release)?;
    let program = bench_program("kernel")?;
    let pages = collect(&program, options)?;
    let mut files = Vec::new();
    for path in workspace::files(&pages, "pages")? {
        let at = format!("/guest/input/{}.pages", workspace::stem(&path));
        files.push(Addition::file(&at, &path)?);
    }
    let mut passed_on = options.passed_on().join(" ");
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
        variables: vec![("ZMELD_BENCH_BED".into(), timed_setting(&kernel))],
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
    if let Some(path) = &options.json {
        fs::write(path, json.trim_start())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Pages that `cargo xtask pages` kept, for a guest; none where none are.
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
    command.args(options.passed_on());
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

/// A program that needs one and a half times the memory, on each kind of swap.
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
            variables: vec![("SWAP".into(), kind.into())],
            memory: SHORT_MEMORY,
            disks: vec![512],
            limit: Duration::from_secs(1800),
            ..BootOptions::default()
        };
        print!("{}", bench_runs::boot(&kernel, &boot)?);
    }
    Ok(ExitCode::SUCCESS)
}
