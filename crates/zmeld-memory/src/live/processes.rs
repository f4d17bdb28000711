//! Which processes a scan of live memory looks at.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procfs::process::Process;

use super::Selection;
use zmeld_linux::mounts::Mount;

use crate::Error;

/// A process as it was when it was chosen. Holds no open file: there may be
/// more processes than a process may have files.
#[derive(Debug, Clone)]
pub(crate) struct ChosenProcess {
    pub(crate) pid: i32,
    pub(crate) comm: Arc<str>,
    /// Tells a process from a later one with the same number.
    pub(crate) start_time: u64,
    pub(crate) kernel_thread: bool,
    pub(crate) resident: ResidentSize,
}

/// Kibibytes in RAM, from `/proc/PID/status`, which everybody may read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResidentSize {
    pub(crate) anonymous: u64,
    pub(crate) file: u64,
    pub(crate) shared: u64,
}

const PF_KTHREAD: u32 = 0x0020_0000;

impl ChosenProcess {
    /// Looks a process up; `None` if it is gone.
    pub(crate) fn look_up(pid: i32) -> Option<Self> {
        let (chosen, _parent) = look_up_with_parent(pid)?;
        Some(chosen)
    }

    /// Opens the process again, if it is still the same one.
    pub(crate) fn open(&self) -> Option<Process> {
        let process = Process::new(self.pid).ok()?;
        (process.stat().ok()?.starttime == self.start_time).then_some(process)
    }
}

fn look_up_with_parent(pid: i32) -> Option<(ChosenProcess, i32)> {
    let process = Process::new(pid).ok()?;
    let stat = process.stat().ok()?;
    let chosen = ChosenProcess {
        pid,
        start_time: stat.starttime,
        kernel_thread: stat.flags & PF_KTHREAD != 0,
        resident: resident(pid),
        comm: Arc::from(stat.comm),
    };
    Some((chosen, stat.ppid))
}

fn resident(pid: i32) -> ResidentSize {
    let text = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    ResidentSize {
        anonymous: field("RssAnon:"),
        file: field("RssFile:"),
        shared: field("RssShmem:"),
    }
}

/// The processes that a selection names, by number.
pub(crate) fn choose(selection: &Selection) -> Result<Vec<ChosenProcess>, Error> {
    let mut chosen = match selection {
        Selection::All => listed()?
            .into_iter()
            .filter_map(ChosenProcess::look_up)
            .collect(),
        Selection::Pids(pids) => {
            let pids: BTreeSet<i32> = pids.iter().copied().collect();
            pids.into_iter().map(named).collect::<Result<Vec<_>, _>>()?
        }
        Selection::Tree(root) => tree(*root)?,
        Selection::Cgroup(path) => {
            let mut pids = BTreeSet::new();
            members(&resolve_cgroup(path)?, &mut pids)?;
            pids.into_iter()
                .filter_map(ChosenProcess::look_up)
                .collect()
        }
    };
    chosen.sort_by_key(|process| process.pid);
    Ok(chosen)
}

/// A process that was asked for by number: it must be there and have memory.
fn named(pid: i32) -> Result<ChosenProcess, Error> {
    let chosen = ChosenProcess::look_up(pid).ok_or(Error::NoProcess { pid })?;
    if chosen.kernel_thread {
        return Err(Error::KernelThread {
            pid,
            comm: chosen.comm.to_string(),
        });
    }
    Ok(chosen)
}

