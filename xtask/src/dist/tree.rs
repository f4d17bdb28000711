//! A package's files, laid out as they are installed.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

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

    /// What it installs: files and links. All may be read by everybody then, whatever the umask.
    pub fn paths(&self) -> Result<Vec<String>> {
        output_of(
            Command::new("chmod")
                .arg("-R")
                .arg("u=rwX,go=rX")
                .arg(&self.root),
        )?;
        self.find(&["!", "-type", "d"])
    }

    /// Folders that no other package has: those of our name, and what is in them.
    pub fn own_folders(&self) -> Result<Vec<String>> {
        let mut own = self.find(&["-type", "d"])?;
        own.retain(|path| {
            let mut parts = path.split('/');
            parts.any(|name| name.starts_with("zmeld") || name.contains("zword"))
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
        let place = self.place(path)?;
        fs::write(&place, bytes).with_context(|| format!("cannot write {}", place.display()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_knows_what_it_installs() {
        let tree = Tree::new(&workspace::work_folder("unit").unwrap().join("tree")).unwrap();
        tree.program("/usr/bin/x", "x").unwrap();
        tree.link("/usr/lib/y", "../bin/x").unwrap();
        tree.file("/etc/z", "z").unwrap();
        fs::set_permissions(tree.root.join("etc/z"), fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(
            tree.paths().unwrap(),
            ["/etc/z", "/usr/bin/x", "/usr/lib/y"]
        );
        for (path, mode) in [("usr/bin/x", 0o755), ("etc/z", 0o644), ("usr/bin", 0o755)] {
            let found = fs::metadata(tree.root.join(path)).unwrap().permissions();
            assert_eq!(found.mode() & 0o777, mode, "{path}");
        }
        assert!(tree.own_folders().unwrap().is_empty());
        tree.file("/usr/share/doc/zmeld/docs/a.md", "").unwrap();
        let own = ["/usr/share/doc/zmeld", "/usr/share/doc/zmeld/docs"];
        assert_eq!(tree.own_folders().unwrap(), own);
    }
}
