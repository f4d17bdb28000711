//! Tiers that get in each other's way.

use zmeld_config::advice::{beside, image, CompressedPlace, ZswapFacts};
use zmeld_report::units::bytes;

use super::remedy::priority_above;
use super::view::View;
use crate::observe::{Device, Swap};
use zmeld_config::{Finding, FindingId, Remedy};

/// zswap is on in front of a compressed swap device. Do: zswap alone where a disk stands below a
/// device without writeback; else switch it off.
pub(super) fn zram_with_zswap(view: &View, swap: &Swap, device: &Device) -> Option<Finding> {
    let zswap = view.now.zswap.as_ref().filter(|zswap| zswap.enabled)?;
    Some(Finding::of_machine(
        &device.name,
        "zswap is on in front of a compressed device: pages are compressed twice, and the device \
         gets only the pages that zswap evicts",
        format!(
            "zswap holds {}, {} holds {}",
            bytes(zswap.stored_bytes),
            device.name,
            bytes(device.held.unwrap_or_default().stored_bytes)
        ),
        one_of_both(view, swap, device),
    ))
}

/// Which of zswap and a device stays: zswap where it is asked for, or where a disk stands below a
/// device that writes nothing back; else the device.
fn one_of_both(view: &View, swap: &Swap, device: &Device) -> Remedy {
    let is_asked_for = view.applied.and_then(|applied| applied.zswap()).is_some();
    if is_asked_for {
        return view
            .asked()
            .take_over()
            .and("; zmeld down takes zswap back");
    }
    if view.wanted.zswap().is_some() {
        return match view.is_own(swap) {
            true => view.outstanding.remedy.clone(),
            false => view.asked().take_over(),
        };
    }
    match stands_above_disk(view, swap, device) {
        true => zswap_instead(view, swap, device),
        false => Remedy::run(["echo N > /sys/module/zswap/parameters/enabled"]).and(
            " (and zswap.enabled=0 on the kernel's command line, in place of zswap.enabled=1 \
             where that is there)",
        ),
    }
}

/// A compressed device of another tool is swapped to beside zmeld's own. Do: `zmeld up
/// --take-over`.
pub(super) fn second_device(view: &View) -> Vec<Finding> {
    let page_size = view.now.page_size;
    let ram = view.now.memory.total_bytes;
    let place = |(swap, device): &(&Swap, &Device)| {
        let limit = device.held.unwrap_or_default().limit_bytes;
        let (priority, size) = (swap.area.priority, device.size_bytes);
        CompressedPlace::device(device.slot_table(page_size), priority, size, limit)
    };
    let (own, others): (Vec<_>, Vec<_>) =
        view.compressed().partition(|(swap, _)| view.is_own(swap));
    let Some(first) = own.first() else {
        return Vec::new();
    };
    let found = others.iter().map(|other| {
        let what = beside(place(first), place(other), ram);
        let (swap, device) = other;
        Finding::of_machine(
            &device.name,
            format!("another tool set it up beside {}: {what}", first.1.name),
            format!(
                "{} of priority {} holds {}, {} of priority {} holds {}",
                swap.area.shown(),
                swap.area.priority,
                bytes(swap.area.used_bytes),
                first.0.area.shown(),
                first.0.area.priority,
                bytes(first.0.area.used_bytes)
            ),
            view.asked()
                .take_over()
                .and("; zmeld down leaves the other alone"),
        )
    });
    found.collect()
}

/// Old pages fill a compressed device without writeback, and newer ones go to the slow disk below
/// it; not if [a device is recommended](setup.md#what-is-recommended), the disk is a zvol, or the
/// kernel has neither zswap nor writeback. Do: writeback, or zswap instead.
pub(super) fn lru_inversion(view: &View, above: &Swap, device: &Device) -> Option<Finding> {
    let below = view.disks().find(|disk| {
        disk.area.priority < above.area.priority && !may_stand_above(view, disk, device)
    })?;
    Some(Finding::of_machine(
        &device.name,
        format!(
            "{} fills before {} by priority alone: when it is full, cold pages stay in RAM and \
             warm ones go to disk",
            device.name,
            below.area.shown()
        ),
        format!(
            "priorities {} and {}; {} of {} slots are taken, {} are on disk",
            above.area.priority,
            below.area.priority,
            bytes(above.area.used_bytes),
            bytes(above.area.size_bytes),
            bytes(below.area.used_bytes)
        ),
        zswap_instead(view, above, device),
    ))
}

