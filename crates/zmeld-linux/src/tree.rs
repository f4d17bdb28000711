//! The files of a tree that looks like a machine, which anybody may have made.
//!
//! Nothing outside of it is opened: symbolic links are followed as on the machine itself,
//! whose root the tree is (`openat2`, Linux 5.6), so that `/etc/zmeld.toml -> /etc/passwd`
//! is the tree's own `/etc/passwd`. Only regular files are read, since a pipe would be
//! waited for and a device may do something. The tree `/` is the machine itself.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{openat, openat2, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory of the kernel has fewer names than that.
const NAMES_MAX: usize = 1 << 16;
/// How often an open that met a renaming is tried again.
const TRIES: u32 = 16;

/// A root directory.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree below that directory.
    pub fn new(root: impl Into<PathBuf>) -> Tree {
        Tree { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is the machine itself.
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// A machine's path as this process sees it.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        if self.is_here() {
            return Ok(rustix::fs::open(path, flags, Mode::empty())?);
        }
        let path = path.strip_prefix("/").unwrap_or(path);
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.root, folder, Mode::empty())?;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        // A rename meanwhile may make the kernel ask to try again.
        let mut tries = 0..TRIES;
        loop {
            match openat2(&root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN) if tries.next().is_some() => {}
                found => return Ok(found?),
            }
        }
    }

    /// Metadata of a file, as of `stat`.
    pub fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open(path, OFlags::PATH)?).metadata()
    }

    /// A regular file, opened to be read; another is refused before it is opened.
    ///
    /// # Errors
    /// The system's error; that it is no regular file.
    pub fn open_file(&self, path: &Path) -> io::Result<File> {
        open_regular(|flags| self.open(path, flags))
    }

    /// A directory, held open.
    pub fn folder(&self, path: &Path) -> io::Result<Folder> {
        Ok(Folder(self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?))
    }

    /// The bytes of a regular file, at most so many.
    pub fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_file(path)?.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Opens one of the kernel's files to be written.
    pub fn open_to_write(&self, path: &Path) -> io::Result<File> {
        Ok(self.open(path, OFlags::WRONLY | OFlags::NONBLOCK)?.into())
    }

    /// Target of a symbolic link; none where it is none.
    pub fn link(&self, path: &Path) -> Option<PathBuf> {
        let link = self.open(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
        let target = rustix::fs::readlinkat(link, "", Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()).into())
    }

    /// Whether there is such a file, device, directory, or a link without an end.
    pub fn has(&self, path: &Path) -> io::Result<bool> {
        match self.open(path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// The path itself with its links resolved, as the machine names it; none where
    /// there is nothing.
    pub fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let found = self.open(path, OFlags::PATH).ok()?;
        let real = fs::read_link(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?;
        let root = self.root.canonicalize().ok()?;
        Some(Path::new("/").join(real.strip_prefix(root).ok()?))
    }

    /// The names in a directory, and whether each is a directory itself.
    pub fn entries(&self, path: &Path) -> io::Result<Vec<(OsString, bool)>> {
        let mut names = Vec::new();
        self.visit(path, &mut |name, is_folder| {
            names.push((name, is_folder));
            true
        })?;
        Ok(names)
    }

    /// [`Self::entries`] one by one, as long as `take` says true.
    ///
    /// # Errors
    /// The system's error; a directory of another tree with more names than any machine has.
    pub fn visit(
        &self,
        path: &Path,
        take: &mut dyn FnMut(OsString, bool) -> bool,
    ) -> io::Result<()> {
        let (mut count, mut is_too_many) = (0, false);
        self.folder(path)?.visit(&mut |name, is_folder| {
            is_too_many = count == NAMES_MAX && !self.is_here();
            count += 1;
            !is_too_many && take(name, is_folder)
        })?;
        match is_too_many {
            true => Err(io::Error::other(format!(
                "it has more than {NAMES_MAX} names: it is no machine's"
            ))),
            false => Ok(()),
        }
    }
}

/// A directory that is held open: what is in it is opened by name, however long the path
/// to it is, and through no link.
#[derive(Debug)]
pub struct Folder(OwnedFd);

impl Folder {
    fn open(&self, name: impl rustix::path::Arg, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, name, flags, Mode::empty())?)
    }

    /// A directory in it; "not a directory" where a link has that name.
    pub fn below(&self, name: &OsStr) -> io::Result<Folder> {
        Ok(Folder(self.open(name, OFlags::RDONLY | OFlags::DIRECTORY)?))
    }

    /// The directory that it is in.
    pub fn above(&self) -> io::Result<Folder> {
        Ok(Folder(self.open("..", OFlags::RDONLY | OFlags::DIRECTORY)?))
    }

    /// The numbers of its file system and of itself.
    pub fn id(&self) -> io::Result<(u64, u64)> {
        let stat = rustix::fs::fstat(&self.0)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    pub fn metadata(&self, name: &str) -> io::Result<Metadata> {
        File::from(self.open(name, OFlags::PATH)?).metadata()
    }

    /// A regular file in it, opened to be read; another is refused before it is opened.
    pub fn open_file(&self, name: &str) -> io::Result<File> {
        open_regular(|flags| self.open(name, flags))
    }

    /// Opens one of the kernel's files in it to be written.
    pub fn open_to_write(&self, name: &str) -> io::Result<File> {
        Ok(self.open(name, OFlags::WRONLY | OFlags::NONBLOCK)?.into())
    }

    /// The names in it one by one, and whether each is a directory itself, as long as `take`
    /// says true.
    pub fn visit(&self, take: &mut dyn FnMut(OsString, bool) -> bool) -> io::Result<()> {
        // By its descriptor it is the one that was opened.
        let opened = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        for entry in fs::read_dir(opened)? {
            let entry = entry?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !take(entry.file_name(), is_folder) {
                break;
            }
        }
        Ok(())
    }
}

