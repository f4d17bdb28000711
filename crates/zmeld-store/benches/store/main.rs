//! The page store's benchmark: `cargo xtask bench store`.
//!
//! Tables go to standard output, progress to standard error. Nothing here fails for being
//! slow.
#![forbid(unsafe_code)]

mod pass;
mod timing;
mod writes;

#[path = "../common/command.rs"]
mod command;
#[path = "../common/input.rs"]
mod input;
#[path = "../common/machine.rs"]
mod machine;
#[path = "../common/output.rs"]
mod output;
#[path = "../common/runs.rs"]
mod runs;

use std::path::PathBuf;
use std::process::ExitCode;

use zmeld_store::{Codec, MeldMode, Store};

use command::{from, progress};
use input::Pages;
use machine::Machine;
use output::Measured;

/// 128 MiB in pages of 4 KiB.
const PAGES: usize = 32_768;
const ROUNDS: usize = 5;

/// The page store, measured
#[derive(clap::Parser)]
pub struct Settings {
    /// How often each measurement is repeated
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = from(1))]
    pub rounds: usize,
    #[arg(long, value_name = "N", default_value_t = PAGES, value_parser = from(64))]
    pages: usize,
    /// Files and folders that pages are taken from
    #[arg(long, value_name = "PATH", num_args = 1..)]
    input: Vec<PathBuf>,
}

fn empty_store(codec: &Codec, pages: usize, mode: MeldMode) -> Store {
    Store::new(pages as u64, mode, codec).expect("there is memory for the store")
}

fn write(store: &Store, slot: usize, page: &[u8]) {
    let written = store.write(slot as u64, page);
    written.expect("there is memory for the page");
}

fn main() -> ExitCode {
    command::run("bench store", run)
}

fn run(settings: &Settings) -> Result<(), String> {
    let machine = Machine::look();
    progress("reading pages");
    let pages = Pages::read(&settings.input, settings.pages)?;
    let tables = vec![writes::run(settings, &pages), pass::run(settings, &pages)];
    progress("");
    let measured = Measured {
        title: "The page store, measured",
        pages: &pages,
        rounds: settings.rounds,
        conditions: vec![
            ("kernel", machine.kernel.clone()),
            ("C compiler", machine.c_compiler.clone()),
            ("Rust compiler", machine.rust_compiler.clone()),
            ("clock", "processor time of the measuring thread".to_owned()),
            (
                "load average",
                format!(
                    "{:.2} at the start, {:.2} at the end",
                    machine.load_at_start,
                    machine::load()
                ),
            ),
        ],
        machine: &machine,
        tables,
    };
    measured.show();
    Ok(())
}
