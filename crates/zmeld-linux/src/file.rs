//! Files written whole or not at all, by a program that root runs in folders
//! where others write too.
//!
//! A new content is written beside the file under a name that nobody can guess
//! and that no link stands under, synced, and renamed into its place: a reader
//! sees the old file or the new one, and after a crash too. The rename replaces a
//! name; it never writes into a file that is there.
//!
//! The object under that name decides what happens:
//!
//! | there is | it is |
//! |---|---|
//! | nothing, a regular file | made, or replaced |
//! | a symbolic link of root or of this user | followed; what it leads to decides |
//! | a symbolic link of anybody else | refused: it could lead to any file |
//! | a descriptor of this process (`/dev/stdout`), a device, a FIFO, a directory | refused |

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::FileError;

/// Links that lead to links, before they count as a circle; as the kernel has it.
const LINKS_MAX: usize = 40;

/// The file system of `/proc`, by its number in `statfs`.
const PROC: u64 = 0x9fa0;

/// Prefix and suffix of a temporary file's name, with a random part between.
const PART: (&str, &str) = (".zmeld-", ".part");

fn refused(path: &Path, why: impl Into<String>) -> FileError {
    failed(path, io::Error::other(why.into()))
}

fn failed(path: &Path, cause: impl Into<io::Error>) -> FileError {
    FileError::new("write", path, cause)
}

/// Writes a file that is not there yet, whole or not at all, with exactly that mode or
/// the one that the umask leaves.
///
/// # Errors
/// When anything stands under that name, a link to nothing included, or it
/// cannot be written.
pub fn create(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<(), FileError> {
    let failed = |cause| failed(path, cause);
    let part = written_beside(path, bytes, mode).map_err(failed)?;
    part.persist_noclobber(path)
        .map_err(|err| match err.error.kind() {
            io::ErrorKind::AlreadyExists => {
                let why = "it is there already and is kept; name another file, or remove it first";
                refused(path, why)
            }
            _ => failed(err.error),
        })?;
    sync_folder(path).map_err(failed)
}

/// Finds out before a long run whether [`replace`] could write there, as far as
/// that can be told without writing.
///
/// # Errors
/// Those of [`replace`] that are known by then.
pub fn check(path: &Path) -> Result<(), FileError> {
    let (name, _) = look(path)?;
    if folder(&name).is_dir() {
        return Ok(());
    }
    let folder = folder(&name).display();
    let why = format!("there is no directory {folder}; create it first");
    Err(refused(path, why))
}

/// Removes what a program that was killed while it wrote that file left beside it. Only
/// for a file that nobody writes meanwhile: one that is locked.
pub fn remove_parts(path: &Path) -> io::Result<()> {
    let first = first_of_part(path);
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&first) && name.ends_with(PART.1) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes a file, whole or not at all, with exactly that mode. Without one, a new file can
/// be read and written by whomever the umask lets; one that replaces a file of this user
/// keeps its mode.
///
/// # Errors
/// When it cannot be written, or should not: see above. If only the last sync
/// failed, the new content is there and may be lost in a crash.
pub fn replace(path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<(), FileError> {
    let failed = |cause| failed(path, cause);
    let (name, kept) = look(path)?;
    let part = written_beside(&name, bytes, mode.or(kept)).map_err(failed)?;
    part.persist(&name).map_err(|err| failed(err.error))?;
    sync_folder(&name).map_err(failed)
}

/// A file with that content, on disk, in the folder of the name that it is for.
/// Dropped, it is removed.
fn written_beside(
    name: &Path,
    bytes: &[u8],
    mode: Option<u32>,
) -> io::Result<tempfile::NamedTempFile> {
    let mut part = begin_beside(name, mode)?;
    part.write_all(bytes).map_err(without_path)?;
    if let Some(mode) = mode {
        part.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
    }
    part.as_file().sync_all()?;
    Ok(part)
}

/// [`written_beside`] without its content. A file with a mode of its own may be a secret: until it is whole
/// nobody else reads it.
fn begin_beside(name: &Path, mode: Option<u32>) -> io::Result<tempfile::NamedTempFile> {
    if name.file_name().is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "this is no name of a file",
        ));
    }
    let first = if mode.is_some() { 0o600 } else { 0o666 };
    tempfile::Builder::new()
        .prefix(&first_of_part(name))
        .suffix(PART.1)
        .permissions(Permissions::from_mode(first))
        .tempfile_in(folder(name))
        .map_err(without_path)
}

