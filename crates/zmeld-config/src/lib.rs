//! The configuration in `/etc/zmeld.toml` and its drop-ins.
//!
//! A [`Config`] is a list of [`Tier`]s, fastest first, with the kernel's
//! tunables, the rules of `zmeld watch` and where metrics go. It says nothing
//! about the machine: sizes may be shares of a RAM that is not known yet, and
//! a device may be named by a tag that nothing carries.
//!
//! `docs/keys.md` is the reference for whoever writes the file.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`size`] | amounts: bytes, shares of RAM, times, each with its text form |
//! | [`codec`] | codecs and their parameters |
//! | [`location`] | how a device or file is named |
//! | [`tier`] | zram, zmeld, zswap and disk tiers |
//! | [`encryption`] | how what is written to a drive is kept from whoever reads it |
//! | [`settings`] | tunables, the rules of `zmeld watch`, metrics |
//! | [`reclaim`] | the rule of `zmeld watch` that reclaims idle memory |
//! | `key` | how the values of some keys are read |
//! | `files`, `read` | files to texts, texts to one tree, the tree to a [`Config`] by serde |
//! | `check` | contradictions and warnings |
//! | `write` | back to a file, with comments |
//! | [`finding`] | something that is wrong, and the catalogue of what is known by name |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use toml::de::{DeTable, DeValue};
use toml::Spanned;

use read::{Mistake, Node, Tree};

pub mod advice;
mod check;
pub mod codec;
pub mod encryption;
mod files;
pub mod finding;
mod key;
pub mod location;
mod read;
pub mod reclaim;
pub mod settings;
pub mod size;
pub mod tier;
mod write;

pub use codec::Codec;
pub use encryption::{Cipher, Encryption, EncryptionKind};
pub use finding::{ConfigError, FilePosition, Finding, FindingId, Remedy, Severity};
pub use location::Location;
pub use reclaim::ReclaimRule;
pub use settings::{
    GuardRule, KernelValue, MeldRule, Metrics, PageFilter, RecompressRule, Swappiness, Tunables,
    Watch, WritebackRule,
};
pub use size::{Bytes, Percent, Size, Span};
pub use tier::{
    CheckWrites, Discard, DiskSwap, Kind, MeldMode, Place, RamDevice, RamDriver, Source, Swap,
    Tier, TierName, Writeback, Zpool, Zswap,
};
pub use write::Comments;
pub use zmeld_linux::groups::GroupPattern;

/// All that is wanted of a machine's swap.
///
/// The default is empty: no tiers, nothing tuned, nothing watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The tiers, the fastest first. Names are unique.
    #[serde(rename = "tier")]
    pub tiers: Vec<Tier>,
    /// Whether all tiers that it names are switched off: it asks for none, where one without tiers
    /// says nothing of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_tiers: bool,
    /// The kernel's tunables that are to be set.
    pub tunables: Tunables,
    /// Settings of `zmeld watch`.
    pub watch: Watch,
    /// Export of figures to a monitoring system.
    pub metrics: Metrics,
    /// Warnings that are meant: neither refused nor warned of.
    pub accept: Vec<FindingId>,
}

/// A configuration that was read, and what is worth knowing about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings, in the order of the files.
    pub warnings: Vec<Finding>,
    /// The files that it was read from, in the order in which they were merged,
    /// as the machine itself names them. None: nothing is configured.
    pub files: Vec<PathBuf>,
    /// Tiers and other parts that a boot goes on without, by their keys: what is wrong with each.
    pub left_out: BTreeMap<String, Finding>,
    /// Positions of keys.
    places: BTreeMap<String, FilePosition>,
}

impl Loaded {
    /// Position of a key, or of its parent.
    pub fn place(&self, key: &str) -> Option<&FilePosition> {
        read::nearest(&self.places, key)
    }

    /// Findings about it, in the order of the files and their lines.
    pub fn in_order(&self, mut found: Vec<Finding>) -> Vec<Finding> {
        sort(&mut found, &self.files);
        found
    }

