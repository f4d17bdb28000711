//! A configuration as a file, with comments that say why.

use std::collections::BTreeMap;

use serde::Serialize;
use toml::{Table, Value};

use crate::config::Config;
use crate::mistakes::dotted;
use crate::tier::{Kind, Tier, TierKind, Writeback};

/// Comments above keys or tables, by the key with its tables: `tier.fast.size`, `tier.fast`,
/// `tunables.swappiness`; under the empty key, the head of the file.
pub type Comments = BTreeMap<String, String>;

/// How wide a comment gets.
const WIDTH: usize = 76;

impl Config {
    /// The configuration as the text of a file. Read again it is this
    /// configuration. Only what differs from its default is written, and what
    /// has a comment; a rule is written whole.
    pub fn to_toml(&self, comments: &Comments) -> String {
        let text = String::new();
        let mut file = Writer { comments, text };
        file.comment("");
        if !comments.get("").is_none_or(String::is_empty) {
            file.text.push('\n');
        }
        let mut rest = table(self);
        rest.retain(|key, _| key != "tier" && key != "without_tiers");
        let bare = table(&Config::default());
        file.keys("", &rest, Some(&bare));
        for tier in &self.tiers {
            let bare = Tier::new(tier.name.clone(), Kind::bare(tier.kind.kind()));
            let mut bare = tier_table(&bare);
            bare.retain(|key, _| !["kind", "size", "meld"].contains(&key));
            let writeback = table(&Writeback::default());
            bare.insert("writeback".to_owned(), writeback.into());
            let (path, keys) = (format!("tier.{}", tier.name), tier_table(tier));
            file.keys(&path, &keys, Some(&bare));
            file.tables(&path, &keys, Some(&bare));
        }
        if self.without_tiers {
            // A file that names none says nothing of them.
            file.push("# No tier is asked for.");
            file.push("[tier.none]\nkind = \"zram\"\nenabled = false");
        }
        file.tables("", &rest, Some(&bare));
        file.text
    }
}

/// The keys of a section with their values, without those that have none.
fn table(section: &impl Serialize) -> Table {
    Table::try_from(section).unwrap_or_default()
}

/// The keys of a tier's kind, and its own.
fn tier_table(tier: &Tier) -> Table {
    let kind = tier.kind.kind();
    let mut keys = Table::from_iter([("kind".to_owned(), kind.name().into())]);
    let of_kind = table(&tier.kind).into_iter();
    keys.extend(of_kind.flat_map(|(_, keys)| keys.try_into::<Table>().unwrap_or_default()));
    keys.extend(table(&tier.swap));
    keys.retain(|key, _| key != "meld" || kind == TierKind::Zmeld);
    keys
}

struct Writer<'a> {
    comments: &'a Comments,
    text: String,
}

impl Writer<'_> {
    fn comment(&mut self, key: &str) {
        let comment = self.comments.get(key).map_or("", String::as_str);
        for paragraph in comment.lines() {
            let mut line = String::from("#");
            for word in paragraph.split_whitespace() {
                if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
                    self.push(&line);
                    line.truncate(1);
                }
                line.push(' ');
                // TOML forbids these in comments.
                line.push_str(&word.replace(char::is_control, "?"));
            }
            self.push(&line);
        }
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A table's own keys with a value that is more than its default, or that something is said
    /// of. What has no default, as a rule, is written whole.
    fn keys(&mut self, path: &str, keys: &Table, bare: Option<&Table>) {
        let shown = keys.iter().filter(|(name, value)| {
            let is_default = bare.map_or(*name == "enabled", |it| it.get(*name) == Some(value));
            let is_said = self.comments.contains_key(&dotted(path, name));
            let is_there = !value.is_table() && !value.as_array().is_some_and(Vec::is_empty);
            is_there && (is_said || !is_default)
        });
        let shown: Vec<_> = shown.collect();
        if !path.is_empty() && (!shown.is_empty() || self.comments.contains_key(path)) {
            if !self.text.is_empty() && !self.text.ends_with("\n\n") {
                self.text.push('\n');
            }
            self.comment(path);
            // Names of tiers are bare keys by what they may consist of.
            self.push(&format!("[{path}]"));
        }
        for (name, value) in shown {
            self.comment(&dotted(path, name));
            let value = match value.as_array().map(Vec::as_slice) {
                Some([codec]) if name == "codec" => codec,
                _ => value,
            };
            self.push(&format!("{name} = {value}"));
        }
    }

    /// The tables in a table, whose own keys they follow.
    fn tables(&mut self, path: &str, keys: &Table, bare: Option<&Table>) {
        for (name, value) in keys {
            let default = bare.and_then(|bare| bare.get(name));
            if let Some(keys) = value.as_table().filter(|_| default != Some(value)) {
                let (path, bare) = (dotted(path, name), default.and_then(Value::as_table));
                self.keys(&path, keys, bare);
                self.tables(&path, keys, bare);
            }
        }
    }
}
