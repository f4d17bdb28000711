//! Holders of memory: users, services and containers of the system, pods, machines, and users by
//! their number where there are no groups. Each is one, whatever groups he makes below his own.

use std::cmp::Reverse;
use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use zmeld_linux::groups::{self, GroupPattern, Hierarchy, Outlook, Selection, Version};
use zmeld_linux::{counters, pressure, process, Host, HostError};

use crate::choice::Right;
use crate::error::Error;
use crate::open::Ring;
use crate::GuardRule;

/// Owners are no deeper, nor is what systemd marks below one.
const DEPTH_MAX: usize = 8;
/// How fast memory goes is judged by so much.
const LATELY: Duration = Duration::from_millis(900);
/// History is forgotten after so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);
/// Of an owner so many groups are passed over: a name shields nobody.
const PASSED_MAX: usize = 32;
/// So many who began each other are asked for a group.
const ABOVE_MAX: usize = 64;
/// Of so many threads one has memory, where any has: those that end are not listed for long.
const THREADS_MAX: usize = 16;
/// Groups needed to get at the machine, whatever the configuration says of them. Paths: of a name
/// alone anybody could call a group his.
const NEVER: [&str; 22] = [
    "/init.scope",
    "/system.slice/systemd-*.service",
    "/system.slice/dbus*.service",
    "/system.slice/seatd.service",
    "/system.slice/display-manager.service",
    "/system.slice/gdm*.service",
    "/system.slice/sddm*.service",
    "/system.slice/lightdm*.service",
    "/system.slice/lxdm.service",
    "/system.slice/xdm.service",
    "/system.slice/nodm.service",
    "/system.slice/greetd*.service",
    "/system.slice/cosmic-greeter*.service",
    "/system.slice/plasmalogin*.service",
    "/system.slice/ly.service",
    "/system.slice/ly@*.service",
    "/system.slice/emptty*.service",
    // The user's own manager, his bus, and what his desktop stands on.
    "/user.slice/user-*.slice/user@*.service/init.scope",
    "/user.slice/user-*.slice/user@*.service/session.slice",
    "/user.slice/user-*.slice/user@*.service/dbus*.service",
    "/user.slice/user-*.slice/user@*.service/*.slice/dbus*.service",
    "/user.slice/user-*.slice/user@*.service/*.slice/dbus*.socket",
];
/// Services that have what users run in them where nothing makes sessions of it: who lets them in is
/// passed over, and not what they run.
const LETS_IN: [&str; 4] = [
    "/system.slice/ssh*.service",
    "/system.slice/system-ssh*.slice",
    "/system.slice/dropbear*.service",
    "/system.slice/*getty*",
];
/// Something below such an owner may be named all the same.
pub(crate) const NOT_NAMED: &str = "[watch.guard] end does not name it";

/// Identity of an owner.
#[derive(Debug, Clone, Hash)]
pub(crate) enum Place {
    Group(PathBuf),
    /// A user's number: his processes that are in no owner's group.
    User(u32),
    /// Charged to nobody who is there.
    Nobody,
}

#[derive(Debug)]
pub(crate) struct Owner {
    pub id: u64,
    pub place: Place,
    pub list: PathBuf,
    pub shown: String,
    pub right: Right,
    pub held: HeldMemory,
    /// His `OOMScoreAdjust=`, in thousandths of memory, where he is no user.
    pub shift: Option<i64>,
    /// He waits for memory himself, as far as that is known.
    pub is_stalled: bool,
}

/// Keys of hashes of paths and owners where no memory may be taken: this process's own, so that
/// nobody calls a group as another one is known.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

