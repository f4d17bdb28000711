//! The arguments of several commands, how values are read, and the arguments of those commands
//! that have nothing else of their own.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::Shell;
use zmeld_config::{Bytes, Config, ConfigError, Span};
use zmeld_linux::Host;
use zmeld_scan::survey::{SKETCH, SKETCH_MAX, SKETCH_MIN};
use zmeld_store::CodecSpec;

use crate::exit::EXIT_CODES;
use crate::output::Format;

const SCAN_EXAMPLES: &str = "\
Examples:
  zmeld scan                        the memory of all processes
  zmeld scan --tree 1234            one process and its children
  zmeld scan --cgroup web --shared  a control group, shared memory too
  zmeld scan --cold 60              only pages not touched for a minute
  zmeld scan --swap /dev/zram0      what is in an active swap device
  zmeld scan --file core.1234       a core, a memory dump, any file
  zmeld scan --codecs lz4,zstd:1 --full --json
  zmeld scan --html scan.html       a page with plots
  zmeld scan --csv --programs       who would gain, for a spreadsheet
  zmeld scan --survey /srv/surveys --label role=web
                                    a small file for the report on many machines
  zmeld scan --survey /srv/surveys --quiet
                                    the same from cron

Nothing is changed: pages that are swapped out stay there and are only counted.
(--cold resets the referenced bits of the processes, which the kernel uses to
choose what to swap out.)";

#[derive(Args)]
#[command(after_help = SCAN_EXAMPLES, after_long_help = format!("{SCAN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct ScanArgs {
    #[command(flatten)]
    pub source: SourceArgs,

    /// Codecs to measure: names with levels, such as lz4,zstd:1; or "all"
    ///
    /// A codec is NAME or NAME:LEVEL.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "lzo-rle,lz4,zstd",
        help_heading = "Measuring"
    )]
    pub codecs: CodecList,

    /// Compress every distinct page, not a sample (reads twice)
    #[arg(long, help_heading = "Measuring")]
    pub full: bool,

    /// Threads that read and compress [default: one a processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Measuring")]
    pub threads: Option<u16>,

    #[command(flatten)]
    pub format: Format,

    /// Tell of all programs that would gain, not of ten; with --csv of these, not of codecs
    #[arg(long, help_heading = "Output")]
    pub programs: bool,

    /// Write a self-contained page with plots as well
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,

    /// Exit with 1 if no codec that the kernel has reaches this ratio, pool overhead included
    #[arg(long, value_name = "RATIO", value_parser = parse_rate, help_heading = "Thresholds")]
    pub require_ratio: Option<f64>,

    /// Exit with 1 if less than this share of the pages are duplicates
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, help_heading = "Thresholds")]
    pub require_duplicates: Option<f64>,

    #[command(flatten)]
    pub survey: SurveyArgs,
}

/// Options that a survey excludes: it reads live memory, with its own codecs.
const NOT_IN_SURVEYS: [&str; 14] = [
    "swap",
    "file",
    "raw",
    "page_size",
    "shared",
    "mapped_files",
    "cold",
    "codecs",
    "full",
    "threads",
    "programs",
    "html",
    "require_ratio",
    "require_duplicates",
];

const SKETCHES: RangeInclusive<i64> = SKETCH_MIN as i64..=SKETCH_MAX as i64;

/// A survey: a small file that says what memory holds, for who runs many machines.
#[derive(Args)]
#[command(next_help_heading = "Survey")]
pub struct SurveyArgs {
    /// Write a survey into this folder
    ///
    /// Reads the memory of all processes once, at idle priority, and writes one small
    /// Parquet file: pages of each service, container and virtual machine, what they
    /// would take in a compressed pool, and a sketch of their contents under the
    /// fleet's key. zmeld-fleet reads the surveys of many machines. Where memory is
    /// short, the survey is given up with exit code 75, and only that is written.
    #[arg(long, value_name = "PLACE", conflicts_with_all = NOT_IN_SURVEYS)]
    pub survey: Option<String>,

    /// The fleet's secret [default: /etc/zmeld/fleet.key]
    #[arg(long, value_name = "FILE", requires = "survey")]
    pub key: Option<PathBuf>,

    /// A name and a value that the survey carries; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", requires = "survey")]
    pub labels: Vec<String>,

    /// Take a survey in each period of this length, such as 1d, at a random moment, until stopped
    ///
    /// 10min at least. The first survey comes within ten minutes. Where memory is short,
    /// that survey is left out; any other failure ends the command with its exit code.
    /// SIGTERM and Ctrl-C end it at once, with 0 between two surveys.
    #[arg(long, value_name = "TIME", requires = "survey")]
    pub every: Option<Span>,

    /// Contents that the sketch of each owner keeps
    #[arg(long, value_name = "N", default_value_t = SKETCH, value_parser = clap::value_parser!(u32).range(SKETCHES), requires = "survey")]
    pub sketch: u32,

    /// Make a new secret for a fleet, and nothing else
    #[arg(long, value_name = "FILE", exclusive = true)]
    pub survey_new_key: Option<PathBuf>,
}

/// Which pages to look at. Without any: the memory of all processes.
#[derive(Args)]
#[command(next_help_heading = "Which pages")]
pub struct SourceArgs {
    /// The memory of these processes (commas between them)
    #[arg(long, value_name = "PID", group = "source", value_delimiter = ',', value_parser = parse_pid)]
    pub pid: Vec<i32>,

