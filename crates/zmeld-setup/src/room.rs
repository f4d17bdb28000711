//! Whether what is swapped out fits back, before an area is switched off.
//!
//! Two limits count. The machine's: where it is missed, swapoff fails or the
//! kernel ends it first. A control group's: every page comes back to the group
//! that it was charged to, and where the group has no room for it and nothing
//! left to reclaim, the kernel kills a program of the group, and only then does
//! swapoff fail. Nothing may be switched off past the second without being told; a limit
//! that a user set in a group of his own is told and refuses nothing, or any user could
//! keep swap on.
//!
//! What a group has room for: what is free below its limit, half of its page
//! cache (some of it is dirty or used), and what other areas can take of it
//! instead. A group's counters include its descendants', so that each group is
//! held against its own limit, and with that against every ancestor's; and what it
//! may have in swap is the least of its own share and its ancestors'. Which area
//! a group's pages are in, the kernel does not tell: all of them count, as far as
//! the areas hold that many. Room in other areas is there once for all groups.
//! Compressed areas are room for groups, who are not charged for what is in them,
//! and none for the machine, whose RAM it stays in.
//!
//! | version | memory | swap | limits |
//! |---|---|---|---|
//! | 2 | `memory.current` | `memory.swap.current` | `memory.max`; `memory.high` slows down and kills nothing |
//! | 1 | `memory.usage_in_bytes` | `total_swap` | `memory.limit_in_bytes`; memory and swap together (`memory.memsw`) stay the same, but a page is charged before its swap is let go of |
//!
//! Where the kernel does not count a group's swap, its programs' `VmSwap` does, and
//! where it counts less than that, pages of a group that was removed come back to
//! this one. What neither accounts for (shared memory of removed groups) comes back
//! to the group of whoever switches off, zmeld's own.
//!
//! A machine may have thousands of groups: of one without swap only that is read.
//! While pages come back, `Watch` looks at those only that had some before.
//! With zswap the counters are the same: a page in its pool is a page in swap, and
//! switching zswap off brings none of them back.

mod programs;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use programs::Programs;

use crate::error::Error;
use crate::event::{Event, Listener};
use crate::overfull::mib;
pub use crate::overfull::{Program, SwapoffConflict};
use zmeld_linux::compressed::MmStat;
use zmeld_linux::counters;
use zmeld_linux::groups::{Hierarchy, Version};
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::Host;
use zmeld_observe::machine;
use zmeld_observe::run_folder::owner;

/// Deeper than anybody nests.
const DEPTH_MAX: usize = 64;
/// What is charged ahead on each processor, and page tables.
const MARGIN_BYTES: u64 = 1 << 20;
/// A limit above is none: the kernel writes the largest number of pages.
const NO_LIMIT: u64 = 1 << 60;

/// What switching areas off meets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// Groups in which a program would be killed.
    pub overfull: Vec<SwapoffConflict>,
    /// What keeps nothing from it and is told: groups that are slowed down meanwhile, and
    /// limits of users' own.
    pub told: Vec<String>,
}

impl Findings {
    fn tell(&mut self, text: String) {
        if !self.told.contains(&text) {
            self.told.push(text);
        }
    }
}

/// What areas that are on by then, and are not yet, can take, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlannedCapacity {
    /// Compressed devices, even where nothing compresses.
    pub in_ram_bytes: u64,
    /// Drives and files.
    pub on_disk_bytes: u64,
}

/// Refuses to switch areas off whose pages do not fit into RAM.
pub(crate) fn check_machine(
    host: &Host,
    areas: &[PathBuf],
    coming: PlannedCapacity,
) -> Result<(), Error> {
    let mut swapped_bytes = 0u64;
    let mut freed_bytes = 0u64;
    let mut room_elsewhere = coming.on_disk_bytes;
    for swap in host.swaps()? {
        if areas.contains(&swap.path) {
            swapped_bytes = swapped_bytes.saturating_add(swap.used_bytes);
            // The pool gives its pages back as slots are freed, but a page only
            // when the last object on it is gone: half of it is counted on.
            freed_bytes = freed_bytes.saturating_add(pool_bytes(host, &swap.path)? / 2);
        } else if compressed_name(&swap.path).is_none() {
            let free = swap.size_bytes.saturating_sub(swap.used_bytes);
            room_elsewhere = room_elsewhere.saturating_add(free);
        }
    }
    if swapped_bytes == 0 {
        return Ok(());
    }
    let memory = machine::memory(host)?;
    let room = memory
        .available_bytes
        .saturating_add(freed_bytes)
        .saturating_add(room_elsewhere);
    if swapped_bytes <= room {
        return Ok(());
    }
    Err(Error::NoRam {
        areas: shown(areas),
        swapped_bytes,
        missing_bytes: swapped_bytes - room,
    })
}

