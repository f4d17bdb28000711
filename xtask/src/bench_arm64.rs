//! Instructions of a page on arm64, or on x86-64, which an emulator counts. No times:
//! those are the emulator's own.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{ensure, Context, Result};
use zmeld_report::{cells, Column, Table};

use crate::bench_runs;
use crate::c_build;
use crate::pages;
use crate::process::{output_of, Log};
use crate::processors::{self, Processor, ARM64, X86_64};
use crate::workspace;

/// Instructions that codecs take for a page on arm64, or on x86-64, counted by an emulator,
/// on the same kept pages
#[derive(clap::Args)]
pub struct Options {
    /// Each of them costs a second or two
    #[arg(long, value_name = "N", default_value_t = 60)]
    pages: usize,
    #[arg(long)]
    x86_64: bool,
}

const CODECS: &[&str] = &["lz4", "lzo-rle", "zstd", "zword", "zword:2"];

pub fn run(options: &Options) -> Result<ExitCode> {
    let (processor, name) = match options.x86_64 {
        true => (X86_64, "x86-64"),
        false => (ARM64, "arm64"),
    };
    let install = "cargo xtask test --long --only processors installs it";
    processor.need().context(install)?;
    let log = Log::named("bench-arm64")?;
    let data = pages::held_out(options.pages)?.context(pages::NONE)?;
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
            instructions(processor, &program, &arguments)
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
    let version = output_of(processor.run().arg("--version"))?;
    let emulator = version.lines().next().unwrap_or_default();
    let provenance = [("emulator", emulator), ("data", &data.about)];
    let title = format!("What codecs do on {name}");
    Ok(bench_runs::show(&title, &provenance, &[table]))
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
    let help = output_of(processor.run().arg("--help"))?;
    let names = ["-one-insn-per-tb", "-singlestep"];
    let known = names.into_iter().find(|name| help.contains(name));
    Ok([known.context("the emulator cannot go instruction by instruction")?])
}

/// The program, our codecs, and the libraries' own sources, with their folders.
fn sources() -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let store = workspace::root().join("store");
    let mut sources = vec![c_build::tests_folder().join("instructions.c")];
    for codec in ["lz4", "lzo", "zstd", "zword"] {
        sources.push(store.join(format!("port/user/codec_{codec}.c")));
    }
    sources.extend(workspace::files(&store.join("zword"), "c")?);
    let libraries = [processors::lz4()?, processors::zstd()?];
    let mut includes = Vec::new();
    for library in libraries {
        sources.extend(library.files);
        includes.push(library.include);
    }
    Ok((sources, includes))
}
