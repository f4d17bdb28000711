//! What ends when a machine runs out of memory: programs that run away beside others
//! that only take much, looked after by the kernel alone, by earlyoom, by systemd-oomd, by
//! nohang and by zmeld's guard, each in guests of its own with the same seeds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;
use zmeld_report::schema::Envelope;
use zmeld_report::{cells, Cell, Column, Document, Section, Style, Table};

use crate::arguments::Arguments;
use crate::bench_guest::{named_kernel, timed_setting};
use crate::bench_runs::{self, Run};
use crate::guest::Addition;
use crate::kernel_tests::{command_line_files, package_files};
use crate::kernels::Kernel;
use crate::machine::BootOptions;
use crate::module_build;
use crate::process::Log;
use crate::vm;
use crate::workspace;

/// MiB of a guest: of the smallest machines that one can rent.
const MEMORY: u64 = 512;
/// MiB of the file that is read again and again: more than there is memory.
const FILE: u64 = 768;
/// Seconds after which what did not end is ended.
const LIMIT: u64 = 90;
/// The line of a guest that says how long an idle one takes to start a program.
const PACE: &str = "pace";
const LIMIT_PACE: Duration = Duration::from_secs(60);
/// What a shell may wait, in ms.
const WAIT_MAX: f64 = 5000.0;
/// Who looks after the machine, and the packages that have it.
const ARMS: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("earlyoom", &["earlyoom"]),
    ("systemd-oomd", &["systemd-oomd"]),
    ("nohang", NOHANG),
    ("zmeld", &[]),
];
/// With the Python that it is for.
const NOHANG: &[&str] = &[
    "nohang",
    "python3.11-minimal",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
];
const RUNAWAYS: &[&str] = &[
    "slow-leak",
    "fast-leak",
    "fork-bomb",
    "cache-storm",
    "incompressible",
    "many-groups",
    "locked",
    "tmpfs",
    "turning",
];
const HARMLESS: &[&str] = &["still", "sawtooth", "many", "reader", "random", "swapped"];

struct Options {
    kernel: String,
    json: Option<PathBuf>,
    rounds: usize,
    seed: u64,
    arms: Vec<String>,
    kinds: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Options> {
    let arms = || ARMS.iter().map(|(name, _)| *name);
    let kinds = || RUNAWAYS.iter().chain(HARMLESS).copied();
    let mut options = Options {
        kernel: "um".to_owned(),
        json: None,
        rounds: 10,
        seed: 1,
        arms: Vec::new(),
        kinds: Vec::new(),
    };
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--kernel" => options.kernel = arguments.value()?.to_owned(),
            "--json" => options.json = Some(PathBuf::from(arguments.value()?)),
            "--rounds" => options.rounds = arguments.number()?,
            "--seed" => options.seed = arguments.number()?,
            "--arm" => options.arms.push(one_of(arms(), arguments.value()?)?),
            "--kind" => options.kinds.push(one_of(kinds(), arguments.value()?)?),
            other => bail!("there is no argument {other:?}"),
        }
    }
    ensure!(options.rounds > 0, "--rounds 0 measures nothing");
    if options.arms.is_empty() {
        options.arms = arms().map(str::to_owned).collect();
    }
    if options.kinds.is_empty() {
        options.kinds = kinds().map(str::to_owned).collect();
    }
    Ok(options)
}

fn one_of<'a>(known: impl Iterator<Item = &'a str>, name: &str) -> Result<String> {
    let known: Vec<&str> = known.collect();
    ensure!(
        known.contains(&name),
        "there is no {name:?}: {}",
        known.join(", ")
    );
    Ok(name.to_owned())
}

#[derive(Serialize)]
struct Body<'a> {
    kernel: &'a str,
    setting: &'a str,
    memory_mib: u64,
    seed: u64,
    /// To start a program, on this machine; in guests it is in the runs, as `pace`.
    host_us: Option<f64>,
    tables: [Vec<serde_json::Value>; 2],
    runs: &'a [Run],
}

