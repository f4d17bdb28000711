//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

use super::Trap;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// The file, as the machine itself names it.
    pub file: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// Whether a configuration with that problem can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, and will disappoint.
    Warning,
    /// It can, and may not do yet what it is for.
    Notice,
}

/// One thing that is wrong, in one line: `FILE:LINE:COLUMN: KEY: WHAT; WAY OUT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where; unknown for what was not read from a file.
    pub place: Option<FilePosition>,
    /// The key with its tables, `tier.fast.size`; empty where no key is to blame.
    pub key: String,
    /// What is wrong, and the way out.
    pub what: String,
    /// Whether the configuration can be used all the same.
    pub severity: Severity,
    /// The trap, where it is a known one; naming it in `accept` silences this.
    pub trap: Option<Trap>,
}

impl Problem {
    /// One without a place, and of no known trap.
    pub fn new(severity: Severity, key: impl Into<String>, what: impl Into<String>) -> Problem {
        Problem {
            place: None,
            key: key.into(),
            what: what.into(),
            severity,
            trap: None,
        }
    }

    /// The same of a known trap.
    pub fn of(self, trap: Trap) -> Problem {
        Problem {
            trap: Some(trap),
            ..self
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        if let Some(place) = &self.place {
            line += &format!("{place}: ");
        }
        if !self.key.is_empty() {
            line += &format!("{}: ", self.key);
        }
        line += &self.what;
        if let Some(trap) = self.trap {
            // Where a file is to blame, it is the one to write it into.
            let file = match self.place {
                Some(_) => "",
                None => " in /etc/zmeld.toml",
            };
            line += &format!(" (if it is meant: accept = [\"{trap}\"]{file})");
        }
        // Names of files and keys are other people's text.
        f.write_str(&line.replace(char::is_control, "?"))
    }
}

/// A configuration that cannot be used. Its text is the first problem, and how
/// many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// All errors in the order of the files, at least one.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [] => f.write_str("the configuration is wrong"),
            [one] => one.fmt(f),
            [first, more @ ..] => {
                write!(f, "{first} (and {} more: zmeld config check)", more.len())
            }
        }
    }
}

impl std::error::Error for ConfigError {}