pub(crate) fn id(of: &(impl Hash + ?Sized)) -> u64 {
    KEYS.hash_one(of)
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldMemory {
    /// In RAM: what programs wrote and files in memory (tmpfs).
    pub ram_bytes: u64,
    /// The same with swap, and what the kernel keeps for it.
    pub all_bytes: u64,
    /// How much more that is than ten seconds ago,
    pub took_bytes: u64,
    /// and how many bytes a second came of late.
    pub rate: f64,
}

#[derive(Debug, Default)]
pub(crate) struct History(HashMap<u64, (Ring<u64>, Instant)>);

impl History {
    /// Keeps what was read now, in RAM and all in all. A new one that would have been seen at
    /// `before` held nothing then.
    pub fn keep(
        &mut self,
        id: u64,
        (ram_bytes, all_bytes): (u64, u64),
        now: Instant,
        before: Option<Instant>,
    ) -> HeldMemory {
        let (ring, seen) = match self.0.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut ring = Ring::new();
                before.into_iter().for_each(|then| ring.keep(then, 0));
                new.insert((ring, now))
            }
        };
        *seen = now;
        ring.keep(now, all_bytes);
        let since = |before: u64| all_bytes.saturating_sub(before);
        let rate = ring.since(now, LATELY).map_or(0.0, |(age, before)| {
            since(before) as f64 / age.as_secs_f64().max(LATELY.as_secs_f64())
        });
        HeldMemory {
            ram_bytes,
            all_bytes,
            took_bytes: ring.oldest(now).map_or(0, |(_, before)| since(before)),
            rate,
        }
    }

    pub fn forget(&mut self, now: Instant) {
        let is_kept = |seen: Instant| now.duration_since(seen) < FORGOTTEN_AFTER;
        self.0.retain(|_, (_, seen)| is_kept(*seen));
    }
}

/// The rule on groups, where they are.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pub host: Host,
    /// None where no group counts memory.
    hierarchy: Option<Hierarchy>,
    /// With version 1: systemd's own groups, and how they are called.
    lists: Option<(PathBuf, &'static str)>,
    rule: GuardRule,
    never: Vec<GroupPattern>,
    lets_in: Vec<GroupPattern>,
    own: Option<PathBuf>,
}

pub(crate) enum ProcessPlace {
    /// In groups: where its memory is counted, and where it is listed.
    In(PathBuf, PathBuf),
    /// In no group that is seen.
    Outside,
    /// So deep that the kernel does not tell.
    TooDeep,
    Gone,
}

/// The rule on a group below an owner's, or on one above it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct GroupRule {
    pub is_named: bool,
    /// It is passed over with this group, the topmost one.
    pub passed: Option<u64>,
    pub is_avoided: bool,
}

pub(crate) type SaidOf = HashMap<u64, GroupRule>;

#[derive(Debug)]
pub(crate) struct Member {
    pub pid: u32,
    pub owner: u64,
    pub said: GroupRule,
}

/// A group of an owner that is passed over, and what it holds.
#[derive(Debug)]
pub(crate) struct Passed {
    pub id: u64,
    pub owner: u64,
    /// Path of its list.
    pub list: PathBuf,
    pub bytes: u64,
    /// How much more that is than ten seconds ago.
    pub took_bytes: u64,
    /// The kernel counts that; else its processes say it: version 1 counts none below a user's
    /// manager.
    is_counted: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Census {
    pub owners: Vec<Owner>,
    pub members: Vec<Member>,
    pub passed: Vec<Passed>,
    /// Bytes in RAM of all owners.
    pub ram_bytes: u64,
}

/// By what one is known whose own group is too deep to be told.
pub(crate) enum Above {
    /// The group in which the memory of who began him is counted.
    Group(PathBuf),
    User(u32),
}

impl Groups {
    pub fn find(host: &Host, rule: &GuardRule) -> Result<Groups, Error> {
        let hierarchy = match Hierarchy::find(host) {
            // Groups there count no memory.
            Err(HostError::GroupsUnseen) if lacks_memory(host) => None,
            found => found?,
        };
        let (mut lists, mut own) = (None, None);
        if let Some(it) = &hierarchy {
            let all = [("unified", ""), ("systemd", "name=systemd")];
            let mut all = all
                .map(|(name, kind)| (it.top.with_file_name(name), kind))
                .into_iter();
            let is_there = |it: &Path| host.exists(it.join("system.slice/cgroup.procs"));
            lists = all.find(|(list, _)| it.version == Version::One && is_there(list));
            own = it.group_of(host, "self")?;
        }
        Ok(Groups {
            host: host.clone(),
            hierarchy,
            lists,
            rule: rule.clone(),
            never: patterns(&NEVER),
            lets_in: patterns(&LETS_IN),
            own,
        })
    }

