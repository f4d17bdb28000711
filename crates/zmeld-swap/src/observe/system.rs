//! Memory, swap and pressure out of `/proc`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::reader::{Problem, Reader};
use zmeld_linux::counters;
use zmeld_linux::groups::hierarchy::NO_LIMIT;
use zmeld_linux::groups::walk::OpenGroup;
use zmeld_linux::groups::{Hierarchy, Version, Walk};
use zmeld_linux::hibernation;
use zmeld_linux::meminfo::{self, Meminfo};
use zmeld_linux::mounts;
use zmeld_linux::pressure::Pressure;
use zmeld_linux::swaps::{self, SwapArea};
use zmeld_report::units::share;

/// Memory as `/proc/meminfo` has it, in bytes; a line that is missing is 0, except
/// where its absence means something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Memory {
    /// RAM that the kernel manages (`MemTotal`).
    pub total_bytes: u64,
    /// RAM that nobody uses (`MemFree`).
    pub free_bytes: u64,
    /// RAM available without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// Anonymous pages that processes map (`AnonPages`).
    pub anonymous_bytes: u64,
    /// Size of all active swap together (`SwapTotal`).
    pub swap_total_bytes: u64,
    /// Of it, free (`SwapFree`).
    pub swap_free_bytes: u64,
    /// Pages that are in RAM and keep their place in swap (`SwapCached`).
    pub swap_cached_bytes: u64,
    /// Memory that zswap's pool takes (`Zswap`, from Linux 5.19).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zswap_bytes: Option<u64>,
    /// Pages that are in zswap, uncompressed (`Zswapped`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zswapped_bytes: Option<u64>,
}

impl Memory {
    pub fn swap_used_bytes(&self) -> u64 {
        self.swap_total_bytes.saturating_sub(self.swap_free_bytes)
    }

    /// Reads `/proc/meminfo`'s text.
    pub fn parse(text: &str) -> Memory {
        let memory = Meminfo::new(text);
        let field = |name: &str| memory.bytes(name);
        let or_none = |name: &str| field(name).unwrap_or(0);
        Memory {
            total_bytes: or_none("MemTotal"),
            free_bytes: or_none("MemFree"),
            available_bytes: memory.available_bytes().unwrap_or(0),
            anonymous_bytes: or_none("AnonPages"),
            swap_total_bytes: or_none("SwapTotal"),
            swap_free_bytes: or_none("SwapFree"),
            swap_cached_bytes: or_none("SwapCached"),
            zswap_bytes: field("Zswap"),
            zswapped_bytes: field("Zswapped"),
        }
    }
}

/// Counters of `/proc/vmstat` since boot, in pages unless said otherwise. A counter that this
/// kernel has not got is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Activity {
    /// Pages read from swap devices (`pswpin`).
    pub swap_in_pages: Option<u64>,
    /// Pages written to swap devices (`pswpout`).
    pub swap_out_pages: Option<u64>,
    /// Pages that came back out of zswap (`zswpin`).
    pub zswap_in_pages: Option<u64>,
    /// Pages that went into zswap (`zswpout`).
    pub zswap_out_pages: Option<u64>,
    /// Pages that zswap wrote on to a disk (`zswpwb`).
    pub zswap_written_back_pages: Option<u64>,
    /// Pages of zeros that swap only noted (`swpout_zero`, from Linux 6.12).
    pub zero_out_pages: Option<u64>,
    /// Faults that had to wait for a device (`pgmajfault`), a count.
    pub major_faults: Option<u64>,
    /// Processes that the kernel killed for want of memory (`oom_kill`), a count.
    pub oom_kills: Option<u64>,
    /// Times that an allocation had to reclaim by itself (`allocstall_*`), a count.
    pub direct_reclaims: Option<u64>,
}

impl Activity {
    /// Pages that came back into RAM, from devices or out of zswap.
    pub fn pages_in(&self) -> Option<u64> {
        let of_zswap = self.zswap_in_pages.unwrap_or(0);
        Some(self.swap_in_pages?.saturating_add(of_zswap))
    }

    /// Pages that left RAM, to devices or into zswap. What zswap wrote on to a device had left
    /// before.
    pub fn pages_out(&self) -> Option<u64> {
        let of_zswap = self.zswap_out_pages.unwrap_or(0);
        let all = self.swap_out_pages?.saturating_add(of_zswap);
        Some(all.saturating_sub(self.zswap_written_back_pages.unwrap_or(0)))
    }

