//! Compressed swap that somebody else set up (zram-generator, zram-tools, by hand):
//! it gives its place to zmeld's where that is asked for, and is never joined by a
//! second device in silence.

use zmeld_config::advice::beside::IN_FRONT;
use zmeld_config::advice::{beside, ActiveSwap, CompressedPlace};

use crate::migrate::import::{import, Imported};
use crate::setup::error::Error;
use crate::setup::step::Step;
use crate::setup::steps::SwapOff;
use zmeld_config::{Discard, Finding, FindingId, Kind, Severity};

use super::parts::{areas, PlanPart, Planner, Steps};

pub(crate) const PART: &str = "take-over";

/// The discard option that the areas' tool sets: the kernel does not say it of an area that is on.
/// None where its devices differ in that.
fn discard_of(found: &Imported) -> Discard {
    let mut all = found.config.in_ram().map(|(tier, _)| tier.swap.discard);
    let first = all.next().unwrap_or_default();
    match all.all(|other| other == first) {
        true => first,
        false => Discard::None,
    }
}

impl Planner<'_> {
    /// The steps that switch the other areas off, after zmeld's own are on: what
    /// comes back from them has somewhere to go. Areas taken over before stay so
    /// without being asked for again.
    pub(super) fn take_over(&mut self) -> Result<(), Error> {
        let others = self.others_in_ram();
        let recorded = self.recorded(PART).filter_map(|record| match &record.step {
            Step::SwapOff(off) => Some(off.clone()),
            _ => None,
        });
        let mut taken: Vec<SwapOff> = recorded.collect();
        let known = taken.len();
        let sure = self.replaces_for_certain();
        if self.options.take_over {
            for other in &others {
                let path = other.area.path.clone();
                if !taken.iter().any(|off| off.path == path) {
                    taken.push(SwapOff {
                        path,
                        discard: Discard::None,
                    });
                }
            }
        }
        let goes = |it: &ActiveSwap| sure && taken.iter().any(|off| off.path == it.area.path);
        let stay: Vec<&ActiveSwap> = others.iter().filter(|it| !goes(it)).collect();
        self.second_device(&stay);
        if taken.is_empty() || !sure {
            return Ok(());
        }
        // Imported sizes are not looked at here.
        let found = import(self.host.root(), self.machine.ram_bytes).ok();
        let discard = found.as_ref().map_or(Discard::None, discard_of);
        for off in &mut taken[known..] {
            off.discard = discard;
        }
        let mut steps = Steps::new(PART, self.records);
        for off in taken {
            let was = others.iter().find(|other| off.path == other.area.path);
            let reason = match was {
                Some(other) => format!(
                    "somebody else set it up ({}); it keeps its settings, and zmeld down swaps to it \
                     again",
                    other.words()
                ),
                None => "zmeld down swaps to it again".to_owned(),
            };
            steps.add(Step::SwapOff(off), reason);
        }
        self.groups.push(steps.part(false));
        self.comes_again_at_boot(found.as_ref());
        Ok(())
    }

    /// Whether a tier takes the place that does not give up by itself: one that is
    /// optional could fail, and nothing would be swapped to.
    fn replaces_for_certain(&self) -> bool {
        let mut tiers = self.groups.iter();
        tiers.any(|part| PlanPart::is_tier(&part.name) && !part.optional)
    }

    /// Says what sets the other area up again at the next boot.
    fn comes_again_at_boot(&mut self, found: Option<&Imported>) {
        let Some(found) = found else {
            return;
        };
        let ways = found.ways_off(true);
        if found.config.in_ram().next().is_none() || ways.is_empty() {
            return;
        }
        // No warning to accept: who accepts a second device is not told of one at boot.
        self.problems.push(Finding::new(
            Severity::Warning,
            PART,
            format!(
                "the earlier set-up returns at the next boot; this switches it off: {}",
                ways.join("; ")
            ),
        ));
    }

    /// Compressed areas that are not zmeld's.
    fn others_in_ram(&self) -> Vec<ActiveSwap> {
        let own = self.own_areas();
        let others = self.machine.compressed.iter();
        others
            .filter(|area| !own.contains(&area.area.path))
            .cloned()
            .collect()
    }

    /// Refuses a tier beside others' compressed swap, unless it is meant. A tier that stands there
    /// already is not taken away again for it.
    fn second_device(&mut self, others: &[&ActiveSwap]) {
        let config = self.config;
        let ram = self.machine.ram_bytes;
        let page_size = rustix::param::page_size() as u64;
        for (asked, priority) in areas(config) {
            let Some((warning, place)) = conflict(&asked.kind, ram, priority) else {
                continue;
            };
            if !self.asked_for(asked) {
                continue;
            }
            // --take-over does not help where the tier could fail.
            let way_out = match self.options.take_over {
                false => {
                    "keep its settings, if a file of another tool has them: zmeld config import; \
                     replace it: zmeld up --take-over"
                }
                true => {
                    "no tier is certain to take its place: one that is not optional takes it over"
                }
            };
            let part = PlanPart::of_tier(asked.name.as_str());
            let (severity, comes) = match self.is_active(&asked.kind, &part) {
                true => (Severity::Warning, "this tier is"),
                false => (Severity::Critical, "this tier would come"),
            };
            for other in others {
                let what = match place {
                    Some(place) => beside(place, CompressedPlace::of(other, page_size), ram),
                    None => IN_FRONT.to_owned(),
                };
                self.problem(
                    severity,
                    warning,
                    &part,
                    format!(
                        "{} is swapped to already ({}), and {comes} beside it: {what}; \
                         {way_out}",
                        other.area.shown(),
                        other.words()
                    ),
                );
            }
        }
    }

    /// Whether it is on, as an earlier run set it up.
    fn is_active(&self, kind: &Kind, part: &str) -> bool {
        let mut recorded = self.recorded(part);
        match kind {
            Kind::Zswap(_) => {
                let zswap = self.machine.zswap.as_ref();
                recorded.next().is_some() && zswap.is_some_and(|it| it.is_enabled)
            }
            Kind::Ram(_) | Kind::Disk(_) => !self.areas_of(recorded).is_empty(),
        }
    }
}

/// Its conflict with others' compressed swap: the warning, and its place among swap areas where it
/// is one. None: they do not get in each other's way.
fn conflict(
    kind: &Kind,
    ram_bytes: u64,
    priority: i16,
) -> Option<(FindingId, Option<CompressedPlace>)> {
    match kind {
        Kind::Ram(device) => {
            let limit = device.memory_limit.map_or(0, |it| it.bytes(ram_bytes));
            let size = device.size.bytes(ram_bytes);
            let priority = i32::from(priority);
            let place = CompressedPlace::device(device.slot_table(), priority, size, limit);
            Some((FindingId::SecondDevice, Some(place)))
        }
        Kind::Zswap(_) => Some((FindingId::ZramWithZswap, None)),
        Kind::Disk(_) => None,
    }
}
