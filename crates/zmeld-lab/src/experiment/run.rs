//! One run: the workload in its group, watched while it runs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use zmeld_linux::Host;
use zmeld_swap::observe::{lately, Memory, Zswap};

use super::result::{Outcome, Run};
use super::Lab;
use crate::error::Error;
use crate::limit::RunGroup;
use crate::measure::counters::{device, held, memory, requests};
use crate::measure::supervise::Launch;
use crate::measure::{Counters, Sample, Series, WorkloadEnd};
use crate::recipe::{Case, Recipe};
use crate::vm::World;
use crate::workload::{Workload, WorkloadReport};

/// A run as it was measured; whose it was is not in it yet.
pub(super) struct MeasuredRun {
    pub(super) run: Run,
    /// The most anonymous memory it had, in RAM and in swap.
    footprint_bytes: u64,
}

/// How often a run's end is looked for, and, where the store counts, its limit adjusted.
const TICK: Duration = Duration::from_millis(10);
/// So long a group may be above what the store leaves it before it counts as out of memory.
const OVERDRAWN_MAX: Duration = Duration::from_secs(3);
/// What a program needs at least, for limits and sizes of swap; less cannot be told from what
/// starts it.
pub(crate) const NEEDED_LEAST: u64 = 1 << 20;
/// Of fewer samples none may have been taken of the most that a run had.
const SAMPLES_MIN: usize = 10;
/// As much of a workload's output is read.
const OUTPUT_MAX: u64 = 4 << 20;
/// A group is never shrunk below that.
const GROUP_MIN_BYTES: u64 = 4 << 20;

