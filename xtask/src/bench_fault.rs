//! The whole fault: a program that needs more memory than there is, with swap on zram and on
//! zmeld with each codec, or through zswap. How long its faults take, and how large it may be.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use zmeld_report::{Cell, Column, Table};

use crate::bench_runs::{self, median, of, timed_setting, BenchArguments, Run};
use crate::guest::Addition;
use crate::kernel_patch;
use crate::machine::BootOptions;
use crate::module_build::{self, Flavour};
use crate::pages;
use crate::process::Log;
use crate::recipes::Kernel;
use crate::vm;
use crate::workspace;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    bench: BenchArguments,
    /// Rounds: 3 of devices, 5 of zswap
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// One part alone
    #[arg(long, value_parser = [TIME.name, PRESSURE.name, LARGEST.name])]
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
/// The same with a pool of a twentieth of memory, from which the shrinker writes pages back.
const PRESSURE: Part = Part {
    name: "pressure",
    ..TIME
};
/// Programs grow until one does not end well, which takes time.
const LARGEST: Part = Part {
    name: "largest",
    memory: 160,
    processors: 2,
    touches: 10_000,
};

struct Subject {
    name: &'static str,
    title: &'static str,
    module: Flavour,
    /// Without swap, then what others are compared with: `DRIVER:CODEC[:LEVEL]`, or
    /// `zswap:CODEC[:checked]`.
    variants: &'static [&'static str],
    /// MiB of the disks behind them.
    disks: &'static [u64],
    parts: &'static [Part],
    rounds: u64,
}

const DEVICES: Subject = Subject {
    name: "fault",
    title: "Swap on zram and on zmeld, short of memory",
    module: Flavour::Release,
    variants: &[
        NONE,
        "zram:lzo-rle",
        "zram:lz4",
        "zram:zstd",
        "zmeld:lzo-rle",
        "zmeld:lz4",
        "zmeld:zstd",
        "zmeld:zword",
        "zmeld:zword:2",
    ],
    disks: &[],
    parts: &[TIME, LARGEST],
    rounds: 3,
};

/// zword does not check its writes but where the variant says so.
const ZSWAP: Subject = Subject {
    name: "zswap",
    title: "Swap through zswap, short of memory",
    module: Flavour::Codec,
    variants: &[
        NONE,
        "zswap:lzo-rle",
        ZSWAP_LZ4,
        ZSWAP_ZSTD,
        ZSWAP_KEPT,
        ZSWAP_ZWORD,
        ZSWAP_CHECKED,
        "zswap:zword-dense",
    ],
    disks: &[1536],
    parts: &[TIME, PRESSURE, LARGEST],
    rounds: 5,
};
const ZSWAP_LZ4: &str = "zswap:lz4";
const ZSWAP_ZSTD: &str = "zswap:zstd";
/// zstd of the kernel's own sources with the patch of `cargo xtask kernel-patch zstd`.
const ZSWAP_KEPT: &str = "zswap:zstd-kept";
const ZSWAP_ZWORD: &str = "zswap:zword";
const ZSWAP_CHECKED: &str = "zswap:zword:checked";

/// Limits of one variant by another: the figure, its name in the guest's lines, the part, the two
/// variants, and the largest ratio.
#[rustfmt::skip]
const BARS: &[(&str, &str, Part, &str, &str, f64)] = &[
    ("pool bytes a page", "page_bytes", TIME, ZSWAP_ZWORD, ZSWAP_ZSTD, 0.90),
    ("fill", "fill_s", TIME, ZSWAP_ZWORD, ZSWAP_ZSTD, 0.85),
    ("fill, writes checked", "fill_s", TIME, ZSWAP_CHECKED, ZSWAP_ZSTD, 1.10),
    ("mean fault", "mean_ns", TIME, ZSWAP_ZWORD, ZSWAP_ZSTD, 0.75),
    ("pool bytes a page", "page_bytes", TIME, ZSWAP_ZWORD, ZSWAP_KEPT, 0.90),
    ("fill, writes checked", "fill_s", TIME, ZSWAP_CHECKED, ZSWAP_KEPT, 1.0),
    ("mean fault", "mean_ns", TIME, ZSWAP_ZWORD, ZSWAP_KEPT, 1.0),
    ("pool bytes a page", "page_bytes", TIME, ZSWAP_ZWORD, ZSWAP_LZ4, 0.62),
    ("mean fault", "mean_ns", TIME, ZSWAP_ZWORD, ZSWAP_LZ4, 1.15),
    ("99.9th, written back", "p999_ns", PRESSURE, ZSWAP_ZWORD, ZSWAP_ZSTD, 1.0),
];

