//! Packages for Fedora, openSUSE and what comes from them, by `rpmbuild` on a tree.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::program;
use super::release::{Package, Release};
use super::tree::Tree;
use crate::process::Log;
use crate::recipes::Arch;
use crate::workspace;

/// Settings against rpmbuild's defaults, which would name the machine and the hour, and change
/// files.
const DEFINES: &[&str] = &[
    "_buildhost reproducible",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "source_date_epoch_from_changelog 0",
    "_build_id_links none",
    "debug_package %{nil}",
    "__os_install_post %{nil}",
    "_binary_payload w6.xzdio",
];

pub fn make(
    log: &Log,
    release: &Release,
    package: &Package,
    arch: Option<Arch>,
    tree: &Tree,
) -> Result<PathBuf> {
    let arch = arch.map_or("noarch", program::machine);
    let work = release.work(&format!("rpm-{}", package.name))?;
    let spec = workspace::root().join(format!("packaging/rpm/{}.spec", package.scripts()));
    let text = workspace::read(&spec)?;
    let folders = tree
        .own_folders()?
        .into_iter()
        .map(|path| format!("%dir \"{path}\""));
    let paths = tree.paths()?.into_iter().map(|path| format!("\"{path}\""));
    let files: Vec<String> = folders.chain(paths).collect();
    let control = package.control()?;
    let said = control.split_once("\nDescription: ");
    let (_, said) = said.context("a package without a description")?;
    let (summary, description) = said.split_once('\n').unwrap_or((said, ""));
    let text = package
        .fill(&text, &release.version)
        .replace("@ARCH@", arch)
        .replace("@SUMMARY@", summary)
        .replace("@DESCRIPTION@", &description.trim().replace("\n ", "\n"))
        .replace("@TREE@", &tree.root.display().to_string())
        .replace(
            "@FILES@",
            &format!("%defattr(-,root,root,-)\n{}", files.join("\n")),
        );
    let filled = work.join(format!("{}.spec", package.name));
    fs::write(&filled, text)?;
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--target", arch]);
    build
        .arg("--define")
        .arg(format!("_topdir {}", work.display()));
    for define in DEFINES {
        build.args(["--define", define]);
    }
    build.arg(&filled);
    build.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    log.must(&mut build)?;
    let name = format!("{}-{}-1.{arch}.rpm", package.name, release.version);
    let place = release.folder.join(&name);
    fs::copy(work.join("RPMS").join(arch).join(&name), &place)
        .with_context(|| format!("rpmbuild left no {name}"))?;
    Ok(place)
}
