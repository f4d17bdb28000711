//! Benchmarks: built with optimisation, run in front of the user.

use std::process::ExitCode;

use anyhow::{ensure, Result};

use crate::bench_fault;
use crate::bench_guard;
use crate::bench_guest;
use crate::pages;
use crate::process::run_in_front;
use crate::rust_tests::cargo;

/// Run a benchmark and print its tables
#[derive(clap::Subcommand)]
pub enum Bench {
    /// The page store: writes against the bare codec, passes against compressing
    #[command(disable_help_flag = true)]
    Store(Passed),
    /// zword beside zram's codecs, on the pages that `cargo xtask pages` kept; the bar is of
    /// the programs that zword's tables never saw
    #[command(disable_help_flag = true)]
    Codec(Passed),
    Kernel(bench_guest::Options),
    /// How long the faults of a program that needs more memory than there is take and how
    /// large it may be, with swap on zram and on zmeld with each codec, on the same kept pages
    Fault(bench_fault::Options),
    /// The same with swap through zswap and zword.ko, beside the kernel's compressors
    Zswap(bench_fault::Options),
    Guard(bench_guard::Options),
}

#[derive(clap::Args)]
pub struct Passed {
    /// The benchmark's own; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub fn run(bench: Bench) -> Result<ExitCode> {
    match bench {
        Bench::Store(passed) => of_store("store", passed.arguments),
        Bench::Codec(passed) => codec(passed.arguments),
        Bench::Kernel(options) => bench_guest::kernel(&options),
        Bench::Fault(options) => bench_fault::devices(&options),
        Bench::Zswap(options) => bench_fault::zswap(&options),
        Bench::Guard(options) => bench_guard::run(&options),
    }
}

fn codec(mut arguments: Vec<String>) -> Result<ExitCode> {
    for program in pages::programs()? {
        if program.trains {
            arguments.push("--trained".to_owned());
        }
        arguments.push(pages::kept_file_of(&program)?.display().to_string());
    }
    of_store("codec", arguments)
}

fn of_store(name: &str, arguments: Vec<String>) -> Result<ExitCode> {
    let mut command = cargo(&["bench", "--quiet", "--package", "zmeld-store"]);
    command.args(["--bench", name, "--"]).args(arguments);
    // Paths among the arguments are meant from where the user is.
    command.env("ZMELD_BENCH_FOLDER", std::env::current_dir()?);
    ensure!(run_in_front(&mut command)?.success(), "the benchmark fails");
    Ok(ExitCode::SUCCESS)
}
