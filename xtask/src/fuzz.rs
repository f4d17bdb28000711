//! Fuzz targets under clang's libFuzzer.
//!
//! Inputs that libFuzzer finds interesting are kept and met again by later runs. A
//! crash leaves its input and prints the command that replays it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::c_build::{clang, tests_folder, Flavour};
use crate::c_tests::{self, CTestEnvironment};
use crate::process::{unavailable, Log};
use crate::step::{Rest, Tally, TestScope};
use crate::tools;
use crate::workspace;

const PROBE: &str = "\
#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{ (void)data; (void)size; return 0; }
";

/// Longest input, in bytes: a page and what chooses its target, or some
/// hundreds of operations.
const INPUT_MAX: u32 = 8192;

pub fn targets() -> Result<Vec<String>> {
    let sources = workspace::files(&tests_folder(), "c")?;
    Ok(sources
        .iter()
        .map(|path| workspace::stem(path))
        .filter(|name| name.starts_with("fuzz_"))
        .collect())
}

/// How many inputs are tried, for how many seconds at most.
fn effort(scope: TestScope) -> (u64, u64) {
    match scope {
        TestScope::Default => (50_000, 40),
        TestScope::Long => (50_000_000, 1200),
    }
}

pub fn start(
    log: &Log,
    environment: &CTestEnvironment,
    target: &str,
    scope: TestScope,
    seed: u64,
) -> Result<Rest> {
    if let Some(reason) = why_not(log)? {
        unavailable!("libFuzzer cannot run: {reason}");
    }
    let compiler = &environment.compiler;
    let program = compiler.program(log, Flavour::Fuzzer, target)?;
    let target = target.to_owned();
    Ok(Box::new(move |log| {
        with_libfuzzer(log, &program, &target, scope, seed)
    }))
}

pub fn why_not(log: &Log) -> Result<Option<String>> {
    let flags = ["-fsanitize=fuzzer,address,undefined"];
    Ok(tools::works(log, &clang(), &flags, PROBE, &[])?.err())
}

fn with_libfuzzer(
    log: &Log,
    program: &Path,
    target: &str,
    scope: TestScope,
    seed: u64,
) -> Result<Tally> {
    let (runs, seconds) = effort(scope);
    // Short inputs are tried more often in the same time, long ones reach further.
    let size_max = match scope {
        TestScope::Default => INPUT_MAX,
        TestScope::Long => [192, 1024, INPUT_MAX][(seed % 3) as usize],
    };
    let corpus = workspace::work_folder(&format!("fuzz/{target}/corpus"))?;
    let crashes = workspace::work_folder(&format!("fuzz/{target}/crashes"))?;
    let mut command = Command::new(program);
    command
        .arg(format!("-runs={runs}"))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-seed={}", seed as u32))
        .arg(format!("-max_len={size_max}"))
        .args(["-timeout=20", "-rss_limit_mb=1024"])
        .arg(format!("-artifact_prefix={}/", crashes.display()))
        .arg(&corpus);
    let ran = log.run_for(&mut command, Duration::from_secs(seconds + 300))?;
    let mut lines = ran.text.lines();
    let written = lines.find_map(|line| line.split_once("Test unit written to "));
    let mut replay = Command::new(program);
    replay.args(written.map(|(_, input)| input.trim()));
    Ok(c_tests::judged(target, &ran, &replay))
}
