//! The store's C tests, on the library as it is built and under sanitizers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::c_build::{Compiler, Flavour};
use crate::process::{command_line, unavailable, FinishedProgram, Log};
use crate::step::{Rest, Tally, TestScope};
use crate::tools;

const PROBE: &str = "int main(void) { return 0; }\n";

/// One program of `store/tests`, compiled in one way.
pub struct CTest {
    pub name: &'static str,
    pub flavour: Flavour,
    pub about: &'static str,
    /// The arguments of its runs as usual and for long: runs are parted by `;`.
    /// `S` is the seed, `EXE` this program, and `20 x` has the run 20 times, with a seed of
    /// its own each.
    runs: [&'static str; 2],
}

const fn test(
    name: &'static str,
    flavour: Flavour,
    runs: [&'static str; 2],
    about: &'static str,
) -> CTest {
    CTest {
        name,
        flavour,
        about,
        runs,
    }
}

use Flavour::{Address, AsBuilt, Blocks128, Blocks64, OneBit, Pages16K, Pages64K, Reads64, Thread};

/// Runs without arguments, with the seed, with the pages of a real program besides.
const PLAIN: [&str; 2] = [""; 2];
const PROGRAM: [&str; 2] = ["S EXE"; 2];
const THREADS: [&str; 2] = ["10 S", "6 x 60 S"];
const SMALL: [&str; 2] = ["50000 S", "5000000 S"];
const CHANGING: [&str; 2] = ["3000", "100000"];
const ADVERSARY: [&str; 2] = ["30000", "200000"];
const NARROW_MODEL: [&str; 2] = ["S 4000", "20 x S 20000"];
/// Level 2 has the pages that it encodes in a fourth of the time.
const ROUND_TRIP: [&str; 2] = [
    "same; 1 S 0 1000000; 2 S 0 31250",
    "same; 1 S 0 30000000; 2 S 0 937500",
];
/// Under sanitizers as many seconds as a million take without.
const ROUND_TRIP_CHECKED: [&str; 2] = [
    "same; 1 S 0 300000; 2 S 0 9375",
    "same; 1 S 0 3000000; 2 S 0 93750",
];

#[rustfmt::skip]
pub const TESTS: &[CTest] = &[
    test("codec", AsBuilt, PROGRAM, "every codec keeps its contract, on the library as it is built"),
    test("codec", Address, PROGRAM, "the same under the address and undefined-behaviour sanitizers"),
    test("round_trip", AsBuilt, ROUND_TRIP, "pages that know zword's limits come back, at both levels"),
    test("round_trip", Address, ROUND_TRIP_CHECKED, "the same under the address and undefined-behaviour sanitizers"),
    test("crypto_page", Address, PLAIN, "what zword.ko promises the kernel's crypto API"),
    test("crypto_page", Pages64K, PLAIN, "the same with pages of 64 KiB"),
    test("small_scope", Blocks64, SMALL, "zword with blocks of 64 bytes: all pages of few letters come back"),
    test("small_scope", Blocks128, SMALL, "the same with blocks of 128 bytes"),
    test("small_reads", Reads64, ["80 S", "5000 S"], "pages that change at any one of zword's reads are some page"),
    test("model", Address, ["; S 4000", "; 20 x S 20000; soak S 200000"], "random operations and failing allocations against plain pages"),
    test("model", AsBuilt, ["soak S 20000", "soak S 2000000"], "many operations on stores of few slots, one allocation of some dozen failing"),
    test("model", Thread, ["S 2000"; 2], "the same under the thread sanitizer"),
    test("pass", Address, ["60000", "60000; 400000"], "every duplicate is found, in little memory and in pieces"),
    test("interleave", Address, PLAIN, "operations in the midst of each other, wherever one holds no lock"),
    test("recompress", Address, PLAIN, "recompression and idle marks, case by case"),
    test("hostile", Address, PLAIN, "objects that no encoder writes, one step past each limit of a decoder"),
    test("check_writes", Address, PLAIN, "codecs that encode wrongly, in writes and in recompression"),
    test("check_writes", OneBit, PLAIN, "the same where fingerprints and shares are short"),
    test("check_writes", Pages16K, PLAIN, "the same with pages of 16 KiB"),
    test("check_writes", Pages64K, PLAIN, "the same with pages of 64 KiB"),
    test("threads", Address, THREADS, "reads beside writes, passes, recompression and writeback, each explained by some order"),
    test("threads", Thread, THREADS, "the same under the thread sanitizer"),
    test("adversary", OneBit, ADVERSARY, "bounds kept where half of all pages have one fingerprint"),
    test("model", OneBit, NARROW_MODEL, "random operations where fingerprints and shares are short"),
    test("fingerprint", Address, ["1000"; 2], "a second implementation agrees"),
    test("changing", Address, CHANGING, "pages that change while they are written or read into"),
    test("changing", OneBit, CHANGING, "the same where fingerprints and shares are short"),
    test("refusals", Address, PLAIN, "what is refused, and what the check says"),
    test("threads", OneBit, THREADS, "all at once where fingerprints and shares are short"),
];

/// Ends a program by the time that it computed, however busy the machine is.
const LIMITED: [&str; 2] = ["prlimit", "--cpu=20"];

pub fn of_step(step: &str) -> Result<&'static CTest> {
    let mut tests = TESTS.iter();
    tests
        .find(|test| test.step_name() == step)
        .with_context(|| format!("no C test is called {step}"))
}

/// One run's arguments, with a seed of its own each time.
pub fn words(run: &str, seed: u64) -> Vec<Vec<String>> {
    let (times, words) = match run.split_once(" x ") {
        Some((times, words)) => (times.trim().parse().unwrap_or(1), words),
        None => (1, run),
    };
    let word = |word: &str, seed: u64| match word {
        "S" => seed.to_string(),
        "EXE" => {
            std::env::current_exe().map_or("/proc/self/exe".into(), |exe| exe.display().to_string())
        }
        other => other.to_owned(),
    };
    let seeds = seed..seed + times;
    seeds
        .map(|seed| words.split_whitespace().map(|it| word(it, seed)).collect())
        .collect()
}

impl CTest {
    pub fn step_name(&self) -> String {
        format!("{}-{}", self.name, self.flavour.name())
    }

