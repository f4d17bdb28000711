//! `cargo xtask package`: what distributions and users install from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::module_build::{self, Module, ZMELD, ZWORD};
use crate::process::output_of;
use crate::workspace;

/// Make a package under target/package and print its path
#[derive(clap::Args)]
pub struct Options {
    /// dkms: the sources of both kernel modules as DKMS takes them, as folders and as
    /// zmeld-VERSION-dkms.tar.gz and zword-VERSION-dkms.tar.gz: unpack one in /usr/src, then
    /// `dkms install zmeld/VERSION` or `dkms install zword/VERSION`
    #[arg(value_parser = ["dkms"])]
    what: String,
}

impl Module {
    pub fn fill(&self, text: &str, version: &str) -> String {
        text.replace("@MODULE@", self.name)
            .replace("@FOLDER@", self.folder)
            .replace("@NEEDS@", self.needs)
            .replace("@WITHOUT@", self.without)
            .replace("@VERSION@", version)
    }

    /// The source tree below `place`, made anew.
    pub fn tree(&self, place: &Path, version: &str) -> Result<PathBuf> {
        let folder = place.join(format!("{}-{version}", self.name));
        workspace::remove(&folder)?;
        let root = workspace::root();
        for part in self.sources {
            module_build::mirror(&root.join("store").join(part), &folder.join(part))?;
        }
        fs::copy(root.join("LICENSE"), folder.join("LICENSE"))?;
        let conf = workspace::read(&root.join("packaging/dkms/dkms.conf"))?;
        fs::write(folder.join("dkms.conf"), self.fill(&conf, version))?;
        Ok(folder)
    }
}

pub fn run(_: &Options) -> Result<ExitCode> {
    for module in [&ZMELD, &ZWORD] {
        let place = workspace::target().join("package");
        let archive = pack(&module.tree(&place, &module_version()?)?)?;
        println!("{}", workspace::shown(&archive));
    }
    Ok(ExitCode::SUCCESS)
}

pub fn module_version() -> Result<String> {
    let text = workspace::read(&workspace::root().join("store/kmod/control.c"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("#define ZMELD_VERSION"));
    let version = line.context("store/kmod/control.c defines no ZMELD_VERSION")?;
    Ok(version.trim().trim_matches('"').to_owned())
}

/// The same bytes each time for the same sources.
fn pack(folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let archive = folder.with_file_name(format!("{name}-dkms.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args("--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0".split(' '));
    tar.args(["--mode=u=rwX,go=rX", "-czf"]).arg(&archive);
    tar.arg("-C")
        .arg(folder.parent().unwrap_or(folder))
        .arg(&*name);
    output_of(tar.env("GZIP", "-n"))?;
    Ok(archive)
}
