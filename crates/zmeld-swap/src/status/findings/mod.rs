//! Findings on a machine's swap: the problem, its evidence, and the way out.
//!
//! Each of the [`RULES`] looks at an [`Observation`] and at what was asked for, and says what it
//! found with the numbers that it saw.
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
    /// The file and the name of its function, whose comment begins with its row of
    /// `docs/findings.md`.
    pub function: [&'static str; 2],
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
    ($($id:ident $name:literal $($severity:ident $of:ident $file:ident::$function:ident)?;)*) => {
        /// Every rule, the gravest first.
        pub const RULES: &[Rule] = &[$($(Rule {
            id: FindingId::$id,
            severity: Severity::$severity,
            function: [stringify!($file), stringify!($function)],
            check: Check::$of($file::$function),
        },)?)*];
    };
}

zmeld_config::catalogue!(rules);

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
