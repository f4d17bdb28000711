//! The configuration in `/etc/zmeld.toml` and its drop-ins.
//!
//! A [`Config`] is a list of [`Tier`]s, fastest first, with the kernel's
//! tunables, the rules of `zmeld watch` and where metrics go. It says nothing
//! about the machine: sizes may be shares of a RAM that is not known yet, and
//! a device may be named by a tag that nothing carries.
//!
//! Reading stands here: [`Config::load`] merges the TOML of the files, and serde makes the structs
//! of it, whose fields are the keys.
//!
//! `docs/keys.md` is the reference for whoever writes the file.
//!
//! | module | what belongs there |
//! |---|---|
//! | [`codec`] | codecs and their parameters |
//! | [`location`] | how a device or file is named |
//! | [`tier`] | zram, zmeld, zswap and disk tiers |
//! | [`encryption`] | how what is written to a drive is kept from whoever reads it |
//! | [`settings`] | tunables, the rules of `zmeld watch`, metrics |
//! | `key` | how the values of some keys are read |
//! | `files` | the texts of the files, and places in them |
//! | `mistakes` | every mistake in a file, with its place and the way out |
//! | `check` | contradictions and warnings |
//! | `write` | back to a file, with comments |
//! | [`finding`] | something that is wrong, and the catalogue of what is known by name |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Serialize};

use toml::de::{DeTable, DeValue};
use toml::Spanned;

use advice::TierKind;
use files::is_of_other_tool;
use mistakes::{Mistake, Node, Tree};

pub mod advice;
mod check;
pub mod codec;
pub mod encryption;
mod files;
pub mod finding;
mod key;
pub mod location;
mod mistakes;
pub mod settings;
pub mod tier;
mod write;

pub use codec::Codec;
pub use encryption::{Cipher, Encryption, EncryptionKind};
pub use finding::{ConfigError, FilePosition, Finding, FindingId, Remedy, Severity};
pub use location::Location;
pub use mistakes::choices;
pub use settings::{
    GuardRule, KernelValue, MeldRule, Metrics, PageFilter, ReclaimRule, RecompressRule, Swappiness,
    Tunables, Watch, WritebackRule,
};
pub use tier::{
    CheckWrites, Discard, DiskSwap, Kind, MeldMode, Place, RamDevice, RamDriver, Size, Source,
    Swap, Tier, TierName, Writeback, Zpool, Zswap,
};
pub use write::Comments;
pub use zmeld_linux::amount::{Bytes, Percent, Span};
pub use zmeld_linux::groups::GroupPattern;

/// Below this key the names are the user's own.
const TIERS: &str = "tier";

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
        mistakes::nearest(&self.places, key)
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
        let (mut tree, wrong) = merge(&sources);
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
        check::check(self, &mistakes::Places::new()).all()
    }

    /// Reads a part of another file: its mistakes have no place.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn from_part(text: &str) -> Result<Config, ConfigError> {
        without_places(Self::from_text(Path::new(""), text)).map(|loaded| loaded.config)
    }

    fn assemble(sources: &[files::Source]) -> Result<Loaded, ConfigError> {
        let (tree, wrong) = merge(sources);
        Self::loaded(understand(&tree, wrong, false), sources)
    }

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
        if let Some(node) = table.remove(TIERS) {
            let at = node.span();
            let DeValue::Table(named) = node.into_inner() else {
                return Err((at, "invalid type, expected a map".to_owned()));
            };
            for (name, node) in named {
                tiers.push(Tier::read(&name, node)?);
            }
        }
        let read = value(Spanned::new(0..0, DeValue::Table(table)));
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

/// The files as one table.
fn merge(sources: &[files::Source]) -> (Tree<'_>, Vec<Finding>) {
    let mut whole = DeTable::new();
    let mut wrong = Vec::new();
    for source in sources {
        let (parsed, errors) = DeTable::parse_recoverable(&source.text);
        // Later errors often follow from a syntax error.
        let parsed = parsed.into_inner();
        let is_doubtful =
            !errors.is_empty() || parsed.keys().any(|name| is_of_other_tool(name.get_ref()));
        let of_other_tool = source.of_other_tool().filter(|_| is_doubtful);
        let (at, what) = match (of_other_tool, errors.first()) {
            (Some(found), _) => found,
            (None, Some(error)) => {
                let at = error.span().map_or(source.start, |span| span.start);
                (at, mistakes::syntax(source, at, error.message()))
            }
            (None, None) => {
                join(&mut whole, parsed);
                continue;
            }
        };
        wrong.push(mistakes::mistake(sources, at, "", what));
    }
    let root = Spanned::new(0..0, DeValue::Table(whole));
    (Tree { root, sources }, wrong)
}

