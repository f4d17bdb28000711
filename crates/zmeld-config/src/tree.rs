//! Several files as one tree of values, each of which knows where it was written.
//!
//! A later file changes what an earlier one says key by key; a list is replaced
//! as a whole.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::files::Source;
use crate::finding::{FilePosition, Finding, Severity};

/// Below this key the names are the user's own.
pub(super) const TIERS: &str = "tier";

#[derive(Debug)]
pub(super) struct Node {
    pub value: Value,
    pub place: FilePosition,
}

/// As TOML knows them; a number that is too large is kept as it was written.
#[derive(Debug)]
pub(super) enum Value {
    String(String),
    Integer(i64),
    Boolean(bool),
    /// Types of no key: floats, dates, integers beyond 64 bits.
    Other(&'static str, String),
    Array(Vec<Node>),
    Table(Table),
}

impl Value {
    /// Description in words.
    pub fn is(&self) -> String {
        match self {
            Value::String(text) => format!("the text {text:?}"),
            Value::Integer(number) => format!("the number {number}"),
            Value::Boolean(value) => format!("{value}"),
            Value::Other(kind, text) => format!("the {kind} {text}"),
            Value::Array(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub entries: BTreeMap<String, Entry>,
}

impl Table {
    /// The smallest part that can be left out whole and that a key is in: a tier, a rule, or
    /// what is no table of tables. None where it is in none.
    pub fn part(&self, key: &str) -> Option<String> {
        let mut names = key.split('.');
        let (first, second) = (names.next()?, names.next());
        let entry = self.entries.get(first)?;
        let below = match &entry.node.value {
            Value::Table(table) => second.and_then(|name| table.entries.get_key_value(name)),
            _ => None,
        };
        match below {
            Some((name, below)) if matches!(below.node.value, Value::Table(_)) => {
                Some(dotted(first, name))
            }
            // All tiers are too much.
            _ => (first != TIERS).then(|| first.to_owned()),
        }
    }

    /// Takes a part out.
    pub fn remove(&mut self, part: &str) {
        let Some((first, second)) = part.split_once('.') else {
            self.entries.remove(part);
            return;
        };
        if let Some(Value::Table(table)) = self.entries.get_mut(first).map(|it| &mut it.node.value)
        {
            table.entries.remove(second);
        }
    }
}

/// A key's value, where the key was first written, and its turn among all keys.
#[derive(Debug)]
pub(super) struct Entry {
    pub key_place: FilePosition,
    /// Which file, which byte: entries sort by when they are first named.
    pub turn: (usize, usize),
    pub node: Node,
}

/// The number of the last line before the one of a byte that begins with the same key or table.
fn first_of(text: &str, at: usize) -> Option<usize> {
    let key = |line: &str| line.split('=').next().map(|it| it.trim().to_owned());
    let start = text.get(..at)?.rfind('\n').map_or(0, |it| it + 1);
    let again = key(text[start..].lines().next()?);
    let before: Vec<&str> = text[..start].lines().collect();
    Some(before.iter().rposition(|line| key(line) == again)? + 1)
}

pub(super) fn merge(sources: &[Source]) -> (Table, Vec<Finding>) {
    let mut whole = Table::default();
    let mut problems = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        let (parsed, errors) = DeTable::parse_recoverable(&source.text);
        // Later errors often follow from a syntax error.
        if let Some(error) = errors.first() {
            let at = error.span().map_or(0, |span| span.start);
            let way_out = match first_of(&source.text, at) {
                Some(line) if error.message() == "duplicate key" => format!("line {line} has it"),
                _ => "see docs/configuration.md or toml.io".to_owned(),
            };
            let what = format!("{}; {way_out}", error.message());
            problems.push(Finding {
                place: Some(source.place(at)),
                ..Finding::new(Severity::Critical, "", what)
            });
            continue;
        }
        let file = File { number, source };
        let table = file.table(parsed.get_ref());
        join(&mut whole, table, "", &mut problems);
    }
    (whole, problems)
}

struct File<'a> {
    number: usize,
    source: &'a Source,
}

impl File<'_> {
    fn table(&self, table: &DeTable<'_>) -> Table {
        let entries = table.iter().map(|(key, value)| {
            let at = key.span().start;
            let entry = Entry {
                key_place: self.source.place(at),
                turn: (self.number, at),
                node: self.node(value.get_ref(), value.span().start),
            };
            (key.get_ref().to_string(), entry)
        });
        Table {
            entries: entries.collect(),
        }
    }

    fn node(&self, value: &DeValue<'_>, at: usize) -> Node {
        let value = match value {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(
                    |_| Value::Other("number", number.to_string()),
                    Value::Integer,
                ),
            DeValue::Boolean(value) => Value::Boolean(*value),
            DeValue::Float(number) => Value::Other("number", number.to_string()),
            DeValue::Datetime(date) => Value::Other("date", date.to_string()),
            DeValue::Array(items) => {
                let nodes = items.iter();
                let nodes = nodes.map(|item| self.node(item.get_ref(), item.span().start));
                Value::Array(nodes.collect())
            }
            DeValue::Table(table) => Value::Table(self.table(table)),
        };
        Node {
            value,
            place: self.source.place(at),
        }
    }
}

/// Lets `over` change `under`.
fn join(under: &mut Table, over: Table, path: &str, problems: &mut Vec<Finding>) {
    for (name, entry) in over.entries {
        let key = dotted(path, &name);
        let Some(old) = under.entries.get_mut(&name) else {
            under.entries.insert(name, entry);
            continue;
        };
        match (&mut old.node.value, entry.node.value) {
            (Value::Table(old), Value::Table(new)) => join(old, new, &key, problems),
            (Value::Table(_), value) => {
                let (is, file) = (value.is(), old.node.place.file.display());
                let what = format!("is {is}, but a table in {file}; write [{key}] and its keys");
                problems.push(Finding {
                    place: Some(entry.node.place),
                    ..Finding::new(Severity::Critical, key, what)
                });
            }
            (_, value) => {
                old.node = Node {
                    value,
                    place: entry.node.place,
                };
                old.key_place = entry.key_place;
            }
        }
    }
}

/// A key with the tables that it is in.
pub(super) fn dotted(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}
