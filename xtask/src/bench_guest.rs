//! Benchmarks that need a kernel of their own: zmeld.ko beside zram, and swap on
//! a machine that is short of memory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{bail, Context, Result};

use crate::arguments::Arguments;
use crate::guest::Addition;
use crate::kernels::{self, Kernel, Kind};
use crate::machine::{self, BootOptions};
use crate::module_build::{self, Flavour};
use crate::pages;
use crate::process::{run_in_front, Log};
use crate::rust_tests::cargo;
use crate::workspace;

/// What a run that could not take place ends with.
const SKIPPED: u8 = 77;
/// Pages of a guest's comparison of codecs, and bytes of each file of them.
const SWAPPED_PAGES: usize = 16_384;
const SWAPPED_PART: usize = 8 << 20;
/// The guest's program prints its JSON behind this line.
const JSON_FOLLOWS: &str = "==== zmeld JSON ====";

/// What is said of the setting, so that nobody takes its figures for more.
fn setting(kernel: &Kernel) -> &'static str {
    match kernel.recipe.kind {
        Kind::UserMode => "user-mode Linux: native code, but no hardware; compare ratios",
        Kind::Stock | Kind::Watching => {
            "QEMU without a hypervisor: emulated; compare counts, not times"
        }
    }
}

/// The same where times are compared: what others did to them meanwhile.
pub fn timed_setting(kernel: &Kernel) -> String {
    let priority = if machine::can_be_urgent() {
        "at a real-time priority, before all other programs"
    } else {
        "no more urgent than other programs (root could change that)"
    };
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?");
    format!(
        "{}; {priority}; the host's load average at the start was {load}",
        setting(kernel)
    )
}

/// A kernel that guests can have here, or the code to end with where it cannot be had.
pub fn named_kernel(log: &Log, name: &str) -> Result<std::result::Result<Kernel, ExitCode>> {
    let Some(recipe) = kernels::recipe(name) else {
        let known: Vec<&str> = kernels::RECIPES.iter().map(|recipe| recipe.name).collect();
        bail!("there is no kernel {name:?}: {}", known.join(", "));
    };
    let reason = match kernels::provide(log, recipe)? {
        Ok(kernel) => match machine::cannot_run(&kernel) {
            None => return Ok(Ok(kernel)),
            Some(reason) => reason,
        },
        Err(reason) => reason,
    };
    eprintln!("SKIP: {name}: {reason}");
    Ok(Err(ExitCode::from(SKIPPED)))
}

/// The same with a module for it.
pub fn prepare(log: &Log, name: &str) -> Result<std::result::Result<(Kernel, PathBuf), ExitCode>> {
    let kernel = match named_kernel(log, name)? {
        Ok(kernel) => kernel,
        Err(code) => return Ok(Err(code)),
    };
    let module = module_build::build(log, &kernel, Flavour::Release)?;
    Ok(Ok((kernel, module)))
}

/// Boots, with the guest's output on ours up to its JSON, which is returned.
fn run_guest(
    kernel: &Kernel,
    boot: &BootOptions,
) -> Result<std::result::Result<Vec<u8>, ExitCode>> {
    let mut output = JsonSplitter::default();
    let outcome = machine::run(kernel, boot, &mut output)?;
    output.end()?;
    for complaint in &outcome.complaints {
        eprintln!("the kernel complained: {complaint}");
    }
    match outcome.code {
        Some(0) if outcome.complaints.is_empty() => Ok(Ok(output.json)),
        Some(code) => Ok(Err(ExitCode::from(if code == 0 { 1 } else { code as u8 }))),
        None => bail!("{}\nthe guest ended before its script", outcome.tail()),
    }
}

/// What comes before the JSON goes to standard output as it comes.
#[derive(Default)]
struct JsonSplitter {
    line: Vec<u8>,
    behind: bool,
    json: Vec<u8>,
}

impl JsonSplitter {
    fn end(&mut self) -> Result<()> {
        let rest = std::mem::take(&mut self.line);
        self.take(&rest)?;
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> std::io::Result<()> {
        if self.behind {
            self.json.extend_from_slice(line);
            return Ok(());
        }
        if line.trim_ascii() == JSON_FOLLOWS.as_bytes() {
            self.behind = true;
            return Ok(());
        }
        std::io::stdout().write_all(line)?;
        std::io::stdout().flush()
    }
}

impl Write for JsonSplitter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for &byte in bytes {
            self.line.push(byte);
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.take(&line)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().flush()
    }
}

/// Arguments that are ours; the rest goes to the program in the guest.
struct Options {
    kernel: String,
    json: Option<PathBuf>,
    input: Vec<String>,
    rest: Vec<String>,
}

fn parse(arguments: &[String], kernel: &str) -> Result<Options> {
    let mut options = Options {
        kernel: kernel.to_owned(),
        json: None,
        input: Vec::new(),
        rest: Vec::new(),
    };
    let mut arguments = Arguments::new(arguments);
    while let Some(argument) = arguments.next() {
        match argument {
            "--kernel" => options.kernel = arguments.value()?.to_owned(),
            "--json" => options.json = Some(PathBuf::from(arguments.value()?)),
            "--input" => options.input = arguments.by_ref().map(str::to_owned).collect(),
            other => options.rest.push(other.to_owned()),
        }
    }
    Ok(options)
}

