//! Which files make up zmeld's configuration.
//!
//! As systemd does it: the main file is the first of `/etc/zmeld.toml`,
//! `/run/zmeld.toml`, `/usr/local/lib/zmeld.toml`, `/usr/lib/zmeld.toml` that is
//! there. Then come the drop-ins, `*.toml` in `zmeld.toml.d` below the same
//! directories, in the order of their names, whatever directory they are in; of
//! two with one name the first directory's counts. An empty file, or a link to
//! `/dev/null`, hides those of its name.
//!
//! Root does what they say. So each of them, and each folder above it, is root's, and
//! nobody else may write it.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::FileError;
use crate::own;
use crate::tree::Tree;

/// From the strongest to the weakest.
const DIRECTORIES: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];
/// More than any configuration needs.
const LENGTH_MAX: u64 = 1 << 20;

/// The files of a machine.
#[derive(Debug, Default)]
pub struct ConfigFiles {
    /// In the order in which they are merged.
    pub files: Vec<PathBuf>,
    /// Drop-ins whose names end in `.conf`, which are not read.
    pub passed_over: Vec<PathBuf>,
}

/// Finds them.
///
/// # Errors
/// When a directory is there and cannot be read; when somebody else than root may have
/// written one of them.
pub fn find(tree: &Tree) -> Result<ConfigFiles, FileError> {
    let mut found = ConfigFiles::default();
    for directory in DIRECTORIES {
        let path = Path::new(directory).join("zmeld.toml");
        let has = tree.has(&path);
        if has.map_err(|cause| FileError::new("read", &path, cause))? {
            found.files.push(path);
            break;
        }
    }
    let mut drop_ins: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in DIRECTORIES {
        let folder = Path::new(directory).join("zmeld.toml.d");
        let entries = match tree.entries(&folder) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|cause| FileError::new("read", &folder, cause))?,
        };
        let names = entries.into_iter().map(|(name, _)| name.into_string());
        for name in names.flatten().filter(|name| !name.starts_with('.')) {
            let path = folder.join(&name);
            if name.ends_with(".toml") {
                drop_ins.entry(name).or_insert(path);
            } else if name.ends_with(".conf") {
                found.passed_over.push(path);
            }
        }
    }
    found.files.extend(drop_ins.into_values());
    for path in &found.files {
        check_owner(tree, path).map_err(|cause| FileError::new("believe", path, cause))?;
    }
    Ok(found)
}

/// Refuses a file that others may write, or exchange. In another tree, which anybody may
/// have made, its owner stands for root.
fn check_owner(tree: &Tree, path: &Path) -> io::Result<()> {
    let owner = tree.metadata(Path::new("/"))?.uid();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let folder = tree.resolved(folder).unwrap_or(folder.to_owned());
    let is_hidden = tree.link(path).as_deref() == Some(Path::new("/dev/null"));
    let file = Some(path).filter(|_| !is_hidden);
    for path in folder.ancestors().chain(file) {
        // What leads nowhere is told by who reads it.
        if let Ok(meta) = tree.metadata(path) {
            own::check(path, &meta, owner).map_err(|err| {
                let way_out = "root does what it says, so nobody else may write it (chmod, chown)";
                io::Error::other(format!("{err}; {way_out}"))
            })?;
        }
    }
    Ok(())
}

/// The bytes of one; nothing if it is `/dev/null`, which hides others.
///
/// # Errors
/// When it cannot be read, or is longer than 1 MiB.
pub fn read(tree: &Tree, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    if tree.link(path).as_deref() == Some(Path::new("/dev/null")) {
        return Ok(None);
    }
    let failed = |cause: io::Error| FileError::new("read", path, cause);
    let mut bytes = Vec::new();
    let file = tree.open_file(path).map_err(failed)?;
    let read = file.take(LENGTH_MAX + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    match bytes.len() as u64 > LENGTH_MAX {
        true => Err(failed(io::Error::other("it is longer than 1 MiB"))),
        false => Ok(Some(bytes)),
    }
}