    /// Path of a group's process list.
    fn list(&self, directory: &Path) -> PathBuf {
        let top = self.hierarchy.as_ref().map(|it| it.top.as_path());
        let below = top.and_then(|top| directory.strip_prefix(top).ok());
        let list = below
            .zip(self.lists.as_ref())
            .map(|(below, (lists, _))| lists.join(below));
        let list = list.filter(|it| self.host.exists(it.join("cgroup.procs")));
        list.unwrap_or_else(|| directory.to_owned())
    }

    /// Place of a process now.
    pub fn find_process(&self, pid: u32) -> ProcessPlace {
        let Some(hierarchy) = &self.hierarchy else {
            return ProcessPlace::Outside;
        };
        let text = match self.host.read_bytes(format!("/proc/{pid}/cgroup")) {
            Ok(text) => text,
            Err(HostError::File(err)) if err.cause.raw_os_error() == Some(TOO_LONG) => {
                return ProcessPlace::TooDeep;
            }
            Err(_) => return ProcessPlace::Gone,
        };
        let Some(counted) = hierarchy.group_in(&text) else {
            return ProcessPlace::Outside;
        };
        let listed = self.lists.as_ref().and_then(|(lists, kind)| {
            let mut lines = text.split(|byte| *byte == b'\n');
            let path = lines.find_map(|line| {
                let mut words = line.splitn(3, |byte| *byte == b':').skip(1);
                (words.next()? == kind.as_bytes()).then(|| words.next())?
            })?;
            let path = Path::new(OsStr::from_bytes(path)).strip_prefix("/");
            Some(lists.join(path.ok()?))
        });
        // Groups of programs that know no systemd are counted elsewhere than listed.
        let below = counted.strip_prefix(&hierarchy.top).ok();
        let own = below.zip(self.lists.as_ref());
        let own = own.map(|(below, (lists, _))| lists.join(below));
        let listed = listed.filter(|it| own.is_some_and(|own| it.starts_with(own)));
        let listed = listed.unwrap_or_else(|| counted.clone());
        ProcessPlace::In(counted, listed)
    }

    /// Ancestor of one that is too deep, as far as it can be told.
    pub fn above(&self, pid: u32) -> Option<Above> {
        let mut status = Status::read(&self.host, pid)?;
        let uid = status.uid;
        for _ in 0..ABOVE_MAX {
            if status.parent <= 1 {
                break;
            }
            match self.find_process(status.parent) {
                ProcessPlace::In(counted, _) => return Some(Above::Group(counted)),
                ProcessPlace::TooDeep => status = Status::read(&self.host, status.parent)?,
                ProcessPlace::Outside | ProcessPlace::Gone => break,
            }
        }
        Some(Above::User(uid))
    }

    /// Whether the kernel can kill all that is in a group where it is listed: where it is counted
    /// elsewhere others are in it, too.
    pub fn can_kill(&self) -> bool {
        self.lists.is_none()
    }

    /// A group's path from the root of its hierarchy on.
    pub fn shown(&self, directory: &Path) -> String {
        let Some(it) = &self.hierarchy else {
            return String::new();
        };
        let lists = self.lists.as_ref();
        let below = lists.and_then(|(lists, _)| directory.strip_prefix(lists).ok());
        match below {
            Some(below) => it.shown(&it.top.join(below)),
            None => it.shown(directory),
        }
    }