fn shown(areas: &[PathBuf]) -> String {
    let names: Vec<String> = areas
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// `zram1` of `/dev/zram1`.
fn compressed_name(path: &Path) -> Option<&str> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?;
    let is = |driver| {
        name.strip_prefix(driver)
            .is_some_and(|rest: &str| rest.parse::<u32>().is_ok())
    };
    (is("zram") || is("zmeld")).then_some(name)
}

/// None where it does not say so.
fn pool(host: &Host, name: &str) -> Result<Option<MmStat>, Error> {
    let stat = host.read_optional(format!("/sys/block/{name}/mm_stat"))?;
    Ok(MmStat::parse(&stat.unwrap_or_default()))
}

/// Memory that a compressed device's pool takes; 0 for others.
fn pool_bytes(host: &Host, path: &Path) -> Result<u64, Error> {
    let Some(name) = compressed_name(path) else {
        return Ok(0);
    };
    Ok(pool(host, name)?.map_or(0, |pool| pool.memory_used_bytes))
}

/// What a compressed device may still take of RAM, even where nothing of it
/// compresses; no bound for others.
fn room_in_ram(host: &Host, path: &Path) -> Result<u64, Error> {
    let Some(name) = compressed_name(path) else {
        return Ok(u64::MAX);
    };
    Ok(match pool(host, name)? {
        None => 0,
        Some(pool) if pool.limit_bytes == 0 => u64::MAX,
        Some(pool) => pool.limit_bytes.saturating_sub(pool.memory_used_bytes),
    })
}

/// Refuses where there are such groups.
pub(crate) fn refuse(groups: Vec<SwapoffConflict>) -> Result<(), Error> {
    match groups.is_empty() {
        true => Ok(()),
        false => Err(Error::NoRoomInGroup {
            groups,
            way_out: "raise the limit, end the program, or zmeld up --force (zmeld down --force)",
        }),
    }
}

/// How many processes the kernel has killed since boot for want of memory, the
/// machine's or a group's; none where it does not count them (before Linux 4.13).
pub(crate) fn kills(host: &Host) -> Option<u64> {
    counters::value(&host.read("/proc/vmstat").ok()?, "oom_kill")
}

/// Refuses to switch areas off whose pages do not fit back, before anything is
/// changed. With `force` it says what that will cost. `coming`: what is on by then.
pub(crate) fn check(
    host: &Host,
    areas: &[PathBuf],
    coming: PlannedCapacity,
    force: bool,
    listener: &mut Listener<'_>,
) -> Result<(), Error> {
    if areas.is_empty() {
        return Ok(());
    }
    let machine = check_machine(host, areas, coming);
    let groups = Watch::begin(host, areas, coming).map(|(found, _)| found);
    if !force {
        let found = groups.and_then(|found| {
            for text in &found.told {
                listener(Event::Note { text });
            }
            refuse(found.overfull)
        });
        return match (machine, found) {
            (Err(ram), Err(groups)) => Err(Error::NoRoom {
                ram: Box::new(ram),
                groups: Box::new(groups),
            }),
            (ram, groups) => ram.and(groups),
        };
    }
    if let Err(err) = machine {
        let text = format!("by force: {err}: swapoff will fail, or programs will be killed");
        listener(Event::Note { text: &text });
    }
    let found = match groups {
        Ok(found) => found,
        Err(err) => {
            let text = format!("by force: {err}: programs may be killed");
            listener(Event::Note { text: &text });
            return Ok(());
        }
    };
    for text in &found.told {
        listener(Event::Note { text });
    }
    for group in &found.overfull {
        let text = format!("by force: {group}: a program of it will be killed");
        listener(Event::Note { text: &text });
    }
    Ok(())
}

/// The groups to look at while pages come back.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// None: no group can limit memory, or there is nothing to look at.
    hierarchy: Option<Hierarchy>,
    programs: Programs,
    /// Those that had something in swap, and zmeld's own, each with what it needed
    /// of other areas.
    seen: BTreeMap<PathBuf, u64>,
    /// What no group accounts for, in bytes.
    nobodys_bytes: u64,
}

