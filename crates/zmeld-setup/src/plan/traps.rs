//! The traps that only show with the machine in view. Those that a
//! configuration shows by itself are found where it is read.

use zmeld_advice::size::{holds, is_oversized, RATIO_ASSUMED};
use zmeld_report::units::bytes;

use zmeld_config::{at_least_ram, Finding, FindingId, Kind, RamDevice, Severity};

use super::{Draft, Group};
use zmeld_observe::image::Image;

/// A table is warned of that takes one part in so many of RAM.
const TABLE_PART: u64 = 50;

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
        let mut ram = config.tiers.iter().filter_map(|tier| match &tier.kind {
            Kind::Ram(device) if self.asked_for(tier) => Some((tier.name.to_string(), device)),
            _ => None,
        });
        let Some(first) = ram.next() else {
            self.hibernation();
            return;
        };
        let all: Vec<_> = std::iter::once(first).chain(ram).collect();
        for (name, device) in &all {
            self.too_large(name, device);
        }
        self.too_large_together(&all);
        self.hibernation();
        self.others_below(&all[0].0);
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
        self.costly_table(name, device.size.bytes(ram));
        let size = device.size.bytes(ram);
        if let Some(limit) = &device.memory_limit {
            self.beyond_limit(name, size, limit.bytes(ram).min(ram));
            return;
        }
        let ratio = self.options.expected_ratio.unwrap_or(RATIO_ASSUMED);
        let full = size as f64 / ratio;
        if full <= 0.8 * ram as f64 {
            // What the file shows by itself is said where it is read.
            if size >= ram && !at_least_ram(&device.size) {
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

    /// A device that takes much RAM before a page is stored in it.
    fn costly_table(&mut self, name: &str, size: u64) {
        let (ram, table) = (self.machine.ram_bytes, super::ram::table_bytes(size));
        if table < ram / TABLE_PART {
            return;
        }
        self.problems.push(Finding::new(
            Severity::Warning,
            format!("{}.size", Group::of_tier(name)),
            format!(
                "to keep account of the pages of {} GiB takes {} MiB of RAM, {} % of it, before \
                 any is stored; a smaller size saves it",
                size >> 30,
                table >> 20,
                (table as f64 / ram as f64 * 100.0).round()
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
            let what = format!("{} ({}); {}", lack.what, lack.evidence, lack.way_out);
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
