//! The whole fault: a program that needs more memory than there is, with swap on zram
//! and on zmeld with each codec. How long its faults take, and how large it may be.

use std::fs;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use zmeld_report::{cells, Cell, Column, Table};

use crate::bench_runs::{self, median, of, timed_setting, BenchArguments, Run};
use crate::guest::Addition;
use crate::machine::BootOptions;
use crate::module_build::{self, Flavour};
use crate::pages;
use crate::process::Log;
use crate::vm;
use crate::workspace;

/// How long the faults of a program that needs more memory than there is take and how large
/// it may be, with swap on zram and on zmeld with each codec, on the same kept pages
#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    bench: BenchArguments,
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    #[arg(long, value_parser = [TIME.name, LARGEST.name])]
    only: Option<String>,
}

struct Part {
    name: &'static str,
    memory: u64,
    processors: u32,
    /// Pages that are touched at random, in each run.
    touches: usize,
}

/// On one processor, what reclaims beside the program is in the program's time, too.
const TIME: Part = Part {
    name: "time",
    memory: 256,
    processors: 1,
    touches: 40_000,
};
/// Programs grow until one does not end well, which takes time.
const LARGEST: Part = Part {
    name: "largest",
    memory: 160,
    processors: 2,
    touches: 10_000,
};

/// What is needed where faults are timed, in percent of what is available.
const SIZE_PERCENT: usize = 150;
/// To how many MiB the largest program is found.
const STEP: usize = 4;
/// Seconds after which a program counts as one that did not end.
const RUN_LIMIT: usize = 180;
/// Pages of the disk that the program has its contents from.
const CONTENTS: usize = 61_440;
/// Without swap, with zram's codecs, with ours: `DRIVER:CODEC[:LEVEL]`.
const ARMS: &[&str] = &[
    NONE,
    "zram:lzo-rle",
    "zram:lz4",
    "zram:zstd",
    "zmeld:lzo-rle",
    "zmeld:lz4",
    "zmeld:zstd",
    "zmeld:zword",
    "zmeld:zword:2",
];
const NONE: &str = "none";
/// What others are compared with.
const REFERENCE: &str = "zram:lzo-rle";

pub fn run(options: &Options) -> Result<ExitCode> {
    let log = Log::named("bench-fault")?;
    let kernel = options.bench.kernel(&log)?;
    let module = module_build::build(&log, &kernel, Flavour::Release)?;
    let contents = pages::held_out(CONTENTS)?.context(pages::NONE)?;
    let disk = workspace::work_folder("bench-fault")?.join("contents");
    fs::write(&disk, &contents.bytes).with_context(|| workspace::shown(&disk))?;
    let tests = workspace::root().join("store/kmod/tests");
    let program = module_build::guest_program(&log, kernel.recipe, &tests.join("footprint.c"))?;
    let setting = timed_setting(&kernel);
    let mut runs = Vec::new();
    for part in [TIME, LARGEST] {
        if options.only.as_ref().is_some_and(|only| only != part.name) {
            continue;
        }
        let boot = BootOptions {
            script: Some(vm::script(&tests.join("../footprint.sh"))?),
            module: Some(Addition::module(&module)?),
            load: false,
            files: vec![Addition::file("/guest/footprint", &program)?],
            variables: vec![
                ("PART", part.name.to_owned()),
                ("ARMS", ARMS.join(" ")),
                ("ROUNDS", options.rounds.to_string()),
                ("SIZE", SIZE_PERCENT.to_string()),
                ("TOUCHES", part.touches.to_string()),
                ("STEP", STEP.to_string()),
                ("LIMIT", RUN_LIMIT.to_string()),
            ],
            memory: part.memory,
            processors: part.processors,
            contents: vec![disk.clone()],
            // What is killed for want of memory takes long, and its times say nothing.
            urgent: part.name == TIME.name,
            limit: Duration::from_secs(2 * 3600),
            ..BootOptions::default()
        };
        runs.extend(bench_runs::runs(&bench_runs::boot(&kernel, &boot)?));
    }
    let tables = [time_table(&runs), largest_table(&runs)];
    let (time, largest) = (TIME.memory, LARGEST.memory);
    let memory = format!("{time} MiB for times, {largest} MiB for the largest program");
    let provenance = [
        ("kernel", kernel.release.as_str()),
        ("bed", &setting),
        ("contents", &contents.about),
        ("memory", &memory),
    ];
    let title = "Swap on zram and on zmeld, short of memory";
    Ok(bench_runs::show(title, &provenance, &tables))
}

fn cells_of(arm: &str) -> [Cell; 2] {
    let (driver, codec) = arm.split_once(':').unwrap_or((arm, ""));
    [driver.into(), codec.replace(':', " level ").into()]
}

fn time_table(runs: &[Run]) -> Table {
    let mut table = Table::new("A program that needs more memory than there is")
        .column(Column::text("swap"))
        .column(Column::text("codec"))
        .column(Column::number("fill, s").key("fill_s"))
        .column(Column::number("touch, s").key("touch_s"))
        .column(Column::count("faults"))
        .column(Column::nanoseconds("mean").key("fault_mean_ns"))
        .column(Column::nanoseconds("99th").key("fault_p99_ns"))
        .column(Column::count("held").key("held_pages"))
        .column(Column::bytes("pool"));
    for arm in ARMS {
        let own = of(runs, arm, "time");
        if own.is_empty() {
            continue;
        }
        let number = |name: &str| median(&own, name).map_or(Cell::from("-"), Cell::from);
        table.row(cells_of(arm).into_iter().chain([
            number("fill_s"),
            number("touch_s"),
            number("faults"),
            number("mean_ns"),
            number("p99_ns"),
            number("held_pages"),
            number("pool_bytes"),
        ]));
    }
    let all: Vec<&Run> = runs.iter().filter(|run| run.part == "time").collect();
    table.note(format!(
        "Medians of rounds. A fault: from the touch of a page that is not in memory to its first \
         byte, making room included; of new memory, without swap, it takes {:.0} ns here. Held: \
         pages on the device at the end, and what its pool takes. The program needs {} MiB, \
         {} pages are touched at random, one in four is changed.",
        median(&all, "fresh_ns").unwrap_or(f64::NAN),
        median(&all, "size_mib").unwrap_or(f64::NAN),
        TIME.touches
    ));
    table
}

fn largest_table(runs: &[Run]) -> Table {
    let mut table = Table::new("The largest program that ends well")
        .column(Column::text("swap"))
        .column(Column::text("codec"))
        .column(Column::number("MiB").key("largest_mib"))
        .column(Column::number("beyond RAM, MiB").key("beyond_mib"))
        .column(Column::ratio("of zram's lzo-rle").key("of_reference"));
    let largest = |arm: &str| median(&of(runs, arm, "largest"), "mib");
    let beyond = |arm: &str| Some(largest(arm)? - largest(NONE)?);
    for arm in ARMS {
        let (Some(mib), Some(more)) = (largest(arm), beyond(arm)) else {
            continue;
        };
        let times = beyond(REFERENCE).map_or(f64::NAN, |reference| more / reference);
        let [driver, codec] = cells_of(arm);
        table.row(cells![driver, codec, mib, more, times]);
    }
    table.note(format!(
        "By bisection, to {STEP} MiB; it fills its memory and touches {} pages at random, in \
         {RUN_LIMIT} s at most. Beyond RAM: more than without swap. \
         This part runs at no real-time priority.",
        LARGEST.touches
    ));
    table
}
