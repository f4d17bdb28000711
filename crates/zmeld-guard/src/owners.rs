//! Who holds memory: users, services and containers of the system, pods, machines, and users
//! by their number where there are no groups. Each is one, whatever groups he makes below his own.
//!
//! They are found by a thread of ordinary priority, since that takes time and memory, as much as
//! whoever makes groups wants it to.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zmeld_linux::amount::bytes_text;
use zmeld_linux::groups::{self, GroupPattern, Hierarchy, Outlook, Selection, Version, Walk};
use zmeld_linux::{pressure, process, Host, HostError};

use crate::choice::Right;
use crate::event::Report;
use crate::meter::Meter;
use crate::open::touched;
use crate::processes::list_owner;
use crate::{Error, GuardRule};

/// No more owners are followed, the largest ones.
pub(crate) const OWNERS_MAX: usize = 512;
/// Owners are no deeper.
const DEPTH_MAX: usize = 8;
/// Of an owner so many groups are passed over, and so many of all: a name shields nobody.
const PASSED_MAX: usize = 32;
const PASSED_ALL: usize = 1024;
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
const NOT_NAMED: &str = "[watch.guard] end does not name it";

/// What an owner is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A group's directory.
    Group(PathBuf),
    /// A user's number: his processes that are in no owner's group.
    User(u32),
}

/// Who holds memory.
#[derive(Debug)]
pub(crate) struct Owner {
    pub id: u64,
    pub place: Arc<Place>,
    pub shown: Arc<str>,
    pub right: Right,
    /// His `OOMScoreAdjust=`, in thousandths of memory.
    pub shift: i64,
    /// He waits for memory himself, as far as that is known.
    pub is_stalled: bool,
    pub meter: Meter,
}

/// A group of an owner that is passed over as long as it does not run away itself.
#[derive(Debug)]
pub(crate) struct PassedOver {
    pub id: u64,
    pub owner: Arc<Place>,
    pub meter: Meter,
}

/// What a path or an owner is known by where no memory may be taken.
pub(crate) fn id(of: &(impl Hash + ?Sized)) -> u64 {
    let mut id = DefaultHasher::new();
    of.hash(&mut id);
    id.finish()
}

/// What the rule says of groups, where they are.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pub host: Host,
    /// None where no group counts memory.
    pub hierarchy: Option<Hierarchy>,
    /// Where their processes are listed: systemd's own groups, where version 1 counts memory.
    lists: PathBuf,
    end: Vec<GroupPattern>,
    protect: Vec<GroupPattern>,
    never: Vec<GroupPattern>,
    own: Option<PathBuf>,
}

/// What the rule and its extended attributes say of a group below an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Plain,
    Avoided,
    Passed,
}

impl Groups {
    pub fn find(host: &Host, rule: &GuardRule) -> Result<Groups, Error> {
        let hierarchy = Hierarchy::find(host)?;
        let top = hierarchy.as_ref().map(|it| it.top.clone());
        let mut lists = top.unwrap_or_default();
        if hierarchy
            .as_ref()
            .is_some_and(|it| it.version == Version::One)
        {
            let systemd = ["unified", "systemd"].map(|it| lists.with_file_name(it));
            let mut systemd = systemd.into_iter();
            let found = systemd.find(|it| host.exists(it.join("user.slice/cgroup.procs")));
            lists = found.unwrap_or(lists);
        }
        let own = hierarchy.as_ref().map(|it| it.group_of(host, "self"));
        let own = own.transpose()?;
        Ok(Groups {
            own: own.flatten(),
            host: host.clone(),
            lists,
            hierarchy,
            end: rule.end.clone(),
            protect: rule.protect.clone(),
            never: never(),
        })
    }

