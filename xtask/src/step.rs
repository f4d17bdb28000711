//! Steps of a test run: what each found, and how it is told.

use std::io::{stderr, IsTerminal};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{anyhow, Result};
use zmeld_report::units::duration;

use crate::process::{reason, tail, was_interrupted, FinishedProgram, Log};
use crate::{splats, workspace};

/// Steps that run beside each other at most, however many processors there are: guests take
/// memory, too.
const BESIDE_MAX: usize = 4;

const LONGEST: usize = 10;

const TAIL_LINES: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestScope {
    /// Under 40 minutes on two cores, from a clean checkout.
    Default,
    Long,
}

#[derive(Default)]
pub struct Tally {
    pub passed: u64,
    /// Tests that failed, with what is to be said about each.
    pub failed: Vec<(String, String)>,
    /// Tests that could not run here, with the reason.
    pub skipped: Vec<(String, String)>,
}

impl Tally {
    pub fn pass() -> Tally {
        Tally {
            passed: 1,
            ..Tally::default()
        }
    }

    pub fn fail(name: &str, why: impl Into<String>) -> Tally {
        Tally {
            failed: vec![(name.to_owned(), why.into())],
            ..Tally::default()
        }
    }

    pub fn skip(name: &str, reason: impl Into<String>) -> Tally {
        Tally {
            skipped: vec![(name.to_owned(), reason.into())],
            ..Tally::default()
        }
    }

