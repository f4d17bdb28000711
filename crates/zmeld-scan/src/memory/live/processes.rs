//! Which processes a scan of live memory looks at.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procfs::process::{Process, Status};
use rustix::io::Errno;

use zmeld_linux::groups::{Hierarchy, Walk};
use zmeld_linux::mounts::{self, Mount};
use zmeld_linux::others::{LockedFile, OtherProcess, PatientReader};
use zmeld_linux::Host;

use crate::memory::Error;

/// Which processes' memory is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All processes that may be read.
    All,
    /// These processes.
    Pids(Vec<i32>),
    /// One process and all its descendants.
    Tree(i32),
    /// The processes in a control group and in all groups below it: a full path
    /// (`/sys/fs/cgroup/memory/web`) or a path below a hierarchy's mount (`web`, as
    /// `/proc/PID/cgroup` has it). A process's own group counts, not the group to which a page is
    /// charged.
    Cgroup(PathBuf),
}

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

    /// Opens files of the process, if it is still the same one.
    pub(crate) fn open<const FILES: usize>(
        &self,
        reader: &mut PatientReader,
        files: [LockedFile; FILES],
    ) -> io::Result<[File; FILES]> {
        let process = OtherProcess::find(self.pid, self.start_time)?;
        reader.of(self.pid).run(move || {
            let opened: Result<Vec<File>, _> = files.iter().map(|it| process.open(*it)).collect();
            Ok(opened?.try_into().expect("as many"))
        })
    }
}

fn look_up_with_parent(pid: i32) -> Option<(ChosenProcess, i32)> {
    let process = Process::new(pid).ok()?;
    let stat = process.stat().ok()?;
    let status = process.status().ok();
    let kib = |get: fn(&Status) -> Option<u64>| status.as_ref().and_then(get).unwrap_or(0);
    let chosen = ChosenProcess {
        pid,
        start_time: stat.starttime,
        kernel_thread: stat.flags & PF_KTHREAD != 0,
        resident: ResidentSize {
            anonymous: kib(|it| it.rssanon),
            file: kib(|it| it.rssfile),
            shared: kib(|it| it.rssshmem),
        },
        comm: Arc::from(stat.comm),
    };
    Some((chosen, stat.ppid))
}