    pub fn arguments(&self, scope: TestScope, seed: u64) -> Vec<Vec<String>> {
        let runs = self.runs[scope as usize].split(';');
        runs.flat_map(|run| words(run, seed)).collect()
    }

    /// Compiles it; what is left are its runs, of which each counts as one test.
    pub fn start(
        &self,
        log: &Log,
        environment: &CTestEnvironment,
        scope: TestScope,
        seed: u64,
    ) -> Result<Rest> {
        let minutes = if scope == TestScope::Long { 360 } else { 15 };
        let limit = Duration::from_secs(minutes * 60);
        self.start_runs(log, environment, self.arguments(scope, seed), limit)
    }

    /// The same with these runs' arguments, each run for so long at most.
    pub fn start_runs(
        &self,
        log: &Log,
        environment: &CTestEnvironment,
        runs: Vec<Vec<String>>,
        limit: Duration,
    ) -> Result<Rest> {
        let step = self.step_name();
        let before = environment.launch(log, self.flavour)?;
        let compiler = &environment.compiler;
        let program = compiler.program(log, self.flavour, self.name)?;
        Ok(Box::new(move |log| {
            let mut tally = Tally::default();
            for arguments in runs {
                let mut command = launched(&before, program.clone());
                command.args(arguments);
                let ran = log.run_for(&mut command, limit)?;
                tally.add(judged(&step, &ran, &command));
                tally.add_skip_lines(&step, &ran.text);
            }
            Ok(tally)
        }))
    }
}

/// Whether a program succeeded; if not, what repeats it.
pub fn judged(name: &str, ran: &FinishedProgram, command: &Command) -> Tally {
    let why = format!("{}; replay with\n  {}", ran.status, command_line(command));
    Tally::of(name, ran.succeeded(), why)
}

/// How to start a program, or why it cannot run here.
type Launch = std::result::Result<Vec<&'static str>, String>;

/// Environment of all C tests: the compiler, and what was found out about it.
#[derive(Default)]
pub struct CTestEnvironment {
    pub compiler: Compiler,
    launches: RefCell<BTreeMap<&'static str, Launch>>,
}

impl CTestEnvironment {
    /// Command for the test whose step has that name, on a copy of the store in which a change may
    /// make it run for ever.
    pub fn command_of_copy(&self, log: &Log, step: &str, copy: &Path) -> Result<Command> {
        let test = of_step(step)?;
        let before = [&LIMITED, &self.launch(log, test.flavour)?[..]].concat();
        let compiler = &self.compiler;
        let program = compiler.program_of_copy(log, test.flavour, test.name, copy)?;
        Ok(launched(&before, program))
    }

    fn launch(&self, log: &Log, flavour: Flavour) -> Result<Vec<&'static str>> {
        let Some(sanitizer) = flavour.sanitizer() else {
            return Ok(Vec::new());
        };
        let known = self.launches.borrow().get(sanitizer).cloned();
        let launch = match known {
            Some(known) => known,
            None => find_launch(log, flavour)?,
        };
        self.launches.borrow_mut().insert(sanitizer, launch.clone());
        match launch {
            Ok(launch) => Ok(launch),
            Err(reason) => unavailable!("{reason}"),
        }
    }
}

fn launched(before: &[&str], program: PathBuf) -> Command {
    match before.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Older thread sanitizers do not start where the kernel randomises mappings
/// much; without randomisation they do. It depends on chance: try often.
fn find_launch(log: &Log, flavour: Flavour) -> Result<Launch> {
    let tries = if flavour == Thread { 8 } else { 1 };
    let compiler = flavour.compiler();
    let mut said = String::new();
    for before in [&[][..], &["setarch", "-R"][..]] {
        if before.first().is_some_and(|tool| !tools::is_on_path(tool)) {
            continue;
        }
        let probe = |_| tools::works(log, &compiler, &flavour.flags(), PROBE, before);
        match (0..tries)
            .map(probe)
            .collect::<Result<Result<(), String>, _>>()?
        {
            Ok(()) => return Ok(Ok(before.to_vec())),
            Err(why) => said = why,
        }
    }
    let name = compiler.to_string_lossy();
    let flags = flavour.flags()[0];
    Ok(Err(format!(
        "{name} makes no programs with {flags} that run here: {said}"
    )))
}