    pub fn of(name: &str, ok: bool, why: impl Into<String>) -> Tally {
        if ok {
            Tally::pass()
        } else {
            Tally::fail(name, why)
        }
    }

    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }

    /// Tally of a program's Test Anything Protocol: `ok N - name`, `not ok N - name`,
    /// `# SKIP reason` behind a check or behind a plan of none, and the plan `1..N`, without which
    /// it came to no proper end.
    pub fn of_tap(step: &str, output: &str) -> Tally {
        let mut tally = Tally::default();
        let mut planned = None;
        for line in output.lines() {
            let (said, skipped) = match line.split_once(" # SKIP ") {
                Some((said, why)) => (said, Some(why)),
                None => (line, None),
            };
            let name = said.split_once(" - ").map_or(said, |(_, name)| name);
            if let Some(count) = said.strip_prefix("1..") {
                planned = count.trim().parse().ok();
                tally.add(skipped.map_or(Tally::default(), |why| Tally::skip(step, why)));
            } else if said.starts_with("not ok ") {
                tally.add(Tally::fail(step, name));
            } else if said.starts_with("ok ") {
                let name = format!("{step} {name}");
                tally.add(skipped.map_or(Tally::pass(), |why| Tally::skip(&name, why)));
            }
        }
        let seen = tally.passed + (tally.failed.len() + tally.skipped.len()) as u64;
        if planned != Some(seen) && (planned, seen) != (Some(0), 1) {
            tally.add(Tally::fail(
                step,
                format!("{seen} checks and no proper end"),
            ));
        }
        tally
    }

    pub fn of_run(log: &Log, name: &str, command: &mut Command, why: &str) -> Result<Tally> {
        Ok(Tally::of(name, log.run(command)?.succeeded(), why))
    }

    /// The same of a program that ran tests, with what its end says beside them.
    pub fn whole(mut self, name: &str, ran: &FinishedProgram) -> Tally {
        if !ran.succeeded() && self.failed.is_empty() {
            self.add(Tally::fail(name, "it does not compile, or crashed"));
        } else if ran.succeeded() && self.passed == 0 && self.skipped.is_empty() {
            self.add(Tally::fail(name, "no test ran"));
        }
        self
    }

    /// The tally found, or a skip if it cannot be had here.
    pub fn or_skip(step: &str, found: Result<Tally>) -> Result<Tally> {
        found.or_else(|error| match reason(&error) {
            Some(reason) => Ok(Tally::skip(step, reason)),
            None => Err(error),
        })
    }

    pub fn add_skip_lines(&mut self, name: &str, text: &str) {
        for reason in skip_lines(text) {
            self.skipped.push((name.to_owned(), reason));
        }
    }

    pub fn did_not_run(&self) -> bool {
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

/// Rest of a step when all that it needs is built.
pub type Rest = Box<dyn FnOnce(&Log) -> Result<Tally> + Send>;

type InFront<'a, T> = Box<dyn Fn(&Log) -> Result<T> + 'a>;

/// A step's action; its programs' output goes to the log. One step at a time is in front: it builds
/// what later ones need.
pub enum Action<'a> {
    Whole(InFront<'a, Tally>),
    /// In front until its rest, which changes nothing that another step reads, runs in the
    /// background.
    Staged(InFront<'a, Rest>),
}

pub struct Step<'a> {
    pub name: String,
    pub about: String,
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
        total: Tally::default(),
        not_run: Vec::new(),
        took: Vec::new(),
    };
    run_steps(steps, &mut report)?;
    let Report {
        total,
        not_run,
        mut took,
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
    tell_list("Not run here", &first_lines(&total.skipped));
    tell_list("Failed", &first_lines(&total.failed));
    // Those that ran beside others count whole.
    took.sort();
    let longest = took.iter().rev().take(LONGEST);
    let longest = longest.map(|(time, name)| format!("{:>12}  {name}", duration(*time)));
    if took.len() > LONGEST {
        tell_list("The longest steps", &longest.collect::<Vec<_>>());
    }
    println!("in {}", duration(started.elapsed()));
    for reason in &partial {
        println!("NOT A FULL RUN: {reason}");
    }
    println!("{}", total.counts());
    Ok(total)
}

fn run_steps(steps: &[Step], report: &mut Report) -> Result<()> {
    let logs = workspace::work_folder("logs")?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let beside_max = processors.min(BESIDE_MAX);
    std::thread::scope(|scope| {
        let (over, ended) = channel::<EndedStep>();
        let mut running = 0;
        for (done, step) in steps.iter().enumerate() {
            while running >= beside_max {
                report.take(steps, ended.recv()?)?;
                running -= 1;
            }
            let log = Log::create(&logs.join(format!("{}.log", step.name)))?;
            let began = Instant::now();
            if stderr().is_terminal() {
                eprint!("\r\x1b[K[{}/{}] {}", done + 1, steps.len(), step.name);
            }
            let found = match &step.run {
                Action::Whole(run) => run(&log),
                Action::Staged(start) => match start(&log) {
                    Ok(rest) => {
                        let over = over.clone();
                        running += 1;
                        scope.spawn(move || {
                            let found = catch_unwind(AssertUnwindSafe(|| rest(&log)));
                            let found = found.unwrap_or_else(|_| Err(anyhow!("it panicked")));
                            // Nobody listens any more where the run was interrupted.
                            let _ = over.send((done, log, found, began.elapsed()));
                        });
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            report.take(steps, (done, log, found, began.elapsed()))?;
        }
        for _ in 0..running {
            report.take(steps, ended.recv()?)?;
        }
        Ok(())
    })
}

/// A step's index, its log, what it found and how long it took.
type EndedStep = (usize, Log, Result<Tally>, Duration);

struct Report {
    total: Tally,
    not_run: Vec<String>,
    took: Vec<(Duration, String)>,
}

impl Report {
    fn take(&mut self, steps: &[Step], (index, log, found, took): EndedStep) -> Result<()> {
        let step = &steps[index];
        let found = match Tally::or_skip(&step.name, found) {
            Ok(found) => found,
            Err(error) if was_interrupted() => return Err(error),
            Err(error) => Tally::fail(&step.name, format!("{error:#}")),
        };
        if found.did_not_run() {
            self.not_run.push(step.name.clone());
        } else {
            self.took.push((took, step.name.clone()));
        }
        tell(step, &log, &found, took)?;
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
    if stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    let (name, took) = (&step.name, duration(took));
    println!("{name:<20} {verdict:<8}{took:>9}  {counts}");
    if found.failed.is_empty() {
        return Ok(());
    }
    println!("---- the end of {} ----", workspace::shown(log.path()));
    let text = log.text()?;
    println!("{}", tail(&text, TAIL_LINES));
    tell_list("Of memory it says", &splats::short_of_memory(&text));
    for (name, why) in &found.failed {
        println!("FAILED {name}: {why}");
    }
    println!("----");
    Ok(())
}

fn tell_list<Line: AsRef<str>>(title: &str, lines: &[Line]) {
    if !lines.is_empty() {
        println!("\n{title}:");
        for line in lines {
            println!("  {}", line.as_ref());
        }
    }
}

fn first_lines(told: &[(String, String)]) -> Vec<String> {
    let first = |why: &str| why.lines().next().unwrap_or_default().to_owned();
    let told = told.iter();
    told.map(|(name, why)| format!("{name}: {}", first(why)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn steps_run_in_the_background_of_each_other() {
        let both = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(2);
        let meet: &Barrier = Box::leak(Box::new(Barrier::new(both)));
        let step = |name: &str, run| Step {
            name: format!("unit-{name}"),
            about: String::new(),
            run,
        };
        // Each waits until the other is there.
        let begins = move |_: &Log| {
            Ok(Box::new(move |_: &Log| {
                meet.wait();
                Ok(Tally::pass())
            }) as Rest)
        };
        let front = |_: &Log| {
            meet.wait();
            Ok(Tally::pass())
        };
        let staged = step("a", Action::Staged(Box::new(begins)));
        let total = run_all(
            &[staged, step("b", Action::Whole(Box::new(front)))],
            Vec::new(),
        );
        assert_eq!(total.unwrap().passed, 2);
    }

    #[test]
    fn checks_are_counted_and_a_missing_end_is_a_failure() {
        let text =
            "# x\nok 1 - a\n    ok 1 - not ours\nnot ok 2 - b\nok 3 - c # SKIP no tool\n1..3\n";
        let tally = Tally::of_tap("s", text);
        assert_eq!(tally.counts(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(tally.failed[0].1, "b");
        assert_eq!(Tally::of_tap("s", "ok 1 - a\n").failed.len(), 1);
        let tally = Tally::of_tap("s", "1..0 # SKIP none\n");
        assert_eq!(tally.skipped, [("s".to_owned(), "none".to_owned())]);
        assert!(tally.did_not_run());
    }
}
