//! Places in this workspace.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub fn root() -> PathBuf {
    // As cargo says it of this run: a program that was copied with its tree was built elsewhere.
    let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.filter(|it| it.ends_with("xtask"));
    let xtask = here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    xtask.parent().unwrap_or(&xtask).to_path_buf()
}

pub fn target() -> PathBuf {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    root().join(target)
}

/// A folder under the target folder that is ours, made if it is missing.
pub fn work_folder(name: &str) -> Result<PathBuf> {
    let folder = target().join("xtask").join(name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The files of a folder with that extension, sorted.
pub fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// All files below a folder, sorted; links are left out.
pub fn all_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(all_files(&entry.path())?),
            kind if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    Ok(found)
}

/// Makes a place with `make`: there whole, or not at all.
pub fn whole(place: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = place.with_file_name(format!("{name}.unfinished"));
    remove(&unfinished)?;
    make(&unfinished)?;
    remove(place)?;
    fs::rename(&unfinished, place).with_context(|| format!("cannot make {}", place.display()))
}

/// The same of a folder that is not made twice; where it is.
pub fn kept(place: PathBuf, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if !place.exists() {
        whole(&place, make)?;
    }
    Ok(place)
}

/// Removes a file, or a folder with all that is in it, where there is one.
pub fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() && !path.is_symlink() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", shown(path)))
}

/// Writes a file, in a folder that is made if it is missing.
pub fn put(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", shown(path)))
}

pub fn empty_folder(path: &Path) -> Result<()> {
    remove(path)?;
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

/// A path as people type it from the workspace's top folder.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

/// A file's name without folder and extension.
pub fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
