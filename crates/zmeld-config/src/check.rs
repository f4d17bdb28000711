//! What can be known to be wrong without a machine: contradictions, and traps.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::codec::OF_ZMELD_ALONE;
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

    fn warning(&mut self, trap: FindingId, key: &str, what: impl Into<String>) {
        self.add(Severity::Warning, Some(trap), key, what.into());
    }

    fn ram(&mut self, device: &RamDevice, key: &str) {
        self.recompression(device, key);
        for (at, codec) in device.codec.iter().enumerate() {
            if device.codec[..at].iter().any(|it| it.name == codec.name) {
                self.error(
                    &format!("{key}.codec[{at}]"),
                    format!(
                        "{} is listed twice; the second is never used, remove it",
                        codec.name
                    ),
                );
            }
        }
        let again = device.recompress.iter().map(|it| ("recompress", &it.codec));
        let codecs = device
            .codec
            .iter()
            .map(|codec| ("codec", codec))
            .chain(again);
        for (of, codec) in codecs {
            if device.driver == RamDriver::Zram && codec.name == OF_ZMELD_ALONE {
                self.error(
                    &format!("{key}.{of}"),
                    format!(
                        "zram has no {OF_ZMELD_ALONE}; write kind = \"zmeld\", or another codec"
                    ),
                );
            }
        }
        if let Some(limit) = &device.memory_limit {
            if matches!(limit, Size::Ram { percent, at_most: None } if *percent > Percent::whole(100))
                || *limit == Size::Ufpr
            {
                self.error(
                    &format!("{key}.memory_limit"),
                    format!("{limit} is more than all of RAM; write at most 100%"),
                );
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
            self.error(
                &key,
                format!("zram takes 3 more codecs, not {}; remove some", list.len()),
            );
            return;
        }
        for (at, recompression) in list.iter().enumerate() {
            let codec = &recompression.codec;
            if device.codec.contains(codec) {
                self.error(
                    &format!("{key}[{at}]"),
                    format!(
                        "{codec} is what the pages are compressed with already; choose another \
                         codec or level"
                    ),
                );
            }
            if list[..at]
                .iter()
                .any(|other| other.priority == recompression.priority)
            {
                self.error(
                    &format!("{key}[{at}]"),
                    format!(
                        "priority {} is taken by another codec of the list; give each its own, 1 \
                         to 3",
                        recompression.priority
                    ),
                );
            }
            if list[..at].iter().any(|other| other.codec == *codec) {
                self.error(&format!("{key}[{at}]"), format!("{codec} is listed twice"));
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
                    self.error(
                        &format!("{key}.encryption"),
                        "is for devices; put the file on an encrypted file system, or use a \
                         partition",
                    );
                }
            }
        }
        if let Encryption::Luks { key_file, .. } = &disk.encryption {
            if in_ram(key_file) || key_file.starts_with("/dev") {
                self.error(
                    &format!("{key}.key_file"),
                    format!(
                        "{} does not outlive a reboot, and without it the volume stays shut; put \
                         it below /etc",
                        key_file.display()
                    ),
                );
            }
        }
        if disk.hibernation && disk.encryption_is_random() {
            self.error(
                &format!("{key}.hibernation"),
                "the key is new at each boot, so the image could not be read back; use \
                 encryption = \"luks\" or hibernate elsewhere",
            );
        }
        if disk.hibernation && optional {
            self.warning(
                FindingId::Hibernation,
                &format!("{key}.optional"),
                "the image of hibernation is on a drive that may be missing; it is lost with it",
            );
        }
    }

    fn device(&mut self, device: &Location, key: &str) {
        let Location::Path(path) = device else { return };
        if !path.starts_with("/dev") || path == Path::new("/dev") {
            self.error(
                key,
                format!(
                    "{} is not below /dev; for a swap file write file = \"{}\"",
                    path.display(),
                    path.display()
                ),
            );
        } else if is_ram_device(path) {
            self.error(
                key,
                format!(
                    "{} is in RAM itself; name a drive, or use kind = \"zram\"",
                    path.display()
                ),
            );
        }
    }

    fn file(&mut self, path: &Path, key: &str) {
        if ["/dev", "/proc", "/sys"]
            .iter()
            .any(|no| path.starts_with(no))
        {
            self.error(
                key,
                format!(
                    "{} is no place for a file; for a device write device = \"{}\"",
                    path.display(),
                    path.display()
                ),
            );
        } else if in_ram(path) {
            self.warning(
                FindingId::FileInRam,
                key,
                format!(
                    "{} is often kept in RAM, where a swap file cannot be; put it on a disk, such \
                     as /var/swap",
                    path.display()
                ),
            );
        }
    }

    /// A device of which nothing is kept, found again by its name alone.
    fn overwritten(&mut self, device: &Location, key: &str, what: &str) {
        match device {
            Location::Tag { tag, .. } if !device.outlives_its_contents() => {
                let stable = match tag {
                    Tag::Label => "PARTLABEL",
                    _ => "PARTUUID",
                };
                self.error(
                    key,
                    format!(
                        "{device} is written over with {what}, so the device would not be found \
                         again; use {stable}= or a path below /dev/disk/by-id"
                    ),
                );
            }
            Location::Path(path) if !is_stable(path) => self.warning(
                FindingId::UnstableName,
                key,
                format!(
                    "{device} may be another drive after a reboot, and it is written over with \
                     {what}; use PARTUUID= or a path below /dev/disk/by-id"
                ),
            ),
            _ => {}
        }
    }

    fn tiers_together(&mut self, config: &Config) {
        let of_kind = |zswap: bool| {
            config.tiers.iter().filter(move |tier| match tier.kind {
                Kind::Zswap(_) => zswap,
                Kind::Ram(_) => !zswap,
                Kind::Disk(_) => false,
            })
        };
        for second in of_kind(true).skip(1) {
            self.error(
                &format!("tier.{}", second.name),
                "the kernel has one zswap; put its settings into one tier",
            );
        }
        if let (Some(zswap), Some(ram)) = (of_kind(true).next(), of_kind(false).next()) {
            self.add(
                Severity::Critical,
                Some(FindingId::ZramWithZswap),
                &format!("tier.{}", zswap.name),
                format!(
                    "zswap compresses the pages first and passes on what is left, so that \
                     tier.{} holds pages that were compressed before and its figures mislead; keep \
                     one of the two",
                    ram.name
                ),
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
                Kind::Ram(RamDevice {
                    writeback: Some(writeback),
                    ..
                }) => (of_device(&writeback.device), "writeback.device"),
                _ => continue,
            };
            let key = format!("tier.{}.{key}", tier.name);
            match seen.get(&place) {
                Some(other) => self.error(
                    &key,
                    format!("{shown} is used by {other} already; each needs a place of its own"),
                ),
                None => {
                    seen.insert(place, key);
                }
            }
        }
    }

    fn priorities(&mut self, config: &Config) {
        let areas = config.areas();
        for pair in areas.windows(2) {
            let ((one, _, high), (other, _, low)) = (&pair[0], &pair[1]);
            let same_kind = matches!(
                (&one.kind, &other.kind),
                (Kind::Disk(_), Kind::Disk(_)) | (Kind::Ram(_), Kind::Ram(_))
            );
            let key = format!("tier.{}.priority", other.name);
            if high == low && !same_kind && *high >= 0 {
                self.warning(
                    FindingId::Priorities,
                    &key,
                    format!(
                        "tier.{} and tier.{} share priority {high}, so that pages go to RAM and to \
                         disk in turn; give the disk a lower one",
                        one.name, other.name
                    ),
                );
            } else if high < low {
                self.warning(
                    FindingId::Priorities,
                    &key,
                    format!(
                        "tier.{} is filled first (priority {low}, tier.{} has {high}), though it \
                         stands below it; exchange the tiers or the priorities",
                        other.name, one.name
                    ),
                );
            }
        }
    }

    /// One drive on which pages are readable makes the others' encryption vain.
    fn encryption_together(&mut self, config: &Config) {
        let mut encrypted = None;
        let mut readable = Vec::new();
        for tier in &config.tiers {
            let (encryption, key) = match &tier.kind {
                Kind::Disk(DiskSwap {
                    source: Source::Device(_),
                    encryption,
                    ..
                }) => (encryption, "encryption"),
                Kind::Ram(RamDevice {
                    writeback: Some(writeback),
                    ..
                }) => (&writeback.encryption, "writeback.encryption"),
                _ => continue,
            };
            match encryption {
                Encryption::None => readable.push(format!("tier.{}.{key}", tier.name)),
                _ => encrypted = Some(&tier.name),
            }
        }
        let Some(encrypted) = encrypted else { return };
        for key in readable {
            self.warning(
                FindingId::ReadableCopy,
                &key,
                format!(
                    "pages are written here as they are, while those of tier.{encrypted} are \
                     encrypted; add encryption = \"random\""
                ),
            );
        }
    }

    fn limits_together(&mut self, config: &Config) {
        let mut sum = 0.0;
        let mut last = None;
        for tier in &config.tiers {
            let Kind::Ram(device) = &tier.kind else {
                continue;
            };
            if let Some(Size::Ram {
                percent,
                at_most: None,
            }) = device.memory_limit
            {
                sum += percent.fraction() * 100.0;
                last = Some(&tier.name);
            }
        }
        // A single limit above 100 % was reported where it stands.
        let several = config
            .tiers
            .iter()
            .filter(|tier| matches!(tier.kind, Kind::Ram(_)));
        if let (Some(name), true) = (last, sum > 100.0 && several.count() > 1) {
            self.error(
                &format!("tier.{name}.memory_limit"),
                format!("the limits add up to {sum}% of RAM; 100% is all there is"),
            );
        }
    }

    fn hibernation(&mut self, config: &Config) {
        let hosts: Vec<_> = config
            .tiers
            .iter()
            .filter(|tier| matches!(&tier.kind, Kind::Disk(disk) if disk.hibernation))
            .collect();
        for second in hosts.iter().skip(1) {
            self.error(
                &format!("tier.{}.hibernation", second.name),
                format!(
                    "tier.{} has it already; an image is in one place",
                    hosts[0].name
                ),
            );
        }
        let ram = config
            .tiers
            .iter()
            .find(|tier| matches!(tier.kind, Kind::Ram(_)));
        if let (Some(host), Some(ram)) = (hosts.first(), ram) {
            self.warning(
                FindingId::Hibernation,
                &format!("tier.{}.hibernation", host.name),
                format!(
                    "pages in tier.{} are part of the hibernation image and cannot be swapped out \
                     before it, so hibernation may fail; use zswap instead",
                    ram.name
                ),
            );
        }
    }

    fn watch(&mut self, config: &Config) {
        let devices: Vec<_> = config
            .tiers
            .iter()
            .filter_map(|tier| match &tier.kind {
                Kind::Ram(device) => Some((&tier.name, device)),
                _ => None,
            })
            .collect();
        let with = |has: fn(&RamDevice) -> bool| {
            let found = devices.iter().find(|(_, device)| has(device));
            found.map(|(name, _)| *name)
        };
        let watch = &config.watch;
        self.rule(
            "recompress",
            watch.recompress.is_some(),
            with(|device| !device.recompress.is_empty()),
            "the kernel compresses nothing again by itself",
            "no tier has a list of codecs to recompress with",
        );
        self.rule(
            "writeback",
            watch.writeback.is_some(),
            with(|device| device.writeback.is_some()),
            "the kernel writes nothing back by itself",
            "no tier has a writeback device",
        );
        let melds = |(_, device): &(&TierName, &RamDevice)| device.meld != MeldMode::Off;
        if watch.meld.is_some() && !devices.iter().any(melds) {
            self.warning(
                FindingId::UnusedRule,
                "watch.meld",
                "no tier melds pages; add a tier with kind = \"zmeld\", or remove the rule",
            );
        }
    }

    fn reclaim(&mut self, config: &Config) {
        let Some(rule) = &config.watch.reclaim else {
            return;
        };
        if rule.step == Percent::whole(0) {
            self.error(
                "watch.reclaim.step",
                "0% reclaims nothing; write more, or enabled = false",
            );
        }
        self.groups("watch.reclaim.groups", &rule.groups);
        self.groups("watch.reclaim.protect", &rule.protect);
        for both in rule.groups.iter().filter(|it| rule.protect.contains(it)) {
            self.warning(
                FindingId::UnusedRule,
                "watch.reclaim.protect",
                format!(
                    "\"{both}\" is in groups, too, and nothing is reclaimed from it; remove it from \
                     one of them"
                ),
            );
        }
        if rule.groups.is_empty() {
            self.error(
                "watch.reclaim.groups",
                "from no group nothing is reclaimed; write [\"/\"] for all, or enabled = false",
            );
        }
        if rule.protect.iter().any(|pattern| pattern.matches("/")) {
            self.error(
                "watch.reclaim.protect",
                "\"/\" protects all that there is; name some groups, or write enabled = false",
            );
        }
    }

    /// Paths are those of groups, and not of where they are mounted.
    fn groups(&mut self, key: &str, patterns: &[GroupPattern]) {
        for (number, pattern) in patterns.iter().enumerate() {
            let pattern = pattern.to_string();
            let Ok(below) = Path::new(&pattern).strip_prefix("/sys/fs/cgroup") else {
                continue;
            };
            self.error(
                &format!("{key}[{number}]"),
                format!(
                    "\"{pattern}\" names no control group: paths begin at the first group, not \
                     where they are mounted; write \"/{}\"",
                    below.display()
                ),
            );
        }
    }

    fn guard(&mut self, config: &Config) {
        let Some(rule) = &config.watch.guard else {
            return;
        };
        for (key, why) in rule.problems() {
            self.error(&format!("watch.guard.{key}"), why);
        }
        self.groups("watch.guard.end", &rule.end);
        self.groups("watch.guard.protect", &rule.protect);
        for (number, pattern) in rule.end.iter().enumerate() {
            if !zmeld_guard::rule::is_all(pattern) && is_of_all_services(pattern) {
                self.warning(
                    FindingId::EndsServices,
                    &format!("watch.guard.end[{number}]"),
                    format!(
                        "\"{pattern}\" is all services of the system, which others need; name those \
                         that may be ended"
                    ),
                );
            }
        }
        // With another rule it makes room, and with groups it ends them.
        if rule.end.is_empty() && config.watch.is_guard_alone() {
            self.warning(FindingId::UnusedRule, "watch.guard", GUARDS_NOTHING);
        }
    }

    /// A rule and a tier that it is for need each other.
    fn rule(
        &mut self,
        name: &str,
        given: bool,
        wanting: Option<&TierName>,
        unfired: &str,
        unused: &str,
    ) {
        match wanting {
            Some(tier) if !given => self.warning(
                FindingId::UnusedRule,
                &format!("tier.{tier}.{name}"),
                format!("{unfired}; add [watch.{name}] and run zmeld watch"),
            ),
            None if given => self.warning(
                FindingId::UnusedRule,
                &format!("watch.{name}"),
                format!("{unused}; add one, or remove the rule"),
            ),
            _ => {}
        }
    }

    fn metrics(&mut self, config: &Config) {
        if let Some(path) = &config.metrics.textfile {
            if path.extension().is_none_or(|extension| extension != "prom") {
                self.error(
                    "metrics.textfile",
                    format!(
                        "node_exporter reads files whose names end in .prom only; write {}.prom",
                        path.display()
                    ),
                );
            }
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
    name.is_some_and(|name| {
        ["zram", "zmeld", "ram"].iter().any(|driver| {
            name.strip_prefix(driver)
                .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
        })
    })
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
