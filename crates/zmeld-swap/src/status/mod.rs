//! A status: all that was read of a machine's swap, and what is wrong.

pub mod config_check;
pub mod findings;
pub mod metrics;
pub mod outstanding;
pub mod page;
pub mod profile;

use std::path::Path;

use serde::Serialize;
use zmeld_config::{Config, Finding, FindingId};
use zmeld_linux::Host;

use crate::observe::{Accounting, Difference, Headroom, Observation, TierState};
use findings::findings as find;
use outstanding::{Asked, Outstanding};

/// The JSON of `zmeld.status/2`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct Status {
    /// The tiers, in the order in which a page meets them.
    pub tiers: Vec<TierState>,
    /// Use of RAM.
    pub accounting: Accounting,
    /// How much more programs can take.
    pub headroom: Headroom,
    /// Why the numbers of a tier differ.
    pub differences: Vec<Difference>,
    /// Problems, the gravest first.
    pub findings: Vec<Finding>,
    /// All that was read.
    pub observation: Observation,
    /// Reason why the configuration was not compared with; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration_problem: Option<String>,
    /// Reason why the journal of `zmeld up` was not read; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_problem: Option<String>,
}

impl Status {
    /// Looks at a machine and compares it with its configuration, or says what is wrong
    /// with that; and the file that was named for it, where one was.
    pub fn read(host: &Host, config: Result<&Config, String>, named: Option<&Path>) -> Status {
        // A faulty file asks for nothing.
        let outstanding = Outstanding::read(host, config.as_ref().ok().copied(), named);
        let observation = Observation::read(host, rustix::param::page_size() as u64);
        let tiers = observation.named_tiers(outstanding.applied.as_ref());
        let mut findings = find(&observation, &outstanding);
        if let Err(why) = &config {
            findings.insert(0, unread(why, &outstanding.asked));
        }
        Status {
            accounting: observation.accounting(),
            headroom: observation.headroom(&tiers),
            tiers,
            differences: observation.differences(),
            findings,
            observation,
            configuration_problem: config.err(),
            journal_problem: outstanding.journal_problem,
        }
    }
}

/// Nothing of what the file asks for is set up, watched or compared.
fn unread(why: &str, asked: &Asked) -> Finding {
    Finding::of_machine(
        "configuration",
        "it cannot be used: the next boot and the next zmeld up refuse it",
        why,
        format!("{} names each mistake", asked.command("config check")),
    )
    .of(FindingId::ConfigurationUnread)
}
