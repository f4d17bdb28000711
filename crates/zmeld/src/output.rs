//! Standard output: one way to print a result in each format.

use std::fs::File;
use std::io::{stdout, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use zmeld_report::schema::Envelope;
use zmeld_report::{Document, Style, Table};

use crate::cli::Format;

/// The style for standard output: its width, colours, characters.
pub fn style() -> Style {
    let columns = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    Style::from_env(stdout().is_terminal(), columns, |name| {
        std::env::var(name).ok()
    })
}

/// Writes text to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
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
        let envelope = Envelope::new(schema.0, schema.1, env!("CARGO_PKG_VERSION"), body);
        return print(&envelope.to_text());
    }
    if format.csv {
        return print(&table().to_csv());
    }
    let document = document();
    if format.markdown {
        return print(&document.to_markdown());
    }
    print(&document.to_text(&style()))
}

/// Finds out before a long run whether a page can be written to that path at
/// all, as far as that can be told without writing.
pub fn check_page(path: &Path) -> anyhow::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if path.is_dir() {
        anyhow::bail!(
            "cannot write {}: it is a directory; name a file in it",
            path.display()
        );
    }
    if !folder.is_dir() {
        anyhow::bail!(
            "cannot write {}: there is no directory {}; create it first",
            path.display(),
            folder.display()
        );
    }
    Ok(())
}

/// Writes a page to a file, whole or not at all.
pub fn write_page(path: &Path, document: &Document) -> anyhow::Result<()> {
    write_whole(path, document.to_html().as_bytes())
}

/// Writes a file that is not there yet, whole or not at all.
pub fn write_new(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let what = || format!("cannot write {}", path.display());
    let mut file = File::create_new(path).with_context(what)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written.with_context(what)
}

/// Writes a file, whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let what = || format!("cannot write {}", path.display());
    // A device or pipe cannot be renamed into place.
    let special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    if special {
        let mut file = File::options().write(true).open(path).with_context(what)?;
        return file.write_all(bytes).with_context(what);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    });
    if written.is_err() {
        // What is left of the attempt; that it cannot be removed adds nothing.
        let _ = std::fs::remove_file(&part);
    }
    written.with_context(what)
}