impl Watch {
    pub(crate) fn begin(
        host: &Host,
        areas: &[PathBuf],
        coming: PlannedCapacity,
    ) -> Result<(Findings, Watch), Error> {
        let room = Areas::read(host, areas, coming)?;
        if room.leaving_bytes == 0 {
            return Ok(Default::default());
        }
        let Some(hierarchy) = Hierarchy::find(host)? else {
            return Ok(Default::default());
        };
        let programs = Programs::read(host, &hierarchy)?;
        let mut look = Look::new(host, &hierarchy, &room, &programs)?;
        let top = &hierarchy.top;
        let accounted = look.descend(top, 0)?;
        // What was read already and is still in swap is in no counter.
        let meminfo = host.read(meminfo::PATH)?;
        let cached = Meminfo::new(&meminfo).bytes("SwapCached").unwrap_or(0);
        // In a container the top is a group itself, and what is outside is not seen.
        let is_all = hierarchy.version == Version::One || look.counted(top)?.is_none();
        let accounted = accounted.saturating_add(cached);
        let nobodys_bytes = match is_all {
            true => room.used_bytes.saturating_sub(accounted),
            false => 0,
        };
        look.own_chain(nobodys_bytes)?;
        let Look { findings, seen, .. } = look;
        let watch = Watch {
            hierarchy: Some(hierarchy),
            programs,
            seen,
            nobodys_bytes,
        };
        Ok((findings, watch))
    }

    /// A look at the groups that had something in swap.
    pub(crate) fn again(&self, host: &Host, areas: &[PathBuf]) -> Result<Findings, Error> {
        let room = Areas::read(host, areas, PlannedCapacity::default())?;
        let is_some = |_: &&Hierarchy| room.leaving_bytes > 0;
        let Some(hierarchy) = self.hierarchy.as_ref().filter(is_some) else {
            return Ok(Findings::default());
        };
        let programs = self.programs.again(host, hierarchy);
        let mut look = Look::new(host, hierarchy, &room, &programs)?;
        // What is read at different moments differs a little.
        look.margin_part = 2;
        look.only = Some(&self.seen);
        look.descend(&hierarchy.top, 0)?;
        look.own_chain(self.nobodys_bytes)?;
        Ok(look.findings)
    }
}

#[derive(Debug, Default)]
struct Areas {
    used_bytes: u64,
    /// In those that are switched off.
    leaving_bytes: u64,
    /// What the others can take.
    elsewhere_bytes: u64,
}

impl Areas {
    fn read(host: &Host, leaving: &[PathBuf], coming: PlannedCapacity) -> Result<Areas, Error> {
        let mut areas = Areas {
            elsewhere_bytes: coming.in_ram_bytes.saturating_add(coming.on_disk_bytes),
            ..Areas::default()
        };
        for swap in host.swaps()? {
            areas.used_bytes = areas.used_bytes.saturating_add(swap.used_bytes);
            if leaving.contains(&swap.path) {
                areas.leaving_bytes = areas.leaving_bytes.saturating_add(swap.used_bytes);
            } else {
                let free = swap.size_bytes.saturating_sub(swap.used_bytes);
                let free = free.min(room_in_ram(host, &swap.path)?);
                areas.elsewhere_bytes = areas.elsewhere_bytes.saturating_add(free);
            }
        }
        Ok(areas)
    }
}

/// What a group uses and may use, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    used: u64,
    /// Page cache, half of which can be had.
    cache: u64,
    limit: Option<u64>,
    /// Where it is slowed down.
    high: Option<u64>,
    /// What may be swapped out of it beside what is: below 0 where it has more in
    /// swap than it may. None: its reclaim does not swap.
    swap_room: Option<i128>,
    /// What may be charged to it in memory and swap together (version 1).
    together_room: Option<u64>,
}

struct Look<'a> {
    host: &'a Host,
    hierarchy: &'a Hierarchy,
    programs: &'a Programs,
    leaving_bytes: u64,
    /// Less what the groups so far need of it.
    elsewhere_bytes: u64,
    ram_bytes: u64,
    /// One part in so many of the margin is kept.
    margin_part: u64,
    /// The groups to look at; none: all.
    only: Option<&'a BTreeMap<PathBuf, u64>>,
    /// Those that have something in swap, each with what it needs elsewhere.
    seen: BTreeMap<PathBuf, u64>,
    findings: Findings,
}

impl<'a> Look<'a> {
    fn new(
        host: &'a Host,
        hierarchy: &'a Hierarchy,
        areas: &Areas,
        programs: &'a Programs,
    ) -> Result<Look<'a>, Error> {
        Ok(Look {
            host,
            hierarchy,
            programs,
            leaving_bytes: areas.leaving_bytes,
            elsewhere_bytes: areas.elsewhere_bytes,
            ram_bytes: machine::memory(host)?.total_bytes,
            margin_part: 1,
            only: None,
            seen: BTreeMap::new(),
            findings: Findings::default(),
        })
    }
}

