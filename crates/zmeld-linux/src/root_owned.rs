//! Folders and files in them that nobody else can have written.
//!
//! Files that root acts on must be root's: whoever can write a folder can replace any file in it.
//! Ownership and modes of folder and file are verified before contents are trusted; and what root
//! works on is held open meanwhile ([`Pinned`]).

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    fadvise, getxattr, linkat, openat, unlinkat, Advice, AtFlags, Mode, OFlags, SeekFrom, CWD,
};
use rustix::io::Errno;

use crate::HostError;

/// Readable by all, writable by the owner.
const MODE: u32 = 0o755;
/// The right to write, for the group and for others.
const OTHERS_WRITE: u32 = 0o022;

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HostError {
    let path = path.to_path_buf();
    move |cause| HostError::io(action, path, cause)
}

/// Error for a file that somebody else may have written or may replace. The caller tells the way
/// out.
fn foreign(path: &Path, problem: impl Into<String>) -> HostError {
    HostError::not_ours(path, problem, "")
}

/// Makes a folder that all may read, whatever the umask, and looks at one that is
/// there: only root and `owner` may write it.
///
/// # Errors
/// When it cannot be made, or somebody else may write it.
pub fn make_folder(folder: &Path, owner: u32) -> Result<(), HostError> {
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
pub fn check_folder(folder: &Path, owner: u32) -> Result<Metadata, HostError> {
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
pub fn read(path: &Path, owner: u32, bytes_max: u64) -> Result<Vec<u8>, HostError> {
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
pub fn check(path: &Path, meta: &Metadata, owner: u32) -> Result<(), HostError> {
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

/// The user or group, but for owner, root and `groups`, that may open it, by its mode and its
/// access control list.
pub fn opened_to(path: &Path, meta: &Metadata, groups: &[u32]) -> io::Result<Option<Other>> {
    let mut bytes = [0; ACL_BYTES_MAX];
    let bytes = match getxattr(path, ACL, &mut bytes) {
        Ok(length) => &bytes[..length],
        // It has none, or its file system knows none.
        Err(Errno::NODATA | Errno::NOTSUP) => &[],
        Err(errno) => return Err(errno.into()),
    };
    let entries = bytes.get(4..).unwrap_or_default().chunks_exact(8);
    let entries = entries.map(|entry| AclEntry {
        tag: u16::from_le_bytes([entry[0], entry[1]]),
        may: u32::from(u16::from_le_bytes([entry[2], entry[3]])),
        id: u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]),
    });
    let mut entries = Vec::from_iter(entries);
    // With a list, the mode has its mask where the group's rights are.
    let mask = (meta.mode() >> 3) & 7;
    if entries.is_empty() {
        entries.push(AclEntry {
            tag: ACL_GROUP_OBJ,
            may: mask,
            id: 0,
        });
    }
    let others = meta.mode() & 7 != 0;
    let listed = entries.into_iter().filter(|it| it.may & mask != 0);
    let mut listed = listed.filter_map(|it| match it.tag {
        ACL_USER if it.id != 0 => Some(Other::User(it.id)),
        ACL_GROUP => Some(Other::Group(it.id)),
        ACL_GROUP_OBJ => Some(Other::Group(meta.gid())),
        _ => None,
    });
    let passes = |it: &Other| matches!(it, Other::Group(id) if *id == 0 || groups.contains(id));
    let first = listed.find(|it| !passes(it));
    Ok(others.then_some(Other::All).or(first))
}

/// Somebody who may open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Other {
    /// Everybody.
    All,
    /// The user of that number.
    User(u32),
    /// The group of that number.
    Group(u32),
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::All => write!(f, "everybody"),
            Other::User(id) => write!(f, "the user {id}"),
            Other::Group(id) => write!(f, "the group {id}"),
        }
    }
}

/// The list, whose form is `linux/posix_acl_xattr.h`: a version, then entries.
const ACL: &str = "system.posix_acl_access";
/// No attribute is longer.
const ACL_BYTES_MAX: usize = 65536;
const ACL_USER: u16 = 0x02;
const ACL_GROUP_OBJ: u16 = 0x04;
const ACL_GROUP: u16 = 0x08;

