//! The warnings that show with the machine in view. Contradictions, and what a
//! configuration shows by itself, are found where it is read.

use zmeld_config::advice::size::{
    fills_ram, holds, is_oversized, limit_percent, meant_bytes, tenths, FILLED, LIMIT_MAX_PERCENT,
    MARGIN, RATIO_ASSUMED,
};
use zmeld_config::advice::tunables::Unfit;
use zmeld_config::advice::{image, tunables};
use zmeld_report::units::bytes;

use std::path::{Path, PathBuf};

use zmeld_config::{Encryption, Finding, FindingId, Kind, Severity, Source, Swappiness};

use super::parts::{PlanPart, Planner};

/// The sum of devices' bytes, words for several, and the key that is to blame; None without any.
fn together(devices: &[(&str, u64)], key: &str) -> Option<(u64, String, String)> {
    let sum = devices
        .iter()
        .fold(0u64, |sum, it| sum.saturating_add(it.1));
    let (who, key) = match devices {
        [] => return None,
        [(name, _)] => (String::new(), format!("{}.{key}", PlanPart::of_tier(name))),
        [(first, _), ..] => {
            let names: Vec<&str> = devices.iter().map(|it| it.0).collect();
            let who = format!(" (the tiers {} together)", names.join(", "));
            (who, PlanPart::of_tier(first))
        }
    };
    Some((sum, who, key))
}

/// A swap area when the plan is carried out.
struct Area {
    name: String,
    is_asked: bool,
    is_tier: bool,
    is_disk: bool,
    /// Of a disk; the most that there is where nobody can tell.
    size_bytes: u64,
    /// Whether pages go on from it to a drive of its own.
    moves_on: bool,
    priority: i32,
    path: Option<PathBuf>,
}