/// Runs `bench guard`.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let log = Log::create(&workspace::work_folder("logs")?.join("bench-guard.log"))?;
    let kernel = match named_kernel(&log, &options.kernel)? {
        Ok(kernel) => kernel,
        Err(code) => return Ok(code),
    };
    let setting = timed_setting(&kernel);
    let program = load_program(&log, &kernel)?;
    let host_us = pace_here(&log, &kernel, &program)?;
    let mut runs = Vec::new();
    for arm in &options.arms {
        runs.extend(guest(&log, &kernel, &options, arm, &program)?);
    }
    let tables = [
        runaway_table(&runs, &options.arms),
        harmless_table(&runs, &options.arms),
    ];
    let mut document = Document::new("Programs that run away, and others")
        .provenance("kernel", &kernel.release)
        .provenance("bed", &setting)
        .provenance(
            "memory",
            format!("{MEMORY} MiB, one processor, zram with lz4 of 60 %"),
        )
        .provenance("seeds", format!("from {}", options.seed));
    if let Some(slowness) = slowness(&runs, host_us) {
        document = document.provenance("slowness", slowness);
    }
    for table in &tables {
        document = document.section(Section::new("").table(table.clone()));
    }
    print!("{}", document.to_text(&Style::plain(80)));
    if let Some(path) = &options.json {
        let body = Body {
            kernel: &kernel.release,
            setting: &setting,
            memory_mib: MEMORY,
            seed: options.seed,
            host_us,
            tables: tables.map(|table| table.to_json_rows()),
            runs: &runs,
        };
        let envelope = Envelope::new("zmeld.bench.guard", 1, env!("CARGO_PKG_VERSION"), body);
        fs::write(path, envelope.to_text())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What runs away, what takes much, and what waits.
fn load_program(log: &Log, kernel: &Kernel) -> Result<PathBuf> {
    let source = workspace::root().join("xtask/guest/load.c");
    module_build::guest_program(log, kernel.recipe, &source)
}

/// How long this machine takes to start a program, in us, where it can run a guest's.
fn pace_here(log: &Log, kernel: &Kernel, program: &Path) -> Result<Option<f64>> {
    if kernel.recipe.arch.cross().is_some() {
        return Ok(None);
    }
    let ran = log.run(Command::new(program).args(["pace", "201"]), LIMIT_PACE)?;
    Ok(ran.text.trim().parse().ok())
}

/// How much slower than this machine its guests start a program.
fn slowness(runs: &[Run], host_us: Option<f64>) -> Option<String> {
    let host_us = host_us?;
    let paces = runs.iter().filter(|run| run.part == PACE);
    let guest_us = paces.map(|run| value(run, "us")).fold(f64::NAN, f64::min);
    (guest_us > 0.0 && host_us > 0.0).then(|| {
        format!(
            "a program starts in {guest_us:.0} us in an idle guest, in {host_us:.0} us on this \
             machine: {:.1} times",
            guest_us / host_us
        )
    })
}

/// All runs of one arm, in one boot.
fn guest(
    log: &Log,
    kernel: &Kernel,
    options: &Options,
    arm: &str,
    program: &Path,
) -> Result<Vec<Run>> {
    let root = workspace::root();
    let folder = root.join("xtask/guest");
    let mut files = vec![
        Addition::file("/guest/load", program)?,
        Addition::file("/guest/guest.sh", &root.join("store/kmod/tests/guest.sh"))?,
    ];
    files.extend(command_line_files(log)?);
    let packages = ARMS.iter().find(|(name, _)| *name == arm);
    let packages = packages.map_or(&[][..], |(_, packages)| packages);
    if !packages.is_empty() {
        let found = package_files(log, packages)?;
        if found.is_empty() {
            eprintln!("SKIP: {arm}: its package cannot be had");
            return Ok(Vec::new());
        }
        files.extend(found);
    }
    let set = |name: &str, value: String| (name.to_owned(), value);
    let boot = BootOptions {
        script: Some(vm::script(&folder.join("guard.sh"))?),
        load: false,
        files,
        variables: vec![
            set("ARM", arm.to_owned()),
            set("KINDS", options.kinds.join(" ")),
            set("ROUNDS", options.rounds.to_string()),
            set("SEED", options.seed.to_string()),
            set("LIMIT", LIMIT.to_string()),
        ],
        programs: vec!["chrt".to_owned()],
        memory: MEMORY,
        // What waits, waits for memory and not for others' programs.
        processors: 1,
        urgent: true,
        disks: vec![FILE],
        limit: Duration::from_secs(6 * 3600),
        ..BootOptions::default()
    };
    let runs = bench_runs::boot(kernel, &boot)?;
    Ok(runs.into_iter().filter(|run| run.arm == arm).collect())
}

/// A number that every run has.
fn value(run: &Run, name: &str) -> f64 {
    run.values.get(name).copied().unwrap_or(f64::NAN)
}

fn of_kind<'a>(runs: &'a [Run], arm: &str, kind: &str) -> Vec<&'a Run> {
    runs.iter()
        .filter(|run| run.arm == arm && run.part == kind)
        .collect()
}

