//! The sources of a release with every crate they need, so that they build without a
//! network: `zmeld-VERSION.tar.xz`, whose bytes follow from the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{bail, Context, Result};
use serde_json::Value;

use super::Release;
use crate::process::Log;
use crate::workspace;

const LIMIT: Duration = Duration::from_secs(1800);

/// The machines whose crates the archive has. Those that only others need are there
/// by name and without their sources: half of all bytes are Windows' libraries.
const TARGETS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-musl",
    "armv7-unknown-linux-gnueabihf",
    "i686-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
];

/// Where cargo finds the crates; no other place is asked.
const CONFIG: &str = r#"
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"#;

/// The tree of the release at `place`, made anew, with the crates in `vendor`.
pub fn tree(log: &Log, release: &Release, place: &Path) -> Result<PathBuf> {
    let tree = place.join(release.name());
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    fs::create_dir_all(&tree)?;
    let mut unpack = Command::new("sh");
    unpack.current_dir(workspace::root()).env("to", &tree);
    unpack.args(["-c", "git archive HEAD | tar -x -C \"$to\""]);
    if !log.run(&mut unpack, LIMIT)?.succeeded() || !tree.join("Cargo.lock").exists() {
        bail!("the commit cannot be unpacked: is this a clone, and is git installed?");
    }
    let mut vendor = cargo(&tree);
    vendor.args([
        "vendor",
        "--quiet",
        "--locked",
        "--versioned-dirs",
        "vendor",
    ]);
    if !log.run(&mut vendor, LIMIT)?.succeeded() {
        bail!("`cargo vendor` fails: {}", workspace::shown(log.path()));
    }
    thin(&tree)?;
    let config = tree.join(".cargo/config.toml");
    let text = fs::read_to_string(&config)? + CONFIG;
    fs::write(config, text)?;
    Ok(tree)
}

/// `cargo` in a tree, told nothing by the cargo that started this program.
pub fn cargo(tree: &Path) -> Command {
    let mut command = crate::rust_tests::cargo(&[]);
    command.current_dir(tree);
    for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// Leaves of crates that no target needs what cargo reads: name, version and what
/// they depend on.
fn thin(tree: &Path) -> Result<()> {
    let mut needed = BTreeSet::new();
    for target in TARGETS {
        needed.extend(packages(tree, target)?);
    }
    for entry in fs::read_dir(tree.join("vendor"))? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if !needed.contains(&*name) {
            hollow(&folder).with_context(|| format!("{name}: cannot be left out"))?;
        }
    }
    Ok(())
}

fn packages(tree: &Path, target: &str) -> Result<Vec<String>> {
    let metadata = metadata(tree, target)?;
    let list = metadata["packages"].as_array().context("no packages")?;
    let name = |package: &Value| {
        Some(format!(
            "{}-{}",
            package["name"].as_str()?,
            package["version"].as_str()?
        ))
    };
    Ok(list.iter().filter_map(name).collect())
}

/// What `cargo metadata` says for a machine.
pub fn metadata(tree: &Path, target: &str) -> Result<Value> {
    let mut command = cargo(tree);
    command.args(["metadata", "--format-version=1", "--locked", "--offline"]);
    let output = command
        .arg(format!("--filter-platform={target}"))
        .output()?;
    if !output.status.success() {
        bail!(
            "`cargo metadata` fails: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn hollow(folder: &Path) -> Result<()> {
    let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml"))?.parse()?;
    let checksum: Value = serde_json::from_slice(&fs::read(folder.join(".cargo-checksum.json"))?)?;
    fs::remove_dir_all(folder)?;
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    fs::write(
        folder.join("Cargo.toml"),
        hollow_manifest(manifest).to_string(),
    )?;
    let checksum = serde_json::json!({ "files": {}, "package": checksum["package"] });
    fs::write(folder.join(".cargo-checksum.json"), checksum.to_string())?;
    Ok(())
}

fn hollow_manifest(mut manifest: toml::Table) -> toml::Table {
    for targets in ["bin", "example", "test", "bench", "lib"] {
        manifest.remove(targets);
    }
    if let Some(toml::Value::Table(package)) = manifest.get_mut("package") {
        let kept = ["name", "version", "edition", "links", "license"];
        package.retain(|key, _| kept.contains(&key));
        for search in [
            "build",
            "autobins",
            "autoexamples",
            "autotests",
            "autobenches",
        ] {
            package.insert(search.to_owned(), toml::Value::Boolean(false));
        }
        // Only a crate with a build script may say what it links with.
        package.remove("links");
    }
    let path = BTreeMap::from([("path", "src/lib.rs")]);
    let path = path
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()));
    manifest.insert("lib".to_owned(), toml::Value::Table(path.collect()));
    manifest
}

/// Packs a folder: the same bytes for the same content, whoever does it and when.
pub fn pack(log: &Log, release: &Release, folder: &Path, archive: &Path) -> Result<()> {
    let name = folder.file_name().unwrap_or_default();
    let file = fs::File::create(archive)?;
    let mut tar = Command::new("tar");
    tar.args(["--format=gnu", "--sort=name", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", "-c"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    tar.arg("-C")
        .arg(folder.parent().unwrap_or(folder))
        .arg(name);
    let mut tar = tar
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start tar")?;
    let from = tar.stdout.take().context("no output of tar")?;
    // One thread: more would part the archive by how many there are.
    let mut xz = Command::new("xz");
    xz.args(["-6", "-T1", "-c"]).stdin(from).stdout(file);
    let packed = xz.status().context("cannot start xz")?.success();
    if !tar.wait()?.success() || !packed {
        bail!("{} cannot be packed", folder.display());
    }
    log.note(&format!("packed {}", archive.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_left_out_keeps_what_cargo_resolves_by() {
        let manifest = r#"
            [package]
            name = "winapi"
            version = "0.3.9"
            build = "build.rs"
            links = "x"
            include = ["src"]
            [[bin]]
            name = "b"
            path = "src/b.rs"
            [features]
            all = ["dep:other"]
            [target.'cfg(windows)'.dependencies.other]
            version = "1"
            optional = true
        "#;
        let hollow = hollow_manifest(manifest.parse().unwrap());
        assert!(hollow.contains_key("features") && hollow.contains_key("target"));
        assert!(!hollow.contains_key("bin"));
        let package = hollow["package"].as_table().unwrap();
        assert_eq!(package["version"].as_str(), Some("0.3.9"));
        assert_eq!(package["build"].as_bool(), Some(false));
        assert!(!package.contains_key("links"));
        assert_eq!(hollow["lib"]["path"].as_str(), Some("src/lib.rs"));
    }

    #[test]
    fn no_registry_is_named() {
        assert!(!CONFIG.contains("//"));
    }
}
