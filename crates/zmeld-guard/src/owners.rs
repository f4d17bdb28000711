//! Who holds memory: users, services and containers of the system, pods, machines, and users
//! by their number where there are no groups. Each is one, whatever groups he makes below his own.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zmeld_linux::groups::walk::OpenGroup;
use zmeld_linux::groups::{self, GroupPattern, Hierarchy, Outlook, Selection, Version, Walk};
use zmeld_linux::{counters, pressure, process, Host, HostError};

use crate::choice::Right;
use crate::open::Ring;
use crate::{Error, GuardRule};

/// Owners are no deeper.
const DEPTH_MAX: usize = 8;
/// How fast memory goes is judged by so much.
const LATELY: Duration = Duration::from_millis(900);
/// What was not seen for so long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);
/// Of an owner so many groups are passed over: a name shields nobody.
const PASSED_MAX: usize = 32;
/// What is in a group can be opened by a path that is no longer: the kernel takes 4,096 bytes.
const PATH_BYTES: usize = 4000;
/// So many groups of a service are asked for its processes.
const SUBGROUPS_MAX: usize = 16;
/// Of so many threads one has memory, where any has: those that end are not listed for long.
const THREADS_MAX: usize = 16;
/// What is needed to get at the machine, whatever the configuration says of it. Paths: of a name
/// alone anybody could call a group of his own.
const NEVER: [&str; 18] = [
    "/init.scope",
    "/system.slice/systemd-*.service",
    "/system.slice/dbus*.service",
    "/system.slice/ssh*.service",
    "/system.slice/system-ssh*.slice",
    "/system.slice/dropbear*.service",
    "/system.slice/*getty*",
    "/system.slice/*dm.service",
    "/system.slice/display-manager.service",
    "/system.slice/greetd*.service",
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
/// Something below such an owner may be named all the same.
pub(crate) const NOT_NAMED: &str = "[watch.guard] end does not name it";

/// What an owner is known by.
#[derive(Debug, Clone, Hash)]
pub(crate) enum Place {
    /// A group's directory.
    Group(PathBuf),
    /// A user's number: his processes that are in no owner's group.
    User(u32),
    /// What is charged to nobody who is there.
    Nobody,
}

/// Who holds memory.
#[derive(Debug)]
pub(crate) struct Owner {
    pub id: u64,
    pub place: Place,
    pub shown: String,
    pub right: Right,
    pub held: Held,
    /// His `OOMScoreAdjust=`, in thousandths of memory.
    pub shift: i64,
    /// He waits for memory himself, as far as that is known.
    pub is_stalled: bool,
}

/// What a path or an owner is known by where no memory may be taken.
pub(crate) fn id(of: &(impl Hash + ?Sized)) -> u64 {
    let mut id = DefaultHasher::new();
    of.hash(&mut id);
    id.finish()
}

/// What somebody holds, and how it came.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// In RAM: what programs wrote and files in memory (tmpfs).
    pub ram_bytes: u64,
    /// The same with swap, and what the kernel keeps for it.
    pub all_bytes: u64,
    /// How much more that is than ten seconds ago,
    pub took_bytes: u64,
    /// and how many bytes a second came of late.
    pub rate: f64,
}

/// What was held lately.
#[derive(Debug, Default)]
pub(crate) struct History(HashMap<u64, (Ring<u64>, Instant)>);