    /// The same with the tiers of `found` where the files name none; see [`Config::completed`].
    /// Warnings of the files alone are looked at again.
    pub fn completed(self, found: Config) -> Loaded {
        if self.config.says_of_tiers() {
            return self;
        }
        let config = self.config.completed(found);
        let mut warnings = self.warnings;
        warnings.retain(|warning| warning.id.is_none());
        warnings.extend(check::check(&config, &self.places).all());
        Loaded {
            config,
            warnings,
            ..self
        }
    }
}

impl Config {
    /// Completes a configuration without tiers: it says nothing of tiers, so they
    /// stay those of `found` (what is set up, else what is recommended), with the warnings
    /// that are accepted for them. All else that it says counts; where it tunes nothing,
    /// the tunables of `found` come along. Rules and figures never do: they are those of
    /// the file that is read.
    pub fn completed(self, found: Config) -> Config {
        if self.says_of_tiers() {
            return self;
        }
        let tunables = match self.tunables == Tunables::default() {
            true => found.tunables,
            false => self.tunables,
        };
        let mut accept = self.accept;
        let meant = found.accept.into_iter();
        let more: Vec<FindingId> = meant.filter(|warning| !accept.contains(warning)).collect();
        accept.extend(more);
        Config {
            tiers: found.tiers,
            without_tiers: found.without_tiers,
            tunables,
            accept,
            ..self
        }
    }

    /// Whether it decides which tiers there are.
    pub fn says_of_tiers(&self) -> bool {
        !self.tiers.is_empty() || self.without_tiers
    }

    /// Reads the configuration of the machine whose root directory is `root`:
    /// the main file and its drop-ins, or nothing where there are none; or that file alone.
    ///
    /// # Errors
    /// All that is wrong, each with its place.
    pub fn load(root: &Path, file: Option<&Path>) -> Result<Loaded, ConfigError> {
        Self::assemble(&files::read(root, file)?)
    }

    /// [`Config::load`] for a boot, which is better off with some of its swap than with
    /// none: a tier, rule or section in which something is wrong is left out
    /// ([`Loaded::left_out`]).
    ///
    /// # Errors
    /// Faults in none of these, as a file that is no TOML: it may say how a tier is encrypted.
    pub fn load_at_boot(root: &Path, file: Option<&Path>) -> Result<Loaded, ConfigError> {
        let sources = files::read(root, file)?;
        let (mut tree, wrong) = Tree::merge(&sources);
        let (mut understood, mut found) = understand(&tree, wrong, true);
        let mut left_out: BTreeMap<String, Finding> = BTreeMap::new();
        while found.iter().any(|it| it.severity == Severity::Critical) {
            let before = left_out.len();
            let errors = found.iter().filter(|it| it.severity == Severity::Critical);
            for error in errors {
                let Some(part) = tree.part(&error.about) else {
                    return Self::loaded((None, found), &sources);
                };
                left_out.entry(part).or_insert_with(|| error.clone());
            }
            if left_out.len() == before {
                break;
            }
            left_out.keys().for_each(|part| tree.remove(part));
            (understood, found) = understand(&tree, Vec::new(), true);
        }
        if let Some((config, _)) = &mut understood {
            // It asked for some.
            let mut parts = left_out.keys();
            config.without_tiers |=
                config.tiers.is_empty() && parts.any(|it| it.starts_with("tier."));
        }
        let mut loaded = Self::loaded((understood, found), &sources)?;
        loaded.left_out = left_out;
        Ok(loaded)
    }

    /// Reads a text that is called `name` in messages.
    ///
    /// # Errors
    /// All that is wrong, each with its place.
    pub fn from_text(name: &Path, text: &str) -> Result<Loaded, ConfigError> {
        Self::assemble(&[files::Source::new(name, text, &[])])
    }

