//! Folders of an experiment's own, in places where anybody may write.
//!
//! A name there proves nothing: others can make files and folders of any name.
//! They cannot make a folder of root's that is closed to them. Only
//! such a folder counts as an experiment's, and all in it is root's.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::error::Error;
use crate::name::{self, is_left_behind};

/// Makes one in `place`. Its name is drawn at random, so that nobody can be there first, and ends with `ending`.
pub(crate) fn create_in(place: &Path, ending: &str) -> Result<TempDir, Error> {
    let made = tempfile::Builder::new()
        .prefix(&name::own("-"))
        .suffix(ending)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(place);
    made.map_err(|err| Error::io("create a folder in", place, err))
}

/// Those in `place` that end with `ending` and whose maker is gone.
pub(crate) fn left_in(place: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.to_string_lossy().ends_with(ending) && is_left(path))
        .collect()
}

/// Whether it is an experiment's folder whose maker is gone.
pub(crate) fn is_left(path: &Path) -> bool {
    let name = path.file_name().unwrap_or(OsStr::new(""));
    let is_ours = |meta: fs::Metadata| meta.is_dir() && meta.uid() == 0 && meta.mode() & 0o077 == 0;
    is_left_behind(name) && fs::symlink_metadata(path).is_ok_and(is_ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    #[test]
    fn only_a_closed_folder_of_roots_counts_as_left() {
        let place = tempfile::tempdir().unwrap();
        let given_away = place.path().join("given-away");
        fs::write(&given_away, "").unwrap();
        if chown(&given_away, Some(65534), None).is_err() {
            eprintln!("skipped: this user gives no file away");
            return;
        }
        let at = |name: &str| place.path().join(name);
        let folder = |name: &str, owner: u32, mode: u32| {
            fs::create_dir(at(name)).unwrap();
            fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
            chown(at(name), Some(owner), None).unwrap();
        };
        // Entries anybody can make in /var/tmp.
        fs::write(at("zmeld-lab-4194999.disk"), "").unwrap();
        folder("zmeld-lab-4194998-1-x.disk", 65534, 0o700);
        folder("zmeld-lab-4194997-1-x.disk", 0, 0o755);
        folder("target", 0, 0o700);
        symlink(at("target"), at("zmeld-lab-4194996-1-x.disk")).unwrap();
        assert_eq!(left_in(place.path(), ""), [] as [PathBuf; 0]);
        folder("zmeld-lab-4194995-1-x.disk", 0, 0o700);
        folder("zmeld-lab-4194994-1-x", 0, 0o700);
        let expected = [at("zmeld-lab-4194995-1-x.disk")];
        assert_eq!(left_in(place.path(), ".disk"), expected);
        assert_eq!(left_in(place.path(), "").len(), 2);
    }
}
