//! The processes of an owner in the order in which they would go, each held by its descriptor:
//! what is ended is what was looked at.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use crate::choice::{AT_ONCE_MAX, LARGEST_MAX};
use crate::owners::{id, is_never, pids, uid_of, Groups, Owner, Passed, Place, Status, Visited};

/// Programs by which one gets in: those of root in a user's groups.
const LOGINS: [&str; 12] = [
    "sshd",
    "sshd-session",
    "sshd-auth",
    "login",
    "dropbear",
    "systemd",
    "(sd-pam)",
    "greetd",
    "gdm-session-wor",
    "lightdm",
    "sddm-helper",
    "ly",
];

/// Where processes would give back so many times what their owner holds, many have the same.
const SHARED_TIMES: u64 = 4;
/// Paths of an owner's groups take no more; what is in others counts as in his own group.
const PATHS_BYTES_MAX: usize = 4 << 20;

/// A group of processes.
#[derive(Debug)]
pub(crate) struct Group {
    pub id: u64,
    pub owner: u64,
    pub shown: Arc<str>,
    /// None of what is in no owner's group.
    pub directory: Option<PathBuf>,
    /// The owner's.
    top: PathBuf,
    /// Whether the kernel would end all of it, too (`memory.oom.group`).
    pub is_whole: bool,
    /// Whether first processes of containers go with it: the kernel would end them, or they are
    /// what fills it.
    has_inits: AtomicBool,
    /// How many processes whoever went through it last met.
    pub left: AtomicUsize,
}

/// What a process is held by.
#[derive(Debug)]
pub(crate) struct Handle {
    pub fd: OwnedFd,
    /// Its memory was taken back.
    pub is_released: AtomicBool,
}

/// A process that may be ended.
#[derive(Debug)]
pub(crate) struct Process {
    pub group: Arc<Group>,
    pub pid: u32,
    pub handle: Arc<Handle>,
    pub name: Arc<str>,
    pub score: u32,
    pub gives_bytes: u64,
    /// How many bytes a second it took since they were listed before.
    pub rate: f64,
    /// Its service ends with it.
    pub is_main: bool,
}

