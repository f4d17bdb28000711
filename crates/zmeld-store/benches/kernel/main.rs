//! The kernel's block devices, measured: zmeld.ko beside the same kernel's own
//! zram, in one boot, on the same pages. `cargo xtask bench kernel` boots a
//! kernel that has both and runs this in it; on a machine that has both modules
//! it can be run as it is, as root.
//!
//! Tables go to standard output, progress to standard error. Nothing here fails for being
//! slow, but a wrong byte ends it.

mod codecs;
mod device;
mod ring;
mod work;

#[path = "../common/command.rs"]
mod command;
#[path = "../common/input.rs"]
mod input;
#[path = "../common/machine.rs"]
#[allow(dead_code)]
mod machine;
#[path = "../common/output.rs"]
mod output;
#[path = "../common/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use zmeld_report::{cells, Column, Table};

use command::from;
use device::{Device, SIDES};
use input::Pages;
use machine::Machine;
use output::Measured;
use ring::DEPTH;
use runs::Runs;
use work::{Operation, Plan, OPERATIONS};

/// 48 MiB in pages of 4 KiB: above any cache, and a guest has room for four.
const PAGES: usize = 12_288;
const ROUNDS: usize = 5;
/// zmeld.ko beside the same kernel's own zram
#[derive(clap::Parser)]
struct Settings {
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = from(1))]
    rounds: usize,
    #[arg(long, value_name = "N", default_value_t = PAGES, value_parser = from(512))]
    pages: usize,
    /// Only this part
    #[arg(long, value_parser = ["melding", "codecs"])]
    only: Option<String>,
    /// Only this codec; may be repeated
    #[arg(long = "codec", value_name = "NAME", default_values = ["lz4", "lzo-rle", "zstd"])]
    codecs: Vec<String>,
    /// Percent of the pages; may be repeated
    #[arg(long, value_name = "PERCENT", default_values_t = [0, 25, 50], value_parser = clap::value_parser!(u8).range(..100))]
    duplicates: Vec<u8>,
    /// May be repeated
    #[arg(long, value_name = "N", default_values_t = [1, 2], value_parser = from(1))]
    jobs: Vec<usize>,
    /// Only writes the pages to this folder, for a kernel that cannot see where they are from
    #[arg(long, value_name = "FOLDER")]
    collect: Option<PathBuf>,
    /// Pages for the comparison of codecs, where others than the input's are to be had
    #[arg(long, value_name = "FOLDER")]
    swapped: Option<PathBuf>,
    /// Files and folders that pages are taken from
    #[arg(long, value_name = "PATH", num_args = 1..)]
    input: Vec<PathBuf>,
}

impl Settings {
    fn has(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == part)
    }
}

fn main() -> ExitCode {
    command::run("bench kernel", run)
}

fn run(settings: &Settings) -> Result<(), String> {
    let machine = Machine::look();
    eprintln!("reading pages");
    let pages = Pages::read(&settings.input, settings.pages)?;
    if let Some(folder) = &settings.collect {
        return collect(&pages, folder);
    }
    let mut tables = Vec::new();
    if settings.has("melding") {
        tables.extend(compare_melding(settings, &pages)?);
    }
    if settings.has("codecs") {
        let swapped = settings.swapped.as_ref().map(|folder| {
            let folder = std::slice::from_ref(folder);
            Pages::read(folder, settings.pages)
        });
        let swapped = swapped.transpose()?;
        let pages = swapped.as_ref().unwrap_or(&pages);
        tables.push(codecs::measure(pages, settings.rounds)?);
    }
    show(settings, &machine, &pages, tables);
    Ok(())
}

/// The drivers with each codec, melding in each way.
fn compare_melding(settings: &Settings, pages: &Pages) -> Result<Vec<Table>, String> {
    let mut tables = Vec::new();
    let mut inline = inline_table();
    for codec in &settings.codecs {
        let mut speeds = speed_table(codec);
        for &duplicates in &settings.duplicates {
            for &jobs in &settings.jobs {
                let case = Case {
                    codec,
                    duplicates,
                    jobs,
                    rounds: settings.rounds,
                    pages,
                };
                case.measure(&mut speeds, &mut inline)?;
            }
        }
        speeds.note(
            "MB/s of the same kernel's zram; behind it, how many times as fast zmeld is with \
             melding off, with fingerprints taken (manual), and melding inline.",
        );
        tables.push(speeds);
    }
    inline.note(
        "Inline melding when half the pages are duplicates, times zram's speed. A duplicate is \
         compared with its twin, so writing it takes at least as long as zram takes to read it; \
         writing the others at least as long as zram takes to write them: that is the limit.",
    );
    tables.push(inline);
    Ok(tables)
}