    /// Reads `/proc/vmstat`'s text.
    pub fn parse(text: &str) -> Activity {
        let field = |wanted: &str| counters::value(text, wanted);
        let stalls: Vec<u64> = counters::parse(text)
            .filter(|(name, _)| name.starts_with("allocstall"))
            .map(|(_, n)| n)
            .collect();
        Activity {
            swap_in_pages: field("pswpin"),
            swap_out_pages: field("pswpout"),
            zswap_in_pages: field("zswpin"),
            zswap_out_pages: field("zswpout"),
            zswap_written_back_pages: field("zswpwb"),
            zero_out_pages: field("swpout_zero"),
            major_faults: field("pgmajfault"),
            oom_kills: field("oom_kill"),
            direct_reclaims: (!stalls.is_empty())
                .then(|| stalls.iter().fold(0, |sum: u64, n| sum.saturating_add(*n))),
        }
    }
}

/// Settings that decide when and how the kernel swaps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Tunables {
    /// `vm.swappiness`, 0 to 200.
    pub swappiness: Option<u64>,
    /// `vm.page-cluster`: 2 to this power pages are read at once.
    pub page_cluster: Option<u64>,
}

/// Whether and where the machine hibernates to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Hibernation {
    /// Place to resume from, with its source; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// The kernel would hibernate: `/sys/power/state` has `disk`.
    pub possible: bool,
    /// How large an image the kernel aims at (`/sys/power/image_size`); absent where it
    /// does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_bytes: Option<u64>,
    /// The swap partition that it resumes from, where nothing is swapped to it.
    #[serde(skip)]
    pub idle: Option<String>,
    /// The swap area that it resumes from, where that is a partition.
    #[serde(skip)]
    pub area: Option<PathBuf>,
}

/// A control group with a limit on memory or swap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LimitedGroup {
    /// Its path below the mount.
    pub path: String,
    /// Swap in use (`memory.swap.current`).
    pub swap_bytes: u64,
    /// The limit (`memory.swap.max`); absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_max_bytes: Option<u64>,
    /// Times that swap was refused because of the limit (`max` in
    /// `memory.swap.events`).
    pub refused: u64,
    /// Memory in use (`memory.current`; version 1: `memory.usage_in_bytes`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Its limit (`memory.max`, `memory.limit_in_bytes`); absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_max_bytes: Option<u64>,
    /// Times that its limit, or one below it, was reached and nothing could be
    /// reclaimed (`oom` in `memory.events`; version 1: `memory.failcnt`).
    pub limit_reached: u64,
    /// Processes killed in it and, with version 2, below it (`oom_kill`).
    pub oom_kills: u64,
    /// Whether the two count what happened in the groups below too.
    pub is_hierarchical: bool,
    /// How long its tasks waited for memory (`memory.pressure`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
}

/// From this share of its limit on, a group waits for its own memory.
const AT_LIMIT: f64 = 0.9;

impl LimitedGroup {
    /// Whether it is so near its limit that its tasks wait for its own memory, `apart_bytes` of
    /// what it has not counted.
    pub fn is_at_limit(&self, apart_bytes: u64) -> bool {
        let used = self.memory_bytes.zip(self.memory_max_bytes);
        used.is_some_and(|(used, limit)| share(used.saturating_sub(apart_bytes), limit) >= AT_LIMIT)
    }
}

/// Parses a file that every kernel has; the default if it is missing.
fn parsed<T: Default>(reader: &mut Reader, path: &str, parse: fn(&str) -> T) -> T {
    let text = reader.required(path);
    text.map(|text| parse(&text)).unwrap_or_default()
}

pub(super) fn kernel(reader: &mut Reader) -> String {
    parsed(reader, "/proc/sys/kernel/osrelease", str::to_owned)
}

pub(super) fn memory(reader: &mut Reader) -> Memory {
    let text = reader.required(meminfo::PATH);
    let memory = text.as_deref().map(Memory::parse);
    if memory.as_ref().is_some_and(|it| it.total_bytes == 0) {
        reader.malformed(meminfo::PATH, "it has no MemTotal");
    }
    memory.unwrap_or_default()
}

pub(super) fn activity(reader: &mut Reader) -> Activity {
    parsed(reader, "/proc/vmstat", Activity::parse)
}

pub(super) fn swaps(reader: &mut Reader) -> Vec<SwapArea> {
    if !reader.exists(swaps::PATH) {
        reader.warn(swaps::PATH, Problem::Missing);
    }
    let read = reader.host().swaps();
    reader.known(read).unwrap_or_default()
}

