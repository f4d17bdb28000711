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
//! The room of a group is its free memory below its limit, half of its page
//! cache (some of it is dirty or used), and the part that other areas can take
//! instead. A group's counters include its descendants', so that each group is
//! held against its own limit, and with that against every ancestor's; and what it
//! may have in swap is the least of its own share and its ancestors'. Which area
//! a group's pages are in, the kernel does not tell: all of them count, as far as
//! the areas hold that many. Room in other areas is there once for all groups.
//! Compressed areas are room for groups, who are not charged for what is in them. The
//! machine's RAM it stays in, compressed: what comes from a zram device is counted there with
//! twice what it takes in that one's pool, and a page that is not in the pool as a whole.
//! Codecs differ by less, and a pool that empties gives its memory back late.
//!
//! | version | memory | swap | limits |
//! |---|---|---|---|
//! | 2 | `memory.current` | `memory.swap.current` | `memory.max`; `memory.high` kills nothing and is not looked at |
//! | 1 | `memory.usage_in_bytes` | `total_swap` | `memory.limit_in_bytes`; memory and swap together (`memory.memsw`) stay the same, but a page is charged before its swap is let go of |
//!
//! If the kernel does not count a group's swap, its programs' `VmSwap` does, and
//! if it counts less than that, pages of a group that was removed come back to
//! this one.
//!
//! A machine may have thousands of groups: of one without swap only that is read.
//! With zswap the counters are the same: a page in its pool is a page in swap, and
//! switching zswap off brings none of them back.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::run_folder::owner;
use crate::setup::error::Error;
pub use crate::setup::error::SwapoffConflict;
use crate::setup::event::{Event, Listener};
use zmeld_config::advice::machine;
use zmeld_config::advice::ActiveSwap;
use zmeld_linux::compressed::{Backed, MmStat};
use zmeld_linux::counters::count;
use zmeld_linux::groups::hierarchy::{Hierarchy, Version};
use zmeld_linux::groups::walk::{OpenGroup, Walk};
use zmeld_linux::programs::Programs;
use zmeld_linux::swaps::SwapArea;
use zmeld_linux::{Host, HostError};

/// So many limits of users' own are told, and how many more there are.
const TOLD_MAX: usize = 8;
/// Memory charged ahead on each processor, and page tables.
const MARGIN_BYTES: u64 = 1 << 20;

/// Obstacles to switching areas off.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Groups in which a program would be killed.
    pub overfull: Vec<SwapoffConflict>,
    /// Reported obstacles that do not prevent it: limits of users' own.
    pub told: Vec<String>,
    /// So many more of those.
    untold: usize,
}

/// Capacity of areas that are not on yet and will be by then, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlannedCapacity {
    /// Compressed devices, even where nothing compresses.
    pub in_ram_bytes: u64,
    /// Drives and files.
    pub on_disk_bytes: u64,
    /// RAM for the tables of such devices.
    pub tables_bytes: u64,
}

/// Refuses to switch areas off whose pages do not fit into RAM.
pub(crate) fn check_machine(
    host: &Host,
    areas: &[PathBuf],
    coming: PlannedCapacity,
) -> Result<(), Error> {
    let (mut leaving, mut swapped_bytes, mut freed_bytes) = (Vec::new(), 0u64, 0u64);
    let (mut in_ram_bytes, mut on_disk_bytes) = (coming.in_ram_bytes, coming.on_disk_bytes);
    for swap in host.swaps()? {
        if areas.contains(&swap.path) {
            // The pool gives its pages back as slots are freed, but a page only
            // when the last object on it is gone: half of it is counted on.
            let pool = pool(host, &swap)?.unwrap_or_default();
            swapped_bytes = swapped_bytes.saturating_add(swap.used_bytes);
            leaving.push((packed(host, &swap, pool)?, swap.used_bytes));
            freed_bytes = freed_bytes.saturating_add(pool.memory_used_bytes / 2);
        } else {
            let room = match swap.is_in_ram() {
                true => &mut in_ram_bytes,
                false => &mut on_disk_bytes,
            };
            *room = room.saturating_add(free(host, &swap)?);
        }
    }
    if swapped_bytes == 0 {
        return Ok(());
    }
    let to_ram = |bytes: u64| bytes.saturating_sub(on_disk_bytes);
    let available_bytes = machine::memory(host)?.available_bytes;
    let room = available_bytes.saturating_add(freed_bytes);
    if to_ram(swapped_bytes).saturating_add(coming.tables_bytes) <= room {
        return Ok(());
    }
    let moved = may_move(host, swapped_bytes)?.min(in_ram_bytes);
    // If not all fit, those that compress least are counted there.
    leaving.sort_by(|(a, of_a), (b, of_b)| product(*b, *of_a).cmp(&product(*a, *of_b)));
    let (mut share, mut left) = (0u64, moved);
    for (packed_bytes, used_bytes) in leaving {
        let here = used_bytes.min(left);
        left -= here;
        share += (product(packed_bytes, here) / u128::from(used_bytes.max(1))) as u64;
    }
    let needed = to_ram(swapped_bytes).min(share + to_ram(swapped_bytes - moved));
    let needed = needed.saturating_add(coming.tables_bytes);
    if needed <= room {
        return Ok(());
    }
    Err(Error::NoRam {
        areas: shown(areas),
        swapped_bytes,
        missing_bytes: needed - room,
    })
}

