//! The sources of a release with every crate they need, so that they build without a
//! network: `zmeld-VERSION.tar.xz`, whose bytes follow from the commit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::release::Release;
use crate::process::Log;
use crate::workspace;

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

/// Tool that leaves out the others.
const FILTER: &str = "cargo-vendor-filterer";
const FILTER_VERSION: &str = "0.5.18";

/// Cargo's place of the crates; no other place is asked.
const CONFIG: &str = r#"
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
"#;

/// The tree of the release at `place`, made anew, with the crates in `vendor`.
pub fn tree(log: &Log, release: &Release, place: &Path) -> Result<PathBuf> {
    let tree = place.join(release.name());
    workspace::empty_folder(&tree)?;
    let mut unpack = Command::new("sh");
    unpack.current_dir(workspace::root()).env("to", &tree);
    let script = "git archive HEAD | tar -x -C \"$to\" && test -e \"$to/Cargo.lock\"";
    log.must(unpack.args(["-c", script]))?;
    let mut vendor = Command::new(filter(log)?);
    vendor.current_dir(&tree).arg("--versioned-dirs");
    for target in TARGETS {
        vendor.args(["--platform", target]);
    }
    log.must(vendor.arg("vendor"))?;
    let config = tree.join(".cargo/config.toml");
    let text = fs::read_to_string(&config)? + CONFIG;
    fs::write(config, text)?;
    Ok(tree)
}

/// The program that fetches crates, installed if it is not here.
fn filter(log: &Log) -> Result<PathBuf> {
    let root = workspace::work_folder("tools")?.join(format!("{FILTER}-{FILTER_VERSION}"));
    let root = workspace::kept(root, |unfinished| {
        println!(
            "Installing {FILTER} {FILTER_VERSION} under {}.",
            workspace::shown(unfinished)
        );
        let mut install = cargo(&workspace::root());
        install
            .args(["install", "--quiet", "--locked", "--root"])
            .arg(unfinished);
        log.must(install.arg(format!("{FILTER}@{FILTER_VERSION}")))?;
        Ok(())
    })?;
    Ok(root.join("bin").join(FILTER))
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

/// Packs a folder: the same bytes for the same content, whoever does it and when.
pub fn pack(log: &Log, release: &Release, folder: &Path, archive: &Path) -> Result<()> {
    // One thread: more would part the archive by how many there are.
    let script = "tar \"$@\" | xz -6 -T1 -c";
    let mut pack = Command::new("bash");
    pack.args(["-o", "pipefail", "-c", &format!("{script} > \"$0\"")])
        .arg(archive);
    pack.args(["--format=gnu", "--sort=name", "--numeric-owner"]);
    pack.args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", "-c"]);
    pack.arg(format!("--mtime=@{}", release.epoch));
    pack.arg("-C").arg(folder.parent().unwrap_or(folder));
    log.must(pack.arg(folder.file_name().unwrap_or_default()))?;
    Ok(())
}
