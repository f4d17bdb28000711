//! `cargo xtask package`: what distributions and users install from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{bail, Context, Result};

use crate::module_build;
use crate::workspace;

/// The arguments of `package`.
pub const USAGE: &str = "WHAT";

/// What `package` does.
pub const ABOUT: &str = "\
Makes a package under target/package and prints its path. WHAT is
  dkms    the sources of both kernel modules as DKMS takes them, as folders and as
          zmeld-VERSION-dkms.tar.gz and zword-VERSION-dkms.tar.gz: unpack one in
          /usr/src, then `dkms install zmeld/VERSION` or `dkms install zword/VERSION`";

/// A module that DKMS builds.
pub struct Dkms {
    /// Its name, and that of its folder below /usr/src.
    pub module: &'static str,
    /// The folders of `store` that it is built from.
    sources: &'static [&'static str],
    /// Where its Kbuild is in them.
    folder: &'static str,
    /// Options without which a kernel has no use for it.
    needs: &'static str,
    /// What there is where it could not be built.
    without: &'static str,
}

/// The device.
pub const ZMELD: Dkms = Dkms {
    module: "zmeld",
    sources: module_build::SOURCES,
    folder: "kmod",
    needs: "CONFIG_BLOCK CONFIG_ZSMALLOC",
    without: "zram stands in for it",
};

/// The codec for the kernel's own zswap and zram.
pub const ZWORD: Dkms = Dkms {
    module: "zword",
    sources: module_build::CODEC_SOURCES,
    folder: "crypto",
    needs: "CONFIG_CRYPTO",
    without: "zswap has another compressor",
};

impl Dkms {
    /// A file of `packaging`, for this module.
    pub fn fill(&self, text: &str, version: &str) -> String {
        text.replace("@MODULE@", self.module)
            .replace("@FOLDER@", self.folder)
            .replace("@NEEDS@", self.needs)
            .replace("@WITHOUT@", self.without)
            .replace("@VERSION@", version)
    }

    /// The source tree below `place`, made anew.
    pub fn tree(&self, place: &Path, version: &str) -> Result<PathBuf> {
        let folder = place.join(format!("{}-{version}", self.module));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let root = workspace::root();
        for part in self.sources {
            module_build::mirror(&root.join("store").join(part), &folder.join(part))?;
        }
        fs::copy(root.join("LICENSE"), folder.join("LICENSE"))?;
        let conf = fs::read_to_string(root.join("packaging/dkms/dkms.conf"))?;
        fs::write(folder.join("dkms.conf"), self.fill(&conf, version))?;
        Ok(folder)
    }
}

/// Makes what the argument names.
pub fn run(arguments: &[String]) -> Result<ExitCode> {
    match arguments {
        [what] if what == "dkms" => {
            for module in [&ZMELD, &ZWORD] {
                let place = workspace::target().join("package");
                let archive = pack(&module.tree(&place, &module_version()?)?)?;
                println!("{}", workspace::shown(&archive));
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("name one package: dkms"),
    }
}

/// The module's version, from its own source.
pub fn module_version() -> Result<String> {
    let source = workspace::root().join("store/kmod/control.c");
    let text = fs::read_to_string(&source)
        .with_context(|| format!("cannot read {}", workspace::shown(&source)))?;
    version_in(&text)
        .with_context(|| format!("{} defines no ZMELD_VERSION", workspace::shown(&source)))
}

fn version_in(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("#define ZMELD_VERSION"))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// The same bytes each time for the same sources.
fn pack(folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let archive = folder.with_file_name(format!("{name}-dkms.tar.gz"));
    let status = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .args(["--mtime=@0", "--mode=u=rwX,go=rX", "-czf"])
        .arg(&archive)
        .arg("-C")
        .arg(folder.parent().unwrap_or(folder))
        .arg(&*name)
        .env("GZIP", "-n")
        .status()
        .context("cannot start tar")?;
    if !status.success() {
        bail!("tar cannot write {}", archive.display());
    }
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_the_module() {
        let text = "#include <x>\n#define ZMELD_VERSION \"1.2.3\"\n";
        assert_eq!(version_in(text).as_deref(), Some("1.2.3"));
        assert_eq!(version_in("nothing"), None);
    }
}