    /// All that is wrong with a configuration that was put together otherwise:
    /// errors and warnings, without a place.
    pub fn check(&self) -> Vec<Finding> {
        check::check(self, &read::Places::new()).all()
    }

    /// Reads a part of another file: its mistakes have no place.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn from_part(text: &str) -> Result<Config, ConfigError> {
        without_places(Self::from_text(Path::new(""), text)).map(|loaded| loaded.config)
    }

    fn assemble(sources: &[files::Source]) -> Result<Loaded, ConfigError> {
        let (tree, wrong) = Tree::merge(sources);
        Self::loaded(understand(&tree, wrong, false), sources)
    }

    /// Reads all tables of the files.
    fn read(root: Node<'_>) -> Result<Config, Mistake> {
        let mut table = match root.into_inner() {
            DeValue::Table(table) => table,
            _ => DeTable::new(),
        };
        if let Some((name, _)) = table.get_key_value("without_tiers") {
            let what = "there is no such key; switch off each tier";
            return Err((name.span(), what.to_owned()));
        }
        let mut tiers = Vec::new();
        if let Some(node) = table.remove(read::TIERS) {
            let at = node.span();
            let DeValue::Table(named) = node.into_inner() else {
                return Err((at, "invalid type, expected a map".to_owned()));
            };
            for (name, node) in named {
                tiers.push(Tier::read(&name, node)?);
            }
        }
        let read = read::value(Spanned::new(0..0, DeValue::Table(table)));
        let mut config: Config =
            read.map_err(|(at, what)| (at, what.replace(", `without_tiers`", "")))?;
        let is_named = !tiers.is_empty();
        tiers.retain(|tier| tier.swap.enabled);
        config.without_tiers = is_named && tiers.is_empty();
        config.tiers = tiers;
        let watch = &mut config.watch;
        watch.recompress.take_if(|rule| !rule.enabled);
        watch.writeback.take_if(|rule| !rule.enabled);
        watch.meld.take_if(|rule| !rule.enabled);
        watch.reclaim.take_if(|rule| !rule.enabled);
        watch.guard.take_if(|rule| !rule.enabled);
        Ok(config)
    }

    fn loaded(
        (understood, mut found): Understood,
        sources: &[files::Source],
    ) -> Result<Loaded, ConfigError> {
        let files: Vec<_> = sources.iter().map(|source| source.path.clone()).collect();
        sort(&mut found, &files);
        let is_wrong = found.iter().any(|it| it.severity == Severity::Critical);
        match understood {
            Some((config, places)) if !is_wrong => Ok(Loaded {
                config,
                warnings: found,
                files,
                left_out: BTreeMap::new(),
                places,
            }),
            _ => Err(ConfigError { problems: found }),
        }
    }

    /// The tier of that name.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.name.as_str() == name)
    }

    /// The tiers in RAM.
    pub fn in_ram(&self) -> impl Iterator<Item = (&Tier, &RamDevice)> {
        let tiers = self.tiers.iter();
        tiers.filter_map(|tier| Some((tier, tier.kind.ram()?)))
    }

    /// The tiers on drives and in files.
    pub fn disks(&self) -> impl Iterator<Item = (&Tier, &DiskSwap)> {
        self.tiers.iter().filter_map(|tier| match &tier.kind {
            Kind::Disk(disk) => Some((tier, disk)),
            _ => None,
        })
    }

    /// The zswap tier: there is at most one.
    pub fn zswap(&self) -> Option<&Zswap> {
        self.tiers.iter().find_map(|tier| match &tier.kind {
            Kind::Zswap(zswap) => Some(zswap),
            _ => None,
        })
    }

    /// Every tier that is swapped to with the priority it gets, in their order.
    ///
    /// An area without a priority of its own gets the one that keeps the order
    /// of the tiers: 100 for the first area, and ten less for each after it,
    /// but always less than the area before it. zswap has none: it stands in
    /// front of all of them. -1 lets the kernel choose.
    pub fn areas(&self) -> Vec<(&Tier, i16)> {
        let mut next = 100;
        let areas = self.tiers.iter().filter(|it| !it.kind.kind().is_in_front());
        let areas = areas.map(|tier| {
            let priority = tier.swap.priority.unwrap_or(next);
            if priority >= 0 {
                next = next.min((priority - 10).max(0));
            }
            (tier, priority)
        });
        areas.collect()
    }
}