fn product(a: u64, b: u64) -> u128 {
    u128::from(a) * u128::from(b)
}

/// How much of what comes back may be swapped out again: nothing where programs' memory is not
/// reclaimed, nor what groups may not have in swap or keep in memory, of which the kernel
/// spares no more than `kept` above them.
fn may_move(host: &Host, swapped_bytes: u64) -> Result<u64, Error> {
    /// A group above the one that is looked at.
    struct KeptAbove {
        kept: u64,
        /// Remaining bytes of its own, and of all groups below it.
        own: u64,
        below: u64,
    }
    fn leave(above: &mut Vec<KeptAbove>, depth: usize) -> u64 {
        let mut stays = 0;
        while above.len() > depth {
            stays = above.pop().map_or(0, |it| it.own.max(it.below));
            if let Some(above) = above.last_mut() {
                above.below = above.below.saturating_add(stays);
            }
        }
        stays
    }
    if host.number("/proc/sys/vm/swappiness")? == Some(0) {
        return Ok(0);
    }
    let hierarchy = match Hierarchy::find(host) {
        // Nobody can tell what stays.
        Err(HostError::GroupsUnseen) => return Ok(0),
        found => found?.filter(|it| it.version == Version::Two),
    };
    let Some(hierarchy) = hierarchy else {
        return Ok(swapped_bytes);
    };
    let mut above = Vec::new();
    let mut walk = Walk::new(host, &hierarchy.top);
    while walk.next()? {
        let group = walk.group();
        leave(&mut above, group.depth());
        let swapped = group.number("memory.swap.current")?;
        let (most, least) = (
            group.number("memory.swap.max")?,
            group.number("memory.min")?,
        );
        let kept = above.last().map_or(u64::MAX, |it: &KeptAbove| it.kept);
        let kept = least.map_or(kept, |least| least.min(kept));
        let over = swapped
            .zip(most)
            .map_or(0, |(held, most)| held.saturating_sub(most));
        let own = least.and(swapped).map_or(0, |held| held.min(kept));
        let below = match swapped.unwrap_or(0) {
            0 if group.depth() > 0 => 0,
            // All of a group that is not looked into may stay.
            held if !descend(&mut walk)? => held,
            _ => 0,
        };
        let own = own.max(over);
        above.push(KeptAbove { kept, own, below });
    }
    Ok(swapped_bytes.saturating_sub(leave(&mut above, 0)))
}

/// Has the walk enter the groups below, where what they take is counted at all; whether it
/// will enter each.
fn descend(walk: &mut Walk<'_>) -> Result<bool, HostError> {
    // Of version 2; there is no such file on version 1, where each group's is.
    let controllers = walk.group().read("cgroup.subtree_control")?;
    let are_counted = controllers.is_none_or(|all| all.split(' ').any(|it| it == "memory"));
    Ok(!are_counted || walk.descend()?)
}

/// Largest RAM use of an area's pages in another compressed area.
fn packed(host: &Host, area: &SwapArea, pool: MmStat) -> Result<u64, Error> {
    // Melded pages are not melded in another device.
    let Some(name) = area.device().filter(|name| name.starts_with("zram")) else {
        return Ok(area.used_bytes);
    };
    let backed = host.read_optional(format!("/sys/block/{name}/bd_stat"))?;
    let backed = backed.and_then(|text| Backed::parse(&text));
    let in_pool = pool.stored_bytes - backed.map_or(0, |it| it.held_bytes).min(pool.stored_bytes);
    let whole = area.used_bytes.saturating_sub(in_pool);
    let packed = whole.saturating_add(pool.memory_used_bytes.saturating_mul(2));
    Ok(packed.min(area.used_bytes))
}

