//! Memory that was not used for long, by the kernel's multi-generational LRU.
//!
//! Its lists are generations of pages. When a generation begins, the kernel walks the page
//! tables of a control group's processes, and what was used since the last one began is
//! taken into the younger ones. So where generations begin at known times it is known, page
//! by page, for how long nothing was used that page tables map: here they begin twice in the
//! time after which memory is idle, and idle generations alone are reclaimed, the oldest
//! ones first. The kernel looks at each page once more when it takes it, and keeps what
//! processes of its group used meanwhile.
//!
//! Of the page cache that is no age: what is read through descriptors begins in the oldest
//! generation. So only what can be swapped is asked for here. Linux 6.16 has a word for that;
//! before, the kernel goes on with files of a generation once all that can be swapped is gone
//! from it, so that a little is asked for at a time, and no more as soon as less of it went to
//! swap.
//!
//! The kernel is told so in debugfs, for each group and each node by itself. `memory.min`
//! and `memory.low` do not hold there: groups below that have such a promise are left alone, and
//! of one above nothing is taken of what it keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zmeld_linux::lru_gen::{self, GroupGenerations, ENABLED, PATH, WALKS, YOUNGEST};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{counters, Host, HostError, KernelVersion};

use zmeld_config::Span;

use super::group::{beyond_kept, kept, swap_room};
use super::round::Round;

