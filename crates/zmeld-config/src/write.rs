//! A configuration as a file, with comments that say why.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml::Value;

use super::keys::Section;
use super::section::{KeyValue, Keys, WrittenValue};
use super::tier::OPTIONAL;
use super::*;

/// Comments above keys or tables, by the key with its tables: `tier.fast.size`, `tier.fast`,
/// `tunables.swappiness`; under the empty key, the head of the file.
pub type Comments = BTreeMap<String, String>;

/// How wide a comment gets.
const WIDTH: usize = 76;

impl Config {
    /// The configuration as the text of a file. Read again it is this
    /// configuration. Only what differs from its default is written, and what
    /// has a comment.
    pub fn to_toml(&self, comments: &Comments) -> String {
        let mut file = Writer {
            comments,
            text: String::new(),
        };
        file.comment("");
        if !comments.get("").is_none_or(String::is_empty) {
            file.text.push('\n');
        }
        let lines = self.lines();
        file.values("", &lines);
        for tier in &self.tiers {
            file.tier(tier);
        }
        if self.without_tiers {
            // A file that names none says nothing of them.
            file.push("# No tier is asked for.");
            file.push("[tier.none]");
            file.push("kind = \"zram\"");
            file.push("enabled = false");
        }
        file.tables("", &lines);
        file.text
    }
}

struct Writer<'a> {
    comments: &'a Comments,
    text: String,
}

impl Writer<'_> {
    fn comment(&mut self, key: &str) {
        let Some(comment) = self.comments.get(key) else {
            return;
        };
        for paragraph in comment.lines() {
            let mut line = String::from("#");
            for word in paragraph.split_whitespace() {
                if line.len() > 1 && line.chars().count() + 1 + word.chars().count() > WIDTH {
                    self.push(&line);
                    line.truncate(1);
                }
                line.push(' ');
                line.push_str(word);
            }
            self.push(&line);
        }
    }

    fn push(&mut self, line: &str) {
        // TOML forbids these in comments.
        let clean = line.replace(|c: char| c.is_control() && c != '\t', "?");
        self.text.push_str(&clean);
        self.text.push('\n');
    }

    fn header(&mut self, path: &str) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.comment(path);
        // Names of tiers are bare keys by what they may consist of.
        let _ = writeln!(self.text, "[{path}]");
    }

    fn line(&mut self, path: &str, name: &str, value: &Value) {
        self.comment(&tree::dotted(path, name));
        let _ = writeln!(self.text, "{name} = {value}");
    }

    /// Whether a value is more than its default, or something is said of it.
    fn is_shown(&self, path: &str, line: &KeyValue) -> bool {
        let key = || tree::dotted(path, line.key.name);
        matches!(line.written, WrittenValue::Value(_))
            && (line.key.is_always_written
                || !line.is_default
                || self.comments.contains_key(&key()))
    }

    fn values(&mut self, path: &str, lines: &[KeyValue]) {
        for line in lines {
            if let (true, WrittenValue::Value(value)) = (self.is_shown(path, line), &line.written) {
                self.line(path, line.key.name, value);
            }
        }
    }

    /// The tables in a table, whose own values they follow.
    fn tables(&mut self, path: &str, lines: &[KeyValue]) {
        for line in lines {
            let WrittenValue::Table(lines) = &line.written else {
                continue;
            };
            if line.is_default {
                continue;
            }
            let path = tree::dotted(path, line.key.name);
            // A table with nothing but tables needs no header of its own.
            if lines.iter().any(|line| self.is_shown(&path, line))
                || lines.iter().all(|line| line.is_default)
                || self.comments.contains_key(&path)
            {
                self.header(&path);
            }
            self.values(&path, lines);
            self.tables(&path, lines);
        }
    }

    fn tier(&mut self, tier: &Tier) {
        let path = format!("tier.{}", tier.name);
        let mut lines = tier.kind.lines();
        let sections = tier.kind.sections();
        lines.retain(|line| sections.contains(&line.key.section));
        // It stands with what else is said of how an area is swapped to.
        if let Some(at) = lines
            .iter()
            .position(|it| it.key.section == Section::Swapped)
        {
            for mut line in OPTIONAL.lines(&tier.optional) {
                line.is_default = !tier.optional;
                lines.insert(at, line);
            }
        }
        self.header(&path);
        self.line(&path, "kind", &tier.kind.kind().name().into());
        self.values(&path, &lines);
        self.tables(&path, &lines);
    }
}
