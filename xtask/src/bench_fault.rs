//! The whole fault: a program that needs more memory than there is, with swap on zram
//! and on zmeld with each codec. How long its faults take, and how large it may be.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;
use zmeld_report::schema::Envelope;
use zmeld_report::{cells, Cell, Column, Document, Section, Style, Table};

use crate::arguments::Arguments;
use crate::bench_guest::{prepare, timed_setting};
use crate::bench_runs::{self, Run};
use crate::guest::Addition;
use crate::kernels::Kernel;
use crate::machine::BootOptions;
use crate::module_build;
use crate::pages;
use crate::process::Log;
use crate::vm;
use crate::workspace;

/// MiB of the guest where faults are timed.
const MEMORY: u64 = 256;
/// The same where programs grow until one does not end well, which takes time.
const MEMORY_LARGEST: u64 = 160;
/// What is needed where faults are timed, in percent of what is available.
const SIZE_PERCENT: usize = 150;
/// Pages that are touched at random, in each run.
const TOUCHES: usize = 40_000;
/// The same of each program that grows.
const TOUCHES_LARGEST: usize = 10_000;
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

struct Options {
    kernel: String,
    json: Option<PathBuf>,
    rounds: usize,
    only: Option<Part>,
}

/// What is measured; each has a guest of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Time,
    Largest,
}

impl Part {
    fn memory(self) -> u64 {
        match self {
            Part::Time => MEMORY,
            Part::Largest => MEMORY_LARGEST,
        }
    }

    fn touches(self) -> usize {
        match self {
            Part::Time => TOUCHES,
            Part::Largest => TOUCHES_LARGEST,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Part::Time => "time",
            Part::Largest => "largest",
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        kernel: "um".to_owned(),
        json: None,
        rounds: 3,
        only: None,
    };
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--kernel" => options.kernel = arguments.value()?.to_owned(),
            "--json" => options.json = Some(PathBuf::from(arguments.value()?)),
            "--rounds" => options.rounds = arguments.number()?,
            "--only" => {
                options.only = Some(match arguments.value()? {
                    "time" => Part::Time,
                    "largest" => Part::Largest,
                    other => bail!("there is no part {other:?}: time, largest"),
                });
            }
            other => bail!("there is no argument {other:?}"),
        }
    }
    ensure!(options.rounds > 0, "--rounds 0 measures nothing");
    Ok(options)
}

#[derive(Serialize)]
struct Body<'a> {
    kernel: &'a str,
    setting: &'a str,
    contents: &'a str,
    memory_mib: BTreeMap<&'static str, u64>,
    tables: BTreeMap<&'static str, Vec<serde_json::Value>>,
    runs: &'a [Run],
}

/// Runs `bench fault`.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let log = Log::create(&workspace::work_folder("logs")?.join("bench-fault.log"))?;
    let (kernel, module) = match prepare(&log, &options.kernel)? {
        Ok(ready) => ready,
        Err(code) => return Ok(code),
    };
    let contents = pages::held_out(CONTENTS)?
        .context("there are no pages to measure with: cargo xtask pages keeps some")?;
    let disk = workspace::work_folder("bench-fault")?.join("contents");
    fs::write(&disk, &contents.bytes).with_context(|| workspace::shown(&disk))?;
    let tests = workspace::root().join("store/kmod/tests");
    let program = module_build::guest_program(&log, kernel.recipe, &tests.join("footprint.c"))?;
    let guest = Guest {
        kernel: &kernel,
        module,
        program,
        disk,
    };
    let setting = timed_setting(&kernel);
    let mut runs = Vec::new();
    for part in [Part::Time, Part::Largest] {
        if options.only.is_none_or(|only| only == part) {
            runs.extend(guest.run(part, options.rounds)?);
        }
    }
    let time = time_table(&runs);
    let largest = largest_table(&runs);
    let mut document = Document::new("Swap on zram and on zmeld, short of memory")
        .provenance("kernel", &kernel.release)
        .provenance("bed", &setting)
        .provenance("contents", &contents.about)
        .provenance(
            "memory",
            format!("{MEMORY} MiB for times, {MEMORY_LARGEST} MiB for the largest program"),
        );
    for table in [&time, &largest] {
        if !table.is_empty() {
            document = document.section(Section::new("").table(table.clone()));
        }
    }
    print!("{}", document.to_text(&Style::plain(80)));
    let Some(path) = &options.json else {
        return Ok(ExitCode::SUCCESS);
    };
    let body = Body {
        kernel: &kernel.release,
        setting: &setting,
        contents: &contents.about,
        memory_mib: [Part::Time, Part::Largest]
            .map(|part| (part.name(), part.memory()))
            .into(),
        tables: [("time", &time), ("largest", &largest)]
            .map(|(key, table)| (key, table.to_json_rows()))
            .into(),
        runs: &runs,
    };
    let envelope = Envelope::new("zmeld.bench.fault", 1, env!("CARGO_PKG_VERSION"), body);
    fs::write(path, envelope.to_text())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// What is the same for all guests.
