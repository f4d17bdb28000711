//! `cargo xtask soak`: for hours, what the tests do for seconds.
//!
//! Its parts take turns: model operations with failing allocations, pages that zword
//! encodes and gives back, each fuzz target, and the module in a kernel that checks itself
//! and in one whose processors come and go. Every turn has numbers of its own from the
//! seed. What was done is kept under `target/xtask/soak`, and the next run carries on there.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use zmeld_report::units;

use crate::c_build::Flavour;
use crate::c_tests::{self, CTestEnvironment, ROUND_TRIP_PROGRAM, SOAK_PROGRAM};
use crate::fuzz;
use crate::kernel_tests::{self, KernelCache};
use crate::kernels;
use crate::process::{output_of, reason, unavailable, was_interrupted, Log};
use crate::setup;
use crate::step::{Tally, TestScope};
use crate::workspace;

/// Do for hours, in turn, what the tests do for seconds
///
/// Model operations with failing allocations, pages that zword encodes and gives back,
/// every fuzz target, and the module in kernels. It carries on where the last run stopped;
/// totals and what was found are kept in target/xtask/soak. Exit code 1: something was found.
#[derive(clap::Args)]
pub struct Options {
    /// How long, such as 0.5
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = hours)]
    hours: f64,
    /// Random numbers from S; those of the last run where it is not given
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only parts whose name begins with PART
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// As root, too, install nothing
    #[arg(long)]
    no_install: bool,
    /// Only print what was done so far
    #[arg(long)]
    totals: bool,
}

fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok();
    let hours = hours.filter(|hours| (0.0..=10_000.0).contains(hours));
    hours.ok_or_else(|| "not a number from 0 to 10000".to_owned())
}

const TURN: Duration = Duration::from_secs(300);
/// Boots take their time in a kernel that checks itself.
const KERNEL_TURN: Duration = Duration::from_secs(900);

/// Operations of one run of the model: a run is repeated whole where it fails.
const OPERATIONS: u64 = 1_000_000;
/// The same where each access to memory is checked.
const OPERATIONS_CHECKED: u64 = 200_000;
/// One run in so many is such a one.
const CHECKED_EVERY: u64 = 4;

const SCHEMA: &str = "zmeld.soak/1";

#[derive(Clone)]
struct SoakPart {
    name: String,
    work: Work,
    /// How far it should come, and what its number counts.
    aim: f64,
    unit: &'static str,
}

#[derive(Clone)]
enum Work {
    Model,
    /// Pages that zword encodes at a level and gives back; of one run, which takes less than
    /// a minute on an idle machine.
    RoundTrip(u64, Flavour, u64),
    Fuzz,
    Kernel(&'static str),
}

/// All parts, in the order of their turns.
fn all_parts() -> Result<Vec<SoakPart>> {
    let part = |name: &str, work, aim, unit| SoakPart {
        name: name.to_owned(),
        work,
        aim,
        unit,
    };
    let pages = |name, level, flavour, pages, aim| {
        part(name, Work::RoundTrip(level, flavour, pages), aim, "pages")
    };
    let mut all = vec![
        part("model", Work::Model, 1e9, "operations"),
        pages("round-trip-1", 1, Flavour::AsBuilt, 2_000_000, 1e9),
        pages("round-trip-2", 2, Flavour::AsBuilt, 200_000, 1e8),
        pages("round-trip-asan", 1, Flavour::Address, 200_000, 1e7),
    ];
    for target in fuzz::targets()? {
        all.push(part(&target, Work::Fuzz, 1e8, "executions"));
    }
    for name in kernel_tests::SOAK_KERNELS {
        let kernel = format!("kernel-{name}");
        all.push(part(&kernel, Work::Kernel(name), 36_000.0, "seconds"));
    }
    Ok(all)
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct PartTotal {
    done: u64,
    /// Pages that codecs gave back, where the part is of codecs.
    encoded: u64,
    seconds: u64,
    turns: u64,
    first: String,
    last: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Finding {
    part: String,
    date: String,
    what: String,
    log: String,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    schema: String,
    seed: u64,
    last_part: String,
    totals: BTreeMap<String, PartTotal>,
    findings: Vec<Finding>,
}

impl State {
    fn read(file: &Path) -> Result<State> {
        let Ok(text) = fs::read_to_string(file) else {
            return Ok(State {
                schema: SCHEMA.to_owned(),
                seed: 1,
                ..State::default()
            });
        };
        let state = serde_json::from_str(&text).ok();
        let ours = state.filter(|state: &State| state.schema == SCHEMA);
        let file = workspace::shown(file);
        ours.with_context(|| format!("{file} is not what an earlier soak wrote: remove it"))
    }

    fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(zmeld_linux::file::replace(file, text.as_bytes())?)
    }

    fn next<'a>(&self, works: &'a [SoakPart]) -> &'a SoakPart {
        let last = works.iter().position(|work| work.name == self.last_part);
        &works[last.map_or(0, |last| last + 1) % works.len()]
    }