/// A configuration with the places of its keys, where it can be used, and what is wrong.
type Understood = (Option<(Config, read::Places)>, Vec<Finding>);

/// The configuration of a tree that is sound so far, and what is wrong or will disappoint. At a
/// boot what is mistaken is left out first: it may be what another part does not go with.
fn understand(tree: &Tree<'_>, wrong: Vec<Finding>, at_boot: bool) -> Understood {
    if !wrong.is_empty() {
        return (None, wrong);
    }
    let (config, mut problems) = tree.read(Config::read);
    let Some(config) = config else {
        return (None, problems);
    };
    let places = tree.places();
    if at_boot && !problems.is_empty() {
        return (Some((config, places)), problems);
    }
    let mut found = check::check(&config, &places);
    if !problems.is_empty() {
        // What follows from them is nothing new.
        let wrong: Vec<_> = problems.iter().map(|it| tree.part(&it.about)).collect();
        let is_new = |it: &Finding| !wrong.contains(&tree.part(&it.about));
        let is_left = |it: &Finding| {
            !problems
                .iter()
                .any(|wrong| wrong.about.starts_with(&it.about))
        };
        found.of_values.retain(is_left);
        let of_several = &mut found.of_several;
        of_several.retain(|it| it.severity == Severity::Critical && is_new(it));
    }
    problems.extend(found.all());
    (Some((config, places)), problems)
}

/// In the order of the files and their lines; what has no place comes first.
fn sort(problems: &mut [Finding], files: &[PathBuf]) {
    problems.sort_by_key(|problem| {
        problem.place.as_ref().map(|place| {
            let file = files.iter().position(|file| *file == place.file);
            (file, place.line, place.column)
        })
    });
}

/// Reads another file by serde, whose mistakes are told as those of a configuration.
///
/// # Errors
/// The first mistake, with its place.
pub fn from_toml<T: DeserializeOwned>(name: &Path, text: &str) -> Result<T, ConfigError> {
    let sources = [files::Source::new(name, text, &[])];
    let (tree, mut problems) = Tree::merge(&sources);
    let mut value = None;
    if problems.is_empty() {
        (value, problems) = tree.read(read::value);
    }
    problems.truncate(1);
    match (value, problems.is_empty()) {
        (Some(value), true) => Ok(value),
        _ => Err(ConfigError { problems }),
    }
}

/// Reads a table that stands in no file: its mistakes have no place.
///
/// # Errors
/// The first mistake.
pub fn from_table<T: DeserializeOwned>(table: &toml::Table) -> Result<T, ConfigError> {
    without_places(from_toml(Path::new(""), &table.to_string()))
}

/// The same with mistakes that have no place.
fn without_places<T>(read: Result<T, ConfigError>) -> Result<T, ConfigError> {
    read.map_err(|mut error| {
        let problems = error.problems.iter_mut();
        problems.for_each(|problem| problem.place = None);
        error
    })
}

/// A choice among few, each with its name.
pub trait Named: Copy + PartialEq + 'static {
    /// All of them.
    const ALL: &'static [(&'static str, Self)];

    /// The one with that name, or what there is.
    fn named(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("{text:?} is none of its values; {}", choices(text, &names))
        })
    }

    /// How the file has it.
    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, value)| *value == self);
        found.map_or("", |(name, _)| name)
    }
}

/// The name that the file has for a value of a key.
pub fn name_of(value: &impl Serialize) -> String {
    let value = toml::Value::try_from(value).ok();
    let name = value.as_ref().and_then(toml::Value::as_str);
    name.unwrap_or_default().to_owned()
}