/// zmeld.ko beside the zram of the same kernel.
pub fn kernel(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments, "um")?;
    let log = Log::create(&workspace::work_folder("logs")?.join("bench-kernel.log"))?;
    let (kernel, module) = match prepare(&log, &options.kernel)? {
        Ok(ready) => ready,
        Err(code) => return Ok(code),
    };
    let program = bench_program("kernel")?;
    let pages = collect(&program, &options)?;
    let mut boot = BootOptions {
        module: Some(Addition::module(&module)?),
        load: true,
        memory: 1024,
        urgent: true,
        limit: std::time::Duration::from_secs(2 * 3600),
        ..BootOptions::default()
    };
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    boot.programs.push(program.display().to_string());
    for path in workspace::files(&pages, "pages")? {
        let at = format!("/guest/input/{}.pages", workspace::stem(&path));
        boot.files.push(Addition::file(&at, &path)?);
    }
    boot.variables
        .push(("ZMELD_BENCH_BED".into(), timed_setting(&kernel)));
    let mut passed_on = options.rest.join(" ");
    if options.input.is_empty() {
        let swapped = swapped_files()?;
        if !swapped.is_empty() {
            passed_on += " --swapped /guest/swapped";
        }
        boot.files.extend(swapped);
    }
    let script = format!(
        "#!/bin/sh\nmodprobe zram || exit 1\n\
         {name} --json /tmp/result.json {passed_on} --input /guest/input || exit\n\
         echo '{JSON_FOLLOWS}'\ncat /tmp/result.json\n"
    );
    boot.script = Some(Addition::text("/guest/script", script, true));
    match run_guest(&kernel, &boot)? {
        Ok(json) => keep(options.json.as_deref(), &json),
        Err(code) => Ok(code),
    }
}

/// Pages that `cargo xtask pages` kept, for a guest; none where none are.
fn swapped_files() -> Result<Vec<Addition>> {
    let Some(pages) = pages::held_out(SWAPPED_PAGES)? else {
        return Ok(Vec::new());
    };
    eprintln!("codecs: {}", pages.about);
    let parts = pages.bytes.chunks(SWAPPED_PART);
    let files = parts.enumerate().map(|(number, part)| Addition {
        name: format!("/guest/swapped/{number}.pages"),
        bytes: part.to_vec(),
        executable: false,
    });
    Ok(files.collect())
}

fn keep(path: Option<&Path>, json: &[u8]) -> Result<ExitCode> {
    if let Some(path) = path {
        fs::write(path, json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds a benchmark of zmeld-store; where it is.
fn bench_program(name: &str) -> Result<PathBuf> {
    let mut command = cargo(&["bench", "--no-run", "--package", "zmeld-store"]);
    command.args(["--bench", name, "--message-format=json-render-diagnostics"]);
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("the benchmark does not build");
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .context("cargo named no program")
}

/// Pages of this machine's files, for a guest that has none of them.
fn collect(program: &Path, options: &Options) -> Result<PathBuf> {
    let folder = workspace::work_folder("bench-pages")?;
    for old in workspace::files(&folder, "pages")? {
        fs::remove_file(old)?;
    }
    let mut command = Command::new(program);
    command.arg("--collect").arg(&folder);
    command.args(options.rest.iter());
    if !options.input.is_empty() {
        command.arg("--input").args(&options.input);
    }
    if !run_in_front(&mut command)?.success() {
        bail!("no pages to measure with");
    }
    Ok(folder)
}

/// MiB of the guest that is short of memory, and of its program's data.
const SHORT_MEMORY: u64 = 256;

/// A program that needs one and a half times the memory, on each kind of swap.
pub fn swap(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments, "6.12")?;
    if let Some(other) = options.rest.first() {
        bail!("there is no argument {other:?}");
    }
    let log = Log::create(&workspace::work_folder("logs")?.join("bench-swap.log"))?;
    let (kernel, module) = match prepare(&log, &options.kernel)? {
        Ok(ready) => ready,
        Err(code) => return Ok(code),
    };
    let tests = workspace::root().join("store/kmod/tests");
    let pages = module_build::guest_program(&log, kernel.recipe, &tests.join("pages.c"))?;
    println!(
        "{} MiB of memory, a program with 1.5 times as much, 30 % of its pages duplicates\n{}\n",
        SHORT_MEMORY,
        setting(&kernel)
    );
    for kind in ["zmeld", "zram", "disk", "none"] {
        let boot = BootOptions {
            script: Some(crate::vm::script(&tests.join("../short-of-memory.sh"))?),
            module: Some(Addition::module(&module)?),
            load: false,
            files: vec![Addition::file("/guest/pages", &pages)?],
            variables: vec![("SWAP".into(), kind.into())],
            memory: SHORT_MEMORY,
            disks: vec![512],
            limit: std::time::Duration::from_secs(1800),
            ..BootOptions::default()
        };
        match run_guest(&kernel, &boot)? {
            Ok(_) => {}
            Err(code) => return Ok(code),
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_is_parted_from_what_people_read() {
        let mut split = JsonSplitter::default();
        for piece in ["a table\n==== zme", "ld JSON ====\r\n{\"a\":", "1}\n"] {
            split.write_all(piece.as_bytes()).unwrap();
        }
        split.end().unwrap();
        assert_eq!(split.json, b"{\"a\":1}\n");
    }

    #[test]
    fn what_is_not_ours_is_handed_on() {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let options = parse(&words("--rounds 3 --kernel 6.1 --json f --input a b"), "um").unwrap();
        assert_eq!(options.kernel, "6.1");
        assert_eq!(options.rest, ["--rounds", "3"]);
        assert_eq!(options.input, ["a", "b"]);
        assert!(parse(&words("--json"), "um").is_err());
    }
}
