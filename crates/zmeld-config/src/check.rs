//! What can be known to be wrong without a machine: contradictions, and warnings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::read::Places;
use super::*;
use crate::finding::{Finding, Severity};

/// All that is wrong with a configuration whose values were all understood.
pub(super) fn check(config: &Config, places: &Places) -> Vec<Finding> {
    let mut check = Check {
        places,
        accept: &config.accept,
        problems: Vec::new(),
    };
    for tier in &config.tiers {
        let key = format!("tier.{}", tier.name);
        match &tier.kind {
            Kind::Ram(device) => check.ram(device, &key),
            Kind::Disk(disk) => check.disk(disk, tier.optional, &key),
            Kind::Zswap(_) => {}
        }
    }
    check.tiers_together(config);
    check.places_twice(config);
    check.priorities(config);
    check.encryption_together(config);
    check.limits_together(config);
    check.hibernation(config);
    check.watch(config);
    check.reclaim(config);
    check.guard(config);
    check.metrics(config);
    check.problems
}

struct Check<'a> {
    places: &'a Places,
    accept: &'a [FindingId],
    problems: Vec<Finding>,
}

/// What is said of a rule that has nothing to make room with, and nothing to end.
pub const GUARDS_NOTHING: &str =
    "without end nothing is ended, and no other rule is there to make room with; name the groups \
     that may be ended (end = [\"/user.slice\"]), add [watch.reclaim], or remove [watch.guard]";

