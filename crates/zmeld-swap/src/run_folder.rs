//! zmeld's folder in `/run`, which holds what root acts on: what is to be taken
//! back, and what is lent. So it is root's, and nobody else may write it; where it
//! is not so, nothing in it is believed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use zmeld_linux::{lock, root_owned};

use zmeld_linux::Host;
use zmeld_linux::HostError;

pub const FOLDER: &str = "/run/zmeld";
pub const STATE: &str = "/run/zmeld/state.json";
pub const EXPERIMENT_STATE: &str = "/run/zmeld/experiment.json";
pub const LOCK: &str = "/run/zmeld/lock";

/// Locked by the watch while it is at work.
pub const WATCH_LOCK: &str = "/run/zmeld/watch";

/// No record is longer.
const BYTES_MAX: u64 = 64 << 20;

/// Makes it where it is not there, for all to read.
///
/// # Errors
/// When it cannot be made, or somebody else may write it.
pub fn make(host: &Host) -> Result<(), HostError> {
    let folder = inside(host, Path::new(FOLDER))?;
    root_owned::make_folder(&folder, owner(host)).map_err(|err| told(host, err))
}

/// The bytes of a file in it; none where it is not there.
///
/// # Errors
/// When it cannot be read, or somebody else may have written it.
pub fn read(host: &Host, path: impl AsRef<Path>) -> Result<Option<Vec<u8>>, HostError> {
    let owner = owner(host);
    let bytes = || {
        root_owned::check_folder(&inside(host, Path::new(FOLDER))?, owner)?;
        root_owned::read(&inside(host, path.as_ref())?, owner, BYTES_MAX)
    };
    match bytes() {
        Err(HostError::File(err)) if err.cause.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some).map_err(|err| told(host, err)),
    }
}

/// How long ago a file in it was written; none where it is not there, or somebody else may
/// have written it.
pub fn since_written(host: &Host, path: impl AsRef<Path>) -> Option<Duration> {
    read(host, &path).ok()??;
    let meta = inside(host, path.as_ref()).ok()?.symlink_metadata();
    meta.ok()?.modified().ok()?.elapsed().ok()
}

/// Whether somebody has the lock on a file in it; none where this user may not ask.
pub fn is_locked(host: &Host, path: impl AsRef<Path>) -> Option<bool> {
    let holder = lock::holder(&inside(host, path.as_ref()).ok()?);
    holder.ok().map(|holder| holder.is_some())
}

/// Its path, or a file's in it, for this process: a link above it leads where it would on that
/// machine, and not out of the tree. A link in its place is refused.
///
/// # Errors
/// When that link leads nowhere.
fn inside(host: &Host, path: &Path) -> Result<PathBuf, HostError> {
    let above = Path::new("/run");
    let real = match host.tree().resolved(above) {
        Some(real) => real,
        None if host.tree().link(above).is_none() => above.to_path_buf(),
        None => return Err(HostError::io("look at", above, io::ErrorKind::NotFound)),
    };
    Ok(host.path(real.join(path.strip_prefix(above).unwrap_or(path))))
}

/// Replaces a file in it, and makes the folder where it is not there.
///
/// # Errors
/// When it cannot be written, or somebody else may write the folder.
pub fn replace(
    host: &Host,
    path: impl AsRef<Path>,
    mode: u32,
    value: &impl Serialize,
) -> Result<(), HostError> {
    make(host)?;
    write(host, path.as_ref(), mode, value)
}

/// [`replace`] where the folder is there.
pub fn write(host: &Host, path: &Path, mode: u32, value: &impl Serialize) -> Result<(), HostError> {
    let failed = |cause| HostError::io("write", path, cause);
    // By lines: people look into these files, too.
    let bytes = serde_json::to_vec_pretty(value).map_err(|err| failed(io::Error::other(err)))?;
    zmeld_linux::file::replace(&inside(host, path)?, &bytes, Some(mode))
        .map_err(|err| failed(err.cause))
}

/// Removes a file in it, if it can be.
pub fn remove(host: &Host, path: impl AsRef<Path>) {
    if let Ok(file) = inside(host, path.as_ref()) {
        let _ = fs::remove_file(file);
    }
}

/// Whoever owns a tree may have written all of it; on a machine that is root.
pub fn owner(host: &Host) -> u32 {
    host.root().metadata().map_or(0, |meta| meta.uid())
}

fn told(host: &Host, err: HostError) -> HostError {
    foreign(host, err, |_| {
        format!(
            "look at what is in {FOLDER}, undo by hand what is set up, and remove the \
             directory: it has to belong to root and be closed to others"
        )
    })
}

/// The error with the path as the machine has it, and with the way out.
pub fn foreign(host: &Host, err: HostError, way_out: impl FnOnce(&Path) -> String) -> HostError {
    let shown = |path: &Path| match path.strip_prefix(host.root()) {
        Ok(below) => Path::new("/").join(below),
        Err(_) => path.to_path_buf(),
    };
    match err {
        HostError::File(err) => HostError::io(err.action, shown(&err.path), err.cause),
        HostError::NotOurs { path, problem, .. } => {
            let path = shown(&path);
            HostError::not_ours(&path, problem, way_out(&path))
        }
        err => err,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_above_it_does_not_lead_out_of_the_tree() {
        let (outside, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(outside.path().join("zmeld")).unwrap();
        fs::write(outside.path().join("zmeld/state.json"), "outside").unwrap();
        let host = Host::at(tree.path());
        let run = tree.path().join("run");
        symlink(outside.path(), &run).unwrap();
        assert_eq!(read(&host, STATE).unwrap(), None);
        assert!(replace(&host, STATE, 0o644, &"ours").is_err());
        assert!(write(&host, STATE.as_ref(), 0o644, &"ours").is_err());
        let state = outside.path().join("zmeld/state.json");
        assert_eq!(fs::read(state).unwrap(), b"outside");
        // One that stays in it is followed, as on the machine itself.
        fs::remove_file(&run).unwrap();
        symlink("/var/run", &run).unwrap();
        fs::create_dir_all(tree.path().join("var/run")).unwrap();
        replace(&host, STATE, 0o644, &"inside").unwrap();
        assert!(tree.path().join("var/run/zmeld/state.json").exists());
        assert_eq!(read(&host, STATE).unwrap().unwrap(), b"\"inside\"");
        assert!(since_written(&host, STATE).is_some());
        // One in its place is not.
        let folder = tree.path().join("var/run/zmeld");
        fs::rename(&folder, tree.path().join("other")).unwrap();
        symlink(tree.path().join("other"), &folder).unwrap();
        let err = read(&host, STATE).unwrap_err().to_string();
        assert!(err.contains("it is no directory"), "{err}");
    }
}
