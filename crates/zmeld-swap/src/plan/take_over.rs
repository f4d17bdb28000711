//! Compressed swap that somebody else set up (zram-generator, zram-tools, by hand):
//! it gives its place to zmeld's where that is asked for, and is never joined by a
//! second device in silence.

use std::path::{Path, PathBuf};

use crate::config::{Kind, Severity, Trap};
use crate::error::Error;
use crate::import::{import, Tool};
use crate::step::Step;
use crate::steps::SwapOff;

use super::{areas, Draft, Group, Steps};

/// The part of a plan.
const GROUP: &str = "take-over";

impl Draft<'_> {
    /// The steps that switch the other areas off, after zmeld's own are on: what
    /// comes back from them has somewhere to go. What was taken over before stays
    /// so without being asked for again.
    pub(super) fn take_over(&mut self) -> Result<(), Error> {
        let others = self.others_in_ram();
        if !self.options.take_over {
            self.second_device(&others);
        }
        let recorded = self
            .recorded(GROUP)
            .filter_map(|record| match &record.step {
                Step::SwapOff(off) => Some(off.path.clone()),
                _ => None,
            });
        let mut paths: Vec<PathBuf> = recorded.collect();
        if self.options.take_over {
            for other in &others {
                let path = PathBuf::from(&other.path);
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
        }
        if paths.is_empty() || !self.replaces_for_certain() {
            return Ok(());
        }
        let mut steps = Steps {
            name: GROUP,
            records: self.records,
            steps: Vec::new(),
        };
        for path in paths {
            let was = others.iter().find(|other| path == Path::new(&other.path));
            let reason = match was {
                Some(other) => format!(
                    "somebody else set it up ({}); it keeps its settings, and zmeld down swaps to it \
                     again",
                    other.words()
                ),
                None => "zmeld down swaps to it again".to_owned(),
            };
            steps.add(Step::SwapOff(SwapOff { path }), reason);
        }
        let steps = steps.steps;
        self.groups.push(Group {
            name: GROUP.to_owned(),
            optional: false,
            steps,
        });
        self.comes_again_at_boot()
    }

    /// Whether a tier takes the place that does not give up by itself: one that is
    /// optional could fail, and nothing would be swapped to.
    fn replaces_for_certain(&mut self) -> bool {
        let mut tiers = self.groups.iter();
        let sure = tiers.any(|group| Group::is_tier(&group.name) && !group.optional);
        if !sure && self.options.take_over {
            self.warn(
                Trap::SecondDevice,
                GROUP,
                "no tier is certain to take its place: what is swapped to stays (a tier that is \
                 not optional takes it over)"
                    .to_owned(),
            );
        }
        sure
    }

    /// Says what sets the other area up again at the next boot.
    fn comes_again_at_boot(&mut self) -> Result<(), Error> {
        // What it says of sizes is not looked at here.
        let Ok(found) = import(self.host.root(), self.machine.ram_bytes) else {
            return Ok(());
        };
        let in_ram = |tier: &crate::config::Tier| matches!(tier.kind, Kind::Ram(_));
        let tools = found.tools().into_iter().filter(|tool| tool.is_for_ram());
        let ways: Vec<&str> = tools.map(Tool::way_off).collect();
        if !found.config.tiers.iter().any(in_ram) || ways.is_empty() {
            return Ok(());
        }
        self.warn(
            Trap::SecondDevice,
            GROUP,
            format!(
                "what was set up before comes again at the next boot; this switches it off: {}",
                ways.join("; ")
            ),
        );
        Ok(())
    }

    /// Compressed areas that are not zmeld's.
    fn others_in_ram(&self) -> Vec<zmeld_advice::ActiveSwap> {
        let own = self.own_areas();
        let others = self.machine.compressed.iter();
        others
            .filter(|area| !own.contains(&area.path))
            .cloned()
            .collect()
    }

    /// What would stand beside what is there.
    fn second_device(&mut self, others: &[zmeld_advice::ActiveSwap]) {
        let config = self.config;
        for (tier, priority) in areas(config) {
            if !self.asked_for(tier) || matches!(tier.kind, Kind::Disk(_)) {
                continue;
            }
            for other in others {
                let is_zswap = matches!(tier.kind, Kind::Zswap(_));
                let (severity, trap, what) = if is_zswap {
                    let what = "zswap in front of it compresses every page twice";
                    (Severity::Warning, Trap::ZramWithZswap, what)
                } else if other.priority == i64::from(priority) {
                    let what = "with the same priority pages go to both in turn";
                    (Severity::Error, Trap::SecondDevice, what)
                } else {
                    let what = "two devices share the memory, and the first fills before the other";
                    (Severity::Warning, Trap::SecondDevice, what)
                };
                self.problem(
                    severity,
                    trap,
                    &Group::of_tier(tier.name.as_str()),
                    format!(
                        "{} is swapped to already ({}), and this tier would come beside it: {what}; \
                         zmeld up --take-over puts the tier in its place",
                        other.path,
                        other.words()
                    ),
                );
            }
        }
    }
}
