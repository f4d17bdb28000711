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

use command::{number, progress, value, Arguments};
use input::Pages;
use machine::Machine;
use output::Measured;
use results::Results;

const USAGE: &str =
    "[--json FILE] [--rounds N] [--pages N] [--only NAME]... [--codec NAME]... [--input PATH...]";

/// 128 MiB in pages of 4 KiB.
const PAGES: usize = 32_768;
const ROUNDS: usize = 5;

type Part = fn(&Settings, &Pages, &mut Results);

const PARTS: &[(&str, Part)] = &[
    ("hashes", hashes::run),
    ("codecs", codecs::run),
    ("checks", checks::run),
    ("pass", pass::run),
    ("inline", inline::run),
    ("threads", threads::run),
];

/// How much is measured.
pub struct Settings {
    /// How often each measurement is repeated.
    pub rounds: usize,
    /// The codecs to compare; none is all.
    pub codecs: Vec<String>,
    pages: usize,
    only: Vec<String>,
    json: Option<PathBuf>,
    input: Vec<PathBuf>,
}

/// What only this benchmark's JSON has.
#[derive(Serialize)]
struct Own {
    load_at_end: f64,
}

fn main() -> ExitCode {
    command::run("bench store", USAGE, |arguments| run(&parse(arguments)?))
}

fn parse(arguments: &mut Arguments) -> Result<Settings, String> {
    let mut settings = Settings {
        rounds: ROUNDS,
        pages: PAGES,
        codecs: Vec::new(),
        only: Vec::new(),
        json: None,
        input: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || value(&argument, arguments);
        match argument.as_str() {
            "--json" => settings.json = Some(value()?.into()),
            "--rounds" => settings.rounds = number(&value()?)?,
            "--pages" => settings.pages = number(&value()?)?.max(64),
            "--codec" => settings.codecs.push(value()?),
            "--only" => settings.only.push(value()?),
            "--input" => settings.input.extend(arguments.by_ref().map(PathBuf::from)),
            other => return Err(format!("there is no argument {other:?}")),
        }
    }
    let known: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    if let Some(name) = settings
        .only
        .iter()
        .find(|name| !known.contains(&name.as_str()))
    {
        return Err(format!(
            "there is no {name:?}; there are {}",
            known.join(", ")
        ));
    }
    Ok(settings)
}

fn run(settings: &Settings) -> Result<(), String> {
    let machine = Machine::look();
    progress("reading pages");
    let pages = Pages::read(&settings.input, settings.pages)?;
    let mut results = Results::default();
    for (name, part) in PARTS {
        if settings.only.is_empty() || settings.only.iter().any(|only| only == name) {
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