    fn count(&mut self, part: &str, done: &TurnResult, took: Duration) -> Result<()> {
        let today = today()?;
        self.last_part = part.to_owned();
        let total = self.totals.entry(part.to_owned()).or_default();
        total.done += done.amount;
        total.encoded += done.encoded;
        total.seconds += took.as_secs();
        total.turns += 1;
        if total.first.is_empty() {
            total.first.clone_from(&today);
        }
        total.last = today;
        Ok(())
    }

    /// A finding keeps its turn's log, which the next turn would overwrite.
    fn keep_findings(&mut self, part: &str, done: &TurnResult, log: &Log) -> Result<()> {
        if done.tally.failed.is_empty() {
            return Ok(());
        }
        let turn = self.totals.get(part).map_or(0, |total| total.turns);
        let kept = workspace::work_folder("soak/findings")?.join(format!("{part}-{turn}.log"));
        fs::copy(log.path(), &kept).with_context(|| format!("cannot write {}", kept.display()))?;
        for (_, what) in &done.tally.failed {
            self.findings.push(Finding {
                part: part.to_owned(),
                date: today()?,
                what: what.clone(),
                log: workspace::shown(&kept),
            });
        }
        Ok(())
    }
}

/// Numbers for a turn that no other has; programs of C and the shell read it, too.
fn seed_of(seed: u64, part: &str, turn: u64) -> u64 {
    let mut hash = DefaultHasher::new();
    (seed, part, turn).hash(&mut hash);
    hash.finish() % 1_000_000_000 + 1
}

#[derive(Default)]
struct TurnResult {
    amount: u64,
    encoded: u64,
    tally: Tally,
}

#[derive(Default)]
struct SoakEnvironment {
    c_tests: CTestEnvironment,
    kernels: KernelCache,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let folder = workspace::work_folder("soak")?;
    let file = folder.join("state.json");
    let mut works = all_parts()?;
    if options.totals {
        print!("{}", totals(&State::read(&file)?, &works));
        return Ok(ExitCode::SUCCESS);
    }
    if !options.only.is_empty() {
        let known: Vec<String> = works.iter().map(|it| it.name.clone()).collect();
        works.retain(|work| options.only.iter().any(|it| work.name.starts_with(it)));
        if works.is_empty() {
            bail!("no part has that name: {}", known.join(", "));
        }
    }
    // Two at a time would count what only one of them did.
    let _held = kernels::lock(&folder)?;
    let mut state = State::read(&file)?;
    state.seed = options.seed.unwrap_or(state.seed);
    setup::set_up(&["soak".to_owned()], TestScope::Long, !options.no_install)?;
    let found = turns(options.hours, &mut state, &file, works)?;
    print!("\n{}", totals(&state, &all_parts()?));
    Ok(ExitCode::from(u8::from(found)))
}

/// Turn after turn until the time is over; whether something was found.
fn turns(hours: f64, state: &mut State, file: &Path, mut works: Vec<SoakPart>) -> Result<bool> {
    let environment = SoakEnvironment::default();
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(hours * 3600.0);
    let before = state.findings.len();
    println!("seed {}, for {hours} h", state.seed);
    while begin.elapsed() < limit && !works.is_empty() {
        let work = state.next(&works).clone();
        let part = work.name.clone();
        let left = limit.saturating_sub(begin.elapsed());
        let turn = state.totals.get(&part).map_or(0, |total| total.turns);
        let log = Log::named(&format!("soak-{part}"))?;
        let seed = seed_of(state.seed, &part, turn);
        let mut turn_began = Instant::now();
        // Built outside of its turn; what does not build is an error and no finding.
        let done = prepare(&environment, &log, &work).and_then(|()| {
            turn_began = Instant::now();
            let done = one_turn(&environment, &log, &work, seed, left);
            done.or_else(|error| match reason(&error) {
                None if !was_interrupted() => Ok(TurnResult {
                    tally: Tally::fail(&part, format!("{error:#}")),
                    ..TurnResult::default()
                }),
                _ => Err(error),
            })
        });
        let took = turn_began.elapsed();
        let skipped = match &done {
            Ok(done) => done.tally.skipped.first().map(|(_, why)| why.clone()),
            Err(error) => reason(error).map(str::to_owned),
        };
        if let Some(reason) = skipped {
            println!("{part} cannot run here: {reason}");
            works.retain(|other| other.name != part);
            continue;
        }
        let done = done?;
        state.count(&part, &done, took)?;
        state.keep_findings(&part, &done, &log)?;
        state.write(file)?;
        let found = match done.tally.failed.first() {
            Some((_, what)) => format!("FOUND: {what}"),
            None => "nothing found".to_owned(),
        };
        println!(
            "{part:<16} seed {seed:<10} {:>12} {} in {} s: {found}",
            done.amount,
            work.unit,
            took.as_secs()
        );
    }
    Ok(state.findings.len() > before)
}

