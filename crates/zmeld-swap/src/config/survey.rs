//! When `zmeld watch` leaves a survey of this machine behind, and where.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use zmeld_linux::store_url::StoreUrl;

use super::Span;

/// A survey now and then: `zmeld scan --survey`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurveyRule {
    /// Where surveys go: a folder, or the URL of an object store.
    pub place: String,
    /// The fleet's secret.
    pub key: PathBuf,
    /// How often; the moment is one of chance within a tenth of it.
    pub every: Span,
    /// What surveys carry, each NAME=VALUE.
    pub labels: Vec<String>,
    /// Contents that the sketch of each owner keeps; without, as the command has it.
    pub sketch: Option<u32>,
}

impl Default for SurveyRule {
    fn default() -> Self {
        SurveyRule {
            place: "/var/lib/zmeld/surveys".to_owned(),
            key: PathBuf::from("/etc/zmeld/fleet.key"),
            every: Span::seconds(86_400),
            labels: Vec::new(),
            sketch: None,
        }
    }
}

impl SurveyRule {
    /// Whether surveys go through a network.
    pub fn is_in_a_store(&self) -> bool {
        self.place.contains("://")
    }
}

/// A place as it may stand in a configuration, which others than its writer may read.
pub(super) fn place(text: &str) -> Result<String, String> {
    if text.starts_with('/') && !text.contains(char::is_control) {
        return Ok(text.to_owned());
    }
    if text.contains("://") {
        // What stands behind a scheme may be a secret, and is not shown.
        return match StoreUrl::parse(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(bad) => Err(format!("\"{}\" is no place: {}", bad.text, bad.problem)),
        };
    }
    let scheme = text.split_once(":/").map(|(scheme, _)| scheme);
    let shown = scheme.map_or_else(|| text.to_owned(), |scheme| format!("{scheme}:/..."));
    Err(format!(
        "{shown:?} is no place; write a folder from the root on, or s3://, gs:// or az:// \
         with a bucket"
    ))
}

/// A label as `zmeld scan --label` takes it.
pub(super) fn label(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    match text.split_once('=') {
        Some((name, value))
            if !name.is_empty()
                && name.chars().all(is_name)
                && !value.contains(char::is_control) =>
        {
            Ok(text.to_owned())
        }
        _ => Err(format!("{text:?} is no label; write NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_folders_and_stores_without_secrets() {
        for good in [
            "/srv/surveys",
            "s3://fleet/a",
            "gs://fleet",
            "az://fleet/b/",
        ] {
            assert_eq!(place(good).unwrap(), good);
        }
        for wrong in [
            "",
            "surveys",
            "s3://",
            "s3://K:secret@fleet",
            "ftp://secret",
            "s3:/secret",
            "s3://bucket//secret",
            "az://bucket/secret/../x",
            "gs://bu cket/secret",
            "/a\nb",
        ] {
            let said = place(wrong).unwrap_err();
            assert!(!said.contains("secret"), "{said}");
        }
        assert!(label("role=web").is_ok() && label("empty=").is_ok());
        for wrong in ["role", "=x", "a b=c", "a=\u{1b}"] {
            assert!(label(wrong).is_err(), "{wrong:?}");
        }
    }
}
