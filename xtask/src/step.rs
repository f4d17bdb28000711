//! Steps of a test run: what each found, and how it is told.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Result};

use crate::pace::Pace;
use crate::process::{was_interrupted, Log};
use crate::workspace;

/// Steps that run beside each other at most, each on a processor of its own: guests
/// take memory, too.
const BESIDE_MAX: usize = 4;

/// Lines of a failed step's log that are shown.
const TAIL_LINES: usize = 60;

/// How much is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestScope {
    /// Under two minutes, once things are built.
    Quick,
    /// Under 40 minutes on two cores, from a clean checkout.
    Default,
    /// Hours.
    Long,
}

/// What a step found out.
#[derive(Default)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, with what is to be said about each.
    pub failed: Vec<(String, String)>,
    /// Tests that could not run here, with the reason.
    pub skipped: Vec<(String, String)>,
}

impl Tally {
    /// One test that passed.
    pub fn pass() -> Tally {
        Tally {
            passed: 1,
            ..Tally::default()
        }
    }

    /// One test that failed.
    pub fn fail(name: &str, why: impl Into<String>) -> Tally {
        Tally {
            failed: vec![(name.to_owned(), why.into())],
            ..Tally::default()
        }
    }

    /// One test that cannot run here.
    pub fn skip(name: &str, reason: impl Into<String>) -> Tally {
        Tally {
            skipped: vec![(name.to_owned(), reason.into())],
            ..Tally::default()
        }
    }

    /// One test that passed where `ok`, and otherwise failed.
    pub fn of(name: &str, ok: bool, why: impl Into<String>) -> Tally {
        if ok {
            Tally::pass()
        } else {
            Tally::fail(name, why)
        }
    }

    /// Adds what another found.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    /// Adds the `SKIP: reason` lines of a program's output.
    pub fn add_skip_lines(&mut self, name: &str, text: &str) {
        for reason in skip_lines(text) {
            self.skipped.push((name.to_owned(), reason));
        }
    }

    /// Whether nothing of it could run.
    fn did_not_run(&self) -> bool {
        self.passed == 0 && self.failed.is_empty()
    }

    fn counts(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed.len(),
            self.skipped.len()
        )
    }
}

/// The reasons of lines that begin with `SKIP:`.
pub fn skip_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("SKIP:"))
        .map(|reason| reason.trim().to_owned())
}

/// What is left of a step when all that it needs is built.
pub type Rest = Box<dyn FnOnce(&Log) -> Result<Tally> + Send>;

/// How far a step is in front.
pub enum Stage {
    /// At its end.
    Ended(Tally),
    /// What is left takes one processor, and nothing that another step changes.
    Rest(Rest),
}

impl Stage {
    /// To the end of the step, in front.
    pub fn finish(self, log: &Log) -> Result<Tally> {
        match self {
            Stage::Ended(tally) => Ok(tally),
            Stage::Rest(rest) => rest(log),
        }
    }
}

type InFront<'a, T> = Box<dyn Fn(&Log) -> Result<T> + 'a>;

/// What a step does; what its programs say goes to the log.
pub enum Action<'a> {
    /// With nothing beside it.
    Alone(InFront<'a, Tally>),
    /// In front until the rest of it may run beside other steps.
    Beside(InFront<'a, Stage>),
}

/// A named part of a test run.
pub struct Step<'a> {
    /// What `--only` takes.
    pub name: String,
    /// What `--list` says.
    pub about: String,
    /// Does it.
    pub run: Action<'a>,
}

/// Runs the steps in their order, some beside each other, tells how each went, and sums
/// up. `partial` is why this cannot be a full run, as far as it is known before.
///
/// # Errors
/// When it was interrupted, or logs cannot be written.
pub fn run_all(steps: &[Step], mut partial: Vec<String>) -> Result<Tally> {
    let started = Instant::now();
    let mut report = Report {
        pace: Pace::new()?,
        total: Tally::default(),
        not_run: Vec::new(),
        took: Vec::new(),
    };
    run_steps(steps, &mut report)?;
    let Report {
        total,
        not_run,
        took,
        ..
    } = report;
    if !not_run.is_empty() {
        partial.push(format!(
            "{} of {} steps could not run here: {}",
            not_run.len(),
            steps.len(),
            not_run.join(", ")
        ));
    }
    if !total.skipped.is_empty() {
        partial.push(format!(
            "{} tests were skipped, named above with the reason",
            total.skipped.len()
        ));
    }
    tell_skipped(&total);
    tell_failed(&total);
    tell_longest(took);
    println!("in {}", shown(started.elapsed()));
    print!("{}", not_full(&partial));
    println!("{}", total.counts());
    Ok(total)
}

