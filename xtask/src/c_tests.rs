//! The store's C tests, on the library as it is built and under sanitizers.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::c_build::{Compiler, Flavour, StoreCopy};
use crate::process::{command_line, Log};
use crate::step::{Stage, Tally, TestScope};
use crate::tools;

/// The program that `cargo xtask soak` runs for hours.
pub const SOAK_PROGRAM: &str = "model";

/// The program that gives pages back, also for hours.
pub const ROUND_TRIP_PROGRAM: &str = "round_trip";

/// Pages of zword's level 1 in as many seconds as a million without sanitizers.
const ROUND_TRIP_CHECKED: u64 = 300_000;

const PROBE: &str = "int main(void) { return 0; }\n";

/// One program of `store/tests`, compiled in one way.
pub struct CTest {
    /// The source's name.
    pub name: &'static str,
    /// How it is compiled.
    pub flavour: Flavour,
    /// What it does, for lists.
    pub about: &'static str,
    /// The arguments of each run.
    runs: fn(TestScope, u64) -> Vec<Vec<String>>,
    in_quick: bool,
}

macro_rules! words {
    ($($word:expr),* $(,)?) => { vec![$($word.to_string()),*] };
}

const TESTS: &[CTest] = &[
    CTest {
        name: "codec",
        flavour: Flavour::AsBuilt,
        about: "every codec keeps its contract, on the library as it is built",
        runs: codec_runs,
        in_quick: true,
    },
    CTest {
        name: "codec",
        flavour: Flavour::Address,
        about: "the same under the address and undefined-behaviour sanitizers",
        runs: codec_runs,
        in_quick: false,
    },
    CTest {
        name: ROUND_TRIP_PROGRAM,
        flavour: Flavour::AsBuilt,
        about: "pages that know zword's limits come back, at both levels",
        runs: |scope, seed| match scope {
            TestScope::Quick => vec![words![1, seed, 0, 100_000]],
            TestScope::Default => round_trip_runs(seed, 1_000_000),
            TestScope::Long => round_trip_runs(seed, 30_000_000),
        },
        in_quick: true,
    },
    CTest {
        name: ROUND_TRIP_PROGRAM,
        flavour: Flavour::Address,
        about: "the same under the address and undefined-behaviour sanitizers",
        runs: |scope, seed| match scope {
            TestScope::Quick => round_trip_runs(seed, 10_000),
            TestScope::Default => round_trip_runs(seed, ROUND_TRIP_CHECKED),
            TestScope::Long => round_trip_runs(seed, 3_000_000),
        },
        in_quick: false,
    },
    CTest {
        name: "crypto_page",
        flavour: Flavour::Address,
        about: "what zword.ko promises the kernel's crypto API",
        runs: |_, _| vec![words![]],
        in_quick: false,
    },
    CTest {
        name: "large_pages",
        flavour: Flavour::Address,
        about: "zword refuses machines whose pages are larger than its own",
        runs: |_, _| vec![words![]],
        in_quick: false,
    },
    CTest {
        name: "small_scope",
        flavour: Flavour::Blocks64,
        about: "zword with blocks of 64 bytes: all pages of few letters come back",
        runs: small_scope_runs,
        in_quick: true,
    },
    CTest {
        name: "small_scope",
        flavour: Flavour::Blocks128,
        about: "the same with blocks of 128 bytes",
        runs: small_scope_runs,
        in_quick: false,
    },
    CTest {
        name: "small_reads",
        flavour: Flavour::Reads64,
        about: "pages that change at any one of zword's reads are some page",
        runs: |scope, seed| match scope {
            TestScope::Quick => vec![words![10, seed]],
            TestScope::Default => vec![words![80, seed]],
            TestScope::Long => vec![words![5000, seed]],
        },
        in_quick: true,
    },
    CTest {
        name: "model",
        flavour: Flavour::Address,
        about: "random operations and failing allocations against plain pages",
        runs: |scope, seed| match scope {
            TestScope::Quick => vec![words![seed, 800]],
            TestScope::Default => vec![words![], words![seed, 4000]],
            TestScope::Long => {
                let mut runs = vec![words![]];
                runs.extend((0..20).map(|n| words![seed + n, 20_000]));
                runs
            }
        },
        in_quick: true,
    },
    CTest {
        name: "model",
        flavour: Flavour::Thread,
        about: "the same under the thread sanitizer",
        runs: |_, seed| vec![words![seed, 2000]],
        in_quick: false,
    },
    CTest {
        name: "exhaustive",
        flavour: Flavour::Address,
        about: "every short sequence of operations on three slots",
        runs: |scope, _| match scope {
            TestScope::Quick => vec![words![3]],
            TestScope::Default => vec![words![4]],
            TestScope::Long => vec![words![5]],
        },
        in_quick: true,
    },
    CTest {
        name: "pass",
        flavour: Flavour::Address,
        about: "every duplicate is found, in little memory and in pieces",
        runs: |scope, _| match scope {
            TestScope::Quick => vec![words![20_000]],
            TestScope::Default => vec![words![60_000]],
            TestScope::Long => vec![words![60_000], words![400_000]],
        },
        in_quick: true,
    },
    CTest {
        name: "inline",
        flavour: Flavour::Address,
        about: "a write's twin changes while it is compared with the page",
        runs: |_, seed| vec![words![seed]],
        in_quick: true,
    },
    CTest {
        name: "recompress",
        flavour: Flavour::Address,
        about: "recompression and idle marks, and what happens meanwhile",
        runs: |_, _| vec![words![]],
        in_quick: true,
    },
    CTest {
        name: "hostile",
        flavour: Flavour::Address,
        about: "objects that no encoder writes, one step past each limit of a decoder",
        runs: |_, _| vec![words![]],
        in_quick: true,
    },
    CTest {
        name: "pool",
        flavour: Flavour::Address,
        about: "the pool by itself: objects that come and go while others are read",
        runs: |_, seed| vec![words![seed]],
        in_quick: true,
    },
    CTest {
        name: "check_writes",
        flavour: Flavour::Address,
        about: "codecs that encode wrongly, in writes and in recompression",
        runs: |_, _| vec![words![]],
        in_quick: true,
    },
    CTest {
        name: "check_writes",
        flavour: Flavour::OneBit,
        about: "the same where fingerprints and shares are short",
        runs: |_, _| vec![words![]],
        in_quick: false,
    },
    CTest {
        name: "check_writes",
        flavour: Flavour::Pages16K,
        about: "the same with pages of 16 KiB",
        runs: |_, _| vec![words![]],
        in_quick: false,
    },
    CTest {
        name: "check_writes",
        flavour: Flavour::Pages64K,
        about: "the same with pages of 64 KiB",
        runs: |_, _| vec![words![]],
        in_quick: false,
    },
    CTest {
        name: "threads",
        flavour: Flavour::Address,
        about: "writers, readers, passes, recompression and writeback at once",
        runs: thread_runs,
        in_quick: false,
    },
    CTest {
        name: "threads",
        flavour: Flavour::Thread,
        about: "the same under the thread sanitizer",
        runs: thread_runs,
        in_quick: true,
    },
    CTest {
        name: "adversary",
        flavour: Flavour::OneBit,
        about: "bounds kept where half of all pages have one fingerprint",
        runs: adversary_runs,
        in_quick: true,
    },
    CTest {
        name: "adversary",
        flavour: Flavour::FourBits,
        about: "the same where one in sixteen has it",
        runs: adversary_runs,
        in_quick: false,
    },
    CTest {
        name: "model",
        flavour: Flavour::OneBit,
        about: "random operations where fingerprints and shares are short",
        runs: narrow_model_runs,
        in_quick: true,
    },
    CTest {
        name: "model",
        flavour: Flavour::FourBits,
        about: "random operations where fingerprints collide",
        runs: narrow_model_runs,
        in_quick: false,
    },
    CTest {
        name: "exhaustive",
        flavour: Flavour::OneBit,
        about: "every short sequence where fingerprints and shares are short",
        runs: |_, _| vec![words![3]],
        in_quick: false,
    },
    CTest {
        name: "fingerprint",
        flavour: Flavour::Address,
        about: "a second implementation agrees, a collision seen is good for no other",
        runs: |_, _| vec![words![1000]],
        in_quick: true,
    },
    CTest {
        name: "changing",
        flavour: Flavour::Address,
        about: "pages that change while they are written or read into",
        runs: changing_runs,
        in_quick: true,
    },
    CTest {
        name: "changing",
        flavour: Flavour::OneBit,
        about: "the same where fingerprints and shares are short",
        runs: changing_runs,
        in_quick: false,
    },
    CTest {
        name: "refusals",
        flavour: Flavour::Address,
        about: "what is refused and what is told, by printers and by the check",
        runs: |_, _| vec![words![]],
        in_quick: true,
    },
    CTest {
        name: "locks",
        flavour: Flavour::Address,
        about: "what looks after the store's locks finds each kind of fault",
        runs: |_, _| vec![words![]],
        in_quick: true,
    },
    CTest {
        name: "inline",
        flavour: Flavour::OneBit,
        about: "comparisons interrupted where fingerprints and shares are short",
        runs: |_, seed| vec![words![seed]],
        in_quick: false,
    },
    CTest {
        name: "recompress",
        flavour: Flavour::FourBits,
        about: "recompression and idle marks where fingerprints collide",
        runs: |_, _| vec![words![]],
        in_quick: false,
    },
    CTest {
        name: "threads",
        flavour: Flavour::OneBit,
        about: "all at once where fingerprints and shares are short",
        runs: thread_runs,
        in_quick: false,
    },
    CTest {
        name: "threads",
        flavour: Flavour::FourBits,
        about: "all at once where fingerprints collide",
        runs: thread_runs,
        in_quick: false,
    },
];

