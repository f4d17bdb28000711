//! The processes of an owner in the order in which they would go, each held by its descriptor:
//! what is ended is what was looked at.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};

use zmeld_linux::boot::uptime;
use zmeld_linux::process::began;

use crate::choice::{AT_ONCE_MAX, LARGEST_MAX};
use crate::owners::{
    id, is_never, uid_of, Above, Census, Groups, Member, Owner, Passed, Place, ProcessPlace,
    SaidOf, Status,
};

/// Programs by which one gets in: those of root in a user's groups.
const LOGINS: [&str; 16] = [
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
    "agetty",
    "xdm",
    "lxdm-session",
    "plasmalogin-hel",
];

/// Processes that would give back so many times what their owner holds share it.
const SHARED_TIMES: u64 = 4;
/// Groups that the kernel ends whole are no deeper below an owner's.
const WHOLE_DEPTH_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct OpenGroup {
    pub id: u64,
    pub owner: u64,
    pub shown: Arc<str>,
    /// Its directory; none outside of owners' groups.
    pub directory: Option<PathBuf>,
    top: PathBuf,
    /// All of it ends: what was there then, in ticks after the boot.
    pub since: OnceLock<u64>,
    /// Users are let in by it: what they run does not end with what another one runs.
    pub lets_in: bool,
    /// Whether the kernel would end all of it, too (`memory.oom.group`).
    pub is_whole: bool,
    /// Whether first processes of containers go with it: the kernel would end them, or they are
    /// what fills it.
    has_inits: AtomicBool,
    /// How many processes whoever went through it last met.
    pub left: AtomicUsize,
}

