//! `cargo xtask soak`: for hours, what the tests do for minutes.
//!
//! A slice is one run of a work, from a seed of its own. It counts once it has ended well.

use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{anyhow, bail, Context, Result};
use zmeld_report::{units, Style};

use crate::c_tests::{self, CTestEnvironment};
use crate::kernel_tests::{self, KernelCache};
use crate::process::{output_of, unavailable, was_interrupted, Log};
use crate::recipes;
use crate::step::{Rest, Tally};
use crate::totals::{self, Run, Sources, Totals, Work, WORKS};
use crate::workspace;

/// Do for hours, in turn, what the tests do for minutes
///
/// Pages that zword encodes and gives back, operations of the store's model, guests of zmeld.ko: what
/// has the least share of its aim is next, on all processors. Each slice that ended well is added to
/// store/tests/totals.jsonl and docs/testing.md, under the sources that it ran. Ctrl-C ends it at any
/// time; a finding does so with exit code 1 and the command that repeats it.
#[derive(clap::Args)]
pub struct Options {
    /// How long, such as 0.5; without it until Ctrl-C
    #[arg(long, value_name = "N", value_parser = hours)]
    hours: Option<Duration>,
    /// Repeat one slice, and add nothing
    #[arg(long, value_names = ["WORK", "SEED"], conflicts_with = "hours")]
    repeat: Vec<String>,
    /// Show what the sources as they are have behind them
    #[arg(long, conflicts_with_all = ["hours", "repeat"])]
    show: bool,
}

fn hours(text: &str) -> Result<Duration, String> {
    let hours: f64 = text.parse().map_err(|_| "not a number")?;
    Duration::try_from_secs_f64(hours * 3600.0).map_err(|error| error.to_string())
}

/// Limit of a program, which takes half a minute on an idle processor.
const LIMIT: Duration = Duration::from_secs(3600);

/// One run of a work.
#[derive(Clone, Copy)]
struct Slice {
    work: &'static Work,
    seed: u64,
}

struct Soak {
    /// The next slice of each work.
    slices: Vec<Slice>,
    /// Their works' shares, with slices that were begun; infinite where a work cannot run here.
    shares: Vec<f64>,
    sources: Sources,
    environment: CTestEnvironment,
    kernels: KernelCache,
    end: Option<Instant>,
    found: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let counts = options.repeat.is_empty() && !options.show;
    let lock = || recipes::lock(&workspace::work_folder("soak")?);
    let _held = counts.then(lock).transpose()?;
    let (totals, sources) = (Totals::load()?, totals::sources()?);
    let next = |work| Slice {
        work,
        seed: totals.next_seed(work),
    };
    let mut soak = Soak {
        slices: WORKS.iter().map(next).collect(),
        shares: WORKS
            .iter()
            .map(|work| totals.share(work, &sources))
            .collect(),
        sources,
        environment: CTestEnvironment::default(),
        kernels: KernelCache::default(),
        end: options
            .hours
            .and_then(|hours| Instant::now().checked_add(hours)),
        found: false,
    };
    if let [name, seed] = &options.repeat[..] {
        let work = WORKS
            .iter()
            .find(|work| work.name == name)
            .context("no such work")?;
        let seed = seed.parse().context("the seed is no number")?;
        let (slice, log) = (Slice { work, seed }, Log::named("soak-repeat")?);
        let found = soak.start(slice, &log)?(&log);
        soak.has_passed(slice, &log, found);
    } else if counts {
        totals.store()?;
        soak.run()?;
    }
    if soak.shares.iter().all(|share| share.is_infinite()) {
        unavailable!("none of the works can run here");
    }
    let table = Totals::load()?.table(Some(&soak.sources));
    print!("{}", table.to_text(&Style::plain(120)));
    Ok(ExitCode::from(u8::from(soak.found)))
}

/// Work with the least share, of those that fit.
fn least(shares: &[f64], fits: impl Fn(usize) -> bool) -> Option<usize> {
    let open = (0..shares.len()).filter(|&index| shares[index].is_finite() && fits(index));
    open.min_by(|a, b| shares[*a].total_cmp(&shares[*b]))
}

