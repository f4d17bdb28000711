//! Fuzz targets under clang's libFuzzer.
//!
//! What libFuzzer finds interesting is kept and met again by later runs. A
//! crash leaves its input and prints the command that replays it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::c_build::{clang, tests_folder, Flavour};
use crate::c_tests::{self, CTestEnvironment};
use crate::process::{unavailable, FinishedProgram, Log};
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

/// What a target says of each codec at its end, before the codec's name.
const ENCODED: &str = "pages encoded with ";

/// Of so many pages for each codec, one whose codec had none is no accident.
const ENCODED_ENOUGH: u64 = 200;

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
    let written = |line: &str| {
        Some(
            line.split_once("Test unit written to ")?
                .1
                .trim()
                .to_owned(),
        )
    };
    let input = ran.text.lines().find_map(written);
    Ok(verdict(target, &ran, program, input))
}

/// How many pages came back from each codec: `pages encoded with CODEC: N`.
fn encoded(text: &str) -> Vec<(&str, u64)> {
    text.lines()
        .filter_map(|line| line.strip_prefix(ENCODED)?.split_once(": "))
        .filter_map(|(codec, count)| Some((codec, count.trim().parse().ok()?)))
        .collect()
}

/// A codec that encoded nothing where others had enough.
fn left_out(text: &str) -> Option<String> {
    let encoded = encoded(text);
    let all: u64 = encoded.iter().map(|(_, count)| count).sum();
    if all < ENCODED_ENOUGH * encoded.len() as u64 {
        return None;
    }
    let (codec, _) = encoded.iter().find(|(_, count)| *count == 0)?;
    Some(format!("no page was encoded with {codec}, of {all} pages"))
}

fn verdict(target: &str, ran: &FinishedProgram, program: &Path, input: Option<String>) -> Tally {
    if let Some(why) = left_out(&ran.text).filter(|_| ran.succeeded()) {
        return Tally::fail(target, why);
    }
    let mut replay = Command::new(program);
    replay.args(input);
    c_tests::judged(target, ran, &replay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codec_that_encodes_nothing_is_told() {
        let text = "pages encoded with lz4: 390\nDone 400 runs\npages encoded with zword: 10\n";
        assert_eq!(encoded(text), [("lz4", 390), ("zword", 10)]);
        assert_eq!(left_out(text), None);
        let text = text.replace("zword: 10", "zword: 0").replace("390", "400");
        let why = left_out(&text).unwrap();
        assert!(why.contains("no page was encoded with zword"), "{why}");
        // Too few to say, and a target without codecs.
        assert_eq!(left_out(&text.replace("400", "399")), None);
        assert_eq!(left_out("Done 9 runs\n"), None);
    }
}