    /// Whether an extended attribute of systemd-oomd's is set, where systemd lets it count: on a
    /// group that root owns, or `owner`.
    fn has_attribute(&self, directory: &Path, name: &str, owner: Option<u32>) -> bool {
        let path = self.host.path(directory);
        let root = self.host.root().metadata().map_or(0, |it| it.uid());
        let mut value = [0; 8];
        let length = rustix::fs::getxattr(&path, name, &mut value[..]);
        let is_owned = |uid| uid == root || Some(uid) == owner;
        length.is_ok_and(|it| &value[..it] == b"1")
            && path.metadata().is_ok_and(|it| is_owned(it.uid()))
    }

    /// Whether `end` is for that group itself.
    fn is_named(&self, shown: &str) -> bool {
        self.rule.end.is_empty() || self.rule.end.iter().any(|it| it.matches(shown))
    }

    /// The rule on a group below an owner's own, `top`, where they are listed. Below that some are
    /// passed over: what the rule protects, what he needs himself, what he would keep. `topmost` is
    /// told of each.
    pub fn said(
        &self,
        top: &Path,
        list: &Path,
        known: &mut SaidOf,
        mut topmost: impl FnMut(u64, &Path),
    ) -> GroupRule {
        let shown = self.shown(top);
        let mut said = GroupRule {
            is_named: above(&shown).any(|it| self.is_named(it)),
            ..GroupRule::default()
        };
        let Ok(below) = list.strip_prefix(top) else {
            return said;
        };
        let uid = uid_of(top);
        let mut level = KEYS.build_hasher();
        top.hash(&mut level);
        // Paths and marks are looked at no deeper than anybody means: who makes groups makes them as
        // deep as he likes.
        let mut depth = shown.split('/').count() - 1;
        let names = below.as_os_str().as_bytes().split(|byte| *byte == b'/');
        let mut end = top.as_os_str().len();
        for name in names.filter(|it| !it.is_empty()) {
            (end, depth) = (end + 1 + name.len(), depth + 1);
            level.write(name);
            level.write_u8(b'/');
            let id = level.clone().finish();
            if let Some(known) = known.get(&id) {
                said = *known;
                continue;
            }
            let path = Path::new(OsStr::from_bytes(&list.as_os_str().as_bytes()[..end]));
            let name = String::from_utf8_lossy(name);
            let shown = if depth <= 2 * DEPTH_MAX {
                self.shown(path)
            } else {
                String::new()
            };
            let is = |it: &GroupPattern| match it.is_path() {
                true => it.matches(&shown),
                false => it.matches(&name),
            };
            let has = |name| depth <= 2 * DEPTH_MAX && self.has_attribute(path, name, uid);
            said.is_named = said.is_named || self.rule.end.iter().any(is);
            let mut passed = self.rule.protect.iter().chain(&self.never);
            if said.passed.is_none() && (passed.any(is) || has("user.oomd_omit")) {
                said.passed = Some(id);
                topmost(id, path);
            }
            said.is_avoided = said.is_avoided || has("user.oomd_avoid");
            known.insert(id, said);
        }
        said
    }