fn listed() -> Result<Vec<i32>, Error> {
    let entries = fs::read_dir("/proc").map_err(|cause| Error::io("list", "/proc", cause))?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

fn tree(root: i32) -> Result<Vec<ChosenProcess>, Error> {
    let first = named(root)?;
    let mut children: HashMap<i32, Vec<ChosenProcess>> = HashMap::new();
    for pid in listed()? {
        if let Some((process, parent)) = look_up_with_parent(pid) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![first];
    while let Some(process) = open.pop() {
        open.extend(children.remove(&process.pid).unwrap_or_default());
        found.push(process);
    }
    Ok(found)
}

/// Finds a control group given by its full path or by its path below the mount
/// of a hierarchy. Of several hierarchies that know the name, version 2 and
/// then the memory controller of version 1 come first.
fn resolve_cgroup(path: &Path) -> Result<PathBuf, Error> {
    let is_cgroup = |candidate: &Path| candidate.join("cgroup.procs").exists();
    if path.is_absolute() && is_cgroup(path) {
        return Ok(path.to_path_buf());
    }
    let mut tried = Vec::new();
    if path.is_absolute() {
        tried.push(path.display().to_string());
    }
    let relative = path.strip_prefix("/").unwrap_or(path);
    for mount in cgroup_mounts() {
        let candidate = mount.join(relative);
        if is_cgroup(&candidate) {
            return Ok(candidate);
        }
        tried.push(candidate.display().to_string());
    }
    if tried.is_empty() {
        tried.push("no control group hierarchy is mounted".to_owned());
    }
    Err(Error::NoCgroup {
        path: path.to_path_buf(),
        tried,
    })
}

fn cgroup_mounts() -> Vec<PathBuf> {
    let mut mounts: Vec<(u8, PathBuf)> = mounts()
        .into_iter()
        .filter_map(|mount| {
            let rank = match mount.kind.as_str() {
                "cgroup2" => 0,
                "cgroup"
                    if mount
                        .file_system_options
                        .split(',')
                        .any(|option| option == "memory") =>
                {
                    1
                }
                "cgroup" => 2,
                _ => return None,
            };
            Some((rank, mount.point))
        })
        .collect();
    mounts.sort();
    mounts.into_iter().map(|(_, point)| point).collect()
}

/// What is mounted for this process.
pub(crate) fn mounts() -> Vec<Mount> {
    let text = fs::read(zmeld_linux::mounts::PATH).unwrap_or_default();
    zmeld_linux::mounts::parse(&String::from_utf8_lossy(&text)).collect()
}

/// Adds the processes of a group and of all groups below it.
fn members(group: &Path, pids: &mut BTreeSet<i32>) -> Result<(), Error> {
    match fs::read_to_string(group.join("cgroup.procs")) {
        Ok(text) => pids.extend(
            text.lines()
                .filter_map(|line| line.trim().parse::<i32>().ok()),
        ),
        // A threaded group of version 2 lists threads only.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
            let text = fs::read_to_string(group.join("cgroup.threads")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| thread_group(line.trim())));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(Error::io("read", group.join("cgroup.procs"), cause)),
    }
    let entries = fs::read_dir(group).map_err(|cause| Error::io("list", group, cause))?;
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            members(&entry.path(), pids)?;
        }
    }
    Ok(())
}

fn thread_group(thread: &str) -> Option<i32> {
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    String::from_utf8_lossy(&status)
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// Does `/proc` hide the processes of other users from this one?
pub(crate) fn proc_hides_processes() -> bool {
    !rustix::process::geteuid().is_root()
        && mounts().iter().any(|mount| {
            mount.kind == "proc"
                && mount.point == Path::new("/proc")
                && mount.file_system_options.split(',').any(|option| {
                    option
                        .strip_prefix("hidepid=")
                        .is_some_and(|value| !matches!(value, "0" | "off" | "1" | "noaccess"))
                })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_is_no_kernel_thread() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let chosen = choose(&Selection::Pids(vec![pid, pid])).unwrap();
        assert_eq!(chosen.len(), 1);
        assert!(!chosen[0].kernel_thread && chosen[0].resident.anonymous > 0);
        assert!(chosen[0].open().is_some());
        assert!(choose(&Selection::All)
            .unwrap()
            .iter()
            .any(|process| process.pid == pid));
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(matches!(
            choose(&Selection::Pids(vec![i32::MAX])),
            Err(Error::NoProcess { pid: i32::MAX })
        ));
        assert!(matches!(
            choose(&Selection::Tree(i32::MAX)),
            Err(Error::NoProcess { .. })
        ));
        let missing = Selection::Cgroup(PathBuf::from("no/such group"));
        let Err(Error::NoCgroup { tried, .. }) = choose(&missing) else {
            panic!("no error")
        };
        assert!(!tried.is_empty());
    }
}
