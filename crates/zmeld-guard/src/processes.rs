//! The processes of the owners that hold most, in the order in which they would go, each held by
//! its descriptor: what is ended is what was looked at.
//!
//! They are listed by a thread of its own, again and again while memory is little: that opens
//! files of each process.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{getpid, pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use zmeld_linux::groups::Walk;
use zmeld_linux::Host;

use crate::choice::{turn, AT_ONCE_MAX, LARGEST_MAX};
use crate::guard_loop::hurry;
use crate::owners::{id, Groups, Place, Standing, Status};
use crate::GuardRule;

/// Of so many owners processes are listed.
pub(crate) const LISTED_MAX: usize = 4;
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

/// A group of processes.
#[derive(Debug)]
pub(crate) struct Group {
    pub id: u64,
    pub shown: Arc<str>,
    /// None of what is in no owner's group.
    pub directory: Option<PathBuf>,
    /// The user who owns it; his groups have logins of root's in them.
    owner: u32,
    is_of_user: bool,
    /// Whether the kernel would end all of it, too (`memory.oom.group`).
    pub is_whole: bool,
    /// How many processes whoever went through it last met.
    pub left: AtomicUsize,
}

/// A process that may be ended.
#[derive(Debug)]
pub(crate) struct Process {
    pub owner: Arc<Place>,
    pub group: Arc<Group>,
    pub pid: u32,
    pub fd: OwnedFd,
    pub name: Arc<str>,
    pub score: u32,
    pub gives_bytes: u64,
    /// The group that it is passed over with.
    pub passed: Option<u64>,
    /// Its service ends with it.
    pub is_main: bool,
    is_avoided: bool,
}

/// What is asked for, and what was found.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub asked: Vec<Arc<Place>>,
    /// Whose they are.
    pub listed: Vec<Arc<Place>>,
    pub is_new: bool,
    pub processes: Vec<Process>,
    /// Those that have gone, to be closed.
    pub retired: Vec<Process>,
    pub took: Duration,
}

pub(crate) struct Lister {
    host: Host,
    rule: GuardRule,
    groups: Option<Groups>,
    /// It has a thread of its own; and that has no priority yet.
    has_thread: bool,
    is_slow: bool,
}

/// A group that was gone through, and how its processes stand.
struct Walked {
    path: PathBuf,
    passed: Option<u64>,
    is_avoided: bool,
}

impl Lister {
    pub fn new(host: Host, rule: GuardRule, has_thread: bool) -> Lister {
        Lister {
            host,
            rule,
            groups: None,
            has_thread,
            is_slow: has_thread,
        }
    }

    pub fn list(&mut self, listed: &mut Listed) {
        let begin = Instant::now();
        if std::mem::take(&mut self.is_slow) {
            // Opening takes memory: who has this priority may have what others may not.
            let _ = hurry(&self.host);
        }
        listed.retired.clear();
        listed.processes.clear();
        if self.groups.is_none() {
            self.groups = Groups::find(&self.host, &self.rule).ok();
        }
        if let Some(groups) = &self.groups {
            for owner in &listed.asked {
                list_owner(groups, owner, &mut listed.processes);
            }
        }
        listed.listed.clear();
        listed.listed.append(&mut listed.asked);
        listed.took = match self.has_thread {
            true => begin.elapsed(),
            false => Duration::ZERO,
        };
        listed.is_new = true;
    }
}