impl Check<'_> {
    fn add(&mut self, severity: Severity, id: Option<FindingId>, key: &str, what: String) {
        if id.is_some_and(|id| self.accept.contains(&id)) {
            return;
        }
        self.problems.push(Finding {
            place: read::place(self.places, key).cloned(),
            id,
            ..Finding::new(severity, key, what)
        });
    }

    fn error(&mut self, key: &str, what: impl Into<String>) {
        self.add(Severity::Critical, None, key, what.into());
    }

    fn warning(&mut self, id: FindingId, key: &str, what: impl Into<String>) {
        self.add(Severity::Warning, Some(id), key, what.into());
    }

    fn ram(&mut self, device: &RamDevice, key: &str) {
        self.recompression(device, key);
        for (at, codec) in device.codec.iter().enumerate() {
            let name = &codec.name;
            if device.codec[..at].iter().any(|it| it.name == *name) {
                let what = format!("{name} is listed twice; the second is never used, remove it");
                self.error(&format!("{key}.codec[{at}]"), what);
            }
        }
        if let Some(limit) = &device.memory_limit {
            let is_more = |percent: Percent| percent > Percent::whole(100);
            let is_above_ram = matches!(
                *limit,
                Size::Ram { percent, at_most: None } if is_more(percent)
            );
            if is_above_ram {
                let what = format!("{limit} is more than all of RAM; write at most 100%");
                self.error(&format!("{key}.memory_limit"), what);
            }
        }
        if let Some(writeback) = &device.writeback {
            let key = format!("{key}.writeback.device");
            self.device(&writeback.device, &key);
            self.overwritten(&writeback.device, &key, "the backing device");
        }
    }

    fn recompression(&mut self, device: &RamDevice, key: &str) {
        let list = &device.recompress;
        let key = format!("{key}.recompress");
        if list.len() > 3 {
            let what = format!("zram takes 3 more codecs, not {}; remove some", list.len());
            self.error(&key, what);
            return;
        }
        for (at, Recompression { priority, codec }) in list.iter().enumerate() {
            let key = format!("{key}[{at}]");
            let before = &list[..at];
            if device.codec.contains(codec) {
                let why = "is what the pages are compressed with already";
                self.error(
                    &key,
                    format!("{codec} {why}; choose another codec or level"),
                );
            }
            if before.iter().any(|other| other.priority == *priority) {
                let why = "is taken by another codec of the list; give each its own, 1 to 3";
                self.error(&key, format!("priority {priority} {why}"));
            }
            if before.iter().any(|other| other.codec == *codec) {
                self.error(&key, format!("{codec} is listed twice"));
            }
        }
    }

    fn disk(&mut self, disk: &DiskSwap, optional: bool, key: &str) {
        match &disk.source {
            Source::Device(device) => {
                let key = format!("{key}.device");
                self.device(device, &key);
                if let Encryption::Random { .. } = disk.encryption {
                    self.overwritten(device, &key, "the area");
                }
            }
            Source::File { path, .. } => {
                self.file(path, &format!("{key}.file"));
                if disk.encryption != Encryption::None {
                    let what = "is for devices; put the file on an encrypted file system, or use \
                                a partition";
                    self.error(&format!("{key}.encryption"), what);
                }
            }
        }
        if let Encryption::Luks { key_file, .. } = &disk.encryption {
            if in_ram(key_file) || key_file.starts_with("/dev") {
                let what = format!(
                    "{} does not outlive a reboot, and without it the volume stays shut; put it \
                     below /etc",
                    key_file.display()
                );
                self.error(&format!("{key}.key_file"), what);
            }
        }
        if disk.hibernation && disk.encryption_is_random() {
            let what = "the key is new at each boot, so the image could not be read back; use \
                        encryption = \"luks\" or hibernate elsewhere";
            self.error(&format!("{key}.hibernation"), what);
        }
        if disk.hibernation && optional {
            let what = "the image of hibernation is on a drive that may be missing; it is lost \
                        with it";
            self.warning(FindingId::Hibernation, &format!("{key}.optional"), what);
        }
    }

    fn device(&mut self, device: &Location, key: &str) {
        let Location::Path(path) = device else { return };
        let shown = path.display();
        if !path.starts_with("/dev") || path == Path::new("/dev") {
            let what =
                format!("{shown} is not below /dev; for a swap file write file = \"{shown}\"");
            self.error(key, what);
        } else if is_ram_device(path) {
            let what = format!("{shown} is in RAM itself; name a drive, or use kind = \"zram\"");
            self.error(key, what);
        }
    }

    fn file(&mut self, path: &Path, key: &str) {
        let shown = path.display();
        let mut no_place = ["/dev", "/proc", "/sys"].iter();
        if no_place.any(|no| path.starts_with(no)) {
            let way_out = format!("for a device write device = \"{shown}\"");
            self.error(key, format!("{shown} is no place for a file; {way_out}"));
        } else if in_ram(path) {
            let what = format!(
                "{shown} is often kept in RAM, where a swap file cannot be; put it on a disk, such \
                 as /var/swap"
            );
            self.warning(FindingId::FileInRam, key, what);
        }
    }

    /// A device of which nothing is kept, found again by its name alone.
    fn overwritten(&mut self, device: &Location, key: &str, what: &str) {
        match device {
            Location::Tag { tag, .. } if !device.outlives_its_contents() => {
                let what = format!(
                    "{device} is written over with {what}, so the device would not be found \
                     again; use PART{tag}= or a path below /dev/disk/by-id"
                );
                self.error(key, what);
            }
            Location::Path(path) if !is_stable(path) => {
                let what = format!(
                    "{device} may be another drive after a reboot, and it is written over with \
                     {what}; use PARTUUID= or a path below /dev/disk/by-id"
                );
                self.warning(FindingId::UnstableName, key, what);
            }
            _ => {}
        }
    }

    fn tiers_together(&mut self, config: &Config) {
        let zswaps = config.tiers.iter();
        let mut zswaps = zswaps.filter(|it| matches!(it.kind, Kind::Zswap(_)));
        let Some(zswap) = zswaps.next() else { return };
        for second in zswaps {
            let what = "the kernel has one zswap; put its settings into one tier";
            self.error(&format!("tier.{}", second.name), what);
        }
        if let Some((ram, _)) = config.in_ram().next() {
            let what = format!(
                "zswap compresses the pages first and passes on what is left, so that tier.{} \
                 holds pages that were compressed before and its figures mislead; keep one of the \
                 two",
                ram.name
            );
            let warning = Some(FindingId::ZramWithZswap);
            self.add(
                Severity::Critical,
                warning,
                &format!("tier.{}", zswap.name),
                what,
            );
        }
    }

    fn places_twice(&mut self, config: &Config) {
        // A tag is a link, and `//` is `/`.
        let mut seen: BTreeMap<PathBuf, String> = BTreeMap::new();
        for tier in &config.tiers {
            let of_device = |device: &Location| (device.path(), device.to_string());
            let ((place, shown), key) = match &tier.kind {
                Kind::Disk(disk) => match &disk.source {
                    Source::Device(device) => (of_device(device), "device"),
                    Source::File { path, .. } => {
                        ((path.clone(), path.display().to_string()), "file")
                    }
                },
                Kind::Ram(device) => match &device.writeback {
                    Some(writeback) => (of_device(&writeback.device), "writeback.device"),
                    None => continue,
                },
                Kind::Zswap(_) => continue,
            };
            let key = format!("tier.{}.{key}", tier.name);
            if let Some(other) = seen.get(&place) {
                let what =
                    format!("{shown} is used by {other} already; each needs a place of its own");
                self.error(&key, what);
            } else {
                seen.insert(place, key);
            }
        }
    }

    fn priorities(&mut self, config: &Config) {
        let areas = config.areas();
        for pair in areas.windows(2) {
            let ((one, _, high), (other, _, low)) = (&pair[0], &pair[1]);
            let is_disk = |tier: &Tier| matches!(tier.kind, Kind::Disk(_));
            let (one_name, name) = (&one.name, &other.name);
            let what = if high == low && is_disk(one) != is_disk(other) && *high >= 0 {
                format!(
                    "tier.{one_name} and tier.{name} share priority {high}, so that pages go to \
                     RAM and to disk in turn; give the disk a lower one"
                )
            } else if high < low {
                format!(
                    "tier.{name} is filled first (priority {low}, tier.{one_name} has {high}), \
                     though it stands below it; exchange the tiers or the priorities"
                )
            } else {
                continue;
            };
            let key = format!("tier.{name}.priority");
            self.warning(FindingId::Priorities, &key, what);
        }
    }

    /// One drive on which pages are readable makes the others' encryption vain.
    fn encryption_together(&mut self, config: &Config) {
        let mut encrypted = None;
        let mut readable = Vec::new();
        for tier in &config.tiers {
            let (encryption, key) = match &tier.kind {
                Kind::Disk(disk) if matches!(disk.source, Source::Device(_)) => {
                    (&disk.encryption, "encryption")
                }
                Kind::Ram(device) => match &device.writeback {
                    Some(writeback) => (&writeback.encryption, "writeback.encryption"),
                    None => continue,
                },
                _ => continue,
            };
            match encryption {
                Encryption::None => readable.push(format!("tier.{}.{key}", tier.name)),
                _ => encrypted = Some(&tier.name),
            }
        }
        let Some(encrypted) = encrypted else { return };
        for key in readable {
            let what = format!(
                "pages are written here as they are, while those of tier.{encrypted} are \
                 encrypted; add encryption = \"random\""
            );
            self.warning(FindingId::ReadableCopy, &key, what);
        }
    }

    fn limits_together(&mut self, config: &Config) {
        let limits = config.in_ram();
        let limits = limits.filter_map(|(tier, device)| match device.memory_limit? {
            Size::Ram { percent, at_most } => at_most.is_none().then_some((&tier.name, percent)),
            _ => None,
        });
        let limits: Vec<_> = limits.collect();
        let sum: f64 = limits.iter().map(|it| it.1.fraction() * 100.0).sum();
        // A single limit above 100 % was reported where it stands.
        let is_several = config.in_ram().count() > 1;
        if let (Some((name, _)), true) = (limits.last(), sum > 100.0 && is_several) {
            let what = format!("the limits add up to {sum}% of RAM; 100% is all there is");
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
            let (key, what) = match tier {
                Some(tier) if !is_given && name != "meld" => (
                    format!("tier.{tier}.{name}"),
                    format!(
                        "the kernel does not use it by itself; add [watch.{name}] and run \
                             zmeld watch"
                    ),
                ),
                None if is_given => (
                    format!("watch.{name}"),
                    format!("{unused}, or remove the rule"),
                ),
                _ => continue,
            };
            self.warning(FindingId::UnusedRule, &key, what);
        }
    }

    fn reclaim(&mut self, config: &Config) {
        let Some(rule) = &config.watch.reclaim else {
            return;
        };
        if rule.step == Percent::whole(0) {
            let what = "0% reclaims nothing; write more, or enabled = false";
            self.error("watch.reclaim.step", what);
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
            self.error("watch.reclaim.groups", what);
        }
        if rule.protect.iter().any(|pattern| pattern.matches("/")) {
            let what = "\"/\" protects all that there is; name some groups, or write enabled = \
                        false";
            self.error("watch.reclaim.protect", what);
        }
    }

    fn guard(&mut self, config: &Config) {
        let Some(rule) = &config.watch.guard else {
            return;
        };
        for (key, why) in rule.problems() {
            self.error(&format!("watch.guard.{key}"), why);
        }
        for (number, pattern) in rule.end.iter().enumerate() {
            if !zmeld_guard::rule::is_all(pattern) && is_of_all_services(pattern) {
                let what = format!(
                    "\"{pattern}\" is all services of the system, which others need; name those \
                     that may be ended"
                );
                let key = format!("watch.guard.end[{number}]");
                self.warning(FindingId::EndsServices, &key, what);
            }
        }
        // With another rule it makes room, and with groups it ends them.
        if rule.end.is_empty() && config.watch.is_guard_alone() {
            self.warning(FindingId::UnusedRule, "watch.guard", GUARDS_NOTHING);
        }
    }

    fn metrics(&mut self, config: &Config) {
        let path = config.metrics.textfile.as_ref();
        if let Some(path) = path.filter(|it| it.extension().is_none_or(|it| it != "prom")) {
            let what = format!(
                "node_exporter reads files whose names end in .prom only; write {}.prom",
                path.display()
            );
            self.error("metrics.textfile", what);
        }
    }
}