struct AclEntry {
    tag: u16,
    may: u32,
    id: u32,
}

/// A name in a folder, and the file that has it, both held open: whoever renames
/// them, or puts a link in their place, does not change which they are.
#[derive(Debug)]
pub struct Pinned {
    path: PathBuf,
    folder: File,
    name: OsString,
    file: Option<Arc<File>>,
}

impl Pinned {
    /// Goes from `root` down to `path`, which is below it, one folder at a time and
    /// through no link. With an `owner`, only root and that user may write each folder
    /// on the way.
    ///
    /// # Errors
    /// When a folder is not there, is a link, or somebody else may write it.
    pub fn open(root: &Path, path: &Path, owner: Option<u32>) -> Result<Pinned, HostError> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let below = path.strip_prefix(root).unwrap_or(path);
        let mut parts = Vec::new();
        for part in below.components() {
            match part {
                Component::Normal(name) => parts.push(name),
                Component::RootDir | Component::CurDir => {}
                _ => return Err(foreign(path, "it leads out of a folder again (\"..\")")),
            }
        }
        let Some(name) = parts.pop() else {
            return Err(foreign(path, "it is no file"));
        };
        let above = path.parent().unwrap_or(root);
        let failed = |cause: Errno| failed("look at", above)(cause.into());
        let mut at = root.to_path_buf();
        let opened = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty());
        let mut folder = File::from(opened.map_err(failed)?);
        let look = |folder: &File, at: &Path| {
            let meta = folder.metadata();
            let meta = meta.map_err(self::failed("look at", at))?;
            if meta.is_symlink() {
                return Err(foreign(at, LINK));
            }
            owner.map_or(Ok(()), |owner| check(at, &meta, owner))
        };
        look(&folder, &at)?;
        for part in parts {
            at.push(part);
            let opened = openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty());
            folder = File::from(opened.map_err(failed)?);
            look(&folder, &at)?;
        }
        let file = match openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(file) => Some(Arc::new(File::from(file))),
            Err(Errno::NOENT) => None,
            Err(cause) => return Err(failed(cause)),
        };
        Ok(Pinned {
            path: path.to_path_buf(),
            folder,
            name: name.to_owned(),
            file,
        })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to be named to a command; it cannot be read by itself. None where
    /// nothing has that name.
    pub fn file(&self) -> Option<&Arc<File>> {
        self.file.as_ref()
    }

    /// Metadata of the file; none where nothing has that name.
    pub fn metadata(&self) -> Result<Option<Metadata>, HostError> {
        let meta = self.file.as_ref().map(|file| file.metadata()).transpose();
        meta.map_err(failed("look at", &self.path))
    }

    /// The file, where it is one that only `owner` (or root) may read or write; none
    /// where nothing has that name.
    ///
    /// # Errors
    /// When it is a link, or somebody else may read or write it.
    pub fn secret(&self, owner: u32) -> Result<Option<Metadata>, HostError> {
        let Some(meta) = self.metadata()? else {
            return Ok(None);
        };
        if meta.is_symlink() {
            return Err(foreign(&self.path, LINK));
        }
        check(&self.path, &meta, owner)?;
        if meta.is_file() && meta.mode() & 0o077 != 0 {
            let mode = meta.mode() & 0o7777;
            return Err(foreign(
                &self.path,
                format!("others may read it (mode {mode:04o})"),
            ));
        }
        Ok(Some(meta))
    }

    /// Makes a file without a name in the folder, for its owner alone: it is gone with
    /// the program, or with power, unless it is given one.
    ///
    /// # Errors
    /// The system's error; `EOPNOTSUPP` where the file system has none.
    pub fn create_unnamed(&self) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let made = openat(&self.folder, ".", flags, Mode::from_raw_mode(0o600))?;
        Ok(File::from(made))
    }

    /// Gives the name, which nothing may have, to a file made by
    /// [`Pinned::create_unnamed`].
    pub fn give_name_to(&self, file: &File) -> io::Result<()> {
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, open, &self.folder, &self.name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(())
    }

    /// Whether nothing was ever written into the file: all of it is holes, or blocks
    /// that were taken and never used. False where the file system does not tell.
    ///
    /// # Errors
    /// The system's error, also where nothing has that name.
    pub fn is_unwritten(&self) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.folder, &self.name, flags, Mode::empty())?;
        // Read holes count as data while they are in memory.
        fadvise(&file, 0, None, Advice::DontNeed)?;
        match rustix::fs::seek(&file, SeekFrom::Data(0)) {
            Err(Errno::NXIO) => Ok(true),
            Err(Errno::INVAL) => Ok(false),
            result => Ok(result.map(|_| false)?),
        }
    }

    /// Removes the name, whatever has it by now: look at which file it is before.
    pub fn remove(&self) -> io::Result<()> {
        match unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// How much room there is in its folder's file system, and what that is.
    pub fn file_system(&self) -> io::Result<rustix::fs::StatFs> {
        Ok(rustix::fs::fstatfs(&self.folder)?)
    }

    /// The number of that file system.
    pub fn device(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.folder)?.st_dev)
    }
}

