//! What is wrong with a machine's swap, how one can tell, and what to do about it.
//!
//! [`RULES`] is the list: each rule looks at an [`Observation`] and at what was
//! asked for, and says what it found with the numbers that it saw. `docs/status.md`
//! explains each.
//!
//! | module | what its rules are about |
//! |---|---|
//! | `combination` | tiers that get in each other's way |
//! | `sizing` | limits, sizes, how full |
//! | `content` | what the pages are like |
//! | `upkeep` | what nobody does: writeback, recompression, discards |
//! | `applied` | what was asked for and is not so |
//! | `pressure` | how hard the machine is at it |
//! | `melding` | identical pages; damaged ones |

mod applied;
mod combination;
mod content;
mod melding;
mod pressure;
mod sizing;
mod upkeep;

use serde::Serialize;
use zmeld_advice::SwapKinds;

use zmeld_config::Config;
use zmeld_observe::applied::Applied;
use zmeld_observe::{Device, Observation, Swap};
use zmeld_setup::outstanding::Outstanding;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Could be better.
    Notice,
    /// Costs memory or time now, or will when memory gets short.
    Warning,
    /// Data is damaged, or requests fail.
    Critical,
}

impl Severity {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// The rule's name, which stays the same.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The tier, device or setting that it is about.
    pub subject: String,
    /// What is wrong, a sentence.
    pub what: String,
    /// The numbers that say so.
    pub evidence: String,
    /// What to do: a command, or a line of the configuration.
    pub remedy: String,
}

/// A rule.
pub struct Rule {
    /// Its name.
    pub id: &'static str,
    /// How much what it finds matters, at most.
    pub severity: Severity,
    check: fn(&View) -> Vec<Found>,
}

/// What a rule says, without what is the rule's.
struct Found {
    subject: String,
    what: String,
    evidence: String,
    remedy: String,
    at_most: Severity,
}

impl Found {
    fn new(
        subject: impl Into<String>,
        what: impl Into<String>,
        evidence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Found {
        Found {
            subject: subject.into(),
            what: what.into(),
            evidence: evidence.into(),
            remedy: remedy.into(),
            at_most: Severity::Critical,
        }
    }

    /// It matters less than what the rule finds else.
    fn at_most(mut self, severity: Severity) -> Found {
        self.at_most = severity;
        self
    }
}

/// What rules look at.
struct View<'a> {
    now: &'a Observation,
    wanted: &'a Config,
    applied: Option<&'a Applied>,
    outstanding: &'a Outstanding,
}

impl<'a> View<'a> {
    /// Compressed devices that are swap, with their areas.
    fn compressed(&self) -> impl Iterator<Item = (&'a Swap, &'a Device)> + '_ {
        self.now
            .swaps
            .iter()
            .filter_map(|swap| Some((swap, self.now.device_of(swap)?)))
    }

    /// Whether zmeld set that area up.
    fn is_own(&self, swap: &Swap) -> bool {
        let applied = self.applied;
        applied.is_some_and(|applied| applied.tier_on(&swap.area.shown()).is_some())
    }

    /// Swap areas that are on drives.
    fn disks(&self) -> impl Iterator<Item = &'a Swap> + '_ {
        self.now
            .swaps
            .iter()
            .filter(|swap| self.now.device_of(swap).is_none())
    }

    /// What is swapped to.
    fn kinds(&self) -> SwapKinds {
        SwapKinds {
            in_ram: self.compressed().next().is_some(),
            on_disk: self.disks().next().is_some(),
            on_spinning_disk: self.disks().any(|disk| disk.stand.is_spinning()),
        }
    }

    /// Devices that hold enough to judge by.
    fn filled(&self) -> impl Iterator<Item = &'a Device> + '_ {
        self.now
            .devices
            .iter()
            .filter(|device| device.in_memory_bytes() >= JUDGED_FROM)
    }
}

/// Whether a group is, or is in, one of zmeld's own experiments, which reach their
/// limits on purpose.
fn is_experiment(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with("zmeld-lab-"))
}

/// Below this, shares and ratios are chance.
const JUDGED_FROM: u64 = zmeld_advice::codec::JUDGED_FROM;

macro_rules! rules {
    ($($id:literal, $severity:ident, $check:path;)*) => {
        /// Every rule, the gravest first.
        pub const RULES: &[Rule] = &[$(Rule {
            id: $id,
            severity: Severity::$severity,
            check: $check,
        },)*];
    };
}

rules! {
    "verify-mismatch", Critical, melding::mismatch;
    "encode-errors", Critical, melding::encode_errors;
    "failed-writes", Critical, sizing::failed_writes;
    "not-encrypted", Critical, applied::in_plain;
    "oom-kills", Critical, pressure::oom_kills;
    "group-oom-kills", Warning, pressure::group_oom_kills;
    "zram-with-zswap", Warning, combination::zram_with_zswap;
    "second-device", Warning, combination::second_device;
    "lru-inversion", Warning, combination::lru_inversion;
    "equal-priority", Warning, combination::equal_priority;
    "hibernation", Warning, combination::hibernation;
    "not-applied", Warning, applied::not_applied;
    "stand-in", Warning, applied::stand_in;
    "zswap-compressor", Warning, applied::zswap_compressor;
    "no-memory-limit", Warning, sizing::no_memory_limit;
    "oversized", Warning, sizing::oversized;
    "near-limit", Warning, sizing::near_limit;
    "zswap-full", Warning, sizing::zswap_full;
    "group-refused", Warning, sizing::group_refused;
    "pressure", Warning, pressure::high;
    "low-ratio", Warning, content::low_ratio;
    "stale-slots", Warning, upkeep::stale_slots;
    "discard-blocked", Warning, upkeep::discard_blocked;
    "unreadable-notes", Warning, upkeep::unreadable_notes;
    "no-watch", Warning, upkeep::no_watch;
    "mounted-without-discard", Notice, upkeep::mounted_without_discard;
    "unused-rule", Notice, upkeep::nothing_fires;
    "two-guards", Notice, upkeep::two_guards;
    "two-reclaimers", Notice, upkeep::two_reclaimers;
    "incompressible", Notice, content::incompressible;
    "same-filled", Notice, content::same_filled;
    "swappiness", Notice, pressure::swappiness;
    "read-ahead", Notice, pressure::read_ahead;
    "duplicates-unused", Notice, melding::unused;
    "pass-not-worth", Notice, melding::not_worth;
}

/// Nobody means data to be lost or to be read: these are shown, whatever is accepted.
const OF_DATA: [&str; 4] = [
    "verify-mismatch",
    "encode-errors",
    "failed-writes",
    "not-encrypted",
];

/// What is wrong now, the gravest first. What the configuration accepts by name
/// (`accept`) is left out. A machine without a configuration is compared with what
/// `zmeld up` was asked for.
pub fn findings(now: &Observation, outstanding: &Outstanding) -> Vec<Finding> {
    let wanted = &outstanding.wanted;
    let view = View {
        now,
        wanted,
        applied: outstanding.applied.as_ref(),
        outstanding,
    };
    let accepted =
        |id: &str| !OF_DATA.contains(&id) && wanted.accept.iter().any(|trap| trap.name() == id);
    let mut all: Vec<Finding> = RULES
        .iter()
        .filter(|rule| !accepted(rule.id))
        .flat_map(|rule| {
            (rule.check)(&view).into_iter().map(|found| Finding {
                id: rule.id,
                severity: rule.severity.min(found.at_most),
                subject: found.subject,
                what: found.what,
                evidence: found.evidence,
                remedy: found.remedy,
            })
        })
        .collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}
