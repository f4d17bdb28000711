//! The text of the files that make up the configuration ([`config_files`]).

use std::cell::OnceCell;
use std::iter;
use std::path::{Path, PathBuf};

use zmeld_linux::config_files;
use zmeld_linux::fstab::has_swap;
use zmeld_linux::tree::Tree;
use zmeld_linux::FileError;

use crate::finding::{ConfigError, FilePosition};

/// The key of earlyoom's file, `/etc/default/earlyoom`.
const OF_EARLYOOM: &str = "EARLYOOM_ARGS";
/// What takes the place of its options.
pub const FROM_EARLYOOM: &str =
    "docs/guard.md, \"Coming from earlyoom\", has what zmeld-guard has in place of its options";

/// Keys that no table of zmeld has, and whose they are.
const OTHER_TOOLS: [(&[&str], &str); 2] = [
    (
        &[
            "zram-size",
            "compression-algorithm",
            "zram-fraction",
            "max-zram-size",
            "swap-priority",
            "host-memory-limit",
        ],
        "zram-generator",
    ),
    (&["ALGO", "PERCENT", "PRIORITY"], "zram-tools"),
];

#[derive(Debug, Clone)]
pub(super) struct Source {
    /// As the machine itself names it.
    pub path: PathBuf,
    /// All of it, behind as many empty lines as the files before it have bytes: a byte's place in
    /// it tells the file, too.
    pub text: String,
    /// The text without lines that no TOML could be read of.
    pub legible: OnceCell<String>,
    /// Where it begins in `text`.
    pub start: usize,
    /// Offsets of its lines, in bytes.
    lines: Vec<usize>,
}

impl Source {
    /// A file that is merged after those.
    pub fn new(path: &Path, text: &str, before: &[Source]) -> Source {
        // A mark of UTF-8 may stand at the head alone.
        let text = text.trim_start_matches('\u{feff}');
        let start = before.last().map_or(0, |it| it.text.len() + 1);
        let after = text.match_indices('\n').map(|(at, _)| start + at + 1);
        let lines = iter::once(start).chain(after).collect();
        Source {
            path: path.to_owned(),
            lines,
            text: "\n".repeat(start) + text,
            legible: OnceCell::new(),
            start,
        }
    }

    fn place(&self, at: usize) -> FilePosition {
        let line = self.lines.partition_point(|start| *start <= at);
        let begin = self.lines[line - 1];
        let before = self.text[begin..].char_indices();
        FilePosition {
            file: self.path.clone(),
            line,
            column: before.take_while(|(far, _)| begin + far < at).count() + 1,
        }
    }

    /// A line that only another tool's file has, and what to do with it.
    pub fn of_other_tool(&self) -> Option<(usize, String)> {
        let mut at = self.start;
        for line in self.text[self.start..].split_inclusive('\n') {
            let key = key_of(line);
            if key == OF_EARLYOOM {
                let what = format!("{key} is a key of earlyoom; {FROM_EARLYOOM}");
                return Some((at, what));
            }
            let tool = OTHER_TOOLS.iter().find(|(keys, ..)| keys.contains(&key));
            let what = match tool.filter(|_| line.contains('=')) {
                Some((_, tool)) => Some(format!("{key} is a key of {tool}")),
                None => has_swap(line).then(|| "this is a line of /etc/fstab".to_owned()),
            };
            if let Some(what) = what {
                let file = self.path.display();
                let mut lines = self.text[self.start..].lines();
                // Without its sections it is no file of zram-generator.
                let is_its_key = tool.is_some_and(|(_, tool)| *tool == "zram-generator");
                let way_out = match is_its_key && !lines.any(|it| it.trim().starts_with("[zram")) {
                    true => "write it as keys of a tier (docs/keys.md), such as size".to_owned(),
                    false => format!("zmeld config import {file} prints this file as zmeld.toml"),
                };
                return Some((at, format!("{what}; {way_out}")));
            }
            at += line.len();
        }
        None
    }

    pub fn line_start(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        before.rfind('\n').map_or(0, |end| end + 1)
    }

    pub fn line(&self, at: usize) -> &str {
        let line = self.text[self.line_start(at)..].lines().next();
        line.unwrap_or_default()
    }

    /// The key or table at the head of a byte's line, and the number of the last line before that
    /// begins with the same.
    pub fn first_of(&self, at: usize) -> Option<(&str, usize)> {
        let key = key_of(self.line(at));
        let before = self.text.get(self.start..self.line_start(at))?.lines();
        let same = before.enumerate().filter(|(_, line)| key_of(line) == key);
        Some((key, same.last()?.0 + 1))
    }
}

/// Whether only another tool's file has a table or a key of that name at its top.
pub fn is_of_other_tool(name: &str) -> bool {
    let number = name.strip_prefix("zram").unwrap_or_default();
    let is_device = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
    is_device || name == OF_EARLYOOM || OTHER_TOOLS.iter().any(|(keys, ..)| keys.contains(&name))
}

fn key_of(line: &str) -> &str {
    line.split(['=', '#']).next().unwrap_or_default().trim()
}

/// The file, line and column of a byte in one of them.
pub(super) fn place(sources: &[Source], at: usize) -> FilePosition {
    let source = sources.iter().rfind(|it| it.start <= at);
    source.map_or(FilePosition::default(), |it| it.place(at))
}

/// The files of the machine whose root directory is `root`, in the order in
/// which they are merged; or that file alone.
pub(super) fn read(root: &Path, file: Option<&Path>) -> Result<Vec<Source>, ConfigError> {
    if let Some(path) = file {
        let bytes = config_files::read(&Tree::new("/"), path).map_err(unreadable)?;
        return Ok(vec![source(path, bytes, &[])?]);
    }
    let tree = Tree::new(root);
    let mut sources = Vec::new();
    for path in config_files::find(&tree).map_err(unreadable)? {
        let bytes = config_files::read_trusted(&tree, &path).map_err(unreadable)?;
        if let Some(bytes) = bytes {
            sources.push(source(&path, bytes, &sources)?);
        }
    }
    Ok(sources)
}

fn source(path: &Path, bytes: Vec<u8>, before: &[Source]) -> Result<Source, ConfigError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source::new(path, &text, before)),
        Err(wrong) => {
            let at = wrong.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&wrong.into_bytes()[..at]).into_owned();
            let source = Source::new(path, &text, &[]);
            let what = "this is no UTF-8 text; save the file as UTF-8";
            Err(ConfigError::of(Some(source.place(at)), "", what))
        }
    }
}

fn unreadable(err: FileError) -> ConfigError {
    ConfigError::of(None, "", err.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Over lines and blocks, with characters of one to four bytes.
    #[test]
    fn places_are_lines_and_characters() {
        let text = "a\u{e9}\u{20ac}\u{1f600}".repeat(300) + "\n\n" + &"\u{20ac}b\n".repeat(700);
        let source = Source::new(Path::new("z.toml"), &text, &[]);
        let (mut line, mut column) = (1, 1);
        for (at, c) in text.char_indices() {
            let place = source.place(at);
            assert_eq!((place.line, place.column), (line, column), "{at}");
            (line, column) = match c {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            };
        }
        let end = source.place(text.len() + 1);
        assert_eq!((end.line, end.column), (line, column));
    }
}
