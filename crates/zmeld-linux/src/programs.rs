//! Programs with pages in swap, and the control groups that these come back to.
//!
//! A page in swap stays charged to the group that it was swapped out in. Where that
//! group was removed since, it comes back to the group that its program is in now,
//! whose own counter says nothing of it: what the programs have is added up beside.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::groups::{Hierarchy, Walk};
use crate::others::{LockedFile, PatientReader};
use crate::{process, Host, HostError};

/// So long a path of a group every kernel names whole (`/proc/PID/cgroup`), its end included. Of
/// a longer one some refuse to tell, and some tell the begin.
const NAMED_MAX: usize = 4096;

/// A program with pages in swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub name: String,
    pub pid: u32,
    pub swapped_bytes: u64,
}

/// All of them, and what their groups come to.
#[derive(Debug, Default)]
pub struct Programs {
    /// Each with the folder of the group that it is in, sorted by that; in a group that is too
    /// deep to be named it counts in the one above that can be.
    pub all: Vec<(PathBuf, Program)>,
    /// Cumulative bytes in swap, by place.
    sums: Vec<u64>,
}

impl Programs {
    /// Those of a machine.
    ///
    /// # Errors
    /// Failed reads, but for programs that ended meanwhile.
    pub fn read(host: &Host, hierarchy: &Hierarchy) -> Result<Programs, HostError> {
        let mut all = Vec::new();
        let mut unnamed = HashMap::new();
        for pid in host.processes()? {
            let Some(swapped_bytes) = process::unless_gone(swapped(host, pid))?.flatten() else {
                continue;
            };
            let program = Program {
                name: named(host, pid)?,
                pid,
                swapped_bytes,
            };
            match process::unless_gone(hierarchy.group_of(host, &pid.to_string())) {
                Ok(group) => all.extend(group.flatten().map(|group| (group, program))),
                Err(err) if err.is(Errno::NAMETOOLONG) => {
                    unnamed.insert(pid, program);
                }
                Err(err) => return Err(err),
            }
        }
        if !unnamed.is_empty() {
            place(host, hierarchy, unnamed, &mut all);
        }
        all.sort_by(|one, other| one.0.cmp(&other.0));
        let mut sum = 0u64;
        let sums = all.iter().map(|(_, program)| {
            sum = sum.saturating_add(program.swapped_bytes);
            sum
        });
        Ok(Programs {
            sums: sums.collect(),
            all,
        })
    }

    /// Bytes in swap of a group and of the groups below it.
    pub fn of_tree(&self, group: &Path) -> u64 {
        let Range { start, end } = self.places(group);
        let upto = |place: usize| place.checked_sub(1).map_or(0, |at| self.sums[at]);
        upto(end) - upto(start)
    }

    /// Of a group and of those below it, the one with the most in swap.
    pub fn largest(&self, group: &Path) -> Option<Program> {
        let below = self.all[self.places(group)].iter();
        let largest = below.max_by_key(|(_, program)| program.swapped_bytes);
        largest.map(|(_, program)| program.clone())
    }

    /// Places in `all` of a group and those below it.
    fn places(&self, group: &Path) -> Range<usize> {
        let start = self.all.partition_point(|(of, _)| **of < *group);
        let below = self.all[start..].partition_point(|(of, _)| of.starts_with(group));
        start..start + below
    }
}

/// Finds programs whose groups the kernel does not name. One that is not found counts at the
/// top: who makes groups can make one that does not tell its members, too.
fn place(
    host: &Host,
    hierarchy: &Hierarchy,
    mut unnamed: HashMap<u32, Program>,
    all: &mut Vec<(PathBuf, Program)>,
) {
    let mut walk = Walk::new(host, &hierarchy.top);
    while !unnamed.is_empty() {
        match walk.next() {
            Ok(true) => {}
            Ok(false) => break,
            // One that cannot be entered does not end the walk.
            Err(_) => continue,
        }
        let group = walk.group();
        // A threaded group tells its threads alone, of which each program's first has its number.
        let members = group.read("cgroup.procs");
        let members = members.or_else(|_| group.read("cgroup.threads"));
        let members = members.ok().flatten().unwrap_or_default();
        let numbers = members.lines().filter_map(|it| it.parse().ok());
        let found: Vec<Program> = numbers.filter_map(|it| unnamed.remove(&it)).collect();
        if !found.is_empty() {
            let named = named_above(hierarchy, group.path());
            all.extend(found.into_iter().map(|it| (named.to_path_buf(), it)));
        }
        let _ = walk.descend();
    }
    all.extend(unnamed.into_values().map(|it| (hierarchy.top.clone(), it)));
}