fn shown(areas: &[PathBuf]) -> String {
    let names: Vec<String> = areas
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// The pool statistics of a compressed device; none where it has none, and of others.
fn pool(host: &Host, area: &SwapArea) -> Result<Option<MmStat>, Error> {
    Ok(ActiveSwap::read(host, area)?.held)
}

/// Free capacity of an area; of a compressed one, if nothing compresses.
fn free(host: &Host, area: &SwapArea) -> Result<u64, Error> {
    let free = area.size_bytes.saturating_sub(area.used_bytes);
    Ok(match pool(host, area)? {
        None if area.is_in_ram() => 0,
        Some(pool) if pool.limit_bytes > 0 => {
            free.min(pool.limit_bytes.saturating_sub(pool.memory_used_bytes))
        }
        _ => free,
    })
}

pub(crate) fn refuse(groups: Vec<SwapoffConflict>) -> Result<(), Error> {
    match groups.is_empty() {
        true => Ok(()),
        false => Err(Error::NoRoomInGroup {
            groups,
            way_out: "raise the limit, stop the process, or use --force",
        }),
    }
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
    let mut tell = |text: String| listener(Event::Note { text: &text });
    match check_machine(host, areas, coming) {
        Err(err) if force => tell(format!(
            "by force: {err}: swapoff will fail, or programs will be killed"
        )),
        fits => fits?,
    }
    let found = match in_groups(host, areas, coming, 1) {
        Err(err) if force => {
            tell(format!("by force: {err}: programs may be killed"));
            return Ok(());
        }
        found => found?,
    };
    found.told.into_iter().for_each(&mut tell);
    if found.untold > 0 {
        let untold = found.untold;
        tell(format!(
            "{untold} more groups have too little room below limits of users' own"
        ));
    }
    if !force {
        return refuse(found.overfull);
    }
    for it in found.overfull {
        tell(format!("by force: {it}: a program of it will be killed"));
    }
    Ok(())
}

/// Obstacles to switching areas off in control groups; of the margin one part in so many is
/// kept, since what is read at different moments differs a little.
pub(crate) fn in_groups(
    host: &Host,
    areas: &[PathBuf],
    coming: PlannedCapacity,
    margin_part: u64,
) -> Result<Findings, Error> {
    look(host, areas, coming, margin_part, false)
}

/// Lifts limits of users' own that keep swap on: no program of theirs is left whose end makes room,
/// or they are full of files in RAM. Each lifted limit is reported. The file stays its user's: he
/// may hold it open, and root's limits are held to.
pub(crate) fn lift(host: &Host, areas: &[PathBuf]) -> Result<Vec<String>, Error> {
    Ok(look(host, areas, PlannedCapacity::default(), 1, true)?.told)
}

fn look(
    host: &Host,
    areas: &[PathBuf],
    coming: PlannedCapacity,
    margin_part: u64,
    lifts: bool,
) -> Result<Findings, Error> {
    let mut leaving_bytes = 0u64;
    let mut elsewhere_bytes = coming.in_ram_bytes.saturating_add(coming.on_disk_bytes);
    for swap in host.swaps()? {
        if areas.contains(&swap.path) {
            leaving_bytes = leaving_bytes.saturating_add(swap.used_bytes);
        } else {
            elsewhere_bytes = elsewhere_bytes.saturating_add(free(host, &swap)?);
        }
    }
    if leaving_bytes == 0 {
        return Ok(Findings::default());
    }
    let hierarchy = match Hierarchy::find(host) {
        Err(HostError::GroupsUnseen) => return Err(Error::GroupsUnseen),
        found => found?,
    };
    let Some(hierarchy) = hierarchy else {
        return Ok(Findings::default());
    };
    let programs = Programs::read(host, &hierarchy);
    let look = RoomCheck {
        host,
        programs: &programs.map_err(|source| Error::GroupsUnread { source })?,
        hierarchy: &hierarchy,
        leaving_bytes,
        elsewhere_bytes,
        ram_bytes: machine::memory(host)?.total_bytes,
        is_swapping: host.number("/proc/sys/vm/swappiness")? != Some(0),
        margin_part,
        lifts,
        findings: Findings::default(),
    };
    look.through(Walk::new(host, &hierarchy.top))
        .map_err(|source| Error::GroupsUnread { source })
}

/// Memory use of a group and its limits, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    used: u64,
    /// Page cache, half of which can be had.
    cache: u64,
    limit: Option<u64>,
    /// Further bytes that may be swapped out of it: below 0 where it has more in
    /// swap than it may. None: its reclaim does not swap.
    swap_room: Option<i128>,
    /// Further bytes that may be charged to it in memory and swap together (version 1).
    together_room: Option<u64>,
}