/// The longest that the shell waited in a run: the middle of the runs, and the most.
fn waits(runs: &[&Run]) -> [f64; 2] {
    let mut waits: Vec<f64> = runs.iter().map(|run| value(run, "wait_ms")).collect();
    waits.sort_by(f64::total_cmp);
    [
        waits.get(waits.len() / 2).copied().unwrap_or(f64::NAN),
        waits.last().copied().unwrap_or(f64::NAN),
    ]
}

fn is_ended(run: &Run) -> bool {
    value(run, "ended") == 1.0
}

fn is_done(run: &Run) -> bool {
    value(run, "code") == 0.0
}

/// Of its processes the kernel killed one.
fn is_the_kernels(run: &Run) -> bool {
    value(run, "kernel_killed") > 0.0
}

fn has_lost(run: &Run) -> bool {
    value(run, "others_lost") != 0.0 || value(run, "watcher_lost") != 0.0
}

/// What is counted of a kind's runs.
type Counted = (&'static str, &'static str, fn(&Run) -> bool);

/// A row for each arm and kind: what is counted of its runs, and what the shell waited.
fn table(title: &str, runs: &[Run], arms: &[String], kinds: &[&str], counted: &[Counted]) -> Table {
    let mut table = Table::new(title)
        .column(Column::text("looked after by").key("arm"))
        .column(Column::text("kind"))
        .column(Column::count("runs"));
    for (name, key, _) in counted {
        table = table.column(Column::count(name).key(key));
    }
    table = table
        .column(Column::number("wait, s").key("wait_median_s"))
        .column(Column::number("at most").key("wait_max_s"))
        .column(Column::count("over 5 s").key("waits_long"));
    for arm in arms {
        for kind in kinds {
            let own = of_kind(runs, arm, kind);
            if own.is_empty() {
                continue;
            }
            let count = |holds: fn(&Run) -> bool| own.iter().filter(|run| holds(run)).count();
            let counts = counted
                .iter()
                .map(|(_, _, holds)| Cell::from(count(*holds) as u64));
            let waits = waits(&own).map(|ms| Cell::from(ms / 1000.0));
            let long = own.iter().filter(|run| value(run, "wait_ms") > WAIT_MAX);
            let long = std::iter::once(Cell::from(long.count() as u64));
            let first = cells![arm.clone(), *kind, own.len() as u64];
            table.row(first.into_iter().chain(counts).chain(waits).chain(long));
        }
    }
    table
}