/// Bytes asked of the kernel at a time.
const PIECE_BYTES: u64 = 4 << 20;
const RELEASE: &str = "/proc/sys/kernel/osrelease";
/// As much of the file is read, which tells of some 6,000 groups: what is told behind that is
/// not known. The kernel looks for where it stands each time that it has told a page of it, and
/// any user may have many groups.
const READ_MAX: usize = 2 << 20;
/// Generations begin so many times in the time after which memory is idle.
const IN_IDLE_TIME: u32 = 2;
/// The idle time grows while idle memory comes back, up to so many times.
const WAIT_MAX: u64 = 16;
/// Beginning them takes no larger share of the time than one in so many, for all groups
/// together, since page tables are walked; nor does reading them.
const PAUSE: u32 = 100;
/// For so long it is not asked again whether something of a group may be taken.
const LEFT_ALONE: Duration = Duration::from_secs(60);
/// A group with less has nothing worth a walk.
const WALK_BYTES_MIN: u64 = 1 << 20;
/// Too much came back once in so many times of that length at most, where it was seen how
/// long memory must be idle: after so many without, half of it is tried again.
const CALM: u32 = 16;
/// So many rounds in a row that brought nothing, and there is no more that is idle.
const VAIN_MAX: u32 = 3;
const SINCE_LRU_GEN: KernelVersion = KernelVersion::new(6, 1);
/// Since when a word says that no files are to be taken. Before, the largest number says that
/// they are the last to be taken.
const SINCE_MAX: KernelVersion = KernelVersion::new(6, 16);
/// Pages that the kernel is asked for at a time where it may go on with files: it looks at so
/// many at once itself (`MAX_LRU_BATCH`).
const BATCH_PAGES: u64 = 64;
/// The name space of control groups in which the kernel's paths are those seen here.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// Why it cannot be used here, as far as who asks may look.
pub(super) fn why_not(host: &Host) -> Option<String> {
    let bits = host.read_optional(ENABLED).ok().flatten();
    let bits =
        bits.and_then(|text| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
    match bits {
        None => {
            let release = host.read_optional(RELEASE).ok().flatten();
            let version = release.and_then(|release| KernelVersion::parse(&release));
            let is_older = version.is_some_and(|version| version < SINCE_LRU_GEN);
            let why = match is_older {
                true => "the kernel is older than Linux 6.1, the first with CONFIG_LRU_GEN",
                false if !host.is_here() => {
                    "the copy has no /sys/kernel/mm/lru_gen, or the kernel is built without \
                     CONFIG_LRU_GEN"
                }
                false => "the kernel is built without CONFIG_LRU_GEN",
            };
            return Some(why.to_owned());
        }
        Some(bits) if bits & WALKS != WALKS => {
            return Some(format!(
                "lru_gen is off, or walks no page tables here (echo y > {ENABLED})"
            ))
        }
        Some(_) => {}
    }
    let namespace = std::fs::read_link(host.path("/proc/self/ns/cgroup"));
    if namespace.is_ok_and(|name| name != Path::new(FIRST_NAMESPACE)) {
        return Some("lru_gen names control groups as they are outside of this container".into());
    }
    match host.read_start(Path::new(PATH), 1) {
        Ok(_) => None,
        Err(err) if zmeld_linux::error::is_absent(&err.cause) => Some(format!(
            "{PATH} is not there (mount -t debugfs none /sys/kernel/debug)"
        )),
        Err(err) if err.cause.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => None,
        // A kernel that is locked down shows it to nobody.
        Err(err) => Some(format!("lru_gen is not available: {err}")),
    }
}

/// Returns true if the kernel's refusal is lasting.
pub(super) fn is_lasting(err: &HostError) -> bool {
    err.is_any(&[Errno::PERM, Errno::ACCESS, Errno::ROFS])
}

#[derive(Debug)]
pub(super) struct LruGenSnapshot {
    /// Of each place, by its path: those with that path, and those below it.
    groups: BTreeMap<PathBuf, Vec<GroupGenerations>>,
    pub has_swap: bool,
    /// The kernel can be told to take no files.
    is_without_files: bool,
    /// It is longer than what is read of it.
    pub is_cut: bool,
}

impl LruGenSnapshot {
    /// Reads the generations of those groups and of the groups below them.
    pub fn read(host: &Host, paths: &BTreeSet<&Path>) -> Result<LruGenSnapshot, HostError> {
        let memory = host.read_optional(meminfo::PATH)?.unwrap_or_default();
        let free = Meminfo::new(&memory).bytes("SwapFree");
        let release = host.read_optional(RELEASE)?.unwrap_or_default();
        let is_new = KernelVersion::parse(&release).is_some_and(|it| it >= SINCE_MAX);
        let mut text = host.read_start(Path::new(PATH), READ_MAX)?;
        let is_cut = text.len() == READ_MAX;
        if is_cut {
            // The last one may not be told to its end.
            let last = text.windows(6).rposition(|six| six == b"memcg ");
            text.truncate(last.unwrap_or(0));
        }
        // No place is below another, so that the last one that is not behind it is the one.
        let place_of = |group: &Path| {
            let before = (Bound::Unbounded, Bound::Included(group));
            let place = paths.range::<Path, _>(before).next_back();
            place.filter(|place| group.starts_with(place))
        };
        let mut groups: BTreeMap<PathBuf, Vec<GroupGenerations>> = BTreeMap::new();
        for group in lru_gen::parse(&text, |group| place_of(group).is_some()) {
            if let Some(place) = place_of(&group.path) {
                groups.entry(place.to_path_buf()).or_default().push(group);
            }
        }
        Ok(LruGenSnapshot {
            groups,
            has_swap: free.is_some_and(|bytes| bytes > 0),
            is_without_files: is_new,
            is_cut,
        })
    }

    /// How the kernel is told to take what can be swapped, before files or without any.
    fn no_files(&self) -> &'static str {
        match self.is_without_files {
            true => "max",
            false => "200",
        }
    }

    fn piece_bytes(&self) -> u64 {
        match self.is_without_files {
            true => PIECE_BYTES,
            false => BATCH_PAGES * rustix::param::page_size() as u64,
        }
    }

    /// Those with that path, and those below it.
    fn of(&self, path: &Path) -> &[GroupGenerations] {
        self.groups.get(path).map_or(&[], Vec::as_slice)
    }

    /// Returns true if that path was cut off the reading.
    pub fn cuts_off(&self, path: &Path) -> bool {
        self.is_cut && self.of(path).is_empty()
    }
}

/// Budget of all groups' walks and reads: 1 % of the time each.
#[derive(Debug, Default)]
pub(super) struct Walks {
    /// When page tables may be walked again, of whatever group.
    next: Option<Instant>,
    /// When generations may be read again.
    next_read: Option<Instant>,
    /// Groups that are not walked, and until when that is not asked again.
    left_alone: BTreeMap<u64, Instant>,
}

impl Walks {
    pub fn may_read(&self, now: Instant) -> bool {
        self.next_read.is_none_or(|next| next <= now)
    }

    /// Reading them took so long.
    pub fn have_read(&mut self, took: Duration, now: Instant) {
        let next = self.next_read.map_or(now, |next| next.max(now));
        self.next_read = Some(next + took * PAUSE);
    }