impl Look<'_> {
    /// Looks at a group and at those below it; gives what they have in swap.
    fn descend(&mut self, group: &Path, depth: usize) -> Result<u64, Error> {
        if self.only.is_some_and(|only| !only.contains_key(group)) {
            return Ok(0);
        }
        let counted = self.counted(group)?;
        let of_programs = self.programs.of_tree(group);
        let is_top = depth == 0 && counted.is_none();
        if !is_top && counted.unwrap_or(0) == 0 && of_programs == 0 {
            return Ok(0);
        }
        let swapped = counted.unwrap_or(0).max(of_programs);
        let elsewhere = self.elsewhere_bytes;
        let needed = self.judge(group, swapped)?;
        self.seen.insert(group.to_path_buf(), needed);
        let mut below = self.programs.of_group(group);
        if depth < DEPTH_MAX {
            for folder in self.host.folders(group)? {
                below = below.saturating_add(self.descend(&folder, depth + 1)?);
            }
        }
        // What groups below have moved elsewhere makes room here too.
        let needed_below = elsewhere.saturating_sub(self.elsewhere_bytes);
        self.elsewhere_bytes = elsewhere.saturating_sub(needed.max(needed_below));
        Ok(swapped.max(below))
    }

    /// Holds what no group accounts for against zmeld's own group and those above.
    fn own_chain(&mut self, nobodys_bytes: u64) -> Result<(), Error> {
        let own = self.hierarchy.group_of(self.host, "self");
        let Some(own) = own.filter(|_| nobodys_bytes > 0) else {
            return Ok(());
        };
        let top = &self.hierarchy.top;
        let elsewhere = self.elsewhere_bytes;
        for group in own.ancestors().take_while(|group| group.starts_with(top)) {
            let shown = self.hierarchy.shown(group);
            if self.findings.overfull.iter().any(|it| it.group == shown) {
                continue;
            }
            // Its own need was taken off already.
            let needed = self.seen.get(group).copied().unwrap_or(0);
            self.elsewhere_bytes = elsewhere.saturating_add(needed);
            let swapped = self.counted(group)?.unwrap_or(0);
            let swapped = swapped.max(self.programs.of_tree(group));
            let needed = self.judge(group, swapped.saturating_add(nobodys_bytes))?;
            self.seen.insert(group.to_path_buf(), needed);
        }
        Ok(())
    }

    /// Holds a group's pages in swap against its limits; gives how many bytes of
    /// other areas it needs for that.
    fn judge(&mut self, group: &Path, swapped: u64) -> Result<u64, Error> {
        let coming = swapped.min(self.leaving_bytes);
        if coming == 0 {
            return Ok(0);
        }
        let usage = &self.usage(group)?;
        // More than RAM is no limit: the machine's own comes first.
        let ram = self.ram_bytes;
        let limit = usage.limit.filter(|limit| *limit < ram.min(NO_LIMIT));
        let high = usage.high.filter(|limit| *limit < ram.min(NO_LIMIT));
        if limit.is_none() && high.is_none() && usage.together_room.is_none() {
            return Ok(0);
        }
        // What comes back from the areas leaves room in the group's share of swap, once
        // it has no more there than it may.
        let may_swap = usage.swap_room.map_or(0, |room| {
            u64::try_from(room.saturating_add(coming.into()).max(0)).unwrap_or(u64::MAX)
        });
        let elsewhere = self.elsewhere_bytes.min(may_swap);
        let reclaimable = (usage.cache / 2).saturating_add(elsewhere);
        let room = |limit: u64| limit.saturating_sub(usage.used).saturating_add(reclaimable);
        let fits = |limit: u64| room(limit) >= coming.saturating_add(self.margin(limit));
        // A page is charged to both for a moment: as much as is charged ahead.
        let is_tight = usage
            .together_room
            .is_some_and(|room| room.saturating_add(usage.cache / 2) < self.margin(0));
        let too_low = limit.filter(|limit| is_tight || !fits(*limit));
        if let Some(limit_bytes) = too_low {
            let overfull = SwapoffConflict {
                group: self.hierarchy.shown(group),
                swapped_bytes: coming,
                room_bytes: if is_tight { 0 } else { room(limit_bytes) },
                limit_bytes,
                largest: self.programs.largest(group),
            };
            match self.limit_of_user(group) {
                None => self.findings.overfull.push(overfull),
                Some(uid) => self.findings.tell(format!(
                    "{overfull}: that limit is the user's own (uid {uid}), and keeps no swap on; \
                     a program of it may be killed"
                )),
            }
            return Ok(0);
        }
        if let Some(high) = high.filter(|high| !fits(*high)) {
            let text = format!(
                "{} come back to the control group {}, which has room for {} below its \
                 memory.high of {}: its programs are slowed down meanwhile",
                mib(coming.div_ceil(1 << 20)),
                self.hierarchy.shown(group),
                mib(room(high) >> 20),
                mib(high >> 20)
            );
            self.findings.tell(text);
        }
        // It is reclaimed from at either.
        let lowest = limit.into_iter().chain(high).min();
        let needed = lowest.map_or(0, |limit| {
            let without = room(limit).saturating_sub(elsewhere);
            coming
                .saturating_add(self.margin(limit))
                .saturating_sub(without)
        });
        Ok(needed.min(elsewhere))
    }

    /// The user who set a group's limit himself, so that it may not keep root from
    /// switching swap off; none where it is root's.
    fn limit_of_user(&self, group: &Path) -> Option<u32> {
        let file = match self.hierarchy.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        let meta = self.host.tree().metadata(&group.join(file)).ok()?;
        Some(meta.uid()).filter(|uid| *uid != 0 && *uid != owner(self.host))
    }

    /// What the kernel charges ahead, and what moves between two reads.
    fn margin(&self, limit: u64) -> u64 {
        MARGIN_BYTES.saturating_add(limit / 64) / self.margin_part
    }

    /// A number of a group; none where there is no such file, or it says `max`.
    fn number(&self, group: &Path, file: &str) -> Result<Option<u64>, Error> {
        let text = self.host.read_optional(group.join(file))?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// What the kernel counts of a group's pages in swap; none where it does not.
    fn counted(&self, group: &Path) -> Result<Option<u64>, Error> {
        if self.hierarchy.version == Version::Two {
            return self.number(group, "memory.swap.current");
        }
        let stat = self.stat(group)?;
        let is_counted = stat.lines().any(|line| line.starts_with("total_swap "));
        Ok(is_counted.then(|| keyed(&stat, "total_swap")))
    }

    fn stat(&self, group: &Path) -> Result<String, Error> {
        let stat = self.host.read_optional(group.join("memory.stat"))?;
        Ok(stat.unwrap_or_default())
    }

    fn usage(&self, group: &Path) -> Result<Usage, Error> {
        let stat = self.stat(group)?;
        match self.hierarchy.version {
            Version::One => self.usage_one(group, &stat),
            Version::Two => self.usage_two(group, &stat),
        }
    }

    fn usage_two(&self, group: &Path, stat: &str) -> Result<Usage, Error> {
        let mut swap_room = i128::MAX;
        let above = group.ancestors();
        for group in above.take_while(|it| it.starts_with(&self.hierarchy.top)) {
            let Some(max) = self.number(group, "memory.swap.max")? else {
                continue;
            };
            let swapped = self.number(group, "memory.swap.current")?.unwrap_or(0);
            swap_room = swap_room.min(i128::from(max) - i128::from(swapped));
        }
        let swappiness = self.number(Path::new("/proc/sys/vm"), "swappiness")?;
        let cache = keyed(stat, "inactive_file") + keyed(stat, "active_file");
        Ok(Usage {
            used: self.number(group, "memory.current")?.unwrap_or(0),
            cache,
            limit: self.number(group, "memory.max")?,
            high: self.number(group, "memory.high")?,
            swap_room: (swappiness != Some(0)).then_some(swap_room),
            together_room: None,
        })
    }

    fn usage_one(&self, group: &Path, stat: &str) -> Result<Usage, Error> {
        let swappiness = self.number(group, "memory.swappiness")?;
        let together = self
            .number(group, "memory.memsw.limit_in_bytes")?
            .filter(|limit| *limit < NO_LIMIT);
        let together_room = match together {
            Some(limit) => {
                let used = self.number(group, "memory.memsw.usage_in_bytes")?;
                Some(limit.saturating_sub(used.unwrap_or(0)))
            }
            None => None,
        };
        Ok(Usage {
            used: self.number(group, "memory.usage_in_bytes")?.unwrap_or(0),
            cache: keyed(stat, "total_inactive_file") + keyed(stat, "total_active_file"),
            limit: self.number(group, "memory.limit_in_bytes")?,
            high: None,
            swap_room: (swappiness != Some(0)).then_some(i128::MAX),
            together_room,
        })
    }
}

/// A number of `memory.stat`; 0 where it is not there.
fn keyed(stat: &str, name: &str) -> u64 {
    counters::value(stat, name).unwrap_or(0)
}
