//! Every key of the configuration, from the schema of its types.

use std::sync::LazyLock;

use schemars::{schema_for, Schema};
use zmeld_config::*;
use zmeld_tests::shown::in_table;

/// A key, the type whose field it is, and its default where it has one.
#[derive(Debug)]
pub struct Key {
    pub of: &'static str,
    pub name: String,
    pub default: String,
    /// The least and the most that a number may be.
    pub range: Option<(i64, i64)>,
    /// The first paragraph of its comment.
    pub does: String,
}

pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let types = [
        ("Config", schema_for!(Config)),
        ("Swap", schema_for!(Swap)),
        ("RamDevice", schema_for!(RamDevice)),
        ("Zswap", schema_for!(Zswap)),
        ("DiskSwap", schema_for!(DiskSwap)),
        ("Writeback", schema_for!(Writeback)),
        ("Tunables", schema_for!(Tunables)),
        ("Watch", schema_for!(Watch)),
        ("RecompressRule", schema_for!(RecompressRule)),
        ("WritebackRule", schema_for!(WritebackRule)),
        ("MeldRule", schema_for!(MeldRule)),
        ("ReclaimRule", schema_for!(ReclaimRule)),
        ("GuardRule", schema_for!(GuardRule)),
        ("Metrics", schema_for!(Metrics)),
    ];
    let keys = types.iter().flat_map(|(of, schema)| of_type(of, schema));
    // That is of the journal.
    keys.filter(|key| key.name != "without_tiers").collect()
});

/// Keys of a type.
pub fn keys<'a>(of: &'a str) -> impl Iterator<Item = &'static Key> + 'a {
    KEYS.iter().filter(move |key| key.of == of)
}

fn of_type(of: &'static str, schema: &Schema) -> Vec<Key> {
    let keys = schema.get("properties").unwrap().as_object().unwrap();
    let keys = keys.iter().map(|(name, schema)| {
        let default = match schema.get("default") {
            _ if ["tier", "codec"].contains(&&**name) => String::new(),
            // zmeld's own; zram melds nothing.
            _ if name == "meld" && of == "RamDevice" => "manual".to_owned(),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) if !value.is_null() && !value.is_object() => value.to_string(),
            _ => String::new(),
        };
        let bound = |name: &str| schema.get(name)?.as_i64();
        Key {
            of,
            name: name.clone(),
            default,
            range: bound("minimum").zip(bound("maximum")),
            does: in_table(schema["description"].as_str().unwrap()),
        }
    });
    keys.collect()
}
