//! `cargo xtask soak`: for hours, what the tests do for seconds.
//!
//! Its parts take turns: model operations with failing allocations, pages that zword
//! encodes and gives back, each fuzz target, and the module in a kernel that checks itself and in one whose processors
//! come and go. Every turn has numbers of its own from the seed. What was done is
//! kept under `target/xtask/soak`, and the next run carries on there.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};

use zmeld_report::units;

use crate::arguments::Arguments;
use crate::c_build::Flavour;
use crate::c_tests::{CTestEnvironment, ROUND_TRIP_PROGRAM, SOAK_PROGRAM};
use crate::fuzz::{self, Fuzzer};
use crate::kernel_tests::{self, KernelCache};
use crate::kernels;
use crate::process::{command_line, was_interrupted, Log};
use crate::setup;
use crate::step::{Tally, TestScope};
use crate::workspace;

/// The arguments of `soak`.
pub const USAGE: &str = "[--hours N] [--seed S] [--only PART]... [--no-install] | --totals";

/// What `soak` does.
pub const ABOUT: &str = "\
Model operations with failing allocations, pages that zword encodes and gives back,
every fuzz target, and the module in kernels, in turn, for hours. It carries on where the last run stopped; totals and
what was found are kept in target/xtask/soak. Exit code 1: something was found.
  --hours N     how long, such as 0.5 (1)
  --seed S      random numbers from S (those of the last run)
  --only PART   only parts whose name begins with PART
  --no-install  as root, too, install nothing
  --totals      only print what was done so far";

/// How long a part has its turn.
const TURN: Duration = Duration::from_secs(300);
/// Boots take their time in a kernel that checks itself.
const KERNEL_TURN: Duration = Duration::from_secs(900);

/// Operations of one run of the model: a run is repeated whole where it fails.
const OPERATIONS: u64 = 1_000_000;
/// The same where each access to memory is checked.
const OPERATIONS_CHECKED: u64 = 200_000;
/// One run in so many is such a one.
const CHECKED_EVERY: u64 = 4;
/// A run may wait for other programs, but not for ever.
const RUN_LIMIT: Duration = Duration::from_secs(3600);

/// Pages that zword encodes and gives back.
#[derive(Debug, PartialEq)]
struct RoundTrip {
    name: &'static str,
    level: u32,
    flavour: Flavour,
    /// Pages of one run, which takes less than a minute on an idle machine.
    pages: u64,
    aim: f64,
}

static ROUND_TRIPS: [RoundTrip; 3] = [
    RoundTrip {
        name: "round-trip-1",
        level: 1,
        flavour: Flavour::AsBuilt,
        pages: 2_000_000,
        aim: 1e9,
    },
    RoundTrip {
        name: "round-trip-2",
        level: 2,
        flavour: Flavour::AsBuilt,
        pages: 200_000,
        aim: 1e8,
    },
    RoundTrip {
        name: "round-trip-asan",
        level: 1,
        flavour: Flavour::Address,
        pages: 200_000,
        aim: 1e7,
    },
];

const SCHEMA: &str = "zmeld.soak/1";

#[derive(Debug, PartialEq)]
struct Options {
    hours: f64,
    seed: Option<u64>,
    only: Vec<String>,
    install: bool,
    totals: bool,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        hours: 1.0,
        seed: None,
        only: Vec::new(),
        install: true,
        totals: false,
    };
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--hours" => {
                let hours = arguments.value()?;
                options.hours = match hours.parse() {
                    Ok(hours) if (0.0..=10_000.0).contains(&hours) => hours,
                    _ => bail!("--hours {hours}: not a number from 0 to 10000"),
                };
            }
            "--seed" => options.seed = Some(arguments.number()?),
            "--only" => options.only.push(arguments.value()?.to_owned()),
            "--no-install" => options.install = false,
            "--totals" => options.totals = true,
            other => bail!("there is no argument {other:?}: soak {USAGE}"),
        }
    }
    Ok(options)
}