#[derive(Debug)]
pub(crate) struct Handle {
    pub fd: OwnedFd,
    /// Its memory was taken back.
    pub is_released: AtomicBool,
    /// It has none any more, though nobody may have waited for it.
    pub is_gone: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub group: Arc<OpenGroup>,
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

/// Those of an owner that may be ended, without some; `shields` says which of his groups that are
/// passed over shield what is in them.
pub(crate) fn list(
    groups: &Groups,
    census: &Census,
    owner: &Owner,
    without: impl Fn(u32) -> bool,
    shields: impl Fn(&Passed) -> bool,
) -> Vec<Process> {
    let host = &groups.host;
    let own = census.passed.iter().filter(|it| it.owner == owner.id);
    let shields: HashSet<u64> = own.filter(|it| shields(it)).map(|it| it.id).collect();
    let may = |it: &&Member| {
        let is_shielded = it.said.passed.is_some_and(|id| shields.contains(&id));
        it.owner == owner.id && it.said.is_named && !is_shielded && !without(it.pid)
    };
    let score = |pid: u32| -> Option<u32> {
        let text = host.read(format!("/proc/{pid}/oom_score")).ok()?;
        text.trim().parse().ok()
    };
    let scored = census.members.iter().filter(may);
    let scored = scored.filter_map(|it| Some((score(it.pid)?, it)));
    let mut scored: Vec<(u32, &Member)> = scored.collect();
    scored.retain(|(score, it)| !is_never(host, it.pid, *score));
    scored.sort_by_key(|(score, it)| (it.said.is_avoided, Reverse(*score)));
    // Of those that stand behind, the largest.
    if let Some(behind) = scored.get_mut(AT_ONCE_MAX..) {
        let resident = |pid: u32| -> Option<u64> {
            let text = host.read(format!("/proc/{pid}/statm")).unwrap_or_default();
            let pages = text.split(' ').nth(1).and_then(|it| it.parse().ok());
            let bytes = pages.map(|it: u64| it << 12).filter(|it| *it > 0);
            // Its first thread has ended.
            bytes.or_else(|| Some(Status::read(host, pid)?.gives_bytes))
        };
        behind.sort_by_cached_key(|(_, it)| Reverse(resident(it.pid)));
        scored.truncate(AT_ONCE_MAX + LARGEST_MAX);
    }
    let (mut listed, mut opened, mut held) = (Vec::new(), HashMap::new(), 0);
    for (score, member) in scored {
        let Some((process, status)) = hold(groups, owner, &mut opened, member.pid, score) else {
            continue;
        };
        held += process.gives_bytes;
        if !is_login(&process.group, &status) {
            listed.push((process, status.is_init, member.said.is_avoided));
        }
    }
    // Many have the same: none gives all of it back.
    let has_bytes = match &owner.place {
        Place::Group(_) => held.min(owner.held.all_bytes),
        _ => held,
    };
    if held / SHARED_TIMES > has_bytes {
        for (it, ..) in &mut listed {
            it.gives_bytes =
                (u128::from(it.gives_bytes) * u128::from(has_bytes) / u128::from(held)) as u64;
        }
    }
    // The first process of a container is its init, unless it gives back most, or all such are what
    // fills it: else whoever makes several would have nothing that may be ended.
    let of = |is_init| {
        let all = listed
            .iter()
            .filter(move |it: &&(Process, bool, bool)| it.1 == is_init);
        all.map(|(it, ..)| it.gives_bytes)
    };
    let (are_most, most) = (of(true).sum::<u64>() > has_bytes / 2, of(false).max());
    for (it, ..) in &listed {
        it.group.has_inits.fetch_or(are_most, Ordering::Relaxed);
    }
    listed.retain(|(it, is_init, _)| !is_init || are_most || Some(it.gives_bytes) > most);
    listed.sort_by_key(|(it, _, is_avoided)| (*is_avoided, Reverse((it.score, it.gives_bytes))));
    listed.into_iter().map(|(it, ..)| it).collect()
}

/// Whether users log in by that process. A service of the system has none, but those that let users
/// in.
fn is_login(group: &OpenGroup, status: &Status) -> bool {
    let is_users = group.directory.is_none() || uid_of(&group.top).is_some();
    let is_users = is_users || group.lets_in;
    is_users && status.uid == 0 && LOGINS.contains(&&*status.name)
}

/// A group of an owner's where it is listed.
fn open_group(groups: &Groups, owner: &Owner, list: Option<&Path>) -> OpenGroup {
    let mut group = OpenGroup {
        id: owner.id,
        owner: owner.id,
        shown: "".into(),
        directory: None,
        top: owner.list.clone(),
        since: OnceLock::new(),
        lets_in: groups.lets_in(&owner.shown),
        is_whole: false,
        has_inits: AtomicBool::new(false),
        left: AtomicUsize::new(0),
    };
    if let (Some(list), Some(top)) = (list, owner.directory()) {
        let says = |list: &Path| {
            let below = list.strip_prefix(&owner.list).unwrap_or(Path::new(""));
            let text = groups.host.read(top.join(below).join("memory.oom.group"));
            text.is_ok_and(|it| it.trim() == "1")
        };
        // The kernel ends the topmost one; what `end` leaves out is not ended with it.
        let is_named = |it: &Path| {
            groups
                .said(&owner.list, it, &mut SaidOf::new(), |_, _| ())
                .is_named
        };
        let above = list
            .ancestors()
            .take_while(|it| it.starts_with(&owner.list));
        let above = above
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .take(WHOLE_DEPTH_MAX);
        let whole = above.into_iter().find(|it| says(it) && is_named(it));
        let directory = whole.unwrap_or(list);
        group.id = id(directory);
        group.shown = groups.shown(directory).into();
        group.directory = Some(directory.to_owned());
        group.is_whole = whole.is_some();
        group.has_inits = AtomicBool::new(group.is_whole);
    }
    group
}

/// Holds a process, and looks at it then; none where it is gone, or is somebody else's by now.
fn hold(
    groups: &Groups,
    owner: &Owner,
    opened: &mut HashMap<PathBuf, Arc<OpenGroup>>,
    pid: u32,
    score: u32,
) -> Option<(Process, Status)> {
    let host = &groups.host;
    let fd = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    // One that has ended, and is only not waited for yet, has neither.
    let status = Status::read(host, pid).filter(|it| score > 0 || it.gives_bytes > 0)?;
    let found = groups.find_process(pid);
    let list = match (&owner.place, &found) {
        (Place::Group(_), ProcessPlace::In(_, list)) if list.starts_with(&owner.list) => {
            Some(&**list)
        }
        (Place::Group(directory), ProcessPlace::TooDeep) => match groups.above(pid)? {
            Above::Group(counted) if counted.starts_with(directory) => None,
            Above::User(uid) if uid_of(&owner.list) == Some(uid) => None,
            _ => return None,
        },
        (Place::User(uid), _) if status.uid == *uid => None,
        _ => return None,
    };
    let key = list.unwrap_or(Path::new("")).to_owned();
    let open = || Arc::new(open_group(groups, owner, list));
    let group = opened.entry(key).or_insert_with(open).clone();
    let parent = host.read(format!("/proc/{}/comm", status.parent));
    let process = Process {
        group,
        pid,
        handle: Arc::new(Handle {
            fd,
            is_released: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        }),
        name: status.name.as_str().into(),
        score,
        gives_bytes: status.gives_bytes,
        rate: 0.0,
        is_main: parent.is_ok_and(|it| it.trim() == "systemd"),
    };
    Some((process, status))
}

/// Processes in these groups or below, and where they are listed.
pub(crate) fn in_groups(groups: &Groups, all: &[&Path]) -> Vec<(u32, PathBuf)> {
    let is_in = |list: &Path| all.iter().any(|it| list.starts_with(it));
    let all = groups.host.processes().unwrap_or_default().into_iter();
    let all = all.filter_map(|pid| match groups.find_process(pid) {
        ProcessPlace::In(_, list) if is_in(&list) => Some((pid, list)),
        _ => None,
    });
    all.collect()
}

/// Sends a signal, or none, to all that is in a group and below it by now, without what is passed
/// over; how many were met is left in it. Where the kernel would end all of it, what was begun
/// since is another one.
pub(crate) fn signal_group(
    groups: &Groups,
    listed: &[(u32, PathBuf)],
    group: &OpenGroup,
    signal: Option<Signal>,
) {
    let Some(directory) = &group.directory else {
        return;
    };
    let host = &groups.host;
    // In ticks, which are hundredths of a second.
    let now = || uptime(host).ok().flatten();
    let since = group
        .since
        .get_or_init(|| now().map_or(u64::MAX, |it| (it * 100.0) as u64));
    let (mut found, mut is_all, mut known) = (Vec::new(), true, SaidOf::new());
    // A group passed over itself shields nobody.
    let own = groups
        .said(&group.top, directory, &mut known, |_, _| ())
        .passed;
    let has_inits = group.has_inits.load(Ordering::Relaxed);
    for (pid, list) in listed
        .iter()
        .filter(|(_, list)| list.starts_with(directory))
    {
        // One that is only not waited for yet has nothing.
        let Some(status) = Status::read(host, *pid).filter(|it| it.gives_bytes > 0) else {
            continue;
        };
        let stat = || host.read(format!("/proc/{pid}/stat")).ok();
        let is_new = || {
            stat()
                .and_then(|it| began(&it))
                .is_some_and(|it| it > *since)
        };
        let passed = groups.said(&group.top, list, &mut known, |_, _| ()).passed;
        let is_spared = is_login(group, &status) || status.is_init && !has_inits;
        let is_spared = is_spared || passed.is_some() && passed != own;
        match is_spared || is_never(host, *pid, 0) || group.is_whole && is_new() {
            // `cgroup.kill` does not leave those alone.
            true => is_all = false,
            false => found.push(*pid),
        }
    }
    let is_kill = signal == Some(Signal::KILL) && is_all && !found.is_empty();
    let kill = || host.write(directory.join("cgroup.kill"), "1");
    let is_done = is_kill && groups.can_kill() && kill().is_ok();
    let mut seen = 0;
    for pid in found {
        let fd = Pid::from_raw(pid as i32).and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok());
        // Since it was found another one may have come by its number.
        let is_there = || matches!(groups.find_process(pid), ProcessPlace::In(_, list) if list.starts_with(directory));
        let Some(fd) = fd.filter(|_| is_there()) else {
            continue;
        };
        seen += 1;
        if let Some(signal) = signal.filter(|_| !is_done) {
            let _ = pidfd_send_signal(&fd, signal);
        }
    }
    group.left.store(seen, Ordering::Relaxed);
}
