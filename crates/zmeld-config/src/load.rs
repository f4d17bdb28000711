//! Reading: the TOML of the files is merged, and serde makes the structs of it, whose fields are
//! the keys.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, IntoDeserializer};
use toml::de::{DeTable, DeValue};
use toml::Spanned;

use crate::config::Config;
use crate::contradictions::check;
use crate::files::{self, is_of_other_tool};
use crate::finding::{ConfigError, FilePosition, Finding, Severity};
use crate::key::Named;
use crate::mistakes::{self, Mistake, Node, Tree, TIERS};
use crate::tier::{Kind, MeldMode, RamDevice, RamDriver, Tier, TierKind, TierName};

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

    /// What was loaded with the tiers of `found` where the files name none; see [`Config::completed`].
    /// Warnings of the files alone are looked at again.
    pub fn completed(self, found: Config) -> Loaded {
        if self.config.says_of_tiers() {
            return self;
        }
        let config = self.config.completed(found);
        let mut warnings = self.warnings;
        warnings.retain(|warning| warning.id.is_none());
        // Rules of a file without tiers are for what others set up.
        let of_devices = ["watch.recompress", "watch.writeback", "watch.meld"];
        let found = check(&config, &self.places).all().into_iter();
        warnings.extend(found.filter(|it| !of_devices.contains(&&*it.about)));
        Loaded {
            config,
            warnings,
            ..self
        }
    }
}

impl Config {
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
        check(self, &mistakes::Places::new()).all()
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
}

/// The files as one table.
fn merge(sources: &[files::Source]) -> (Tree<'_>, Vec<Finding>) {
    let mut whole = DeTable::new();
    let mut wrong = Vec::new();
    for source in sources {
        let (mut legible, mut found) = (&source.text, Vec::new());
        let (mut parsed, mut errors) = DeTable::parse_recoverable(legible);
        if !errors.is_empty() {
            let (text, mistaken) = mistakes::without_unquoted(source);
            (legible, found) = (source.legible.get_or_init(|| text), mistaken);
            (parsed, errors) = DeTable::parse_recoverable(legible);
        }
        let parsed = parsed.into_inner();
        let is_doubtful = !found.is_empty()
            || !errors.is_empty()
            || parsed.keys().any(|name| is_of_other_tool(name.get_ref()));
        let of_other_tool = source.of_other_tool().filter(|_| is_doubtful);
        // Later errors often follow from a syntax error.
        match (of_other_tool, errors.first()) {
            (Some(line), _) => found = vec![line],
            (None, Some(error)) => {
                let at = error.span().map_or(source.start, |span| span.start);
                // Lines before it may be a part of the same value.
                let before = &legible[..source.line_start(at)];
                let (before, errors) = DeTable::parse_recoverable(before);
                if errors.is_empty() {
                    join(&mut whole, before.into_inner());
                }
                if !found.iter().any(|(told, _)| *told == at) {
                    found.push((at, mistakes::syntax(source, at, error.message())));
                }
            }
            (None, None) => join(&mut whole, parsed),
        }
        let found = found.into_iter();
        wrong.extend(found.map(|(at, what)| mistakes::mistake(sources, at, "", what)));
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
                let names = TierKind::ALL.iter().map(|(name, _)| format!("{name:?}"));
                let way_out = "or remove this tier's tables";
                let names = names.collect::<Vec<_>>().join(" or ");
                let what = format!("missing field `kind`; write kind = {names}, {way_out}");
                // What else is wrong with it is told as of the kind that it may be.
                let kind = likeliest_kind(&name, &keys);
                Tier::of_kind(name, kind, keys, at)?;
                return Err((head, what));
            }
        };
        Tier::of_kind(name, kind, keys, at)
    }

    fn of_kind(
        name: TierName,
        kind: TierKind,
        mut keys: DeTable<'_>,
        at: Range<usize>,
    ) -> Result<Tier, Mistake> {
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
                // Written-back pages are lost with RAM: they have no key that lasts.
                (TierKind::Zram | TierKind::Zmeld, false) => {
                    return (wrong, what.replace("`none`, `luks`, ", "`none`, "))
                }
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

/// The kind that lacks fewest of these keys; of several the first.
fn likeliest_kind(name: &TierName, keys: &DeTable<'_>) -> TierKind {
    let lacks = |kind: &TierKind| {
        let no_key = Spanned::new(0..0, Cow::from(""));
        let no_keys = [(no_key, Spanned::new(0..0, DeValue::Boolean(true)))];
        let refused = Tier::of_kind(name.clone(), *kind, no_keys.into_iter().collect(), 0..0);
        let (_, names) = refused.err().unwrap_or_default();
        let has = |key: &str| names.split('`').skip(3).step_by(2).any(|name| name == key);
        keys.keys().filter(|key| !has(key.get_ref())).count()
    };
    let kinds = TierKind::ALL.iter().map(|(_, kind)| *kind);
    kinds.min_by_key(lacks).unwrap_or(TierKind::Zram)
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
    if at_boot && !wrong.is_empty() {
        return (None, wrong);
    }
    let (config, mut problems) = tree.read(Config::read);
    // What is missing may stand where no TOML was read.
    let is_partial = !wrong.is_empty();
    let lack_a_kind = problems
        .iter()
        .filter(|it| it.what.starts_with("has no kind"));
    let tiers: Vec<String> = lack_a_kind.map(|it| format!("{}.", it.about)).collect();
    problems.retain(|it| {
        let is_of_kind = it.what.starts_with("there is no such key")
            && tiers.iter().any(|tier| it.about.starts_with(tier));
        !is_partial || !is_of_kind && !it.what.starts_with("has no ")
    });
    problems.extend(wrong);
    let Some(config) = config else {
        return (None, problems);
    };
    let places = tree.places();
    if at_boot && !problems.is_empty() {
        return (Some((config, places)), problems);
    }
    let mut found = check(&config, &places);
    if !problems.is_empty() {
        // A finding of a part with a mistake follows from that; one without a place is told under
        // another name.
        let wrong: Vec<_> = problems.iter().map(|it| tree.part(&it.about)).collect();
        let is_new = |it: &Finding| !wrong.contains(&tree.part(&it.about));
        let is_left = |it: &Finding| {
            let mut wrong = problems.iter();
            it.place.is_some() && !wrong.any(|wrong| wrong.about.starts_with(&it.about))
        };
        found.of_values.retain(is_left);
        let is_told = |it: &Finding| !is_partial && it.severity == Severity::Critical;
        let of_several = &mut found.of_several;
        of_several.retain(|it| is_told(it) && it.place.is_some() && is_new(it));
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

/// Takes the places out of a reading's mistakes.
fn without_places<T>(read: Result<T, ConfigError>) -> Result<T, ConfigError> {
    read.map_err(|mut error| {
        let problems = error.problems.iter_mut();
        problems.for_each(|problem| problem.place = None);
        error
    })
}
