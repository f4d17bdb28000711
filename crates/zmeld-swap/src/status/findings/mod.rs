//! Findings on a machine's swap: the problem, its evidence, and the way out.
//!
//! [`RULES`] is the list: each rule looks at an [`Observation`] and at what was
//! asked for, and says what it found with the numbers that it saw. `docs/findings.md`
//! explains each.
//!
//! | module | what its rules are about |
//! |---|---|
//! | `combination` | tiers that get in each other's way |
//! | `sizing` | limits, sizes, how full |
//! | `upkeep` | what nobody does: writeback, recompression, discards |
//! | `applied` | what was asked for and is not so |
//! | `pressure` | how hard the machine is at it |
//! | `melding` | identical pages; damaged ones |
//!
//! `remedy` has the commands that several of them name.

mod applied;
mod combination;
mod melding;
mod pressure;
mod remedy;
mod sizing;
mod upkeep;
mod view;

use crate::observe::{Device, Observation, Swap};
use crate::status::outstanding::Outstanding;
use view::View;
pub use zmeld_config::{Finding, FindingId, Severity};

pub struct Rule {
    pub id: FindingId,
    /// How much that matters, at most.
    pub severity: Severity,
    check: Check,
}

/// A rule about all there is, once or more often, each device, or each of those that are
/// swapped to.
enum Check {
    One(fn(&View) -> Option<Finding>),
    All(fn(&View) -> Vec<Finding>),
    Device(fn(&View, &Device) -> Option<Finding>),
    Area(fn(&View, &Swap, &Device) -> Option<Finding>),
}

impl View<'_> {
    fn found(&self, check: &Check) -> Vec<Finding> {
        match check {
            Check::One(check) => check(self).into_iter().collect(),
            Check::All(check) => check(self),
            Check::Device(check) => {
                let devices = self.now.devices.iter();
                devices.filter_map(|it| check(self, it)).collect()
            }
            Check::Area(check) => {
                let areas = self.compressed();
                areas
                    .filter_map(|(swap, it)| check(self, swap, it))
                    .collect()
            }
        }
    }
}

macro_rules! rules {
    ($($id:ident, $severity:ident, $of:ident $check:path;)*) => {
        /// Every rule, the gravest first.
        pub const RULES: &[Rule] = &[$(Rule {
            id: FindingId::$id,
            severity: Severity::$severity,
            check: Check::$of($check),
        },)*];
    };
}

rules! {
    VerifyMismatch, Critical, Device melding::mismatch;
    EncodeErrors, Critical, All melding::encode_errors;
    FailedWrites, Critical, Device sizing::failed_writes;
    NotEncrypted, Critical, All applied::in_plain;
    OomKills, Critical, One pressure::oom_kills;
    GroupOomKills, Warning, All pressure::group_oom_kills;
    UnattributedOomKills, Warning, One pressure::unattributed_oom_kills;
    ZramWithZswap, Warning, Area combination::zram_with_zswap;
    SecondDevice, Warning, All combination::second_device;
    LruInversion, Warning, Area combination::lru_inversion;
    EqualPriority, Warning, Area combination::equal_priority;
    Priorities, Warning, Area combination::below_disk;
    ReadableFile, Warning, All upkeep::readable_file;
    Zvol, Warning, All combination::zvol;
    FileInRam, Warning, All combination::file_in_ram;
    Incompressible, Warning, Area sizing::incompressible;
    Hibernation, Warning, One combination::hibernation;
    NotApplied, Warning, All applied::not_applied;
    StandIn, Warning, All applied::stand_in;
    ZswapCompressor, Warning, One applied::zswap_compressor;
    NoMemoryLimit, Warning, Area sizing::no_memory_limit;
    Oversized, Warning, Area sizing::oversized;
    NearLimit, Warning, All sizing::near_limit;
    GroupRefused, Warning, All sizing::group_refused;
    Pressure, Warning, All pressure::high;
    StaleSlots, Warning, Area upkeep::stale_slots;
    DiscardBlocked, Warning, All upkeep::discard_blocked;
    NoWatch, Warning, All upkeep::no_watch;
    MountedWithoutDiscard, Notice, Device upkeep::mounted_without_discard;
    NoRule, Notice, All upkeep::no_rule;
    UnusedRule, Notice, All upkeep::unused_rule;
    TwoGuards, Notice, All upkeep::two_guards;
    TwoReclaimers, Notice, All upkeep::two_reclaimers;
    UnusedZswap, Notice, One combination::unused_zswap;
    Swappiness, Notice, One pressure::swappiness;
    ReadAhead, Notice, One pressure::read_ahead;
    DuplicatesUnused, Notice, Device melding::unused;
}

/// Nobody means data to be lost or to be read: these are shown, whatever is accepted.
const OF_DATA: [FindingId; 4] = [
    FindingId::VerifyMismatch,
    FindingId::EncodeErrors,
    FindingId::FailedWrites,
    FindingId::NotEncrypted,
];

/// Findings now, the gravest first. Those that the configuration accepts (`accept`) are left out. A
/// machine without a configuration is compared with what `zmeld up` was asked for.
pub fn findings(now: &Observation, outstanding: &Outstanding) -> Vec<Finding> {
    let wanted = &outstanding.wanted;
    let view = View {
        now,
        wanted,
        applied: outstanding.applied.as_ref(),
        outstanding,
    };
    let accepted = |id: &FindingId| !OF_DATA.contains(id) && wanted.accept.contains(id);
    let mut all: Vec<Finding> = RULES
        .iter()
        .filter(|rule| !accepted(&rule.id))
        .flat_map(|rule| {
            view.found(&rule.check).into_iter().map(|found| Finding {
                severity: rule.severity.min(found.severity),
                ..found.of(rule.id)
            })
        })
        .collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}
