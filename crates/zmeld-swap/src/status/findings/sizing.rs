//! Limits, sizes, and how full things are.

use zmeld_report::units::{bytes, count, percent, share};

use zmeld_config::advice::size::{
    fills_ram, holds, is_oversized, limit_percent, meant_bytes, LIMIT_MAX_PERCENT, RATIO_ASSUMED,
};
use zmeld_config::advice::{Basis, Sizing};
use zmeld_config::{Bytes, Finding, Remedy, Size};

use super::view::{is_experiment, View};
use crate::observe::tier::judged;
use crate::observe::{Device, LimitedGroup, Swap};

/// A device this full, by its limit or its size, is soon no help any more.
const NEARLY_FULL: f64 = 0.9;

/// How far below its threshold a pool of zswap goes that was full.
const HOVERING: f64 = 0.05;
/// Below this, no pool of zswap is nearly full, whatever its threshold.
const POOL_FULL_MIN: f64 = 0.7;

/// Way out if compressing more does not help.
const MORE: &str =
    "end programs, or add a disk tier to the configuration ([tier.NAME] with kind = \
                    \"disk\"; zmeld up --tier disk would set up that alone)";

/// A device failed writes lately, or reads since boot (`io_stat`); not if a raised limit mended it.
/// Do: a higher limit, a smaller size.
pub(super) fn failed_writes(view: &View, device: &Device) -> Option<Finding> {
    let held = device.held.unwrap_or_default();
    let memory = &view.now.memory;
    // The limit that they failed at was raised since; and it was not for want of memory.
    let is_raised = held.limit_bytes > 0
        && share(held.memory_used_max_bytes, held.limit_bytes) < NEARLY_FULL
        && zmeld_linux::meminfo::is_enough(memory.available_bytes, memory.total_bytes);
    let failed_writes = match is_raised {
        true => 0,
        false => view.now.lately.failed_writes(device),
    };
    if failed_writes == 0 && device.io.failed_reads == 0 {
        return None;
    }
    let limit = match held.limit_bytes {
        0 => "no limit".to_owned(),
        limit => format!("a limit of {}", bytes(limit)),
    };
    Some(Finding::of_machine(
        &device.name,
        match device.io.failed_reads {
            0 => "writes failed: there was no memory, or the limit was reached",
            _ => "reads failed: pages could not be read back",
        },
        format!(
            "{} failed writes {} and {} failed reads; it takes {} with {limit}, at the most it \
             took {}",
            count(failed_writes),
            view.now.lately.words(),
            count(device.io.failed_reads),
            bytes(held.memory_used_bytes),
            bytes(held.memory_used_max_bytes)
        ),
        match held.limit_bytes {
            0 => format!(
                "make the device smaller than what compresses into RAM, and see dmesg | grep {}",
                device.name
            )
            .into(),
            _ => Fit::of(view, device).remedy(view, device),
        },
    ))
}

/// Devices without `mem_limit`, or with one above 80 % of RAM, can fill RAM together ([the
/// warning](configuration.md#warnings)). Do: a limit.
pub(super) fn no_memory_limit(view: &View, _: &Swap, device: &Device) -> Option<Finding> {
    let ram = view.now.memory.total_bytes;
    let open = view.compressed().filter(|(_, it)| is_open(view, it));
    let ratio = |device| measured_ratio(device).unwrap_or(RATIO_ASSUMED);
    let (mut together, mut full, mut count) = (0u64, 0u64, 0);
    for (_, it) in open {
        count += 1;
        together = together.saturating_add(it.size_bytes);
        full = full.saturating_add((it.size_bytes as f64 / ratio(it)) as u64);
    }
    let meant = meant_bytes(together, count, view.now.page_size);
    if !is_open(view, device) || ram == 0 || !fills_ram(meant, full, ram) {
        return None;
    }
    let (what, who, limit) = match device.held.unwrap_or_default().limit_bytes {
        0 => (
            "the RAM it may take has no limit: pages that do not compress can fill it",
            "have no limit",
            "0".to_owned(),
        ),
        limit => (
            "it may take nearly all RAM: pages that do not compress can fill it",
            "may take nearly all of it",
            bytes(limit),
        ),
    };
    Some(Finding::of_machine(
        &device.name,
        what,
        format!(
            "disksize {}, {} of RAM with all that {who}; mem_limit {limit}",
            bytes(device.size_bytes),
            percent(share(together, ram)),
        ),
        Fit::of(view, device).remedy(view, device),
    ))
}

