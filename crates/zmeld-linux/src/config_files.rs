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
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::FileError;
use crate::root_owned;
use crate::tree::Tree;

/// From the strongest to the weakest.
const DIRECTORIES: [&str; 4] = ["/etc", "/run", LOCAL, "/usr/lib"];
/// A group may write it on some machines: it is passed over there.
const LOCAL: &str = "/usr/local/lib";
/// More than any configuration needs.
const LENGTH_MAX: u64 = 1 << 20;

/// Those of a machine, in the order in which they are merged.
pub fn find(tree: &Tree) -> Result<Vec<PathBuf>, FileError> {
    let mut found = Vec::new();
    let is_local = check_owner(tree, Path::new(LOCAL)).is_ok();
    let directories = DIRECTORIES
        .into_iter()
        .filter(|it| *it != LOCAL || is_local);
    for directory in directories.clone() {
        let path = Path::new(directory).join("zmeld.toml");
        let has = tree.has(&path);
        if has.map_err(|cause| FileError::new("read", &path, cause))? {
            found.push(path);
            break;
        }
    }
    let mut drop_ins: BTreeMap<String, PathBuf> = BTreeMap::new();
    for directory in directories {
        let folder = Path::new(directory).join("zmeld.toml.d");
        let entries = match tree.entries(&folder) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|cause| FileError::new("read", &folder, cause))?,
        };
        let names = entries.into_iter().map(|(name, _)| name.into_string());
        let is_one = |name: &String| name.ends_with(".toml") && !name.starts_with('.');
        for name in names.flatten().filter(is_one) {
            let path = folder.join(&name);
            drop_ins.entry(name).or_insert(path);
        }
    }
    found.extend(drop_ins.into_values());
    Ok(found)
}

/// Whether a file is among those that are looked for.
pub fn is_one(file: &Path) -> bool {
    DIRECTORIES.iter().map(Path::new).any(|directory| {
        file == directory.join("zmeld.toml")
            || file.parent() == Some(&directory.join("zmeld.toml.d"))
    })
}

/// Refuses what others may write, or put another in the place of: a file, and the folders
/// above it. In another tree, which anybody may have made, its owner stands for root.
fn check_owner(tree: &Tree, file: &Path) -> io::Result<()> {
    let owner = tree.metadata(Path::new("/"))?.uid();
    let mut below: Option<Metadata> = None;
    for path in file.ancestors() {
        let meta = tree.metadata(path)?;
        // In such a folder nobody else can rename or remove what is its owner's.
        let is_safe = |below: &Metadata| meta.mode() & 0o1000 != 0 && below.uid() == meta.uid();
        let is_roots = meta.uid() == owner && below.as_ref().is_some_and(is_safe);
        if !is_roots {
            root_owned::check(path, &meta, owner).map_err(|err| {
                let way_out = "root does what it says, so nobody else may write it (chmod, chown)";
                io::Error::other(format!("{err}; {way_out}"))
            })?;
        }
        below = Some(meta);
    }
    Ok(())
}

/// The bytes of one that [`find`] found; nothing if it is `/dev/null`, which hides others.
///
/// # Errors
/// When somebody else than root may have written it; those of [`read`].
pub fn read_trusted(tree: &Tree, path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    if tree.link(path).as_deref() == Some(Path::new("/dev/null")) {
        return Ok(None);
    }
    // A link may lead elsewhere by the next look: what it leads to now is looked at, and
    // nobody else can put another file there.
    let Some(real) = tree.resolved(path) else {
        let cause = tree.open_file(path).err();
        let cause = cause.unwrap_or(io::ErrorKind::NotFound.into());
        return Err(FileError::new("read", path, cause));
    };
    let folder = path.parent().unwrap_or(path);
    for it in [folder, &real] {
        check_owner(tree, it).map_err(|cause| FileError::new("believe", path, cause))?;
    }
    read(tree, &real).map(Some)
}

/// The bytes of one.
pub fn read(tree: &Tree, path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |cause: io::Error| FileError::new("read", path, cause);
    let bytes = tree.read(path, LENGTH_MAX + 1).map_err(failed)?;
    match bytes.len() as u64 > LENGTH_MAX {
        true => Err(failed(io::Error::other("it is longer than 1 MiB"))),
        false => Ok(bytes),
    }
}
