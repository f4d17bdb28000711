//! How the values of some keys are read: numbers within bounds, texts of a form.

use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A whole number from `LEAST` to `MOST`.
pub(super) fn within<'de, const LEAST: i64, const MOST: i64, T, D>(
    it: D,
) -> Result<Option<T>, D::Error>
where
    T: TryFrom<i64>,
    D: Deserializer<'de>,
{
    let number = Option::<i64>::deserialize(it)?;
    if let Some(number) = number.filter(|it| !(LEAST..=MOST).contains(it)) {
        let way_out = format!("write a whole number from {LEAST} to {MOST}");
        return Err(Error::custom(format!("is the number {number}; {way_out}")));
    }
    Ok(number.and_then(|it| T::try_from(it).ok()))
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
