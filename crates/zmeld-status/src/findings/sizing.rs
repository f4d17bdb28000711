//! Limits, sizes, and how full things are.

use zmeld_report::units::{bytes, count, percent};

use zmeld_advice::size::{fills_ram, holds, is_oversized, limit_percent, RATIO_ASSUMED};
use zmeld_advice::{Basis, Sizing};

use super::{Finding, View};
use zmeld_observe::{share, Device, Group, Swap};

/// A device this full, by its limit or its size, is soon no help any more.
const NEARLY_FULL: f64 = 0.9;

/// Writes that the device refused lately (no memory, or the limit), and reads that it
/// ever did: those lost pages.
pub(super) fn failed_writes(view: &View, device: &Device) -> Option<Finding> {
    let failed_writes = view.now.lately.failed_writes(device);
    if failed_writes == 0 && device.io.failed_reads == 0 {
        return None;
    }
    let held = device.held.unwrap_or_default();
    let limit = match held.limit_bytes {
        0 => "no limit".to_owned(),
        limit => format!("a limit of {}", bytes(limit)),
    };
    Some(Finding::of_machine(
        &device.name,
        match device.io.failed_reads {
            0 => "writes failed: there was no memory, or the limit was reached",
            _ => "reads failed: pages could not be given back",
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
            ),
            limit => other_limit(view, device, limit.saturating_add(limit / 2)),
        },
    ))
}

/// Without a limit, pages that do not compress can fill RAM with swap.
pub(super) fn no_memory_limit(view: &View, _: &Swap, device: &Device) -> Option<Finding> {
    let ram = view.now.memory.total_bytes;
    let is_open = |device: &Device| device.held.unwrap_or_default().limit_bytes == 0;
    let open = view.compressed().filter(|(_, it)| is_open(it));
    let ratio = |device| measured_ratio(device).unwrap_or(RATIO_ASSUMED);
    let (mut together, mut full) = (0u64, 0u64);
    for (_, it) in open {
        together = together.saturating_add(it.size_bytes);
        full = full.saturating_add((it.size_bytes as f64 / ratio(it)) as u64);
    }
    if !is_open(device) || ram == 0 || !fills_ram(together, full, ram) {
        return None;
    }
    let (limit, _) = limit_percent(device.size_bytes, ram, ratio(device));
    Some(Finding::of_machine(
        &device.name,
        "there is no limit to the RAM it may take: pages that do not compress can fill RAM with \
         swap",
        format!(
            "disksize {}, {} of RAM with all that have no limit; mem_limit 0",
            bytes(device.size_bytes),
            percent(share(together, ram))
        ),
        other_limit(view, device, ram / 100 * u64::from(limit)),
    ))
}

/// A disk size that even a good ratio cannot back with the memory that there is.
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
        "its size promises more than memory can hold: the machine runs out of memory \
         while swap still seems free",
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
        smaller(view, device, measured),
    ))
}

/// How a device gets another limit, so that it has it after the next boot too.
fn other_limit(view: &View, device: &Device, limit_bytes: u64) -> String {
    let ram = view.now.memory.total_bytes.max(1);
    let now = format!(
        "until the next boot: echo {} > /sys/block/{}/mem_limit",
        limit_bytes / view.now.page_size * view.now.page_size,
        device.name
    );
    match view.applied.and_then(|it| it.tier_of(&device.name)) {
        Some(tier) => {
            let percent = (u128::from(limit_bytes) * 100)
                .div_ceil(u128::from(ram))
                .max(1);
            format!(
                "memory_limit = \"{}%\" in tier.{} of /etc/zmeld.toml, then zmeld up; {now}",
                percent.min(100),
                tier.name
            )
        }
        None => format!(
            "the setting of the tool that made it (zram-generator: zram-resident-limit), or zmeld \
             up --take-over; {now}"
        ),
    }
}

/// The ratio of the pages in a device, where there are enough to judge by.
fn measured_ratio(device: &Device) -> Option<f64> {
    let stored = device.in_memory_bytes();
    let used = device.held.unwrap_or_default().memory_used_bytes;
    (stored >= super::JUDGED_FROM && used > 0).then(|| share(stored, used))
}

