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
//! generation. So only what can be swapped is taken here.
//!
//! The kernel is told so in debugfs, for each group and each node by itself. `memory.min`
//! and `memory.low` do not hold there: groups below that have such a promise are left alone.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use zmeld_linux::lru_gen::{self, Group, Node, ENABLED, PATH, WALKS, YOUNGEST};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::{counters, Host, HostError, KernelVersion};

use crate::config::Span;

use super::{Place, Round, Way, PIECE_BYTES, RELEASE};

/// As much of the file is read: what is told of groups behind that is not known.
const READ_MAX: usize = 16 << 20;
/// Generations begin so many times in the time after which memory is idle.
const IN_IDLE_TIME: u32 = 2;
/// Where what was idle comes back it must have been idle for longer, up to so many times.
const WAIT_MAX: u32 = 16;
/// Beginning them takes no larger share of the time than one in so many, for all groups
/// together: page tables are walked.
const WALK_PAUSE: u32 = 100;
/// A group with less has nothing worth a walk.
const WALK_BYTES_MIN: u64 = 1 << 20;
/// Since when a word says that no files are to be taken; before, the largest number does.
const SINCE_MAX: KernelVersion = KernelVersion::new(6, 16);
/// The name space of control groups in which the kernel's paths are those seen here.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// Why it cannot be used here.
pub(super) fn why_not(host: &Host) -> Option<String> {
    match enabled(host) {
        None => return Some("the kernel has no lru_gen (Linux 6.1, CONFIG_LRU_GEN)".to_owned()),
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
        Err(err) if zmeld_linux::host::is_absent(&err.cause) => Some(format!(
            "{PATH} is not there (mount -t debugfs none /sys/kernel/debug)"
        )),
        // A kernel that is locked down shows it to nobody.
        Err(err) => Some(format!("lru_gen is not to be had: {err}")),
    }
}

/// Which parts of it are on.
pub(super) fn enabled(host: &Host) -> Option<u64> {
    let text = host.read_optional(ENABLED).ok().flatten()?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

/// Whether the kernel refuses what it is told for good.
pub(super) fn is_lasting(err: &HostError) -> bool {
    let HostError::File(err) = err else {
        return false;
    };
    let lasting = [Errno::PERM, Errno::ACCESS, Errno::ROFS, Errno::NOENT];
    is_one_of(&err.cause, &lasting)
}

/// What the kernel told in this round.
#[derive(Debug)]
pub(super) struct Told {
    groups: Vec<Group>,
    has_swap: bool,
    /// How the kernel is told to take what can be swapped, and no files.
    no_files: &'static str,
}

impl Told {
    /// What it tells of those places and of what is below them.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read<'a>(
        host: &Host,
        places: impl Iterator<Item = &'a Place> + Clone,
    ) -> Result<Told, HostError> {
        let memory = host.read_optional(meminfo::PATH)?.unwrap_or_default();
        let free = Meminfo::new(&memory).bytes("SwapFree");
        let text = host.read_start(Path::new(PATH), READ_MAX)?;
        let release = host.read_optional(RELEASE)?.unwrap_or_default();
        let is_new = KernelVersion::parse(&release).is_some_and(|it| it >= SINCE_MAX);
        let is_wanted = |group: &Path| {
            places.clone().any(|place| match &place.way {
                Way::Generations(path) => group.starts_with(path),
                Way::Group | Way::Processes(_) => false,
            })
        };
        Ok(Told {
            groups: lru_gen::parse(&text, is_wanted),
            has_swap: free.is_some_and(|bytes| bytes > 0),
            no_files: if is_new { "max" } else { "200" },
        })
    }

    /// Those with that path, and those below it.
    fn of<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Group> {
        let groups = self.groups.iter();
        groups.filter(move |group| group.path.starts_with(path))
    }
}

/// When page tables may be walked again, of whatever group.
#[derive(Debug, Default)]
pub(super) struct Walks {
    next: Option<Instant>,
}

/// A control group, and the groups below it.
#[derive(Debug)]
pub(super) struct Generations {
    /// As the kernel tells it, from the root of the hierarchy on.
    path: PathBuf,
    /// After how many milliseconds memory is idle.
    idle_ms: u64,
    /// No longer than that.
    idle_max_ms: u64,
}