/// Those of an owner that may be ended, without some; `shields` says which of the groups that are
/// passed over shield what is in them.
pub(crate) fn list(
    groups: &Groups,
    owner: &Owner,
    without: impl Fn(u32) -> bool,
    shields: impl FnOnce(&[Passed]) -> HashSet<u64>,
) -> Vec<Process> {
    let host = &groups.host;
    let (mut walked, mut found, mut passed) = (Vec::new(), Vec::new(), Vec::new());
    let mut paths_bytes = 0;
    match &owner.place {
        Place::Group(directory) => groups.walk(directory, |group, mut it| {
            it.keep_passed(groups, group, &mut passed);
            let procs = || group.read("cgroup.procs").ok().flatten();
            let text = it.is_named.then(procs).flatten().unwrap_or_default();
            if !text.is_empty() {
                found.extend(pids(&text).map(|pid| (pid, walked.len())));
                paths_bytes += it.path.as_os_str().len();
                if paths_bytes > PATHS_BYTES_MAX {
                    (it.path, it.directory) = (groups.list(directory), directory.clone());
                    it.is_far = true;
                }
                walked.push(it);
            }
            true
        }),
        Place::Nobody => {}
        Place::User(uid) => {
            walked.push(Visited {
                path: groups.hierarchy.iter().map(|it| it.top.clone()).collect(),
                ..Visited::default()
            });
            let is_his = |pid: &u32| Status::read(host, *pid).is_some_and(|it| it.uid == *uid);
            let unowned = groups.unowned().unwrap_or_default();
            found.extend(unowned.into_iter().filter(is_his).map(|pid| (pid, 0)));
        }
    }
    let seen: HashSet<u32> = found.iter().map(|(pid, _)| *pid).collect();
    let shields = shields(&passed);
    let is_shielded = |at: usize| walked[at].passed.is_some_and(|id| shields.contains(&id));
    found.retain(|(pid, at)| !without(*pid) && !is_shielded(*at));
    let score = |pid: u32| -> Option<u32> {
        let text = host.read(format!("/proc/{pid}/oom_score")).ok()?;
        text.trim().parse().ok()
    };
    let scored = found.into_iter();
    let scored = scored.filter_map(|(pid, at)| Some((score(pid)?, pid, at)));
    let mut scored: Vec<(u32, u32, usize)> = scored.collect();
    scored.retain(|(score, pid, _)| !is_never(host, *pid, *score));
    scored.sort_by_key(|(score, _, at)| (walked[*at].is_avoided, Reverse(*score)));
    // Of those that stand behind, the largest.
    if scored.len() > AT_ONCE_MAX {
        let resident = |pid: u32| -> Option<u64> {
            let text = host.read(format!("/proc/{pid}/statm")).unwrap_or_default();
            let pages = text.split(' ').nth(1).and_then(|it| it.parse().ok());
            let bytes = pages.map(|it: u64| it << 12).filter(|it| *it > 0);
            // Its first thread has ended.
            bytes.or_else(|| Some(Status::read(host, pid)?.gives_bytes))
        };
        scored[AT_ONCE_MAX..].sort_by_cached_key(|(_, pid, _)| Reverse(resident(*pid)));
        scored.truncate(AT_ONCE_MAX + LARGEST_MAX);
    }
    let mut listed = Vec::new();
    let mut held = hold_all(groups, owner, &walked, scored, &mut listed);
    // Who is in another group each moment was in none when it was read.
    if let Place::Group(top) = &owner.place {
        let list = groups.list(top);
        let is_his = |pid: &u32| {
            !seen.contains(pid) && !without(*pid) && groups.is_within(*pid, &list) == Some(true)
        };
        let is_hidden = held < owner.held.all_bytes / 2 && uid_of(top).is_some();
        if is_hidden && groups.has_named(&list) {
            let all = host.processes().unwrap_or_default();
            let all = all.into_iter().filter(is_his);
            let hopping = all.filter_map(|pid| Some((score(pid)?, pid, 0)));
            let hopping = hopping.filter(|(score, pid, _)| !is_never(host, *pid, *score));
            let hopping = hopping.take(AT_ONCE_MAX).collect();
            let own = Visited {
                path: list.clone(),
                directory: top.clone(),
                is_far: true,
                ..Visited::default()
            };
            held += hold_all(groups, owner, &[own], hopping, &mut listed);
        }
        // Many have the same: none gives all of it back.
        let has_bytes = owner.held.all_bytes;
        if held / SHARED_TIMES > has_bytes {
            for (it, ..) in &mut listed {
                it.gives_bytes =
                    (u128::from(it.gives_bytes) * u128::from(has_bytes) / u128::from(held)) as u64;
            }
            held = has_bytes;
        }
    }
    // The first process of a container is its init, unless such are what fills it: else whoever
    // makes several would have nothing that may be ended.
    let inits = listed.iter().filter(|(_, is_init, _)| *is_init);
    let inits: u64 = inits.map(|(it, ..)| it.gives_bytes).sum();
    let are_most = inits > held / 2;
    for (it, ..) in &listed {
        it.group.has_inits.fetch_or(are_most, Ordering::Relaxed);
    }
    listed.retain(|(_, is_init, _)| !is_init || are_most);
    listed.sort_by_key(|(it, _, is_avoided)| (*is_avoided, Reverse((it.score, it.gives_bytes))));
    listed.into_iter().map(|(it, ..)| it).collect()
}

/// Holds those of the scores, numbers and groups that are told, without logins: what they would give
/// back, logins too. Beside each, whether it is the first one of a container, and goes last.
fn hold_all(
    groups: &Groups,
    owner: &Owner,
    walked: &[Visited],
    scored: Vec<(u32, u32, usize)>,
    listed: &mut Vec<(Process, bool, bool)>,
) -> u64 {
    let mut opened: Vec<Option<Arc<Group>>> = vec![None; walked.len()];
    let list = match &owner.place {
        Place::Group(top) => groups.list(top),
        _ => PathBuf::new(),
    };
    let mut held = 0;
    for (score, pid, at) in scored {
        let open = || Arc::new(open_group(groups, owner, &walked[at]));
        let group = opened[at].get_or_insert_with(open);
        if let Some((process, status)) =
            hold(groups, owner, group, pid, score, (&walked[at], &list))
        {
            held += process.gives_bytes;
            if !is_login(group, &status) {
                listed.push((process, status.is_init, walked[at].is_avoided));
            }
        }
    }
    held
}

/// Whether one gets in by that process. A service of the system has none in it.
fn is_login(group: &Group, status: &Status) -> bool {
    let is_users = group.directory.is_none() || uid_of(&group.top).is_some();
    is_users && status.uid == 0 && LOGINS.contains(&&*status.name)
}