/// What `zmeld plan` would give a machine with such pages; a higher limit where the
/// size is not too large for that.
fn smaller(view: &View, device: &Device, measured: Option<f64>) -> String {
    let ram = view.now.memory.total_bytes;
    let bytes = device.in_memory_bytes();
    let basis = measured.map(|ratio| Basis { ratio, bytes });
    let advised = Sizing::advised(ram, view.now.page_size, basis);
    if device.size_bytes <= advised.size_bytes {
        let ratio = advised.ratio;
        let (limit, _) = limit_percent(device.size_bytes, ram, ratio);
        return format!("memory_limit = \"{limit}%\" in its tier, then zmeld up");
    }
    format!(
        "size = \"{}%\" and memory_limit = \"{}%\" in its tier, then zmeld up",
        advised.size_percent, advised.memory_limit_percent
    )
}

/// Nearly at the memory limit, or nearly all slots taken.
pub(super) fn near_limit(view: &View) -> Vec<Finding> {
    let mut found = Vec::new();
    for device in &view.now.devices {
        let held = device.held.unwrap_or_default();
        let fill = share(held.memory_used_bytes, held.limit_bytes);
        if held.limit_bytes > 0 && fill >= NEARLY_FULL {
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
                    Some(_) => format!(
                        "echo all > /sys/block/{0}/idle; echo idle > /sys/block/{0}/writeback",
                        device.name
                    ),
                    None => {
                        let limit = held.limit_bytes.saturating_add(held.limit_bytes / 4);
                        other_limit(view, device, limit)
                    }
                },
            ));
        }
    }
    // What was refused already has a finding of its own.
    let quiet = |group: &&Group| view.now.lately.refused(group) == 0;
    let groups = view.now.groups.iter().filter(quiet);
    found.extend(groups.filter_map(group_near_limit));
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
            "end programs, or add a disk tier: zmeld plan --tier disk --device ...",
        ));
    }
    found
}

/// A group that has nearly all of the swap that it may have: what is over stays in its
/// RAM, and past its limit there the kernel kills its programs.
fn group_near_limit(group: &Group) -> Option<Finding> {
    let limit = group.swap_max_bytes.filter(|limit| *limit > 0)?;
    let fill = share(group.swap_bytes, limit);
    if fill < NEARLY_FULL || super::is_experiment(&group.path) {
        return None;
    }
    let memory = match (group.memory_bytes, group.memory_max_bytes) {
        (Some(used), Some(most)) => format!("{} of {} of memory", bytes(used), bytes(most)),
        (Some(used), None) => format!("{} of memory, without a limit of its own", bytes(used)),
        _ => "its memory is not counted".to_owned(),
    };
    Some(Finding::of_machine(
        format!("cgroup {}", group.path),
        "it has nearly all of the swap that it may have: further pages stay in RAM, and at its \
         memory limit the kernel kills its programs",
        format!(
            "{} of {} of swap ({}); {memory}",
            bytes(group.swap_bytes),
            bytes(limit),
            percent(fill)
        ),
        format!(
            "raise memory.swap.max of {} (systemd: MemorySwapMax=)",
            group.path
        ),
    ))
}

/// A control group that wanted more swap than it may have.
pub(super) fn group_refused(view: &View) -> Vec<Finding> {
    view.now
        .groups
        .iter()
        .map(|group| (group, view.now.lately.refused(group)))
        .filter(|(_, refused)| *refused > 0)
        .map(|(group, refused)| {
            Finding::of_machine(
                format!("cgroup {}", group.path),
                "its limit refused it swap: its pages stay in RAM, and it may be killed",
                format!(
                    "refused {} times {}; {} of {}",
                    count(refused),
                    view.now.lately.words(),
                    bytes(group.swap_bytes),
                    group.swap_max_bytes.map_or("no limit".to_owned(), bytes)
                ),
                format!(
                    "raise memory.swap.max of {} (systemd: MemorySwapMax=)",
                    group.path
                ),
            )
        })
        .collect()
}
