//! What was asked for and is not so: the kernel, another tool or a missing module
//! silently decided otherwise.

use zmeld_report::units::bytes;

use super::{Found, View};
use crate::config::{Kind, Named, RamDevice, Swappiness, Tier};
use crate::observe::{Device, Swap};

/// Every setting of the configuration that the running system does not have. Which
/// device is whose the journal says; what is not on record is another tool's, and is
/// compared with the tier of the same priority.
pub(super) fn not_applied(view: &View) -> Vec<Found> {
    let mut found = Vec::new();
    found.extend(interrupted(view));
    for (tier, _, priority) in view.wanted.areas() {
        match place(view, tier, priority) {
            Place::Device(device) => {
                if let Kind::Ram(ram) = &tier.kind {
                    found.extend(device_differs(view, ram, device));
                }
            }
            Place::Others(device) => {
                if let Kind::Ram(ram) = &tier.kind {
                    let differs = device_differs(view, ram, device).into_iter();
                    found.extend(differs.map(|found| Found {
                        what: format!("it was set up by another tool, and {}", found.what),
                        ..found
                    }));
                }
            }
            Place::There => {}
            Place::Gone(why) => found.push(Found::new(
                tier.name.as_str(),
                "it was set up and is not swapped to any more",
                why,
                way_to_apply(view),
            )),
            Place::Nowhere if tier.optional => {}
            Place::Nowhere => found.push(Found::new(
                tier.name.as_str(),
                format!("{} asked for it, and it is not set up", view.wanted_by),
                match view.applied {
                    Some(_) => "the last zmeld up did not set it up",
                    None => "zmeld has set nothing up since the machine booted",
                },
                way_to_apply(view),
            )),
        }
    }
    found.extend(zswap_differs(view));
    found.extend(tunables_differ(view));
    found
}

/// A run that was killed, and nobody carried on.
fn interrupted(view: &View) -> Option<Found> {
    let applied = view.applied.filter(|applied| !applied.complete)?;
    Some(Found::new(
        "zmeld up",
        "it was interrupted, and only a part is set up",
        format!(
            "steps of {} of {} tiers were begun",
            applied.tiers.len(),
            applied.config.tiers.len()
        ),
        "zmeld up carries on, zmeld down takes it back",
    ))
}

/// Where a tier is.
enum Place<'a> {
    /// On this compressed device.
    Device(&'a Device),
    /// Nothing of it is on record, and this compressed device has its priority.
    Others(&'a Device),
    /// It is swapped to, or nobody can tell.
    There,
    /// It was set up, and is not there any more, for this reason.
    Gone(String),
    /// It was not set up.
    Nowhere,
}

fn place<'a>(view: &View<'a>, tier: &Tier, priority: i16) -> Place<'a> {
    let applied = view
        .applied
        .and_then(|applied| applied.tier(tier.name.as_str()));
    if let Some(lost) = applied.and_then(|applied| applied.lost.as_ref()) {
        return Place::Gone(lost.clone());
    }
    if let Some(area) = applied.and_then(|applied| applied.area.as_ref()) {
        let swap = view.now.swaps.iter().find(|swap| swap.area.path == *area);
        return match swap {
            Some(swap) => view.now.device_of(swap).map_or(Place::There, Place::Device),
            None => Place::Gone(format!("{area} is not in /proc/swaps")),
        };
    }
    // A priority that the kernel chose is nobody's.
    if priority < 0 {
        return Place::There;
    }
    let mut here = view
        .now
        .swaps
        .iter()
        .filter(|swap| swap.area.priority == i64::from(priority));
    match (here.next(), here.next()) {
        (None, _) => Place::Nowhere,
        // Two areas of one priority cannot be told apart.
        (Some(_), Some(_)) => Place::There,
        (Some(swap), None) => view.now.device_of(swap).map_or(Place::There, Place::Others),
    }
}

/// What brings about what was asked for. Beside compressed swap that is not zmeld's,
/// `zmeld up` sets nothing up that compresses.
fn way_to_apply(view: &View) -> String {
    let tiers = || view.applied.iter().flat_map(|applied| &applied.tiers);
    let stands = |wanted: &Tier| {
        tiers().any(|tier| {
            let is_on = |swap: &Swap| tier.area.as_ref() == Some(&swap.area.path);
            let zswap = || view.now.zswap.as_ref().is_some_and(|zswap| zswap.enabled);
            let is_there = match wanted.kind {
                Kind::Zswap(_) => zswap(),
                _ => view.now.swaps.iter().any(is_on),
            };
            tier.name == wanted.name.as_str() && tier.lost.is_none() && is_there
        })
    };
    let compresses = |tier: &&Tier| !matches!(tier.kind, Kind::Disk(_));
    let mut wanted = view.wanted.tiers.iter().filter(compresses);
    let mut compressed = view.compressed();
    let other = compressed.find(|(swap, _)| !view.is_own(swap));
    match (other, wanted.find(|tier| !stands(tier))) {
        (Some((swap, _)), Some(_)) => format!(
            "zmeld up --take-over ({} was set up by another tool)",
            swap.area.path
        ),
        _ => "zmeld up".to_owned(),
    }
}

