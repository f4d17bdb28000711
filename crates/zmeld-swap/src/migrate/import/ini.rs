//! Files of sections, one main file and its drop-ins, as two libraries read them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ini::Ini;

use super::imported::{Imported, SourceLine};
use zmeld_linux::tree::Tree;
use zmeld_linux::HostError;

/// The keys of a section, each with what it says and the line that said it last.
pub(super) type Section = BTreeMap<String, (String, SourceLine)>;

/// All sections by their names. One without keys has the empty one, as they all do.
pub(super) type Sections = BTreeMap<String, Section>;

/// The rules by which files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// systemd's `conf_files_list`: links are followed.
    Systemd,
    /// zram-generator's liboverdrop: hidden files and links are passed over.
    ZramGenerator,
}

/// Whether a link hides the weaker files of its name.
fn is_mask(tree: &Tree, file: &Path) -> bool {
    tree.link(file).as_deref() == Some(Path::new("/dev/null"))
}

/// The strongest main file, then the drop-ins by their names.
///
/// `directories` go from the weakest to the strongest; `name` is the main file in each.
pub(super) fn files(
    root: &Path,
    directories: &[&str],
    name: &str,
    rules: Rules,
    into: &mut Imported,
) -> Result<Vec<PathBuf>, HostError> {
    let tree = Tree::new(root);
    let mut main = None;
    let mut drop_ins = BTreeMap::new();
    for directory in directories {
        let file = Path::new(directory).join(name);
        if tree.metadata(&file).is_ok() || is_mask(&tree, &file) {
            main = Some(file);
        }
        let folder = Path::new(directory).join(format!("{name}.d"));
        let entries = match tree.entries(&folder) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(HostError::io("list", folder, cause)),
        };
        for (name, is_folder) in entries {
            let file = folder.join(&name);
            let is_link = tree.link(&file).is_some();
            if is_folder || file.extension().is_none_or(|end| end != "conf") {
                continue;
            }
            if is_mask(&tree, &file) {
                drop_ins.remove(&name);
            } else if rules == Rules::Systemd || !is_link && !is_hidden(&file) {
                drop_ins.insert(name, file);
            } else {
                let what = "a link or a hidden file, which zram-generator passes over";
                into.left.push(format!("{}: {what}", file.display()));
            }
        }
    }
    Ok(main.into_iter().chain(drop_ins.into_values()).collect())
}

fn is_hidden(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".")
}

/// One line of a file, or several that belong together.
pub(super) struct Entry {
    /// None before the first section.
    pub section: Option<String>,
    /// None for the head of a section.
    pub says: Option<(String, String)>,
    pub line: SourceLine,
}

/// A section that no file has: where it is read as one, what stands before it is at its end.
const END: &str = "[the end of what was said before]";

/// More lines are no value of anybody's.
const LINES_MAX: usize = 256;

/// Parses a text as zram-generator's library does.
///
/// # Errors
/// The line for which it reads nothing, and why.
pub(super) fn entries(path: &Path, text: &str) -> Result<Vec<Entry>, (SourceLine, String)> {
    let of = |number: usize, text: &str| SourceLine {
        file: path.to_owned(),
        number,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Err(err) = Ini::load_from_str(text) {
        let line = text.lines().nth(err.line).unwrap_or_default();
        return Err((of(err.line + 1, line), err.msg));
    }
    let mut entries = Vec::new();
    let (mut section, mut open, mut begin) = (None, String::new(), 1);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        open.push_str(line);
        let end = if line.ends_with('\n') { "" } else { "\n" };
        let end_name = END.trim_matches(['[', ']']);
        let read = Ini::load_from_str(&format!("{open}{end}{END}")).ok();
        let read = read.filter(|read| read.section(Some(end_name)).is_some());
        let Some(read) = read else {
            if number - begin >= LINES_MAX {
                let why = format!("it goes on for more than {LINES_MAX} lines");
                return Err((of(begin, open.lines().next().unwrap_or_default()), why));
            }
            continue;
        };
        for (name, keys) in read.iter().filter(|(name, _)| *name != Some(end_name)) {
            let mut add = |says: Option<(&str, &str)>, section: &Option<String>| {
                entries.push(Entry {
                    section: section.clone(),
                    says: says.map(|(key, value)| (key.to_owned(), value.to_owned())),
                    line: of(begin, &open),
                });
            };
            if let Some(name) = name {
                section = Some(name.to_owned());
                add(None, &section);
            }
            for says in keys.iter() {
                add(Some(says), &section);
            }
        }
        open.clear();
        begin = number + 1;
    }
    Ok(entries)
}

/// Adds what the lines say as systemd reads them (systemd.syntax); `refusal` says why a
/// section is passed over, if it is.
pub(super) fn read(
    lines: Vec<SourceLine>,
    sections: &mut Sections,
    into: &mut Imported,
    refusal: impl Fn(&str) -> Option<&'static str>,
) {
    let mut current: Option<String> = None;
    let mut is_before_all = true;
    let mut lines = lines.into_iter();
    while let Some(mut line) = lines.next() {
        while let Some(begin) = line.text.strip_suffix('\\') {
            let rest = lines.next().map_or(String::new(), |line| line.text);
            line.text = format!("{begin} {rest}");
        }
        if let Some(name) = line.text.strip_prefix('[') {
            (current, is_before_all) = (None, false);
            let Some(name) = name.strip_suffix(']') else {
                into.left(
                    &line,
                    "its bracket is not closed; the lines after it are ignored",
                );
                continue;
            };
            let name = name.trim().to_owned();
            if let Some(why) = refusal(&name) {
                into.left(&line, why);
                continue;
            }
            sections.entry(name.clone()).or_insert_with(|| {
                BTreeMap::from([(String::new(), (String::new(), line.clone()))])
            });
            current = Some(name);
            continue;
        }
        let section = current.as_ref().and_then(|name| sections.get_mut(name));
        match (line.text.split_once('='), section) {
            (Some((key, value)), Some(section)) => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                section.insert(key, (value, line));
            }
            (None, _) => into.left(&line, "it is neither a section nor KEY = VALUE"),
            (_, None) if is_before_all => into.left(&line, "it stands in no section"),
            (_, None) => {}
        }
    }
}

pub(super) fn get<'s>(section: &'s Section, key: &str) -> Option<(&'s str, &'s SourceLine)> {
    section.get(key).map(|(value, line)| (value.as_str(), line))
}