impl Lab<'_> {
    /// The program and arguments that run a workload.
    fn command(&self, workload: &Workload) -> Result<Vec<String>, Error> {
        if let Workload::Command(command) = workload {
            return Ok(command.command.clone());
        }
        let own = self.settings.program.display().to_string();
        let json = serde_json::to_string(workload).map_err(|err| Error::Result(err.to_string()))?;
        Ok(vec![own, "bench".into(), "workload".into(), json])
    }

    /// Runs a workload in a group, for so long at most. `budget`: what the group and the devices may take up together.
    pub(super) fn supervised(
        &mut self,
        case: &Case,
        run_max_s: f64,
        group: &RunGroup,
        budget: Option<u64>,
        devices: &[String],
    ) -> Result<MeasuredRun, Error> {
        let workload = &case.workload;
        let [stdout, stderr, report] =
            ["stdout", "stderr", "report"].map(|name| self.folder.path().join(name));
        // Built-in workloads are this program.
        let is_command = matches!(workload, Workload::Command(_));
        let world = self.world.as_ref().filter(|_| is_command);
        let launch = Launch {
            parent: std::process::id(),
            join: Some(group.file("cgroup.procs")),
            no_huge_pages: !case.huge_pages,
            root: world.map(|world| [world.root.clone(), world.folder.clone()]),
            command: self.command(workload)?,
            report: report.clone(),
        };
        let before = Counters::read(&self.kswapd);
        let requests_before: Vec<Counters> = devices.iter().map(|name| requests(name)).collect();
        let mut child = self.supervisor(&launch, world, [&stdout, &stderr])?;
        let mut observer = RunObserver::new(group, case.limit.is_some(), budget, devices);
        let cause = self.watch(&mut child, &mut observer, run_max_s)?;
        let after = Counters::read(&self.kswapd).since(&before);
        let (said, complained) = (tail_of(&stdout), tail_of(&stderr));
        let ended = reported(&report, &complained)?;
        let counters = group.counters();
        let in_group = counters.get("event_oom_kill").copied().unwrap_or(0.0);
        let by_machine = match ended.signal {
            Some(9) => after.get("vm_oom_kill").min(1.0),
            _ => 0.0,
        };
        let kills = in_group.max(by_machine) as u64;
        let killed = kills > 0;
        if killed {
            // If the note fails, status blames the machine: no reason to stop.
            let _ = lately::note_experiment(&Host::here(), kills);
        }
        let finished = match cause {
            Some(cause) => Err(cause),
            None if killed => Err(Outcome::OutOfMemory),
            None => finish(workload, &ended, &said, &complained)?,
        };
        let (outcome, report) = match finished {
            Ok(report) => (Outcome::Finished, report),
            Err(outcome) => (outcome, WorkloadReport::default()),
        };
        let mut figures = report.figures;
        figures.insert("elapsed_s".to_owned(), ended.usage.elapsed_s);
        figures.insert("measured_s".to_owned(), report.measured_s);
        figures.extend(observer.series.figures());
        let grown = devices.iter().zip(&requests_before).map(|(name, before)| {
            let mut all = device(name);
            all.extend(requests(name).since(before).0);
            (name.clone(), all)
        });
        let run = Run {
            outcome,
            swapped_max_bytes: observer.swapped_max_bytes,
            ended,
            figures,
            verified: report.verified,
            machine: after,
            group: counters,
            devices: grown.collect(),
            series: observer.series,
            ..Run::default()
        };
        Ok(MeasuredRun {
            run,
            footprint_bytes: observer.footprint_bytes,
        })
    }

    /// Looks on until the run is over; why it was ended, where it was.
    fn watch(
        &self,
        child: &mut Child,
        observer: &mut RunObserver<'_>,
        run_max_s: f64,
    ) -> Result<Option<Outcome>, Error> {
        let begin = Instant::now();
        let mut cause = None;
        loop {
            let ended = child.try_wait();
            if ended
                .map_err(|err| Error::io("wait for", "the supervisor", err))?
                .is_some()
            {
                return Ok(cause);
            }
            if cause.is_none() {
                cause = if self.stopped() {
                    Some(Outcome::Stopped)
                } else if begin.elapsed().as_secs_f64() > run_max_s {
                    Some(Outcome::TimedOut)
                } else if observer.exceeds_budget() {
                    Some(Outcome::OutOfMemory)
                } else {
                    None
                };
            }
            // Again at each look: at the first one, it may not have joined its group yet.
            if cause.is_some() {
                observer.group.kill();
            }
            observer.tick(begin.elapsed().as_secs_f64());
            std::thread::sleep(TICK);
        }
    }

    fn supervisor(
        &self,
        launch: &Launch,
        world: Option<&World>,
        [stdout, stderr]: [&Path; 2],
    ) -> Result<Child, Error> {
        let own = &self.settings.program;
        let create = |path: &Path| File::create(path).map_err(|err| Error::io("create", path, err));
        // An old report is of the run before.
        let _ = fs::remove_file(&launch.report);
        let begin = |err| Error::io("start", own, err);
        let mut command = launch.program(own, "supervise").map_err(begin)?;
        if let Some(world) = world {
            command.env_clear().envs(&world.environment);
        }
        // Ctrl-C is for the experiment, which then ends the workload and hears how it ended.
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(create(stdout)?)
            .stderr(create(stderr)?)
            .spawn()
            .map_err(begin)
    }
}

/// The end of what a workload wrote, where its figures are and what it complained of
/// last: somebody's program may write without end.
fn tail_of(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(OUTPUT_MAX)))?;
        let mut bytes = Vec::new();
        file.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn reported(report: &Path, complained: &str) -> Result<WorkloadEnd, Error> {
    let text = fs::read(report).unwrap_or_default();
    serde_json::from_slice(&text).map_err(|_| {
        let said = complained.trim();
        Error::Workload(format!("the supervisor ended without a report: {said}"))
    })
}