fn adversary_runs(scope: TestScope, _: u64) -> Vec<Vec<String>> {
    match scope {
        TestScope::Quick => vec![words![12_000]],
        TestScope::Default => vec![words![30_000]],
        TestScope::Long => vec![words![200_000]],
    }
}

fn narrow_model_runs(scope: TestScope, seed: u64) -> Vec<Vec<String>> {
    match scope {
        TestScope::Quick => vec![words![seed, 800]],
        TestScope::Default => vec![words![seed, 4000]],
        TestScope::Long => (0..20).map(|n| words![seed + n, 20_000]).collect(),
    }
}

fn changing_runs(scope: TestScope, _: u64) -> Vec<Vec<String>> {
    match scope {
        TestScope::Quick => vec![words![500]],
        TestScope::Default => vec![words![3000]],
        TestScope::Long => vec![words![100_000]],
    }
}

fn small_scope_runs(scope: TestScope, seed: u64) -> Vec<Vec<String>> {
    match scope {
        TestScope::Quick => vec![words![1000, seed]],
        TestScope::Default => vec![words![50_000, seed]],
        TestScope::Long => vec![words![5_000_000, seed]],
    }
}

fn codec_runs(_: TestScope, seed: u64) -> Vec<Vec<String>> {
    // The pages of a real program besides the made ones.
    let own = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    vec![words![seed, own.display()]]
}

