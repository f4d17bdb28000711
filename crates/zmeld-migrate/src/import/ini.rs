//! Files of sections, as systemd's tools read them: one main file, then drop-ins.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::{Imported, Line};
use zmeld_linux::tree::Tree;
use zmeld_linux::HostError;

/// The keys of a section, each with what it says and the line that said it last.
pub(super) type Section = BTreeMap<String, (String, Line)>;

/// All sections by their names. One without keys has the empty one, as they all do.
pub(super) type Sections = BTreeMap<String, Section>;

/// The strongest main file, then the drop-ins by their names.
///
/// `directories` go from the weakest to the strongest; `name` is the main file in each.
pub(super) fn files(
    root: &Path,
    directories: &[&str],
    name: &str,
) -> Result<Vec<PathBuf>, HostError> {
    let tree = Tree::new(root);
    let mut main = None;
    let mut drop_ins = BTreeMap::new();
    for directory in directories {
        let file = Path::new(directory).join(name);
        if tree.metadata(&file).is_ok() {
            main = Some(file);
        }
        let folder = Path::new(directory).join(format!("{name}.d"));
        let entries = match tree.entries(&folder) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(HostError::io("list", folder, cause)),
        };
        for (name, _) in entries {
            if Path::new(&name)
                .extension()
                .is_some_and(|end| end == "conf")
            {
                drop_ins.insert(name.clone(), folder.join(&name));
            }
        }
    }
    Ok(main.into_iter().chain(drop_ins.into_values()).collect())
}

/// Adds what the lines say; `refusal` says why a section is passed over, if it is.
pub(super) fn read(
    lines: Vec<Line>,
    sections: &mut Sections,
    into: &mut Imported,
    refusal: impl Fn(&str) -> Option<&'static str>,
) {
    let mut current: Option<String> = None;
    for line in lines {
        if let Some(name) = line.text.strip_prefix('[') {
            current = None;
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
        let Some(name) = &current else { continue };
        match line.text.split_once('=') {
            Some((key, value)) => {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                if let Some(section) = sections.get_mut(name) {
                    section.insert(key, (value, line));
                }
            }
            None => into.left(&line, "it is neither a section nor KEY = VALUE"),
        }
    }
}

/// What a key says: its value and its line.
pub(super) fn get<'s>(section: &'s Section, key: &str) -> Option<(&'s str, &'s Line)> {
    section.get(key).map(|(value, line)| (value.as_str(), line))
}