/// What is done over and over.
#[derive(Clone, Debug, PartialEq)]
enum SoakPart {
    Model,
    RoundTrip(&'static RoundTrip),
    Fuzz(String),
    Kernel(&'static str),
}

/// What a part's number counts, and how far it should come.
struct Measure {
    aim: f64,
    unit: &'static str,
}

impl SoakPart {
    /// All parts, in the order of their turns.
    fn all() -> Result<Vec<SoakPart>> {
        let mut all = vec![SoakPart::Model];
        all.extend(ROUND_TRIPS.iter().map(SoakPart::RoundTrip));
        all.extend(fuzz::targets()?.into_iter().map(SoakPart::Fuzz));
        all.extend(
            kernel_tests::SOAK_KERNELS
                .iter()
                .map(|name| SoakPart::Kernel(name)),
        );
        Ok(all)
    }

    fn name(&self) -> String {
        match self {
            SoakPart::Model => "model".to_owned(),
            SoakPart::RoundTrip(pages) => pages.name.to_owned(),
            SoakPart::Fuzz(target) => target.clone(),
            SoakPart::Kernel(name) => format!("kernel-{name}"),
        }
    }

    fn measure(&self) -> Measure {
        let (aim, unit) = match self {
            SoakPart::Model => (1e9, "operations"),
            SoakPart::RoundTrip(pages) => (pages.aim, "pages"),
            SoakPart::Fuzz(_) => (1e8, "executions"),
            SoakPart::Kernel(_) => (36_000.0, "seconds"),
        };
        Measure { aim, unit }
    }
}

/// What a part has done in all runs.
#[derive(Clone, Debug, Default, PartialEq)]
struct PartTotal {
    done: u64,
    /// Pages that codecs gave back, where the part is of codecs.
    encoded: u64,
    seconds: u64,
    turns: u64,
    first: String,
    last: String,
}

/// Something that a part found.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    part: String,
    date: String,
    what: String,
    log: String,
}

/// What outlives a run.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    seed: u64,
    last_part: String,
    totals: Vec<(String, PartTotal)>,
    findings: Vec<Finding>,
}