/// So many pages at level 1, and those that level 2 encodes in a fourth of the time.
fn round_trip_runs(seed: u64, pages: u64) -> Vec<Vec<String>> {
    vec![words![1, seed, 0, pages], words![2, seed, 0, pages / 32]]
}

fn thread_runs(scope: TestScope, seed: u64) -> Vec<Vec<String>> {
    match scope {
        TestScope::Quick => vec![words![3, seed]],
        TestScope::Default => vec![words![10, seed]],
        TestScope::Long => (0..6).map(|n| words![60, seed + n]).collect(),
    }
}

/// The tests of a scope.
pub fn tests(scope: TestScope) -> impl Iterator<Item = &'static CTest> {
    TESTS
        .iter()
        .filter(move |test| scope != TestScope::Quick || test.in_quick)
}

impl CTest {
    /// Its step's name.
    pub fn step_name(&self) -> String {
        format!("{}-{}", self.name, self.flavour.name())
    }

    /// The arguments of its runs.
    pub fn arguments(&self, scope: TestScope, seed: u64) -> Vec<Vec<String>> {
        (self.runs)(scope, seed)
    }

    /// How many processors it keeps busy.
    pub fn processors(&self) -> u32 {
        if matches!(self.name, "threads" | "changing") {
            2
        } else {
            1
        }
    }

    /// Compiles it; what is left are its runs, of which each counts as one test.
    pub fn start(
        &self,
        log: &Log,
        environment: &CTestEnvironment,
        scope: TestScope,
        seed: u64,
    ) -> Result<Stage> {
        let step = self.step_name();
        let mut commands = Vec::new();
        for arguments in (self.runs)(scope, seed) {
            let mut command = match environment.command(log, self.flavour, self.name)? {
                Ok(command) => command,
                Err(reason) => return Ok(Stage::Ended(Tally::skip(&step, reason))),
            };
            command.args(arguments);
            commands.push(command);
        }
        Ok(Stage::Rest(Box::new(move |log| {
            let mut tally = Tally::default();
            for command in commands {
                tally.add(run_once(&step, log, command, scope)?);
            }
            Ok(tally)
        })))
    }
}