/// A device is a tenth larger than RAM or its limit can hold at the measured ratio (2 until 16 MiB
/// are stored): writes fail, or RAM runs out, while swap seems free. Do: size and limit of `zmeld
/// plan`; for another tool's device, in its settings.
pub(super) fn oversized(view: &View, _: &Swap, device: &Device) -> Option<Finding> {
    let ram = view.now.memory.total_bytes;
    let held = device.held.unwrap_or_default();
    let room = match held.limit_bytes {
        0 => ram,
        limit => limit.min(ram),
    };
    let measured = measured_ratio(device);
    if room == 0 || !is_oversized(device.size_bytes, room, measured) {
        return None;
    }
    Some(Finding::of_machine(
        &device.name,
        match held.limit_bytes {
            0 => {
                "its size is more than memory can hold: the machine runs out of memory while \
                  swap still seems free"
            }
            _ => {
                "its size is more than its limit can hold: writes to it fail while swap still \
                  seems free"
            }
        },
        format!(
            "disksize {}; {} of {} at a ratio of {:.2}{} hold {}",
            bytes(device.size_bytes),
            bytes(room),
            if held.limit_bytes == 0 {
                "RAM"
            } else {
                "limit"
            },
            measured.unwrap_or(RATIO_ASSUMED),
            if measured.is_some() { "" } else { " (assumed)" },
            bytes(holds(room, measured))
        ),
        Fit::of(view, device).remedy(view, device),
    ))
}

/// From this ratio on, compressing gives more than it costs.
const RATIO_WORTH: f64 = 1.1;

/// The pages of a device have a ratio below 1.1. Do: swap on a disk.
pub(super) fn incompressible(view: &View, _: &Swap, device: &Device) -> Option<Finding> {
    let ratio = measured_ratio(device).filter(|ratio| *ratio < RATIO_WORTH)?;
    let held = device.held.unwrap_or_default();
    let has_disk = view.disks().next().is_some();
    Some(Finding::of_machine(
        &device.name,
        "its pages do not compress: they take as much RAM as they had before",
        format!(
            "{} of pages take {}, a ratio of {ratio:.2}",
            bytes(device.in_memory_bytes()),
            bytes(held.memory_used_bytes)
        ),
        match (&device.backing, has_disk) {
            (Some(_), _) => {
                Remedy::run([format!("echo huge > /sys/block/{}/writeback", device.name)])
            }
            (None, true) => "zswap in front of the disk, which writes such pages there (zmeld \
                             plan --tier zswap)"
                .into(),
            (None, false) => format!("swap on a disk instead: {MORE}").into(),
        },
    ))
}

/// zswap's pool is nearly full: what comes then goes to the disk at once.
fn pool_near_limit(view: &View) -> Option<Finding> {
    let zswap = view.now.zswap.as_ref().filter(|zswap| zswap.enabled)?;
    let limit = zswap.limit_bytes(&view.now.memory);
    let fill = share(zswap.memory_used_bytes, limit);
    // A pool that was full takes pages again below this threshold (90 %), so that it stays about
    // there: it is found all the while.
    let stays = zswap.accept_threshold_percent as f64 / 100.0 - HOVERING;
    if fill < NEARLY_FULL.min(stays.max(POOL_FULL_MIN)) {
        return None;
    }
    // Two thirds full from then on.
    let is = zswap.max_pool_percent;
    let wanted = is.saturating_add((is / 2).max(1));
    let own = view.applied.and_then(|applied| applied.zswap());
    Some(Finding::of_machine(
        "zswap",
        "its pool is close to its limit: pages go to the disk from then on",
        format!(
            "{} of {} ({}); max_pool_percent {}",
            bytes(zswap.memory_used_bytes),
            bytes(limit),
            percent(fill),
            zswap.max_pool_percent
        ),
        match own {
            _ if wanted > u64::from(LIMIT_MAX_PERCENT) => {
                format!("nothing, where the disk is fast enough; else {MORE}").into()
            }
            Some(own) => view.set_up(
                &format!("tier.{}", own.name),
                &[("max_pool_percent", wanted.to_string())],
            ),
            None => Remedy::run([format!(
                "echo {wanted} > /sys/module/zswap/parameters/max_pool_percent"
            )])
            .and(", and zswap.max_pool_percent on the kernel's command line"),
        },
    ))
}