    /// Where a group's processes are listed.
    pub fn list(&self, directory: &Path) -> PathBuf {
        let below = self
            .hierarchy
            .as_ref()
            .map(|it| directory.strip_prefix(&it.top));
        let list = below.and_then(Result::ok).map(|it| self.lists.join(it));
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
    fn has_attribute(&self, directory: &Path, name: &str, owner: u32) -> bool {
        let path = self.host.path(directory);
        let root = self.host.root().metadata().map_or(0, |it| it.uid());
        let mut value = [0; 8];
        let is_set =
            rustix::fs::getxattr(&path, name, &mut value[..]).is_ok_and(|it| &value[..it] == b"1");
        is_set
            && path
                .metadata()
                .is_ok_and(|it| it.uid() == root || it.uid() == owner)
    }

    /// What becomes of a group below the owner whose group that user owns.
    pub fn standing(&self, directory: &Path, shown: &str, owner: u32) -> Standing {
        let mut passed = self.protect.iter().chain(&self.never);
        match () {
            () if passed.any(|it| it.matches(shown)) => Standing::Passed,
            () if self.has_attribute(directory, "user.oomd_omit", owner) => Standing::Passed,
            () if self.has_attribute(directory, "user.oomd_avoid", owner) => Standing::Avoided,
            () => Standing::Plain,
        }
    }

    /// Whether `end` is for that group itself; and for it, by one above it, too.
    pub fn is_named(&self, shown: &str) -> bool {
        self.end.is_empty() || self.end.iter().any(|it| it.matches(shown))
    }

    pub fn is_named_above(&self, shown: &str) -> bool {
        above(shown).any(|it| self.is_named(it))
    }

    /// The user who owns an owner's group.
    pub fn uid(&self, directory: &Path) -> u32 {
        let manager = directory.file_name().and_then(|it| it.to_str());
        let uid = manager.and_then(|it| it.strip_prefix("user-")?.strip_suffix(".slice"));
        uid.and_then(|it| it.parse().ok()).unwrap_or(u32::MAX)
    }

    /// Whether an owner may be ended, without what is below him.
    fn right(&self, directory: &Path, shown: &str) -> Right {
        let is_any = |all: &[GroupPattern]| {
            above(shown).any(|it| all.iter().any(|pattern| pattern.matches(it)))
        };
        match () {
            () if self.own.as_deref() == Some(directory) => Right::Kept("it is zmeld's own"),
            () if is_any(&self.never) => Right::Kept("it is needed to get at the machine"),
            () if is_any(&self.protect) => Right::Kept("[watch.guard] protect names it"),
            () if self.has_attribute(directory, "user.oomd_omit", u32::MAX) => {
                Right::Kept("ManagedOOMPreference=omit")
            }
            () if !self.is_named_above(shown) => Right::Kept(NOT_NAMED),
            () if self.has_attribute(directory, "user.oomd_avoid", u32::MAX) => Right::Avoided,
            () => Right::Ended,
        }
    }
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
    groups::outlook(
        host,
        Selection {
            named: &rule.end,
            protect: &rule.protect,
            ..Selection::default()
        },
    )
}

/// Who holds memory, the largest first, a line each: what he holds, whether he may be ended, and
/// which of his processes would go first.
///
/// # Errors
/// When the machine cannot be looked at.
pub fn overview(host: &Host, rule: &GuardRule) -> Result<Vec<String>, Error> {
    let mut found = Found::default();
    Finder::new(host.clone(), rule.clone()).look(Instant::now(), &mut found)?;
    let groups = Groups::find(host, rule)?;
    let line = |owner: &Owner| {
        let held = bytes_text(owner.meter.now.all_bytes as f64);
        if let Right::Kept(why) = owner.right {
            return format!("{} holds {held}; it is not ended: {why}", owner.shown);
        }
        let mut processes = Vec::new();
        list_owner(&groups, &owner.place, &mut processes);
        let first = processes.iter().find(|it| it.passed.is_none());
        let first = first.map_or("nothing of it may be ended".to_owned(), |it| {
            format!(
                "{} ({}), oom_score {}, would go first",
                it.name, it.pid, it.score
            )
        });
        format!("{} holds {held}; {first}", owner.shown)
    };
    Ok(found.owners.iter().map(line).collect())
}

/// A path and those above it.
fn above(shown: &str) -> impl Iterator<Item = &str> {
    let ends = shown.match_indices('/').map(|(at, _)| at).skip(1);
    ends.map(|end| &shown[..end]).chain(std::iter::once(shown))
}

/// All owners, as they were found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub asked: Option<Instant>,
    /// The machine stands still: who waits is asked for.
    pub is_stall: bool,
    pub is_new: bool,
    pub owners: Vec<Owner>,
    pub passed: Vec<PassedOver>,
    pub report: Arc<Report>,
    pub failed: Option<Arc<str>>,
    pub took: Duration,
}

/// Who finds them.
pub(crate) struct Finder {
    host: Host,
    rule: GuardRule,
    groups: Option<Groups>,
    /// Those that were there when they were found last, and when that was.
    known: Option<(HashSet<Arc<Place>>, Instant)>,
    buffer: Vec<u8>,
}

