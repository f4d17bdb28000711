//! What was asked for and is not so: the kernel, another tool or a missing module
//! silently decided otherwise.

use zmeld_report::units::bytes;

use super::{Found, View};
use crate::config::{Kind, MeldMode, RamDevice, Swappiness};
use crate::observe::Device;

/// Every setting of the configuration that the running system does not have. A RAM
/// tier is recognised by its priority among the active swap areas.
pub(super) fn not_applied(view: &View) -> Vec<Found> {
    let mut found = Vec::new();
    for (tier, _, priority) in view.wanted.areas() {
        let Kind::Ram(ram) = &tier.kind else { continue };
        let mut here = view
            .compressed()
            .filter(|(swap, _)| swap.area.priority == i64::from(priority));
        // Two areas of one priority cannot be told apart.
        if let (Some((_, device)), None) = (here.next(), here.next()) {
            found.extend(device_differs(view, ram, device));
        }
    }
    found.extend(zswap_differs(view));
    found.extend(tunables_differ(view));
    found
}

fn differs(subject: &str, setting: &str, wanted: &str, is: &str) -> Found {
    Found::new(
        subject,
        format!("{setting} is not what /etc/zmeld.toml asks for"),
        format!("asked for {wanted}, in effect {is}"),
        "zmeld up",
    )
}

fn device_differs(view: &View, ram: &RamDevice, device: &Device) -> Vec<Found> {
    let name = &device.name;
    let mut found = Vec::new();
    if let Some(codec) = ram.codec.as_ref() {
        if codec.name != device.codec {
            found.push(differs(name, "its codec", &codec.name, &device.codec));
        }
    }
    let memory = view.now.memory.total_bytes;
    let limit = ram.memory_limit.map_or(0, |size| size.bytes(memory));
    let is = device.held.map_or(0, |held| held.limit_bytes);
    if limit != is {
        found.push(differs(name, "its memory limit", &bytes(limit), &bytes(is)));
    }
    for again in &ram.recompress {
        let is = device.recompression.get(&again.priority);
        if is != Some(&again.codec.name) {
            found.push(differs(
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
        found.push(differs(name, "its backing device", "one", "none"));
    }
    if let Some(melding) = &device.melding {
        let wanted = match ram.meld {
            MeldMode::Off => "off",
            MeldMode::Manual => "manual",
            MeldMode::Auto => "auto",
            MeldMode::Inline => "inline",
        };
        if melding.mode != wanted {
            found.push(differs(name, "its melding", wanted, &melding.mode));
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
        found.push(differs("zswap", "zswap", "on", "off"));
    }
    if let Some(compressor) = wanted.compressor.as_ref().filter(|c| **c != is.compressor) {
        found.push(differs(
            "zswap",
            "its compressor",
            compressor,
            &is.compressor,
        ));
    }
    let percent = wanted.max_pool_percent.map(u64::from);
    if let Some(percent) = percent.filter(|percent| *percent != is.max_pool_percent) {
        found.push(differs(
            "zswap",
            "its pool's limit",
            &format!("{percent} %"),
            &format!("{} %", is.max_pool_percent),
        ));
    }
    if let (Some(wanted), Some(is)) = (wanted.shrinker, is.shrinker) {
        if wanted != is {
            let word = |on| if on { "on" } else { "off" };
            found.push(differs("zswap", "its shrinker", word(wanted), word(is)));
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
        (Some(wanted), Some(is)) if wanted != is => {
            Some(differs(name, name, &wanted.to_string(), &is.to_string()))
        }
        _ => None,
    })
    .collect()
}
