//! The codec zword beside zram's: `cargo xtask bench codec`.
//!
//! Pages of programs, a file for each; every page goes through every codec in turn.
//! The bar is of the programs that zword's tables never saw. Those that they were
//! trained on stand apart, with the pages that training left out. Tables go to
//! standard output, progress to standard error. Nothing here fails for being slow.
#![forbid(unsafe_code)]

mod bar;
mod measure;
mod program;
mod tables;

#[path = "../common/command.rs"]
mod command;
#[path = "../common/machine.rs"]
#[allow(dead_code)]
mod machine;

use std::path::PathBuf;
use std::process::ExitCode;

use zmeld_report::document::{Document, Section, Tone};
use zmeld_store::CodecSpec;

use bar::bar_table;
use command::{from, progress};
use machine::Machine;
use program::Program;
use tables::{program_table, rival_table, time_table};

const ROUNDS: usize = 5;
/// Of each program.
const PAGES: usize = 256;

const CODECS: &[&str] = &[
    "lz4",
    "lzo-rle",
    "zstd:level=3",
    "zword:level=1",
    "zword:level=2",
];
/// Others of their kind, which `--rivals` measures as well.
const RIVALS: &[&str] = &[
    "lz4:level=2",
    "lz4:level=4",
    "lz4:level=8",
    "zstd:level=-5",
    "zstd:level=-1",
    "zstd:level=1",
    "deflate:level=1",
    "deflate:level=6",
];
const LZ4: usize = 0;
const LZO: usize = 1;
const ZSTD: usize = 2;

/// zword beside zram's codecs, on pages of programs that its tables never saw
#[derive(clap::Parser)]
struct Settings {
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = from(1))]
    rounds: usize,
    #[arg(long, value_name = "N", default_value_t = PAGES, value_parser = from(1))]
    pages: usize,
    /// Also lz4, zstd and deflate at other levels
    #[arg(long)]
    rivals: bool,
    /// Pages of programs that training saw; may be repeated
    #[arg(long, value_name = "FILE")]
    trained: Vec<PathBuf>,
    /// Files of pages: `cargo xtask pages` makes them
    #[arg(required = true, value_name = "FILE")]
    held_out: Vec<PathBuf>,
}

fn main() -> ExitCode {
    command::run("bench codec", run)
}

impl Settings {
    fn codecs(&self) -> impl Iterator<Item = &'static str> {
        let rivals = if self.rivals { RIVALS } else { &[] };
        CODECS.iter().chain(rivals).copied()
    }
}

/// The programs that training never saw, and those that it did.
fn measure_all(settings: &Settings) -> Result<[Vec<Program>; 2], String> {
    let codecs = settings
        .codecs()
        .map(|spec| {
            let spec: CodecSpec = spec.parse().map_err(|error| format!("{error}"))?;
            spec.open().map_err(|error| error.to_string())
        })
        .collect::<Result<Vec<_>, String>>()?;
    let measured = |files: &[PathBuf], is_trained| {
        let each = files.iter().map(|path| {
            let name = path.file_stem().unwrap_or_default();
            progress(&name.to_string_lossy());
            Program::measure(path, is_trained, &codecs, settings)
        });
        each.collect::<Result<Vec<_>, String>>()
    };
    let programs = [
        measured(&settings.held_out, false)?,
        measured(&settings.trained, true)?,
    ];
    progress("");
    Ok(programs)
}

fn run(settings: &Settings) -> Result<(), String> {
    let machine = Machine::look();
    let [held_out, trained] = measure_all(settings)?;
    let codecs: Vec<_> = settings.codecs().collect();
    let mut section = Section::new("Figures")
        .table(time_table(&codecs, &held_out))
        .table(rival_table(&codecs, &held_out));
    for codec in ZSTD + 1..CODECS.len() {
        section = section.table(bar_table(&held_out, codec));
        let sets = [
            ("Programs never seen", &held_out),
            ("Programs of training", &trained),
        ];
        for (title, programs) in sets {
            if !programs.is_empty() {
                section = section.table(program_table(title, programs, codec));
            }
        }
    }
    if let Some(warning) = machine.warning() {
        section = section.advice(Tone::Warning, warning);
    }
    let counted = |programs: &[Program]| {
        let pages: usize = programs.iter().map(|program| program.is_text.len()).sum();
        format!("{pages} pages of {} programs", programs.len())
    };
    let document = Document::new("zword beside zram's codecs")
        .provenance("processor", &machine.cpu)
        .provenance("kernel", &machine.kernel)
        .provenance("C compiler", &machine.c_compiler)
        .provenance("never seen", counted(&held_out))
        .provenance("of training", counted(&trained))
        .provenance("rounds", settings.rounds.to_string())
        .section(section);
    command::print(&document);
    Ok(())
}