    /// All owners, the largest first, without what was held before, and their processes;
    /// `is_stall` asks who waits for memory.
    pub fn census(&self, is_stall: bool) -> Result<Census, HostError> {
        let mut all = Census::default();
        if let Some(hierarchy) = &self.hierarchy {
            self.add_groups(hierarchy, &hierarchy.top, 0, is_stall, &mut all.owners)?;
        }
        let groups = all.owners.iter().enumerate();
        let groups: HashMap<PathBuf, usize> = groups
            .filter_map(|(at, it)| Some((it.directory()?.to_owned(), at)))
            .collect();
        let by_uid = all.owners.iter().enumerate();
        let by_uid: HashMap<u32, usize> = by_uid
            .filter_map(|(at, it)| Some((uid_of(&it.list)?, at)))
            .collect();
        let top = self
            .hierarchy
            .as_ref()
            .map(|it| it.top.clone())
            .unwrap_or_default();
        let owner_of = |counted: &Path| {
            let mut above = top.clone();
            let mut names = counted
                .strip_prefix(&top)
                .ok()?
                .components()
                .take(DEPTH_MAX + 1);
            names.find_map(|name| {
                above.push(name);
                groups.get(&above).copied()
            })
        };
        let (mut users, mut known) = (HashMap::new(), SaidOf::new());
        // The least `OOMScoreAdjust=` in each group of who is no user.
        let mut adjusted: HashMap<(usize, u64), i64> = HashMap::new();
        for pid in self.host.processes()? {
            let found = self.find_process(pid);
            let at = match &found {
                ProcessPlace::In(counted, _) => owner_of(counted),
                ProcessPlace::TooDeep => match self.above(pid) {
                    Some(Above::Group(counted)) => owner_of(&counted),
                    Some(Above::User(uid)) => by_uid.get(&uid).copied(),
                    None => continue,
                },
                ProcessPlace::Outside => None,
                ProcessPlace::Gone => continue,
            };
            let Some(at) = at else {
                // A group that counts no memory is named, and needed, all the same.
                let is_kept = |it: &Path| match self.right(it, &self.shown(it)) {
                    Right::Kept(why) => why != NOT_NAMED,
                    Right::Ended | Right::Avoided => false,
                };
                if !matches!(&found, ProcessPlace::In(_, list) if is_kept(list)) {
                    self.add_outside(pid, &mut users, &mut all);
                }
                continue;
            };
            let owner = &all.owners[at];
            let list = match found {
                ProcessPlace::In(_, list) => list,
                _ => owner.list.clone(),
            };
            let passed = &mut all.passed;
            let said = self.said(&owner.list, &list, &mut known, |id, list| {
                let is_user = uid_of(&owner.list).is_some();
                let of_his = passed.iter().filter(|it| it.owner == owner.id);
                if !is_user || of_his.count() < PASSED_MAX {
                    let below = list.strip_prefix(&owner.list).unwrap_or(list);
                    let counted = owner.directory().map(|it| it.join(below));
                    let held = counted.and_then(|it| self.held(&it));
                    passed.push(Passed {
                        id,
                        owner: owner.id,
                        list: list.to_owned(),
                        bytes: held.map_or(0, |it| it.1),
                        took_bytes: 0,
                        is_counted: held.is_some(),
                    });
                }
            });
            let mut passed = passed.iter_mut();
            let shield = passed.find(|it| Some(it.id) == said.passed && !it.is_counted);
            if let Some(it) = shield {
                it.bytes += Status::read(&self.host, pid).map_or(0, |it| it.holds_bytes);
            }
            // A login service keeps itself by it, not its users.
            if uid_of(&owner.list).is_none() && !self.lets_in(&owner.shown) {
                let adjust = self.host.read(format!("/proc/{pid}/oom_score_adj"));
                if let Some(adjust) = adjust.ok().and_then(|it| it.trim().parse().ok()) {
                    let group = if is_service(owner) { 0 } else { id(&list) };
                    let least = adjusted.entry((at, group)).or_insert(adjust);
                    *least = adjust.min(*least);
                }
            }
            all.members.push(Member {
                pid,
                owner: owner.id,
                said,
            });
        }
        // Only root could give one a lower one. Of a pod's containers one that only keeps its place has
        // the lowest there is, and what best effort is may be ended first, not for others.
        for ((at, _), least) in adjusted {
            let owner = &mut all.owners[at];
            let least = if is_service(owner) {
                least
            } else {
                least.min(0)
            };
            owner.shift = Some(owner.shift.map_or(least, |it| it.max(least)));
        }
        // Something below him may be named all the same.
        let named = all.members.iter().filter(|it| it.said.is_named);
        let named: HashSet<u64> = named.map(|it| it.owner).collect();
        for owner in &mut all.owners {
            if owner.right == Right::Kept(NOT_NAMED) && named.contains(&owner.id) {
                owner.right = Right::Ended;
            }
        }
        all.ram_bytes = all.owners.iter().map(|it| it.held.ram_bytes).sum();
        all.owners.sort_by_key(|it| Reverse(it.held.all_bytes));
        Ok(all)
    }