/// Adds those of an owner.
pub(crate) fn list_owner(groups: &Groups, owner: &Arc<Place>, into: &mut Vec<Process>) {
    let host = &groups.host;
    let (mut walked, mut pids) = (Vec::new(), Vec::new());
    match &**owner {
        Place::Group(directory) => walk(groups, directory, &mut walked, &mut pids),
        Place::User(uid) => {
            let path = groups.hierarchy.as_ref().map(|it| it.top.clone());
            walked.push(Walked {
                path: path.unwrap_or_default(),
                passed: None,
                is_avoided: false,
            });
            let is_his = |pid: &u32| Status::read(host, *pid).is_some_and(|it| it.uid == *uid);
            let unowned = groups.unowned().unwrap_or_default();
            pids.extend(unowned.into_iter().filter(is_his).map(|pid| (pid, 0)));
        }
    }
    let own = getpid().as_raw_nonzero().get() as u32;
    pids.retain(|(pid, _)| *pid != 1 && *pid != own);
    let mut scored: Vec<(u32, u32, usize)> = pids
        .into_iter()
        .filter_map(|(pid, at)| {
            let score = host.read(format!("/proc/{pid}/oom_score")).ok()?;
            Some((score.trim().parse().ok()?, pid, at))
        })
        .collect();
    scored.sort_by_key(|(score, _, at)| (walked[*at].is_avoided, std::cmp::Reverse(*score)));
    // Of those that stand behind, the largest.
    if scored.len() > AT_ONCE_MAX {
        let resident = |pid: u32| {
            let text = host.read(format!("/proc/{pid}/statm")).unwrap_or_default();
            text.split(' ')
                .nth(1)
                .and_then(|it| it.parse::<u64>().ok())
                .unwrap_or(0)
        };
        scored[AT_ONCE_MAX..].sort_by_cached_key(|(_, pid, _)| std::cmp::Reverse(resident(*pid)));
        scored.truncate(AT_ONCE_MAX + LARGEST_MAX);
    }
    let mut opened: Vec<Option<Arc<Group>>> = vec![None; walked.len()];
    let first = into.len();
    let mut held = 0;
    for (score, pid, at) in scored {
        let group =
            opened[at].get_or_insert_with(|| Arc::new(open_group(groups, owner, &walked[at])));
        let Some((process, status)) = hold(groups, owner, group, pid, score, &walked[at]) else {
            continue;
        };
        held += process.gives_bytes;
        let is_login =
            process.group.is_of_user && status.uid == 0 && LOGINS.contains(&&*status.name);
        if !is_login {
            into.push(process);
            // What is behind it in memory is decided once all are known.
            if status.is_init {
                let process = into.last_mut().map(|it| &mut it.passed);
                if let Some(passed) = process {
                    passed.get_or_insert(INIT);
                }
            }
        }
    }
    // The first process of a container is its init, unless it is what fills it.
    for process in &mut into[first..] {
        if process.passed == Some(INIT) && process.gives_bytes > held / 2 {
            process.passed = None;
        }
    }
    into.retain(|it| it.passed != Some(INIT));
    into[first..].sort_by(|one, other| {
        let turn = |it: &Process| turn(it.is_avoided, it.score, it.gives_bytes);
        turn(one).cmp(&turn(other))
    });
}

/// In place of a group that is passed over: a container's first process.
const INIT: u64 = 0;

/// The groups of an owner that `end` is for, and the processes in them.
fn walk(groups: &Groups, directory: &Path, walked: &mut Vec<Walked>, pids: &mut Vec<(u32, usize)>) {
    let (list, uid) = (groups.list(directory), groups.uid(directory));
    // How deep what is above stands that is named, passed over, or rather kept.
    let (mut named, mut passed, mut avoided) = (None, None, None);
    let mut walk = Walk::new(&groups.host, &list);
    while walk.next().unwrap_or(false) {
        let (depth, group) = (walk.group().depth(), walk.group());
        let shown = groups.shown(group.path());
        named = named.filter(|at| *at < depth);
        passed = passed.filter(|(at, _)| *at < depth);
        avoided = avoided.filter(|at| *at < depth);
        if named.is_none() {
            let is_it = match depth {
                0 => groups.is_named_above(&shown),
                _ => groups.is_named(&shown),
            };
            named = is_it.then_some(depth);
        }
        if depth > 0 {
            match groups.standing(group.path(), &shown, uid) {
                Standing::Passed if passed.is_none() => passed = Some((depth, id(group.path()))),
                Standing::Avoided if avoided.is_none() => avoided = Some(depth),
                _ => {}
            }
        }
        if named.is_some() {
            let text = group
                .read("cgroup.procs")
                .ok()
                .flatten()
                .unwrap_or_default();
            let all = text.lines().filter_map(|it| it.parse().ok());
            pids.extend(all.map(|pid| (pid, walked.len())));
            walked.push(Walked {
                path: group.path().to_owned(),
                passed: passed.map(|(_, id)| id),
                is_avoided: avoided.is_some(),
            });
        }
        let _ = walk.descend();
    }
}