/// Lets `over` change `under` key by key; a list is replaced as a whole.
fn join<'t>(under: &mut DeTable<'t>, over: DeTable<'t>) {
    for (name, mut node) in over {
        let old = under.get_mut(&**name.get_ref()).map(Spanned::get_mut);
        if let (Some(DeValue::Table(old)), DeValue::Table(new)) = (old, node.get_mut()) {
            join(old, std::mem::take(new));
        } else {
            under.remove(&**name.get_ref());
            under.insert(name, node);
        }
    }
}

fn value<T: DeserializeOwned>(node: Node<'_>) -> Result<T, Mistake> {
    let read = T::deserialize(node.into_deserializer());
    read.map_err(|err| (err.span().unwrap_or_default(), err.message().to_owned()))
}

impl Tier {
    /// Reads `[tier.NAME]`: its own keys, and those of its kind.
    fn read(name: &Spanned<Cow<'_, str>>, node: Node<'_>) -> Result<Tier, Mistake> {
        let (head, at) = (name.span(), node.span());
        let DeValue::Table(mut keys) = node.into_inner() else {
            return Err((at, "invalid type, expected a map".to_owned()));
        };
        let name = match name.get_ref().parse() {
            Ok(name) => name,
            Err(why) => return Err((head, why)),
        };
        let kind: TierKind = match keys.remove("kind") {
            Some(kind) => value(kind)?,
            None => {
                let names = TierKind::NAMES.map(|(name, _)| format!("{name:?}"));
                let way_out = "or remove what is said of a tier that is gone";
                let names = names.join(" or ");
                let what = format!("missing field `kind`; write kind = {names}, {way_out}");
                return Err((head, what));
            }
        };
        let own: &[&str] = match kind {
            TierKind::Zswap => &["enabled"],
            _ => &["enabled", "optional", "priority", "discard"],
        };
        let mut swap = DeTable::new();
        for own in own {
            swap.extend(keys.remove_entry(*own));
        }
        let own_names: Vec<_> = keys.keys().map(Spanned::span).collect();
        let table = |keys| Spanned::new(at.clone(), DeValue::Table(keys));
        let read = Kind::read(kind, table(keys)).map_err(|(wrong, what)| {
            let of_all = own.join("`, `");
            // A key of a table in it has other names to choose from.
            let is_own = wrong == at || own_names.contains(&wrong);
            let what = match (kind, is_own && what.starts_with(mistakes::NO_SUCH_KEY)) {
                (_, false) => return (wrong, what),
                (TierKind::Zram, _) => what.replace(", `meld`, `check_writes`", ""),
                (TierKind::Zmeld, _) => what,
                _ => what.replacen("expected ", "expected `kind`, ", 1),
            };
            (wrong, format!("{what}, `{of_all}`"))
        });
        let kind = read?;
        let swap = value(table(swap))?;
        Ok(Tier { name, swap, kind })
    }
}

impl Kind {
    fn read(kind: TierKind, keys: Node<'_>) -> Result<Kind, Mistake> {
        Ok(match kind {
            TierKind::Zram => Kind::Ram(value(keys)?),
            TierKind::Zmeld => {
                let says_when = keys.get_ref().get("meld").is_some();
                let mut device: RamDevice = value(keys)?;
                device.driver = RamDriver::Zmeld;
                if !says_when {
                    device.meld = MeldMode::Manual;
                }
                Kind::Ram(device)
            }
            TierKind::Zswap => Kind::Zswap(value(keys)?),
            TierKind::Disk => Kind::Disk(value(keys)?),
        })
    }
}

/// A configuration with the places of its keys, where it can be used, and what is wrong.
type Understood = (Option<(Config, mistakes::Places)>, Vec<Finding>);

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
    let (tree, mut problems) = merge(&sources);
    let mut found = None;
    if problems.is_empty() {
        (found, problems) = tree.read(value);
    }
    problems.truncate(1);
    match (found, problems.is_empty()) {
        (Some(found), true) => Ok(found),
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