    /// A process that is in no owner's group is its user's.
    fn add_outside(&self, pid: u32, users: &mut HashMap<u32, usize>, all: &mut Census) {
        let Some(status) = Status::read(&self.host, pid) else {
            return;
        };
        let at = *users.entry(status.uid).or_insert_with(|| {
            let right = Right::Kept("it is needed to get at the machine");
            let shown = format!("user {} outside of all groups", status.uid);
            all.owners
                .push(Owner::new(Place::User(status.uid), shown, right, (0, 0)));
            all.owners.len() - 1
        });
        let owner = &mut all.owners[at];
        owner.held.ram_bytes += status.holds_bytes;
        owner.held.all_bytes += status.holds_bytes;
        let is_named = self.is_named("/");
        if !is_never(&self.host, pid, 0) {
            owner.right = match is_named {
                true => Right::Ended,
                false => Right::Kept(NOT_NAMED),
            };
        }
        all.members.push(Member {
            pid,
            owner: owner.id,
            said: GroupRule {
                is_named,
                ..GroupRule::default()
            },
        });
    }

    fn add_groups(
        &self,
        hierarchy: &Hierarchy,
        folder: &Path,
        depth: usize,
        is_stall: bool,
        owners: &mut Vec<Owner>,
    ) -> Result<(), HostError> {
        for directory in self.host.folders(folder)? {
            let shown = hierarchy.shown(&directory);
            if depth < DEPTH_MAX && self.is_folder(&directory, &shown) {
                self.add_groups(hierarchy, &directory, depth + 1, is_stall, owners)?;
                continue;
            }
            // One that is gone, or is not counted, is none.
            let Some(held) = self.held(&directory) else {
                continue;
            };
            let right = self.right(&directory, &shown);
            owners.push(Owner {
                is_stalled: !is_stall || self.is_stalled(&directory),
                list: self.list(&directory),
                ..Owner::new(Place::Group(directory), shown, right, held)
            });
        }
        Ok(())
    }

    /// Whether that group contains owners, and is none itself.
    fn is_folder(&self, directory: &Path, shown: &str) -> bool {
        let (above, name) = shown.rsplit_once('/').unwrap_or(("", shown));
        let is_pod = name.starts_with("pod") || name.contains("-pod");
        match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
            _ if above.starts_with("/kubepods") => !is_pod,
            "slice" => above != "/user.slice",
            "service" | "scope" | "mount" | "socket" | "swap" => false,
            // Parents of containers: /docker, /lxc, /kubepods.
            _ if above.is_empty() && !name.starts_with("lxc.") => {
                let procs = self.list(directory).join("cgroup.procs");
                let is_empty = self.host.read_start(&procs, 16);
                is_empty.is_ok_and(|it| it.trim_ascii().is_empty())
                    && self.host.folders(directory).is_ok_and(|it| !it.is_empty())
            }
            _ => false,
        }
    }

    /// Whether an owner may be ended, without what is below him.
    fn right(&self, directory: &Path, shown: &str) -> Right {
        let is_any =
            |all: &[GroupPattern]| above(shown).any(|it| all.iter().any(|p| p.matches(it)));
        let has = |name| self.has_attribute(directory, name, None);
        match () {
            () if self.own.as_deref() == Some(directory) => {
                Right::Kept("zmeld-guard itself runs in it")
            }
            () if is_any(&self.never) => Right::Kept("it is needed to get at the machine"),
            () if is_any(&self.rule.protect) => Right::Kept("[watch.guard] protect names it"),
            () if has("user.oomd_omit") => Right::Kept("ManagedOOMPreference=omit"),
            () if !above(shown).any(|it| self.is_named(it)) => Right::Kept(NOT_NAMED),
            () if has("user.oomd_avoid") => Right::Avoided,
            () => Right::Ended,
        }
    }

