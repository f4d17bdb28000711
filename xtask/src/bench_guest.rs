//! zmeld.ko beside zram, in a kernel of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{ensure, Result};

use crate::bench_runs::{self, timed_setting, BenchArguments};
use crate::guest::Addition;
use crate::machine::BootOptions;
use crate::module_build::{self, Flavour};
use crate::pages;
use crate::process::{output_of, run_in_front, Log};
use crate::rust_tests::{self, cargo};
use crate::workspace;

/// Pages of a guest's comparison of codecs, and bytes of each file of them.
const SWAPPED_PAGES: usize = 16_384;
const SWAPPED_PART: usize = 8 << 20;

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
        "#!/bin/sh\nmodprobe zram || exit 1\nexec {name} {passed_on} --input /guest/input\n"
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
    print!("{}", bench_runs::boot(&kernel, &boot)?);
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
    let said = output_of(command.stderr(Stdio::inherit()))?;
    rust_tests::executable(&said, name)
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