    /// Begins generations where they are due, where that is the longest ago, first; how many
    /// began is counted.
    pub fn begin(
        &mut self,
        mut due: Vec<Due>,
        begun: &mut usize,
        round: &Round,
    ) -> Result<(), HostError> {
        let now = round.now;
        self.left_alone.retain(|_, until| now < *until);
        due.retain(|due| !self.left_alone.contains_key(&due.id));
        due.sort_by(|one, other| other.times.total_cmp(&one.times));
        let mut promised = BTreeMap::new();
        let mut failed = Ok(());
        for due in &due {
            if self.next.is_some_and(|next| now < next) || round.is_over() {
                break;
            }
            match due.is_in_vain(round.host, &mut promised) {
                Ok(false) => {}
                Ok(true) => {
                    self.left_alone.insert(due.id, now + LEFT_ALONE);
                    continue;
                }
                Err(err) => {
                    failed = failed.and(Err(err));
                    continue;
                }
            }
            // Both kinds of pages, and all page tables, though there is no room for
            // another one.
            let order = format!("+ {} {} {} 1 1", due.id, due.node, due.youngest);
            let began = round.host.now();
            let done = is_done(round.host.write(PATH, &order));
            self.next = Some(now + (round.host.now() - began) * PAUSE);
            *begun += usize::from(matches!(done, Ok(true)));
            failed = failed.and(done.map(|_| ()));
        }
        failed
    }
}

/// A group's node of memory in which a generation is to begin.
#[derive(Debug)]
pub(super) struct Due {
    /// The place's directory.
    group: PathBuf,
    /// The group's from there on.
    rest: PathBuf,
    id: u64,
    node: u32,
    youngest: u64,
    /// So many times as old as it is to become.
    times: f64,
}

impl Due {
    /// Whether nothing may be taken of it.
    fn is_in_vain(
        &self,
        host: &Host,
        promised: &mut BTreeMap<PathBuf, bool>,
    ) -> Result<bool, HostError> {
        let folder = folder(&self.group, &self.rest);
        Ok(swap_room(host, &folder)? == 0
            || beyond_kept(host, &self.group)? == 0
            || is_promised(host, &self.group, &self.rest, promised)?)
    }
}

/// A group's directory, from that of the place on.
fn folder(place: &Path, rest: &Path) -> PathBuf {
    match rest.as_os_str().is_empty() {
        true => place.to_owned(),
        false => place.join(rest),
    }
}

#[derive(Debug)]
pub(super) struct Generations {
    /// As the kernel tells it, from the root of the hierarchy on.
    path: PathBuf,
    /// After how many milliseconds memory is idle.
    idle_ms: u64,
    /// As the rule has it, which is the least.
    rule_ms: u64,
    /// Something was taken since that was changed.
    has_taken: bool,
    changed: Option<Instant>,
    /// When too much came back, or it was changed.
    not_calm: Option<Instant>,
    /// Rounds in a row that brought nothing.
    in_vain: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes asked for that went to swap meanwhile.
    pub bytes: u64,
    /// The group became smaller, or has more in swap.
    pub is_seen: bool,
    /// Bytes asked for, or gone if more: the step is spent by them.
    spent: u64,
}

struct Idle {
    folder: PathBuf,
    group: u64,
    node: u32,
    generation: u64,
    idle_ms: u64,
    pages: u64,
}

impl Generations {
    pub fn new(path: PathBuf, idle_after: Duration) -> Generations {
        let rule_ms = u64::try_from(idle_after.as_millis()).unwrap_or(u64::MAX);
        Generations {
            path,
            idle_ms: rule_ms,
            rule_ms,
            has_taken: false,
            changed: None,
            not_calm: None,
            in_vain: 0,
        }
    }

    /// Too much came back. Where that may be what was taken for being idle for so long, it takes
    /// twice as long from now on, up to a bound: after how long that is.
    pub fn came_back(&mut self, now: Instant) -> Option<Span> {
        self.not_calm = Some(now);
        // Memory that comes back at once was taken before the change.
        let is_shown = self.has_taken && self.is_past(self.changed, 1, now);
        let most = self.rule_ms.saturating_mul(WAIT_MAX);
        if !is_shown || self.idle_ms >= most {
            return None;
        }
        let longer = self.idle_ms.saturating_mul(2).min(most);
        self.change(longer, now);
        Some(self.idle_after())
    }

