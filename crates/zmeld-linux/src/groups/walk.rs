//! A walk through control groups, each opened in the one above it.
//!
//! The owner of a part of the tree nests groups as deep as he likes, under names as long as he
//! likes: the path to one may be longer than the system takes. So below the top no path is opened,
//! only a name in the group above, and that one again as `..`: one descriptor does for any depth.
//!
//! ```text
//! let mut walk = Walk::new(host, &hierarchy.top);
//! while walk.next()? {
//!     let group = walk.group();            // depth 0 is the top
//!     if group.number("memory.swap.current")? != Some(0) {
//!         walk.descend()?;
//!     }
//! }
//! ```
//!
//! Invariants: a group comes behind the one above it, and what is below it before what is
//! beside it; one that is removed meanwhile is left out. At most [`GROUPS_MAX`] are entered, so
//! that nobody who makes groups keeps a walk from ending.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::is_absent;
use crate::host::{number, store, READ_MAX};
use crate::text::made_text;
use crate::tree::Folder;
use crate::{Host, HostError};

/// Twice as many as the kernel gives a memory controller of their own.
pub const GROUPS_MAX: usize = 1 << 17;
/// Names of groups that are still to be entered take no more, in bytes.
const NAMES_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub struct OpenGroup {
    folder: Folder,
    path: PathBuf,
    depth: usize,
}

impl OpenGroup {
    /// Its directory, however long: to be shown and compared, not to be opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many groups are above it, up to the top of the walk.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The text of one of its files; none where it has no such file, or was removed.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn read(&self, file: &str) -> Result<Option<String>, HostError> {
        let read = || {
            let mut bytes = Vec::new();
            let open = self.folder.open_file(file)?;
            open.take(READ_MAX + 1).read_to_end(&mut bytes)?;
            match bytes.len() as u64 > READ_MAX {
                true => Err(io::Error::from(Errno::FBIG)),
                false => Ok(bytes),
            }
        };
        let text = self.unless_absent("read", file, read())?;
        Ok(text.map(|bytes| made_text(&bytes).trim().to_owned()))
    }

    /// The number in one of its files, `max` the largest one; none where it holds none.
    ///
    /// # Errors
    /// Those of [`OpenGroup::read`].
    pub fn number(&self, file: &str) -> Result<Option<u64>, HostError> {
        Ok(self.read(file)?.as_deref().and_then(number))
    }

    /// Writes a value into one of its files; false where it has no such file.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn write(&self, file: &str, value: &str) -> Result<bool, HostError> {
        let open = self.folder.open_to_write(file);
        let written = open.and_then(|open| store(open, value.as_bytes()));
        Ok(self.unless_absent("write", file, written)?.is_some())
    }

    /// Metadata of one of its files; none where it has no such file.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn metadata(&self, file: &str) -> Result<Option<Metadata>, HostError> {
        self.unless_absent("look at", file, self.folder.metadata(file))
    }

    fn unless_absent<T>(
        &self,
        action: &'static str,
        file: &str,
        result: io::Result<T>,
    ) -> Result<Option<T>, HostError> {
        match result {
            Ok(it) => Ok(Some(it)),
            Err(cause) if is_absent(&cause) => Ok(None),
            Err(cause) => Err(HostError::io(action, self.path.join(file), cause)),
        }
    }
}

/// A group above the one that is open.
#[derive(Debug)]
struct Above {
    /// Its identity, since a folder of another tree may be moved meanwhile.
    id: (u64, u64),
    /// Those below it that are still to be entered, the next one last.
    names: Vec<OsString>,
}

/// The way through a group and all that is below it.
#[derive(Debug)]
pub struct Walk<'a> {
    host: &'a Host,
    top: &'a Path,
    is_begun: bool,
    at: Option<OpenGroup>,
    above: Vec<Above>,
    /// Those below the one that is open.
    below: Vec<OsString>,
    names_bytes: usize,
    left: usize,
}

