//! Benchmarks as commands: how they start and end, and show what they found.
#![allow(dead_code)] // Each benchmark uses its part.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use clap::Parser;
use zmeld_report::document::Document;
use zmeld_report::Style;

/// Runs a benchmark with the program's arguments; what it cannot do is told in a line.
pub fn run<S: Parser>(name: &str, benchmark: impl FnOnce(&S) -> Result<(), String>) -> ExitCode {
    // Paths are meant from where the user is, not from where cargo starts us.
    if let Some(folder) = std::env::var_os("ZMELD_BENCH_FOLDER") {
        let _ = std::env::set_current_dir(folder);
    }
    // Cargo adds this one by itself.
    let arguments = std::env::args_os().filter(|word| word != "--bench");
    match benchmark(&S::parse_from(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{name}: {why}");
            ExitCode::from(2)
        }
    }
}

pub fn from(least: u64) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(least..)
}

/// Says what is being measured, in one line of a terminal.
pub fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    } else if !what.is_empty() {
        eprintln!("{what}");
    }
}

pub fn print(document: &Document) {
    let style = Style::from_env(std::io::stdout().is_terminal(), None, |name| {
        std::env::var(name).ok()
    });
    print!("{}", document.to_text(&style));
}