/// Whether each service of the system is meant, whatever it is called, or what all of them are
/// in.
fn is_of_all_services(pattern: &GroupPattern) -> bool {
    // Names that nobody gives a service.
    let services = ["/system.slice/0.service", "/system.slice/\u{1}.service"];
    services.iter().all(|path| pattern.matches(path)) || pattern.matches("/system.slice")
}

/// Folders that are in RAM, or are on many machines.
fn in_ram(path: &Path) -> bool {
    ["/tmp", "/run", "/dev/shm", "/var/run"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

fn is_ram_device(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let rest = name.map(|name| name.trim_end_matches(|c: char| c.is_ascii_digit()));
    rest != name && matches!(rest, Some("zram" | "zmeld" | "ram"))
}

/// Whether a path below `/dev` keeps meaning the same drive.
fn is_stable(path: &Path) -> bool {
    let stable = [
        "/dev/disk/by-id",
        "/dev/disk/by-partuuid",
        "/dev/disk/by-partlabel",
        "/dev/disk/by-path",
        "/dev/mapper",
    ];
    // A volume group's directory: /dev/GROUP/VOLUME.
    let volume = path.components().count() == 4 && !path.starts_with("/dev/disk");
    volume || stable.iter().any(|folder| path.starts_with(folder))
}