/// Memory needed where faults are timed, in percent of what is available.
const SIZE_PERCENT: usize = 150;
/// To how many MiB the largest program is found.
const STEP: usize = 4;
/// Seconds after which a program counts as one that did not end.
const RUN_LIMIT: usize = 180;
/// Pages of the disk that the program has its contents from.
const CONTENTS: usize = 61_440;
const NONE: &str = "none";

pub fn devices(options: &Options) -> Result<ExitCode> {
    run(options, &DEVICES)
}

pub fn zswap(options: &Options) -> Result<ExitCode> {
    run(options, &ZSWAP)
}

fn run(options: &Options, subject: &Subject) -> Result<ExitCode> {
    let log = Log::named(&format!("bench-{}", subject.name))?;
    let kernel = options.bench.kernel(&log)?;
    let module = module_build::build(&log, &kernel, subject.module)?;
    // The first is to have none.
    let mut variants = subject.variants.to_vec();
    let mut files = Vec::new();
    if variants.contains(&ZSWAP_KEPT) {
        match kernel_patch::kept_zstd(&log, &kernel)? {
            Some(module) => {
                let place = format!("/usr/lib/modules/{}/updates/zstd-kept.ko", kernel.release);
                files.push(Addition::file(&place, &module)?);
            }
            None => variants.retain(|it| *it != ZSWAP_KEPT),
        }
    }
    let bed = Bed {
        kernel: &kernel,
        options,
        subject,
        variants,
        module: Addition::module(&module)?,
        files,
        program: module_build::guest_program(&log, kernel.recipe, &tests().join("footprint.c"))?,
    };
    let setting = timed_setting(&kernel);
    let contents = pages::held_out(CONTENTS)?.context(pages::NONE)?;
    let mut runs = Vec::new();
    for part in subject.parts {
        if options.only.as_ref().is_none_or(|only| only == part.name) {
            runs.extend(bed.boot(part, &contents.bytes)?);
        }
    }
    let mut tables = vec![
        time_table(&runs, subject, &TIME),
        time_table(&runs, subject, &PRESSURE),
        largest_table(&runs, subject),
        bar_table(&runs),
    ];
    tables.retain(|table| !table.is_empty());
    let (time, largest) = (TIME.memory, LARGEST.memory);
    let memory = format!("{time} MiB for times, {largest} MiB for the largest program");
    let provenance = [
        ("kernel", kernel.release.as_str()),
        ("bed", &setting),
        ("contents", &contents.about),
        ("memory", &memory),
    ];
    Ok(bench_runs::show(subject.title, &provenance, &tables))
}

fn tests() -> PathBuf {
    workspace::root().join("store/kmod/tests")
}

/// What all boots have.
struct Bed<'a> {
    kernel: &'a Kernel,
    options: &'a Options,
    subject: &'a Subject,
    variants: Vec<&'static str>,
    module: Addition,
    files: Vec<Addition>,
    program: PathBuf,
}

impl Bed<'_> {
    fn boot(&self, part: &Part, contents: &[u8]) -> Result<Vec<Run>> {
        let disk = workspace::work_folder("bench-fault")?.join("contents");
        fs::write(&disk, contents).with_context(|| workspace::shown(&disk))?;
        let rounds = self.options.rounds.unwrap_or(self.subject.rounds);
        let mut files = vec![Addition::file("/guest/footprint", &self.program)?];
        files.extend(self.files.iter().cloned());
        let boot = BootOptions {
            script: Some(vm::script(&tests().join("../footprint.sh"))?),
            module: Some(self.module.clone()),
            load: false,
            files,
            variables: vec![
                ("PART", part.name.to_owned()),
                ("VARIANTS", self.variants.join(" ")),
                ("ROUNDS", rounds.to_string()),
                ("SIZE", SIZE_PERCENT.to_string()),
                ("TOUCHES", part.touches.to_string()),
                ("STEP", STEP.to_string()),
                ("LIMIT", RUN_LIMIT.to_string()),
            ],
            memory: part.memory,
            processors: part.processors,
            contents: vec![disk],
            disks: self.subject.disks.to_vec(),
            // Programs killed for want of memory take long, and their times say nothing.
            urgent: part.name != LARGEST.name,
            limit: Duration::from_secs(2 * 3600),
            ..BootOptions::default()
        };
        Ok(bench_runs::runs(&bench_runs::boot(self.kernel, &boot)?))
    }
}

