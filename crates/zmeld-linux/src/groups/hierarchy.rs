//! Mount point of the memory controller's groups.
//!
//! Wherever that is: a machine mounts them where it likes, and a namespace may not
//! show them at all. Groups that are there and are not seen may be killed in like
//! any others, so that is an error and not the same as a machine without them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::mounts;
use crate::{Host, HostError};

/// The controllers of version 1, and how many groups each has.
const CONTROLLERS: &str = "/proc/cgroups";

/// Which version the memory controller has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Each controller has a tree of its own.
    One,
    /// One tree for all.
    Two,
}

impl Version {
    /// A group's file with the limit of its memory.
    pub fn limit_file(self) -> &'static str {
        match self {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        }
    }

    /// A group's file with the memory that it takes.
    pub fn usage_file(self) -> &'static str {
        match self {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        }
    }

    /// The path in a line of `/proc/PID/cgroup`, where it is of the memory controller.
    pub fn path_of(self, line: &[u8]) -> Option<&[u8]> {
        let mut words = line.splitn(3, |byte| *byte == b':');
        let (number, controllers, path) = (words.next()?, words.next()?, words.next()?);
        let is_it = match self {
            Version::One => {
                let mut all = controllers.split(|it| *it == b',');
                all.any(|it| it == b"memory")
            }
            Version::Two => number == b"0" && controllers.is_empty(),
        };
        is_it.then_some(path)
    }
}

/// Why no control group of a machine can limit memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoGroups {
    /// The kernel's memory controller is switched off.
    Disabled,
    /// No groups with that controller are mounted.
    Unmounted,
}

impl NoGroups {
    /// The reason where [`Hierarchy::find`] has none.
    ///
    /// # Errors
    /// When groups are mounted and not seen, as in an incomplete copy of a machine's files.
    pub fn read(host: &Host) -> Result<NoGroups, HostError> {
        if let Some((_, is_enabled)) = controller(host)? {
            return Ok(match is_enabled {
                true => NoGroups::Unmounted,
                false => NoGroups::Disabled,
            });
        }
        let mut mounts = mounts::read(host, mounts::PATH)?;
        mounts.retain(|mount| ["cgroup", "cgroup2"].contains(&mount.kind.as_str()));
        let is_there = |file: &str| {
            mounts
                .iter()
                .any(|mount| host.exists(mount.point.join(file)))
        };
        match () {
            _ if is_there("cgroup.controllers") => Ok(NoGroups::Disabled),
            _ if mounts.is_empty() || is_there("") => Ok(NoGroups::Unmounted),
            _ => Err(HostError::GroupsUnseen),
        }
    }

    pub fn why(self) -> &'static str {
        match self {
            NoGroups::Disabled => "the kernel's memory controller for control groups is off",
            NoGroups::Unmounted => {
                "there are no control groups with the memory controller below /sys/fs/cgroup"
            }
        }
    }

    pub fn remedy(self) -> &'static str {
        match self {
            NoGroups::Disabled => {
                "boot without cgroup_disable=memory (a Raspberry Pi: with cgroup_enable=memory), \
                 or remove it"
            }
            NoGroups::Unmounted => "have them mounted, or remove it",
        }
    }
}

/// A limit of version 1 that is as high is none: the kernel shows all but the last page of it.
pub const NO_LIMIT: u64 = 1 << 62;

/// A mount that shows the groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    pub top: PathBuf,
    /// The group that is mounted there, `/` for all of them.
    root: PathBuf,
}

impl Hierarchy {
    /// None where no group can limit memory.
    ///
    /// # Errors
    /// When there are such groups, and none is seen ([`HostError::GroupsUnseen`]).
    pub fn find(host: &Host) -> Result<Option<Hierarchy>, HostError> {
        let all = mounts::read(host, mounts::PATH)?.into_iter();
        // One that shows all groups rather than a part of them.
        let found = all
            .filter_map(|mount| Hierarchy::of(host, mount))
            .min_by_key(|it| it.root.components().count());
        if found.is_none() && has_groups(host)? {
            return Err(HostError::GroupsUnseen);
        }
        Ok(found)
    }