    /// A group's bytes, in RAM and all in all; none where it is gone, or not counted.
    pub fn held(&self, directory: &Path) -> Option<(u64, u64)> {
        // Version 1 has `total_` before each, for all below it.
        let version = self.hierarchy.as_ref()?.version;
        let prefix = match version {
            Version::One => "total_",
            Version::Two => "",
        };
        let stat = self.host.read(directory.join("memory.stat")).ok()?;
        let value = |name: &str| counters::value(&stat, &format!("{prefix}{name}"));
        let of = |name: &str| value(name).unwrap_or(0);
        let number = |name: &str| self.host.read_u64(directory.join(name)).unwrap_or(0);
        let programs = value("anon").or(value("rss"))? + of("shmem");
        let all = match version {
            // Reclaimable parts of its memory are not told. Swap counts what is in its cache no
            // more; the lists do, and what pipes have.
            Version::One => programs.max(of("inactive_anon") + of("active_anon")) + of("swap"),
            // All but what the kernel can have back, whatever has it: pages that no process has mapped
            // any more are the group's all the same.
            Version::Two => {
                let back = of("inactive_file") + of("active_file") + of("slab_reclaimable");
                let used = number(version.usage_file()).saturating_sub(back);
                let swapped = number("memory.swap.current").saturating_sub(of("swapcached"));
                used.max(programs) + swapped
            }
        };
        Some((programs, all))
    }

    /// Whether its tasks waited for memory, as far as the kernel tells. Its mean is slow: it comes to
    /// two thirds of what is in ten seconds.
    fn is_stalled(&self, directory: &Path) -> bool {
        let text = self.host.read(directory.join("memory.pressure")).ok();
        let some = text.and_then(|it| pressure::line(&it, "some"));
        let most = self.rule.stalled_above.fraction();
        some.is_none_or(|it| it.avg10_percent / 100.0 >= most / 2.0)
    }

    /// Whether a group runs users' programs beside a login service.
    pub fn lets_in(&self, shown: &str) -> bool {
        above(shown).any(|it| self.lets_in.iter().any(|p| p.matches(it)))
    }
}

/// ENAMETOOLONG: a path of more than 4,096 bytes.
const TOO_LONG: i32 = rustix::io::Errno::NAMETOOLONG.raw_os_error();

/// Whether groups of version 2 are there and count no memory: a kernel may be told so
/// (`cgroup_disable=memory`).
fn lacks_memory(host: &Host) -> bool {
    let controllers = host.read("/sys/fs/cgroup/cgroup.controllers");
    controllers.is_ok_and(|it| !it.split_whitespace().any(|it| it == "memory"))
}

/// Whether a process is the first one, this one, or one that the kernel ends never, whose score
/// is 0.
pub(crate) fn is_never(host: &Host, pid: u32, score: u32) -> bool {
    let adjusted = || host.read(format!("/proc/{pid}/oom_score_adj"));
    let is_self = pid == 1 || pid == std::process::id();
    is_self || score == 0 && adjusted().is_ok_and(|it| it.trim() == "-1000")
}

impl Owner {
    fn new(place: Place, shown: String, right: Right, held: (u64, u64)) -> Owner {
        Owner {
            id: id(&place),
            place,
            list: PathBuf::new(),
            shown,
            right,
            held: HeldMemory {
                ram_bytes: held.0,
                all_bytes: held.1,
                ..HeldMemory::default()
            },
            shift: None,
            is_stalled: true,
        }
    }

    pub fn nobody() -> Owner {
        let right = Right::Kept("nobody who is there is charged for it");
        let shown = "memory that outlived who took it (files in tmpfs)".to_owned();
        Owner::new(Place::Nobody, shown, right, (0, 0))
    }

    pub fn is_nobody(&self) -> bool {
        matches!(self.place, Place::Nobody)
    }

    pub fn shift(&self) -> i64 {
        self.shift.unwrap_or(0)
    }

    /// Of a group, where it counts his memory.
    pub fn directory(&self) -> Option<&Path> {
        match &self.place {
            Place::Group(directory) => Some(directory),
            Place::User(_) | Place::Nobody => None,
        }
    }
}

fn is_service(owner: &Owner) -> bool {
    owner.shown.ends_with(".service")
}

