//! The page store's benchmark: `cargo xtask bench store`.
//!
//! Tables go to standard output, progress to standard error; `--json FILE`
//! keeps all of it, every run included. Nothing here fails for being slow.
#![forbid(unsafe_code)]

mod checks;
mod codecs;
mod hashes;
mod inline;
mod pass;
mod published;
mod threads;
mod timing;

#[path = "../common/command.rs"]
mod command;
#[path = "../common/input.rs"]
mod input;
#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/output.rs"]
mod output;
#[path = "../common/results.rs"]
mod results;
#[path = "../common/runs.rs"]
mod runs;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use zmeld_report::document::{Document, Section, Tone};

use command::{from, progress};
use input::Pages;
use machine::Machine;
use output::Measured;
use results::Results;

/// 128 MiB in pages of 4 KiB.
const PAGES: usize = 32_768;
const ROUNDS: usize = 5;

type Part = fn(&Settings, &Pages, &mut Results);

const PARTS: [(&str, Part); 6] = [
    ("hashes", hashes::run),
    ("codecs", codecs::run),
    ("checks", checks::run),
    ("pass", pass::run),
    ("inline", inline::run),
    ("threads", threads::run),
];

/// The page store, measured
#[derive(clap::Parser)]
pub struct Settings {
    /// How often each measurement is repeated
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = from(1))]
    pub rounds: usize,
    /// Only this codec; may be repeated
    #[arg(long = "codec", value_name = "NAME")]
    pub codecs: Vec<String>,
    #[arg(long, value_name = "N", default_value_t = PAGES, value_parser = from(64))]
    pages: usize,
    /// Only this part; may be repeated
    #[arg(long, value_name = "NAME", value_parser = PARTS.map(|(name, _)| name))]
    only: Vec<String>,
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Files and folders that pages are taken from
    #[arg(long, value_name = "PATH", num_args = 1..)]
    input: Vec<PathBuf>,
}

/// What only this benchmark's JSON has.
#[derive(Serialize)]
struct Own {
    load_at_end: f64,
}

fn main() -> ExitCode {
    command::run("bench store", run)
}

fn run(settings: &Settings) -> Result<(), String> {
    let machine = Machine::look();
    progress("reading pages");
    let pages = Pages::read(&settings.input, settings.pages)?;
    let mut results = Results::default();
    for (name, part) in PARTS {
        if settings.only.is_empty() || settings.only.iter().any(|only| *only == name) {
            part(settings, &pages, &mut results);
        }
    }
    progress("");
    let load_at_end = machine::load();
    let document = document(settings, &machine, load_at_end, &pages, &results);
    let measured = Measured {
        schema: "zmeld.bench.store",
        machine: &machine,
        pages: &pages,
        rounds: settings.rounds,
        results: &results,
    };
    measured.show(&document, Own { load_at_end }, settings.json.as_deref())
}

fn document(
    settings: &Settings,
    machine: &Machine,
    load_at_end: f64,
    pages: &Pages,
    results: &Results,
) -> Document {
    let mut document = Document::new("The page store, measured")
        .provenance("processor", &machine.cpu)
        .provenance("processors", machine.cpus.to_string())
        .provenance("kernel", &machine.kernel)
        .provenance("C compiler", &machine.c_compiler)
        .provenance("Rust compiler", &machine.rust_compiler)
        .provenance("data", &pages.about)
        .provenance(
            "rounds",
            format!(
                "{}; medians of rounds, ratios within a round",
                settings.rounds
            ),
        )
        .provenance(
            "clock",
            "processor time of the measuring thread; wall clock for threads and phases",
        )
        .provenance(
            "load average",
            format!(
                "{:.2} at the start, {load_at_end:.2} at the end",
                machine.load_at_start
            ),
        );
    if let Some(warning) = machine.warning() {
        document = document.section(Section::new("").advice(Tone::Warning, warning));
    }
    if !results.budgets.is_empty() {
        document = document.section(Section::new("").table(results.budget_table()));
    }
    for (_, table) in &results.tables {
        document = document.section(Section::new("").table(table.clone()));
    }
    document.section(Section::new("").table(results.runs_table()))
}