/// Prefix of the name of that file's temporary file; a long name is cut short.
fn first_of_part(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().take(32).collect();
    format!("{}{name}-", PART.0)
}

/// The system's error, without the random name, which tells nobody anything.
fn without_path(cause: io::Error) -> io::Error {
    let system = cause
        .get_ref()
        .and_then(|inner| inner.source())
        .and_then(|inner| inner.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    match system {
        Some(number) => io::Error::from_raw_os_error(number),
        None => cause,
    }
}

/// A rename is on disk once its folder is.
fn sync_folder(name: &Path) -> io::Result<()> {
    match File::open(folder(name))?.sync_all() {
        // Some file systems sync no folders.
        Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn folder(name: &Path) -> &Path {
    match name.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The name that a new file is given, through links that may be trusted, and the mode that
/// it takes over from this user's file of that name.
fn look(path: &Path) -> Result<(PathBuf, Option<u32>), FileError> {
    let failed = |cause: Errno| failed(path, cause);
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        // The thing itself, held, so that what is checked is what is used.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let thing = match rustix::fs::open(&at, flags, Mode::empty()) {
            Ok(thing) => thing,
            Err(Errno::NOENT) => return Ok((at, None)),
            Err(cause) => return Err(failed(cause)),
        };
        let stat = rustix::fs::fstat(&thing).map_err(failed)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink if !is_trusted(stat.st_uid) => {
                let owner = stat.st_uid;
                let why = format!(
                    "a symbolic link of another user (uid {owner}) is in its place, which could \
                     lead anywhere: remove it, or name another file"
                );
                return Err(refused(path, why));
            }
            // Not a name, but a descriptor of this process.
            FileType::Symlink if is_in_proc(&thing).map_err(failed)? => {
                return Err(refused(path, "it is an open descriptor; name a file"));
            }
            FileType::Symlink => {
                let to = rustix::fs::readlinkat(&thing, c"", Vec::new()).map_err(failed)?;
                use std::os::unix::ffi::OsStrExt;
                at = folder(&at).join(std::ffi::OsStr::from_bytes(to.as_bytes()));
            }
            FileType::RegularFile => {
                let mine = stat.st_uid == rustix::process::geteuid().as_raw();
                return Ok((at, mine.then_some(stat.st_mode & 0o777)));
            }
            FileType::Directory => {
                return Err(refused(path, "it is a directory; name a file in it"));
            }
            FileType::BlockDevice => {
                let why = "it is a block device, whose content would be lost; name a file";
                return Err(refused(path, why));
            }
            _ => return Err(refused(path, "it is no regular file; name another")),
        }
    }
    Err(failed(Errno::LOOP))
}

/// Returns true if that user's links are followed: those of root, of this user, and of the owner of
/// `/` (in a container).
fn is_trusted(owner: u32) -> bool {
    owner == 0
        || owner == rustix::process::geteuid().as_raw()
        || fs::metadata("/").is_ok_and(|root| root.uid() == owner)
}

fn is_in_proc(thing: &impl AsFd) -> Result<bool, Errno> {
    // The type's width differs between processors.
    rustix::fs::fstatfs(thing).map(|found| found.f_type as u64 == PROC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_mode_is_nobody_elses_before_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("key");
        let mode = |part: &tempfile::NamedTempFile| {
            part.as_file().metadata().unwrap().permissions().mode() & 0o777
        };
        for wanted in [0o600, 0o644] {
            assert_eq!(mode(&begin_beside(&name, Some(wanted)).unwrap()), 0o600);
            let whole = written_beside(&name, b"secret", Some(wanted)).unwrap();
            assert_eq!(mode(&whole), wanted);
        }
    }
}
