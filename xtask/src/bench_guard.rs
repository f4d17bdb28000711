//! Machines that run out of memory: programs that run away beside others that only take much,
//! looked after by the kernel alone, by earlyoom, by systemd-oomd, by nohang and by zmeld's guard,
//! each in guests of its own with the same seeds.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::builder::PossibleValuesParser;
use zmeld_report::{cells, Cell, Column, Table};

use crate::bench_runs::{self, of, timed_setting, BenchArguments, Run};
use crate::guest::Addition;
use crate::kernel_tests::{command_line_files, package_files};
use crate::machine::BootOptions;
use crate::module_build;
use crate::process::Log;
use crate::recipes::Kernel;
use crate::vm;
use crate::workspace;

/// Programs that run away and others that only take much, in guests that are looked after by
/// the kernel alone, earlyoom, systemd-oomd, nohang and zmeld's guard
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    bench: BenchArguments,
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only this one; may be repeated
    #[arg(long = "variant", default_values_t = variants(), hide_default_value = true, value_parser = PossibleValuesParser::new(variants()))]
    variants: Vec<String>,
    /// Only this kind of program; may be repeated
    #[arg(long = "kind", default_values_t = kinds(), hide_default_value = true, value_parser = PossibleValuesParser::new(kinds()))]
    kinds: Vec<String>,
}

fn variants() -> Vec<String> {
    let names = VARIANTS.iter().map(|(name, _)| (*name).to_owned());
    names.collect()
}

fn kinds() -> Vec<String> {
    let kinds = RUNAWAYS.iter().chain(HARMLESS).chain(SITUATIONS);
    kinds.map(|name| (*name).to_owned()).collect()
}

