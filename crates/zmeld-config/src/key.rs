//! How the values of some keys are read: numbers within bounds, texts of a form.

use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::choices::choices;

/// A whole number from `LEAST` to `MOST`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "i64", bound(deserialize = "T: TryFrom<i64>"))]
#[schemars(inline, !try_from)]
pub struct Number<T, const LEAST: i64, const MOST: i64>(
    #[schemars(range(min = LEAST, max = MOST))] pub T,
);

impl<T: TryFrom<i64>, const LEAST: i64, const MOST: i64> TryFrom<i64> for Number<T, LEAST, MOST> {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        let to = match MOST {
            i64::MAX => "on".to_owned(),
            most => format!("to {most}"),
        };
        let within = T::try_from(number).ok().map(Number);
        within
            .filter(|_| (LEAST..=MOST).contains(&number))
            .ok_or_else(|| {
                format!("is the number {number}; write a whole number from {LEAST} {to}")
            })
    }
}

pub(super) fn by<'de, T, D: Deserializer<'de>>(
    it: D,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(it)?;
    text.map(|text| parse(&text))
        .transpose()
        .map_err(Error::custom)
}

pub(super) fn absolute<'de, D: Deserializer<'de>>(it: D) -> Result<Option<PathBuf>, D::Error> {
    by(it, |text| {
        match text.starts_with('/') && !text.contains(char::is_control) {
            true => Ok(PathBuf::from(text)),
            false => Err(format!("{text:?} is no absolute path; start it with /")),
        }
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
