//! `zmeld status`: how memory's tiers are doing, why their numbers differ, and what
//! is wrong.

use std::path::Path;

use clap::Args;
use zmeld_lab::experiment::{self, Running};
use zmeld_swap::status::findings::Severity;
use zmeld_swap::status::{page, Status};

use super::setup::names;
use crate::args::{no_machine, MachineArgs};
use crate::exit::{Outcome, EXIT_CODES};
use crate::output::{self, Format};

const EXAMPLES: &str = "\
Examples:
  zmeld status                  the tiers, why their numbers differ, findings
  zmeld status --json | jq .findings
  zmeld status --check          exits with 1 when there is a finding, or a
                                configuration that cannot be read
  zmeld status --check=warning  the same, notices left aside

As root, --check notes the kernel's counters in /run/zmeld, so that the next one
can tell what happened since. Nothing else is changed. docs/status.md explains
every column, docs/findings.md every finding.";

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
        value_parser = names::<Severity>(),
        help_heading = "Thresholds"
    )]
    pub check: Option<Severity>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub place: MachineArgs,
}

pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// The status of a machine beside its configuration.
pub fn read(place: &MachineArgs) -> anyhow::Result<Status> {
    let config = place.config();
    let config = config.as_ref().map_err(ToString::to_string);
    let status = Status::read(&place.host(), config, place.config.as_deref());
    match status.tiers.is_empty() && status.observation.memory.total_bytes == 0 {
        true => Err(no_machine(&place.root)),
        false => Ok(status),
    }
}

pub fn run(args: &StatusArgs) -> anyhow::Result<Outcome> {
    let status = read(&args.place)?;
    output::show(
        &args.format,
        || {
            let document = page::document(&status);
            match experiment::running() {
                Running::Yes(who) if args.place.root == Path::new("/") => document.provenance(
                    "experiment",
                    format!("running ({who}): its temporary swap is in all of this"),
                ),
                _ => document,
            }
        },
        || page::tiers(&status.tiers),
        ("zmeld.status", 2),
        &status,
    )?;
    if args.check.is_some() && args.place.root == Path::new("/") {
        // A monitor asks again: what was counted until now is noted, where this user
        // may. Other users read the notes of root or zmeld watch. In another
        // tree nothing is written: its links could lead anywhere.
        let _ = zmeld_swap::observe::lately::note(&args.place.host(), &status.observation.lately);
    }
    let missed = args.check.is_some_and(|least| {
        // A failed comparison is no all-clear.
        status.configuration_problem.is_some()
            || status.findings.iter().any(|f| f.severity >= least)
    });
    Ok(match missed {
        true => Outcome::Missed,
        false => Outcome::Done,
    })
}