pub(super) fn pressure(reader: &mut Reader) -> Option<Pressure> {
    let path = "/proc/pressure/memory";
    let text = reader.optional(path)?;
    let pressure = Pressure::parse(&text);
    if pressure.is_none() {
        reader.malformed(path, "it has no averages from 0 to 100");
    }
    pressure
}

pub(super) fn tunables(reader: &mut Reader) -> Tunables {
    let mut number = |name: &str| reader.number(&format!("/proc/sys/vm/{name}"));
    Tunables {
        swappiness: number("swappiness"),
        page_cluster: number("page-cluster"),
    }
}

pub(super) fn hibernation(reader: &mut Reader) -> Hibernation {
    let host = reader.host();
    let states = reader.optional(hibernation::STATES).unwrap_or_default();
    let image = "/sys/power/image_size";
    Hibernation {
        resume: reader
            .known(hibernation::read(host))
            .flatten()
            .map(|it| it.to_string()),
        possible: states.split_whitespace().any(|state| state == "disk"),
        image_bytes: reader.known(host.number(image)).flatten(),
        idle: hibernation::idle(host).ok().flatten(),
        area: hibernation::area(host),
    }
}

/// How deep groups are looked at: deeper ones are containers' own business.
const GROUP_DEPTH_MAX: usize = 6;
/// The depth of users' and services' own groups, below which they make as many as they like.
const OWNER_DEPTH: usize = 2;
/// Groups of one owner that are looked at, so that nobody's hide another's.
const GROUPS_MAX: usize = 4096;