impl Planner<'_> {
    pub(super) fn warn(&mut self, id: FindingId, key: &str, what: String) {
        self.problem(Severity::Warning, id, key, what);
    }

    pub(super) fn problem(&mut self, severity: Severity, id: FindingId, key: &str, what: String) {
        if !self.config.accept.contains(&id) {
            self.problems.push(Finding::new(severity, key, what).of(id));
        }
    }

    pub(super) fn warnings(&mut self) {
        let config = self.config;
        let ram = self.machine.ram_bytes;
        let (mut unlimited, mut limited, mut sizes) = (Vec::new(), Vec::new(), 0u64);
        for (tier, device) in config.in_ram() {
            let (name, size) = (tier.name.as_str(), device.size.bytes(ram));
            if !self.asked_for(tier) {
                continue;
            }
            // A limit that RAM cannot reach limits nothing.
            let limit = device.memory_limit.map(|it| it.bytes(ram));
            let limit = limit.filter(|it| *it < ram);
            match limit {
                None => unlimited.push((name, size)),
                Some(limit) => {
                    limited.push((name, limit.min(size)));
                    sizes = sizes.saturating_add(size);
                }
            }
            self.idle_limit(name, size, limit);
            self.beyond_limit(name, size, limit);
        }
        self.too_large(&unlimited, &limited, sizes);
        self.high_limits(&limited, sizes);
        self.readable_copies();
        self.hibernation();
        self.order_of_areas();
        if !self.options.only_named {
            self.unfit_tunables();
        }
    }

    /// One drive on which pages are readable makes the others' encryption vain. What lies below
    /// a device, or crypttab opens it from, is looked at.
    fn readable_copies(&mut self) {
        let (mut encrypted, mut readable) = (None, Vec::new());
        for tier in &self.config.tiers {
            let place = tier.kind.place();
            let Some(place) = place.filter(|it| it.device.is_some() && self.asked_for(tier)) else {
                continue;
            };
            let is_own = place.encryption != Encryption::None;
            if is_own || self.is_encrypted_below(&place.path) {
                encrypted = encrypted.or(Some(&tier.name));
            } else {
                readable.push((
                    format!("tier.{}.{}encryption", tier.name, place.table),
                    place,
                ));
            }
        }
        let Some(encrypted) = encrypted else { return };
        let resume = self.machine.resume_from.as_deref().map(Path::new);
        for (key, place) in readable {
            let resolved = self.host.resolved(&place.path);
            let holds_image = self.machine.hibernation.is_some()
                && (resume.is_none() || resume == Some(&*resolved));
            let how = match holds_image && place.table.is_empty() {
                true => "luks",
                false => "random",
            };
            let what = format!(
                "pages are written here as they are, while those of tier.{encrypted} are \
                 encrypted; add encryption = \"{how}\""
            );
            self.warn(FindingId::ReadableCopy, &key, what);
        }
    }

    /// Whether a device is encrypted by itself: dm-crypt is below it, or crypttab opens it.
    fn is_encrypted_below(&self, path: &Path) -> bool {
        let table = self.host.read_optional("/etc/crypttab").ok().flatten();
        let name = path.strip_prefix("/dev/mapper").ok();
        let is_listed = |table: &str| {
            let mut names = table
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            names.any(|it| name == Some(Path::new(it)))
        };
        table.is_some_and(|it| is_listed(&it)) || crate::observe::is_encrypted(self.host, path)
    }

    /// Which areas are filled before which: a RAM device that fills before a disk does, with
    /// nothing that moves its cold pages on, and one beside or below a disk. What tiers are to
    /// each other the configuration shows by itself, but for the first.
    fn order_of_areas(&mut self) {
        let own = self.own_areas();
        let mut areas: Vec<Area> = Vec::new();
        // One that the kernel chooses is below those that there are, or the same from 6.19 on.
        let chosen = |at: usize| match self.machine.kernel_from(6, 19) {
            true => -1,
            false => i32::MIN / 2 - at as i32,
        };
        for (at, (tier, priority)) in self.config.areas().into_iter().enumerate() {
            let place = tier.kind.place();
            areas.push(Area {
                name: PlanPart::of_tier(tier.name.as_str()),
                is_asked: self.asked_for(tier),
                is_tier: true,
                is_disk: tier.kind.is_on_disk(),
                size_bytes: self.size_of(&tier.kind),
                moves_on: place.is_some(),
                priority: match priority < 0 {
                    true => chosen(at),
                    false => priority.into(),
                },
                path: place.map(|it| self.host.resolved(&it.path)),
            });
        }
        for other in &self.machine.swaps {
            let is_known = areas.iter().any(|it| it.path.as_ref() == Some(&other.path));
            if is_known || own.contains(&other.path) || other.is_in_ram() && self.options.take_over
            {
                continue;
            }
            areas.push(Area {
                name: other.shown().to_string(),
                is_asked: false,
                is_tier: false,
                is_disk: !other.is_in_ram(),
                size_bytes: other.size_bytes,
                moves_on: false,
                priority: other.priority,
                path: None,
            });
        }
        // As the recommendation has it: there is little that could be upside down.
        let sizes = areas.iter().filter(|it| it.is_disk).map(|it| it.size_bytes);
        let size = sizes.fold(0, u64::saturating_add);
        let zswap = self.machine.zswap.as_ref();
        let is_little = self.config.zswap().is_none()
            && zswap.is_some_and(|it| it.is_held_back_by(size, self.machine.ram_bytes));
        for ram in areas.iter().filter(|it| !it.is_disk) {
            let disks = areas.iter().filter(|it| it.is_disk);
            let beside = disks.filter(|it| it.is_asked || ram.is_asked);
            let others = beside.clone();
            let others = others.filter(|it| !(it.is_tier && ram.is_tier) || it.priority < 0);
            let key = |disk: &Area| match ram.is_asked {
                true => ram.name.clone(),
                false => disk.name.clone(),
            };
            let is_below = |it: &&Area| {
                let is_meant = is_little && !(it.is_tier && ram.is_tier);
                it.priority < ram.priority && !ram.moves_on && !is_meant
            };
            if let Some(below) = beside.clone().find(is_below) {
                let what = format!(
                    "cold pages stay in {} and hot ones go to {} once it is full; give it a \
                     writeback device instead, or use kind = \"zswap\"",
                    ram.name, below.name
                );
                self.warn(FindingId::LruInversion, &key(below), what);
            }
            if let Some(equal) = others.clone().find(|it| it.priority == ram.priority) {
                let what = format!(
                    "{} and {} share priority {}, so that pages go to RAM and to disk in turn; \
                     give one of them another",
                    ram.name, equal.name, ram.priority
                );
                let key = format!("{}.priority", key(equal));
                self.warn(FindingId::EqualPriority, &key, what);
            }
            if let Some(above) = others.clone().find(|it| it.priority > ram.priority) {
                let what = format!(
                    "{} is filled first, and {}, which is in RAM, only once that is full; give \
                     them other priorities",
                    above.name, ram.name
                );
                let key = format!("{}.priority", key(above));
                self.warn(FindingId::Priorities, &key, what);
            }
        }
    }

    /// How much a disk holds, or a file when it is there.
    fn size_of(&self, kind: &Kind) -> u64 {
        let size = match kind {
            Kind::Disk(disk) => match disk.source() {
                Source::Device(location) => self.host.device_bytes(&location.path()),
                Source::File { path, size } => match self.host.tree().metadata(&path) {
                    Ok(meta) => Some(meta.len()),
                    Err(_) => size.map(|it| it.bytes(self.machine.ram_bytes)),
                },
            },
            Kind::Ram(_) | Kind::Zswap(_) => Some(0),
        };
        size.unwrap_or(u64::MAX)
    }

    /// Tunables that do not suit what is swapped to.
    fn unfit_tunables(&mut self) {
        let (kinds, given) = (self.kinds(), &self.config.tunables);
        let pages = given.page_cluster.map(|pages| pages.0.into());
        let pages = pages.and_then(|pages| tunables::read_ahead(kinds, pages));
        let swappiness = match given.swappiness {
            Some(Swappiness::Value(value)) => tunables::swappiness(kinds, value.0.into()),
            _ => None,
        };
        let (pages, swappiness) = (pages.map(Unfit::in_words), swappiness.map(Unfit::in_words));
        self.found(FindingId::ReadAhead, "tunables.page_cluster", pages);
        self.found(FindingId::Swappiness, "tunables.swappiness", swappiness);
    }

    fn found(&mut self, id: FindingId, key: &str, found: Option<Finding>) {
        if let Some(it) = found {
            self.warn(id, key, format!("{} ({}); {}", it.what, it.why, it.remedy));
        }
    }

    /// Devices without a limit whose pages RAM cannot hold when they are full, beside those of
    /// devices with one, which are of so many bytes together.
    fn too_large(&mut self, devices: &[(&str, u64)], limited: &[(&str, u64)], sizes: u64) {
        let ram = self.machine.ram_bytes;
        let Some((size, who, key)) = together(devices, "size") else {
            return;
        };
        let ratio = self.options.expected_ratio.unwrap_or(RATIO_ASSUMED);
        let most = limited.iter().map(|it| it.1).sum::<u64>();
        let beside = most.min((sizes as f64 / ratio) as u64);
        let full = size as f64 / ratio + beside as f64;
        let meant = meant_bytes(size, devices.len(), rustix::param::page_size() as u64);
        if !fills_ram(meant, full as u64, ram) {
            return;
        }
        let measured = match self.options.expected_ratio {
            Some(_) => "measured here",
            None => "the rule of thumb",
        };
        let severity = match full > ram as f64 {
            true => Severity::Critical,
            false => Severity::Warning,
        };
        let count = devices.len() as u32;
        // With the others' limits they leave a fifth of RAM.
        let left = (FILLED - most as f64 / ram as f64).max(0.0) * 100.0;
        let limit = limit_percent(size, ram, ratio).0.min(left as u32) / count;
        let (each, them) = match count {
            1 => ("", "it"),
            _ => (" for each", "them"),
        };
        let room = ram / 100 * u64::from(limit);
        let expected = self.options.expected_ratio;
        let way_out = match is_oversized(size, room * u64::from(count), expected) {
            _ if limit == 0 => format!("lower limits for the others, or make {them} smaller"),
            true => format!(
                "size = \"{:.0}%\" and memory_limit = \"{limit}%\"{each}",
                100.0 * holds(room, expected) as f64 / ram as f64
            ),
            false => format!("memory_limit = \"{limit}%\"{each}, or make {them} smaller"),
        };
        let beside = match limited {
            [] => "",
            _ => " with those that have a limit",
        };
        let what = format!(
            "nothing limits the memory that {} of pages{who} take: {}{beside} at a ratio of \
             {} ({measured}), more where they compress badly, and the machine has {}; write \
             {way_out}",
            bytes(size),
            bytes(full as u64),
            tenths(ratio),
            bytes(ram)
        );
        self.problem(severity, FindingId::NoMemoryLimit, &key, what);
    }

    /// Limits that leave less than a fifth of RAM to all else, once pages compress badly, of devices that
    /// would be too large without.
    fn high_limits(&mut self, devices: &[(&str, u64)], sizes: u64) {
        let ram = self.machine.ram_bytes;
        let ratio = self.options.expected_ratio.unwrap_or(RATIO_ASSUMED);
        let meant = meant_bytes(sizes, devices.len(), rustix::param::page_size() as u64);
        let is_high =
            |most| fills_ram(0, most, ram) && fills_ram(meant, (sizes as f64 / ratio) as u64, ram);
        let found = together(devices, "memory_limit");
        let Some((most, who, key)) = found.filter(|(most, ..)| is_high(*most)) else {
            return;
        };
        let each = LIMIT_MAX_PERCENT / devices.len().max(1) as u32;
        let of_each = if devices.len() > 1 { " for each" } else { "" };
        let what = format!(
            "pages that compress badly may take {}{who} of the {} that the machine has; write \
             memory_limit = \"{each}%\" or less{of_each}",
            bytes(most),
            bytes(ram)
        );
        self.warn(FindingId::NoMemoryLimit, &key, what);
    }

    /// A limit that a device reaches by no pages of its size, however badly they compress. Up to
    /// a fifth above the size, as far as half of RAM, is not worth a warning; nor is 1 % of RAM,
    /// the least that is advised.
    fn idle_limit(&mut self, name: &str, size: u64, limit: Option<u64>) {
        let ram = self.machine.ram_bytes;
        let percent = (size as f64 * MARGIN * 100.0 / ram.max(1) as f64).ceil();
        let percent = (percent as u32).clamp(1, LIMIT_MAX_PERCENT);
        let most = (u128::from(ram) * u128::from(percent) / 100) as u64;
        let most = most.max(size);
        let Some(limit) = limit.filter(|limit| *limit > most) else {
            return;
        };
        let what = format!(
            "{} limits nothing: the device holds {} of pages before compression; write less, or \
             remove it",
            bytes(limit),
            bytes(size)
        );
        let key = format!("{}.memory_limit", PlanPart::of_tier(name));
        self.warn(FindingId::NoMemoryLimit, &key, what);
    }

    /// A device that is full by its limit, or by RAM, before it is by its size.
    fn beyond_limit(&mut self, name: &str, size: u64, limit: Option<u64>) {
        let measured = self.options.expected_ratio;
        let ram = self.machine.ram_bytes;
        let (whose, way_out) = match limit {
            Some(limit) if limit < ram / 100 * u64::from(LIMIT_MAX_PERCENT) => {
                ("its limit", ", or raise memory_limit")
            }
            Some(_) => ("its limit", ""),
            None => ("RAM", ""),
        };
        let limit = limit.unwrap_or(ram);
        if !is_oversized(size, limit, measured) {
            return;
        }
        let what = format!(
            "{} promises more than {whose} can hold: {} at a ratio of {} hold {}, and writes \
             fail then while swap still seems free; make it smaller{way_out}",
            bytes(size),
            bytes(limit),
            tenths(measured.unwrap_or(RATIO_ASSUMED)),
            bytes(holds(limit, measured))
        );
        let key = format!("{}.size", PlanPart::of_tier(name));
        self.warn(FindingId::Oversized, &key, what);
    }

    /// Warns of an image that cannot be kept with this setup.
    fn hibernation(&mut self) {
        let machine = self.machine;
        let Some(sign) = &machine.hibernation else {
            return;
        };
        let is_said = self.config.disks().any(|(_, disk)| disk.hibernation);
        let from = machine.resume_from.as_deref();
        let resumed = from.filter(|_| is_said).zip(machine.resume_bytes);
        if is_said && resumed.is_none() {
            // How large it is shows when it is on.
            return;
        }
        let disks = machine.swaps.iter().filter(|swap| !swap.is_in_ram());
        let disks = disks.filter_map(|swap| Some((swap.path.to_str()?, swap.size_bytes)));
        let idle = from.filter(|_| !is_said);
        let area = zmeld_linux::hibernation::area(self.host);
        let found = image::lack(
            sign,
            disks.chain(resumed),
            area.as_deref(),
            idle,
            machine.image_bytes,
        );
        self.found(FindingId::Hibernation, "", found);
    }
}