impl<'a> Walk<'a> {
    /// The way through that group and all that is below it.
    pub fn new(host: &'a Host, top: &'a Path) -> Walk<'a> {
        Walk {
            host,
            top,
            is_begun: false,
            at: None,
            above: Vec::new(),
            below: Vec::new(),
            names_bytes: 0,
            left: GROUPS_MAX,
        }
    }

    /// The group that is open.
    ///
    /// # Panics
    /// Before [`Walk::next`] said that there is one.
    pub fn group(&self) -> &OpenGroup {
        self.at.as_ref().expect("next() was asked")
    }

    /// Goes on to the next group, the top first; whether there is one.
    ///
    /// # Errors
    /// When it is there and cannot be opened. The walk can go on without it.
    #[allow(clippy::should_implement_trait)] // The group is borrowed.
    pub fn next(&mut self) -> Result<bool, HostError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return self.begin();
        }
        loop {
            let Some(name) = self.below.pop() else {
                match self.leave()? {
                    true => continue,
                    false => return Ok(false),
                }
            };
            self.names_bytes -= name.len();
            if self.enter(name)? {
                return Ok(true);
            }
        }
    }

    fn begin(&mut self) -> Result<bool, HostError> {
        let failed = |cause| HostError::io("list", self.top, cause);
        let folder = match self.host.tree().folder(self.top) {
            Err(cause) if is_absent(&cause) => return Ok(false),
            folder => folder.map_err(failed)?,
        };
        self.left -= 1;
        self.at = Some(OpenGroup {
            folder,
            path: self.top.to_path_buf(),
            depth: 0,
        });
        Ok(true)
    }

    /// Opens a group below the one that is open; false where it is gone.
    fn enter(&mut self, name: OsString) -> Result<bool, HostError> {
        let Some(at) = &mut self.at else {
            return Ok(false);
        };
        let opened = at
            .folder
            .below(&name)
            .and_then(|it| Ok((at.folder.id()?, it)));
        let (id, folder) = match opened {
            Err(cause) if is_absent(&cause) => return Ok(false),
            opened => opened.map_err(|cause| HostError::io("list", at.path.join(&name), cause))?,
        };
        at.folder = folder;
        at.path.push(name);
        at.depth += 1;
        let names = std::mem::take(&mut self.below);
        self.above.push(Above { id, names });
        Ok(true)
    }

    /// Goes back to the group above; false where that is above the top.
    fn leave(&mut self) -> Result<bool, HostError> {
        let (Some(above), Some(at)) = (self.above.pop(), &mut self.at) else {
            return Ok(false);
        };
        let found = at.folder.above().and_then(|it| Ok((it.id()?, it)));
        let failed = |cause| HostError::io("go back above", &at.path, cause);
        let folder = match found {
            Ok((id, folder)) if id == above.id => folder,
            other => {
                // Nothing else can be reached.
                self.above.clear();
                let moved = Err(io::Error::other("it was moved meanwhile"));
                return other.and(moved).map_err(failed);
            }
        };
        at.folder = folder;
        at.path.pop();
        at.depth -= 1;
        self.below = above.names;
        Ok(true)
    }

    /// Has the walk enter the groups below the one that is open, by name; whether it will
    /// enter all that are there.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn descend(&mut self) -> Result<bool, HostError> {
        let Some(at) = &self.at else {
            return Ok(true);
        };
        let (mut names, mut is_all) = (Vec::new(), true);
        let (bytes, left) = (&mut self.names_bytes, &mut self.left);
        let visited = at.folder.visit(&mut |name, is_folder| {
            if is_folder {
                is_all = *left > 0 && *bytes + name.len() <= NAMES_BYTES;
                if is_all {
                    (*left, *bytes) = (*left - 1, *bytes + name.len());
                    names.push(name);
                }
            }
            is_all
        });
        // The next one is the last.
        names.sort_by(|one, other| other.cmp(one));
        self.below = names;
        match visited {
            Err(cause) if !is_absent(&cause) => Err(HostError::io("list", &at.path, cause)),
            _ => Ok(is_all),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsRawFd;

    use super::*;

    fn walked(host: &Host, top: &Path) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        let mut walk = Walk::new(host, top);
        while walk.next().unwrap() {
            let group = walk.group();
            let name = group.path().file_name().unwrap().to_string_lossy();
            let procs = group.read("cgroup.procs").unwrap().unwrap_or_default();
            found.push((group.depth(), format!("{name} {procs}").trim().to_owned()));
            assert!(walk.descend().unwrap());
        }
        assert!(!walk.next().unwrap());
        found
    }

    #[test]
    fn each_group_is_entered_once_behind_the_one_above_it() {
        let (_dir, host) = Host::planted(&[
            ("/g/cgroup.procs", "1\n"),
            ("/g/b/y/cgroup.procs", "4\n"),
            ("/g/b/x/z/cgroup.procs", "3\n"),
            ("/g/a/cgroup.procs", "2\n"),
        ]);
        std::os::unix::fs::symlink("/g/b", host.path("/g/c")).unwrap();
        let found = walked(&host, Path::new("/g"));
        let names: Vec<&str> = found.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["g 1", "a 2", "b", "x", "z 3", "y 4"]);
        let depths: Vec<usize> = found.iter().map(|(depth, _)| *depth).collect();
        assert_eq!(depths, [0, 1, 1, 2, 3, 2]);
        assert_eq!(walked(&host, Path::new("/none")), []);
    }

    #[test]
    fn neither_depth_nor_the_length_of_a_path_ends_a_walk() {
        let (_dir, host) = Host::planted(&[("/g/z/cgroup.procs", "last\n")]);
        let mut folder = fs::File::open(host.path("/g")).unwrap();
        // More than a process may have open, with paths of 300,000 bytes.
        for depth in 0..1500 {
            let at = format!("/proc/self/fd/{}", folder.as_raw_fd());
            let inner = format!("{at}/{}", "a".repeat(200));
            fs::create_dir(&inner).unwrap();
            fs::write(format!("{inner}/cgroup.procs"), format!("{depth}\n")).unwrap();
            folder = fs::File::open(&inner).unwrap();
        }
        let found = walked(&host, Path::new("/g"));
        assert_eq!(found.len(), 1502);
        assert!(found[1500].1.ends_with(" 1499"), "{:?}", found[1500]);
        assert_eq!(found[1501], (1, "z last".to_owned()));
    }

    #[test]
    fn one_that_is_removed_is_left_out_and_one_that_is_moved_ends_it() {
        let (_dir, host) = Host::planted(&[("/g/a/b/c/procs", ""), ("/g/d/procs", "")]);
        let top = Path::new("/g");
        let mut walk = Walk::new(&host, top);
        assert!(walk.next().unwrap() && walk.descend().unwrap());
        fs::remove_dir_all(host.path("/g/d")).unwrap();
        assert!(walk.next().unwrap() && walk.descend().unwrap());
        assert!(walk.next().unwrap() && walk.descend().unwrap());
        // The move leads `..` out of the tree.
        fs::rename(host.path("/g/a/b"), host.path("/b")).unwrap();
        assert!(walk.next().unwrap(), "what is open goes on");
        let err = walk.next().unwrap_err().to_string();
        assert!(err.contains("moved meanwhile"), "{err}");
        assert!(!walk.next().unwrap());
    }
}