impl Finder {
    pub fn new(host: Host, rule: GuardRule) -> Finder {
        Finder {
            host,
            rule,
            groups: None,
            known: None,
            buffer: touched(),
        }
    }

    pub fn find(&mut self, found: &mut Found) {
        let begin = Instant::now();
        // Before others are opened, so that files do not run out.
        (found.owners, found.passed) = Default::default();
        let result = self.look(found.asked.unwrap_or(begin), found);
        if result.is_err() {
            self.groups = None;
        }
        found.failed = result.err().map(|err| err.to_string().into());
        found.took = begin.elapsed();
        found.is_new = true;
    }

    fn look(&mut self, now: Instant, found: &mut Found) -> Result<(), Error> {
        let groups = match self.groups.take() {
            Some(groups) => groups,
            None => Groups::find(&self.host, &self.rule)?,
        };
        let mut named = HashSet::new();
        if let Some(hierarchy) = &groups.hierarchy {
            self.list(&groups, hierarchy, &hierarchy.top, 0, &mut named, found)?;
        }
        self.add_users(&groups, found)?;
        for owner in &mut found.owners {
            if let Some((known, before)) = &self.known {
                if !known.contains(&owner.place) {
                    owner.meter.began_after(*before);
                }
            }
            owner.meter.look(now, &mut self.buffer);
        }
        for passed in &mut found.passed {
            passed.meter.look(now, &mut self.buffer);
        }
        let owners = &mut found.owners;
        owners.sort_by_key(|it| std::cmp::Reverse(it.meter.now.all_bytes));
        owners.truncate(OWNERS_MAX);
        self.known = Some((owners.iter().map(|it| it.place.clone()).collect(), now));
        let all = |is_kept: bool| {
            let some = owners
                .iter()
                .filter(move |it| matches!(it.right, Right::Kept(_)) == is_kept);
            some.map(|it| it.shown.to_string()).collect()
        };
        let end = self.rule.end.iter().map(ToString::to_string);
        found.report = Arc::new(Report {
            watched: all(false),
            kept: all(true),
            unmatched: end.filter(|it| !named.contains(it)).collect(),
        });
        self.groups = Some(groups);
        Ok(())
    }

    /// Goes through a folder of owners.
    fn list(
        &mut self,
        groups: &Groups,
        hierarchy: &Hierarchy,
        folder: &Path,
        depth: usize,
        named: &mut HashSet<String>,
        found: &mut Found,
    ) -> Result<(), HostError> {
        for directory in self.host.folders(folder)? {
            let shown = hierarchy.shown(&directory);
            self.note_named(&shown, named);
            match depth < DEPTH_MAX && self.is_folder(groups, &directory, &shown) {
                true => self.list(groups, hierarchy, &directory, depth + 1, named, found)?,
                false => self.add(groups, hierarchy, &directory, shown, named, found),
            }
        }
        Ok(())
    }

    fn note_named(&self, shown: &str, named: &mut HashSet<String>) {
        let matching = self.rule.end.iter().filter(|it| it.matches(shown));
        named.extend(matching.map(ToString::to_string));
    }

    /// Whether owners are in that group, rather than that it is one.
    fn is_folder(&self, groups: &Groups, directory: &Path, shown: &str) -> bool {
        let (above, name) = shown.rsplit_once('/').unwrap_or(("", shown));
        let is_pod = name.starts_with("pod") || name.contains("-pod");
        match name.rsplit_once('.').map_or("", |(_, kind)| kind) {
            _ if above.starts_with("/kubepods") => !is_pod,
            "slice" => above != "/user.slice",
            "service" | "scope" | "mount" | "socket" | "swap" => false,
            // What programs of containers make: /docker, /lxc, /kubepods.
            _ if above.is_empty() && !name.starts_with("lxc.") => {
                let list = groups.list(directory);
                let procs = self.host.read_start(&list.join("cgroup.procs"), 16);
                let is_empty = procs.is_ok_and(|it| it.trim_ascii().is_empty());
                is_empty && self.host.folders(directory).is_ok_and(|it| !it.is_empty())
            }
            _ => false,
        }
    }