/// New size and limit of a device with which no rule about them finds it again: one answer for all
/// of them.
struct Fit {
    /// In percent of RAM, where it has to be made anew for it.
    size_percent: Option<u32>,
    limit: Size,
}

impl Fit {
    /// A limit that holds what it takes when it is full, as far as its pages show; where half of
    /// RAM does not, the size and limit that `zmeld plan` would give it.
    fn of(view: &View, device: &Device) -> Fit {
        let ram = view.now.memory.total_bytes;
        let held = device.held.unwrap_or_default();
        let measured = measured_ratio(device);
        let (percent, _) = limit_percent(device.size_bytes, ram, measured.unwrap_or(RATIO_ASSUMED));
        // All that have none get one, and share what one would have.
        let open = view.compressed().filter(|(_, it)| is_open(view, it));
        let open = open.count();
        let sharing = if is_open(view, device) {
            open.max(1)
        } else {
            1
        };
        let shared = |percent: u32| (percent / sharing as u32).max(1);
        let percent = shared(percent);
        let limit_bytes = |percent: u32| ram / 100 * u64::from(percent);
        // Other pages than today's were in it, too.
        let taken = held.memory_used_bytes.max(held.memory_used_max_bytes);
        let needed = taken as f64 / (NEARLY_FULL * limit_bytes(1).max(1) as f64);
        let percent = percent.max((needed as u32).saturating_add(1));
        if percent <= LIMIT_MAX_PERCENT
            && !is_oversized(device.size_bytes, limit_bytes(percent), measured)
        {
            // A percent of a large machine is more than a small device ever takes.
            let limit = match limit_bytes(percent) > device.size_bytes {
                true => small_limit(device.size_bytes, measured, taken),
                false => Size::percent(percent),
            };
            return Fit {
                size_percent: None,
                limit,
            };
        }
        let bytes = device.in_memory_bytes();
        let basis = measured.map(|ratio| Basis { ratio, bytes });
        let advised = Sizing::advised(device.slot_table(view.now.page_size), ram, basis);
        Fit {
            size_percent: Some(shared(advised.size_percent)),
            limit: Size::percent(shared(advised.memory_limit_percent)),
        }
    }

    /// How a device becomes that, so that it is so after the next boot, too.
    fn remedy(&self, view: &View, device: &Device) -> Remedy {
        if let Some(tier) = view.applied.and_then(|it| it.tier_of(&device.name)) {
            let size = self.size_percent.map(|it| ("size", format!("\"{it}%\"")));
            let limit = ("memory_limit", format!("\"{}\"", self.limit));
            let keys: Vec<_> = size.into_iter().chain([limit]).collect();
            return view.set_up(&format!("tier.{}", tier.name), &keys);
        }
        let setting = format!(
            "in the settings of the tool that made it (zram-generator: {}), or run {}",
            match self.size_percent {
                Some(_) => "zram-size and zram-resident-limit",
                None => "zram-resident-limit",
            },
            view.asked().command("up --take-over")
        );
        let (limit, of) = match self.limit {
            Size::Bytes(bytes) => (bytes.to_string(), ""),
            Size::Ram { percent, .. } => (percent.to_string().replace('%', " %"), " of RAM"),
        };
        if let Some(size) = self.size_percent {
            return format!("set its size to {size} % of RAM and its limit to {limit}, {setting}")
                .into();
        }
        let bytes = self.limit.bytes(view.now.memory.total_bytes);
        let now = format!("echo {bytes} > /sys/block/{}/mem_limit", device.name);
        Remedy::run([now.clone()]).said(format!(
            "set its limit to {limit}{of}, {setting}; until the next boot: {now}"
        ))
    }
}

/// A limit in whole MiB for a device that is smaller than a percent of RAM.
fn small_limit(size_bytes: u64, measured: Option<f64>, taken: u64) -> Size {
    let (percent, _) = limit_percent(
        size_bytes,
        2 * size_bytes,
        measured.unwrap_or(RATIO_ASSUMED),
    );
    let full = size_bytes / 50 * u64::from(percent);
    let taken = (taken as f64 / NEARLY_FULL) as u64 + 1;
    Size::Bytes(Bytes(full.max(taken).next_multiple_of(1 << 20)))
}

/// Whether nothing limits the RAM that a device may take, or hardly anything.
fn is_open(view: &View, device: &Device) -> bool {
    let limit = device.held.unwrap_or_default().limit_bytes;
    limit == 0 || fills_ram(0, limit, view.now.memory.total_bytes)
}