fn open_group(groups: &Groups, owner: &Place, walked: &Walked) -> Group {
    let Place::Group(top) = owner else {
        return Group {
            id: id(&walked.path),
            shown: "".into(),
            directory: None,
            is_of_user: true,
            owner: u32::MAX,
            is_whole: false,
            left: AtomicUsize::new(0),
        };
    };
    let list = groups.list(top);
    // The kernel ends the topmost one.
    let says = |at: &&Path| {
        let memory = at.strip_prefix(&list).map(|below| top.join(below));
        let text = memory
            .ok()
            .and_then(|it| groups.host.read(it.join("memory.oom.group")).ok());
        text.is_some_and(|it| it.trim() == "1")
    };
    let within = walked
        .path
        .ancestors()
        .take_while(|it| it.starts_with(&list));
    let whole = within.filter(says).last();
    let directory = whole.unwrap_or(&walked.path);
    Group {
        id: id(directory),
        shown: groups.shown(directory).into(),
        owner: groups.uid(top),
        is_of_user: groups.uid(top) != u32::MAX,
        is_whole: whole.is_some(),
        directory: Some(directory.to_owned()),
        left: AtomicUsize::new(0),
    }
}

/// Holds a process, and looks at it then; none where it is gone, or cannot be ended.
fn hold(
    groups: &Groups,
    owner: &Arc<Place>,
    group: &Arc<Group>,
    pid: u32,
    score: u32,
    walked: &Walked,
) -> Option<(Process, Status)> {
    let fd = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    let status = Status::read(&groups.host, pid)?;
    let is_there = match &**owner {
        Place::User(uid) => status.uid == *uid,
        // A path may be too long to be opened.
        Place::Group(_) => match groups.host.read(walked.path.join("cgroup.procs")) {
            Ok(text) => text.lines().any(|it| it.parse() == Ok(pid)),
            Err(_) => true,
        },
    };
    let adjusted =
        (score == 0).then(|| groups.host.read(format!("/proc/{pid}/oom_score_adj")).ok());
    let is_kept = adjusted.flatten().is_some_and(|it| it.trim() == "-1000");
    let process = Process {
        owner: owner.clone(),
        group: group.clone(),
        pid,
        fd,
        name: status.name.as_str().into(),
        score,
        gives_bytes: status.gives_bytes,
        passed: walked.passed,
        is_main: Status::read(&groups.host, status.parent).is_some_and(|it| it.name == "systemd"),
        is_avoided: walked.is_avoided,
    };
    (is_there && !is_kept).then_some((process, status))
}

/// Sends a signal, or none, to all that is in a group and below it by now, without what is passed over;
/// how many were met is left in it.
pub(crate) fn signal_group(groups: &Groups, group: &Group, signal: Option<Signal>) {
    let Some(directory) = &group.directory else {
        return;
    };
    let own = getpid().as_raw_nonzero().get() as u32;
    let (mut seen, mut passed) = (0, None);
    let mut is_all = true;
    let mut pids = Vec::new();
    let mut walk = Walk::new(&groups.host, directory);
    while walk.next().unwrap_or(false) {
        let (depth, at) = (walk.group().depth(), walk.group());
        passed = passed.filter(|above| *above < depth);
        let shown = groups.shown(at.path());
        if depth > 0 && groups.standing(at.path(), &shown, group.owner) == Standing::Passed {
            passed = passed.or(Some(depth));
            is_all = false;
        }
        if passed.is_none() {
            let text = at.read("cgroup.procs").ok().flatten().unwrap_or_default();
            pids.extend(text.lines().filter_map(|it| it.parse::<u32>().ok()));
        }
        let _ = walk.descend();
    }
    pids.retain(|pid| *pid != 1 && *pid != own);
    let is_done = signal == Some(Signal::KILL)
        && is_all
        && !pids.is_empty()
        && groups
            .host
            .write(directory.join("cgroup.kill"), "1")
            .is_ok();
    for pid in pids {
        let fd = Pid::from_raw(pid as i32).and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        let Some(fd) = fd else { continue };
        seen += 1;
        if let Some(signal) = signal.filter(|_| !is_done) {
            let _ = pidfd_send_signal(&fd, signal);
        }
    }
    group.left.store(seen, Ordering::Relaxed);
}