fn open_regular(open: impl Fn(OFlags) -> io::Result<OwnedFd>) -> io::Result<File> {
    let check = |meta: Metadata| match meta.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a file")),
    };
    check(File::from(open(OFlags::PATH)?).metadata()?)?;
    // A replacement made meanwhile is not waited for either.
    let file = File::from(open(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?);
    check(file.metadata()?)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_of_a_tree_is_opened() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let inside = outside.path().join("tree");
        fs::create_dir_all(inside.join("etc")).unwrap();
        let tree = Tree::new(&inside);
        let secret = outside.path().join("secret");
        symlink(&secret, inside.join("etc/absolute")).unwrap();
        symlink("../../../../secret", inside.join("etc/relative")).unwrap();
        symlink("../..", inside.join("etc/above")).unwrap();
        for path in [
            "/etc/absolute",
            "/etc/relative",
            "/etc/above/secret",
            "/../secret",
        ] {
            let path = Path::new(path);
            let err = tree.read(path, 10).unwrap_err();
            assert_eq!(err.kind(), io::ErrorKind::NotFound, "{path:?}");
            assert!(tree.metadata(path).is_err() && tree.resolved(path).is_none());
        }
        // As on the machine whose root it is.
        fs::write(inside.join("secret"), "own").unwrap();
        assert_eq!(tree.read(Path::new("/etc/relative"), 10).unwrap(), b"own");
        assert_eq!(
            tree.resolved(Path::new("/etc/relative")).unwrap(),
            Path::new("/secret")
        );
        assert_eq!(tree.link(Path::new("/etc/absolute")), Some(secret));
        let names = tree.entries(Path::new("/etc/above")).unwrap();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn only_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        symlink("pipe", dir.path().join("link")).unwrap();
        let tree = Tree::new(dir.path());
        for path in ["/pipe", "/link"] {
            let err = tree.read(Path::new(path), 10).unwrap_err();
            assert_eq!(err.to_string(), "it is not a file");
        }
        assert!(tree.read(Path::new("/"), 10).is_err());
        // The machine's own are held to the same.
        assert!(Tree::new("/").read(Path::new("/dev/zero"), 10).is_err());
    }
}