    /// Takes back some of that where nothing too much came back for long.
    pub fn calm_down(&mut self, now: Instant) {
        if self.idle_ms > self.rule_ms && self.is_past(self.not_calm, CALM, now) {
            self.change((self.idle_ms / 2).max(self.rule_ms), now);
        }
    }

    /// After how long memory is idle.
    pub fn idle_after(&self) -> Span {
        Span::seconds(u32::try_from(self.idle_ms / 1000).unwrap_or(u32::MAX))
    }

    /// [`Self::idle_after`] in seconds, where it is longer than the rule has it.
    pub fn longer_s(&self) -> Option<u64> {
        (self.idle_ms > self.rule_ms).then_some(self.idle_ms / 1000)
    }

    /// Goes on with what a watch before learnt, within the bound.
    pub fn go_on(&mut self, idle_s: u64, now: Instant) {
        let longest = self.rule_ms.saturating_mul(WAIT_MAX);
        let idle_ms = idle_s.saturating_mul(1000).clamp(self.rule_ms, longest);
        self.change(idle_ms, now);
    }

    fn change(&mut self, idle_ms: u64, now: Instant) {
        self.idle_ms = idle_ms;
        self.has_taken = false;
        self.changed = Some(now);
        self.not_calm = Some(now);
    }

    /// Whether so many times of that length have passed since then.
    fn is_past(&self, since: Option<Instant>, times: u32, now: Instant) -> bool {
        let length = Duration::from_millis(self.idle_ms).saturating_mul(times);
        since.is_none_or(|since| now.duration_since(since) >= length)
    }

