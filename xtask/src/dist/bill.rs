//! The licences of everything that is linked into the programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use super::source;
use crate::process::output_of;
use crate::workspace;

/// Names under which crates keep their licences; nested ones are those of C libraries.
const LICENCE_NAMES: &[&str] = &["licen", "copying", "copyright", "notice", "unlicense"];

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    licence: String,
    ours: bool,
    folder: PathBuf,
}

impl Crate {
    /// A line of `cargo tree`: name, version, a path where it is ours, `|`, the licence.
    fn of_line(tree: &Path, line: &str) -> Option<Crate> {
        let (package, licence) = line.trim_end_matches(" (*)").split_once('|')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.trim_start_matches('v'));
        Some(Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.replace('/', " OR "),
            ours: words.next().is_some(),
            folder: tree.join(format!("vendor/{name}-{version}")),
        })
    }
}

pub struct Bill {
    crates: BTreeSet<Crate>,
}

impl Bill {
    /// Of the programs in that tree: what they depend on, without what only builds or tests.
    pub fn of(tree: &Path, triple: &str) -> Result<Bill> {
        let mut list = source::cargo(tree);
        list.args(["tree", "--offline", "--locked", "--target", triple]);
        list.args(["--package=zmeld", "--package=zmeld-guard", "--prefix=none"]);
        list.args(["--edges=normal,no-proc-macro", "--format={p}|{l}"]);
        let lines = output_of(&mut list)?;
        Ok(Bill {
            crates: lines
                .lines()
                .filter_map(|it| Crate::of_line(tree, it))
                .collect(),
        })
    }

    /// All licences in one text; a text that many crates share stands there once.
    pub fn licences(&self) -> Result<String> {
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut list = String::new();
        for it in self.crates.iter().filter(|it| !it.ours) {
            let name = format!("{} {}", it.name, it.version);
            list += &format!("  {name}: {}\n", it.licence);
            let mut found = licence_files(&it.folder)?;
            if found.is_empty() {
                found.insert(licence_text(it)?);
            }
            for text in found {
                texts.entry(text).or_default().insert(name.clone());
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
            all += &format!(
                "\n{}\nOf {}:\n\n{}\n",
                "=".repeat(72),
                names.join(", "),
                text.trim_end()
            );
        }
        Ok(all)
    }
}

/// The text of a licence for a crate that brings none.
fn licence_text(of: &Crate) -> Result<String> {
    match of.licence.contains("Apache-2.0") {
        true => text_of("Apache-2.0"),
        false => bail!(
            "{} {} brings no text of its licence, {}: say in xtask/src/dist/bill.rs which of \
             SPDX's texts is meant",
            of.name,
            of.version,
            of.licence
        ),
    }
}

pub(super) fn text_of(id: &str) -> Result<String> {
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
