//! Reading the kernel's files so that none of them can stop an observation: what
//! cannot be read or understood becomes a warning that names the file.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;
use serde::Serialize;
use zmeld_linux::error::words;
use zmeld_linux::{Host, HostError};

use crate::run_folder;

/// A file that could not be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Warning {
    /// The file, from the root directory on.
    pub path: String,
    /// The problem with it.
    pub problem: Problem,
}

/// Why a file could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum Problem {
    /// This user may not read it; root may, where no security module refuses it.
    NotPermitted,
    /// It is not there, and every kernel has it.
    Missing,
    /// Reading failed.
    Unreadable(String),
    /// It was read, and is not what the kernel writes there.
    Malformed(String),
    /// There is more than is looked at.
    Truncated(usize),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::NotPermitted => write!(f, "{} may not be read by this user", self.path),
            Problem::Missing => write!(f, "{} is missing", self.path),
            Problem::Unreadable(why) => write!(f, "{} cannot be read: {why}", self.path),
            Problem::Malformed(why) => write!(f, "{} is not understood: {why}", self.path),
            Problem::Truncated(limit) => {
                write!(
                    f,
                    "{} holds more than {limit} entries; the rest was left out",
                    self.path
                )
            }
        }
    }
}

/// Reads files below a root and collects warnings.
pub(super) struct Reader<'a> {
    host: &'a Host,
    pub warnings: Vec<Warning>,
}

impl<'a> Reader<'a> {
    pub fn new(host: &'a Host) -> Reader<'a> {
        Reader {
            host,
            warnings: Vec::new(),
        }
    }

    pub fn host(&self) -> &'a Host {
        self.host
    }

    /// Notes what is wrong with a file, once.
    pub fn warn(&mut self, path: &str, problem: Problem) {
        let path = path.to_owned();
        self.add(Warning { path, problem });
    }

    fn add(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    pub fn malformed(&mut self, path: &str, why: &str) {
        self.warn(path, Problem::Malformed(why.to_owned()));
    }

    /// The text of a file that every kernel has.
    pub fn required(&mut self, path: &str) -> Option<String> {
        self.text(path, true)
    }

    /// The text of a file that may be missing.
    pub fn optional(&mut self, path: &str) -> Option<String> {
        self.text(path, false)
    }

    fn text(&mut self, path: &str, required: bool) -> Option<String> {
        match self.host.read(path) {
            Ok(text) => return Some(text),
            Err(err) if err.is_absent() => {
                if required {
                    self.warn(path, Problem::Missing);
                }
            }
            // A facility that is compiled in and switched off, as pressure can be.
            Err(err) if err.is(Errno::OPNOTSUPP) => {}
            Err(err) => self.add(warning(err)),
        }
        None
    }

    /// The text of a file in zmeld's own folder, as long as nobody else can have
    /// written it.
    pub fn own(&mut self, path: &str) -> Option<String> {
        let bytes = self.known(run_folder::read(self.host, path))??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The value that was read; none on an error.
    pub fn known<T>(&mut self, read: Result<T, HostError>) -> Option<T> {
        read.map_err(|err| self.add(warning(err))).ok()
    }

    /// The first line, without blanks around it.
    pub fn line(&mut self, path: &str) -> Option<String> {
        let text = self.optional(path)?;
        Some(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// A file that is one number.
    pub fn number(&mut self, path: &str) -> Option<u64> {
        let text = self.optional(path)?;
        let value = text.trim().parse().ok();
        if value.is_none() {
            self.malformed(path, "it is no number");
        }
        value
    }

    /// A file that is a switch: `Y`, `N`, `1` or `0`.
    pub fn switch(&mut self, path: &str) -> Option<bool> {
        let text = self.optional(path)?;
        match text.trim() {
            "Y" | "y" | "1" => Some(true),
            "N" | "n" | "0" => Some(false),
            _ => {
                self.malformed(path, "it is neither Y nor N");
                None
            }
        }
    }

    /// Whether there is such a file or directory.
    pub fn exists(&self, path: &str) -> bool {
        self.host.exists(path)
    }

    /// The names in a directory, sorted so that `zram10` follows `zram9`; none where
    /// it is missing.
    pub fn names(&self, path: &str) -> Vec<String> {
        let mut names = self.host.list(path).unwrap_or_default();
        names.sort_by_key(|name| {
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let number = name[stem.len()..].parse::<u64>().unwrap_or(0);
            (stem.to_owned(), number, name.clone())
        });
        names
    }
}

fn warning(err: HostError) -> Warning {
    let (path, problem) = match err {
        HostError::File(err) => match err.cause.kind() {
            io::ErrorKind::PermissionDenied => (err.path, Problem::NotPermitted),
            _ => (err.path, Problem::Unreadable(words(&err.cause))),
        },
        HostError::Malformed { path, problem } => {
            (path, Problem::Malformed(format!("it {problem}")))
        }
        HostError::NotOurs {
            path,
            problem,
            way_out,
        } => (path, Problem::Malformed(format!("{problem}: {way_out}"))),
        err => (PathBuf::new(), Problem::Unreadable(err.to_string())),
    };
    let path = path.to_string_lossy().into_owned();
    Warning { path, problem }
}
