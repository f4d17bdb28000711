//! From a tree of values to a [`Config`], with every wrong value reported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use super::keys::{self, Section, KEYS, REMOVED, REMOVED_FINDINGS};
use super::named::{EncryptionName, KindName, Named};
use super::problem::{FilePosition, Problem, Severity};
use super::tier::{PRIORITIES, SIZE, TIMEOUT};
use super::tree::{dotted, Node, Table, Value, TIERS};
use super::*;

/// Where each key that was read stands.
pub(super) type Places = BTreeMap<String, FilePosition>;

/// Reads the tree. Where something is wrong its default stands in, so that
/// what follows can be read too.
pub(super) fn read(root: &Table) -> (Config, Places, Vec<Problem>) {
    let mut reader = Reader::default();
    let top = Open::new(&mut reader, root, "", &[Section::Top]);
    let tiers = top.tiers(&mut reader);
    let of_tiers = dotted(TIERS, "");
    let is_named = reader.places.keys().any(|key| key.starts_with(&of_tiers));
    let config = Config {
        without_tiers: tiers.is_empty() && is_named,
        tiers,
        tunables: top.inner(&mut reader, "tunables", &[Section::Tunables], tunables),
        watch: top.inner(&mut reader, "watch", &[Section::Watch], watch),
        metrics: top.inner(&mut reader, "metrics", &[Section::Metrics], metrics),
        accept: top.list(&mut reader, "accept", |reader, node, key| {
            match &node.value {
                Value::String(name) if REMOVED_FINDINGS.contains(&name.as_str()) => {
                    reader.ignored(&node.place, key, "remove it");
                    None
                }
                _ => reader.text(node, key, str::parse),
            }
        }),
    };
    (config, reader.places, reader.problems)
}

#[derive(Default)]
struct Reader {
    places: Places,
    problems: Vec<Problem>,
    /// Those of them that a key of another kind has, by index.
    of_another_kind: Vec<usize>,
}

impl Reader {
    /// A key that stands where it is for something else.
    fn misplaced(&mut self, place: &FilePosition, key: &str, what: impl Into<String>) {
        self.of_another_kind.push(self.problems.len());
        self.wrong(place, key, what);
    }

    fn wrong(&mut self, place: &FilePosition, key: &str, what: impl Into<String>) {
        self.add(Severity::Error, place, key, what.into());
    }

    /// What the last version knew and this one does not.
    fn ignored(&mut self, place: &FilePosition, key: &str, way_out: &str) {
        let what = format!("is ignored, since this version has it no more; {way_out}");
        self.add(Severity::Notice, place, key, what);
    }

    fn add(&mut self, severity: Severity, place: &FilePosition, key: &str, what: String) {
        self.problems.push(Problem {
            place: Some(place.clone()),
            key: key.to_owned(),
            what,
            severity,
            trap: None,
        });
    }

    /// A text that `parse` understands.
    fn text<T>(
        &mut self,
        node: &Node,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Value::String(text) = &node.value else {
            let what = format!(
                "is {}; a text is needed: write it in quotes, with its unit if it has one",
                node.value.is()
            );
            self.wrong(&node.place, key, what);
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.wrong(&node.place, key, why);
                None
            }
        }
    }
}

/// A table that is being read.
struct Open<'t> {
    table: &'t Table,
    path: String,
    known: Vec<&'static str>,
}

impl<'t> Open<'t> {
    /// Opens a table whose keys stand in those sections; others are refused.
    fn new(reader: &mut Reader, table: &'t Table, path: &str, sections: &[Section]) -> Self {
        let known = keys::names(sections);
        for (name, entry) in &table.entries {
            if known.contains(&name.as_str()) {
                let place = match entry.node.value {
                    Value::Table(_) => &entry.key_place,
                    _ => &entry.node.place,
                };
                reader.places.insert(dotted(path, name), place.clone());
                continue;
            }
            let (place, key) = (&entry.key_place, dotted(path, &entry.written));
            let mut removed = REMOVED.iter();
            let is_it = |it: &&(Section, &str, &str)| sections.contains(&it.0) && it.1 == name;
            if let Some((_, _, way_out)) = removed.find(is_it) {
                reader.ignored(place, &key, way_out);
                continue;
            }
            match elsewhere(name, sections) {
                Some(section) => {
                    let what = format!("is for {}; remove it here", section.kinds());
                    reader.misplaced(place, &key, what);
                }
                None => {
                    let what = format!("there is no such key; {}", choices(name, &known));
                    reader.wrong(place, &key, what);
                }
            }
        }
        Open {
            table,
            path: path.to_owned(),
            known,
        }
    }