impl History {
    /// Keeps what was read now, in RAM and all in all. What is new and would have been seen at
    /// `before` held nothing then.
    pub fn keep(
        &mut self,
        id: u64,
        (ram_bytes, all_bytes): (u64, u64),
        now: Instant,
        before: Option<Instant>,
    ) -> Held {
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
        Held {
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

/// What the rule says of groups, where they are.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pub host: Host,
    /// None where no group counts memory.
    pub hierarchy: Option<Hierarchy>,
    /// Where their processes are listed: systemd's own groups, where version 1 counts memory.
    lists: PathBuf,
    rule: GuardRule,
    never: Vec<GroupPattern>,
    own: Option<PathBuf>,
}

/// A group of an owner on the way through them, and what is said of it or of one above it.
#[derive(Debug, Default)]
pub(crate) struct Visited {
    /// Where its processes are listed,
    pub path: PathBuf,
    /// and where its memory is counted.
    pub directory: PathBuf,
    pub is_named: bool,
    /// It is passed over with this group, the topmost one.
    pub passed: Option<u64>,
    pub is_topmost: bool,
    pub is_avoided: bool,
    /// Its path is too long: those are of a group above it.
    pub is_far: bool,
}

/// A group of an owner that is passed over, and what it holds.
#[derive(Debug)]
pub(crate) struct Passed {
    pub id: u64,
    pub directory: PathBuf,
    /// In RAM and all in all,
    pub held: (u64, u64),
    /// as the kernel counts it, or else as its processes say: version 1 counts none below a user's
    /// manager.
    is_counted: bool,
}

impl Visited {
    /// Adds it, where it is passed over and the group above it is not, to no more than
    /// [`PASSED_MAX`]. What cannot be opened shields nobody.
    pub fn keep_passed(&self, groups: &Groups, group: &OpenGroup, all: &mut Vec<Passed>) {
        let Some(id) = self.passed else {
            return;
        };
        if self.is_topmost && !self.is_far && all.len() < PASSED_MAX {
            let held = groups.held(&self.directory);
            all.push(Passed {
                id,
                directory: self.directory.clone(),
                held: held.unwrap_or_default(),
                is_counted: held.is_some(),
            });
        }
        let uncounted = all.last_mut().filter(|it| it.id == id && !it.is_counted);
        if let Some(it) = uncounted {
            let procs = group.read("cgroup.procs").ok().flatten();
            let procs = procs.unwrap_or_default();
            let all = pids(&procs).filter_map(|pid| Status::read(&groups.host, pid));
            let bytes: u64 = all.map(|it| it.holds_bytes).sum();
            it.held = (it.held.0 + bytes, it.held.1 + bytes);
        }
    }
}

impl Groups {
    pub fn find(host: &Host, rule: &GuardRule) -> Result<Groups, Error> {
        let hierarchy = Hierarchy::find(host)?;
        let (mut lists, mut own) = (PathBuf::new(), None);
        if let Some(it) = &hierarchy {
            let systemd = ["unified", "systemd"].map(|name| it.top.with_file_name(name));
            let mut systemd = systemd.into_iter().filter(|_| it.version == Version::One);
            let found = systemd.find(|it| host.exists(it.join("user.slice/cgroup.procs")));
            lists = found.unwrap_or_else(|| it.top.clone());
            own = it.group_of(host, "self")?;
        }
        Ok(Groups {
            host: host.clone(),
            hierarchy,
            lists,
            rule: rule.clone(),
            never: never(),
            own,
        })
    }

    /// Where a group's processes are listed.
    pub fn list(&self, directory: &Path) -> PathBuf {
        let top = self.hierarchy.as_ref().map(|it| it.top.as_path());
        let below = top.and_then(|top| directory.strip_prefix(top).ok());
        let list = below.map(|it| self.lists.join(it));
        let list = list.filter(|it| self.host.exists(it.join("cgroup.procs")));
        list.unwrap_or_else(|| directory.to_owned())
    }

    /// A group's path from the root of its hierarchy on.
    pub fn shown(&self, directory: &Path) -> String {
        match (&self.hierarchy, directory.strip_prefix(&self.lists)) {
            (Some(it), Ok(below)) => it.shown(&it.top.join(below)),
            (Some(it), _) => it.shown(directory),
            _ => String::new(),
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

    /// Whether it is for a group where its processes are listed, or for one above that.
    pub fn has_named(&self, list: &Path) -> bool {
        above(&self.shown(list)).any(|it| self.is_named(it))
    }

    /// Whether the kernel says that a process is in a group where it is listed, or below it; none
    /// where it does not say.
    pub fn is_within(&self, pid: u32, list: &Path) -> Option<bool> {
        let hierarchy = self.hierarchy.as_ref()?;
        let group = hierarchy.group_of(&self.host, &pid.to_string());
        let is_told = list.starts_with(&hierarchy.top);
        Some(group.ok()??.starts_with(list)).filter(|_| is_told)
    }

    /// Goes through an owner's groups, his own first, until `visit` has seen enough. Below his own
    /// some are passed over: what the rule protects, what he needs himself, what he would keep.
    pub fn walk(&self, directory: &Path, mut visit: impl FnMut(&OpenGroup, Visited) -> bool) {
        let (list, uid) = (self.list(directory), uid_of(directory));
        // How deep the topmost one stands for which it holds.
        let (mut named, mut passed, mut avoided) = (None, None, None);
        let mut walk = Walk::new(&self.host, &list);
        // One that is gone, or cannot be entered, is left out.
        while walk.next().unwrap_or(false) {
            let (group, depth) = (walk.group(), walk.group().depth());
            named = named.filter(|at| *at < depth);
            passed = passed.filter(|(at, _)| *at < depth);
            avoided = avoided.filter(|at| *at < depth);
            let shown = self.shown(group.path());
            let is_named = match depth {
                0 => self.has_named(group.path()),
                _ => self.is_named(&shown),
            };
            named = named.or(is_named.then_some(depth));
            if depth > 0 {
                let has = |name| self.has_attribute(group.path(), name, uid);
                let is_any = |all: &[GroupPattern]| all.iter().any(|it| it.matches(&shown));
                let is_passed = || is_any(&self.rule.protect) || is_any(&self.never);
                if passed.is_none() && (is_passed() || has("user.oomd_omit")) {
                    passed = Some((depth, id(group.path())));
                }
                if avoided.is_none() && has("user.oomd_avoid") {
                    avoided = Some(depth);
                }
            }
            let mut above = group.path().ancestors();
            let path = above.find(|it| it.as_os_str().len() <= PATH_BYTES);
            let path = path.unwrap_or(&list);
            let below = path.strip_prefix(&list);
            let visited = Visited {
                path: path.to_owned(),
                is_far: path.as_os_str().len() < group.path().as_os_str().len(),
                directory: directory.join(below.unwrap_or(Path::new(""))),
                is_named: named.is_some(),
                passed: passed.map(|(_, id)| id),
                is_topmost: passed.is_some_and(|(at, _)| at == depth),
                is_avoided: avoided.is_some(),
            };
            if !visit(group, visited) {
                return;
            }
            let _ = walk.descend();
        }
    }

    /// All owners, without what was held before; `is_stall` asks who waits for memory.
    pub fn owners(&self, is_stall: bool) -> Result<Vec<Owner>, HostError> {
        let mut owners = Vec::new();
        if let Some(hierarchy) = &self.hierarchy {
            self.add_groups(hierarchy, &hierarchy.top, 0, is_stall, &mut owners)?;
        }
        // What they hold, and whether any of it may be ended.
        let mut users: HashMap<u32, (u64, bool)> = HashMap::new();
        for pid in self.unowned()? {
            if let Some(status) = Status::read(&self.host, pid) {
                let (bytes, may) = users.entry(status.uid).or_default();
                *bytes += status.holds_bytes;
                *may = *may || !is_never(&self.host, pid, 0);
            }
        }
        owners.extend(users.into_iter().map(|(uid, (bytes, may))| {
            let right = match () {
                () if !may => Right::Kept("it is needed to get at the machine"),
                () if !self.is_named("/") => Right::Kept(NOT_NAMED),
                () => Right::Ended,
            };
            let shown = format!("user {uid} outside of all groups");
            Owner::new(Place::User(uid), shown, right, (bytes, bytes))
        }));
        Ok(owners)
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
            let (right, shift) = (
                self.right(&directory, &shown),
                self.shift(&directory, &shown),
            );
            owners.push(Owner {
                shift,
                is_stalled: !is_stall || self.is_stalled(&directory),
                ..Owner::new(Place::Group(directory), shown, right, held)
            });
        }
        Ok(())
    }

    /// Whether owners are in that group, rather than that it is one.
    fn is_folder(&self, directory: &Path, shown: &str) -> bool {
        let (above, name) = shown.rsplit_once('/').unwrap_or(("", shown));
        let is_pod = name.starts_with("pod") || name.contains("-pod");
        match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
            _ if above.starts_with("/kubepods") => !is_pod,
            "slice" => above != "/user.slice",
            "service" | "scope" | "mount" | "socket" | "swap" => false,
            // What programs of containers make: /docker, /lxc, /kubepods.
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
            () if self.own.as_deref() == Some(directory) => Right::Kept("it is zmeld's own"),
            () if is_any(&self.never) => Right::Kept("it is needed to get at the machine"),
            () if is_any(&self.rule.protect) => Right::Kept("[watch.guard] protect names it"),
            () if has("user.oomd_omit") => Right::Kept("ManagedOOMPreference=omit"),
            () if !above(shown).any(|it| self.is_named(it)) => Right::Kept(NOT_NAMED),
            () if has("user.oomd_avoid") => Right::Avoided,
            () => Right::Ended,
        }
    }

    /// What a group holds, in RAM and all in all; none where it is gone, or not counted.
    pub fn held(&self, directory: &Path) -> Option<(u64, u64)> {
        // Version 1 has `total_` before each, for all below it.
        let prefix = match self.hierarchy.as_ref()?.version {
            Version::One => "total_",
            Version::Two => "",
        };
        let stat = self.host.read(directory.join("memory.stat")).ok()?;
        let value = |name: &str| counters::value(&stat, &format!("{prefix}{name}"));
        let of = |name: &str| value(name).unwrap_or(0);
        let ram_bytes = value("anon").or(value("rss"))? + of("shmem");
        let swapped = self.host.read_u64(directory.join("memory.swap.current"));
        let other_bytes = of("swap") + of("kernel") + swapped.unwrap_or(0);
        // The kernel can have that back; that is in RAM again, and in swap still.
        let in_both = of("slab_reclaimable") + of("swapcached");
        Some((ram_bytes, ram_bytes + other_bytes.saturating_sub(in_both)))
    }

    /// The `OOMScoreAdjust=` of a service that is no user's: no process of it has a lower one, and
    /// only root could give it one.
    fn shift(&self, directory: &Path, shown: &str) -> i64 {
        if shown.starts_with("/user.slice/") || !shown.ends_with(".service") {
            return 0;
        }
        let list = self.list(directory);
        let procs = |group: &Path| {
            let text = self.host.read_start(&group.join("cgroup.procs"), 512);
            let text = String::from_utf8_lossy(&text.unwrap_or_default()).into_owned();
            // A number that was cut off is another's.
            text.rfind('\n')
                .map_or(String::new(), |end| text[..=end].to_owned())
        };
        let mut text = procs(&list);
        if text.is_empty() {
            // `DelegateSubgroup=` has its processes below.
            let below = self.host.folders(&list).unwrap_or_default();
            text.extend(below.iter().take(SUBGROUPS_MAX).map(|it| procs(it)));
        }
        let adjusted = text.lines().filter_map(|pid| {
            let text = self.host.read(format!("/proc/{pid}/oom_score_adj")).ok()?;
            text.trim().parse().ok()
        });
        adjusted.min().unwrap_or(0)
    }

    /// Whether its tasks waited for memory together, as far as the kernel tells.
    fn is_stalled(&self, directory: &Path) -> bool {
        let text = self.host.read(directory.join("memory.pressure")).ok();
        let full = text.and_then(|it| pressure::line(&it, "full"));
        full.is_none_or(|it| it.avg10_percent / 100.0 >= self.rule.stalled_above.fraction())
    }

    /// Processes that are in no owner's group: those of the root, or all.
    pub fn unowned(&self) -> Result<Vec<u32>, HostError> {
        let Some(it) = &self.hierarchy else {
            return self.host.processes();
        };
        let text = self.host.read_optional(it.top.join("cgroup.procs"))?;
        Ok(pids(&text.unwrap_or_default()).collect())
    }
}

/// Whether a process is the first one, this one, or one that the kernel ends never, whose score
/// is 0.
pub(crate) fn is_never(host: &Host, pid: u32, score: u32) -> bool {
    let adjusted = || host.read(format!("/proc/{pid}/oom_score_adj"));
    let is_self = pid == 1 || pid == std::process::id();
    is_self || score == 0 && adjusted().is_ok_and(|it| it.trim() == "-1000")
}

/// The numbers in a list of processes.
pub(crate) fn pids(text: &str) -> impl Iterator<Item = u32> + '_ {
    text.lines().filter_map(|it| it.parse().ok())
}

impl Owner {
    fn new(place: Place, shown: String, right: Right, held: (u64, u64)) -> Owner {
        Owner {
            id: id(&place),
            place,
            shown,
            right,
            held: Held {
                ram_bytes: held.0,
                all_bytes: held.1,
                ..Held::default()
            },
            shift: 0,
            is_stalled: true,
        }
    }

