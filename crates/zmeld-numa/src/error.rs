//! Errors of simulations and their input.

use std::ops::RangeInclusive;

use zmeld_config::ConfigError;
use zmeld_linux::FileError;

/// Why a simulation cannot be made. Messages name the file, and the line and column where they are known.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A scenario, a machine or a policy that cannot be.
    #[error("{0}")]
    Wrong(String),
    /// A key or value that is none.
    #[error(transparent)]
    Mistake(#[from] ConfigError),
    /// A file that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Refuses a setting outside of its range, with its key and what it must be.
pub(crate) fn within(
    key: &'static str,
    found: f64,
    range: RangeInclusive<f64>,
) -> Result<(), (&'static str, String)> {
    let (least, most) = (*range.start(), *range.end());
    let rule = match (least == f64::MIN_POSITIVE, most == f64::MAX) {
        _ if range.contains(&found) => return Ok(()),
        (true, true) => "above 0".to_owned(),
        (true, false) => format!("above 0 and at most {most}"),
        (false, true) => format!("{least} or more"),
        (false, false) => format!("from {least} to {most}"),
    };
    Err((key, format!("{key} is {found}; it must be {rule}")))
}