fn run_steps(steps: &[Step], report: &mut Report) -> Result<()> {
    let logs = workspace::work_folder("logs")?;
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let beside_max = processors.min(BESIDE_MAX);
    std::thread::scope(|scope| {
        let (over, ended) = channel::<EndedStep>();
        let mut running = 0;
        for (done, step) in steps.iter().enumerate() {
            let others_max = match step.run {
                Action::Alone(_) => 0,
                Action::Beside(_) => beside_max - 1,
            };
            while running > others_max {
                report.take(steps, ended.recv()?)?;
                running -= 1;
            }
            let log = Log::create(&logs.join(format!("{}.log", step.name)))?;
            let began = Instant::now();
            report.pace.begins(&names[done..], done);
            let found = match &step.run {
                Action::Alone(run) => run(&log),
                Action::Beside(start) => match start(&log) {
                    Ok(Stage::Ended(tally)) => Ok(tally),
                    Ok(Stage::Rest(rest)) => {
                        let over = over.clone();
                        running += 1;
                        scope.spawn(move || {
                            let found = catch_unwind(AssertUnwindSafe(|| rest(&log)));
                            let found = found.unwrap_or_else(|_| Err(anyhow!("it panicked")));
                            // Nobody listens any more where the run was interrupted.
                            let _ = over.send(EndedStep::new(done, log, found, began));
                        });
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            report.take(steps, EndedStep::new(done, log, found, began))?;
        }
        for _ in 0..running {
            report.take(steps, ended.recv()?)?;
        }
        Ok(())
    })
}

/// A step at its end.
struct EndedStep {
    index: usize,
    log: Log,
    found: Result<Tally>,
    took: Duration,
}

impl EndedStep {
    fn new(index: usize, log: Log, found: Result<Tally>, began: Instant) -> EndedStep {
        EndedStep {
            index,
            log,
            found,
            took: began.elapsed(),
        }
    }
}

/// What all steps found so far.
struct Report {
    pace: Pace,
    total: Tally,
    not_run: Vec<String>,
    took: Vec<(Duration, String)>,
}

impl Report {
    fn take(&mut self, steps: &[Step], ended: EndedStep) -> Result<()> {
        let step = &steps[ended.index];
        let found = match ended.found {
            Ok(found) => found,
            Err(error) if was_interrupted() => return Err(error),
            Err(error) => Tally::fail(&step.name, format!("{error:#}")),
        };
        if found.did_not_run() {
            self.not_run.push(step.name.clone());
        } else {
            self.pace.ended(&step.name, ended.took)?;
            self.took.push((ended.took, step.name.clone()));
        }
        tell(step, &ended.log, &found, ended.took)?;
        self.total.add(found);
        Ok(())
    }
}

fn tell(step: &Step, log: &Log, found: &Tally, took: Duration) -> Result<()> {
    let verdict = match found.failed.len() {
        _ if found.did_not_run() => "skipped",
        0 => "ok",
        _ => "FAILED",
    };
    let counts = match found.passed + (found.failed.len() + found.skipped.len()) as u64 {
        0 | 1 => String::new(),
        _ => found.counts(),
    };
    println!("{:<20} {verdict:<8}{:>9}  {counts}", step.name, shown(took));
    if found.failed.is_empty() {
        return Ok(());
    }
    println!("---- the end of {} ----", workspace::shown(log.path()));
    let text = log.text()?;
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        println!("{line}");
    }
    for (name, why) in &found.failed {
        println!("FAILED {name}: {why}");
    }
    println!("----");
    Ok(())
}

fn tell_skipped(total: &Tally) {
    if total.skipped.is_empty() {
        return;
    }
    println!("\nNot run here:");
    for (name, reason) in &total.skipped {
        println!("  {name}: {reason}");
    }
}

/// The steps that took most of the time; those that ran beside others count whole.
fn tell_longest(mut took: Vec<(Duration, String)>) {
    const LONGEST: usize = 10;
    if took.len() <= LONGEST {
        return;
    }
    took.sort();
    println!("\nThe longest steps:");
    for (time, name) in took.iter().rev().take(LONGEST) {
        println!("  {:>12}  {name}", shown(*time));
    }
}

fn tell_failed(total: &Tally) {
    if total.failed.is_empty() {
        return;
    }
    println!("\nFailed:");
    for (name, why) in &total.failed {
        println!("  {name}: {}", why.lines().next().unwrap_or_default());
    }
}

/// What stands before the last line of a run that is not all there is.
fn not_full(reasons: &[String]) -> String {
    let lines = reasons
        .iter()
        .map(|reason| format!("NOT A FULL RUN: {reason}\n"));
    lines.collect()
}

fn shown(time: Duration) -> String {
    match time.as_secs() {
        0..=59 => format!("{:.1} s", time.as_secs_f64()),
        seconds => format!("{} min {:02} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_read_from_the_output() {
        let text = "one\nSKIP: no zram\n  SKIP:not root \nnot SKIP: this\n";
        let found: Vec<_> = skip_lines(text).collect();
        assert_eq!(found, ["no zram", "not root"]);
    }

    #[test]
    fn a_run_that_is_not_full_says_so_before_its_last_line() {
        assert_eq!(not_full(&[]), "");
        let said = not_full(&["--quick".to_owned(), "no flex".to_owned()]);
        assert_eq!(said, "NOT A FULL RUN: --quick\nNOT A FULL RUN: no flex\n");
        assert!(Tally::skip("a", "why").did_not_run());
        assert!(!Tally::fail("a", "why").did_not_run());
        assert!(!Tally::pass().did_not_run());
    }

    #[test]
    fn steps_run_beside_each_other_and_nothing_beside_one_that_is_alone() {
        use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
        use std::sync::{Arc, Barrier};
        let running = Arc::new(AtomicUsize::new(0));
        let both = match std::thread::available_parallelism() {
            Ok(processors) if processors.get() > 1 => 2,
            _ => 1,
        };
        let meet = Arc::new(Barrier::new(both));
        let beside = |name: &str| {
            let (running, meet) = (running.clone(), meet.clone());
            let start = move |_: &Log| {
                let (running, meet) = (running.clone(), meet.clone());
                running.fetch_add(1, SeqCst);
                Ok(Stage::Rest(Box::new(move |_: &Log| {
                    // Each waits until the other is there.
                    meet.wait();
                    running.fetch_sub(1, SeqCst);
                    Ok(Tally::pass())
                })))
            };
            Step {
                name: format!("unit-{name}"),
                about: String::new(),
                run: Action::Beside(Box::new(start)),
            }
        };
        let alone = Step {
            name: "unit-alone".to_owned(),
            about: String::new(),
            run: Action::Alone(Box::new(|_| {
                Ok(Tally::of("alone", running.load(SeqCst) == 0, "others ran"))
            })),
        };
        let panics = Step {
            name: "unit-panics".to_owned(),
            about: String::new(),
            run: Action::Beside(Box::new(|_| {
                Ok(Stage::Rest(Box::new(|_| panic!("as the test wants it"))))
            })),
        };
        let total = run_all(&[beside("a"), beside("b"), alone, panics], Vec::new()).unwrap();
        assert_eq!((total.passed, total.failed.len()), (3, 1));
        assert!(total.failed[0].1.contains("panicked"));
    }

    #[test]
    fn the_last_line_has_one_form() {
        let mut tally = Tally::pass();
        tally.add(Tally::fail("a", "why"));
        tally.add(Tally::of("b", true, ""));
        tally.add(Tally::skip("c", "no tool"));
        assert_eq!(tally.counts(), "2 passed, 1 failed, 1 skipped");
    }
}