fn runaway_table(runs: &[Run], arms: &[String]) -> Table {
    let counted: [Counted; 4] = [
        ("ended by it", "ended", |run| {
            is_ended(run) && !is_the_kernels(run)
        }),
        ("by the kernel", "kernel_ended", |run| {
            is_ended(run) && is_the_kernels(run)
        }),
        ("stayed", "stayed", |run| !is_ended(run)),
        ("others lost", "others_lost", has_lost),
    ];
    let mut table = table("Programs that run away", runs, arms, RUNAWAYS, &counted);
    table.note(format!(
        "Stayed: after {LIMIT} s. By the kernel: it killed one of its processes at least. Others \
         lost: something else was killed or ended. Wait: the longest that a shell had to wait in a \
         run for a program to start, the middle of the runs and the most; {:.0} s is asked for, of a \
         machine that is no guest: see slowness.",
        WAIT_MAX / 1000.0
    ));
    table
}

fn harmless_table(runs: &[Run], arms: &[String]) -> Table {
    let counted: [Counted; 4] = [
        ("done", "done", is_done),
        ("killed by the kernel", "kernel_killed", |run| {
            !is_done(run) && is_the_kernels(run)
        }),
        ("ended else", "ended_else", |run| {
            !is_done(run) && !is_the_kernels(run)
        }),
        ("others lost", "others_lost", has_lost),
    ];
    let title = "Programs that take much and do no harm";
    table(title, runs, arms, HARMLESS, &counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::words;

    fn run_of(text: &str) -> Run {
        Run::of_line(text).unwrap()
    }

    #[test]
    fn who_ended_a_program_is_counted() {
        let runs = [
            run_of(
                "zmeld fast-leak ended=1 kernel_killed=0 others_lost=0 watcher_lost=0 wait_ms=20",
            ),
            run_of(
                "zmeld fast-leak ended=1 kernel_killed=2 others_lost=0 watcher_lost=1 wait_ms=90",
            ),
            run_of(
                "zmeld fast-leak ended=0 kernel_killed=0 others_lost=1 watcher_lost=0 wait_ms=50",
            ),
        ];
        let rows = runaway_table(&runs, &["zmeld".to_owned()]).to_json_rows();
        assert_eq!(rows.len(), 1);
        for (key, expected) in [("ended", 1.0), ("kernel_ended", 1.0), ("stayed", 1.0)] {
            assert_eq!(rows[0][key], expected, "{key}");
        }
        assert_eq!(rows[0]["others_lost"], 2.0);
        assert_eq!(rows[0]["wait_median_s"], 0.05);
        assert_eq!(rows[0]["wait_max_s"], 0.09);
        assert_eq!(rows[0]["waits_long"], 0.0);
    }

    #[test]
    fn slowness_is_of_an_idle_guest_beside_this_machine() {
        let runs = [run_of("zmeld pace us=900"), run_of("kernel pace us=600")];
        let said = slowness(&runs, Some(200.0)).unwrap();
        assert!(
            said.contains("600 us") && said.ends_with("3.0 times"),
            "{said}"
        );
        assert_eq!(slowness(&[], Some(200.0)), None);
        assert_eq!(slowness(&runs, None), None);
    }

    #[test]
    fn what_was_not_done_was_ended_by_someone() {
        let runs = [
            run_of("kernel many code=0 kernel_killed=0 others_lost=0 watcher_lost=0 wait_ms=1"),
            run_of("kernel many code=137 kernel_killed=1 others_lost=0 watcher_lost=0 wait_ms=1"),
            run_of("kernel many code=143 kernel_killed=0 others_lost=0 watcher_lost=0 wait_ms=1"),
        ];
        let rows = harmless_table(&runs, &["kernel".to_owned()]).to_json_rows();
        for key in ["done", "kernel_killed", "ended_else"] {
            assert_eq!(rows[0][key], 1.0, "{key}");
        }
    }

    #[test]
    fn arguments_are_understood_or_refused() {
        let options = parse(&words("--arm zmeld --kind still --rounds 2")).unwrap();
        assert_eq!(options.arms, ["zmeld"]);
        assert_eq!(options.kinds, ["still"]);
        assert_eq!(parse(&[]).unwrap().arms.len(), ARMS.len());
        assert!(parse(&words("--arm nobody")).is_err());
        assert!(parse(&words("--rounds 0")).is_err());
    }
}
