//! A package's files, laid out as they are installed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder with what a package installs.
pub struct Tree {
    root: PathBuf,
    /// All paths in it, as they are installed.
    paths: Vec<String>,
}

impl Tree {
    /// An empty one.
    pub fn new(root: &Path) -> Result<Tree> {
        if root.exists() {
            fs::remove_dir_all(root)?;
        }
        fs::create_dir_all(root)?;
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        Ok(Tree {
            root: root.to_path_buf(),
            paths: Vec::new(),
        })
    }

    /// One that was laid out before.
    pub fn of(root: &Path) -> Result<Tree> {
        let mut paths = Vec::new();
        list(root, "", &mut paths)?;
        paths.sort();
        Ok(Tree {
            root: root.to_path_buf(),
            paths,
        })
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What it installs.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Folders that no other package has: those of our name, and what is in them.
    pub fn own_folders(&self) -> BTreeSet<String> {
        let above = self
            .paths
            .iter()
            .flat_map(|path| Path::new(path).ancestors().skip(1));
        let is_own = |folder: &&Path| {
            let mut parts = folder.components();
            parts.any(|part| {
                let name = part.as_os_str().to_string_lossy();
                name.starts_with("zmeld") || name.contains("zword")
            })
        };
        above
            .filter(is_own)
            .map(|folder| folder.display().to_string())
            .collect()
    }

    /// Adds a file that everybody reads.
    pub fn file(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.put(path, bytes, 0o644)
    }

    /// Adds a program.
    pub fn program(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.put(path, bytes, 0o755)
    }

    /// Adds a link.
    pub fn link(&mut self, path: &str, to: &str) -> Result<()> {
        let place = self.place(path)?;
        symlink(to, &place).with_context(|| format!("cannot make {}", place.display()))
    }

    /// Adds a folder's files.
    pub fn folder(&mut self, path: &str, from: &Path) -> Result<()> {
        let entries =
            fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
        for entry in entries {
            let entry = entry?.path();
            let name = entry.file_name().unwrap_or_default().to_string_lossy();
            let path = format!("{path}/{name}");
            match entry.is_dir() {
                true => self.folder(&path, &entry)?,
                false => self.file(&path, &fs::read(&entry)?)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let place = self.place(path)?;
        fs::write(&place, bytes).with_context(|| format!("cannot write {}", place.display()))?;
        fs::set_permissions(&place, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// The place of a path, whose folders are the same whatever the umask.
    fn place(&mut self, path: &str) -> Result<PathBuf> {
        let place = self.root.join(path.trim_start_matches('/'));
        let above: Vec<&Path> = place
            .ancestors()
            .skip(1)
            .take_while(|folder| *folder != self.root)
            .collect();
        for folder in above.into_iter().rev() {
            if !folder.exists() {
                fs::create_dir(folder)?;
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
            }
        }
        self.paths
            .push(format!("/{}", path.trim_start_matches('/')));
        self.paths.sort();
        Ok(place)
    }
}

/// All files and links below a folder, as they are installed.
fn list(folder: &Path, below: &str, paths: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.file_type()?.is_dir() {
            true => list(&entry.path(), &path, paths)?,
            false => paths.push(path),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn a_tree_knows_what_it_installs() {
        let folder = workspace::work_folder("unit").unwrap().join("tree");
        let mut tree = Tree::new(&folder).unwrap();
        tree.program("/usr/bin/x", b"x").unwrap();
        tree.link("/usr/lib/y", "../bin/x").unwrap();
        tree.file("/etc/z", b"z").unwrap();
        assert_eq!(Tree::of(&folder).unwrap().paths(), tree.paths());
        assert_eq!(tree.paths(), ["/etc/z", "/usr/bin/x", "/usr/lib/y"]);
        let mode = |path: &str| {
            fs::metadata(folder.join(path))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode("usr/bin/x") & 0o777, 0o755);
        assert_eq!(mode("etc/z") & 0o777, 0o644);
        assert_eq!(mode("usr/bin") & 0o777, 0o755);
        assert!(folder.join("usr/lib/y").exists());
        assert!(tree.own_folders().is_empty());
        tree.file("/usr/share/doc/zmeld/docs/a.md", b"").unwrap();
        let own: Vec<String> = tree.own_folders().into_iter().collect();
        assert_eq!(own, ["/usr/share/doc/zmeld", "/usr/share/doc/zmeld/docs"]);
    }
}