/// The ratio of the pages in a device, where there are enough to judge by.
fn measured_ratio(device: &Device) -> Option<f64> {
    judged(device.in_memory_bytes(), device.held?.memory_used_bytes)
}

/// 90 % are taken of `mem_limit`, of zswap's pool (5 % below `accept_threshold_percent`), of all
/// swap, or of a control group's limit. Do: writeback, a higher limit.
pub(super) fn near_limit(view: &View) -> Vec<Finding> {
    let mut found = Vec::new();
    for device in &view.now.devices {
        let held = device.held.unwrap_or_default();
        let fill = share(held.memory_used_bytes, held.limit_bytes);
        if fill >= NEARLY_FULL {
            found.push(Finding::of_machine(
                &device.name,
                "it is close to its memory limit: at the limit, writes fail",
                format!(
                    "{} of {} ({})",
                    bytes(held.memory_used_bytes),
                    bytes(held.limit_bytes),
                    percent(fill)
                ),
                match &device.backing {
                    Some(_) if device.writeback_limit_bytes != Some(0) => Remedy::run([
                        format!("echo all > /sys/block/{}/idle", device.name),
                        format!("echo idle > /sys/block/{}/writeback", device.name),
                    ]),
                    _ => match Fit::of(view, device) {
                        Fit {
                            size_percent: Some(_),
                            ..
                        } => format!("half of RAM is in it: {MORE}").into(),
                        fit => fit.remedy(view, device),
                    },
                },
            ));
        }
    }
    found.extend(pool_near_limit(view));
    // A refusal has a finding of its own.
    let quiet = |group: &&LimitedGroup| view.now.lately.refused(group) == 0;
    let groups = view.now.groups.iter().filter(quiet);
    found.extend(groups.filter_map(|group| group_near_limit(view, group)));
    let all_full = !view.now.swaps.is_empty()
        && view
            .now
            .swaps
            .iter()
            .all(|swap| swap.area.fill() >= NEARLY_FULL);
    if all_full {
        let memory = &view.now.memory;
        found.push(Finding::of_machine(
            "swap",
            "swap is nearly full: when it is, the kernel kills processes",
            format!(
                "{} of {} are left",
                bytes(memory.swap_free_bytes),
                bytes(memory.swap_total_bytes)
            ),
            MORE,
        ));
    }
    found
}

/// A group that has nearly all of the swap that it may have: what is over stays in its
/// RAM, and past its limit there the kernel kills its programs.
fn group_near_limit(view: &View, group: &LimitedGroup) -> Option<Finding> {
    let limit = group.swap_max_bytes?;
    let fill = share(group.swap_bytes, limit);
    if fill < NEARLY_FULL || is_experiment(&group.path) {
        return None;
    }
    let memory = match (group.memory_bytes, group.memory_max_bytes) {
        (Some(used), Some(most)) => format!("{} of {} of memory", bytes(used), bytes(most)),
        (Some(used), None) => format!("{} of memory, without a limit of its own", bytes(used)),
        _ => "its memory is not counted".to_owned(),
    };
    Some(Finding::of_machine(
        format!("cgroup {}", group.path),
        "it is close to its swap limit: further pages stay in RAM, and at its \
         memory limit the kernel kills its programs",
        format!(
            "{} of {} of swap ({}); {memory}",
            bytes(group.swap_bytes),
            bytes(limit),
            percent(fill)
        ),
        view.raise_limit(&group.path, true, Some(limit)),
    ))
}

/// A control group was refused swap by its limit lately. Do: a higher limit of swap.
pub(super) fn group_refused(view: &View) -> Vec<Finding> {
    view.now
        .groups
        .iter()
        .map(|group| (group, view.now.lately.refused(group)))
        .filter(|(_, refused)| *refused > 0)
        .map(|(group, refused)| {
            Finding::of_machine(
                format!("cgroup {}", group.path),
                "it reached its swap limit: its pages stay in RAM, and it may be killed",
                format!(
                    "refused {} times {}; {} of {} in use",
                    count(refused),
                    view.now.lately.words(),
                    bytes(group.swap_bytes),
                    group.swap_max_bytes.map_or("no limit".to_owned(), bytes)
                ),
                view.raise_limit(&group.path, true, group.swap_max_bytes),
            )
        })
        .collect()
}
