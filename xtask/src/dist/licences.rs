//! The licences of everything that is linked into the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};

use super::source;
use crate::process::output_of;
use crate::workspace;

/// Names under which crates keep their licences; nested ones are those of C libraries.
const LICENCE_NAMES: &[&str] = &["licen", "copying", "copyright", "notice", "unlicense"];

/// Of the programs in that tree: what they depend on, without what only builds or tests. All
/// licences in one text; a text that many crates share stands there once.
pub fn linked_in(tree: &Path, triple: &str) -> Result<String> {
    let mut tell = source::cargo(tree);
    tell.args(["tree", "--offline", "--locked", "--target", triple]);
    tell.args(["--package=zmeld", "--package=zmeld-guard", "--prefix=none"]);
    tell.args(["--edges=normal,no-proc-macro", "--format={p}|{l}"]);
    let told = output_of(&mut tell)?;
    let crates: BTreeSet<[&str; 3]> = told.lines().filter_map(of_others).collect();
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut list = String::new();
    for [name, version, licence] in crates {
        let licence = licence.replace('/', " OR ");
        list += &format!("  {name} {version}: {licence}\n");
        let mut found = licence_files(&tree.join(format!("vendor/{name}-{version}")))?;
        if found.is_empty() && !licence.contains("Apache-2.0") {
            bail!(
                "{name} {version} brings no text of its licence, {licence}: say in \
                 xtask/src/dist/licences.rs which of SPDX's texts is meant"
            );
        } else if found.is_empty() {
            found.insert(text_of("Apache-2.0")?);
        }
        for text in found {
            let names = texts.entry(text).or_default();
            names.insert(format!("{name} {version}"));
        }
    }
    for own in ["rust", "musl"] {
        let kept = workspace::root().join("packaging/licences").join(own);
        let text = workspace::read(&kept.with_extension("txt"))?;
        texts.entry(text).or_default().insert(own.to_owned());
    }
    let mut all = format!(
        "zmeld is under the GPL, version 2 or later: see LICENSE. Some crates are under the\n\
         Apache License 2.0 alone, which goes with version 3: so the program as a whole, in\n\
         binary form, is under version 3, whose text is GPL-3.0.txt. It is linked from these\n\
         crates and the C libraries that they bring along:\n\n{list}"
    );
    for (text, names) in texts {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (line, names, text) = ("=".repeat(72), names.join(", "), text.trim_end());
        all += &format!("\n{line}\nOf {names}:\n\n{text}\n");
    }
    Ok(all)
}

/// A line of `cargo tree`: name, version, a path where it is ours, `|`, the licence.
fn of_others(line: &str) -> Option<[&str; 3]> {
    let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.trim_start_matches('v'));
    words.next().is_none().then_some([name, version, licence])
}

pub fn text_of(id: &str) -> Result<String> {
    let licence = spdx::license_id(id).with_context(|| format!("SPDX has no licence {id}"))?;
    Ok(licence.text().to_owned())
}

fn licence_files(folder: &Path) -> Result<BTreeSet<String>> {
    let mut files = workspace::all_files(folder)?;
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        LICENCE_NAMES
            .iter()
            .any(|start| name.to_lowercase().starts_with(start))
    });
    let texts = files
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    Ok(texts.map(|text| text.replace("\r\n", "\n")).collect())
}