impl Soak {
    fn run(&mut self) -> Result<()> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let soak = &Mutex::new(self);
        thread::scope(|scope| {
            let begin = |number| scope.spawn(move || run_slices(soak, number));
            let all: Vec<_> = (0..processors).map(begin).collect();
            let panicked = |_| Err(anyhow!("it panicked"));
            let mut ended = all
                .into_iter()
                .map(|one| one.join().unwrap_or_else(panicked));
            ended.try_for_each(|ended| ended)
        })
    }

    /// The next slice, with all that it needs; none where the time or a finding ends it.
    fn begin(&mut self, log: &Log) -> Result<Option<(Slice, Rest)>> {
        loop {
            let left = self.left().map_or(u64::MAX, |left| left.as_secs());
            let next = least(&self.shares, |index| WORKS[index].seconds() <= left);
            let Some(index) = next.filter(|_| !self.found && !was_interrupted()) else {
                return Ok(None);
            };
            if totals::sources()? != self.sources {
                bail!("the store's sources have changed since the beginning");
            }
            let slice = self.slices[index];
            match self.start(slice, log) {
                Ok(rest) => {
                    self.slices[index].seed += 1;
                    self.shares[index] += slice.work.share(slice.work.slice);
                    return Ok(Some((slice, rest)));
                }
                Err(error) => {
                    eprintln!("{} is left out: {error:#}", slice.work.name);
                    self.shares[index] = f64::INFINITY;
                }
            }
        }
    }

    fn left(&self) -> Option<Duration> {
        let left = |end: Instant| end.saturating_duration_since(Instant::now());
        self.end.map(left)
    }

    fn start(&self, Slice { work, seed }: Slice, log: &Log) -> Result<Rest> {
        match work.run {
            Run::Program(step, words) => {
                let runs = c_tests::words(&format!("{words} {}", work.slice), seed);
                c_tests::of_step(step)?.start_runs(log, &self.environment, runs, LIMIT)
            }
            Run::Guest(script) => {
                let test = (script, work.name);
                kernel_tests::for_long(log, &self.kernels, test, seed, work.slice)
            }
        }
    }

    /// Adds a slice that ended well to the totals.
    fn end(&mut self, slice: Slice, log: &Log, found: Result<Tally>, took: Duration) -> Result<()> {
        if !self.has_passed(slice, log, found) {
            return Ok(());
        }
        let Slice { work, seed } = slice;
        let today = output_of(Command::new("date").args(["-u", "+%F"]))?;
        let mut totals = Totals::load()?;
        totals.add(work, seed, took, &today, &self.sources);
        totals.store()?;
        let (name, amount, unit) = (work.name, work.slice, work.aim.unit);
        let took = units::duration(took);
        let share = units::percent(totals.share(work, &self.sources));
        let left = self
            .left()
            .map(|left| format!(", {} left", units::duration(left)));
        let left = left.unwrap_or_default();
        eprintln!("{name}, seed {seed}: {amount} {unit} in {took}, {share} of its aim{left}");
        Ok(())
    }

    /// Whether it ended well; says why not.
    fn has_passed(&mut self, slice: Slice, log: &Log, found: Result<Tally>) -> bool {
        let (name, seed) = (slice.work.name, slice.seed);
        let tally = match Tally::or_skip(name, found) {
            Err(_) if was_interrupted() => return false,
            Err(error) => Tally::fail(name, format!("{error:#}")),
            Ok(tally) => tally,
        };
        for (what, why) in &tally.failed {
            eprintln!("FAILED {what}: {why}");
        }
        if !tally.failed.is_empty() {
            self.found = true;
            let log = workspace::shown(log.path());
            eprintln!("see {log}; repeat it with\n  cargo xtask soak --repeat {name} {seed}");
        } else if tally.did_not_run() {
            let why = &tally.skipped;
            eprintln!("{name}, seed {seed}, counts for nothing: {why:?}");
        }
        tally.failed.is_empty() && !tally.did_not_run()
    }
}

/// Slices, one after the other, on one processor.
fn run_slices(soak: &Mutex<&mut Soak>, number: usize) -> Result<()> {
    let soak = || soak.lock().unwrap_or_else(PoisonError::into_inner);
    // A finding's log stays.
    while !soak().found {
        let log = Log::named(&format!("soak-{number}"))?;
        let Some((slice, rest)) = soak().begin(&log)? else {
            return Ok(());
        };
        let begun = Instant::now();
        let found = rest(&log);
        soak().end(slice, &log, found, begun.elapsed())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_least_share_and_fits_is_next() {
        let shares = [0.5, f64::INFINITY, 0.25, 0.25];
        assert_eq!(least(&shares, |_| true), Some(2));
        assert_eq!(least(&shares, |work| work != 2), Some(3));
        assert_eq!(least(&shares, |work| work < 2), Some(0));
        assert_eq!(least(&shares, |work| work == 1), None);
    }
}
