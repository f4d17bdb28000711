//! What is released: the commit's version and time, and the packages of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::module_build::Module;
use crate::package;
use crate::process::{self, output_of};
use crate::workspace;

pub struct Release {
    /// The one version of program, module and packages.
    pub version: String,
    /// When the commit was made, in seconds: the time of everything.
    pub epoch: u64,
    pub folder: PathBuf,
}

/// A package, whatever its format: `packaging/debian/NAME.control` says what it is.
pub struct Package {
    pub name: &'static str,
    /// The module, where it is one that DKMS builds.
    pub dkms: Option<&'static Module>,
}

impl Package {
    /// The name of its scripts in `packaging`: modules share theirs.
    pub fn scripts(&self) -> &'static str {
        self.dkms.map_or(self.name, |_| "dkms")
    }

    pub fn fill(&self, text: &str, version: &str) -> String {
        match self.dkms {
            Some(dkms) => {
                let installed = include_str!("../../../packaging/dkms/installed.sh");
                let initramfs = include_str!("../../../packaging/dkms/initramfs.sh");
                let text = text.replace("@INSTALLED@\n", installed);
                dkms.fill(&text.replace("@INITRAMFS@\n", initramfs), version)
            }
            None => text
                .replace("@VERSION@", version)
                .replace(
                    "@INSTALLED@\n",
                    include_str!("../../../packaging/installed.sh"),
                )
                .replace("@REMOVED@\n", include_str!("../../../packaging/removed.sh")),
        }
    }

    pub fn control(&self) -> Result<String> {
        let path = format!("packaging/debian/{}.control", self.name);
        workspace::read(&workspace::root().join(path))
    }
}

impl Release {
    /// That of the last commit, with results in `folder`.
    pub fn of_commit(folder: &Path) -> Result<Release> {
        let epoch = git(&["log", "-1", "--format=%ct"])?;
        let epoch = epoch.parse();
        let epoch = epoch.context("this is no clone: git knows no commit")?;
        fs::create_dir_all(folder)?;
        Ok(Release {
            version: package::module_version()?,
            epoch,
            folder: folder.canonicalize()?,
        })
    }

    /// The same as another version, with results in `folder`.
    pub fn as_version(&self, version: &str, folder: &Path) -> Result<Release> {
        fs::create_dir_all(folder)?;
        Ok(Release {
            version: version.to_owned(),
            epoch: self.epoch,
            folder: folder.to_path_buf(),
        })
    }

    pub fn name(&self) -> String {
        format!("zmeld-{}", self.version)
    }

    /// A folder for what is not a result.
    pub fn work(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("work").join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

pub fn git(arguments: &[&str]) -> Result<String> {
    let mut git = process::git();
    output_of(git.current_dir(workspace::root()).args(arguments))
}

pub fn checksums(release: &Release, made: &[PathBuf]) -> Result<PathBuf> {
    let mut names: Vec<_> = made.iter().filter_map(|path| path.file_name()).collect();
    names.sort();
    let mut sum = Command::new("sha256sum");
    let sums = output_of(sum.current_dir(&release.folder).args(names))? + "\n";
    let place = release.folder.join("SHA256SUMS");
    fs::write(&place, sums)?;
    Ok(place)
}
