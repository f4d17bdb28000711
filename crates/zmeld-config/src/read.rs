//! From a tree of values to a [`Config`], with every wrong value reported.

use std::collections::BTreeMap;

use super::keys::{self, Section};
use crate::advice::TierKind;

use super::named::Named;
use super::section::{Keys, Row};
use super::tier::OPTIONAL;
use super::tree::{dotted, Node, Table, Value, TIERS};
use super::value::Limits;
use super::*;
use crate::finding::{FilePosition, Finding, Severity};

/// Positions of the keys read.
pub(super) type Places = BTreeMap<String, FilePosition>;

/// Position of a key, or of the nearest table or list that it is in.
pub(super) fn place<'a>(places: &'a Places, mut key: &str) -> Option<&'a FilePosition> {
    loop {
        if let Some(place) = places.get(key) {
            return Some(place);
        }
        key = &key[..key.rfind(['.', '['])?];
    }
}

/// Reads the tree. Where something is wrong its default stands in, so that
/// what follows can be read too.
pub(super) fn read(root: &Table) -> (Config, Places, Vec<Finding>) {
    let mut reader = Reader::default();
    let nowhere = FilePosition::default();
    let top = OpenTable::new(&mut reader, root, "", &nowhere, &[Section::Top]);
    let mut config = Config {
        tiers: top.tiers(&mut reader),
        ..Config::default()
    };
    config.take(&mut reader, &top);
    let of_tiers = dotted(TIERS, "");
    let is_named = reader.places.keys().any(|key| key.starts_with(&of_tiers));
    config.without_tiers = config.tiers.is_empty() && is_named;
    (config, reader.places, reader.problems)
}

#[derive(Default)]
pub(super) struct Reader {
    places: Places,
    pub problems: Vec<Finding>,
}

impl Reader {
    pub fn wrong(&mut self, place: &FilePosition, key: &str, what: impl Into<String>) {
        self.problems.push(Finding {
            place: Some(place.clone()),
            ..Finding::new(Severity::Critical, key, what.into())
        });
    }

    /// A value of another type than the key takes.
    pub fn mistyped(&mut self, node: &Node, key: &str, way_out: &str) {
        let what = format!("is {}; {way_out}", node.value.is());
        self.wrong(&node.place, key, what);
    }

    /// A text that `parse` understands.
    pub fn text<T>(
        &mut self,
        node: &Node,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Value::String(text) = &node.value else {
            let way_out = "a text is needed: write it in quotes, with its unit if it has one";
            self.mistyped(node, key, way_out);
            return None;
        };
        let parsed = parse(text);
        parsed.map_err(|why| self.wrong(&node.place, key, why)).ok()
    }

    /// A whole number between the two.
    pub fn number(&mut self, node: &Node, key: &str, limits: Limits) -> Option<i64> {
        let (lowest, highest) = limits;
        match node.value {
            Value::Integer(number) if (lowest..=highest).contains(&number) => Some(number),
            _ => {
                let quotes = match node.value {
                    Value::String(_) => ", without quotes",
                    _ => "",
                };
                let way_out = format!("write a whole number from {lowest} to {highest}{quotes}");
                self.mistyped(node, key, &way_out);
                None
            }
        }
    }

    /// Those items of a list that are understood.
    pub fn list<'t, T>(
        &mut self,
        node: &'t Node,
        key: &str,
        mut item: impl FnMut(&mut Reader, &'t Node, &str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::Array(nodes) = &node.value else {
            self.mistyped(node, key, "write a list in [ ]");
            return None;
        };
        let items = nodes.iter().enumerate().filter_map(|(at, node)| {
            let key = format!("{key}[{at}]");
            self.places.insert(key.clone(), node.place.clone());
            item(self, node, &key)
        });
        Some(items.collect())
    }
}

pub(super) struct OpenTable<'t> {
    table: &'t Table,
    pub path: String,
    pub place: FilePosition,
    known: Vec<&'static str>,
}

impl<'t> OpenTable<'t> {
    /// Opens a table whose keys stand in those sections; others are refused.
    fn new(
        reader: &mut Reader,
        table: &'t Table,
        path: &str,
        place: &FilePosition,
        sections: &[Section],
    ) -> Self {
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
            let (place, key) = (&entry.key_place, dotted(path, name));
            // zswap calls a codec as the kernel does.
            let like = match name.as_str() {
                "compressor" => "codec",
                "codec" => "compressor",
                name => name,
            };
            let what = format!("there is no such key; {}", choices(like, &known));
            reader.wrong(place, &key, what);
        }
        OpenTable {
            table,
            path: path.to_owned(),
            place: place.clone(),
            known,
        }
    }

    /// Opens the table that is a key's value.
    pub fn value(
        reader: &mut Reader,
        node: &'t Node,
        key: &str,
        sections: &[Section],
    ) -> Option<Self> {
        let Value::Table(table) = &node.value else {
            reader.mistyped(node, key, &format!("write [{key}] and its keys"));
            return None;
        };
        let place = reader.places.get(key).unwrap_or(&node.place).clone();
        Some(OpenTable::new(reader, table, key, &place, sections))
    }

    /// Whether a key may stand in it.
    pub fn takes(&self, name: &str) -> bool {
        self.known.contains(&name)
    }

    pub fn key(&self, name: &str) -> String {
        dotted(&self.path, name)
    }

    /// The value of a key that may stand in it.
    pub fn node(&self, name: &str) -> Option<&'t Node> {
        let entry = self.table.entries.get(name)?;
        self.takes(name).then_some(&entry.node)
    }

    /// Returns false if a drop-in switched this tier or rule off.
    pub fn is_enabled(&self, reader: &mut Reader) -> bool {
        let mut is_enabled = true;
        Row::new(Section::Tier, "enabled").take(reader, self, &mut is_enabled);
        is_enabled
    }

    fn tiers(&self, reader: &mut Reader) -> Vec<Tier> {
        let Some(node) = self.node(TIERS) else {
            return Vec::new();
        };
        let Value::Table(table) = &node.value else {
            reader.mistyped(node, TIERS, "write [tier.NAME] and its keys");
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
                reader.mistyped(&entry.node, &key, &format!("write [{key}] and its keys"));
                continue;
            };
            tiers.extend(tier(reader, table, &key, &entry.key_place, name));
        }
        tiers
    }
}

/// One tier; nothing if it is switched off or its kind is not known.
fn tier(
    reader: &mut Reader,
    table: &Table,
    path: &str,
    place: &FilePosition,
    name: TierName,
) -> Option<Tier> {
    let mut meant = None;
    let kind = match table.entries.get("kind") {
        Some(entry) => reader.text(&entry.node, &dotted(path, "kind"), |text| {
            let names = TierKind::ALL.iter().map(|it| it.0);
            meant = super::meant(text, names).and_then(|it| TierKind::named(it).ok());
            TierKind::named(text)
        }),
        None => {
            let names = TierKind::NAMES.map(|(name, _)| format!("{name:?}"));
            let what = format!(
                "has no kind; write kind = {}, or remove what is said of a tier that is gone",
                names.join(" or ")
            );
            reader.wrong(place, path, what);
            None
        }
    };
    // A misspelt kind hides none of the tier's other mistakes.
    let kind = kind.or(meant)?;
    let mut tier = Tier {
        name,
        optional: false,
        kind: Kind::bare(kind),
    };
    let open = OpenTable::new(reader, table, path, place, tier.kind.sections());
    OPTIONAL.take(reader, &open, &mut tier.optional);
    tier.kind.take(reader, &open);
    // A tier that is switched off is checked all the same.
    open.is_enabled(reader).then_some(tier)
}
