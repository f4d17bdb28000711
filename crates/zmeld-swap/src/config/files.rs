//! The text of the files that make up the configuration ([`config_files`]).

use std::path::{Path, PathBuf};

use zmeld_linux::config_files;
use zmeld_linux::tree::Tree;
use zmeld_linux::FileError;

use super::problem::{ConfigError, FilePosition, Problem, Severity};

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
    let found = config_files::find(&tree).map_err(unreadable)?;
    let warnings = found.passed_over.into_iter().map(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let what = format!(
            "is not read, since its name does not end in .toml; rename it to {}",
            name.replace(".conf", ".toml")
        );
        Problem {
            place: Some(FilePosition {
                file,
                line: 1,
                column: 1,
            }),
            key: String::new(),
            what,
            severity: Severity::Warning,
            trap: None,
        }
    });
    let warnings = warnings.collect();
    let mut sources = Vec::new();
    for path in found.files {
        sources.extend(read(&tree, &path)?);
    }
    Ok((sources, warnings))
}

/// The text of one file; nothing if it is `/dev/null`, which hides others.
pub(super) fn read(tree: &Tree, path: &Path) -> Result<Option<Source>, ConfigError> {
    let Some(bytes) = config_files::read(tree, path).map_err(unreadable)? else {
        return Ok(None);
    };
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

fn unreadable(err: FileError) -> ConfigError {
    error(None, err.to_string())
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
