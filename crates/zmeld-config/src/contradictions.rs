//! Faults of a configuration as a whole, known without a machine: contradictions, and warnings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zmeld_linux::amount::Percent;

use crate::check::{Check, Found};
use crate::config::Config;
use crate::finding::FindingId;
use crate::mistakes::{nearest, Places};
use crate::settings::GuardRule;
use crate::tier::{MeldMode, Place, RamDevice, Size, Tier};

/// All that is wrong with a configuration whose values were all understood.
pub(super) fn check(config: &Config, places: &Places) -> Found {
    let mut check = Check {
        accept: &config.accept,
        found: Found::default(),
    };
    for tier in &config.tiers {
        let key = format!("tier.{}", tier.name);
        tier.kind.check(&key, tier, &config.tiers, &mut check);
    }
    check.places_twice(config);
    check.priorities(config);
    check.limits_together(config);
    check.hibernation(config);
    check.watch(config);
    check.reclaim(config);
    check.guard(config);
    check.metrics(config);
    let mut found = check.found;
    for problem in found.of_values.iter_mut().chain(&mut found.of_several) {
        problem.place = nearest(places, &problem.about).cloned();
    }
    found
}

impl Check<'_> {
    fn places_twice(&mut self, config: &Config) {
        // A tag is a link, and `//` is `/`.
        let mut seen: BTreeMap<PathBuf, String> = BTreeMap::new();
        for tier in &config.tiers {
            let Some(Place {
                table,
                device,
                path,
                ..
            }) = tier.kind.place().filter(|it| it.path != Path::new(""))
            else {
                continue;
            };
            let (shown, key) = match device {
                Some(device) => (device.to_string(), "device"),
                None => (path.display().to_string(), "file"),
            };
            let key = format!("tier.{}.{table}{key}", tier.name);
            if let Some(other) = seen.get(&path) {
                let what =
                    format!("{shown} is used by {other} already; each needs a place of its own");
                self.error(&key, what);
            } else {
                seen.insert(path, key);
            }
        }
    }

    fn priorities(&mut self, config: &Config) {
        let areas = config.areas();
        for pair in areas.windows(2) {
            let ((one, high), (other, low)) = (&pair[0], &pair[1]);
            let (one_name, name) = (&one.name, &other.name);
            let (id, what) =
                if high == low && one.kind.is_on_disk() != other.kind.is_on_disk() && *high >= 0 {
                    let what = format!(
                    "tier.{one_name} and tier.{name} share priority {high}, so that pages go to \
                     RAM and to disk in turn; give the disk a lower one"
                );
                    (FindingId::EqualPriority, what)
                } else if high < low {
                    let what = format!(
                    "tier.{name} is filled first (priority {low}, tier.{one_name} has {high}), \
                     though it stands below it; exchange the tiers or the priorities"
                );
                    (FindingId::Priorities, what)
                } else if high > low && one.kind.is_on_disk() && !other.kind.is_on_disk() {
                    let what = format!(
                    "tier.{one_name} is a disk and is filled first, and tier.{name}, which is in \
                     RAM, only once that is full; put tier.{name} above it"
                );
                    (FindingId::Priorities, what)
                } else {
                    continue;
                };
            let key = format!("tier.{name}.priority");
            self.warning(id, &key, what);
        }
    }

    fn limits_together(&mut self, config: &Config) {
        let limits = config.in_ram();
        let limits = limits.filter_map(|(tier, device)| match device.memory_limit? {
            Size::Ram { percent, at_most } => at_most.is_none().then_some((&tier.name, percent)),
            _ => None,
        });
        let limits: Vec<_> = limits.collect();
        let sum: Percent = limits.iter().map(|it| it.1).sum();
        // A single limit above 100 % was reported where it stands.
        let is_several = config.in_ram().count() > 1;
        if let (Some((name, _)), true) = (limits.last(), sum > Percent::whole(100) && is_several) {
            let what = format!("the limits add up to {sum} of RAM; 100% is all there is");
            self.error(&format!("tier.{name}.memory_limit"), what);
        }
    }

    fn hibernation(&mut self, config: &Config) {
        let mut hosts = config.disks().filter(|(_, disk)| disk.hibernation);
        let Some((Tier { name: first, .. }, _)) = hosts.next() else {
            return;
        };
        for (second, _) in hosts {
            let what = format!("tier.{first} has it already; an image is in one place");
            self.error(&format!("tier.{}.hibernation", second.name), what);
        }
        if let Some((ram, _)) = config.in_ram().next() {
            let what = format!(
                "pages in tier.{} are part of the hibernation image and cannot be swapped out \
                 before it, so hibernation may fail; use zswap instead",
                ram.name
            );
            let key = format!("tier.{first}.hibernation");
            self.warning(FindingId::Hibernation, &key, what);
        }
    }

    fn watch(&mut self, config: &Config) {
        let with = |has: fn(&RamDevice) -> bool| {
            let found = config.in_ram().find(|(_, device)| has(device));
            found.map(|(tier, _)| &tier.name)
        };
        let watch = &config.watch;
        // A rule and a tier that it is for need each other.
        let rules = [
            (
                "recompress",
                watch.recompress.is_some(),
                with(|device| !device.recompress.is_empty()),
                "no tier has a list of codecs to recompress with; add one",
            ),
            (
                "writeback",
                watch.writeback.is_some(),
                with(|device| device.writeback.is_some()),
                "no tier has a writeback device; add one",
            ),
            (
                "meld",
                watch.meld.is_some(),
                with(|device| device.meld != MeldMode::Off),
                "no tier melds pages; add a tier with kind = \"zmeld\"",
            ),
        ];
        for (name, is_given, tier, unused) in rules {
            let (id, key, what) = match tier {
                Some(tier) if !is_given && name != "meld" => (
                    FindingId::NoRule,
                    format!("tier.{tier}.{name}"),
                    format!(
                        "the kernel does not use it by itself; add [watch.{name}] and run \
                             zmeld watch"
                    ),
                ),
                // Without tiers the rules are for what others set up.
                None if is_given && !config.tiers.is_empty() => (
                    FindingId::UnusedRule,
                    format!("watch.{name}"),
                    format!("{unused}, or remove the rule"),
                ),
                _ => continue,
            };
            self.warning(id, &key, what);
        }
    }

    fn reclaim(&mut self, config: &Config) {
        let Some(rule) = &config.watch.reclaim else {
            return;
        };
        if rule.step == Percent::whole(0) {
            let what = "0% reclaims nothing; write more, or enabled = false";
            self.error_of_value("watch.reclaim.step", what);
        }
        let both = rule.groups.iter().filter(|it| rule.protect.contains(it));
        for both in both.filter(|it| !it.matches("/")) {
            let what = format!(
                "\"{both}\" is in groups, too, and nothing is reclaimed from it; remove it from \
                 one of them"
            );
            self.warning(FindingId::UnusedRule, "watch.reclaim.protect", what);
        }
        if rule.groups.is_empty() {
            let what = "from no group nothing is reclaimed; write [\"/\"] for all, or enabled = \
                        false";
            self.error_of_value("watch.reclaim.groups", what);
        }
        if rule.protect.iter().any(|pattern| pattern.matches("/")) {
            let what = "\"/\" protects all that there is; name some groups, or write enabled = \
                        false";
            self.error_of_value("watch.reclaim.protect", what);
        }
    }

    fn guard(&mut self, config: &Config) {
        let Some(rule) = &config.watch.guard else {
            return;
        };
        if rule.room_below < rule.end_below {
            let (room, end) = (rule.room_below, rule.end_below);
            let (key, is_less) = match room == GuardRule::default().room_below {
                true => (
                    "end_below",
                    format!("{end} is more than room_below, which is {room} by default"),
                ),
                false => (
                    "room_below",
                    format!("{room} is less than end_below, {end}"),
                ),
            };
            let what = format!(
                "{is_less}: memory is reclaimed before programs are ended; write room_below = \
                 \"{end}\" or more"
            );
            self.error(&format!("watch.guard.{key}"), what);
        }
        if rule.protect.iter().any(|pattern| pattern.matches("/")) {
            let what = "\"/\" protects all that there is; name some, or write enabled = false";
            self.error_of_value("watch.guard.protect", what);
        }
        if rule.on_end.first().is_some_and(|it| !it.starts_with('/')) {
            let what = "the program is written with its path: on_end = [\"/path\", \"argument\"]";
            self.error_of_value("watch.guard.on_end", what);
        }
    }

    fn metrics(&mut self, config: &Config) {
        let path = config.metrics.textfile.as_ref();
        if let Some(path) = path.filter(|it| it.extension().is_none_or(|it| it != "prom")) {
            let what = format!(
                "node_exporter reads files whose names end in .prom only; write \"{}.prom\"",
                path.display()
            );
            self.error_of_value("metrics.textfile", what);
        }
    }
}