fn open_group(groups: &Groups, owner: &Owner, walked: &Visited) -> Group {
    let mut group = Group {
        id: id(&walked.path),
        owner: owner.id,
        shown: "".into(),
        directory: None,
        top: PathBuf::new(),
        is_whole: false,
        has_inits: AtomicBool::new(false),
        left: AtomicUsize::new(0),
    };
    if let Place::Group(top) = &owner.place {
        let says = |directory: &Path| {
            let text = groups.host.read(directory.join("memory.oom.group"));
            text.is_ok_and(|it| it.trim() == "1")
        };
        // The kernel ends the topmost one; what `end` leaves out is not ended with it.
        let counted = walked.directory.ancestors();
        let counted = counted.take_while(|it| it.starts_with(top));
        let within = walked.path.ancestors().zip(counted);
        let is_whole = |path: &Path, directory: &Path| says(directory) && groups.has_named(path);
        let whole = within.filter(|(path, it)| is_whole(path, it)).last();
        let directory = whole.map_or(&*walked.path, |(path, _)| path);
        group.id = id(directory);
        group.shown = groups.shown(directory).into();
        group.directory = Some(directory.to_owned());
        group.top.clone_from(top);
        group.is_whole = whole.is_some();
        group.has_inits = AtomicBool::new(group.is_whole);
    }
    group
}

/// Holds a process, and looks at it then; none where it is gone.
fn hold(
    groups: &Groups,
    owner: &Owner,
    group: &Arc<Group>,
    pid: u32,
    score: u32,
    (walked, list): (&Visited, &Path),
) -> Option<(Process, Status)> {
    let host = &groups.host;
    let fd = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    let status = Status::read(host, pid)?;
    let is_there = match &owner.place {
        Place::Nobody => false,
        Place::User(uid) => status.uid == *uid,
        // It may be in another group of his by now.
        Place::Group(_) => groups.is_within(pid, list).unwrap_or_else(|| {
            let text = host.read(walked.path.join("cgroup.procs"));
            walked.is_far || text.is_ok_and(|text| pids(&text).any(|it| it == pid))
        }),
    };
    let process = Process {
        group: group.clone(),
        pid,
        handle: Arc::new(Handle {
            fd,
            is_released: AtomicBool::new(false),
        }),
        name: status.name.as_str().into(),
        score,
        gives_bytes: status.gives_bytes,
        rate: 0.0,
        is_main: Status::read(host, status.parent).is_some_and(|it| it.name == "systemd"),
    };
    is_there.then_some((process, status))
}

/// Sends a signal, or none, to all that is in a group and below it by now, without what is passed
/// over; how many were met is left in it.
pub(crate) fn signal_group(groups: &Groups, group: &Group, signal: Option<Signal>) {
    let Some(directory) = &group.directory else {
        return;
    };
    let (mut found, mut is_all) = (Vec::new(), true);
    let list = groups.list(&group.top);
    let within = directory.strip_prefix(&list).unwrap_or(Path::new(""));
    groups.walk(&group.top.join(within), |open, it| {
        is_all &= it.passed.is_none();
        if it.passed.is_none() {
            let text = open.read("cgroup.procs").ok().flatten();
            found.extend(pids(&text.unwrap_or_default()));
        }
        true
    });
    let count = found.len();
    let has_inits = group.has_inits.load(Ordering::Relaxed);
    let is_spared = |it: Status| is_login(group, &it) || it.is_init && !has_inits;
    let is_spared = |pid| Status::read(&groups.host, pid).is_some_and(is_spared);
    found.retain(|pid| !is_never(&groups.host, *pid, 0) && !is_spared(*pid));
    // `cgroup.kill` does not leave those alone.
    is_all &= found.len() == count;
    let kill = || groups.host.write(directory.join("cgroup.kill"), "1");
    let is_done = signal == Some(Signal::KILL) && is_all && !found.is_empty() && kill().is_ok();
    let mut seen = 0;
    for pid in found {
        let fd = Pid::from_raw(pid as i32).and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        // Since the list was read another one may have come by its number.
        let Some(fd) = fd.filter(|_| groups.is_within(pid, directory) != Some(false)) else {
            continue;
        };
        seen += 1;
        if let Some(signal) = signal.filter(|_| !is_done) {
            let _ = pidfd_send_signal(&fd, signal);
        }
    }
    group.left.store(seen, Ordering::Relaxed);
}
