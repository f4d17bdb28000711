//! Instructions of a page on arm64, or on x86-64, which an emulator counts. No times:
//! those are the emulator's own.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{bail, ensure, Context, Result};
use serde::Serialize;
use zmeld_report::schema::Envelope;
use zmeld_report::{cells, Column, Document, Section, Style, Table};

use crate::arguments::Arguments;
use crate::c_build;
use crate::library_sources;
use crate::pages;
use crate::process::Log;
use crate::processors::{self, Processor, ARM64, X86_64};
use crate::workspace;

/// Each of them costs a second or two.
const PAGES: usize = 60;
const CODECS: &[&str] = &["lz4", "lzo-rle", "zstd", "zword", "zword:2"];

#[derive(Serialize)]
struct Body {
    processor: &'static str,
    emulator: String,
    data: String,
    pages: usize,
    table: Vec<serde_json::Value>,
}

/// Runs `bench arm64`.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    let (mut json, mut wanted, mut processor, mut name) = (None, PAGES, ARM64, "arm64");
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--json" => json = Some(PathBuf::from(arguments.value()?)),
            "--pages" => wanted = arguments.number()?,
            "--x86-64" => (processor, name) = (X86_64, "x86-64"),
            other => bail!("there is no argument {other:?}"),
        }
    }
    if let Some(reason) = processor.missing() {
        bail!("{reason}; cargo xtask test --long --only processors installs it");
    }
    let log = Log::create(&workspace::work_folder("logs")?.join("bench-arm64.log"))?;
    let data = pages::held_out(wanted)?
        .context("there are no pages to measure with: cargo xtask pages keeps some")?;
    let count = data.bytes.len() / pages::PAGE;
    let folder = workspace::work_folder("bench-arm64")?;
    let file = folder.join("pages");
    fs::write(&file, &data.bytes).with_context(|| workspace::shown(&file))?;
    let program = folder.join("instructions");
    let (sources, includes) = sources()?;
    let mut compiler = processor.library_compiler();
    processors::add_store_flags(&mut compiler, &includes);
    processors::compile(&log, compiler, &sources, &program)?;
    let mut table = table(name);
    for codec in CODECS {
        eprintln!("{codec}");
        let of = |what: &str, passes: u32| -> Result<u64> {
            let passes = passes.to_string();
            let arguments = [codec, what, &passes, &file.to_string_lossy()];
            instructions(&processor, &program, &arguments)
        };
        let compress = of("compress", 1)? - of("compress", 0)?;
        let decompress = of("decompress", 2)? - of("decompress", 1)?;
        table.row(cells![
            codec.replace(':', " level "),
            compress / count as u64,
            decompress / count as u64
        ]);
    }
    table.note("Means. The processor is emulated: this says how much it does, not how fast.");
    let emulator = first_line(&processor)?;
    let document = Document::new(&format!("What codecs do on {name}"))
        .provenance("emulator", &emulator)
        .provenance("data", &data.about)
        .section(Section::new("").table(table.clone()));
    print!("{}", document.to_text(&Style::plain(80)));
    if let Some(path) = json {
        let body = Body {
            processor: name,
            emulator,
            data: data.about,
            pages: count,
            table: table.to_json_rows(),
        };
        let envelope = Envelope::new("zmeld.bench.arm64", 1, env!("CARGO_PKG_VERSION"), body);
        fs::write(&path, envelope.to_text())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(processor: &str) -> Table {
    Table::new(&format!("Instructions of a page on {processor}"))
        .column(Column::text("codec"))
        .column(Column::count("compress"))
        .column(Column::count("decompress"))
}

/// What the program executes: each instruction is a line of the emulator's.
fn instructions(processor: &Processor, program: &Path, arguments: &[&str]) -> Result<u64> {
    let mut command = processor.run();
    command.args(one_by_one(processor)?);
    command.args(["-d", "nochain,exec", "-D", "/dev/stdout"]);
    command.arg(program).args(arguments);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the emulator")?;
    let mut output = child.stdout.take().context("the emulator has no output")?;
    let (mut buffer, mut lines) = (vec![0; 1 << 16], 0);
    loop {
        let size = output.read(&mut buffer)?;
        if size == 0 {
            break;
        }
        lines += buffer[..size].iter().filter(|&&byte| byte == b'\n').count() as u64;
    }
    let status = child.wait()?;
    ensure!(status.success(), "{}: {status}", arguments.join(" "));
    Ok(lines)
}

/// Blocks of one instruction each; the option's name depends on the version.
fn one_by_one(processor: &Processor) -> Result<[&'static str; 1]> {
    let help = processor.run().arg("--help").output()?.stdout;
    let help = String::from_utf8_lossy(&help).into_owned();
    let names = ["-one-insn-per-tb", "-singlestep"];
    let known = names.into_iter().find(|name| help.contains(name));
    Ok([known.context("the emulator cannot go instruction by instruction")?])
}

fn first_line(processor: &Processor) -> Result<String> {
    let output = processor.run().arg("--version").output()?.stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// The program, our codecs, and the libraries' own sources, with their folders.
fn sources() -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let store = workspace::root().join("store");
    let mut sources = vec![c_build::tests_folder().join("instructions.c")];
    for codec in ["lz4", "lzo", "zstd", "zword"] {
        sources.push(store.join(format!("port/user/codec_{codec}.c")));
    }
    sources.extend(workspace::files(&store.join("zword"), "c")?);
    let libraries = [library_sources::lz4()?, library_sources::zstd()?];
    let mut includes = Vec::new();
    for library in libraries {
        sources.extend(library.files);
        includes.push(library.include);
    }
    Ok((sources, includes))
}