fn differs(view: &View, subject: &str, setting: &str, wanted: &str, is: &str) -> Found {
    Found::new(
        subject,
        format!("{setting} is not what {} asked for", view.wanted_by),
        format!("asked for {wanted}, in effect {is}"),
        way_to_apply(view),
    )
}

fn device_differs(view: &View, ram: &RamDevice, device: &Device) -> Vec<Found> {
    let name = &device.name;
    let mut found = Vec::new();
    if let Some(codec) = ram.codec.as_ref() {
        if codec.name != device.codec {
            found.push(differs(view, name, "its codec", &codec.name, &device.codec));
        }
    }
    let memory = view.now.memory.total_bytes;
    let limit = ram.memory_limit.map_or(0, |size| size.bytes(memory));
    let is = device.held.map_or(0, |held| held.limit_bytes);
    if limit != is {
        found.push(differs(
            view,
            name,
            "its memory limit",
            &bytes(limit),
            &bytes(is),
        ));
    }
    for again in &ram.recompress {
        let is = device.recompression.get(&again.priority);
        if is != Some(&again.codec.name) {
            found.push(differs(
                view,
                name,
                &format!("recompression at priority {}", again.priority),
                &again.codec.name,
                is.map_or("none", String::as_str),
            ));
        }
    }
    if ram
        .writeback
        .as_ref()
        .is_some_and(|writeback| !writeback.optional)
        && device.backing.is_none()
    {
        found.push(differs(view, name, "its backing device", "one", "none"));
    }
    if let Some(melding) = &device.melding {
        let wanted = ram.meld.name();
        if melding.mode != wanted {
            found.push(differs(view, name, "its melding", wanted, &melding.mode));
        }
    }
    found
}

fn zswap_differs(view: &View) -> Vec<Found> {
    let Some(wanted) = view.wanted.zswap() else {
        return Vec::new();
    };
    let Some(is) = &view.now.zswap else {
        return vec![Found::new(
            "zswap",
            "zswap is asked for, and this kernel has none",
            "there is no /sys/module/zswap",
            "use a zram tier with a writeback device instead: zmeld plan --tier zram",
        )];
    };
    let mut found = Vec::new();
    if !is.enabled {
        found.push(differs(view, "zswap", "zswap", "on", "off"));
    }
    if let Some(compressor) = wanted.compressor.as_ref().filter(|c| **c != is.compressor) {
        found.push(differs(
            view,
            "zswap",
            "its compressor",
            compressor,
            &is.compressor,
        ));
    }
    let percent = wanted.max_pool_percent.map(u64::from);
    if let Some(percent) = percent.filter(|percent| *percent != is.max_pool_percent) {
        found.push(differs(
            view,
            "zswap",
            "its pool's limit",
            &format!("{percent} %"),
            &format!("{} %", is.max_pool_percent),
        ));
    }
    if let (Some(wanted), Some(is)) = (wanted.shrinker, is.shrinker) {
        if wanted != is {
            let word = |on| if on { "on" } else { "off" };
            found.push(differs(
                view,
                "zswap",
                "its shrinker",
                word(wanted),
                word(is),
            ));
        }
    }
    found
}

fn tunables_differ(view: &View) -> Vec<Found> {
    let wanted = &view.wanted.tunables;
    let is = &view.now.tunables;
    let swappiness = match wanted.swappiness {
        Some(Swappiness::Value(value)) => Some(u64::from(value)),
        _ => None,
    };
    [
        ("vm.swappiness", swappiness, is.swappiness),
        (
            "vm.page-cluster",
            wanted.page_cluster.map(u64::from),
            is.page_cluster,
        ),
        (
            "vm.watermark_scale_factor",
            wanted.watermark_scale_factor.map(u64::from),
            is.watermark_scale_factor,
        ),
    ]
    .into_iter()
    .filter_map(|(name, wanted, is)| match (wanted, is) {
        (Some(wanted), Some(is)) if wanted != is => Some(differs(
            view,
            name,
            name,
            &wanted.to_string(),
            &is.to_string(),
        )),
        _ => None,
    })
    .collect()
}