struct RoomCheck<'a> {
    host: &'a Host,
    hierarchy: &'a Hierarchy,
    programs: &'a Programs,
    leaving_bytes: u64,
    /// Less what the groups so far need of it.
    elsewhere_bytes: u64,
    ram_bytes: u64,
    /// Programs' memory is swapped out at all (version 2).
    is_swapping: bool,
    margin_part: u64,
    /// Users' own limits are lifted where there is no room.
    lifts: bool,
    findings: Findings,
}

/// A group above the one that is looked at.
struct Above {
    /// Room in other areas before it, and the part that it needs.
    elsewhere: u64,
    needed: u64,
    /// Further bytes that may be swapped out of it (version 2).
    swap_room: i128,
}

impl RoomCheck<'_> {
    /// Looks at the groups; of one without swap at no more.
    fn through(mut self, mut walk: Walk<'_>) -> Result<Findings, HostError> {
        let mut above: Vec<Above> = Vec::new();
        while walk.next()? {
            let group = walk.group();
            self.leave(&mut above, group.depth());
            let counted = self.counted(group)?;
            let of_programs = self.programs.of_tree(group.path());
            let is_top = group.depth() == 0 && counted.is_none();
            if !is_top && counted.unwrap_or(0) == 0 && of_programs == 0 {
                continue;
            }
            let swapped = counted.unwrap_or(0).max(of_programs);
            let over = above.last().map_or(i128::MAX, |it| it.swap_room);
            let swap_room = over.min(self.swap_room(group)?);
            let elsewhere = self.elsewhere_bytes;
            let needed = self.judge(group, swapped, swap_room)?;
            if !descend(&mut walk)? {
                self.findings.told.push(format!(
                    "the control group {} has more groups below it than are looked at: its own \
                     limits count, theirs do not",
                    self.hierarchy.named(walk.group().path())
                ));
            }
            above.push(Above {
                elsewhere,
                needed,
                swap_room,
            });
        }
        self.leave(&mut above, 0);
        Ok(self.findings)
    }

    /// Done with groups of that depth and below.
    fn leave(&mut self, above: &mut Vec<Above>, depth: usize) {
        while above.len() > depth {
            let Some(it) = above.pop() else { return };
            // Pages that groups below moved elsewhere make room here too.
            let needed_below = it.elsewhere.saturating_sub(self.elsewhere_bytes);
            self.elsewhere_bytes = it.elsewhere.saturating_sub(it.needed.max(needed_below));
        }
    }

    /// Holds a group's pages in swap against its limits; gives how many bytes of
    /// other areas it needs for that.
    fn judge(&mut self, group: &OpenGroup, swapped: u64, room: i128) -> Result<u64, HostError> {
        let coming = swapped.min(self.leaving_bytes);
        if coming == 0 {
            return Ok(0);
        }
        let usage = &self.usage(group, room)?;
        // More than RAM is no limit: the machine's own comes first.
        let ram = self.ram_bytes;
        let limit = usage.limit.filter(|limit| *limit < ram);
        let Some(limit) = limit else {
            return Ok(0);
        };
        // Pages that come back leave room in the group's share of swap, once it has no more there
        // than it may.
        let may_swap = usage.swap_room.map_or(0, |room| {
            u64::try_from(room.saturating_add(coming.into()).max(0)).unwrap_or(u64::MAX)
        });
        let elsewhere = self.elsewhere_bytes.min(may_swap);
        let reclaimable = (usage.cache / 2).saturating_add(elsewhere);
        let free = limit.saturating_sub(usage.used);
        let room = free.saturating_add(reclaimable);
        let needed = coming.saturating_add(margin(limit, self.margin_part));
        // A page is charged to both for a moment: as much as is charged ahead.
        let is_tight = usage
            .together_room
            .is_some_and(|room| room.saturating_add(usage.cache / 2) < margin(0, self.margin_part));
        if is_tight || room < needed {
            let uid = self.limit_of_user(group)?;
            let is_lifted = uid.is_some() && self.lifts && self.lift(group);
            if uid.is_some() && self.findings.told.len() >= TOLD_MAX {
                self.findings.untold += 1;
                return Ok(0);
            }
            let overfull = SwapoffConflict {
                group: self.hierarchy.named(group.path()),
                swapped_bytes: coming,
                room_bytes: if is_tight { 0 } else { room },
                limit_bytes: limit,
                largest: self.programs.largest(group.path()),
            };
            match uid {
                None => self.findings.overfull.push(overfull),
                Some(uid) if is_lifted => self.findings.told.push(format!(
                    "{overfull}: that limit, the user's own (uid {uid}), is lifted, since swap \
                     cannot be switched off below it"
                )),
                Some(uid) => self.findings.told.push(format!(
                    "{overfull}: that limit is the user's own (uid {uid}), and keeps no swap on; \
                     a program of it may be killed"
                )),
            }
            return Ok(0);
        }
        let without = room.saturating_sub(elsewhere);
        Ok(needed.saturating_sub(without).min(elsewhere))
    }

    /// The user who set a group's limit himself, so that it may not keep root from
    /// switching swap off; none where it is root's.
    fn limit_of_user(&self, group: &OpenGroup) -> Result<Option<u32>, HostError> {
        let meta = group.metadata(self.hierarchy.version.limit_file())?;
        let uid = meta.map(|it| it.uid());
        Ok(uid.filter(|uid| *uid != 0 && *uid != owner(self.host)))
    }

    /// Lifts the limits that a group's user set. Returns false if that fails: swapoff says what
    /// comes of it.
    fn lift(&self, group: &OpenGroup) -> bool {
        let version = self.hierarchy.version;
        let write = |file, value| group.write(file, value).is_ok();
        match version {
            Version::One => {
                // Of memory and swap together first: it is no smaller.
                write("memory.memsw.limit_in_bytes", "-1") && write(version.limit_file(), "-1")
            }
            Version::Two => write(version.limit_file(), "max"),
        }
    }

    /// The kernel's count of a group's pages in swap; none where it keeps none.
    fn counted(&self, group: &OpenGroup) -> Result<Option<u64>, HostError> {
        if self.hierarchy.version == Version::Two {
            return group.number("memory.swap.current");
        }
        let stat = group.read("memory.stat")?.unwrap_or_default();
        let is_counted = stat.lines().any(|line| line.starts_with("total_swap "));
        Ok(is_counted.then(|| count(&stat, "total_swap")))
    }

    /// Further bytes that a group's own swap limit allows (version 2).
    fn swap_room(&self, group: &OpenGroup) -> Result<i128, HostError> {
        let most = match self.hierarchy.version {
            Version::One => None,
            Version::Two => group.number("memory.swap.max")?,
        };
        let Some(most) = most else {
            return Ok(i128::MAX);
        };
        let swapped = group.number("memory.swap.current")?.unwrap_or(0);
        Ok(i128::from(most) - i128::from(swapped))
    }

    fn usage(&self, group: &OpenGroup, swap_room: i128) -> Result<Usage, HostError> {
        let version = self.hierarchy.version;
        let stat = group.read("memory.stat")?.unwrap_or_default();
        let cache = |list: &str| match version {
            Version::One => count(&stat, &format!("total_{list}")),
            Version::Two => count(&stat, list),
        };
        let is_swapping = match version {
            Version::One => group.number("memory.swappiness")? != Some(0),
            Version::Two => self.is_swapping,
        };
        let together_room = match group.number("memory.memsw.limit_in_bytes")? {
            Some(limit) => {
                let used = group.number("memory.memsw.usage_in_bytes")?;
                Some(limit.saturating_sub(used.unwrap_or(0)))
            }
            None => None,
        };
        Ok(Usage {
            used: group.number(version.usage_file())?.unwrap_or(0),
            cache: cache("inactive_file") + cache("active_file"),
            limit: group.number(version.limit_file())?,
            swap_room: is_swapping.then_some(swap_room),
            together_room,
        })
    }
}

/// One part in so many of the margin for pages that the kernel charges ahead, and for changes
/// between two reads.
fn margin(limit: u64, part: u64) -> u64 {
    MARGIN_BYTES.saturating_add(limit / 64) / part
}

#[cfg(test)]
mod tests {
    #[test]
    fn half_of_the_margin_is_kept_while_swapoff_runs() {
        let mib = |limit: u64, part| super::margin(limit << 20, part) as f64 / 1_048_576.0;
        assert_eq!([mib(0, 1), mib(128, 1), mib(128, 2)], [1.0, 3.0, 1.5]);
    }
}