/// More names than these are not listed.
const LISTED_MAX: usize = 12;

/// The name most likely meant, or all names, the nearest of many: the way out where a name is
/// wrong.
pub fn choices(wrong: &str, names: &[&str]) -> String {
    if let Some(way_out) = known_elsewhere(wrong, names) {
        return way_out;
    }
    match meant(wrong, names.iter().copied()) {
        Some(name) => format!("did you mean {name:?}?"),
        None if names.len() <= LISTED_MAX => format!("there are: {}", names.join(", ")),
        None => {
            let mut nearest = names.to_vec();
            nearest.sort_by(|one, other| {
                let likeness = |name| strsim::jaro_winkler(wrong, name);
                likeness(other).total_cmp(&likeness(one))
            });
            let nearest = nearest[..3].join(", ");
            format!("the nearest of {} are: {nearest}", names.len())
        }
    }
}

/// The way out for a name of other tools, or of a machine.
fn known_elsewhere(wrong: &str, names: &[&str]) -> Option<String> {
    let has = |name: &str| names.contains(&name);
    let (is_top, is_tier) = (has("tunables"), has("kind"));
    let did_you_mean = |name: &str| format!("did you mean {name:?}?");
    let lower = wrong.to_lowercase();
    match lower.trim_end_matches(|c: char| c.is_ascii_digit()) {
        kind @ ("zram" | "zmeld" | "zswap" | "disk") if is_top => {
            Some(format!("write [tier.NAME] and kind = \"{kind}\""))
        }
        "kind" | "size" | "memory_limit" | "codec" | "device" | "file" | "priority" if is_top => {
            Some("write [tier.NAME] above it".to_owned())
        }
        rule @ ("recompress" | "writeback" | "meld" | "reclaim" | "guard") if is_top => {
            Some(format!("write [watch.{rule}]"))
        }
        // earlyoom's, of names of processes.
        "prefer" if has("end") => {
            Some("write end, the list of owners and control groups that alone may be ended".into())
        }
        "avoid" | "ignore" if has("protect") => {
            Some("write protect, the list of owners and control groups that are never ended".into())
        }
        "vm" if is_top => Some("write [tunables] and the name without \"vm.\"".to_owned()),
        "vm" if has("swappiness") => Some("leave out \"vm.\"".to_owned()),
        "swappiness" | "page_cluster" if is_top || is_tier => {
            Some("it stands in [tunables]".to_owned())
        }
        "path" if has("file") => Some("write file, or device for a partition".to_owned()),
        // zswap calls a codec as the kernel does.
        "codec"
        | "compressor"
        | "comp_algorithm"
        | "algorithm"
        | "algo"
        | "compression-algorithm"
            if is_tier =>
        {
            let names = ["codec", "compressor"].into_iter();
            names.filter(|name| has(name)).map(did_you_mean).next()
        }
        "zram-size" | "zram-fraction" | "max-zram-size" | "disksize" | "percent"
            if is_tier && has("size") =>
        {
            Some("write size, with its unit: \"4096MiB\" or \"50%\"".to_owned())
        }
        "zram-resident-limit" | "mem_limit" if has("memory_limit") => {
            Some(did_you_mean("memory_limit"))
        }
        "swap-priority" | "pri" if is_tier && has("priority") => Some(did_you_mean("priority")),
        "writeback-device" | "backing_dev" if has("writeback") && is_tier => {
            Some("write [tier.NAME.writeback] and its device".to_owned())
        }
        _ => None,
    }
}

/// The name that was most likely meant.
fn meant<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let wrong = wrong.to_lowercase();
    let likeness = names.map(|name| (strsim::jaro_winkler(&wrong, name), name));
    let near = likeness.filter(|(likeness, _)| *likeness > 0.8);
    let nearest = near.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map(|(_, name)| name)
}
