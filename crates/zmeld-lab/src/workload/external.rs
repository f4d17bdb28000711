//! Commands that are installed, and what can be read from what they print.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zmeld_linux::shell;

/// A command.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// How its output is read.
    #[serde(default)]
    pub reads: OutputFormat,
    /// Description of its data, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// The package that has it, for the message where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
}

/// How a command's output is read.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// Not at all.
    #[default]
    Nothing,
    /// `7zz b`: speeds and ratings.
    SevenZip,
    /// `sysbench memory run`.
    Sysbench,
    /// Lines that are `name=number` and nothing else: the command's own figures.
    Figures,
}

impl ExternalCommand {
    pub(crate) fn describe(&self) -> String {
        let data = self.data.as_ref().map(|data| format!("; data: {data}"));
        self.name() + &data.unwrap_or_default()
    }

    /// Whether its program is there, as far as names tell.
    pub fn is_there(&self) -> bool {
        let program = self.command.first();
        program.is_some_and(|name| zmeld_vm::on_path(name).is_some())
    }

    /// What is run, as a shell takes it.
    pub fn name(&self) -> String {
        let words: Vec<String> = self.command.iter().map(|it| shell::word(it)).collect();
        shown(&words.join(" "))
    }
}

/// A script's beginning says enough.
const SHOWN_CHARS: usize = 120;

fn shown(command: &str) -> String {
    let one_line = command.split_whitespace().collect::<Vec<_>>().join(" ");
    match one_line.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{} ...", &one_line[..end]),
        None => one_line,
    }
}

impl OutputFormat {
    /// A command's figures in what it printed, and whether it says that it verified its result.
    pub fn read(self, text: &str) -> (BTreeMap<String, f64>, bool) {
        match self {
            OutputFormat::Nothing => (BTreeMap::new(), false),
            OutputFormat::SevenZip => (seven_zip(text), true),
            OutputFormat::Sysbench => (sysbench(text), false),
            OutputFormat::Figures => (own_figures(text), false),
        }
    }

    /// Whether a command that ended by itself says that it got no memory.
    pub fn lacked_memory(self, code: Option<i32>) -> bool {
        self == OutputFormat::SevenZip && code == Some(SEVEN_ZIP_NO_MEMORY)
    }
}

/// 7-Zip's exit code when it gets no memory.
const SEVEN_ZIP_NO_MEMORY: i32 = 8;

/// `24:  27  46  58  27  |  5112 ...`: for each dictionary the speed in KiB/s, usage, rating, twice.
fn seven_zip(text: &str) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for line in text.lines() {
        let Some((dictionary, rest)) = line.split_once(':') else {
            continue;
        };
        let Ok(bits) = dictionary.trim().parse::<u32>() else {
            continue;
        };
        for (name, half) in ["compress", "decompress"].iter().zip(rest.split('|')) {
            let numbers: Vec<f64> = half
                .split_whitespace()
                .map_while(|x| x.parse().ok())
                .collect();
            if let [speed, usage, ..] = numbers[..] {
                figures.insert(format!("dict_{bits}_{name}_kib_per_s"), speed);
                // The largest dictionary comes last: what the run is about.
                figures.insert(format!("{name}_kib_per_s"), speed);
                figures.insert(format!("dict_{bits}_{name}_cpu_percent"), usage);
            }
        }
    }
    figures
}

/// `65536.00 MiB transferred (160.23 MiB/sec)`.
fn sysbench(text: &str) -> BTreeMap<String, f64> {
    let rate = text.lines().find_map(|line| {
        let (_, rate) = line.split_once("transferred (")?;
        rate.split_whitespace().next()?.parse().ok()
    });
    rate.map(|rate| ("mib_per_s".to_owned(), rate))
        .into_iter()
        .collect()
}

/// `requests_per_s=1234.5`: a name of lower-case letters, digits and underscores.
fn own_figures(text: &str) -> BTreeMap<String, f64> {
    let is_name = |name: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain)
    };
    let figures = text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once('=')?;
        let value: f64 = value.parse().ok()?;
        (is_name(name) && value.is_finite()).then(|| (name.to_owned(), value))
    });
    figures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read() {
        let text = "Dict     Speed Usage    R/U Rating  |      Speed Usage    R/U Rating\n\
                    \x20        KiB/s     %   MIPS   MIPS  |      KiB/s     %   MIPS   MIPS\n\n\
                    22:       4117   100   4008   4006  |      51433    99   4436   4390\n\
                    24:         27    46     66     31  |      49013   100   4303   4302\n\
                    Avr:  1 2 3 4\n";
        let figures = seven_zip(text);
        assert_eq!(figures["dict_24_compress_kib_per_s"], 27.0);
        assert_eq!(figures["dict_22_decompress_cpu_percent"], 99.0);
        assert_eq!(figures["compress_kib_per_s"], 27.0);
        assert_eq!(figures.len(), 10);
        let text = "1024.00 MiB transferred (160.50 MiB/sec)\n";
        assert_eq!(sysbench(text)["mib_per_s"], 160.5);
        let own = own_figures("work_s=1.5\nA=3\nwork_s is 4\nrate_2=7\nx=inf\nx = 3\n");
        let expected = [("work_s".to_owned(), 1.5), ("rate_2".to_owned(), 7.0)];
        assert_eq!(own, expected.into());
    }
}
