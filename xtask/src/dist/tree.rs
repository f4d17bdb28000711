//! A package's files, laid out as they are installed.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::process::output_of;
use crate::workspace;

pub struct Tree {
    pub root: PathBuf,
}

impl Tree {
    pub fn new(root: &Path) -> Result<Tree> {
        workspace::empty_folder(root)?;
        Ok(Tree {
            root: root.to_path_buf(),
        })
    }

    /// Files and links that it installs. All may be read by everybody then, whatever the umask.
    pub fn paths(&self) -> Result<Vec<String>> {
        output_of(
            Command::new("chmod")
                .arg("-R")
                .arg("u=rwX,go=rX")
                .arg(&self.root),
        )?;
        self.find(&["!", "-type", "d"])
    }

    /// Folders that no other package has: those of our name, and what is in them; and the one
    /// that Debian's zsh alone looks in, which a system of .rpm packages has not.
    pub fn own_folders(&self) -> Result<Vec<String>> {
        let mut own = self.find(&["-type", "d"])?;
        own.retain(|path| {
            let mut parts = path.split('/');
            parts.any(|name| name.starts_with("zmeld") || name.contains("zword"))
                || path.ends_with("/zsh/vendor-completions")
        });
        Ok(own)
    }

    fn find(&self, what: &[&str]) -> Result<Vec<String>> {
        let mut find = Command::new("find");
        find.arg(&self.root).args(["-mindepth", "1"]).args(what);
        let found = output_of(find.args(["-printf", "/%P\\n"]))?;
        let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
        found.sort();
        Ok(found)
    }

    /// Adds a file that everybody reads.
    pub fn file(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        workspace::put(&self.place(path)?, bytes)
    }

    pub fn program(&self, path: &str, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.file(path, bytes)?;
        Ok(fs::set_permissions(
            self.place(path)?,
            fs::Permissions::from_mode(0o755),
        )?)
    }

    pub fn link(&self, path: &str, to: &str) -> Result<()> {
        Ok(symlink(to, self.place(path)?)?)
    }

    pub fn copy(&self, path: &str, from: &Path) -> Result<()> {
        output_of(
            Command::new("cp")
                .arg("-rT")
                .arg(from)
                .arg(self.place(path)?),
        )?;
        Ok(())
    }

    fn place(&self, path: &str) -> Result<PathBuf> {
        let place = self.root.join(path.trim_start_matches('/'));
        fs::create_dir_all(place.parent().unwrap_or(&self.root))?;
        Ok(place)
    }
}