/// The group, or the one above it that is named. Its path may have megabytes: they are cut, and
/// not gone up one by one.
fn named_above<'a>(hierarchy: &Hierarchy, group: &'a Path) -> &'a Path {
    let bytes = group.as_os_str().as_bytes();
    let top = hierarchy.top.as_os_str().len();
    let root = hierarchy.kernel_path(&hierarchy.top);
    let most = (top + NAMED_MAX)
        .saturating_sub(root.as_os_str().len() + 1)
        .max(top);
    if bytes.len() <= most {
        return group;
    }
    let end = bytes[..=most].iter().rposition(|it| *it == b'/');
    Path::new(OsStr::from_bytes(&bytes[..end.unwrap_or(0).max(top)]))
}

/// The first program, if any, that holds up whoever wants the lock of its memory: swapoff waits
/// for it as long, and no signal ends that wait. Asked are those with pages in swap, or all:
/// swapoff goes to those, too, that had some.
///
/// # Errors
/// When programs cannot be listed.
pub fn holder(host: &Host, all: bool) -> Result<Option<Program>, HostError> {
    if host.root() != Path::new("/") {
        return Ok(None);
    }
    let mut reader = PatientReader::default();
    for pid in host.processes()? {
        let Ok(Some((task, swapped_bytes))) = memory(host, pid) else {
            continue;
        };
        if swapped_bytes == 0 && !all {
            continue;
        }
        let wants_lock = move || {
            let mut entry = [0; 8];
            File::open(LockedFile::Pagemap.path(task))?.read(&mut entry)
        };
        let read = reader.of(pid.cast_signed()).run(wants_lock);
        if read.is_err_and(|err| err.kind() == io::ErrorKind::TimedOut) {
            return Ok(Some(Program {
                name: named(host, pid)?,
                pid,
                swapped_bytes,
            }));
        }
    }
    Ok(None)
}

/// Its name, which anybody chooses for his own.
fn named(host: &Host, pid: u32) -> Result<String, HostError> {
    let comm = process::unless_gone(host.read(format!("/proc/{pid}/comm")))?;
    Ok(comm.unwrap_or_default().replace(char::is_control, "?"))
}

/// A program's bytes in swap; none where that is zero.
fn swapped(host: &Host, pid: u32) -> Result<Option<u64>, HostError> {
    let memory = memory(host, pid)?;
    Ok(memory.map(|(_, bytes)| bytes).filter(|bytes| *bytes > 0))
}

/// A program's bytes in swap, and the thread that says so; none of the kernel's. Its first thread
/// may have ended, which has no memory then.
fn memory(host: &Host, pid: u32) -> Result<Option<(String, u64)>, HostError> {
    let status = |task: &str| host.read(format!("/proc/{task}/status"));
    let has_ended =
        |text: &str| process::status(text, "State").is_some_and(|it| it.starts_with('Z'));
    let bytes = |text: &str| {
        let kib = process::status(text, "VmSwap")?.strip_suffix("kB")?;
        kib.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    let first = pid.to_string();
    let text = status(&first)?;
    if !has_ended(&text) {
        return Ok(bytes(&text).map(|bytes| (first, bytes)));
    }
    let tasks = host.list(format!("/proc/{pid}/task")).unwrap_or_default();
    let tasks = tasks.into_iter().map(|task| format!("{pid}/task/{task}"));
    let mut found = tasks.filter_map(|task| {
        let text = status(&task).ok()?;
        Some((task, bytes(&text)?))
    });
    Ok(found.next())
}