/// Pages that may be reclaimed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Idle {
    /// Where its counters are.
    folder: PathBuf,
    group: u64,
    node: u32,
    generation: u64,
    idle_ms: u64,
    pages: u64,
}

impl Generations {
    pub fn new(path: PathBuf, idle_after: Duration) -> Generations {
        Generations {
            path,
            idle_ms: u64::try_from(idle_after.as_millis()).unwrap_or(u64::MAX),
            idle_max_ms: u64::try_from((idle_after * WAIT_MAX).as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Too much came back of what was idle for so long: from now on it takes twice as long,
    /// up to a bound. After how long that is.
    pub fn wait_longer(&mut self) -> Span {
        self.idle_ms = self.idle_ms.saturating_mul(2).min(self.idle_max_ms);
        Span::seconds(u32::try_from(self.idle_ms / 1000).unwrap_or(u32::MAX))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins generations where the youngest one is old enough; whether any began.
    ///
    /// # Errors
    /// What the kernel refused first; the others were told nevertheless.
    pub fn begin(
        &self,
        host: &Host,
        told: &Told,
        walks: &mut Walks,
        round: &Round,
    ) -> Result<bool, HostError> {
        let page = rustix::param::page_size() as u64;
        let (mut has_begun, mut failed) = (false, Ok(()));
        for group in told.of(&self.path) {
            for node in &group.nodes {
                let pages: u64 = node.generations.iter().map(|it| it.anonymous_pages).sum();
                let youngest = node.generations.last();
                let is_old = |age_ms: u64| age_ms >= self.idle_ms / u64::from(IN_IDLE_TIME);
                let Some(youngest) = youngest.filter(|it| is_old(it.age_ms)) else {
                    continue;
                };
                let now = round.by_now();
                if walks.next.is_some_and(|next| now < next) || round.is_over() {
                    return failed.map(|()| has_begun);
                }
                if pages * page < WALK_BYTES_MIN {
                    continue;
                }
                // Both kinds of pages, and all page tables, though there is no room for
                // another one: then the two oldest ones become one.
                let order = format!("+ {} {} {} 1 1", group.id, node.node, youngest.number);
                let began = Instant::now();
                let done = is_done(host.write(PATH, &order));
                walks.next = Some(now + began.elapsed() * WALK_PAUSE);
                has_begun |= matches!(done, Ok(true));
                failed = failed.and(done.map(|_| ()));
            }
        }
        failed.map(|()| has_begun)
    }

    /// Reclaims so many bytes of what is idle; how many that were, and whether all that is
    /// idle was asked for in vain.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn reclaim(
        &self,
        host: &Host,
        told: &Told,
        group: &Path,
        wanted: u64,
        round: &Round,
    ) -> Result<(u64, bool), HostError> {
        let page = rustix::param::page_size() as u64;
        let (mut taken, mut has_asked) = (0, false);
        for idle in self.idle(host, told, group, round)? {
            let room = swap_room(host, &idle.folder)?;
            let mut left = (idle.pages * page).min(room);
            while left > 0 && taken < wanted && !round.is_over() {
                let piece = left.min(PIECE_BYTES).min(wanted - taken);
                let order = format!(
                    "- {} {} {} {} {}",
                    idle.group,
                    idle.node,
                    idle.generation,
                    told.no_files,
                    piece.div_ceil(page)
                );
                let before = stolen(host, &idle.folder)?;
                let is_done = is_done(host.write(PATH, &order))?;
                let done = stolen(host, &idle.folder)?.saturating_sub(before) * page;
                has_asked |= is_done;
                taken += done;
                // What is left of it was used meanwhile, or finds no room.
                if !is_done || done == 0 {
                    break;
                }
                left -= piece;
            }
        }
        Ok((taken, has_asked && taken == 0))
    }

    /// What is idle, that for the longest time first.
    fn idle(
        &self,
        host: &Host,
        told: &Told,
        group: &Path,
        round: &Round,
    ) -> Result<Vec<Idle>, HostError> {
        let mut promised = BTreeMap::new();
        let mut all = Vec::new();
        if !told.has_swap {
            return Ok(all);
        }
        for below in told.of(&self.path) {
            if round.is_over() {
                break;
            }
            let rest = below.path.strip_prefix(&self.path).unwrap_or(&below.path);
            let idle = below
                .nodes
                .iter()
                .flat_map(|node| idle_of(node, self.idle_ms));
            let folder = match rest.as_os_str().is_empty() {
                true => group.to_owned(),
                false => group.join(rest),
            };
            let idle: Vec<Idle> = idle
                .map(|idle| Idle {
                    folder: folder.clone(),
                    group: below.id,
                    ..idle
                })
                .collect();
            if !idle.is_empty() && !is_promised(host, group, rest, &mut promised)? {
                all.extend(idle);
            }
        }
        all.sort_by_key(|idle| std::cmp::Reverse(idle.idle_ms));
        Ok(all)
    }
}

/// What of a node's memory is idle for so long, and can be swapped.
fn idle_of(node: &Node, old_ms: u64) -> impl Iterator<Item = Idle> + '_ {
    let may_go = node.generations.len().saturating_sub(YOUNGEST);
    let all = node.idle().take(may_go);
    let idle = all.filter(move |(it, idle_ms)| *idle_ms >= old_ms && it.anonymous_pages > 0);
    idle.map(|(generation, idle_ms)| Idle {
        folder: PathBuf::new(),
        group: 0,
        node: node.node,
        generation: generation.number,
        idle_ms,
        pages: generation.anonymous_pages,
    })
}

/// Whether `memory.min` or `memory.low` keeps memory of a group below that one, or of one in
/// between. `below`: from there on.
fn is_promised<'a>(
    host: &Host,
    group: &Path,
    below: &'a Path,
    known: &mut BTreeMap<&'a Path, bool>,
) -> Result<bool, HostError> {
    let Some(above) = below.parent() else {
        return Ok(false);
    };
    if let Some(known) = known.get(below) {
        return Ok(*known);
    }
    let mut is_kept = is_promised(host, group, above, known)?;
    for file in ["memory.min", "memory.low"] {
        let kept = host.read_optional(group.join(below).join(file))?;
        // Of one that is not seen nobody knows.
        is_kept |= kept.is_none_or(|kept| kept.trim() != "0");
    }
    known.insert(below, is_kept);
    Ok(is_kept)
}

/// How many bytes a group may have in swap besides, by its own limit and by those above it.
fn swap_room(host: &Host, folder: &Path) -> Result<u64, HostError> {
    let mut room = u64::MAX;
    for folder in folder.ancestors() {
        // The root has none.
        let Some(max) = host.read_optional(folder.join("memory.swap.max"))? else {
            break;
        };
        // What is no number is no limit.
        if let Ok(max) = max.trim().parse::<u64>() {
            let has = host.read_optional(folder.join("memory.swap.current"))?;
            let has = has.and_then(|has| has.trim().parse().ok()).unwrap_or(0);
            room = room.min(max.saturating_sub(has));
        }
    }
    Ok(room)
}

/// Pages of a group that were reclaimed, in all.
fn stolen(host: &Host, folder: &Path) -> Result<u64, HostError> {
    let stat = host.read_optional(folder.join("memory.stat"))?;
    Ok(stat
        .and_then(|stat| counters::value(&stat, "pgsteal"))
        .unwrap_or(0))
}

/// Whether it was carried out. What was told is old where the kernel has begun or emptied
/// generations itself meanwhile, or walks just now, or the group has ended: nothing is done
/// then.
fn is_done(written: Result<(), HostError>) -> Result<bool, HostError> {
    let passing = [Errno::INVAL, Errno::RANGE, Errno::EXIST, Errno::INTR];
    match written {
        Ok(()) => Ok(true),
        Err(HostError::File(err)) if is_one_of(&err.cause, &passing) => Ok(false),
        Err(err) => Err(err),
    }
}

fn is_one_of(cause: &io::Error, errors: &[Errno]) -> bool {
    let raw = cause.raw_os_error();
    errors.iter().any(|errno| Some(errno.raw_os_error()) == raw)
}
