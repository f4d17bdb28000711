//! Tiers that get in each other's way.

use zmeld_advice::{beside, CompressedPlace, ZswapFacts};
use zmeld_report::units::bytes;

use super::{Finding, View};
use crate::outstanding::take_over;
use zmeld_config::{FindingId, Remedy};
use zmeld_observe::{image, Device, Swap};

/// zswap takes the pages first and hands a zram device compressed data's worth of
/// trouble: pages are compressed twice, and the figures of both mislead.
pub(super) fn zram_with_zswap(view: &View, swap: &Swap, device: &Device) -> Option<Finding> {
    let zswap = view.now.zswap.as_ref().filter(|zswap| zswap.enabled)?;
    Some(Finding::of_machine(
        &device.name,
        "zswap is on in front of a compressed device: pages are compressed twice, and the device \
         sees only what zswap throws out",
        format!(
            "zswap holds {}, {} holds {}",
            bytes(zswap.stored_bytes),
            device.name,
            bytes(device.held.unwrap_or_default().stored_bytes)
        ),
        one_of_both(view, swap, device),
    ))
}

/// Which of zswap and a device stays: zswap where it is asked for, or where a disk stands
/// below, as the plan has it; else the device.
fn one_of_both(view: &View, swap: &Swap, device: &Device) -> Remedy {
    let is_asked_for = view.applied.and_then(|applied| applied.zswap()).is_some();
    if is_asked_for {
        return take_over().and("; zmeld down takes zswap back");
    }
    if view.wanted.zswap().is_some() {
        return match view.is_own(swap) {
            true => view.outstanding.remedy.clone(),
            false => take_over(),
        };
    }
    match beside_disk(view, swap) {
        Some(disk) => zswap_instead(view, swap, device, disk),
        None => Remedy::run(["echo N > /sys/module/zswap/parameters/enabled"]).and(
            " (and zswap.enabled=0 on the kernel's command line, in place of zswap.enabled=1 \
             where that is there)",
        ),
    }
}

/// A device that another tool set up beside zmeld's own. What the plan refuses is on
/// where the other came later, or an earlier zmeld let it pass.
pub(super) fn second_device(view: &View) -> Vec<Finding> {
    let page_size = view.now.page_size;
    let ram = view.now.memory.total_bytes;
    let place = |(swap, device): &(&Swap, &Device)| {
        let limit = device.held.unwrap_or_default().limit_bytes;
        CompressedPlace::device(swap.area.priority, device.size_bytes, limit, page_size)
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
            format!(
                "another tool set it up, and it stands beside {}: {what}",
                first.1.name
            ),
            format!(
                "{} of priority {} holds {}, {} of priority {} holds {}",
                swap.area.shown(),
                swap.area.priority,
                bytes(swap.area.used_bytes),
                first.0.area.shown(),
                first.0.area.priority,
                bytes(first.0.area.used_bytes)
            ),
            take_over().and("; zmeld down leaves the other alone"),
        )
    });
    found.collect()
}

/// A compressed device above a disk by priority alone fills with what was swapped
/// first, the coldest pages; what comes later, and is needed sooner, goes to disk.
pub(super) fn lru_inversion(view: &View, above: &Swap, device: &Device) -> Option<Finding> {
    if has_little_disk_swap(view) || device.backing.is_some() {
        return None;
    }
    let below = view
        .disks()
        .find(|disk| disk.area.priority < above.area.priority)?;
    Some(Finding::of_machine(
        &device.name,
        format!(
            "{} stands above {} by priority alone: when it is full, cold pages stay in RAM and \
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
        zswap_instead(view, above, device, below),
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

/// The disk that a device without writeback stands above or beside, unless that is meant.
fn beside_disk<'a>(view: &View<'a>, swap: &Swap) -> Option<&'a Swap> {
    let is_backed = |device: &Device| device.backing.is_some();
    let is_meant =
        view.wanted.accept.contains(&FindingId::LruInversion) || has_little_disk_swap(view);
    if is_meant || view.now.device_of(swap).is_some_and(is_backed) {
        return None;
    }
    view.disks()
        .find(|disk| disk.area.priority <= swap.area.priority)
}

/// What stands better in the device's place, the same whichever rule finds it.
fn zswap_instead(view: &View, swap: &Swap, device: &Device, disk: &Swap) -> Remedy {
    let zswap = || zswap_for(view, swap);
    let writeback = "give the device a writeback partition and a [watch] writeback rule";
    match (&view.now.zswap, device.can_write_back) {
        // Where it is on, a device that writes back would still be behind it.
        (Some(now), _) if now.enabled => zswap().said(
            "use zswap in front of the disk, without the device (zmeld plan says with what, once \
             it is configured so)",
        ),
        (Some(_), true) => zswap().said(format!(
            "{writeback}, or use zswap in front of the disk instead"
        )),
        (Some(_), false) => zswap()
            .said("use zswap in front of the disk instead (this kernel's zram has no writeback)"),
        (None, true) => format!("{writeback} (this kernel has no zswap)").into(),
        (None, false) => format!(
            "swapoff {}, where nothing needs it (this kernel has neither zswap nor zram's \
             writeback), or accept = [\"lru-inversion\"] in /etc/zmeld.toml",
            disk.area.shown()
        )
        .into(),
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
    let mut text = String::new();
    for (tier, swap, priority) in view.wanted.areas() {
        if own.is_some_and(|own| own.name == tier.name.as_str()) {
            text += &format!("[tier.{}]\nenabled = false\n", tier.name);
        } else if swap.priority.is_none() {
            // It had the device's otherwise, and its pages would have to leave it for that.
            text += &format!("[tier.{}]\npriority = {priority}\n", tier.name);
        }
    }
    let mut name = "cache".to_owned();
    while view.wanted.tier(&name).is_some() {
        name.push('2');
    }
    text += &format!("[tier.{name}]\nkind = \"zswap\"\n");
    let mut commands = view.configured(&name, &text);
    commands.push(format!("zmeld up{take_over}"));
    Remedy::run(commands)
}

/// Pages are dealt out in turn to areas of equal priority, fast or slow.
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
        match beside_disk(view, area) {
            // Above the disk by priority alone it would be the next finding.
            Some(disk) => zswap_instead(view, area, device, disk),
            None => {
                let priority = area.area.priority.max(0).saturating_add(100).min(32_767);
                match view.applied.and_then(|it| it.tier_on(&area.area.shown())) {
                    Some(tier) => view.set_up(
                        &tier.name,
                        &format!("[tier.{}]\npriority = {priority}\n", tier.name),
                        format!("priority = {priority} in tier.{}, then zmeld up", tier.name),
                    ),
                    None => view.switched_anew(area, &format!("--priority {priority}")),
                }
            }
        },
    ))
}

/// What is in RAM is not there after power-off: an image needs swap on a drive.
pub(super) fn hibernation(view: &View) -> Option<Finding> {
    let hibernation = &view.now.hibernation;
    let resume = hibernation.resume.as_ref()?;
    let disks = view.disks();
    let disks = disks.filter_map(|disk| Some((disk.area.path.to_str()?, disk.area.size_bytes)));
    let idle = hibernation.idle.as_deref();
    image::lack(resume, disks, idle, hibernation.image_bytes)
}
