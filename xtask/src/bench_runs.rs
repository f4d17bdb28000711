//! Benchmarks whose guest prints a line for each run, what reads these lines, and what
//! shows the tables that are made of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use zmeld_report::{Document, Section, Style, Table};

use crate::kernels;
use crate::machine::{self, BootOptions};
use crate::process::Log;
use crate::recipes::{self, Kernel, KernelRecipe, Kind};

/// Arguments common to benchmarks in guests.
#[derive(clap::Args)]
pub struct BenchArguments {
    #[arg(long, value_name = "NAME", default_value = "um", value_parser = recipes::named)]
    kernel: &'static KernelRecipe,
}

impl BenchArguments {
    pub fn kernel(&self, log: &Log) -> Result<Kernel> {
        let name = self.kernel.name;
        let kernel = kernels::provide(log, self.kernel).context(name)?;
        machine::need(&kernel).context(name)?;
        Ok(kernel)
    }
}

/// A caution about the setting, so that nobody takes its figures for more.
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
    let priority = if machine::can_be_urgent(kernel) {
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

/// A line of the guest's: a variant, what was done with it, and what came of it.
pub struct Run {
    pub variant: String,
    pub part: String,
    pub values: BTreeMap<String, f64>,
}

impl Run {
    /// None: it is something else.
    pub fn of_line(line: &str) -> Option<Run> {
        let mut words = line.split_whitespace();
        let variant = words.next()?.to_owned();
        let part = words.next().filter(|word| !word.contains('='))?.to_owned();
        let pairs = words.map(|word| {
            let (name, number) = word.split_once('=')?;
            Some((name.to_owned(), number.parse().ok()?))
        });
        Some(Run {
            variant,
            part,
            values: pairs.collect::<Option<_>>()?,
        })
    }

    pub fn value(&self, name: &str) -> f64 {
        self.values.get(name).copied().unwrap_or(f64::NAN)
    }
}

pub fn of<'a>(runs: &'a [Run], variant: &str, part: &str) -> Vec<&'a Run> {
    runs.iter()
        .filter(|run| run.variant == variant && run.part == part)
        .collect()
}

/// The middle of the runs; none where a run had no such number.
pub fn median(runs: &[&Run], name: &str) -> Option<f64> {
    let values = runs.iter().map(|run| run.values.get(name).copied());
    let mut values: Vec<f64> = values.collect::<Option<_>>()?;
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Boots, with what the guest says on standard error as it comes; what that was.
///
/// # Errors
/// With all that it said where its script did not end well.
pub fn boot(kernel: &Kernel, boot: &BootOptions) -> Result<String> {
    let mut output = Said::default();
    let outcome = machine::run(kernel, boot, &mut output)?;
    let text = String::from_utf8_lossy(&output.0).into_owned();
    for complaint in &outcome.complaints {
        eprintln!("the kernel complained: {complaint}");
    }
    match outcome.code {
        Some(0) => Ok(text),
        Some(code) => bail!("{text}\nthe guest's script ended with {code}"),
        None => bail!("{}\nthe guest ended before its script", outcome.tail()),
    }
}

/// Keeps what a guest says, and shows it as progress.
#[derive(Default)]
struct Said(Vec<u8>);

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.extend_from_slice(bytes);
        std::io::stderr().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

pub fn runs(text: &str) -> Vec<Run> {
    text.lines().filter_map(Run::of_line).collect()
}

/// Prints a benchmark's tables below its title and what they are of.
pub fn show(title: &str, provenance: &[(&str, &str)], tables: &[Table]) -> ExitCode {
    let mut document = Document::new(title);
    for (name, value) in provenance {
        document = document.provenance(name, *value);
    }
    for table in tables.iter().filter(|table| !table.is_empty()) {
        document = document.section(Section::new("").table(table.clone()));
    }
    print!("{}", document.to_text(&Style::plain(80)));
    ExitCode::SUCCESS
}