    /// Whether a key may stand in it.
    fn takes(&self, name: &str) -> bool {
        self.known.contains(&name)
    }

    fn key(&self, name: &str) -> String {
        dotted(&self.path, name)
    }

    fn node(&self, name: &str) -> Option<&'t Node> {
        self.table.entries.get(name).map(|entry| &entry.node)
    }

    fn text<T>(
        &self,
        reader: &mut Reader,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        reader.text(self.node(name)?, &self.key(name), parse)
    }

    /// A whole number needs no quotes: `size = 4294967296` is a size in bytes.
    fn parsed<T: FromStr<Err = String>>(&self, reader: &mut Reader, name: &str) -> Option<T> {
        let node = self.node(name)?;
        match node.value {
            Value::Integer(number) => match number.to_string().parse() {
                Ok(value) => Some(value),
                Err(why) => {
                    reader.wrong(&node.place, &self.key(name), why);
                    None
                }
            },
            _ => self.text(reader, name, str::parse),
        }
    }

    fn named<T: Named>(&self, reader: &mut Reader, name: &str) -> Option<T> {
        self.text(reader, name, T::named)
    }

    fn boolean(&self, reader: &mut Reader, name: &str) -> Option<bool> {
        let node = self.node(name)?;
        if let Value::Boolean(value) = node.value {
            return Some(value);
        }
        let what = format!(
            "is {}; write true or false, without quotes",
            node.value.is()
        );
        reader.wrong(&node.place, &self.key(name), what);
        None
    }

    /// A whole number from `lowest` to `highest`.
    fn number<T: TryFrom<i64>>(
        &self,
        reader: &mut Reader,
        name: &str,
        lowest: i64,
        highest: i64,
    ) -> Option<T> {
        let node = self.node(name)?;
        let value = match node.value {
            Value::Integer(number) if (lowest..=highest).contains(&number) => {
                T::try_from(number).ok()
            }
            _ => None,
        };
        if value.is_none() {
            let what = format!(
                "is {}; write a whole number from {lowest} to {highest}, without quotes",
                node.value.is()
            );
            reader.wrong(&node.place, &self.key(name), what);
        }
        value
    }

    fn absolute(&self, reader: &mut Reader, name: &str) -> Option<PathBuf> {
        self.text(reader, name, |text| {
            if text.starts_with('/') && !text.contains(|c: char| c.is_control()) {
                Ok(PathBuf::from(text))
            } else {
                Err(format!("{text:?} is no absolute path; start it with /"))
            }
        })
    }

    /// A share of something, of at most all of it.
    fn share(&self, reader: &mut Reader, name: &str) -> Option<Percent> {
        self.text(reader, name, |text| {
            let share: Percent = text.parse()?;
            if share > Percent::whole(100) {
                return Err(format!("{text:?} is more than all of it; write 0% to 100%"));
            }
            Ok(share)
        })
    }

    fn list<T>(
        &self,
        reader: &mut Reader,
        name: &str,
        mut item: impl FnMut(&mut Reader, &'t Node, &str) -> Option<T>,
    ) -> Vec<T> {
        let Some(node) = self.node(name) else {
            return Vec::new();
        };
        let key = self.key(name);
        let Value::Array(nodes) = &node.value else {
            let what = format!("is {}; write a list in [ ]", node.value.is());
            reader.wrong(&node.place, &key, what);
            return Vec::new();
        };
        nodes
            .iter()
            .enumerate()
            .filter_map(|(at, node)| {
                let key = format!("{key}[{at}]");
                reader.places.insert(key.clone(), node.place.clone());
                item(reader, node, &key)
            })
            .collect()
    }

    /// The table under a key, or the default of what it describes.
    fn inner<T: Default>(
        &self,
        reader: &mut Reader,
        name: &str,
        sections: &[Section],
        read: impl FnOnce(&mut Reader, &Open<'t>) -> T,
    ) -> T {
        self.optional(reader, name, sections, read)
            .unwrap_or_default()
    }

    fn optional<T>(
        &self,
        reader: &mut Reader,
        name: &str,
        sections: &[Section],
        read: impl FnOnce(&mut Reader, &Open<'t>) -> T,
    ) -> Option<T> {
        let node = self.node(name)?;
        let key = self.key(name);
        let Value::Table(table) = &node.value else {
            let what = format!("is {}; write [{key}] and its keys", node.value.is());
            reader.wrong(&node.place, &key, what);
            return None;
        };
        let open = Open::new(reader, table, &key, sections);
        Some(read(reader, &open))
    }

    /// A rule of `zmeld watch`: a table that a drop-in can switch off.
    fn rule<T>(
        &self,
        reader: &mut Reader,
        name: &str,
        section: Section,
        read: impl FnOnce(&mut Reader, &Open<'t>) -> T,
    ) -> Option<T> {
        self.optional(reader, name, &[section], |reader, open| {
            let enabled = open.boolean(reader, "enabled").unwrap_or(true);
            let rule = read(reader, open);
            enabled.then_some(rule)
        })?
    }

    fn tiers(&self, reader: &mut Reader) -> Vec<Tier> {
        let Some(node) = self.node(TIERS) else {
            return Vec::new();
        };
        let Value::Table(table) = &node.value else {
            let what = format!("is {}; write [tier.NAME] and its keys", node.value.is());
            reader.wrong(&node.place, TIERS, what);
            return Vec::new();
        };
        let mut entries: Vec<_> = table.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.turn);
        let mut tiers = Vec::new();
        for (name, entry) in entries {
            let key = dotted(TIERS, name);
            reader.places.insert(key.clone(), entry.key_place.clone());
            let name = match name.parse::<TierName>() {
                Ok(name) => name,
                Err(why) => {
                    reader.wrong(&entry.key_place, TIERS, why);
                    continue;
                }
            };
            let Value::Table(table) = &entry.node.value else {
                let what = format!("is {}; write [{key}] and its keys", entry.node.value.is());
                reader.wrong(&entry.node.place, &key, what);
                continue;
            };
            tiers.extend(tier(reader, table, &key, &entry.key_place, name));
        }
        tiers
    }
}

/// The section of a tier of another kind that has that key.
fn elsewhere(name: &str, sections: &[Section]) -> Option<Section> {
    if !sections.contains(&Section::Tier) {
        return None;
    }
    let of_tiers = [
        Section::Swapped,
        Section::Ram,
        Section::Zmeld,
        Section::Zswap,
        Section::Disk,
    ];
    KEYS.iter()
        .find(|key| key.name == name && of_tiers.contains(&key.section))
        .map(|key| key.section)
}

/// One tier; nothing if it is switched off or its kind is not known.
fn tier(
    reader: &mut Reader,
    table: &Table,
    path: &str,
    place: &FilePosition,
    name: TierName,
) -> Option<Tier> {
    let bare = Open {
        table,
        path: path.to_owned(),
        known: keys::names(&[Section::Tier]),
    };
    let kind: Option<KindName> = match bare.node("kind") {
        Some(_) => bare.named(reader, "kind"),
        None => {
            reader.wrong(
                place,
                path,
                "has no kind; write kind = \"zram\", \"zmeld\", \"zswap\" or \"disk\"",
            );
            None
        }
    };
    let Some(kind) = kind else {
        of_unknown_kind(reader, table, path, place, &name);
        return None;
    };
    tier_of_kind(reader, table, path, place, name, kind)
}

/// What else is wrong with a tier whose kind is: as the kind that most of it fits.
fn of_unknown_kind(
    reader: &mut Reader,
    table: &Table,
    path: &str,
    place: &FilePosition,
    name: &TierName,
) {
    let tries = KindName::ALL.iter().map(|(_, kind)| {
        let mut tried = Reader::default();
        tier_of_kind(&mut tried, table, path, place, name.clone(), *kind);
        tried
    });
    let guess = tries.min_by_key(|tried| tried.problems.len());
    let guess = guess.unwrap_or_default();
    // That something is missing, or is another kind's, follows from the guess.
    for (at, problem) in guess.problems.into_iter().enumerate() {
        let rest = problem.key.strip_prefix(path);
        let is_of_key = rest.is_some_and(|rest| rest.starts_with('.'));
        if is_of_key && !guess.of_another_kind.contains(&at) {
            reader.problems.push(problem);
        }
    }
}

/// One tier of that kind; nothing if it is switched off.
fn tier_of_kind(
    reader: &mut Reader,
    table: &Table,
    path: &str,
    place: &FilePosition,
    name: TierName,
    kind: KindName,
) -> Option<Tier> {
    let sections: &[Section] = match kind {
        KindName::Ram(RamDriver::Zram) => &[Section::Tier, Section::Swapped, Section::Ram],
        KindName::Ram(RamDriver::Zmeld) => &[
            Section::Tier,
            Section::Swapped,
            Section::Ram,
            Section::Zmeld,
        ],
        KindName::Zswap => &[Section::Tier, Section::Zswap],
        KindName::Disk => &[Section::Tier, Section::Swapped, Section::Disk],
    };
    let open = Open::new(reader, table, path, sections);
    let enabled = open.boolean(reader, "enabled").unwrap_or(true);
    let optional = open.boolean(reader, "optional").unwrap_or(false);
    let swap = Swap {
        priority: open.number(reader, "priority", *PRIORITIES.start(), *PRIORITIES.end()),
        discard: open.named(reader, "discard").unwrap_or_default(),
    };
    let kind = match kind {
        KindName::Ram(driver) => Some(Kind::Ram(ram(reader, &open, driver, swap))),
        KindName::Zswap => Some(Kind::Zswap(zswap(reader, &open))),
        KindName::Disk => disk(reader, &open, place, swap).map(Kind::Disk),
    };
    // A tier that is switched off is checked all the same.
    let kind = kind.filter(|_| enabled)?;
    Some(Tier {
        name,
        optional,
        kind,
    })
}

fn ram(reader: &mut Reader, open: &Open<'_>, driver: RamDriver, swap: Swap) -> RamDevice {
    let (meld, check_writes) = match driver {
        RamDriver::Zram => (MeldMode::Off, None),
        RamDriver::Zmeld => (
            open.named(reader, "meld").unwrap_or(MeldMode::Manual),
            open.named(reader, "check_writes"),
        ),
    };
    let mut turn = 0;
    let mut recompress = open.list(reader, "recompress", |reader, node, key| {
        turn += 1;
        recompression(reader, node, key, turn)
    });
    recompress.sort_by_key(|recompression| recompression.priority);
    RamDevice {
        driver,
        size: open.parsed(reader, "size").unwrap_or(SIZE),
        memory_limit: open.parsed(reader, "memory_limit"),
        codec: match open.node("codec").map(|node| &node.value) {
            Some(Value::Array(_)) => open.list(reader, "codec", |reader, node, key| {
                reader.text(node, key, str::parse)
            }),
            _ => open.parsed(reader, "codec").into_iter().collect(),
        },
        recompress,
        writeback: open
            .optional(reader, "writeback", &[Section::Writeback], writeback)
            .flatten(),
        meld,
        check_writes,
        swap,
    }
}

/// A codec, whose priority is its turn, or a table with both.
fn recompression(reader: &mut Reader, node: &Node, key: &str, turn: u8) -> Option<Recompression> {
    let Value::Table(table) = &node.value else {
        let codec = reader.text(node, key, str::parse)?;
        return Some(Recompression {
            priority: turn,
            codec,
        });
    };
    let open = Open::new(reader, table, key, &[Section::Recompression]);
    for needed in ["codec", "priority"] {
        if open.node(needed).is_none() {
            let what = format!("has no {needed}; write {{ codec = \"zstd\", priority = 1 }}");
            reader.wrong(&node.place, key, what);
        }
    }
    let codec = open.parsed(reader, "codec");
    let priority = open.number(reader, "priority", 1, 3);
    Some(Recompression {
        priority: priority?,
        codec: codec?,
    })
}

fn writeback(reader: &mut Reader, open: &Open<'_>) -> Option<Writeback> {
    let encryption = encryption(reader, open);
    if open.node("device").is_none() {
        if let Some(place) = reader.places.get(&open.path).cloned() {
            reader.wrong(
                &place,
                &open.path,
                "has no device; write device = \"PARTUUID=...\"",
            );
        }
    }
    let device = open.parsed(reader, "device");
    let writeback = Writeback {
        device: device?,
        encryption,
        daily_limit: open.parsed(reader, "daily_limit"),
        compressed: open.boolean(reader, "compressed").unwrap_or(false),
        optional: open.boolean(reader, "optional").unwrap_or(false),
        timeout: open.parsed(reader, "timeout").unwrap_or(TIMEOUT),
    };
    Some(writeback)
}

fn zswap(reader: &mut Reader, open: &Open<'_>) -> Zswap {
    Zswap {
        compressor: open.text(reader, "compressor", |text| {
            let codec: Codec = text.parse()?;
            if codec.level.is_some() || codec.dict.is_some() {
                return Err(format!(
                    "{text:?}: zswap takes no level and no dictionary; write just {:?}",
                    codec.name
                ));
            }
            Ok(codec.name)
        }),
        zpool: open.named(reader, "zpool"),
        max_pool_percent: open.number(reader, "max_pool_percent", 1, 100),
        accept_threshold_percent: open.number(reader, "accept_threshold_percent", 0, 100),
        shrinker: open.boolean(reader, "shrinker"),
        same_filled: open.boolean(reader, "same_filled"),
    }
}

fn disk(
    reader: &mut Reader,
    open: &Open<'_>,
    place: &FilePosition,
    swap: Swap,
) -> Option<DiskSwap> {
    let encryption = encryption(reader, open);
    let device: Option<Location> = open.parsed(reader, "device");
    let path = open.absolute(reader, "file");
    let size: Option<Size> = open.parsed(reader, "size");
    let source = match (open.node("device"), open.node("file")) {
        (Some(_), None) => {
            if let Some(node) = open.node("size") {
                reader.misplaced(
                    &node.place,
                    &open.key("size"),
                    "is for a file; a device is used whole: remove it",
                );
            }
            device.map(Source::Device)
        }
        (None, Some(_)) => path.map(|path| Source::File { path, size }),
        (None, None) => {
            reader.wrong(
                place,
                &open.path,
                "names no place; write device = \"UUID=...\" or file = \"/swapfile\"",
            );
            None
        }
        (Some(_), Some(node)) => {
            reader.wrong(
                &node.place,
                &open.key("file"),
                "a tier is one place; remove either device or file, or make two tiers",
            );
            None
        }
    };
    let disk = DiskSwap {
        source: source?,
        encryption,
        format: open.boolean(reader, "format").unwrap_or(false),
        hibernation: open.boolean(reader, "hibernation").unwrap_or(false),
        timeout: open.parsed(reader, "timeout").unwrap_or(TIMEOUT),
        swap,
    };
    Some(disk)
}

/// The keys about encryption of a disk tier or a backing device.
fn encryption(reader: &mut Reader, open: &Open<'_>) -> Encryption {
    let before = reader.problems.len();
    let keeps_key = open.takes("key_file");
    let name = open.text(reader, "encryption", |text| {
        let name = EncryptionName::named(text)?;
        if name == EncryptionName::Luks && !keeps_key {
            return Err(
                "what is written back is lost with RAM, so a key that lasts protects \
                        nothing more; write \"random\""
                    .to_owned(),
            );
        }
        Ok(name)
    });
    let key_file = open.absolute(reader, "key_file");
    let standard = Cipher::default();
    let cipher = Cipher {
        name: open
            .text(reader, "cipher", cipher_name)
            .unwrap_or(standard.name),
        key_size: open
            .number(reader, "key_size", 128, 1024)
            .unwrap_or(standard.key_size),
    };
    if reader.problems.len() > before {
        return Encryption::None;
    }
    let name = name.unwrap_or(EncryptionName::None);
    check_encryption(reader, open, name, &cipher);
    match (name, key_file) {
        (EncryptionName::None, _) => Encryption::None,
        (EncryptionName::Random, _) => Encryption::Random { cipher },
        (EncryptionName::Luks, Some(key_file)) => Encryption::Luks { key_file, cipher },
        (EncryptionName::Luks, None) => {
            if let Some(node) = open.node("encryption") {
                reader.wrong(
                    &node.place,
                    &open.key("encryption"),
                    "luks needs a key file, since nobody types a passphrase when swap is set up; \
                     write key_file = \"/etc/zmeld/NAME.key\"",
                );
            }
            Encryption::None
        }
    }
}

/// Keys that say how, where another kind or none is asked for, and a cipher that is none.
fn check_encryption(reader: &mut Reader, open: &Open<'_>, name: EncryptionName, cipher: &Cipher) {
    let (unused, what): (&[&str], _) = match name {
        EncryptionName::None => (
            &["key_file", "cipher", "key_size"],
            "says how, but nothing is encrypted; add encryption = \"luks\" or \"random\", or \
             remove it",
        ),
        EncryptionName::Random => (
            &["key_file"],
            "is for encryption = \"luks\"; a random key is kept nowhere: remove it",
        ),
        EncryptionName::Luks => (&[], ""),
    };
    for key in unused {
        if let Some(node) = open.node(key) {
            match name {
                EncryptionName::Random => reader.misplaced(&node.place, &open.key(key), what),
                _ => reader.wrong(&node.place, &open.key(key), what),
            }
        }
    }
    if let Err(why) = cipher.check() {
        let named = open.node("key_size").map(|node| (node, "key_size"));
        if let Some((node, key)) = named.or(open.node("cipher").map(|node| (node, "cipher"))) {
            reader.wrong(&node.place, &open.key(key), why);
        }
    }
}

fn cipher_name(text: &str) -> Result<String, String> {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_,():".contains(c));
    if !plain || text.split('-').count() < 3 {
        return Err(format!(
            "{text:?} is no cipher; write it as cryptsetup does, such as aes-xts-plain64"
        ));
    }
    if text.contains("-ecb") {
        return Err(format!(
            "{text:?} shows which blocks are equal; write aes-xts-plain64"
        ));
    }
    Ok(text.to_owned())
}

fn tunables(reader: &mut Reader, open: &Open<'_>) -> Tunables {
    Tunables {
        swappiness: swappiness(reader, open),
        page_cluster: open.number(reader, "page_cluster", 0, 10),
        watermark_scale_factor: open.number(reader, "watermark_scale_factor", 1, 3_000),
        watermark_boost_factor: open.number(reader, "watermark_boost_factor", 0, 100_000),
        compaction_proactiveness: open.number(reader, "compaction_proactiveness", 0, 100),
        vfs_cache_pressure: open.number(reader, "vfs_cache_pressure", 0, 1_000),
        min_free: open.parsed(reader, "min_free"),
    }
}

fn swappiness(reader: &mut Reader, open: &Open<'_>) -> Option<Swappiness> {
    match &open.node("swappiness")?.value {
        Value::String(text) if text == "auto" => Some(Swappiness::Auto),
        Value::String(text) => {
            let what = format!("{text:?} is no value; write \"auto\", or 0 to 200 without quotes");
            let node = open.node("swappiness")?;
            reader.wrong(&node.place, &open.key("swappiness"), what);
            None
        }
        _ => open
            .number(reader, "swappiness", 0, 200)
            .map(Swappiness::Value),
    }
}

fn watch(reader: &mut Reader, open: &Open<'_>) -> Watch {
    let standard = Watch::default();
    Watch {
        interval: open.parsed(reader, "interval").unwrap_or(standard.interval),
        cpu_pressure_max: open
            .share(reader, "cpu_pressure_max")
            .unwrap_or(standard.cpu_pressure_max),
        recompress: open.rule(
            reader,
            "recompress",
            Section::WatchRecompress,
            watch_recompress,
        ),
        writeback: open.rule(
            reader,
            "writeback",
            Section::WatchWriteback,
            watch_writeback,
        ),
        meld: open.rule(reader, "meld", Section::WatchMeld, watch_meld),
        reclaim: open.rule(reader, "reclaim", Section::WatchReclaim, watch_reclaim),
        guard: open.rule(reader, "guard", Section::WatchGuard, watch_guard),
        dry_run: open.boolean(reader, "dry_run").unwrap_or(false),
    }
}

fn watch_recompress(reader: &mut Reader, open: &Open<'_>) -> RecompressRule {
    let standard = RecompressRule::default();
    let threshold = open.text(reader, "threshold", |text| {
        let bytes: Bytes = text.parse()?;
        if bytes > Bytes(4_096) {
            return Err(format!("{text:?} is more than a page; write 0 to 4KiB"));
        }
        Ok(bytes)
    });
    RecompressRule {
        pages: open.named(reader, "pages").unwrap_or(standard.pages),
        idle_after: open
            .parsed(reader, "idle_after")
            .unwrap_or(standard.idle_after),
        every: open.parsed(reader, "every").unwrap_or(standard.every),
        threshold: threshold.unwrap_or(standard.threshold),
        max_pages: open.number(reader, "max_pages", 1, i64::MAX),
    }
}

fn watch_writeback(reader: &mut Reader, open: &Open<'_>) -> WritebackRule {
    let standard = WritebackRule::default();
    WritebackRule {
        pages: open.named(reader, "pages").unwrap_or(standard.pages),
        idle_after: open
            .parsed(reader, "idle_after")
            .unwrap_or(standard.idle_after),
        every: open.parsed(reader, "every").unwrap_or(standard.every),
        above: open.share(reader, "above").unwrap_or(standard.above),
        at_most: open.parsed(reader, "at_most").unwrap_or(standard.at_most),
    }
}

fn watch_meld(reader: &mut Reader, open: &Open<'_>) -> MeldRule {
    let standard = MeldRule::default();
    MeldRule {
        every: open.parsed(reader, "every").unwrap_or(standard.every),
        duplicates_min: open
            .share(reader, "duplicates_min")
            .unwrap_or(standard.duplicates_min),
    }
}

fn watch_reclaim(reader: &mut Reader, open: &Open<'_>) -> ReclaimRule {
    let standard = ReclaimRule::default();
    ReclaimRule {
        groups: groups(reader, open, "groups").unwrap_or(standard.groups),
        protect: groups(reader, open, "protect").unwrap_or(standard.protect),
        protect_real_time: open
            .boolean(reader, "protect_real_time")
            .unwrap_or(standard.protect_real_time),
        mechanism: mechanism(reader, open).unwrap_or(standard.mechanism),
        idle_after: open
            .parsed(reader, "idle_after")
            .unwrap_or(standard.idle_after),
        every: open.parsed(reader, "every").unwrap_or(standard.every),
        step: open.share(reader, "step").unwrap_or(standard.step),
        pressure_max: open
            .share(reader, "pressure_max")
            .unwrap_or(standard.pressure_max),
        comeback_max: open
            .share(reader, "comeback_max")
            .unwrap_or(standard.comeback_max),
    }
}

fn watch_guard(reader: &mut Reader, open: &Open<'_>) -> GuardRule {
    let standard = GuardRule::default();
    GuardRule {
        room_below: open
            .share(reader, "room_below")
            .unwrap_or(standard.room_below),
        end_below: open
            .share(reader, "end_below")
            .unwrap_or(standard.end_below),
        stalled_max: open
            .share(reader, "stalled_max")
            .unwrap_or(standard.stalled_max),
        end: groups(reader, open, "end").unwrap_or(standard.end),
        protect: groups(reader, open, "protect").unwrap_or(standard.protect),
        protect_real_time: open
            .boolean(reader, "protect_real_time")
            .unwrap_or(standard.protect_real_time),
        protect_sessions: open
            .boolean(reader, "protect_sessions")
            .unwrap_or(standard.protect_sessions),
        protected_max: open
            .share(reader, "protected_max")
            .unwrap_or(standard.protected_max),
        grace: open.parsed(reader, "grace").unwrap_or(standard.grace),
    }
}

fn mechanism(reader: &mut Reader, open: &Open<'_>) -> Option<Mechanism> {
    match open.node("mechanism") {
        // What the last version had.
        Some(node) if matches!(&node.value, Value::String(name) if name == "process_madvise") => {
            reader.ignored(
                &node.place,
                &open.key("mechanism"),
                "remove it: memory goes by lru_gen or memory.reclaim",
            );
            None
        }
        _ => open.named(reader, "mechanism"),
    }
}

/// Names of control groups, where there are any.
fn groups(reader: &mut Reader, open: &Open<'_>, name: &str) -> Option<Vec<GroupPattern>> {
    let given = open.node(name).is_some();
    let read = |reader: &mut Reader, node: &Node, key: &str| reader.text(node, key, str::parse);
    given.then(|| open.list(reader, name, read))
}

fn metrics(reader: &mut Reader, open: &Open<'_>) -> Metrics {
    Metrics {
        textfile: open.absolute(reader, "textfile"),
        melding: open.boolean(reader, "melding").unwrap_or(false),
    }
}
