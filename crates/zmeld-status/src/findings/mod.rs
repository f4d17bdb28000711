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

use zmeld_advice::SwapKinds;

use crate::outstanding::Outstanding;
use zmeld_config::Config;
pub use zmeld_config::{Finding, FindingId, Severity};
use zmeld_observe::applied::Applied;
use zmeld_observe::{Device, Observation, Swap};

/// A rule.
pub struct Rule {
    /// What it finds.
    pub id: FindingId,
    /// How much that matters, at most.
    pub severity: Severity,
    check: fn(&View) -> Vec<Finding>,
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
    ($($id:ident, $severity:ident, $check:path;)*) => {
        /// Every rule, the gravest first.
        pub const RULES: &[Rule] = &[$(Rule {
            id: FindingId::$id,
            severity: Severity::$severity,
            check: $check,
        },)*];
    };
}

rules! {
    VerifyMismatch, Critical, melding::mismatch;
    EncodeErrors, Critical, melding::encode_errors;
    FailedWrites, Critical, sizing::failed_writes;
    NotEncrypted, Critical, applied::in_plain;
    OomKills, Critical, pressure::oom_kills;
    GroupOomKills, Warning, pressure::group_oom_kills;
    ZramWithZswap, Warning, combination::zram_with_zswap;
    SecondDevice, Warning, combination::second_device;
    LruInversion, Warning, combination::lru_inversion;
    EqualPriority, Warning, combination::equal_priority;
    Hibernation, Warning, combination::hibernation;
    NotApplied, Warning, applied::not_applied;
    StandIn, Warning, applied::stand_in;
    ZswapCompressor, Warning, applied::zswap_compressor;
    NoMemoryLimit, Warning, sizing::no_memory_limit;
    Oversized, Warning, sizing::oversized;
    NearLimit, Warning, sizing::near_limit;
    ZswapFull, Warning, sizing::zswap_full;
    GroupRefused, Warning, sizing::group_refused;
    Pressure, Warning, pressure::high;
    LowRatio, Warning, content::low_ratio;
    StaleSlots, Warning, upkeep::stale_slots;
    DiscardBlocked, Warning, upkeep::discard_blocked;
    UnreadableNotes, Warning, upkeep::unreadable_notes;
    NoWatch, Warning, upkeep::no_watch;
    MountedWithoutDiscard, Notice, upkeep::mounted_without_discard;
    UnusedRule, Notice, upkeep::nothing_fires;
    TwoGuards, Notice, upkeep::two_guards;
    TwoReclaimers, Notice, upkeep::two_reclaimers;
    Incompressible, Notice, content::incompressible;
    SameFilled, Notice, content::same_filled;
    Swappiness, Notice, pressure::swappiness;
    ReadAhead, Notice, pressure::read_ahead;
    DuplicatesUnused, Notice, melding::unused;
    PassNotWorth, Notice, melding::not_worth;
}

/// Nobody means data to be lost or to be read: these are shown, whatever is accepted.
const OF_DATA: [FindingId; 4] = [
    FindingId::VerifyMismatch,
    FindingId::EncodeErrors,
    FindingId::FailedWrites,
    FindingId::NotEncrypted,
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
    let accepted = |id: &FindingId| !OF_DATA.contains(id) && wanted.accept.contains(id);
    let mut all: Vec<Finding> = RULES
        .iter()
        .filter(|rule| !accepted(&rule.id))
        .flat_map(|rule| {
            (rule.check)(&view).into_iter().map(|found| Finding {
                severity: rule.severity.min(found.severity),
                ..found.of(rule.id)
            })
        })
        .collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}
