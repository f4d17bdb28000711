//! What is wanted: `[watch.guard]` of the configuration.
//!
//! Nothing else of it is understood here; `zmeld config check` says what is wrong with all of
//! it, and where.

use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::de::DeTable;
use toml::{Table, Value};
use zmeld_linux::amount::{Percent, Span};
use zmeld_linux::groups::GroupPattern;
use zmeld_linux::tree::Tree;
use zmeld_linux::{config_files, FileError};

use crate::Error;

/// What is done before a machine freezes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GuardRule {
    /// Room is made where programs can take less than this share of what they can have more,
    /// or where what they can take is gone within ten seconds at today's rate.
    pub room_below: Percent,
    /// Processes are ended where they can take less than this share.
    pub end_below: Percent,
    /// Or where less than that is available without swapping and all tasks waited for memory
    /// this share of the last ten seconds (`/proc/pressure/memory`, `full`).
    pub stalled_above: Percent,
    /// What may be ended: these owners or groups, each with what is below it; without any,
    /// all that is not protected.
    pub end: Vec<GroupPattern>,
    /// Never these, nor what is below them.
    pub protect: Vec<GroupPattern>,
    /// How long a process has from SIGTERM to SIGKILL.
    pub grace: Span,
    /// A program and its arguments, run as nobody after something was ended, with the facts in
    /// its environment.
    pub on_end: Vec<String>,
}

impl Default for GuardRule {
    fn default() -> Self {
        GuardRule {
            room_below: Percent::whole(15),
            end_below: Percent::whole(10),
            // systemd-oomd's limit for a group, there for 30 s.
            stalled_above: Percent::whole(60),
            end: Vec::new(),
            protect: Vec::new(),
            grace: Span::seconds(3),
            on_end: Vec::new(),
        }
    }
}

/// A rule, and whether it only says what it would do.
#[derive(Debug)]
pub struct Wanted {
    /// None: nothing is to be guarded.
    pub rule: Option<GuardRule>,
    /// `dry_run` of `[watch]`.
    pub dry_run: bool,
}

impl Wanted {
    /// That of the machine whose root directory is `root`, or of one file.
    ///
    /// # Errors
    /// When a file cannot be read, or its rule cannot be followed.
    pub fn load(root: &Path, file: Option<&Path>) -> Result<Wanted, Error> {
        let failed = |err: FileError| Error::Config(err.to_string());
        let tree = Tree::new(root);
        let paths = match file {
            Some(file) => vec![file.to_path_buf()],
            None => config_files::find(&tree).map_err(failed)?,
        };
        let (mut whole, mut texts) = (Table::new(), Vec::new());
        for path in paths {
            let bytes = match file {
                Some(_) => config_files::read(&Tree::new("/"), &path).map(Some),
                None => config_files::read_trusted(&tree, &path),
            };
            let bytes = bytes.map_err(failed)?.unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let table = text.parse::<Table>().map_err(|err| {
                let line = line(&text, err.span().map_or(0, |it| it.start));
                Error::Config(format!("{}:{line}: {}", path.display(), err.message()))
            })?;
            join(&mut whole, table);
            texts.push((path, text));
        }
        Wanted::of(&whole).map_err(|(key, why)| {
            // The last one that sets a key decides.
            let mut places = texts.iter().rev();
            let place = places.find_map(|(path, text)| Some((path, position(text, &key)?)));
            let place = place.map(|(path, line)| format!("{}:{line}: ", path.display()));
            let place = place.unwrap_or_default();
            Error::Config(format!("{place}[watch.guard] {key}: {why}"))
        })
    }

    /// What the configuration says; or a key, and what is wrong with it.
    fn of(whole: &Table) -> Result<Wanted, (String, String)> {
        let watch = whole.get("watch").and_then(Value::as_table);
        let dry_run = watch.and_then(|watch| watch.get("dry_run")?.as_bool());
        let dry_run = dry_run.unwrap_or(false);
        let Some(guard) = watch.and_then(|watch| watch.get("guard")) else {
            let rule = None;
            return Ok(Wanted { rule, dry_run });
        };
        let wrong = |key: &str, why: &str| (key.to_owned(), why.to_owned());
        let mut table = guard.clone();
        let table = table.as_table_mut().ok_or(wrong("", "it is no table"))?;
        let is_on = table.remove("enabled").unwrap_or(Value::Boolean(true));
        let is_on = is_on
            .as_bool()
            .ok_or(wrong("enabled", "write true or false"))?;
        // One by one, since an error of all does not name its key.
        for (key, value) in &*table {
            let one = Table::from_iter([(key.clone(), value.clone())]);
            one.try_into::<GuardRule>()
                .map_err(|err| wrong(key, err.message()))?;
        }
        let rule = std::mem::take(table).try_into::<GuardRule>();
        let rule = rule.map_err(|err| wrong("", err.message()))?;
        match rule.problems().into_iter().next() {
            Some((key, why)) => Err(wrong(key, &why)),
            None => Ok(Wanted {
                rule: is_on.then_some(rule),
                dry_run,
            }),
        }
    }
}