    /// The memory of a process and its descendants
    #[arg(long, value_name = "PID", group = "source", value_parser = parse_pid)]
    pub tree: Option<i32>,

    /// The memory of a control group's processes: a path, or a name below its mount
    #[arg(long, value_name = "PATH", group = "source")]
    pub cgroup: Option<PathBuf>,

    /// The used slots of an active swap device or file
    #[arg(long, value_name = "DEVICE", group = "source")]
    pub swap: Option<PathBuf>,

    /// A file, block device, ELF core or memory dump; "-" is standard input
    #[arg(long, value_name = "FILE", group = "source")]
    pub file: Option<PathBuf>,

    /// Read --file as plain bytes, even if it looks like a dump
    #[arg(long, requires = "file")]
    pub raw: bool,

    /// Page size of --file and of the kernel to predict for, 4K to 64K [default: this machine's]
    #[arg(long, value_name = "SIZE", requires = "file", value_parser = parse_page_size)]
    pub page_size: Option<usize>,

    /// Shared memory too
    #[arg(long, conflicts_with_all = ["swap", "file"])]
    pub shared: bool,

    /// Unmodified pages of mapped files too, which swap never takes
    #[arg(long, conflicts_with_all = ["swap", "file"])]
    pub mapped_files: bool,

    /// Only pages that are not touched for this long
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["swap", "file"], value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub cold: Option<u32>,
}

/// Which machine is looked at, and what it is compared with.
#[derive(Args, Clone, Debug)]
pub struct MachineArgs {
    /// The configuration [default: /etc/zmeld.toml and its drop-ins]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Read the files of another machine below this directory
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    pub root: PathBuf,
}

impl MachineArgs {
    pub fn host(&self) -> Host {
        Host::at(&self.root)
    }

    /// Its configuration.
    ///
    /// # Errors
    /// When it cannot be read or has a mistake.
    pub fn config(&self) -> Result<Config, ConfigError> {
        Ok(Config::load(&self.root, self.config.as_deref())?.config)
    }
}

/// Error for a root folder that is none.
pub fn no_machine(root: &Path) -> anyhow::Error {
    let root = root.display();
    anyhow::anyhow!(
        "{root} is not the root directory of a machine: it has no proc/meminfo or \
                     sys/block"
    )
}

const CODECS_EXAMPLES: &str = "\
Examples:
  zmeld codecs /usr/bin/python3           every codec at every level
  zmeld codecs --codecs lz4,zstd:1 FILE   just these";

#[derive(Args)]
#[command(after_help = CODECS_EXAMPLES, after_long_help = format!("{CODECS_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct CodecsArgs {
    /// Files, block devices, cores or dumps; "-" is standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Read the files as plain bytes, even if they look like dumps
    #[arg(long, help_heading = "Measuring")]
    pub raw: bool,

    /// Bytes of a page, 4K to 64K [default: this machine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_page_size, help_heading = "Measuring")]
    pub page_size: Option<usize>,

    /// Codecs to measure [default: every codec at every level of interest]
    #[arg(long, value_name = "LIST", help_heading = "Measuring")]
    pub codecs: Option<CodecList>,

    /// Measure at most so many pages, spread over the input
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..), help_heading = "Measuring")]
    pub pages: u64,

    /// Measure all pages
    #[arg(long, conflicts_with = "pages", help_heading = "Measuring")]
    pub full: bool,

    #[command(flatten)]
    pub format: Format,
}

#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// A list of codecs, or all of them.
#[derive(Clone, Debug)]
pub struct CodecList(pub Vec<CodecSpec>);

impl std::str::FromStr for CodecList {
    type Err = String;

    fn from_str(text: &str) -> Result<CodecList, String> {
        if text == "all" {
            let names = zmeld_store::codec::codecs();
            return names
                .iter()
                .map(|codec| codec.name.parse().map_err(|err| format!("{err}")))
                .collect::<Result<_, _>>()
                .map(CodecList);
        }
        let specs: Vec<CodecSpec> = text
            .split(',')
            .map(|spec| spec.trim().parse().map_err(|err| format!("{err}")))
            .collect::<Result<_, _>>()?;
        for (at, spec) in specs.iter().enumerate() {
            if specs[..at]
                .iter()
                .any(|other| other.to_string() == spec.to_string())
            {
                return Err(format!("{spec} is listed twice"));
            }
        }
        Ok(CodecList(specs))
    }
}

/// A page that some kernel has.
fn parse_page_size(text: &str) -> Result<usize, String> {
    match text.parse::<Bytes>()?.0 {
        bytes if bytes.is_power_of_two() && (4 << 10..=64 << 10).contains(&bytes) => {
            Ok(bytes as usize)
        }
        _ => Err(format!(
            "\"{text}\" is no page size; write 4K, 8K, 16K, 32K or 64K"
        )),
    }
}

fn parse_pid(text: &str) -> Result<i32, String> {
    match text.parse::<i32>() {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err("a process is given by its number".to_owned()),
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err(format!("\"{text}\" is not a number above 0")),
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("\"{text}\" is not a percentage from 0 to 100")),
    }
}