    /// Whether too many rounds in a row brought nothing of what was asked for.
    pub fn is_in_vain(&mut self, taken: Taken) -> bool {
        match taken.is_seen {
            true => self.in_vain = 0,
            false => self.in_vain += u32::from(taken.spent > 0),
        }
        let is_so = self.in_vain >= VAIN_MAX;
        self.in_vain %= VAIN_MAX;
        is_so
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Nodes of groups whose youngest generation is old enough for the next.
    pub fn due(&self, told: &LruGenSnapshot, group: &Path) -> Vec<Due> {
        let page = rustix::param::page_size() as u64;
        let length_ms = (self.idle_ms / u64::from(IN_IDLE_TIME)).max(1);
        let mut all = Vec::new();
        for below in told.of(&self.path) {
            let rest = below.path.strip_prefix(&self.path).unwrap_or(&below.path);
            for node in &below.nodes {
                let pages: u64 = node.generations.iter().map(|it| it.anonymous_pages).sum();
                let youngest = node.generations.last();
                let Some(youngest) = youngest.filter(|it| it.age_ms >= length_ms) else {
                    continue;
                };
                if pages * page < WALK_BYTES_MIN {
                    continue;
                }
                all.push(Due {
                    group: group.to_owned(),
                    rest: rest.to_owned(),
                    id: below.id,
                    node: node.node,
                    youngest: youngest.number,
                    times: youngest.age_ms as f64 / length_ms as f64,
                });
            }
        }
        all
    }

    /// Reclaims so many bytes of what is idle, no more than that is asked for; what came of it
    /// is noted.
    pub fn reclaim(
        &mut self,
        told: &LruGenSnapshot,
        group: &Path,
        wanted: u64,
        round: &Round,
        taken: &mut Taken,
    ) -> Result<(), HostError> {
        let host = round.host;
        let page = rustix::param::page_size() as u64;
        for idle in self.idle(told, group, round)? {
            let mut left = (idle.pages * page).min(swap_room(host, &idle.folder)?);
            let mut before = GroupUsage::read(host, &idle.folder, told)?;
            while left > 0 && taken.spent < wanted && !round.is_over() {
                let pages = left
                    .min(told.piece_bytes())
                    .min(wanted - taken.spent)
                    .div_ceil(page);
                let piece = pages * page;
                let order = format!(
                    "- {} {} {} {} {pages}",
                    idle.group,
                    idle.node,
                    idle.generation,
                    told.no_files(),
                );
                if !is_done(host.write(PATH, &order))? {
                    break;
                }
                let after = GroupUsage::read(host, &idle.folder, told)?;
                // Less of it where some came back meanwhile or was freed.
                let gone = after.swap_bytes.saturating_sub(before.swap_bytes);
                let is_seen = gone > 0 || after.memory_bytes < before.memory_bytes;
                taken.bytes += gone.min(piece);
                taken.spent += gone.max(piece);
                taken.is_seen |= is_seen;
                self.has_taken |= is_seen;
                // The rest was used meanwhile, or finds no room.
                let is_over = match told.is_without_files {
                    true => !is_seen,
                    false => gone < piece || after.file_bytes < before.file_bytes,
                };
                if is_over {
                    break;
                }
                left = left.saturating_sub(piece);
                before = after;
            }
        }
        Ok(())
    }

    /// Idle generations, the longest idle first.
    fn idle(
        &self,
        told: &LruGenSnapshot,
        group: &Path,
        round: &Round,
    ) -> Result<Vec<Idle>, HostError> {
        let mut promised = BTreeMap::new();
        let mut all = Vec::new();
        for below in told.of(&self.path) {
            if round.is_over() {
                break;
            }
            let rest = below.path.strip_prefix(&self.path).unwrap_or(&below.path);
            let before = all.len();
            for node in &below.nodes {
                let may_go = node.generations.len().saturating_sub(YOUNGEST);
                // Up to Linux 6.13 what can be swapped of a generation is reached when no older
                // one has files any more: those would be taken for it.
                let mut is_reached = true;
                for (it, idle_ms) in node.idle().take(may_go) {
                    if is_reached && idle_ms >= self.idle_ms && it.anonymous_pages > 0 {
                        all.push(Idle {
                            folder: folder(group, rest),
                            group: below.id,
                            node: node.node,
                            generation: it.number,
                            idle_ms,
                            pages: it.anonymous_pages,
                        });
                    }
                    is_reached &= told.is_without_files || it.file_pages == 0;
                }
            }
            if all.len() > before && is_promised(round.host, group, rest, &mut promised)? {
                all.truncate(before);
            }
        }
        all.sort_by_key(|idle| std::cmp::Reverse(idle.idle_ms));
        Ok(all)
    }
}

/// Whether `memory.min` or `memory.low` keeps memory of a group below that one, or of one in
/// between. `below`: from there on.
fn is_promised(
    host: &Host,
    group: &Path,
    below: &Path,
    known: &mut BTreeMap<PathBuf, bool>,
) -> Result<bool, HostError> {
    let Some(above) = below.parent() else {
        return Ok(false);
    };
    let folder = group.join(below);
    if let Some(known) = known.get(&folder) {
        return Ok(*known);
    }
    // A group whose files are not seen counts as one that keeps memory.
    let is_kept =
        is_promised(host, group, above, known)? || kept(host, &folder)?.is_none_or(|kept| kept > 0);
    known.insert(folder, is_kept);
    Ok(is_kept)
}

#[derive(Debug, Clone, Copy)]
struct GroupUsage {
    /// To the page; that of groups below is in it.
    swap_bytes: u64,
    memory_bytes: u64,
    /// As of up to 2 s ago; 0 where no files go.
    file_bytes: u64,
}

impl GroupUsage {
    fn read(host: &Host, folder: &Path, told: &LruGenSnapshot) -> Result<GroupUsage, HostError> {
        let number = |file: &str| Ok::<_, HostError>(host.number(folder.join(file))?.unwrap_or(0));
        let mut file_bytes = 0;
        if !told.is_without_files {
            let stat = host.read_optional(folder.join("memory.stat"))?;
            let stat = stat.unwrap_or_default();
            // Not `file`: memory of tmpfs is in that, too.
            let of_list = |name: &str| counters::count(&stat, name);
            file_bytes = of_list("active_file") + of_list("inactive_file");
        }
        Ok(GroupUsage {
            swap_bytes: number("memory.swap.current")?,
            memory_bytes: number("memory.current")?,
            file_bytes,
        })
    }
}

/// Whether it was carried out. What was told is old where the kernel has begun or emptied
/// generations itself meanwhile, or walks just now, or the group has ended: nothing is done
/// then.
fn is_done(written: Result<(), HostError>) -> Result<bool, HostError> {
    let passing = [Errno::INVAL, Errno::RANGE, Errno::EXIST, Errno::INTR];
    match written {
        Ok(()) => Ok(true),
        Err(err) if err.is_any(&passing) => Ok(false),
        Err(err) => Err(err),
    }
}
