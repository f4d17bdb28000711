//! What tiers of every kind have: a name, how they are swapped to, where they stand.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use zmeld_linux::amount::Span;
use zmeld_linux::text_form;

use crate::encryption::Encryption;
use crate::key::Number;
use crate::location::Location;

/// A tier's name: a letter or digit, then letters, digits, `-` or `_`, at most 32.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct TierName(String);

impl TierName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TierName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = text.len() <= 32
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if !fits {
            return Err(format!(
                "{text:?} cannot name a tier; use up to 32 letters, digits, \"-\" and \"_\", the \
                 first a letter or digit"
            ));
        }
        Ok(TierName(text.to_owned()))
    }
}

impl fmt::Display for TierName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_form!(TierName: str::parse);

/// How a tier is swapped to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, SmartDefault, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(default, deny_unknown_fields)]
pub struct Swap {
    /// Whether it is set up; its mistakes are named all the same.
    #[default = true]
    pub enabled: bool,
    /// If it fails, other tiers and the boot go on; at boot it is set up when its drive comes.
    pub optional: bool,
    /// Higher is used first. The first area gets 100, each after it 10 less. With -1 the kernel
    /// chooses, below all others.
    pub priority: Option<Number<i16, -1, 32767>>,
    /// Which freed pages the device is told of (RAM devices always). Through encryption it shows
    /// which blocks are used.
    pub discard: Discard,
}

/// Which freed pages a swap device is told of (`swapon --discard`).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// None. RAM devices hear of freed pages on their own.
    #[default]
    None,
    /// The whole area, once, when it is switched on.
    Once,
    /// Clusters of pages as they are freed.
    Pages,
    /// Both.
    Both,
}

/// A tier's backing storage.
#[derive(Debug, Clone)]
pub struct Place<'a> {
    /// The table in the tier's that says it, with a dot: "" or "writeback.".
    pub table: &'static str,
    /// The block device; none where it is a file.
    pub device: Option<&'a Location>,
    /// The path of either.
    pub path: PathBuf,
    /// How what is written is kept from whoever reads the drive.
    pub encryption: Encryption,
    /// How long a boot waits for the drive.
    pub timeout: Span,
    /// Whether the tier can do without it.
    pub is_dispensable: bool,
}

/// How long a boot waits for a drive that is not given another time.
pub const TIMEOUT: Span = Span::seconds(30);