/// The control groups that limit memory, swap or zswap, or where a limit was felt;
/// wherever the memory controller is mounted. None where no group can limit memory.
pub(super) fn groups(reader: &mut Reader) -> Option<Vec<LimitedGroup>> {
    let hierarchy = match Hierarchy::find(reader.host()) {
        Ok(hierarchy) => hierarchy?,
        // There are groups, perhaps, and they are not seen.
        Err(err) => {
            reader.warn(mounts::PATH, Problem::Unreadable(err.to_string()));
            return Some(Vec::new());
        }
    };
    let look = match hierarchy.version {
        Version::One => group_v1,
        Version::Two => group,
    };
    let (mut found, mut owners) = (Vec::new(), Vec::new());
    let top = hierarchy.top.to_string_lossy();
    let mut take = |reader: &mut Reader, group: &OpenGroup| {
        let path = group.path().to_string_lossy();
        let below = path.strip_prefix(&*top).unwrap_or(&path);
        found.extend(look(reader, &path, below));
    };
    visit(reader, &hierarchy.top, OWNER_DEPTH, &mut |reader, group| {
        if group.depth() == OWNER_DEPTH {
            owners.push(group.path().to_path_buf());
        }
        take(reader, group);
    });
    let depth_max = GROUP_DEPTH_MAX - OWNER_DEPTH;
    for owner in owners {
        visit(reader, &owner, depth_max, &mut |reader, group| {
            if group.depth() > 0 {
                take(reader, group);
            }
        });
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Some(found)
}

/// Takes a group and those below it, down to that depth.
fn visit(
    reader: &mut Reader,
    top: &Path,
    depth_max: usize,
    take: &mut dyn FnMut(&mut Reader, &OpenGroup),
) {
    let (mut walk, mut seen) = (Walk::new(reader.host(), top), 0);
    loop {
        match reader.known(walk.next()) {
            Some(true) => {}
            Some(false) => break,
            None => continue,
        }
        seen += 1;
        if seen > GROUPS_MAX {
            reader.warn(&top.to_string_lossy(), Problem::Truncated(GROUPS_MAX));
            break;
        }
        take(reader, walk.group());
        if walk.group().depth() < depth_max {
            reader.known(walk.descend());
        }
    }
}

/// The number behind a name in a file of such lines.
fn counted(text: Option<&str>, name: &str) -> u64 {
    text.and_then(|text| counters::value(text, name))
        .unwrap_or(0)
}

fn group(reader: &mut Reader, folder: &str, path: &str) -> Option<LimitedGroup> {
    // The root has no limits, and so no file.
    let swap = reader.number(&format!("{folder}/memory.swap.current"))?;
    let mut limit = |name: &str| {
        let text = reader.optional(&format!("{folder}/{name}"))?;
        text.trim().parse::<u64>().ok()
    };
    let swap_max_bytes = limit("memory.swap.max");
    let memory_max_bytes = limit("memory.max");
    let refused = reader.optional(&format!("{folder}/memory.swap.events"));
    let refused = counted(refused.as_deref(), "max");
    let events = reader.optional(&format!("{folder}/memory.events"));
    let limit_reached = counted(events.as_deref(), "oom");
    let oom_kills = counted(events.as_deref(), "oom_kill");
    let is_limited = swap_max_bytes.is_some() || memory_max_bytes.is_some();
    let felt = refused > 0 || limit_reached > 0 || oom_kills > 0;
    if !is_limited && !felt {
        return None;
    }
    Some(LimitedGroup {
        path: path.to_owned(),
        swap_bytes: swap,
        swap_max_bytes,
        refused,
        memory_bytes: reader.number(&format!("{folder}/memory.current")),
        memory_max_bytes,
        limit_reached,
        oom_kills,
        is_hierarchical: true,
        pressure: memory_max_bytes.and_then(|_| {
            let text = reader.optional(&format!("{folder}/memory.pressure"))?;
            Pressure::parse(&text)
        }),
    })
}

fn group_v1(reader: &mut Reader, folder: &str, path: &str) -> Option<LimitedGroup> {
    let events = reader.optional(&format!("{folder}/memory.oom_control"))?;
    let oom_kills = counted(Some(&events), "oom_kill");
    let limit = reader.number(&format!("{folder}/memory.limit_in_bytes"));
    let memory_max_bytes = limit.filter(|limit| *limit < NO_LIMIT);
    if memory_max_bytes.is_none() && oom_kills == 0 {
        return None;
    }
    // Without a limit there is nothing that it could have reached. Where memory and
    // swap are limited together, that limit is met first.
    let mut reached = |name: &str| reader.number(&format!("{folder}/{name}")).unwrap_or(0);
    let times = reached("memory.failcnt").saturating_add(reached("memory.memsw.failcnt"));
    let limit_reached = memory_max_bytes.map_or(0, |_| times.min(oom_kills));
    Some(LimitedGroup {
        path: path.to_owned(),
        memory_bytes: reader.number(&format!("{folder}/memory.usage_in_bytes")),
        memory_max_bytes,
        limit_reached,
        oom_kills,
        ..LimitedGroup::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_linux::Host;

    #[test]
    fn nobody_hides_the_groups_of_others() {
        let top = "/sys/fs/cgroup";
        let mounts = format!("31 24 0:28 / {top} rw - cgroup2 cgroup2 rw\n");
        let mut files = vec![
            ("/proc/self/mountinfo".to_owned(), mounts.as_str()),
            (format!("{top}/cgroup.controllers"), "memory\n"),
        ];
        for service in ["first", "second", "third"] {
            let path = format!("{top}/system.slice/{service}.service/own");
            files.push((format!("{path}/memory.swap.current"), "0\n"));
            files.push((format!("{path}/memory.max"), "4096\n"));
        }
        let files: Vec<(&str, &str)> = files.iter().map(|it| (it.0.as_str(), it.1)).collect();
        let (_dir, host) = Host::planted(&files);
        let many = host.path(format!("{top}/system.slice/second.service"));
        for number in 0..=GROUPS_MAX {
            std::fs::create_dir(many.join(format!("a{number}"))).unwrap();
        }
        let mut reader = Reader::new(&host);
        let found = groups(&mut reader).unwrap().into_iter();
        let found: Vec<String> = found.map(|it| it.path).collect();
        let of = |service: &str| format!("/system.slice/{service}.service/own");
        assert_eq!(found, [of("first"), of("third")]);
        let told = reader.warnings;
        assert!(
            told.iter().any(|it| it.path.ends_with("/second.service")),
            "{told:?}"
        );
    }

    #[test]
    fn counters_that_a_kernel_lacks_are_absent() {
        let activity =
            Activity::parse("pswpin 16\npswpout 9\nallocstall_dma 1\nallocstall_normal 2\nx\n");
        assert_eq!(activity.pages_in(), Some(16));
        // What zswap writes on leaves RAM once.
        let of_zswap = Activity::parse("pswpout 9\nzswpout 7\nzswpwb 4\n");
        assert_eq!(
            (of_zswap.pages_in(), of_zswap.pages_out()),
            (None, Some(12))
        );
        assert_eq!(activity.direct_reclaims, Some(3));
        assert_eq!(activity.zero_out_pages, None);
    }
}