/// Report of a workload that ended by itself, or its outcome if it did not finish.
fn finish(
    workload: &Workload,
    ended: &WorkloadEnd,
    said: &str,
    complained: &str,
) -> Result<Result<WorkloadReport, Outcome>, Error> {
    let what = || {
        let line = complained
            .lines()
            .chain(said.lines())
            .rev()
            .find(|line| !line.trim().is_empty());
        let name = match workload {
            Workload::Command(command) => command.name(),
            other => other.describe(),
        };
        format!("{name}: {}", line.map_or("it printed nothing", str::trim))
    };
    if ended.code == Some(4) && !matches!(workload, Workload::Command(_)) {
        return Err(Error::Integrity(what()));
    }
    // Without swap, the kernel may refuse memory that it would have to take back later.
    let lacked_memory = match workload {
        Workload::Command(command) => command.reads.lacked_memory(ended.code),
        _ => ended.code != Some(0) && complained.contains("memory allocation of "),
    };
    if lacked_memory {
        return Ok(Err(Outcome::OutOfMemory));
    }
    if ended.code != Some(0) {
        return match (ended.code, workload) {
            // It could not even be started.
            (Some(126 | 127), Workload::Command(command)) => Err(match &command.package {
                Some(package) => not_installed(&command.command[0], package),
                // Whoever named it may have written it wrongly; the supervisor's line names it.
                None => {
                    let own = complained.trim().strip_prefix("zmeld: ");
                    Error::Workload(own.map_or_else(what, str::to_owned))
                }
            }),
            _ => {
                let end = describe_end(ended);
                Ok(Err(Outcome::Failed(format!("{end}, {}", what()))))
            }
        };
    }
    Ok(match workload {
        Workload::Command(command) => {
            let (figures, verified) = command.reads.read(&format!("{said}\n{complained}"));
            Ok(WorkloadReport {
                measured_s: ended.usage.elapsed_s,
                figures,
                verified,
            })
        }
        _ => {
            serde_json::from_str(said).map_err(|err| Outcome::Failed(format!("{}: {err}", what())))
        }
    })
}

fn describe_end(ended: &WorkloadEnd) -> String {
    match (ended.code, ended.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    }
}

struct RunObserver<'a> {
    group: &'a RunGroup,
    /// Whether the run has a limit, or is one to set it by.
    limited: bool,
    budget: Option<u64>,
    devices: &'a [String],
    /// Bytes that zswap held before.
    zswap_before_bytes: u64,
    series: Series,
    swapped_max_bytes: u64,
    footprint_bytes: u64,
    limit: u64,
    overdrawn_since: Option<Instant>,
}

