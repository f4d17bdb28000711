//! Which files make up the configuration, and their text.
//!
//! As systemd does it: the main file is the first of `/etc/zmeld.toml`,
//! `/run/zmeld.toml`, `/usr/local/lib/zmeld.toml`, `/usr/lib/zmeld.toml` that is
//! there. Then come the drop-ins, `*.toml` in `zmeld.toml.d` below the same
//! directories, in the order of their names, whatever directory they are in; of
//! two with one name the first directory's counts. An empty file, or a link to
//! `/dev/null`, hides those of its name.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zmeld_linux::error::words;
use zmeld_linux::tree::Tree;

use super::problem::{ConfigError, FilePosition, Problem, Severity};

/// From the strongest to the weakest.
const DIRECTORIES: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

const MAIN: &str = "zmeld.toml";
const DROP_INS: &str = "zmeld.toml.d";

/// More than any configuration needs.
const LENGTH_MAX: u64 = 1 << 20;

/// A file that was read.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// As the machine itself names it.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

impl Source {
    /// Line and column of a byte.
    pub fn place(&self, at: usize) -> FilePosition {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.text[..at];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        FilePosition {
            file: self.path.clone(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }
}

/// The files of the machine whose root directory is `root`, in the order in
/// which they are merged, and warnings about files that are not read.
pub(super) fn find(root: &Path) -> Result<(Vec<Source>, Vec<Problem>), ConfigError> {
    let tree = Tree::new(root);
    let mut found = Vec::new();
    let mut warnings = Vec::new();
    for directory in DIRECTORIES {
        let path = Path::new(directory).join(MAIN);
        if tree
            .has(&path)
            .map_err(|cause| unreadable(&path, &words(&cause)))?
        {
            found.push(path);
            break;
        }
    }
    let mut drop_ins: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in DIRECTORIES {
        let folder = Path::new(directory).join(DROP_INS);
        let entries = match tree.entries(&folder) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(unreadable(&folder, &words(&cause))),
        };
        for (name, _) in entries {
            let Ok(name) = name.into_string() else {
                continue;
            };
            let path = folder.join(&name);
            if name.starts_with('.') {
                continue;
            }
            if name.ends_with(".toml") {
                drop_ins.entry(name).or_insert(path);
            } else if name.ends_with(".conf") {
                warnings.push(Problem {
                    place: Some(FilePosition {
                        file: path,
                        line: 1,
                        column: 1,
                    }),
                    key: String::new(),
                    what: format!(
                        "is not read, since its name does not end in .toml; rename it to {}",
                        name.replace(".conf", ".toml")
                    ),
                    severity: Severity::Warning,
                    trap: None,
                });
            }
        }
    }
    found.extend(drop_ins.into_values());
    let mut sources = Vec::new();
    for path in found {
        if let Some(source) = read(&tree, &path)? {
            sources.push(source);
        }
    }
    Ok((sources, warnings))
}

/// The text of one file; nothing if it is `/dev/null`, which hides others.
pub(super) fn read(tree: &Tree, path: &Path) -> Result<Option<Source>, ConfigError> {
    if tree
        .link(path)
        .is_some_and(|target| target == Path::new("/dev/null"))
    {
        return Ok(None);
    }
    let failed = |cause: io::Error| unreadable(path, &words(&cause));
    let mut bytes = Vec::new();
    let file = tree.open_file(path).map_err(failed)?;
    let read = file.take(LENGTH_MAX + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > LENGTH_MAX {
        return Err(unreadable(path, "it is longer than 1 MiB"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Source {
            path: path.to_owned(),
            text,
        })),
        Err(wrong) => {
            let at = wrong.utf8_error().valid_up_to();
            let source = Source {
                path: path.to_owned(),
                text: String::from_utf8_lossy(&wrong.into_bytes()[..at]).into_owned(),
            };
            Err(error(
                Some(source.place(at)),
                "this is no UTF-8 text; save the file as UTF-8".to_owned(),
            ))
        }
    }
}

fn unreadable(path: &Path, cause: &str) -> ConfigError {
    error(None, format!("cannot read {}: {cause}", path.display()))
}

fn error(place: Option<FilePosition>, what: String) -> ConfigError {
    ConfigError {
        problems: vec![Problem {
            place,
            key: String::new(),
            what,
            severity: Severity::Error,
            trap: None,
        }],
    }
}
