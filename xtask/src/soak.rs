//! `cargo xtask soak`: for hours, what the tests do for minutes.
//!
//! Its parts take turns: model operations with failing allocations, pages that zword
//! encodes and gives back, each fuzz target, and the module in a kernel that checks itself
//! and in one whose processors come and go.

use std::process::ExitCode;
use std::slice;
use std::time::{Duration, Instant};

use anyhow::{bail, Result};

use crate::c_tests::CTestEnvironment;
use crate::kernel_tests::{self, KernelCache};
use crate::process::{unavailable, Log};
use crate::setup;
use crate::step::{run_all, Action, Step, TestScope};
use crate::test;

/// Do for hours, in turn, what the tests do for minutes
///
/// Model operations with failing allocations, pages that zword encodes and gives back,
/// every fuzz target, and the module in kernels, each turn with random numbers of its own.
/// The first finding ends it, with exit code 1 and the command that repeats it.
#[derive(clap::Args)]
pub struct Options {
    /// How long, such as 0.5; the last turn is not cut short
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = hours)]
    hours: f64,
    /// Random numbers from S
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only parts whose name begins with PART
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// As root, too, install nothing
    #[arg(long)]
    no_install: bool,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok();
    let hours = hours.filter(|hours| (0.0..=10_000.0).contains(hours));
    hours.ok_or_else(|| "not a number from 0 to 10000".to_owned())
}

/// Steps of the long tests that see something new with other random numbers.
const PARTS: &[&str] = &["model-", "round_trip-", "fuzz_"];

/// Boots take their time in a kernel that checks itself.
const KERNEL_SECONDS: u64 = 900;

/// A step takes some seeds from its own on.
const SEEDS_OF_A_TURN: u64 = 1000;

pub fn run(options: &Options) -> Result<ExitCode> {
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(options.hours * 3600.0);
    let (environment, kernels) = (CTestEnvironment::default(), KernelCache::default());
    let mut seed = options.seed.unwrap_or_else(test::seed_of_today);
    setup::set_up(&["soak".to_owned()], !options.no_install)?;
    loop {
        println!("seed {seed}");
        let mut passed = 0;
        for part in parts(options, seed, &environment, &kernels)? {
            if begin.elapsed() >= limit {
                return Ok(ExitCode::SUCCESS);
            }
            let total = run_all(slice::from_ref(&part), Vec::new())?;
            if !total.failed.is_empty() {
                return Ok(ExitCode::from(1));
            }
            passed += total.passed;
        }
        if passed == 0 {
            unavailable!("none of the parts runs here");
        }
        seed += SEEDS_OF_A_TURN;
    }
}

fn parts<'a>(
    options: &Options,
    seed: u64,
    environment: &'a CTestEnvironment,
    kernels: &'a KernelCache,
) -> Result<Vec<Step<'a>>> {
    let mut parts = test::steps(TestScope::Long, seed, environment, kernels)?;
    parts.retain(|step| PARTS.iter().any(|name| step.name.starts_with(name)));
    parts.extend(kernel_tests::SOAK_KERNELS.iter().map(|&name| Step {
        name: format!("soak-{name}"),
        about: String::new(),
        run: Action::Alone(Box::new(move |log: &Log| {
            kernel_tests::soak(log, kernels, name, seed, KERNEL_SECONDS)
        })),
    }));
    if !options.only.is_empty() {
        let known: Vec<String> = parts.iter().map(|part| part.name.clone()).collect();
        parts.retain(|part| options.only.iter().any(|it| part.name.starts_with(it)));
        if parts.is_empty() {
            bail!("no part has that name: {}", known.join(", "));
        }
    }
    Ok(parts)
}