struct Guest<'a> {
    kernel: &'a Kernel,
    module: PathBuf,
    program: PathBuf,
    disk: PathBuf,
}

impl Guest<'_> {
    fn run(&self, part: Part, rounds: usize) -> Result<Vec<Run>> {
        let script = workspace::root().join("store/kmod/footprint.sh");
        let set = |name: &str, value: String| (name.to_owned(), value);
        let boot = BootOptions {
            script: Some(vm::script(&script)?),
            module: Some(Addition::module(&self.module)?),
            load: false,
            files: vec![Addition::file("/guest/footprint", &self.program)?],
            variables: vec![
                set("PART", part.name().to_owned()),
                set("ARMS", ARMS.join(" ")),
                set("ROUNDS", rounds.to_string()),
                set("SIZE", SIZE_PERCENT.to_string()),
                set("TOUCHES", part.touches().to_string()),
                set("STEP", STEP.to_string()),
                set("LIMIT", RUN_LIMIT.to_string()),
            ],
            memory: part.memory(),
            // On one, what reclaims beside the program is in the program's time, too.
            processors: if part == Part::Time { 1 } else { 2 },
            contents: vec![self.disk.clone()],
            // What is killed for want of memory takes long, and its times say nothing.
            urgent: part == Part::Time,
            limit: Duration::from_secs(2 * 3600),
            ..BootOptions::default()
        };
        bench_runs::boot(self.kernel, &boot)
    }
}

/// The middle of the rounds; none where a round had no such number.
fn median(runs: &[&Run], name: &str) -> Option<f64> {
    let values = runs.iter().map(|run| run.values.get(name).copied());
    let mut values: Vec<f64> = values.collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn of_arm<'a>(runs: &'a [Run], part: Part, arm: &str) -> Vec<&'a Run> {
    runs.iter()
        .filter(|run| run.part == part.name() && run.arm == arm)
        .collect()
}

/// A driver, and its codec with its level.
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
        let own = of_arm(runs, Part::Time, arm);
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
        TOUCHES
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
    let largest = |arm: &str| median(&of_arm(runs, Part::Largest, arm), "mib");
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
        "By bisection, to {STEP} MiB; it fills its memory and touches {TOUCHES_LARGEST} pages at random, in \
         {RUN_LIMIT} s at most. Beyond RAM: more than without swap. \
         This part runs at no real-time priority."
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::words;

    #[test]
    fn what_is_beyond_ram_is_compared() {
        let line = |arm: &str, mib: u32| format!("{arm} largest mib={mib}");
        let runs: Vec<Run> = [("none", 100), (REFERENCE, 300), ("zmeld:zword", 400)]
            .iter()
            .filter_map(|(arm, mib)| Run::of_line(&line(arm, *mib)))
            .collect();
        let rows = largest_table(&runs).to_json_rows();
        assert_eq!(rows[2]["beyond_mib"], 300.0);
        assert_eq!(rows[2]["of_reference"], 1.5);
    }

    #[test]
    fn a_round_that_was_killed_leaves_no_median() {
        let runs: Vec<Run> = ["a time mean_ns=1", "a time killed=1"]
            .iter()
            .filter_map(|line| Run::of_line(line))
            .collect();
        let all: Vec<&Run> = runs.iter().collect();
        assert_eq!(median(&all, "mean_ns"), None);
        assert_eq!(median(&all[..1], "mean_ns"), Some(1.0));
    }

    #[test]
    fn arguments_are_understood_or_refused() {
        let options = parse(&words("--kernel 6.12 --only largest --rounds 2")).unwrap();
        assert_eq!(options.kernel, "6.12");
        assert_eq!(options.only, Some(Part::Largest));
        assert!(parse(&words("--only all")).is_err());
        assert!(parse(&words("--rounds 0")).is_err());
    }
}