/// The processes that a selection names, by number.
pub(crate) fn choose(selection: &Selection) -> Result<Vec<ChosenProcess>, Error> {
    let mut chosen = match selection {
        Selection::All => listed()?.filter_map(ChosenProcess::look_up).collect(),
        Selection::Pids(pids) => {
            let pids: BTreeSet<i32> = pids.iter().copied().collect();
            pids.into_iter().map(named).collect::<Result<Vec<_>, _>>()?
        }
        Selection::Tree(root) => tree(*root)?,
        Selection::Cgroup(path) => {
            let pids = members(&Host::here(), &resolve_cgroup(path)?)?;
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

fn listed() -> Result<impl Iterator<Item = i32>, Error> {
    let all = Host::here().processes()?.into_iter();
    Ok(all.map(u32::cast_signed))
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

/// Finds a control group given by its full path or by its path below the mount of the memory
/// controller.
fn resolve_cgroup(path: &Path) -> Result<PathBuf, Error> {
    let mut tried: Vec<PathBuf> = Vec::new();
    tried.extend(path.is_absolute().then(|| path.to_path_buf()));
    if let Ok(Some(hierarchy)) = Hierarchy::find(&Host::here()) {
        tried.push(hierarchy.top.join(path.strip_prefix("/").unwrap_or(path)));
    }
    let is_cgroup = |candidate: &&PathBuf| candidate.join("cgroup.procs").exists();
    if let Some(found) = tried.iter().find(is_cgroup) {
        return Ok(found.clone());
    }
    Err(Error::NoCgroup {
        path: path.to_path_buf(),
        tried: match tried.is_empty() {
            true => "a mounted memory controller".to_owned(),
            false => tried
                .iter()
                .map(|it| it.display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        },
    })
}

pub(crate) fn all_mounts() -> Vec<Mount> {
    mounts::read(&Host::here(), mounts::PATH).unwrap_or_default()
}

/// The processes of a group and of the groups below it; of one that is removed meanwhile none.
///
/// # Errors
/// When some of them cannot be looked at.
fn members(host: &Host, group: &Path) -> Result<BTreeSet<i32>, Error> {
    let mut pids = BTreeSet::new();
    let mut walk = Walk::new(host, group);
    while walk.next()? {
        let group = walk.group();
        match group.read("cgroup.procs") {
            Ok(text) => pids.extend(text.unwrap_or_default().lines().flat_map(str::parse::<i32>)),
            // A threaded group of version 2 lists threads only.
            Err(err) if err.is(Errno::OPNOTSUPP) => {
                let text = group.read("cgroup.threads")?.unwrap_or_default();
                let process =
                    |id: &str| Some(Process::new(id.parse().ok()?).ok()?.status().ok()?.tgid);
                pids.extend(text.lines().filter_map(process));
            }
            Err(err) => return Err(err.into()),
        }
        if !walk.descend()? {
            let path = walk.group().path();
            let cause = io::Error::other("there are more groups below it than are looked at");
            return Err(Error::io("list", path, cause));
        }
    }
    Ok(pids)
}

/// Does `/proc` hide the processes of other users from this one?
pub(crate) fn proc_hides_processes() -> bool {
    !rustix::process::geteuid().is_root()
        && all_mounts().iter().any(|mount| {
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
    use std::fs;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn groups_that_are_removed_or_deeper_than_any_path_hide_no_process() {
        let top = tempfile::tempdir().unwrap();
        let below = top.path().join("below");
        for (group, pid) in [(top.path(), "11\n"), (&below, "12\n13\n")] {
            fs::create_dir_all(group).unwrap();
            fs::write(group.join("cgroup.procs"), pid).unwrap();
        }
        // As one that is removed after it was listed.
        fs::create_dir(top.path().join("gone")).unwrap();
        // Deeper than any path leads.
        let mut folder = fs::File::open(&below).unwrap();
        for depth in 100..120 {
            let inner = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), "a".repeat(250));
            fs::create_dir(&inner).unwrap();
            folder = fs::File::open(&inner).unwrap();
            let inner = format!("/proc/self/fd/{}/cgroup.procs", folder.as_raw_fd());
            fs::write(inner, format!("{depth}\n")).unwrap();
        }
        let found = members(&Host::here(), top.path()).unwrap();
        assert!(found
            .into_iter()
            .eq([11, 12, 13].into_iter().chain(100..120)));
    }

    #[test]
    fn processes_are_chosen_by_number_once_and_in_order() {
        let mut sleeps = [0, 1].map(|_| {
            std::process::Command::new("sleep")
                .arg("60")
                .spawn()
                .unwrap()
        });
        let [one, two] = [0, 1].map(|at: usize| sleeps[at].id() as i32);
        let numbers = |selection| -> Vec<i32> {
            let chosen = choose(&selection).unwrap();
            chosen.iter().map(|it| it.pid).collect()
        };
        let (first, second) = (one.min(two), one.max(two));
        let found = numbers(Selection::Pids(vec![second, first, second]));
        assert_eq!(found, [first, second]);
        let all = numbers(Selection::All);
        assert!(all.is_sorted() && all.contains(&first) && all.contains(&second));
        let own = std::process::id() as i32;
        let tree = numbers(Selection::Tree(own));
        assert!([own, first, second].iter().all(|it| tree.contains(it)));
        assert_eq!(numbers(Selection::Tree(first)), [first]);
        let chosen = ChosenProcess::look_up(first).unwrap();
        assert_eq!((&*chosen.comm, chosen.kernel_thread), ("sleep", false));
        sleeps
            .iter_mut()
            .for_each(|it| it.kill().and_then(|()| it.wait().map(drop)).unwrap());
        let said = |selection| choose(&selection).unwrap_err().to_string();
        let gone = format!("there is no process {first}: it may have ended");
        assert_eq!(said(Selection::Pids(vec![own, first])), gone);
        assert_eq!(said(Selection::Tree(first)), gone);
        let group = said(Selection::Cgroup("/no/such".into()));
        assert!(group.starts_with("there is no control group /no/such: looked for /no/such"));
        if let Some(thread) = ChosenProcess::look_up(2).filter(|it| &*it.comm == "kthreadd") {
            assert!(thread.kernel_thread);
            let thread = said(Selection::Pids(vec![2]));
            assert!(
                thread.starts_with("process 2 (kthreadd) is a kernel thread"),
                "{thread}"
            );
        }
    }
}
