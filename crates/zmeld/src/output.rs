//! Standard output: one way to print a result in each format.

use std::fmt::Display;
use std::io::{stderr, stdout, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use chrono::{DateTime, Utc};
use clap::Args;
use serde::Serialize;
use zmeld_linux::{command::Invocation, file};
use zmeld_report::schema::Envelope;
use zmeld_report::text::{inert, inert_lines};
use zmeld_report::{Document, Style, Table};

/// How a result is printed; a table without any.
#[derive(Args, Debug, Default)]
pub struct Format {
    /// Print JSON; zmeld schema describes it
    #[arg(long, group = "format", help_heading = "Output")]
    pub json: bool,

    /// Print the table as CSV
    #[arg(long, group = "format", help_heading = "Output")]
    pub csv: bool,

    /// Print Markdown
    #[arg(long, group = "format", help_heading = "Output")]
    pub markdown: bool,
}

/// The style for standard output: its width, colours, characters.
pub fn style() -> Style {
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    Style::from_env(stdout().is_terminal(), columns, |name| {
        std::env::var(name).ok()
    })
}

/// Says something on standard error, in one line. Whatever it quotes, from
/// whomever it comes, cannot steer the terminal. The only way to standard error
/// beside the progress line: the lints see to it.
pub fn say(text: impl Display) {
    say_as("zmeld", text);
}

pub fn say_as(name: &str, text: impl Display) {
    let line = format!("{name}: {}\n", inert(&text.to_string()));
    // A closed standard error has nobody to tell.
    let _ = stderr().lock().write_all(line.as_bytes());
}

/// Begins a line on standard error, where a terminal shows `^C` already.
pub fn start_line() {
    let _ = stderr().lock().write_all(b"\n");
}

/// Writes a line of a terminal's standard error over with another.
pub fn draw_line(text: &str) {
    let _ = stderr()
        .lock()
        .write_all(format!("\r\x1b[K{text}").as_bytes());
}

/// Writes text to standard output. It is not changed, except where a terminal
/// would act on it.
pub fn print(text: &str) -> anyhow::Result<()> {
    match stdout().is_terminal() {
        true => print_as_it_is(&inert_lines(text)),
        false => print_as_it_is(text),
    }
}

/// Writes text that is made for the terminal, or that must stay as it is.
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // Whoever read it has seen enough. How the command came out, the exit code
        // still tells.
        Err(cause) if cause.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// A result as JSON, with its schema and this program's version.
pub fn json<T: Serialize>((name, version): (&str, u32), body: &T) -> String {
    Envelope::new(name, version, env!("CARGO_PKG_VERSION"), body).to_text()
}

/// Prints a result as it was asked for: as a document, its main table, or JSON.
pub fn show<T: Serialize>(
    format: &Format,
    document: impl FnOnce() -> Document,
    table: impl FnOnce() -> Table,
    schema: (&str, u32),
    body: &T,
) -> anyhow::Result<()> {
    if format.json {
        return print(&json(schema, body));
    }
    if format.csv {
        return print(&table().to_csv());
    }
    let document = document();
    if format.markdown {
        return print(&document.to_markdown());
    }
    print_as_it_is(&document.to_text(&style()))
}

/// Writes a page to a file, whole or not at all. It names its host, kernel, date and command.
pub fn write_page(path: &Path, document: &Document) -> anyhow::Result<()> {
    let system = rustix::system::uname();
    let now = DateTime::<Utc>::from(SystemTime::now());
    let command = std::env::args_os().skip(1);
    let command = command.fold(Invocation::new("zmeld"), |it, argument| it.arg(argument));
    let kernel = format!("Linux {}", system.release().to_string_lossy());
    let document = document
        .clone()
        .on_host(&system.nodename().to_string_lossy(), &kernel)
        .provenance("date", now.format("%Y-%m-%d %H:%M UTC").to_string())
        .provenance("command", command.to_string());
    Ok(file::replace(path, document.to_html().as_bytes(), None)?)
}