/// Whether the disk swap is too small for zswap in front of it, as the plan judges it.
fn has_little_disk_swap(view: &View) -> bool {
    let size = view.disks().map(|disk| disk.area.size_bytes);
    let size = size.fold(0, u64::saturating_add);
    let zswap = view.now.zswap.as_ref().map(|zswap| ZswapFacts {
        is_enabled: zswap.enabled,
        max_pool_percent: Some(zswap.max_pool_percent),
        ..ZswapFacts::default()
    });
    zswap.is_some_and(|zswap| zswap.is_held_back_by(size, view.now.memory.total_bytes))
}

/// Whether a device stands above or beside a disk, unless that is no finding.
fn stands_above_disk(view: &View, swap: &Swap, device: &Device) -> bool {
    view.disks().any(|disk| {
        disk.area.priority <= swap.area.priority && !may_stand_above(view, disk, device)
    })
}

/// The disk that is filled first.
fn highest_disk<'a>(view: &View<'a>) -> Option<&'a Swap> {
    view.disks().max_by_key(|disk| disk.area.priority)
}

/// Whether a device above that disk by priority alone is no finding: it is meant, or nothing that
/// this kernel has is better.
fn may_stand_above(view: &View, disk: &Swap, device: &Device) -> bool {
    let is_meant = view.wanted.accept.contains(&FindingId::LruInversion);
    let is_best = view.now.zswap.is_none() && !device.can_write_back;
    let is_behind = device.backing.is_some() || disk.area.is_zvol();
    is_meant || is_best || is_behind || has_little_disk_swap(view)
}

/// The priority that another finding of the same area asks for: each would undo the other's.
pub(super) fn asked_for(view: &View, area: &Swap, device: &Device) -> Option<i32> {
    let disk = highest_disk(view).filter(|disk| disk.area.priority >= area.area.priority)?;
    let is_alone = may_stand_above(view, disk, device);
    is_alone.then(|| priority_above(disk, area)).flatten()
}

/// The better choice in the device's place, the same whichever rule finds it.
fn zswap_instead(view: &View, swap: &Swap, device: &Device) -> Remedy {
    let zswap = || zswap_for(view, swap);
    let writeback = "give the device a writeback partition and a [watch] writeback rule";
    match (&view.now.zswap, device.can_write_back) {
        // With zswap on, a device that writes back would be behind it.
        (Some(now), _) if now.enabled => {
            zswap().that("use zswap in front of the disk, without the device")
        }
        (Some(_), true) => zswap().that(&format!(
            "{writeback}, or use zswap in front of the disk instead"
        )),
        (Some(_), false) => zswap()
            .that("use zswap in front of the disk instead (this kernel's zram has no writeback)"),
        (None, _) => format!("{writeback} (this kernel has no zswap)").into(),
    }
}

/// The commands that put zswap in the place of a device; the disks below stay as they are.
fn zswap_for(view: &View, swap: &Swap) -> Remedy {
    let own = view.applied.and_then(|it| it.tier_on(&swap.area.shown()));
    let take_over = match own {
        Some(_) => "",
        // Beside another tool's device zswap is refused.
        None => " --take-over",
    };
    if view.wanted.tiers.is_empty() {
        return Remedy::run([format!("zmeld up --tier zswap{take_over}")]);
    }
    let mut settings = Vec::new();
    for (tier, priority) in view.wanted.areas() {
        if own.is_some_and(|own| own.name == tier.name.as_str()) {
            settings.push((format!("tier.{}", tier.name), "enabled", "false".to_owned()));
        } else if tier.swap.priority.is_none() {
            // It had the device's otherwise, and its pages would have to leave it for that.
            settings.push((
                format!("tier.{}", tier.name),
                "priority",
                priority.to_string(),
            ));
        }
    }
    let mut name = "cache".to_owned();
    while view.wanted.tier(&name).is_some() {
        name.push('2');
    }
    settings.push((format!("tier.{name}"), "kind", "\"zswap\"".to_owned()));
    let up = view.asked().command(&format!("up{take_over}"));
    view.configured(&settings, &up)
}

