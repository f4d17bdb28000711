//! `zmeld status`: how memory's tiers are doing, why their numbers differ, and what
//! is wrong.

mod page;

use std::path::Path;

use clap::{Args, ValueEnum};
use serde::Serialize;
use zmeld_observe::{Difference, Headroom, Observation, TierState};
use zmeld_report::Tone;
use zmeld_status::findings::{findings, Finding, Severity};
use zmeld_status::outstanding::Outstanding;

use crate::cli::{Format, MachineArgs};
use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  zmeld status                  the tiers, why their numbers differ, findings
  zmeld status --json | jq .findings
  zmeld status --check          exits with 1 when there is a finding, or a
                                configuration that cannot be read
  zmeld status --check=warning  the same, notices left aside

As root, --check notes the kernel's counters in /run/zmeld, so that the next one can
tell what happened in the last hour. Nothing else is changed. docs/status.md explains
every column and finding.";

/// Arguments of `zmeld status`.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct StatusArgs {
    /// Exit with 1 when there is a finding, of this severity at least
    #[arg(
        long,
        value_name = "SEVERITY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "notice",
        help_heading = "Thresholds"
    )]
    pub check: Option<Least>,

    /// How the result is printed
    #[command(flatten)]
    pub format: Format,

    /// Which machine, and its configuration
    #[command(flatten)]
    pub place: MachineArgs,
}

/// Findings that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Least {
    /// All
    Notice,
    /// Warnings and critical ones
    Warning,
    /// Critical ones
    Critical,
}

impl Least {
    fn severity(self) -> Severity {
        match self {
            Least::Notice => Severity::Notice,
            Least::Warning => Severity::Warning,
            Least::Critical => Severity::Critical,
        }
    }
}

/// The JSON of `zmeld.status/1`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Status {
    /// The tiers, in the order in which a page meets them.
    pub tiers: Vec<TierState>,
    /// How much more programs can take.
    pub headroom: Headroom,
    /// Why the numbers of a tier differ.
    pub differences: Vec<Difference>,
    /// What is wrong, the gravest first.
    pub findings: Vec<Finding>,
    /// All that was read.
    pub observation: Observation,
    /// What keeps the configuration from being compared with; absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_problem: Option<String>,
    /// What keeps the journal of `zmeld up` from being read; absent: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_problem: Option<String>,
}

impl Status {
    /// Looks at a machine and compares it with its configuration.
    pub fn read(place: &MachineArgs) -> Status {
        let host = &place.host();
        let config = place.config();
        // What is wrong in the file is asked for by nobody.
        let outstanding = Outstanding::read(host, config.as_ref().ok());
        let observation = Observation::read(host, page_size());
        let tiers = observation.named_tiers(outstanding.applied.as_ref());
        Status {
            headroom: observation.headroom(&tiers),
            tiers,
            differences: observation.differences(),
            findings: findings(&observation, &outstanding),
            observation,
            configuration_problem: config.err().map(|err| err.to_string()),
            journal_problem: outstanding.journal_problem,
        }
    }
}

/// Bytes of a page on this machine.
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Runs the command.
pub fn run(args: &StatusArgs) -> anyhow::Result<Outcome> {
    let status = Status::read(&args.place);
    if status.tiers.is_empty() && status.observation.memory.total_bytes == 0 {
        anyhow::bail!(
            "cannot read {}: it holds no machine's files (proc/meminfo, sys/block)",
            args.place.root.display()
        );
    }
    output::show(
        &args.format,
        || page::document(&status),
        || page::tiers(&status),
        ("zmeld.status", 1),
        &status,
    )?;
    if args.check.is_some() && args.place.root == Path::new("/") {
        // A monitor asks again: what was counted until now is noted, where this user
        // may. Who may not is told by what root or zmeld watch noted. In another
        // tree nothing is written: its links could lead anywhere.
        let _ = zmeld_observe::lately::note(&args.place.host(), &status.observation);
    }
    let missed = args.check.is_some_and(|least| {
        // What cannot be compared is no all-clear.
        status.configuration_problem.is_some()
            || status
                .findings
                .iter()
                .any(|f| f.severity >= least.severity())
    });
    Ok(match missed {
        true => Outcome::Missed,
        false => Outcome::Done,
    })
}

/// How a finding is shown.
fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Notice => Tone::Neutral,
        Severity::Warning => Tone::Warning,
        Severity::Critical => Tone::Critical,
    }
}