impl<'a> RunObserver<'a> {
    fn new(
        group: &'a RunGroup,
        limited: bool,
        budget: Option<u64>,
        devices: &'a [String],
    ) -> RunObserver<'a> {
        RunObserver {
            group,
            limited,
            budget,
            devices,
            zswap_before_bytes: Zswap::pool_bytes(&Host::here(), &memory()),
            series: Series::default(),
            swapped_max_bytes: 0,
            footprint_bytes: 0,
            limit: budget.unwrap_or(0),
            overdrawn_since: None,
        }
    }

    /// Bytes of RAM that compressed pages take, and those that the kernel does not charge to the group.
    fn store(&self, memory: &Memory) -> (u64, u64) {
        let devices = self.devices.iter().filter_map(|name| held(name));
        let devices_bytes: u64 = devices.map(|held| held.memory_used_bytes).sum();
        let (zswap, uncharged) = match self.group.zswap_bytes() {
            Some(bytes) => (bytes, 0),
            // Only the machine's pool is known, and an experiment has the machine to itself.
            None => {
                let pool = Zswap::pool_bytes(&Host::here(), memory);
                let pool = pool.saturating_sub(self.zswap_before_bytes);
                (pool, pool)
            }
        };
        (devices_bytes + zswap, devices_bytes + uncharged)
    }

    fn exceeds_budget(&self) -> bool {
        self.overdrawn_since
            .is_some_and(|since| since.elapsed() > OVERDRAWN_MAX)
    }

    fn tick(&mut self, at_s: f64) {
        let is_due = self.series.is_due(at_s);
        if self.limited || is_due {
            self.footprint_bytes = self.footprint_bytes.max(self.group.footprint());
        }
        if let Some(budget) = self.budget {
            self.adjust(budget);
        }
        if !is_due {
            return;
        }
        let machine = memory();
        let (memory_bytes, swap_bytes) = self.group.usage();
        self.swapped_max_bytes = self.swapped_max_bytes.max(swap_bytes);
        self.series.push(Sample {
            at_s,
            memory_bytes,
            swap_bytes,
            store_bytes: self.store(&machine).0,
            available_bytes: machine.available_bytes,
        });
    }

    /// Gives the group what the store leaves of the budget.
    fn adjust(&mut self, budget: u64) {
        let wanted = budget
            .saturating_sub(self.store(&memory()).1)
            .max(GROUP_MIN_BYTES);
        // In steps, so that the kernel is not asked for every page.
        if wanted.abs_diff(self.limit) < 256 << 10 && self.overdrawn_since.is_none() {
            return;
        }
        match self.group.adjust(wanted) {
            Ok(true) => {
                self.limit = wanted;
                self.overdrawn_since = None;
            }
            // It cannot be reclaimed so far. For a moment that is normal; for long it is out of memory.
            Ok(false) | Err(_) => {
                self.overdrawn_since.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// A program that a package would bring.
pub(super) fn not_installed(program: &str, package: &str) -> Error {
    Error::Missing(format!("{program} is not installed: install {package}"))
}

impl MeasuredRun {
    /// Memory needed without a limit. RSS counts the program's own pages too, which are files and
    /// never swapped; it stands in where the run was too short to be sampled at its largest.
    pub(super) fn needed_bytes(&self) -> u64 {
        let (anonymous, rss) = (self.footprint_bytes, self.run.ended.usage.rss_max_bytes);
        let needed = match self.run.series.samples.len() < SAMPLES_MIN {
            true => anonymous.max(rss),
            false if anonymous > rss / 2 => anonymous,
            false => rss,
        };
        needed.max(NEEDED_LEAST)
    }

    /// The most that its group used, files that it read included; 0 where the kernel does not say.
    pub(super) fn peak_bytes(&self) -> u64 {
        let peak = self.run.group.get("peak_bytes");
        peak.map_or(0, |&bytes| bytes as u64)
    }

    pub(super) fn into_run(self, recipe: &Recipe, case: &Case, variant: &str, block: usize) -> Run {
        let mut run = self.run;
        let mut metrics = std::iter::once(&recipe.metric).chain(&recipe.also);
        let absent = metrics.find(|metric| !run.figures.contains_key(&metric.name));
        if let (Outcome::Finished, Some(metric)) = (&run.outcome, absent) {
            run.outcome = Outcome::Failed(format!("it gave no figure {}", metric.name));
        }
        run.value = match run.outcome {
            Outcome::Finished => run.figures[&recipe.metric.name],
            _ => recipe.metric.better.worst(),
        };
        Run {
            case: case.name.clone(),
            variant: variant.to_owned(),
            block,
            warm_up: block < recipe.warm_ups,
            ..run
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    use crate::workload::external::{ExternalCommand, OutputFormat};

    #[test]
    fn a_workload_that_fails_says_its_exit_code() {
        let workload = Workload::Command(ExternalCommand {
            command: vec!["./mine".to_owned(), "-x".to_owned()],
            reads: OutputFormat::Nothing,
            data: None,
            package: None,
        });
        let ended = |code, signal| WorkloadEnd {
            code,
            signal,
            usage: Default::default(),
        };
        let said = |ended: &WorkloadEnd| match finish(&workload, ended, "", "no such table\n") {
            Ok(Err(Outcome::Failed(why))) => why,
            other => panic!("{other:?}"),
        };
        let why = said(&ended(Some(3), None));
        assert!(
            why.starts_with("exit code 3, ") && why.ends_with(": no such table"),
            "{why}"
        );
        let why = said(&ended(None, Some(11)));
        assert!(why.starts_with("ended by signal 11, "), "{why}");
    }

    #[test]
    fn of_endless_output_the_end_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        (&mut file.as_file()).seek(SeekFrom::End(0)).unwrap();
        file.as_file().write_all(b"\nthe end").unwrap();
        let text = tail_of(file.path());
        assert_eq!(text.len() as u64, OUTPUT_MAX);
        assert!(text.ends_with("\nthe end"));
    }
}