fn cells_of(variant: &str) -> [Cell; 2] {
    let (driver, codec) = variant.split_once(':').unwrap_or((variant, ""));
    let codec = codec.replace(":checked", ", checked");
    [driver.into(), codec.replace(':', " level ").into()]
}

fn time_table(runs: &[Run], subject: &Subject, part: &Part) -> Table {
    let title = match part.name == PRESSURE.name {
        true => "The same with a pool of a twentieth of memory, written back to the disk",
        false => "A program that needs more memory than there is",
    };
    let found = subject.variants.iter();
    let found = found.map(|it| (*it, of(runs, it, part.name)));
    let found = found.filter(|(_, own)| !own.is_empty());
    let mut table = zmeld_report::table!(title, for (variant, own) in found,
        where {
            let [driver, codec] = cells_of(variant);
            let number = |name: &str| median(&own, name).map_or(Cell::from("-"), Cell::from);
        }
        Column::text("swap") => driver,
        Column::text("codec") => codec,
        Column::number("fill, s") => number("fill_s"),
        Column::number("touch, s") => number("touch_s"),
        Column::count("faults") => number("faults"),
        Column::nanoseconds("mean") => number("mean_ns"),
        Column::nanoseconds("99th") => number("p99_ns"),
        Column::nanoseconds("99.9th") => number("p999_ns"),
        Column::number("B/page") => number("page_bytes"),
    );
    let all: Vec<&Run> = runs.iter().filter(|run| run.part == part.name).collect();
    table.note(format!(
        "Medians of rounds. A fault: from the touch of a page that is not in memory to its first \
         byte, making room included; of new memory, without swap, it takes {:.0} ns here. B/page: \
         bytes of the pool by the pages in it, at the end. The program needs {} MiB, \
         {} pages are touched at random, one in four is changed.",
        median(&all, "fresh_ns").unwrap_or(f64::NAN),
        median(&all, "size_mib").unwrap_or(f64::NAN),
        part.touches
    ));
    table
}

fn largest_table(runs: &[Run], subject: &Subject) -> Table {
    let largest = |variant: &str| median(&of(runs, variant, "largest"), "mib");
    let beyond = |variant: &str| Some(largest(variant)? - largest(NONE)?);
    let found = subject.variants.iter();
    let found = found.filter_map(|&it| Some((it, largest(it)?, beyond(it)?)));
    let mut table = zmeld_report::table!("The largest program that ends well", for (variant, mib, more) in found,
        where {
            let [driver, codec] = cells_of(variant);
        }
        Column::text("swap") => driver,
        Column::text("codec") => codec,
        Column::number("MiB") => mib,
        Column::number("beyond RAM, MiB") => more,
        Column::ratio("of the first codec") =>
            beyond(subject.variants[1]).map_or(f64::NAN, |reference| more / reference),
    );
    table.note(format!(
        "By bisection, to {STEP} MiB; it fills its memory and touches {} pages at random, in \
         {RUN_LIMIT} s at most. Beyond RAM: more than without swap. \
         This part runs at no real-time priority.",
        LARGEST.touches
    ));
    table
}

/// Each bar with the ratio of every round: the middle, and the least and the most.
fn bar_table(runs: &[Run]) -> Table {
    let bars = BARS
        .iter()
        .map(|(what, figure, part, own, against, at_most)| {
            let (own, other) = (of(runs, own, part.name), of(runs, against, part.name));
            let pairs = own.iter().zip(&other);
            let ratios = pairs.map(|(own, other)| own.value(figure) / other.value(figure));
            let mut ratios = Vec::from_iter(ratios);
            ratios.sort_by(f64::total_cmp);
            (*what, *against, *at_most, ratios)
        });
    let mut table = zmeld_report::table!("zword beside others, round by round",
        for (what, against, at_most, ratios) in bars.filter(|(.., ratios)| !ratios.is_empty()),
        where {
            let [_, codec] = cells_of(against);
            let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
            let verdict = match (most <= at_most, least > at_most) {
                (true, _) => "met",
                (_, true) => "missed",
                _ => "undecided",
            };
        }
        Column::text("what") => what,
        Column::text("against") => codec,
        Column::number("at most") => at_most,
        Column::ratio("ratio") => ratios[ratios.len() / 2],
        Column::ratio("least") => least,
        Column::ratio("most") => most,
        Column::text("") => verdict,
    );
    let note =
        "The middle of the rounds, the least and the most: with five rounds the median lies \
                between those in 15 of 16 cases. Undecided: the bar lies between them, too.";
    table.note(note);
    table
}
