//! What the benchmarks have in common as commands: how they start and end, how they
//! read an argument, show what they found, and keep it.
#![allow(dead_code)] // Each benchmark uses its part.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use zmeld_report::document::Document;
use zmeld_report::schema::Envelope;
use zmeld_report::Style;

/// The words that a benchmark was started with.
pub type Arguments = std::vec::IntoIter<String>;

/// Runs a benchmark with the program's arguments; what it cannot do is told in a line.
pub fn run(
    name: &str,
    usage: &str,
    benchmark: impl FnOnce(&mut Arguments) -> Result<(), String>,
) -> ExitCode {
    // Paths are meant from where the user is, not from where cargo starts us.
    if let Some(folder) = std::env::var_os("ZMELD_BENCH_FOLDER") {
        let _ = std::env::set_current_dir(folder);
    }
    // Cargo adds this one by itself.
    let arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    match benchmark(&mut arguments.collect::<Vec<_>>().into_iter()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{name}: {why}\nusage: {usage}");
            ExitCode::from(2)
        }
    }
}

/// What follows an argument.
pub fn value(argument: &str, arguments: &mut Arguments) -> Result<String, String> {
    let value = arguments.next();
    value.ok_or_else(|| format!("{argument} takes a value"))
}

/// The number that an argument is.
pub fn number(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(format!("{text:?} is not a number from 1 on")),
    }
}

/// Says what is being measured, in one line of a terminal.
pub fn progress(what: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    } else if !what.is_empty() {
        eprintln!("{what}");
    }
}

/// Prints the document, and keeps what was measured in a file where one is given.
pub fn show(
    document: &Document,
    schema: &'static str,
    body: &impl Serialize,
    json: Option<&Path>,
) -> Result<(), String> {
    let style = Style::from_env(std::io::stdout().is_terminal(), None, |name| {
        std::env::var(name).ok()
    });
    print!("{}", document.to_text(&style));
    let Some(path) = json else {
        return Ok(());
    };
    let envelope = Envelope::new(schema, 1, env!("CARGO_PKG_VERSION"), body);
    std::fs::write(path, envelope.to_text())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
