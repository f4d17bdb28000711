//! What a program is made of: the bill of materials (CycloneDX), and the licences of
//! everything that is linked in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;

use anyhow::{bail, Context, Result};
use serde_json::{json, Value};

use super::{source, Release};
use crate::workspace;

/// Names under which crates keep their licences; nested ones are those of C libraries.
const LICENCE_NAMES: &[&str] = &["licen", "copying", "copyright", "notice", "unlicense"];

/// C libraries that crates bring along and that are linked in, by crate.
const C_LIBRARIES: &[(&str, &str, &str)] = &[
    ("lz4-sys", "lz4", "BSD-2-Clause"),
    ("zstd-sys", "zstd", "BSD-3-Clause OR GPL-2.0-only"),
    ("libz-sys", "zlib", "Zlib"),
];

/// A crate that is linked in.
struct Crate {
    name: String,
    version: String,
    licence: String,
    ours: bool,
    folder: std::path::PathBuf,
}

/// What the program of this target is linked from.
pub struct Bill {
    crates: Vec<Crate>,
    compiler: String,
    musl: bool,
}

impl Bill {
    /// Of the program `zmeld` in that tree.
    pub fn of(tree: &Path, triple: &str, compiler: &str) -> Result<Bill> {
        let metadata = source::metadata(tree, triple)?;
        let linked = linked(&metadata).context("cargo's metadata has another form")?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let mut crates = Vec::new();
        for package in packages {
            let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
            if !linked.contains(&text("id")) {
                continue;
            }
            let manifest = text("manifest_path");
            crates.push(Crate {
                name: text("name"),
                version: text("version"),
                licence: text("license").replace('/', " OR "),
                ours: package["source"].is_null(),
                folder: Path::new(&manifest).parent().unwrap_or(tree).to_path_buf(),
            });
        }
        crates.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        Ok(Bill {
            crates,
            compiler: compiler.to_owned(),
            musl: triple.ends_with("musl"),
        })
    }

    /// How many crates of others.
    pub fn count(&self) -> usize {
        self.crates.iter().filter(|it| !it.ours).count()
    }

    /// CycloneDX 1.5.
    pub fn cyclonedx(&self, release: &Release) -> Result<String> {
        let mut components: Vec<Value> = self.crates.iter().map(component).collect();
        for (owner, name, licence) in C_LIBRARIES {
            let owner = self.crates.iter().find(|it| it.name == *owner);
            let Some(owner) = owner else { continue };
            components.push(library(name, own_version(name, &owner.version), licence));
        }
        components.push(library(
            "rust-std",
            Some(&self.compiler),
            "MIT OR Apache-2.0",
        ));
        // What the toolchain brings along; it does not tell their versions.
        components.push(library("libunwind", None, "Apache-2.0 WITH LLVM-exception"));
        components.push(match self.musl {
            true => library("musl", None, "MIT"),
            false => library("glibc", None, "LGPL-2.1-or-later"),
        });
        let bill = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {
                "timestamp": release.time()?,
                "component": {
                    "type": "application",
                    "name": "zmeld",
                    "version": release.version,
                    "licenses": [{ "expression": "GPL-2.0-or-later" }],
                },
            },
            "components": components,
        });
        Ok(serde_json::to_string_pretty(&bill)? + "\n")
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
        // Without musl the system's glibc is used, which is not in the program.
        for own in ["rust", "musl"]
            .iter()
            .filter(|own| self.musl || **own != "musl")
        {
            let text = kept_text(&format!("{own}.txt"))?;
            texts.entry(text).or_default().insert((*own).to_owned());
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

/// `2.1.2+zstd.1.5.7`: the library's own version, where the crate tells it.
fn own_version<'a>(library: &str, version: &'a str) -> Option<&'a str> {
    let own = version.split_once('+').map(|(_, own)| own);
    own.and_then(|own| own.strip_prefix(library))
        .map(|own| own.trim_start_matches(['-', '.']))
}

fn component(it: &Crate) -> Value {
    let mut component = library(&it.name, Some(&it.version), &it.licence);
    if !it.ours {
        component["purl"] = json!(format!("pkg:cargo/{}@{}", it.name, it.version));
    }
    component
}

fn library(name: &str, version: Option<&str>, licence: &str) -> Value {
    let mut component = json!({
        "type": "library",
        "name": name,
        "licenses": [{ "expression": licence }],
    });
    if let Some(version) = version {
        component["version"] = json!(version);
    }
    component
}

/// The packages that end in the program: what it depends on, without what only
/// builds or tests.
fn linked(metadata: &Value) -> Option<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let by_id: BTreeMap<&str, &Value> = nodes
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let packages = metadata["packages"].as_array()?;
    let is = |package: &&Value, name: &str| package["name"].as_str() == Some(name);
    let root = packages.iter().find(|package| is(package, "zmeld"))?["id"].as_str()?;
    let is_macro: BTreeSet<&str> = packages
        .iter()
        .filter(|package| package["targets"].to_string().contains("\"proc-macro\""))
        .filter_map(|package| package["id"].as_str())
        .collect();
    let mut found = BTreeSet::new();
    let mut next = VecDeque::from([root]);
    while let Some(id) = next.pop_front() {
        if is_macro.contains(id) || !found.insert(id.to_owned()) {
            continue;
        }
        for dependency in by_id.get(id)?["deps"].as_array()? {
            let kinds = dependency["dep_kinds"].as_array()?;
            // Null is a normal dependency; others build or test.
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                next.push_back(dependency["pkg"].as_str()?);
            }
        }
    }
    Some(found)
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

/// The text of a licence, as SPDX has it.
pub(super) fn text_of(id: &str) -> Result<String> {
    let licence = spdx::license_id(id).with_context(|| format!("SPDX has no licence {id}"))?;
    Ok(licence.text().to_owned())
}

/// What goes with the standard library of Rust, or with musl.
fn kept_text(name: &str) -> Result<String> {
    let path = workspace::root().join("packaging/licences").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", workspace::shown(&path)))
}

fn licence_files(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        if path.is_dir() {
            found.extend(licence_files(&path)?);
        } else if LICENCE_NAMES.iter().any(|start| name.starts_with(start)) {
            if let Ok(text) = fs::read_to_string(&path) {
                found.insert(text.replace("\r\n", "\n"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_their_own_version() {
        assert_eq!(own_version("zstd", "2.1.2+zstd.1.5.7"), Some("1.5.7"));
        assert_eq!(own_version("lz4", "1.11.1+lz4-1.10.0"), Some("1.10.0"));
        assert_eq!(own_version("zlib", "1.1.31"), None);
    }

    #[test]
    fn what_only_builds_is_not_linked() {
        let kind =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let metadata = json!({
            "packages": [
                { "id": "z", "name": "zmeld", "targets": [] },
                { "id": "m", "name": "macros", "targets": [{ "kind": ["proc-macro"] }] },
            ],
            "resolve": { "nodes": [
                { "id": "z", "deps": [kind("a", Value::Null), kind("m", Value::Null), kind("t", json!("dev"))] },
                { "id": "a", "deps": [kind("c", json!("build")), kind("b", Value::Null)] },
                { "id": "b", "deps": [] },
                { "id": "m", "deps": [kind("c", Value::Null)] },
            ]},
        });
        let linked = linked(&metadata).unwrap();
        assert_eq!(linked, BTreeSet::from(["a", "b", "z"].map(str::to_owned)));
    }
}