/// The line of a text in which a place is.
fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())]
        .iter()
        .filter(|it| **it == b'\n')
        .count()
}

/// The line in which a file sets a key of the rule, or the rule.
fn position(text: &str, key: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let (mut table, mut at) = (Some(root.get_ref()), None);
    for name in ["watch", "guard", key]
        .into_iter()
        .filter(|it| !it.is_empty())
    {
        let mut all = table?.iter();
        let (found, value) = all.find(|(it, _)| it.get_ref().replace('-', "_") == name)?;
        (table, at) = (value.get_ref().as_table(), Some(found.span().start));
    }
    at.map(|at| line(text, at))
}

impl GuardRule {
    /// What of it cannot be followed: the key, and why with a way out.
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        let all = Percent::whole(100);
        for (key, share) in [
            ("room_below", self.room_below),
            ("end_below", self.end_below),
            ("stalled_above", self.stalled_above),
        ] {
            if share > all {
                problems.push((key, format!("{share} is more than all of it")));
            }
        }
        if self.room_below < self.end_below {
            problems.push((
                "room_below",
                format!(
                    "{} is less than end_below, {}: what was not tried is not given up; write more",
                    self.room_below, self.end_below
                ),
            ));
        }
        if self.grace > Span::seconds(60) {
            let why = format!(
                "{}: memory is gone long before; write 1min at most",
                self.grace
            );
            problems.push(("grace", why));
        }
        if self.protect.iter().any(|pattern| pattern.matches("/")) {
            let why = "\"/\" protects all that there is; name some, or write enabled = false";
            problems.push(("protect", why.to_owned()));
        }
        if self.on_end.first().is_some_and(|it| !it.starts_with('/')) {
            let why = "the program is written with its path: on_end = [\"/path\", \"argument\"]";
            problems.push(("on_end", why.to_owned()));
        }
        problems
    }
}

/// Lets `over` change `under`, key by key. In the names of keys `-` is `_`.
fn join(under: &mut Table, over: Table) {
    for (name, value) in over {
        let name = name.replace('-', "_");
        match (under.get_mut(&name), value) {
            (Some(Value::Table(under)), Value::Table(over)) => join(under, over),
            (_, Value::Table(over)) => {
                let mut table = Table::new();
                join(&mut table, over);
                under.insert(name, Value::Table(table));
            }
            (_, value) => {
                under.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use zmeld_linux::Host;

    use super::*;

    #[test]
    fn drop_ins_change_it_key_by_key_and_nothing_else_is_understood() {
        let (root, host) = Host::planted(&[]);
        let put = |path: &str, text: &str| host.plant(path, text);
        let load = || Wanted::load(root.path(), None);
        assert!(load().unwrap().rule.is_none());
        put("usr/lib/zmeld.toml", "[watch.guard]\nend = [\"/hidden\"]\n");
        put(
            "etc/zmeld.toml",
            "[tier.x]\nkind = 7\n[watch]\ndry-run = true\n[watch.guard]\nend-below = \"2%\"\n",
        );
        put(
            "run/zmeld.toml.d/1.toml",
            "[watch.guard]\nend = [\"/run\"]\n",
        );
        put("etc/zmeld.toml.d/2.toml", "watch.guard.end = [\"/apps\"]\n");
        let wanted = load().unwrap();
        let rule = wanted.rule.unwrap();
        assert!(wanted.dry_run);
        assert_eq!(rule.end_below, Percent::whole(2));
        assert_eq!(rule.end, ["/apps".parse().unwrap()]);
        put("etc/zmeld.toml.d/3.toml", "watch.guard.enabled = false\n");
        assert!(load().unwrap().rule.is_none());
        for (wrong, said) in [
            (
                "\nwatch.guard.protcet = [\"/kept\"]",
                ":2: [watch.guard] protcet: unknown field",
            ),
            (
                "[watch.guard]\n\nend-below = 7",
                ":3: [watch.guard] end_below: ",
            ),
            (
                "watch.guard.on_end = [\"notify-send\"]",
                ":1: [watch.guard] on_end: ",
            ),
            (
                "watch.guard.end_below = \"101%\"",
                ":1: [watch.guard] end_below: 101% is more",
            ),
            (
                "watch.guard.enabled = 1",
                ":1: [watch.guard] enabled: write true or false",
            ),
            ("watch.guard = true", "it is no table"),
            ("watch.guard", ":1: "),
        ] {
            put("etc/zmeld.toml.d/4.toml", wrong);
            let err = load().unwrap_err().to_string();
            let is_placed = err.starts_with("/etc/zmeld.toml.d/4.toml:") && !err.contains('\n');
            assert!(is_placed && err.contains(said), "{err}");
        }
        // What another file has set stays wrong where that one says nothing of it.
        put("etc/zmeld.toml.d/4.toml", "watch.guard.end = []");
        put(
            "etc/zmeld.toml.d/1.toml",
            "[watch.guard]\nroom_below = \"1%\"",
        );
        let err = load().unwrap_err().to_string();
        assert!(
            err.starts_with("/etc/zmeld.toml.d/1.toml:2: [watch.guard] room_below"),
            "{err}"
        );
    }
}