fn run_once(step: &str, log: &Log, mut command: Command, scope: TestScope) -> Result<Tally> {
    let limit = match scope {
        TestScope::Long => Duration::from_secs(6 * 3600),
        _ => Duration::from_secs(900),
    };
    let replay = command_line(&command);
    let ran = log.run(&mut command, limit)?;
    let mut tally = Tally::of(
        step,
        ran.succeeded(),
        format!("{}; replay with\n  {replay}", ran.status),
    );
    tally.add_skip_lines(step, &ran.text);
    Ok(tally)
}

/// The test whose step has that name.
pub fn of_step(step: &str) -> Result<&'static CTest> {
    let mut tests = TESTS.iter();
    tests
        .find(|test| test.step_name() == step)
        .with_context(|| format!("no C test is called {step}"))
}

/// How to start a program, or why it cannot run here.
type Launch = std::result::Result<Vec<&'static str>, String>;

/// What all C tests share: the compiler, and what was found out about it.
#[derive(Default)]
pub struct CTestEnvironment {
    /// Compiles the programs.
    pub compiler: Compiler,
    address: OnceCell<Launch>,
    thread: OnceCell<Launch>,
    programs: RefCell<BTreeMap<(Flavour, &'static str), PathBuf>>,
}

impl CTestEnvironment {
    /// What runs that program, compiled in that way once; if it cannot run here, why.
    pub fn command(
        &self,
        log: &Log,
        flavour: Flavour,
        name: &'static str,
    ) -> Result<std::result::Result<Command, String>> {
        let before = match self.way_to_run(log, flavour)? {
            Ok(before) => before,
            Err(reason) => return Ok(Err(reason)),
        };
        let known = self.programs.borrow().get(&(flavour, name)).cloned();
        let program = match known {
            Some(program) => program,
            None => self.compiler.program(log, flavour, name, &[])?,
        };
        self.programs
            .borrow_mut()
            .insert((flavour, name), program.clone());
        Ok(Ok(launched(&before, program)))
    }

    /// The same of a copy of the store, for the test whose step has that name.
    pub fn command_of_copy(
        &self,
        log: &Log,
        step: &str,
        copy: &StoreCopy,
    ) -> Result<std::result::Result<Command, String>> {
        let test = of_step(step)?;
        let before = match self.way_to_run(log, test.flavour)? {
            Ok(before) => before,
            Err(reason) => return Ok(Err(reason)),
        };
        let program = self
            .compiler
            .program_of_copy(log, test.flavour, test.name, copy)?;
        Ok(Ok(launched(&before, program)))
    }

    fn way_to_run(&self, log: &Log, flavour: Flavour) -> Result<Launch> {
        let cell = match flavour {
            Flavour::Address
            | Flavour::FourBits
            | Flavour::OneBit
            | Flavour::Pages16K
            | Flavour::Pages64K
            | Flavour::Blocks64
            | Flavour::Blocks128 => &self.address,
            Flavour::Thread => &self.thread,
            Flavour::AsBuilt
            | Flavour::Fuzzer
            | Flavour::Reads64
            | Flavour::Coverage
            | Flavour::CoverageOneBit => return Ok(Ok(Vec::new())),
        };
        if let Some(way) = cell.get() {
            return Ok(way.clone());
        }
        let way = find_way(log, flavour)?;
        Ok(cell.get_or_init(|| way).clone())
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
fn find_way(log: &Log, flavour: Flavour) -> Result<Launch> {
    const TRIES: usize = 8;
    let compiler = flavour.compiler();
    let mut said = String::new();
    for before in [&[][..], &["setarch", "-R"][..]] {
        if before.first().is_some_and(|tool| !tools::is_there(tool)) {
            continue;
        }
        let mut works = true;
        for _ in 0..if flavour == Flavour::Thread { TRIES } else { 1 } {
            match tools::works(log, &compiler, flavour.flags(), PROBE, before)? {
                Ok(()) => {}
                Err(why) => {
                    works = false;
                    said = why;
                    break;
                }
            }
        }
        if works {
            return Ok(Ok(before.to_vec()));
        }
    }
    let name = compiler.to_string_lossy();
    Ok(Err(format!(
        "{name} makes no programs with {} that run here: {said}",
        flavour.flags()[0]
    )))
}
