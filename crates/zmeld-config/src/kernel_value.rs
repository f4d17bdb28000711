//! Values of a section as the kernel has them.

use serde::Serialize;
use toml::{Table, Value};

use super::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelValue {
    /// The kernel's name for it.
    pub name: String,
    pub value: String,
    /// Its purpose, as the comment on the key begins.
    pub purpose: String,
}

/// Given values of a section whose keys are the kernel's, in their order; one that is to be
/// measured is not among them.
pub fn kernel_values<T: Serialize + schemars::JsonSchema>(section: &T) -> Vec<KernelValue> {
    let schema = schemars::schema_for!(T);
    let section = Table::try_from(section).unwrap_or_default();
    let given = section.into_iter().filter_map(|(key, value)| {
        let comment = schema.get("properties")?.get(&key)?.get("description")?;
        let begin = comment.as_str()?.split([',', '.', ';', ':']).next()?;
        let purpose = begin[..1].to_lowercase() + &begin[1..];
        let (name, value) = match (&*key, value) {
            ("swappiness", Value::String(_)) => return None,
            // The kernel has it in KiB.
            ("min_free", Value::String(text)) => {
                let Bytes(bytes) = text.parse().ok()?;
                ("min_free_kbytes", (bytes / 1024).to_string())
            }
            ("page_cluster", value) => ("page-cluster", value.to_string()),
            ("shrinker", Value::Boolean(value)) => ("shrinker_enabled", yes_or_no(value)),
            ("same_filled", Value::Boolean(value)) => {
                ("same_filled_pages_enabled", yes_or_no(value))
            }
            (name, Value::String(text)) => (name, text),
            (name, value) => (name, value.to_string()),
        };
        Some(KernelValue {
            name: name.to_owned(),
            value,
            purpose,
        })
    });
    given.collect()
}

fn yes_or_no(value: bool) -> String {
    if value { "Y" } else { "N" }.to_owned()
}