    fn add(
        &self,
        groups: &Groups,
        hierarchy: &Hierarchy,
        directory: &Path,
        shown: String,
        named: &mut HashSet<String>,
        found: &mut Found,
    ) {
        let Some(meter) = Meter::open(&self.host, hierarchy.version, directory) else {
            return;
        };
        let mut right = groups.right(directory, &shown);
        let place = Arc::new(Place::Group(directory.to_owned()));
        let (uid, mut passed_at) = (groups.uid(directory), None);
        let (first, list) = (found.passed.len(), groups.list(directory));
        let mut walk = Walk::new(&self.host, &list);
        // One that is gone, or cannot be entered, is left out.
        while matches!(
            right,
            Right::Ended | Right::Avoided | Right::Kept(NOT_NAMED)
        ) && walk.next().unwrap_or(false)
        {
            let (depth, path) = (walk.group().depth(), walk.group().path());
            if depth > 0 && passed_at.is_none_or(|at| depth <= at) {
                let (shown, below) = (groups.shown(path), path.strip_prefix(&list));
                let memory = directory.join(below.unwrap_or(Path::new("")));
                self.note_named(&shown, named);
                if !self.rule.end.is_empty()
                    && groups.is_named(&shown)
                    && right == Right::Kept(NOT_NAMED)
                {
                    right = Right::Ended;
                }
                let is_passed = groups.standing(path, &shown, uid) == Standing::Passed;
                passed_at = is_passed.then_some(depth);
                let is_one_more = is_passed
                    && found.passed.len() - first < PASSED_MAX
                    && found.passed.len() < PASSED_ALL;
                let meter =
                    is_one_more.then(|| Meter::open(&self.host, hierarchy.version, &memory));
                if let Some(meter) = meter.flatten() {
                    let (id, owner) = (id(path), place.clone());
                    found.passed.push(PassedOver { id, owner, meter });
                }
            }
            let _ = walk.descend();
        }
        found.owners.push(Owner {
            id: id(&*place),
            shift: self.shift(groups, directory, &shown),
            is_stalled: !found.is_stall || self.is_stalled(directory),
            place,
            shown: shown.into(),
            right,
            meter,
        });
    }

    /// The `OOMScoreAdjust=` of a service of the system: no process of it has a lower one, and
    /// only root could give it one.
    fn shift(&self, groups: &Groups, directory: &Path, shown: &str) -> i64 {
        if !(shown.starts_with("/system.slice/") && shown.ends_with(".service")) {
            return 0;
        }
        let text = self
            .host
            .read_start(&groups.list(directory).join("cgroup.procs"), 512);
        let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default()).into_owned();
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

    /// Users of processes that are in no owner's group.
    fn add_users(&self, groups: &Groups, found: &mut Found) -> Result<(), HostError> {
        let mut users: HashMap<u32, u64> = HashMap::new();
        for pid in groups.unowned()? {
            let Some(status) = Status::read(&self.host, pid) else {
                continue;
            };
            *users.entry(status.uid).or_default() += status.holds_bytes;
        }
        for (uid, bytes) in users {
            let is_named = groups.end.is_empty() || groups.is_named("/");
            let place = Arc::new(Place::User(uid));
            found.owners.push(Owner {
                id: id(&*place),
                place,
                shown: format!("user {uid} outside of all groups").into(),
                right: match is_named {
                    true => Right::Ended,
                    false => Right::Kept(NOT_NAMED),
                },
                shift: 0,
                is_stalled: true,
                meter: Meter::counted(bytes),
            });
        }
        Ok(())
    }
}

impl Groups {
    /// Processes that are in no owner's group: those of the root, or all.
    pub fn unowned(&self) -> Result<Vec<u32>, HostError> {
        match &self.hierarchy {
            None => self.host.processes(),
            Some(it) => {
                let text = self.host.read_optional(it.top.join("cgroup.procs"))?;
                let text = text.unwrap_or_default();
                Ok(text.lines().filter_map(|it| it.parse().ok()).collect())
            }
        }
    }
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
        let kib = |name: &str| -> Option<u64> { field(name)?.strip_suffix(" kB")?.parse().ok() };
        let of = |name: &str| kib(name).unwrap_or(0) << 10;
        // A thread of the kernel has none.
        let resident = kib("VmRSS")? << 10;
        let anonymous = kib("RssAnon").map_or(resident, |it| it << 10);
        let gives_bytes = anonymous + of("VmSwap") + of("VmPTE");
        Some(Status {
            name: field("Name").unwrap_or_default().to_owned(),
            uid: field("Uid")?.split_whitespace().next()?.parse().ok()?,
            gives_bytes,
            holds_bytes: gives_bytes + of("RssShmem"),
            is_init: field("NSpid")
                .is_some_and(|it| it.split_whitespace().skip(1).last() == Some("1")),
            parent: field("PPid").and_then(|it| it.parse().ok()).unwrap_or(0),
        })
    }
}