/// A compressed device and a disk have the same priority. Do: zswap instead, or a higher priority
/// for the device.
pub(super) fn equal_priority(view: &View, area: &Swap, device: &Device) -> Option<Finding> {
    let other = view
        .disks()
        .find(|disk| disk.area.priority == area.area.priority)?;
    Some(Finding::of_machine(
        &device.name,
        format!(
            "{} and {} have the same priority, so pages go to RAM and to disk in turn",
            device.name,
            other.area.shown()
        ),
        format!("both have priority {}", area.area.priority),
        match stands_above_disk(view, area, device) {
            // Above the disk by priority alone it would be the next finding.
            true => zswap_instead(view, area, device),
            false => view.put_above(area, other),
        },
    ))
}

/// A compressed device has a lower priority than a disk. Do: zswap instead, or a higher priority.
pub(super) fn below_disk(view: &View, area: &Swap, device: &Device) -> Option<Finding> {
    let above = highest_disk(view).filter(|disk| disk.area.priority > area.area.priority)?;
    let remedy = match may_stand_above(view, above, device) {
        true => view.put_above(area, above),
        false => zswap_instead(view, area, device),
    };
    Some(Finding::of_machine(
        &device.name,
        format!(
            "{} is filled first, and {} only once that is full: the slower one takes the pages",
            above.area.shown(),
            device.name
        ),
        format!(
            "priorities {} and {}",
            above.area.priority, area.area.priority
        ),
        remedy,
    ))
}

/// A swap file lies on a compressed device or a RAM disk; headroom counts nothing for it. Do: swap
/// on the device itself, or on a drive.
pub(super) fn file_in_ram(view: &View) -> Vec<Finding> {
    let found = view.now.swaps.iter().filter_map(|swap| {
        let ram = swap.stand.ram_below()?;
        let file_system = swap.stand.file_system.as_ref()?;
        Some(Finding::of_machine(
            swap.area.shown(),
            format!(
                "it is a file on {}, which is in RAM: its pages stay in RAM, below a file system",
                ram.name
            ),
            format!("{file_system} on {}", ram.name),
            view.switched_off(swap),
        ))
    });
    found.collect()
}

/// A volume of ZFS (`/dev/zvol/...`, `/dev/zd0`) is swapped to
/// ([OpenZFS](https://github.com/openzfs/zfs/issues/7734)). Do: swap outside of the pool.
pub(super) fn zvol(view: &View) -> Vec<Finding> {
    let zvols = view.now.swaps.iter().filter(|swap| swap.area.is_zvol());
    let found = zvols.map(|swap| {
        Finding::of_machine(
            swap.area.shown(),
            "it is a ZFS volume, and ZFS needs memory to write a page: the machine can hang when \
             memory is short",
            format!("{} is swapped to", swap.area.shown()),
            view.switched_off(swap),
        )
    });
    found.collect()
}

/// zswap is on and nothing is swapped to. Do: switch it off, or swap on a disk.
pub(super) fn unused_zswap(view: &View) -> Option<Finding> {
    let zswap = view.now.zswap.as_ref().filter(|zswap| zswap.enabled)?;
    view.now.swaps.is_empty().then(|| {
        Finding::of_machine(
            "zswap",
            "it is on without swap behind it, so it takes no page",
            format!(
                "enabled Y, {} held; /proc/swaps is empty",
                bytes(zswap.stored_bytes)
            ),
            Remedy::run(["echo N > /sys/module/zswap/parameters/enabled"]).and(&format!(
                ", or swap on a disk: a disk tier in {}, {}",
                view.asked().file(),
                view.asked().command("up")
            )),
        )
    })
}

/// The kernel has `resume=` (`/sys/power/resume`), and that partition is not swapped to, or smaller
/// than `/sys/power/image_size`. Do: `zmeld plan`; a smaller image.
pub(super) fn hibernation(view: &View) -> Option<Finding> {
    let hibernation = &view.now.hibernation;
    let resume = hibernation.resume.as_ref()?;
    let disks = view.disks();
    let disks = disks.filter_map(|disk| Some((disk.area.path.to_str()?, disk.area.size_bytes)));
    let idle = hibernation.idle.as_deref();
    let area = hibernation.area.as_deref();
    image::lack(resume, disks, area, idle, hibernation.image_bytes)
}
