//! The traps that show with the machine in view. Contradictions, and what a
//! configuration shows by itself, are found where it is read.

use zmeld_advice::size::{holds, is_oversized, RATIO_ASSUMED};
use zmeld_report::units::bytes;

use zmeld_config::{Finding, FindingId, Kind, RamDevice, Severity, Swappiness};

use super::{Draft, Group};
use zmeld_observe::image::Image;

impl Draft<'_> {
    pub(super) fn warn(&mut self, trap: FindingId, key: &str, what: String) {
        self.problem(Severity::Warning, trap, key, what);
    }

    pub(super) fn problem(&mut self, severity: Severity, trap: FindingId, key: &str, what: String) {
        if !self.config.accept.contains(&trap) {
            self.problems
                .push(Finding::new(severity, key, what).of(trap));
        }
    }

    pub(super) fn traps(&mut self) {
        let config = self.config;
        let ram = config.tiers.iter().filter_map(|tier| match &tier.kind {
            Kind::Ram(device) if self.asked_for(tier) => Some((tier.name.to_string(), device)),
            _ => None,
        });
        let all: Vec<_> = ram.collect();
        for (name, device) in &all {
            self.too_large(name, device);
        }
        self.too_large_together(&all);
        self.hibernation();
        self.lru_inversion();
        if let Some((first, _)) = all.first() {
            self.others_below(first);
        }
        if !self.options.only_named {
            self.unfit_tunables();
        }
    }

    /// A RAM device that fills before the disk does, with nothing that moves its cold
    /// pages on.
    fn lru_inversion(&mut self) {
        let areas = self.config.areas();
        for (tier, _, priority) in &areas {
            let Kind::Ram(device) = &tier.kind else {
                continue;
            };
            let is_below = |(it, _, disk): &&(&zmeld_config::Tier, _, i16)| {
                matches!(it.kind, Kind::Disk(_)) && disk < priority
            };
            let below = areas.iter().find(is_below);
            let below = below.filter(|_| device.writeback.is_none() && self.asked_for(tier));
            let Some((disk, ..)) = below else { continue };
            let what = format!(
                "cold pages stay in tier.{} and hot ones go to tier.{} once it is full; give it a \
                 writeback device instead of the disk tier, or use kind = \"zswap\"",
                tier.name, disk.name
            );
            let key = Group::of_tier(tier.name.as_str());
            self.warn(FindingId::LruInversion, &key, what);
        }
    }

    /// Tunables that do not suit what is swapped to, by the bounds that a status has.
    fn unfit_tunables(&mut self) {
        let (kinds, tunables) = (self.kinds(), &self.config.tunables);
        let (fits, pages) = (kinds.page_cluster(), tunables.page_cluster);
        if let Some(pages) = pages.filter(|pages| fits.is_some_and(|fits| *pages > fits)) {
            let what = format!(
                "{} pages are decompressed for each that is needed, and nothing is gained by \
                 reading ahead in RAM; write 0",
                1 << pages
            );
            self.warn(FindingId::ReadAhead, "tunables.page_cluster", what);
        }
        let least = kinds.swappiness_min();
        if let (Some(least), Some(Swappiness::Value(value))) = (least, tunables.swappiness) {
            if value < least {
                let what = format!(
                    "{value} is low for swap in RAM: caches are dropped, and read from disk again, \
                     before cold pages are compressed; write {least} at least, 150 suits it"
                );
                self.warn(FindingId::Swappiness, "tunables.swappiness", what);
            }
        }
    }

    /// Devices without a limit that are each smaller than RAM, and not together.
    fn too_large_together(&mut self, all: &[(String, &RamDevice)]) {
        let ram = self.machine.ram_bytes;
        let unlimited = all.iter().filter(|(_, it)| it.memory_limit.is_none());
        let sizes: Vec<u64> = unlimited
            .clone()
            .map(|(_, it)| it.size.bytes(ram))
            .collect();
        let sum = sizes
            .iter()
            .fold(0u64, |sum, size| sum.saturating_add(*size));
        if sum < ram || sizes.iter().any(|size| *size >= ram) {
            return;
        }
        let names: Vec<&str> = unlimited.map(|(name, _)| name.as_str()).collect();
        self.warn(
            FindingId::NoMemoryLimit,
            "",
            format!(
                "the tiers {} take {} of pages together, RAM is {}, and nothing limits the \
                 memory they use when they compress badly; add memory_limit to each",
                names.join(", "),
                bytes(sum),
                bytes(ram)
            ),
        );
    }

    /// A device whose pages RAM cannot hold when it is full.
    fn too_large(&mut self, name: &str, device: &RamDevice) {
        let ram = self.machine.ram_bytes;
        let size = device.size.bytes(ram);
        if let Some(limit) = &device.memory_limit {
            self.beyond_limit(name, size, limit.bytes(ram).min(ram));
            return;
        }
        let ratio = self.options.expected_ratio.unwrap_or(RATIO_ASSUMED);
        let full = size as f64 / ratio;
        if full <= 0.8 * ram as f64 {
            if size >= ram {
                self.warn(
                    FindingId::NoMemoryLimit,
                    &format!("{}.size", Group::of_tier(name)),
                    format!(
                        "{} takes pages as large as RAM ({}) and more, and nothing limits the \
                         memory they use when they compress badly; add memory_limit = \"50%\"",
                        device.size,
                        bytes(ram)
                    ),
                );
            }
            return;
        }
        let measured = match self.options.expected_ratio {
            Some(_) => "measured here",
            None => "the rule of thumb",
        };
        let severity = if full > ram as f64 {
            Severity::Critical
        } else {
            Severity::Warning
        };
        self.problem(
            severity,
            FindingId::NoMemoryLimit,
            &format!("{}.size", Group::of_tier(name)),
            format!(
                "{} of pages at a ratio of {ratio:.1} ({measured}) take {} when it is full, and \
                 the machine has {}; add memory_limit = \"50%\", or make it smaller",
                bytes(size),
                bytes(full as u64),
                bytes(ram)
            ),
        );
    }

    /// A device that is full by its limit before it is by its size.
    fn beyond_limit(&mut self, name: &str, size: u64, limit: u64) {
        let measured = self.options.expected_ratio;
        if !is_oversized(size, limit, measured) {
            return;
        }
        self.problems.push(Finding::new(
            Severity::Warning,
            format!("{}.size", Group::of_tier(name)),
            format!(
                "{} promises more than its limit can hold: {} at a ratio of {:.1} hold {}, and \
                 writes fail then while swap still seems free; make it smaller, or raise \
                 memory_limit",
                bytes(size),
                bytes(limit),
                measured.unwrap_or(RATIO_ASSUMED),
                bytes(holds(limit, measured))
            ),
        ));
    }

    /// Whether the image can be kept once this is set up.
    fn hibernation(&mut self) {
        let Some(sign) = self.machine.hibernation.clone() else {
            return;
        };
        let said = |tier: &zmeld_config::Tier| match &tier.kind {
            Kind::Disk(disk) => disk.hibernation,
            _ => false,
        };
        let is_said = self.config.tiers.iter().any(said);
        let resumed = self.machine.resume_from.clone().filter(|_| is_said);
        let resumed = resumed.zip(self.machine.resume_bytes);
        if is_said && resumed.is_none() {
            // How large it is shows when it is on.
            return;
        }
        let disks = self.machine.swaps.iter().filter(|swap| !swap.is_in_ram());
        let disks = disks.filter_map(|swap| Some((swap.path.to_str()?, swap.size_bytes)));
        let resumed = resumed.as_ref().map(|(path, size)| (path.as_str(), *size));
        let image = Image {
            resume: &sign,
            largest: disks.chain(resumed).max_by_key(|(_, size)| *size),
            idle: match is_said {
                true => None,
                false => self.machine.resume_from.as_deref(),
            },
            bytes: self.machine.image_bytes,
        };
        if let Some(lack) = image.lack() {
            let what = format!("{} ({}); {}", lack.what, lack.why, lack.remedy);
            self.warn(FindingId::Hibernation, "", what);
        }
    }

    /// Swap that somebody else switched on, filled only when RAM is.
    fn others_below(&mut self, first: &str) {
        // As the recommendation has it: there is little that could be upside down.
        if self.machine.has_little_disk_swap() {
            return;
        }
        let own = self.own_areas();
        let mut others = self
            .machine
            .swaps
            .iter()
            .filter(|swap| !swap.is_in_ram() && !own.contains(&swap.path));
        let Some(other) = others.next() else { return };
        let what = format!(
            "{} is swapped to as well (priority {}): once this tier is full, cold pages stay in \
             it and hot ones go to the disk; give the tier a writeback device, or use kind = \
             \"zswap\"",
            other.shown(),
            other.priority
        );
        self.warn(FindingId::LruInversion, &Group::of_tier(first), what);
    }
}
