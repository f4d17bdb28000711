//! The sources of a module as DKMS takes them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::module_build::{self, Module};
use crate::workspace;

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

pub fn module_version() -> Result<String> {
    let text = workspace::read(&workspace::root().join("store/kmod/control.c"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("#define ZMELD_VERSION"));
    let version = line.context("store/kmod/control.c defines no ZMELD_VERSION")?;
    Ok(version.trim().trim_matches('"').to_owned())
}