/// Leaves the pages for a run in a kernel that cannot see where they are from.
fn collect(pages: &Pages, folder: &Path) -> Result<(), String> {
    for first in (0..pages.count()).step_by(input::FILE_PAGES_MAX) {
        let last = (first + input::FILE_PAGES_MAX).min(pages.count());
        let path = folder.join(format!("{first:08}.pages"));
        let bytes: Vec<u8> = (first..last)
            .flat_map(|at| pages.page(at).iter().copied())
            .collect();
        std::fs::write(&path, bytes)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    eprintln!("{}", pages.about);
    Ok(())
}

fn speed_table(codec: &str) -> Table {
    Table::new(&format!("{codec}: speed against zram"))
        .column(Column::text("duplicates"))
        .column(Column::text("jobs"))
        .column(Column::text("operation"))
        .column(Column::number("zram"))
        .column(Column::ratio("off"))
        .column(Column::ratio("manual"))
        .column(Column::ratio("inline"))
}

fn inline_table() -> Table {
    Table::new("Inline melding, half duplicates")
        .column(Column::text("codec"))
        .column(Column::text("jobs"))
        .column(Column::text("operation"))
        .column(Column::ratio("limit"))
        .column(Column::ratio("measured"))
        .column(Column::number("of limit, %"))
}

/// One codec, one share of duplicates, one number of jobs: all devices.
struct Case<'a> {
    codec: &'a str,
    /// Percent of the pages.
    duplicates: u8,
    jobs: usize,
    rounds: usize,
    pages: &'a Pages,
}

impl Case<'_> {
    fn measure(&self, speeds: &mut Table, inline: &mut Table) -> Result<(), String> {
        let count = self.pages.count();
        let devices: Vec<Device> = (0..SIDES.len())
            .map(|side| Device::make(side, self.codec, None, count))
            .collect::<Result<_, _>>()?;
        let mut series = vec![vec![Runs::new(count); SIDES.len()]; OPERATIONS.len()];
        let plan = Plan {
            name: format!(
                "{}, {} % duplicates, {} jobs",
                self.codec, self.duplicates, self.jobs
            ),
            pages: self.pages,
            duplicates: f64::from(self.duplicates) / 100.0,
            operations: &OPERATIONS,
            jobs: self.jobs,
            rounds: self.rounds,
        };
        plan.measure(&devices, &mut series, |_| ())?;
        self.note_speeds(&series, speeds);
        if self.duplicates == 50 {
            self.note_inline(&series, inline);
        }
        Ok(())
    }

    fn note_speeds(&self, series: &[Vec<Runs>], speeds: &mut Table) {
        for (sides, operation) in series.iter().zip(OPERATIONS) {
            let [zram, off, manual, inline] = &sides[..] else {
                unreachable!("SIDES names four");
            };
            let ratio = |runs: &Runs| runs.times_faster_than(zram);
            speeds.row(cells![
                format!("{} %", self.duplicates),
                self.jobs.to_string(),
                operation.name(),
                zram.mb_per_s(),
                ratio(off),
                ratio(manual),
                ratio(inline)
            ]);
        }
    }

    /// How near inline melding comes to what comparing allows.
    fn note_inline(&self, series: &[Vec<Runs>], table: &mut Table) {
        let at = |wanted: Operation| OPERATIONS.iter().position(|&one| one == wanted);
        let Some(read) = at(Operation::Scan).map(|at| series[at][0].median_ns()) else {
            return;
        };
        for operation in [Operation::Fill, Operation::Rewrite] {
            let Some([zram, .., inline]) = at(operation).map(|at| &series[at][..]) else {
                continue;
            };
            let write = zram.median_ns();
            let (limit, measured) = (2.0 * write / (write + read), inline.times_faster_than(zram));
            table.row(cells![
                self.codec,
                self.jobs.to_string(),
                operation.name(),
                limit,
                measured,
                100.0 * measured / limit
            ]);
        }
    }
}

fn show(settings: &Settings, machine: &Machine, pages: &Pages, tables: Vec<Table>) {
    let kernel_build = std::fs::read_to_string("/proc/version").unwrap_or_default();
    let mut conditions = vec![
        ("kernel", kernel_build.trim().to_owned()),
        (
            "requests",
            format!(
                "direct, devices take turns; of {DEPTH} pages, those written singly and at random \
                 of one, {DEPTH} of these handed over together"
            ),
        ),
    ];
    if let Ok(bed) = std::env::var("ZMELD_BENCH_BED") {
        conditions.push(("bed", bed));
    }
    let measured = Measured {
        title: "zmeld.ko beside zram",
        machine,
        pages,
        rounds: settings.rounds,
        conditions,
        tables,
    };
    measured.show();
}