fn prepare(environment: &SoakEnvironment, log: &Log, work: &SoakPart) -> Result<()> {
    let c_tests = &environment.c_tests;
    match &work.work {
        Work::Model => {
            // Where the sanitizers cannot run, the other runs are done all the same.
            let checked = c_tests.command(log, Flavour::Address, SOAK_PROGRAM);
            Tally::or_skip("model", checked.map(|_| Tally::default()))?;
            c_tests.command(log, Flavour::AsBuilt, SOAK_PROGRAM)?;
        }
        Work::RoundTrip(_, flavour, _) => {
            c_tests.command(log, *flavour, ROUND_TRIP_PROGRAM)?;
        }
        Work::Fuzz => {
            if let Some(reason) = fuzz::why_not(log)? {
                unavailable!("{reason}");
            }
            let compiler = &c_tests.compiler;
            compiler.program(log, Flavour::Fuzzer, &work.name)?;
        }
        Work::Kernel(name) => {
            environment.kernels.take(log, name)?;
        }
    }
    Ok(())
}

fn one_turn(
    environment: &SoakEnvironment,
    log: &Log,
    work: &SoakPart,
    seed: u64,
    left: Duration,
) -> Result<TurnResult> {
    let c_tests = &environment.c_tests;
    let turn = left.min(TURN);
    match &work.work {
        // Some of its runs are under the sanitizers.
        Work::Model => runs(log, "model", turn, |number, _| {
            let checked = number % CHECKED_EVERY == CHECKED_EVERY - 1;
            let checked = checked.then(|| c_tests.command(log, Flavour::Address, SOAK_PROGRAM));
            let (mut command, operations) = match checked {
                Some(Ok(command)) => (command, OPERATIONS_CHECKED),
                _ => (
                    c_tests.command(log, Flavour::AsBuilt, SOAK_PROGRAM)?,
                    OPERATIONS,
                ),
            };
            let numbers = [seed + number * OPERATIONS, operations];
            command.arg("soak").args(numbers.map(|it| it.to_string()));
            Ok((command, operations))
        }),
        // Pages of one seed, each run from where the last one ended.
        Work::RoundTrip(level, flavour, pages) => runs(log, &work.name, turn, |_, done| {
            let mut command = c_tests.command(log, *flavour, ROUND_TRIP_PROGRAM)?;
            command.args([*level, seed, done, *pages].map(|number| number.to_string()));
            Ok((command, *pages))
        }),
        Work::Fuzz => {
            let seconds = turn.as_secs().max(1);
            let ([amount, encoded], tally) = fuzz::soak(log, c_tests, &work.name, seed, seconds)?;
            Ok(TurnResult {
                amount,
                encoded,
                tally,
            })
        }
        Work::Kernel(name) => {
            let seconds = left.min(KERNEL_TURN).as_secs().max(1);
            let begin = Instant::now();
            let tally = kernel_tests::soak(log, &environment.kernels, name, seed, seconds)?;
            Ok(TurnResult {
                amount: begin.elapsed().as_secs(),
                encoded: 0,
                tally,
            })
        }
    }
}

/// Runs until the turn is over, or one fails; `next` has the command of a run, by its number
/// and by what was done before, and what it does.
fn runs(
    log: &Log,
    name: &str,
    turn: Duration,
    next: impl Fn(u64, u64) -> Result<(Command, u64)>,
) -> Result<TurnResult> {
    let begin = Instant::now();
    let mut done = TurnResult::default();
    for number in 0.. {
        let (mut command, amount) = next(number, done.amount)?;
        let ran = log.run(&mut command)?;
        done.tally.add(c_tests::judged(name, &ran, &command));
        if !ran.succeeded() {
            break;
        }
        done.amount += amount;
        if begin.elapsed() >= turn {
            break;
        }
    }
    Ok(done)
}

fn today() -> Result<String> {
    output_of(Command::new("date").args(["-u", "+%F"]))
}

/// The table that docs/testing.md has.
fn totals(state: &State, works: &[SoakPart]) -> String {
    let mut text = String::from(
        "| part | done | of the aim | from | to | found |\n|---|---|---|---|---|---|\n",
    );
    for work in works {
        let part = work.name.clone();
        let total = state.totals.get(&part).cloned().unwrap_or_default();
        let (aim, unit) = (work.aim, work.unit);
        let encoded = match total.encoded {
            0 => String::new(),
            pages => format!(", {} pages encoded", units::count(pages)),
        };
        let found = state.findings.iter().filter(|finding| finding.part == part);
        text += &format!(
            "| {part} | {} {unit}{encoded} | {:.2} % | {} | {} | {} |\n",
            units::count(total.done),
            100.0 * total.done as f64 / aim,
            total.first,
            total.last,
            found.count()
        );
    }
    for finding in &state.findings {
        text += &format!(
            "\n{} {}: {}\n  see {}\n",
            finding.date, finding.part, finding.what, finding.log
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_turn_and_the_next_run_carries_on() {
        let works = all_parts().unwrap();
        let mut state = State::default();
        for work in works.iter().chain([&works[0]]) {
            assert_eq!(state.next(&works).name, work.name);
            let done = TurnResult::default();
            state.count(&work.name, &done, Duration::ZERO).unwrap();
            // As a run that ends here and another that begins.
            let kept = serde_json::to_string(&state).unwrap();
            state = serde_json::from_str(&kept).unwrap();
        }
        assert_eq!(state.totals["model"].turns, 2);
    }
}