impl State {
    fn from_json(value: &Value) -> Option<State> {
        if value["schema"] != SCHEMA {
            return None;
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let total = |(name, value): (&String, &Value)| {
            let total = PartTotal {
                done: number(&value["done"]),
                encoded: number(&value["encoded"]),
                seconds: number(&value["seconds"]),
                turns: number(&value["turns"]),
                first: text(&value["first"]),
                last: text(&value["last"]),
            };
            (name.clone(), total)
        };
        let finding = |value: &Value| Finding {
            part: text(&value["part"]),
            date: text(&value["date"]),
            what: text(&value["what"]),
            log: text(&value["log"]),
        };
        Some(State {
            seed: number(&value["seed"]),
            last_part: text(&value["last_part"]),
            totals: value["totals"].as_object()?.iter().map(total).collect(),
            findings: value["findings"].as_array()?.iter().map(finding).collect(),
        })
    }

    fn json(&self) -> Value {
        let total = |(name, total): &(String, PartTotal)| {
            let value = json!({
                "done": total.done, "encoded": total.encoded, "seconds": total.seconds, "turns": total.turns,
                "first": total.first, "last": total.last,
            });
            (name.clone(), value)
        };
        let finding = |finding: &Finding| {
            json!({
                "part": finding.part, "date": finding.date,
                "what": finding.what, "log": finding.log,
            })
        };
        let totals: serde_json::Map<String, Value> = self.totals.iter().map(total).collect();
        json!({
            "schema": SCHEMA, "seed": self.seed, "last_part": self.last_part,
            "totals": totals,
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }

    fn read(file: &Path) -> Result<State> {
        let Ok(text) = fs::read_to_string(file) else {
            return Ok(State {
                seed: 1,
                ..State::default()
            });
        };
        let value = serde_json::from_str(&text).ok();
        value.as_ref().and_then(State::from_json).with_context(|| {
            format!(
                "{} is not what an earlier soak wrote: remove it",
                workspace::shown(file)
            )
        })
    }

    fn write(&self, file: &Path) -> Result<()> {
        let unfinished = file.with_extension("unfinished");
        fs::write(&unfinished, format!("{:#}\n", self.json()))
            .and_then(|()| fs::rename(&unfinished, file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    fn total(&mut self, part: &str) -> &mut PartTotal {
        let at = self.totals.iter().position(|(name, _)| name == part);
        let at = at.unwrap_or_else(|| {
            self.totals.push((part.to_owned(), PartTotal::default()));
            self.totals.len() - 1
        });
        &mut self.totals[at].1
    }

    /// Whose turn it is: the one after the last.
    fn next<'a>(&self, works: &'a [SoakPart]) -> &'a SoakPart {
        let last = works.iter().position(|work| work.name() == self.last_part);
        &works[last.map_or(0, |last| last + 1) % works.len()]
    }
}

/// Numbers for a turn that no other has (SplitMix64).
fn seed_of(seed: u64, part: &str, turn: u64) -> u64 {
    let mut state = seed;
    for byte in part.bytes().map(u64::from).chain([turn]) {
        state = state
            .wrapping_add(byte + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^= state >> 27;
    }
    // Programs of C and the shell read it, too.
    state % 1_000_000_000 + 1
}

/// What a turn did.
#[derive(Default)]
struct TurnResult {
    amount: u64,
    encoded: u64,
    tally: Tally,
}

/// What all turns share.
#[derive(Default)]
struct SoakEnvironment {
    c_tests: CTestEnvironment,
    fuzzer: Fuzzer,
    kernels: KernelCache,
}

/// Runs what the arguments say.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let folder = workspace::work_folder("soak")?;
    let file = folder.join("state.json");
    let mut works = SoakPart::all()?;
    if options.totals {
        print!("{}", totals(&State::read(&file)?, &works));
        return Ok(ExitCode::SUCCESS);
    }
    if !options.only.is_empty() {
        let known: Vec<String> = works.iter().map(SoakPart::name).collect();
        let is_chosen = |work: &SoakPart| {
            options
                .only
                .iter()
                .any(|name| work.name().starts_with(name))
        };
        works.retain(is_chosen);
        if works.is_empty() {
            bail!("no part has that name: {}", known.join(", "));
        }
    }
    // Two at a time would count what only one of them did.
    let _held = kernels::lock(&folder)?;
    let mut state = State::read(&file)?;
    state.seed = options.seed.unwrap_or(state.seed);
    setup::set_up(&["soak".to_owned()], TestScope::Long, options.install)?;
    let found = turns(&options, &mut state, &file, works)?;
    print!("\n{}", totals(&state, &SoakPart::all()?));
    Ok(ExitCode::from(u8::from(found)))
}

/// Turn after turn until the time is over; whether something was found.
fn turns(
    options: &Options,
    state: &mut State,
    file: &Path,
    mut works: Vec<SoakPart>,
) -> Result<bool> {
    let environment = SoakEnvironment::default();
    let begin = Instant::now();
    let limit = Duration::from_secs_f64(options.hours * 3600.0);
    let before = state.findings.len();
    println!("seed {}, for {} h", state.seed, options.hours);
    while begin.elapsed() < limit && !works.is_empty() {
        let work = state.next(&works).clone();
        let part = work.name();
        let left = limit.saturating_sub(begin.elapsed());
        let turn = state.total(&part).turns;
        let log = Log::create(&workspace::work_folder("logs")?.join(format!("soak-{part}.log")))?;
        if let Some(reason) = cannot_run(&environment, &log, &work)? {
            println!("{part} cannot run here: {reason}");
            works.retain(|other| *other != work);
            continue;
        }
        let turn_began = Instant::now();
        let seed = seed_of(state.seed, &part, turn);
        let done = match one_turn(&environment, &log, &work, seed, left) {
            Ok(done) => done,
            Err(error) if was_interrupted() => return Err(error),
            Err(error) => TurnResult {
                tally: Tally::fail(&part, format!("{error:#}")),
                ..TurnResult::default()
            },
        };
        let took = turn_began.elapsed();
        if let Some((_, reason)) = done.tally.skipped.first() {
            println!("{part} cannot run here: {reason}");
            works.retain(|other| *other != work);
            continue;
        }
        count(state, &part, &done, took);
        keep_findings(state, &part, &done, &log)?;
        state.write(file)?;
        let found = match done.tally.failed.first() {
            Some((_, what)) => format!("FOUND: {what}"),
            None => "nothing found".to_owned(),
        };
        println!(
            "{part:<16} seed {seed:<10} {:>12} {} in {} s: {found}",
            done.amount,
            work.measure().unit,
            took.as_secs()
        );
    }
    Ok(state.findings.len() > before)
}

/// Builds what the part needs, outside of its turn; if it cannot be had, why. What
/// does not build is an error and no finding.
fn cannot_run(environment: &SoakEnvironment, log: &Log, work: &SoakPart) -> Result<Option<String>> {
    let tally = match work {
        SoakPart::Model => {
            // Where the sanitizers cannot run, the other runs are done all the same.
            let _ = environment
                .c_tests
                .command(log, Flavour::Address, SOAK_PROGRAM)?;
            return Ok(environment
                .c_tests
                .command(log, Flavour::AsBuilt, SOAK_PROGRAM)?
                .err());
        }
        SoakPart::RoundTrip(pages) => {
            return Ok(environment
                .c_tests
                .command(log, pages.flavour, ROUND_TRIP_PROGRAM)?
                .err());
        }
        SoakPart::Fuzz(target) => {
            if let Some(reason) = fuzz::why_not(log)? {
                return Ok(Some(reason));
            }
            environment
                .c_tests
                .compiler
                .program(log, Flavour::Fuzzer, target, &[])?;
            Tally::default()
        }
        SoakPart::Kernel(name) => kernel_tests::provide(log, &environment.kernels, name)?,
    };
    if let Some((_, why)) = tally.failed.first() {
        bail!("{}: {why}", work.name());
    }
    Ok(tally.skipped.first().map(|(_, reason)| reason.clone()))
}

fn count(state: &mut State, part: &str, done: &TurnResult, took: Duration) {
    let today = today();
    state.last_part = part.to_owned();
    let total = state.total(part);
    total.done += done.amount;
    total.encoded += done.encoded;
    total.seconds += took.as_secs();
    total.turns += 1;
    if total.first.is_empty() {
        total.first.clone_from(&today);
    }
    total.last = today;
}

/// A finding keeps its turn's log, which the next turn would overwrite.
fn keep_findings(state: &mut State, part: &str, done: &TurnResult, log: &Log) -> Result<()> {
    if done.tally.failed.is_empty() {
        return Ok(());
    }
    let turn = state.total(part).turns;
    let kept = workspace::work_folder("soak/findings")?.join(format!("{part}-{turn}.log"));
    fs::copy(log.path(), &kept).with_context(|| format!("cannot write {}", kept.display()))?;
    for (_, what) in &done.tally.failed {
        state.findings.push(Finding {
            part: part.to_owned(),
            date: today(),
            what: what.clone(),
            log: workspace::shown(&kept),
        });
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
    match work {
        SoakPart::Model => model(environment, log, seed, left.min(TURN)),
        SoakPart::RoundTrip(pages) => round_trip(environment, log, pages, seed, left.min(TURN)),
        SoakPart::Fuzz(target) => {
            let (done, tally) = environment.fuzzer.soak(
                log,
                &environment.c_tests,
                target,
                seed,
                left.min(TURN).as_secs().max(1),
            )?;
            Ok(TurnResult {
                amount: done.executions,
                encoded: done.encoded,
                tally,
            })
        }
        SoakPart::Kernel(name) => {
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

/// Runs of the model until the turn is over, some of them under the sanitizers.
fn model(
    environment: &SoakEnvironment,
    log: &Log,
    seed: u64,
    turn: Duration,
) -> Result<TurnResult> {
    let begin = Instant::now();
    let mut done = TurnResult::default();
    for n in 0.. {
        let (flavour, operations) = match n % CHECKED_EVERY == CHECKED_EVERY - 1 {
            true => (Flavour::Address, OPERATIONS_CHECKED),
            false => (Flavour::AsBuilt, OPERATIONS),
        };
        let mut command = match environment.c_tests.command(log, flavour, SOAK_PROGRAM)? {
            Ok(command) => command,
            Err(reason) => {
                log.note(&format!("without {}: {reason}", flavour.name()))?;
                continue;
            }
        };
        command.arg("soak").arg((seed + n * OPERATIONS).to_string());
        command.arg(operations.to_string());
        let replay = command_line(&command);
        let ran = log.run(&mut command, RUN_LIMIT)?;
        let why = format!("{}; replay with\n  {replay}", ran.status);
        done.tally.add(Tally::of("model", ran.succeeded(), why));
        if !ran.succeeded() {
            break;
        }
        done.amount += operations;
        if begin.elapsed() >= turn {
            break;
        }
    }
    Ok(done)
}

/// Pages of one seed until the turn is over, each run from where the last one ended.
fn round_trip(
    environment: &SoakEnvironment,
    log: &Log,
    pages: &RoundTrip,
    seed: u64,
    turn: Duration,
) -> Result<TurnResult> {
    let begin = Instant::now();
    let mut done = TurnResult::default();
    while begin.elapsed() < turn {
        let mut command =
            match environment
                .c_tests
                .command(log, pages.flavour, ROUND_TRIP_PROGRAM)?
            {
                Ok(command) => command,
                Err(reason) => bail!(reason),
            };
        let numbers = [u64::from(pages.level), seed, done.amount, pages.pages];
        command.args(numbers.map(|number| number.to_string()));
        let replay = command_line(&command);
        let ran = log.run(&mut command, RUN_LIMIT)?;
        let why = format!("{}; replay with\n  {replay}", ran.status);
        done.tally.add(Tally::of(pages.name, ran.succeeded(), why));
        if !ran.succeeded() {
            break;
        }
        done.amount += pages.pages;
    }
    Ok(done)
}

fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    let text = output.map_or_else(|_| Vec::new(), |output| output.stdout);
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Of a part that fuzzes codecs.
fn encoded(pages: u64) -> String {
    match pages {
        0 => String::new(),
        _ => format!(", {} pages encoded", units::count(pages)),
    }
}

/// The table that docs/testing.md has.
fn totals(state: &State, works: &[SoakPart]) -> String {
    let mut text = String::from(
        "| part | done | of the aim | from | to | found |\n|---|---|---|---|---|---|\n",
    );
    for work in works {
        let part = work.name();
        let known = state.totals.iter().find(|(name, _)| *name == part);
        let total = known.map(|(_, total)| total.clone()).unwrap_or_default();
        let measure = work.measure();
        let found = state.findings.iter().filter(|finding| finding.part == part);
        text += &format!(
            "| {part} | {} {}{} | {:.2} % | {} | {} | {} |\n",
            units::count(total.done),
            measure.unit,
            encoded(total.encoded),
            100.0 * total.done as f64 / measure.aim,
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
    use crate::arguments::words;

    #[test]
    fn arguments_are_understood_or_refused() {
        let options = parse(&words("--hours 0.5 --seed 3 --only model --only fuzz")).unwrap();
        assert_eq!((options.hours, options.seed), (0.5, Some(3)));
        assert_eq!(options.only, ["model", "fuzz"]);
        for bad in [
            "--hours",
            "--hours x",
            "--hours -1",
            "--hours nan",
            "--what",
        ] {
            assert!(parse(&words(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_part_has_its_turn_and_the_next_run_carries_on() {
        let works = SoakPart::all().unwrap();
        let mut state = State::default();
        let mut seen = Vec::new();
        for _ in 0..works.len() + 1 {
            let part = state.next(&works).name();
            let done = TurnResult {
                amount: 7,
                encoded: 3,
                tally: Tally::default(),
            };
            count(&mut state, &part, &done, Duration::from_secs(2));
            seen.push(part);
            // As a run that ends here and another that begins.
            state = State::from_json(&state.json()).unwrap();
        }
        let names: Vec<String> = works.iter().map(SoakPart::name).collect();
        assert_eq!(seen[..works.len()], names);
        assert_eq!(seen[works.len()], names[0]);
        let total = state.total("model");
        assert_eq!((total.done, total.seconds, total.turns), (14, 4, 2));
        assert_eq!(total.encoded, 6);
        // Where the last part is not among those that are chosen.
        assert_eq!(state.next(&works[1..]).name(), names[1]);
    }

    #[test]
    fn no_two_turns_have_the_same_numbers() {
        let mut seeds = std::collections::BTreeSet::new();
        for part in ["model", "fuzz_store", "kernel-um-debug"] {
            for turn in 0..1000 {
                seeds.insert(seed_of(1, part, turn));
            }
        }
        // A few of a thousand million may meet by chance.
        assert!(seeds.len() > 2990, "{}", seeds.len());
        assert_ne!(seed_of(1, "model", 0), seed_of(2, "model", 0));
        assert_eq!(seed_of(1, "model", 0), seed_of(1, "model", 0));
    }

    #[test]
    fn totals_stand_beside_their_aims_and_findings_below() {
        let mut state = State::default();
        state.total("model").done = 12_345_678;
        *state.total("fuzz_codec") = PartTotal {
            done: 500_000,
            encoded: 499_000,
            ..PartTotal::default()
        };
        state.findings.push(Finding {
            part: "model".into(),
            date: "2026-01-02".into(),
            what: "wrong".into(),
            log: "a.log".into(),
        });
        let text = totals(&state, &SoakPart::all().unwrap());
        assert!(
            text.contains("| model | 12\u{202f}345\u{202f}678 operations | 1.23 % |"),
            "{text}"
        );
        let fuzzed = "500\u{202f}000 executions, 499\u{202f}000 pages encoded | 0.50 % |";
        assert!(text.contains(fuzzed), "{text}");
        assert!(
            text.contains("2026-01-02 model: wrong\n  see a.log"),
            "{text}"
        );
        assert!(
            text.contains("| kernel-um-debug | 0 seconds | 0.00 % |"),
            "{text}"
        );
    }
}