/// The user whose group that is; none of a service's.
pub(crate) fn uid_of(directory: &Path) -> Option<u32> {
    let uid = |it: &Path| {
        let name = it.file_name()?.to_str()?;
        name.strip_prefix("user-")?
            .strip_suffix(".slice")?
            .parse()
            .ok()
    };
    // Those below are called as he likes.
    directory.ancestors().filter_map(uid).last()
}

fn patterns(all: &[&str]) -> Vec<GroupPattern> {
    all.iter().filter_map(|it| it.parse().ok()).collect()
}

/// Whether a path names a group that is never ended, or one below.
pub fn is_never_ended(pattern: &GroupPattern) -> bool {
    let never = patterns(&NEVER);
    let path = pattern.to_string();
    let is_it = |it: &str| never.iter().any(|never| never.matches(it));
    pattern.is_path() && above(&path).any(is_it)
}

/// Effect of a rule; none where that cannot be told.
pub fn outlook(host: &Host, rule: &GuardRule) -> Option<Outlook> {
    let selection = Selection {
        named: &rule.end,
        protect: &rule.protect,
        ..Selection::default()
    };
    groups::outlook(host, selection)
}

/// Names in `end` and `protect` that no group has, a line each.
pub fn unmatched(host: &Host, rule: &GuardRule) -> impl Iterator<Item = String> {
    let unmatched = outlook(host, rule).unwrap_or_default().unmatched;
    let end: Vec<String> = rule.end.iter().map(ToString::to_string).collect();
    unmatched.into_iter().map(move |name| {
        let key = if end.contains(&name) {
            "end"
        } else {
            "protect"
        };
        format!("{name} in {key}: nobody is called so now")
    })
}

/// A path and those above it.
fn above(shown: &str) -> impl Iterator<Item = &str> {
    let ends = shown.match_indices('/').map(|(at, _)| at).skip(1);
    ends.map(|end| &shown[..end]).chain(std::iter::once(shown))
}

/// Status of the first thread with memory.
fn thread_status(host: &Host, pid: u32) -> Option<String> {
    let threads = host.folders(Path::new(&format!("/proc/{pid}/task"))).ok()?;
    let read = |it: PathBuf| host.read(it.join("status")).ok();
    let mut all = threads.into_iter().take(THREADS_MAX).filter_map(read);
    all.find(|text| process::status(text, "VmRSS").is_some())
}

#[derive(Debug)]
pub(crate) struct Status {
    pub name: String,
    pub uid: u32,
    /// Bytes freed when it ends, and with its files in memory.
    pub gives_bytes: u64,
    pub holds_bytes: u64,
    /// It is the first one of its own name space.
    pub is_init: bool,
    pub parent: u32,
}

impl Status {
    pub fn read(host: &Host, pid: u32) -> Option<Status> {
        let text = host.read(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| process::status(&text, name);
        // One whose first thread has ended goes on, and its others say what it has.
        let has_ended = field("State").is_some_and(|it| it.starts_with('Z'));
        let thread = has_ended.then(|| thread_status(host, pid)).flatten();
        let memory = thread.as_ref().unwrap_or(&text);
        let kib = |name: &str| -> Option<u64> {
            let value = process::status(memory, name)?;
            value.strip_suffix(" kB")?.parse().ok()
        };
        let of = |name: &str| kib(name).unwrap_or(0) << 10;
        // A thread of the kernel has none; of one whose first thread has ended it may not be found.
        let resident = kib("VmRSS").or(has_ended.then_some(0))?;
        let anonymous = kib("RssAnon").unwrap_or(resident) << 10;
        let gives_bytes = anonymous + of("VmSwap") + of("VmPTE");
        let mut spaces = field("NSpid").unwrap_or_default().split_whitespace();
        Some(Status {
            name: field("Name").unwrap_or_default().to_owned(),
            uid: process::user(&text)?,
            gives_bytes,
            holds_bytes: gives_bytes + of("RssShmem"),
            is_init: spaces.next().is_some() && spaces.last() == Some("1"),
            parent: field("PPid").and_then(|it| it.parse().ok()).unwrap_or(0),
        })
    }
}