    /// Whether it is a mount of the memory controller, which nothing covers.
    fn of(host: &Host, mount: mounts::Mount) -> Option<Hierarchy> {
        let read = |file: &str| host.read_optional(mount.point.join(file)).ok().flatten();
        let mut options = mount.file_system_options.split(',');
        let version = match mount.kind.as_str() {
            "cgroup" if options.any(|it| it == "memory") => {
                read(Version::One.limit_file()).map(|_| Version::One)
            }
            "cgroup2" => {
                let controllers = read("cgroup.controllers")?;
                let mut all = controllers.split_whitespace();
                all.any(|it| it == "memory").then_some(Version::Two)
            }
            _ => None,
        };
        Some(Hierarchy {
            version: version?,
            top: mount.point,
            root: mount.root,
        })
    }

    /// The directory of a process's group; `self` is this one. None where the mount does not
    /// show it.
    ///
    /// # Errors
    /// When the kernel does not tell it: one is too deep to be named, or the process has ended.
    pub fn group_of(&self, host: &Host, process: &str) -> Result<Option<PathBuf>, HostError> {
        let text = host.read_bytes(format!("/proc/{process}/cgroup"))?;
        Ok(self.group_in(&text))
    }

    /// [`Self::group_of`], from what `/proc/PID/cgroup` says. Byte by byte, since a group's name need not
    /// be text.
    pub fn group_in(&self, text: &[u8]) -> Option<PathBuf> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let path = lines.find_map(|line| self.version.path_of(line))?;
        let below = Path::new(OsStr::from_bytes(path));
        let below = below.strip_prefix(&self.root).ok()?;
        let is_shown = below.components().all(|it| it != Component::ParentDir);
        // `join` would leave a slash at the end.
        is_shown.then(|| match below.as_os_str().is_empty() {
            true => self.top.clone(),
            false => self.top.join(below),
        })
    }

    /// A group's path as the kernel tells it of a process (`/proc/PID/cgroup`).
    pub fn kernel_path(&self, group: &Path) -> PathBuf {
        let below = group.strip_prefix(&self.top).unwrap_or(group);
        self.root.join(below)
    }

    /// A group's path below the root of its hierarchy, of a single line.
    pub fn shown(&self, group: &Path) -> String {
        // A user who was given a part of the tree names groups as he likes.
        let path = self.kernel_path(group);
        let path = path.to_string_lossy().replace(char::is_control, "?");
        match path.trim_matches('/') {
            "" => "/".to_owned(),
            path => format!("/{path}"),
        }
    }

    /// [`Self::shown`] in a sentence: of a path that is too long for one, its begin and its end.
    pub fn named(&self, group: &Path) -> String {
        let shown = self.shown(group);
        let count = shown.chars().count();
        if count <= 2 * NAMED_CHARS {
            return shown;
        }
        let begin: String = shown.chars().take(NAMED_CHARS).collect();
        let end: String = shown.chars().skip(count - NAMED_CHARS).collect();
        format!("{begin}...{end}")
    }
}

/// So much of a path's begin and of its end is shown in a sentence.
const NAMED_CHARS: usize = 120;

/// Whether there are groups that the memory controller could limit: any but the
/// root, which has no limits.
fn has_groups(host: &Host) -> Result<bool, HostError> {
    if let Some((count, is_enabled)) = controller(host)? {
        return Ok(is_enabled && count.is_none_or(|count| count > 1));
    }
    // A kernel without version 1 does not list it there: this process's own group
    // tells whether there are any.
    let own = host.read_optional("/proc/self/cgroup")?.unwrap_or_default();
    let mut groups = own.lines().filter_map(|line| line.strip_prefix("0::/"));
    Ok(host.exists(CONTROLLERS) && groups.any(|group| !group.is_empty()))
}

/// How many groups the memory controller has, and whether it is enabled; none where the kernel does
/// not list it.
fn controller(host: &Host) -> Result<Option<(Option<u64>, bool)>, HostError> {
    let table = host.read_optional(CONTROLLERS)?.unwrap_or_default();
    // `memory 4 25 1`: which hierarchy, how many groups, whether it is enabled.
    let mut lines = table.lines().map(|line| line.split_whitespace());
    let words = lines.find_map(|mut words| (words.next() == Some("memory")).then_some(words));
    Ok(words.map(|mut words| {
        let count = words.nth(1).and_then(|count| count.parse().ok());
        (count, words.next() != Some("0"))
    }))
}
