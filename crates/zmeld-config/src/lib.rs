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
//! | `section` | how a table is described once: a row a key |
//! | `value`, `named` | how each type of value is read and written |
//! | [`keys`] | every key, with its default |
//! | `files`, `tree`, `read` | files to text, texts to one tree, the tree to a [`Config`] |
//! | `check` | contradictions and warnings |
//! | `write` | back to a file, with comments |
//! | [`finding`] | something that is wrong, and the catalogue of what is known by name |

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use section::keys_of;

pub mod advice;
mod check;
pub mod codec;
pub mod encryption;
mod files;
pub mod finding;
pub mod keys;
pub mod location;
mod named;
pub mod read;
pub mod reclaim;
mod section;
pub mod settings;
pub mod size;
pub mod tier;
pub mod tree;
mod value;
mod write;

pub use codec::{Codec, Recompression};
pub use encryption::{Cipher, Encryption};
pub use finding::{ConfigError, FilePosition, Finding, FindingId, Remedy, Severity};
pub use location::Location;
pub use named::Named;
pub use reclaim::{Mechanism, ReclaimRule};
pub use section::KernelValue;
pub use settings::{
    GuardRule, MeldRule, Metrics, PageFilter, RecompressRule, Swappiness, Tunables, Watch,
    WritebackRule,
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
pub struct Config {
    /// The tiers, the fastest first. Names are unique.
    pub tiers: Vec<Tier>,
    /// Whether all tiers that it names are switched off: it asks for none, where one without tiers
    /// says nothing of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
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

keys_of! {
    Config in Top {
        tunables, without("nothing is tuned");
        watch, without("no rules");
        metrics, without("no metrics");
        accept;
    }
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
        read::place(&self.places, key)
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
        warnings.extend(check::check(&config, &self.places));
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
        let (mut tree, wrong) = tree::merge(&sources);
        let (mut understood, mut found) = understand((&tree, wrong));
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
            (understood, found) = understand((&tree, Vec::new()));
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
        let source = files::Source::new(name, text.to_owned());
        Self::assemble(&[source])
    }

    /// All that is wrong with a configuration that was put together otherwise:
    /// errors and warnings, without a place.
    pub fn check(&self) -> Vec<Finding> {
        check::check(self, &read::Places::new())
    }

    /// Reads what was parsed as a part of another file: what is wrong with it has no place.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn from_table(table: &toml::Table) -> Result<Config, ConfigError> {
        let read = Self::from_text(Path::new(""), &table.to_string());
        read.map(|loaded| loaded.config).map_err(|mut error| {
            error.problems.iter_mut().for_each(|it| it.place = None);
            error
        })
    }

    fn assemble(sources: &[files::Source]) -> Result<Loaded, ConfigError> {
        let (tree, wrong) = tree::merge(sources);
        Self::loaded(understand((&tree, wrong)), sources)
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

    /// Every swap area with the priority it gets, in the order of the tiers.
    ///
    /// An area without a priority of its own gets the one that keeps the order
    /// of the tiers: 100 for the first area, and ten less for each after it,
    /// but always less than the area before it. zswap has none: it stands in
    /// front of all of them. -1 lets the kernel choose.
    pub fn areas(&self) -> Vec<(&Tier, &Swap, i16)> {
        let mut next = 100;
        let mut areas = Vec::new();
        for tier in &self.tiers {
            let Some(swap) = tier.kind.swap() else {
                continue;
            };
            let priority = swap.priority.unwrap_or(next);
            if priority >= 0 {
                next = next.min((priority - 10).max(0));
            }
            areas.push((tier, swap, priority));
        }
        areas
    }
}

/// A configuration with the places of its keys, where it can be used, and what is wrong.
type Understood = (Option<(Config, read::Places)>, Vec<Finding>);

/// The configuration of a tree that is sound so far, and what is wrong or will disappoint.
fn understand((tree, wrong): (&tree::Table, Vec<Finding>)) -> Understood {
    if !wrong.is_empty() {
        return (None, wrong);
    }
    let (config, places, mut problems) = read::read(tree);
    // Notices are no reason to leave a machine without swap.
    if problems.iter().any(|it| it.severity == Severity::Critical) {
        return (None, problems);
    }
    problems.extend(check::check(&config, &places));
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
    toml::from_str(text).map_err(|mut err: toml::de::Error| {
        let found = err.message().to_owned();
        let kind = found.split([':', '`']).next().unwrap_or_default();
        let mut quoted = found.split(['`', '"']).skip(1).step_by(2);
        let wrong = quoted.next().unwrap_or_default();
        let way_out = choices(wrong, &Vec::from_iter(quoted));
        let (is, needed) = found.split_once(", expected ").unwrap_or_default();
        let is = is.split_once(": ").unwrap_or_default().1;
        let needed = match needed {
            "u32" | "u64" | "usize" => "a whole number",
            "f64" => "a number",
            it => it,
        };
        // Without its text, the error ends with the tables that it is in.
        let at = err.span().map_or(0, |span| span.start);
        err.set_input(None);
        let said = err.to_string();
        let tables = said.split_once("\nin `").map_or("", |it| it.1);
        let tables = tables.trim_end_matches("`\n");
        // Faults within a tagged table are noticed at its head.
        let within = at + text.get(at..).and_then(|it| it.find(wrong)).unwrap_or(0);
        let head = text
            .get(..within)
            .and_then(|it| it.rsplit(['\n', '{', ',']).next());
        let key = head.and_then(|it| Some(it.split_once('=')?.0.trim()));
        let key = key.filter(|it| tables.rsplit('.').next() != Some(it));
        let key = key.unwrap_or_default();
        let none = format!("{wrong:?} is none of its values; {way_out}");
        let mistyped = format!("is the {is}; write {needed}");
        let (at, key, what) = match kind.trim_end() {
            "unknown field" => (within, wrong, format!("there is no such key; {way_out}")),
            "unknown variant" => (within, key, none),
            "invalid type" | "invalid value" => (within, key, mistyped),
            "missing field" => (at, "", format!("has no {wrong}")),
            _ => (at, "", found.clone()),
        };
        let place = files::Source::new(name, text.to_owned()).place(at);
        let key = tree::dotted(tables, key);
        ConfigError::of(Some(place), key.trim_end_matches('.'), what)
    })
}

/// More names than these are not listed.
const LISTED_MAX: usize = 12;

/// The name most likely meant, or all names, the nearest of many: the way out where a name is
/// wrong.
pub fn choices(wrong: &str, names: &[&str]) -> String {
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

/// The name that was most likely meant.
fn meant<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let likeness = names.map(|name| (strsim::jaro_winkler(wrong, name), name));
    let near = likeness.filter(|(likeness, _)| *likeness > 0.8);
    let nearest = near.max_by(|one, other| one.0.total_cmp(&other.0));
    nearest.map(|(_, name)| name)
}