const LINK: &str = "it is a symbolic link";

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
    fn what_others_may_have_written_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("run"), dir.path().join("run/file"));
        make_folder(&folder, me()).unwrap();
        assert_eq!(mode(&folder), 0o755);
        // One that was closed is opened to readers.
        set(&folder, 0o700);
        make_folder(&folder, me()).unwrap();
        assert_eq!(mode(&folder), 0o755);
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
        assert!(matches!(read(&link, me(), 100), Err(HostError::File(_))));
        let other = dir.path().join("link");
        std::os::unix::fs::symlink(&folder, &other).unwrap();
        let err = make_folder(&other, me()).unwrap_err().to_string();
        assert!(err.contains("no directory"), "{err}");
        // Root does, unless a container keeps him from it.
        if std::os::unix::fs::chown(&file, Some(65534), None).is_ok() {
            let err = read(&file, 0, 100).unwrap_err().to_string();
            assert!(err.contains("another user (uid 65534)"), "{err}");
            assert!(read(&file, 65534, 100).is_ok());
        }
    }

    #[test]
    fn a_pinned_file_stays_the_same_whoever_takes_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (root, folder) = (dir.path(), dir.path().join("a/b"));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("swap");
        let open = |path: &Path| Pinned::open(root, path, Some(me()));
        assert!(open(&path).unwrap().file().is_none());
        let made = open(&path).unwrap().create_unnamed().unwrap();
        assert_eq!(made.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        open(&path).unwrap().give_name_to(&made).unwrap();
        let taken = open(&path).unwrap().give_name_to(&made).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        let pinned = open(&path).unwrap();
        let inode = |pinned: &Pinned| pinned.metadata().unwrap().unwrap().ino();
        let was = inode(&pinned);
        assert_eq!(was, made.metadata().unwrap().ino());
        assert!(pinned.secret(me()).unwrap().is_some());
        // Another folder has the name by now, by way of a link.
        fs::create_dir(root.join("other")).unwrap();
        fs::write(root.join("other/swap"), "root's").unwrap();
        fs::rename(&folder, root.join("a/c")).unwrap();
        std::os::unix::fs::symlink("../other", &folder).unwrap();
        assert_eq!(inode(&pinned), was);
        let err = open(&path).unwrap_err().to_string();
        assert!(err.ends_with("a/b: it is a symbolic link"), "{err}");
        pinned.remove().unwrap();
        assert!(!root.join("a/c/swap").exists() && root.join("other/swap").exists());
        // Nor is a link taken for the file.
        let link = root.join("a/c/swap");
        std::os::unix::fs::symlink(root.join("other/swap"), &link).unwrap();
        let err = open(&link).unwrap().secret(me()).unwrap_err().to_string();
        assert!(err.ends_with("swap: it is a symbolic link"), "{err}");
        let err = open(&folder.join("../x")).unwrap_err().to_string();
        assert!(err.contains("leads out of a folder"), "{err}");
    }
}