/// MiB of a guest: of the smallest machines that one can rent.
const MEMORY: u64 = 512;
/// MiB of the file that is read again and again: more than there is memory.
const FILE: u64 = 768;
/// Seconds after which what did not end is ended.
const LIMIT: u64 = 90;
/// Longest wait of a shell in nine of ten runs, in ms.
const WAIT_MAX: f64 = 1000.0;
/// Guards of the machine, and the packages that have them.
const VARIANTS: &[(&str, &[&str])] = &[
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
    "libffi8",
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
const HARMLESS: &[&str] = &[
    "still", "sawtooth", "many", "make", "jvm", "reader", "random", "swapped",
];
/// Ordinary situations in which a machine runs out of memory, in a script of their own.
const SITUATIONS: &[&str] = &[
    "terminal", "session", "rests", "service", "unnamed", "compiler", "together", "new", "pod",
];
/// MiB of a guest for those.
const SITUATION_MEMORY: u64 = 1000;

pub fn run(options: &Options) -> Result<ExitCode> {
    let log = Log::named("bench-guard")?;
    let kernel = options.bench.kernel(&log)?;
    let setting = timed_setting(&kernel);
    let source = workspace::root().join("xtask/guest/load.c");
    let program = module_build::guest_program(&log, kernel.recipe, &source)?;
    let mut runs = Vec::new();
    for variant in &options.variants {
        for is_situation in [false, true] {
            runs.extend(guest(
                &log,
                &kernel,
                options,
                variant,
                is_situation,
                &program,
            )?);
        }
    }
    let tables = [
        runaway_table(&runs, &options.variants),
        situation_table(&runs, &options.variants),
        harmless_table(&runs, &options.variants),
    ];
    let memory = format!("{MEMORY} MiB, one processor, zram with lz4 of 60 %");
    let seeds = format!("from {}", options.seed);
    let provenance = [
        ("kernel", kernel.release.as_str()),
        ("bed", &setting),
        ("memory", &memory),
        ("seeds", &seeds),
    ];
    let title = "Programs that run away, and others";
    Ok(bench_runs::show(title, &provenance, &tables))
}

fn guest(
    log: &Log,
    kernel: &Kernel,
    options: &Options,
    variant: &str,
    is_situation: bool,
    program: &Path,
) -> Result<Vec<Run>> {
    let own = |kind: &&String| SITUATIONS.contains(&kind.as_str()) == is_situation;
    let kinds: Vec<&str> = options
        .kinds
        .iter()
        .filter(own)
        .map(String::as_str)
        .collect();
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let root = workspace::root();
    let script = root.join(match is_situation {
        true => "crates/zmeld-swap/tests/guest/guard-situations.sh",
        false => "xtask/guest/guard.sh",
    });
    let mut files = vec![
        Addition::file("/guest/load", program)?,
        Addition::file("/guest/guest.sh", &root.join("store/kmod/tests/guest.sh"))?,
    ];
    files.extend(command_line_files(log)?);
    let packages = VARIANTS.iter().find(|(name, _)| *name == variant);
    let packages = packages.map_or(&[][..], |(_, packages)| packages);
    if !packages.is_empty() {
        let found = package_files(log, packages)?;
        if found.is_empty() {
            eprintln!("SKIP: {variant}: its package cannot be had");
            return Ok(Vec::new());
        }
        files.extend(found);
    }
    let boot = BootOptions {
        script: Some(vm::script(&script)?),
        load: false,
        files,
        variables: vec![
            ("VARIANT", variant.to_owned()),
            ("KINDS", kinds.join(" ")),
            ("ROUNDS", options.rounds.to_string()),
            ("SEED", options.seed.to_string()),
            ("LIMIT", LIMIT.to_string()),
        ],
        programs: vec!["chrt".to_owned()],
        memory: if is_situation {
            SITUATION_MEMORY
        } else {
            MEMORY
        },
        // A wait is for memory and not for others' programs.
        processors: 1,
        urgent: true,
        disks: vec![FILE],
        limit: Duration::from_secs(6 * 3600),
        ..BootOptions::default()
    };
    let mut runs = bench_runs::runs(&bench_runs::boot(kernel, &boot)?);
    runs.retain(|run| run.variant == variant);
    Ok(runs)
}

/// The longest that the shell waited in a run: the middle of the runs, and the most.
fn waits(runs: &[&Run]) -> [f64; 2] {
    let mut waits: Vec<f64> = runs.iter().map(|run| run.value("wait_ms")).collect();
    waits.sort_by(f64::total_cmp);
    [
        waits.get(waits.len() / 2).copied().unwrap_or(f64::NAN),
        waits.last().copied().unwrap_or(f64::NAN),
    ]
}

fn has_lost(run: &Run) -> bool {
    run.value("others_lost") != 0.0 || run.value("watcher_lost") != 0.0
}

/// A count over a kind's runs.
type Counted = (&'static str, fn(&Run) -> bool);

/// A row for each variant and kind: what is counted of its runs, and what the shell waited.
fn table(title: &str, runs: &[Run], by: &[String], kinds: &[&str], counted: &[Counted]) -> Table {
    let mut table = Table::new(title)
        .column(Column::text("looked after by"))
        .column(Column::text("kind"))
        .column(Column::count("runs"));
    for (name, _) in counted {
        table = table.column(Column::count(name));
    }
    table = table
        .column(Column::number("wait, s"))
        .column(Column::number("at most"))
        .column(Column::count("over 1 s"));
    for variant in by {
        for kind in kinds {
            let own = of(runs, variant, kind);
            if own.is_empty() {
                continue;
            }
            let count = |holds: fn(&Run) -> bool| own.iter().filter(|run| holds(run)).count();
            let counts = counted
                .iter()
                .map(|(_, holds)| Cell::from(count(*holds) as u64));
            let waits = waits(&own).map(|ms| Cell::from(ms / 1000.0));
            let long = own.iter().filter(|run| run.value("wait_ms") > WAIT_MAX);
            let long = std::iter::once(Cell::from(long.count() as u64));
            let first = cells![variant.clone(), *kind, own.len() as u64];
            table.row(first.into_iter().chain(counts).chain(waits).chain(long));
        }
    }
    table
}

fn runaway_table(runs: &[Run], variants: &[String]) -> Table {
    let counted: [Counted; 4] = [
        ("ended by it", |run| {
            run.value("ended") == 1.0 && run.value("kernel_killed") == 0.0
        }),
        ("by the kernel", |run| {
            run.value("ended") == 1.0 && run.value("kernel_killed") > 0.0
        }),
        ("stayed", |run| run.value("ended") != 1.0),
        ("others lost", has_lost),
    ];
    let mut table = table("Programs that run away", runs, variants, RUNAWAYS, &counted);
    table.note(format!(
        "Stayed: after {LIMIT} s. By the kernel: it killed one of its processes at least. Others \
         lost: something else was killed or ended. Wait: the longest that a shell had to wait in a \
         run for a program to start, the middle of the runs and the most; {:.0} s is asked for in \
         nine of ten.",
        WAIT_MAX / 1000.0
    ));
    table
}

fn situation_table(runs: &[Run], variants: &[String]) -> Table {
    let counted: [Counted; 4] = [
        ("ended by it", |run| {
            run.value("ended") == 1.0 && run.value("kernel_killed") == 0.0
        }),
        ("the kernel came", |run| run.value("kernel_killed") > 0.0),
        ("stayed", |run| run.value("ended") != 1.0),
        ("bystanders lost", has_lost),
    ];
    let title = "Ordinary situations in which a machine runs out of memory";
    let mut table = table(title, runs, variants, SITUATIONS, &counted);
    table.note(
        "In `unnamed` the rule leaves the owner of what runs away out: the guard ends nothing and \
         says whose it is."
            .to_owned(),
    );
    table
}

fn harmless_table(runs: &[Run], variants: &[String]) -> Table {
    let counted: [Counted; 4] = [
        ("done", |run| run.value("code") == 0.0),
        ("killed by the kernel", |run| {
            run.value("code") != 0.0 && run.value("kernel_killed") > 0.0
        }),
        ("ended else", |run| {
            run.value("code") != 0.0 && run.value("kernel_killed") == 0.0
        }),
        ("others lost", has_lost),
    ];
    let title = "Programs that take much and do no harm";
    table(title, runs, variants, HARMLESS, &counted)
}