    pub fn nobody() -> Owner {
        let right = Right::Kept("it is charged to nobody who is there");
        let shown = "memory of nobody who is there".to_owned();
        Owner::new(Place::Nobody, shown, right, (0, 0))
    }

    pub fn is_kept(&self) -> bool {
        matches!(self.right, Right::Kept(_))
    }
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

fn never() -> Vec<GroupPattern> {
    NEVER.iter().filter_map(|it| it.parse().ok()).collect()
}

/// Whether a path names what is never ended, or something below that.
pub fn is_never_ended(pattern: &GroupPattern) -> bool {
    let never = never();
    let path = pattern.to_string();
    let is_it = |it: &str| never.iter().any(|never| never.matches(it));
    pattern.is_path() && above(&path).any(is_it)
}

/// What a rule comes to; none where that cannot be told.
pub fn outlook(host: &Host, rule: &GuardRule) -> Option<Outlook> {
    let selection = Selection {
        named: &rule.end,
        protect: &rule.protect,
        ..Selection::default()
    };
    groups::outlook(host, selection)
}

/// What `end` and `protect` name and no group is called, a line each.
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

/// What the first thread says that has memory.
fn thread_status(host: &Host, pid: u32) -> Option<String> {
    let threads = host.folders(Path::new(&format!("/proc/{pid}/task"))).ok()?;
    let read = |it: PathBuf| host.read(it.join("status")).ok();
    let mut all = threads.into_iter().take(THREADS_MAX).filter_map(read);
    all.find(|text| process::status(text, "VmRSS").is_some())
}

/// What `/proc/PID/status` says of a process that has memory.
#[derive(Debug)]
pub(crate) struct Status {
    pub name: String,
    pub uid: u32,
    /// What comes back when it ends, and with its files in memory.
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
        // A thread of the kernel has none.
        let resident = kib("VmRSS")?;
        let anonymous = kib("RssAnon").unwrap_or(resident) << 10;
        let gives_bytes = anonymous + of("VmSwap") + of("VmPTE");
        let mut spaces = field("NSpid").unwrap_or_default().split_whitespace();
        Some(Status {
            name: field("Name").unwrap_or_default().to_owned(),
            uid: field("Uid")?.split_whitespace().next()?.parse().ok()?,
            gives_bytes,
            holds_bytes: gives_bytes + of("RssShmem"),
            is_init: spaces.next().is_some() && spaces.last() == Some("1"),
            parent: field("PPid").and_then(|it| it.parse().ok()).unwrap_or(0),
        })
    }
}
