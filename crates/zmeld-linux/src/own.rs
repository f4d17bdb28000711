//! Folders and files in them that nobody else can have written.
//!
//! What root acts on must be root's: whoever could write a folder puts another
//! file in the place of any in it. So it is looked at who owns the folder and the
//! file, and who else may write them, before a word of it is believed.

use std::fs::{self, DirBuilder, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// What all may read and only its owner may write.
const MODE: u32 = 0o755;
/// The right to write, for the group and for others.
const OTHERS_WRITE: u32 = 0o022;

/// Why something is not believed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on it.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// What was tried, a verb.
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Somebody else may have written it.
    #[error("{}: {problem}", path.display())]
    Foreign {
        /// What it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |cause| Error::Io {
        action,
        path,
        cause,
    }
}

fn foreign(path: &Path, problem: impl Into<String>) -> Error {
    Error::Foreign {
        path: path.to_path_buf(),
        problem: problem.into(),
    }
}

/// Makes a folder that all may read, whatever the umask, and looks at one that is
/// there: only root and `owner` may write it.
///
/// # Errors
/// When it cannot be made, or somebody else may write it.
pub fn make_folder(folder: &Path, owner: u32) -> Result<(), Error> {
    if let Some(parent) = folder.parent() {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(MODE).create(parent);
        made.map_err(failed("create", parent))?;
    }
    match DirBuilder::new().mode(MODE).create(folder) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("create", folder)(cause));
        }
        _ => {}
    }
    let meta = check_folder(folder, owner)?;
    // The umask, or a version before, kept others from reading it.
    let is_mine = meta.uid() == rustix::process::geteuid().as_raw();
    if is_mine && meta.mode() & MODE != MODE {
        let opened = fs::set_permissions(folder, Permissions::from_mode(MODE));
        opened.map_err(failed("open to readers", folder))?;
    }
    Ok(())
}

/// Whether only root and `owner` may write a folder.
///
/// # Errors
/// When it is not there, is none, or somebody else may write it.
pub fn check_folder(folder: &Path, owner: u32) -> Result<Metadata, Error> {
    let meta = fs::symlink_metadata(folder).map_err(failed("look at", folder))?;
    if !meta.is_dir() {
        return Err(foreign(folder, "it is no directory"));
    }
    check(folder, &meta, owner)?;
    Ok(meta)
}

/// The bytes of a file, at most so many, in a folder that was looked at.
///
/// # Errors
/// When it cannot be read, is a link or no file, or somebody but root and `owner`
/// may write it.
pub fn read(path: &Path, owner: u32, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(flags.bits() as i32);
    let file = opened.open(path).map_err(failed("read", path))?;
    let meta = file.metadata().map_err(failed("read", path))?;
    if !meta.is_file() {
        return Err(foreign(path, "it is no regular file"));
    }
    check(path, &meta, owner)?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max).read_to_end(&mut bytes);
    read.map_err(failed("read", path))?;
    Ok(bytes)
}

/// Whether only root and `owner` may write what is there.
///
/// # Errors
/// When somebody else may.
pub fn check(path: &Path, meta: &Metadata, owner: u32) -> Result<(), Error> {
    let has = meta.uid();
    if has != 0 && has != owner {
        return Err(foreign(
            path,
            format!("it belongs to another user (uid {has})"),
        ));
    }
    // A group of the user's own is as good as the user; root's is not root.
    let is_own_group = has != 0 && meta.gid() == rustix::process::getegid().as_raw();
    let others = match is_own_group {
        true => OTHERS_WRITE & 0o007,
        false => OTHERS_WRITE,
    };
    if meta.mode() & others != 0 {
        let mode = meta.mode() & 0o7777;
        return Err(foreign(
            path,
            format!("others may write it (mode {mode:04o})"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_is_made_for_all_to_read_and_one_that_was_closed_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("run/zmeld");
        make_folder(&folder, me()).unwrap();
        assert_eq!(mode(&folder), 0o755);
        set(&folder, 0o700);
        make_folder(&folder, me()).unwrap();
        assert_eq!(mode(&folder), 0o755);
    }

    #[test]
    fn what_others_may_have_written_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("run"), dir.path().join("run/file"));
        make_folder(&folder, me()).unwrap();
        fs::write(&file, "so").unwrap();
        set(&file, 0o644);
        assert_eq!(read(&file, me(), 100).unwrap(), b"so");
        assert_eq!(read(&file, me(), 1).unwrap(), b"s");
        for path in [&folder, &file] {
            let mode = mode(path);
            set(path, mode | 0o002);
            let result = match path.is_dir() {
                true => make_folder(path, me()),
                false => read(path, me(), 100).map(drop),
            };
            let err = result.unwrap_err().to_string();
            assert!(err.contains("others may write it"), "{err}");
            set(path, mode);
        }
        let link = folder.join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(matches!(read(&link, me(), 100), Err(Error::Io { .. })));
        let other = dir.path().join("link");
        std::os::unix::fs::symlink(&folder, &other).unwrap();
        let err = make_folder(&other, me()).unwrap_err().to_string();
        assert!(err.contains("no directory"), "{err}");
        if me() == 0 {
            std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
            let err = read(&file, 0, 100).unwrap_err().to_string();
            assert!(err.contains("another user (uid 65534)"), "{err}");
            assert!(read(&file, 65534, 100).is_ok());
        }
    }
}
