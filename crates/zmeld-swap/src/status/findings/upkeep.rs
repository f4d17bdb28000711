//! Missing upkeep: discards, writeback, recompression.

use zmeld_report::units::{bytes, count, share};

use super::combination::asked_for;
use super::view::View;
use crate::observe::{DamonReclaim, Device, Services, Swap};
use zmeld_config::advice::codec::JUDGED_FROM;
use zmeld_config::{Discard, Finding, Remedy, Severity};
use zmeld_linux::shell;

/// Slots that swap has given back and the device has not.
const STALE_SHARE: f64 = 0.1;

/// A device holds 10 % and 16 MiB of pages more than swap uses. Do: `swapoff`, `swapon
/// --discard=once`, with its priority.
pub(super) fn stale_slots(view: &View, swap: &Swap, device: &Device) -> Option<Finding> {
    let stored = device.held?.stored_bytes;
    let stale = stored
        .saturating_sub(view.now.page_size)
        .saturating_sub(swap.area.used_bytes);
    if stale < JUDGED_FROM || share(stale, stored) < STALE_SHARE {
        return None;
    }
    Some(Finding::of_machine(
        &device.name,
        "it keeps pages that swap has freed",
        format!(
            "it holds {}, swap uses {}: {} too much{}",
            bytes(stored),
            bytes(swap.area.used_bytes),
            bytes(stale),
            match device.io.missed_free_pages {
                0 => String::new(),
                missed => format!("; {} frees were missed", count(missed)),
            }
        ),
        discarded(view, swap, device),
    ))
}

/// Has the device forget all that swap has given back; its place among the areas stays.
fn discarded(view: &View, swap: &Swap, device: &Device) -> Remedy {
    let own = view.applied.and_then(|it| it.tier_on(&swap.area.shown()));
    let own = own.and_then(|own| view.wanted.tier(&own.name));
    let discard = match own.map(|it| it.swap.discard) {
        Some(Discard::Pages | Discard::Both) => "--discard",
        _ => "--discard=once",
    };
    let is = swap.area.priority;
    let others = view.now.swaps.iter().map(|it| it.area.priority);
    let others: Vec<i32> = others.filter(|it| *it != is).collect();
    let asked_for = asked_for(view, swap, device);
    let place = match asked_for.unwrap_or(is) {
        place @ 0.. => place,
        // The kernel puts it below all others again; 0 is above those that it places.
        _ if others.iter().all(|it| *it > is) => return view.switched_anew(swap, discard),
        _ if others.iter().all(|it| *it < is || *it > 0) => 0,
        _ => {
            let area = swap.area.shown();
            return format!("swapoff {area}, and swapon --discard=once all areas in their order")
                .into();
        }
    };
    view.switched_anew(swap, &format!("{discard} --priority {place}"))
}

/// A swap file is not root's, or others may read it. Do: `chown 0`, `chmod 600`.
pub(super) fn readable_file(view: &View) -> Vec<Finding> {
    let others = view.now.swaps.iter().filter(|swap| swap.is_others);
    let found = others.map(|swap| {
        let file = shell::path(&swap.area.path);
        Finding::of_machine(
            swap.area.shown(),
            "users other than root may read it, and it holds the memory of all programs",
            "its mode is not 600, or it is not root's",
            Remedy::run([format!("chown 0 {file}"), format!("chmod 600 {file}")]),
        )
    });
    found.collect()
}

/// A layer between swap and a device in RAM passes no discards. Do: swap on the device itself.
pub(super) fn discard_blocked(view: &View) -> Vec<Finding> {
    let blocked = |swap: &Swap| {
        let ram = swap.stand.hidden_ram()?;
        // A layer that passes discards on still needs to be asked for them, and the kernel
        // does not say whether swapon was.
        let top = swap.stand.layers.first().filter(|top| !top.discards)?;
        Some(Finding::of_machine(
            swap.area.shown(),
            format!(
                "it is on {} through {}, which passes no discards: the memory of freed pages is \
                 never released",
                ram.name,
                top.kind.name()
            ),
            format!("{} takes no discards", top.name),
            format!(
                "swap on {} directly (RAM needs no encryption against theft of a drive), or open \
                 {} with --allow-discards and swapon --discard=pages",
                ram.name, top.name
            ),
        ))
    };
    view.now.swaps.iter().filter_map(blocked).collect()
}

/// A file system on a compressed device is mounted without `discard`, and not read-only. Do: mount
/// it with `discard`, and `fstrim`.
pub(super) fn mounted_without_discard(_: &View, device: &Device) -> Option<Finding> {
    let mounted = device
        .mounted
        .as_ref()
        .filter(|mounted| !mounted.discards && !mounted.is_read_only)?;
    let held = device.held?;
    let at = shell::word(&mounted.at);
    Some(Finding::of_machine(
        &device.name,
        format!(
            "the file system at {} does not discard: the memory of deleted files is not released",
            mounted.at
        ),
        format!(
            "{} without the discard option; the device holds {} in {}",
            mounted.file_system,
            bytes(held.stored_bytes),
            bytes(held.memory_used_bytes)
        ),
        match mounted.file_system.as_str() {
            // A remount with the option succeeds, and changes nothing.
            "xfs" => format!(
                "umount {at} and mount it with -o discard (and discard among its options in \
                 /etc/fstab); fstrim {at} until then"
            )
            .into(),
            _ => Remedy::run([
                format!("mount -o remount,discard {at}"),
                format!("fstrim {at}"),
            ])
            .and(" (and discard among its options in /etc/fstab)"),
        },
    ))
}

/// Another service ends programs beside `[watch.guard]`. Do: switch one of them off.
pub(super) fn two_guards(view: &View) -> Vec<Finding> {
    let is_on = view.wanted.watch.guard.is_some();
    let others = view.now.other_guards.iter().filter(|_| is_on);
    others
        .map(|other| {
            Finding::of_machine(
                other,
                "it ends programs when memory is short, as [watch.guard] does",
                format!("{other} runs, and there is [watch.guard]"),
                match view.now.facts.services {
                    Services::Systemd => {
                        Remedy::run([format!("systemctl disable --now {}", stopped(other))])
                            .and(", or remove [watch.guard]")
                    }
                    _ => format!("end {other}, or remove [watch.guard]").into(),
                },
            )
        })
        .collect()
}

/// The units that have to be off for that service to be.
fn stopped(service: &str) -> String {
    match service {
        // Whoever connects to its socket starts it again.
        "systemd-oomd.service" => format!("systemd-oomd.socket {service}"),
        _ => service.to_owned(),
    }
}

/// DAMON reclaims beside `[watch.reclaim]` (`damon_reclaim`, or a scheme of `pageout`). Do: switch
/// one of them off.
pub(super) fn two_reclaimers(view: &View) -> Vec<Finding> {
    if view.wanted.watch.reclaim.is_none() {
        return Vec::new();
    }
    let found = view.now.damon_reclaim.iter();
    found.map(DamonReclaim::beside_reclaim).collect()
}

/// A device has writeback or recompression, and no rule uses it. Do: a rule, and `zmeld watch`.
pub(super) fn no_rule(view: &View) -> Vec<Finding> {
    let mut found = Vec::new();
    for device in view.now.devices.iter().filter(|device| device.initialised) {
        let stored = bytes(device.held.unwrap_or_default().stored_bytes);
        let mut add = |rule: &str, what: &str, why: String| {
            let file = view.asked().file();
            let run = match view.now.facts.services {
                _ if view.asked().is_named() => &*format!(
                    "start zmeld watch --config {file} anew (end one that runs), and keep it \
                     running"
                ),
                Services::Systemd => "sudo zmeld enable",
                // It may run for another rule, and reads its configuration once.
                Services::OpenRc if view.has_service("zmeld-watch") => {
                    "sudo rc-update add zmeld-watch default && sudo rc-service zmeld-watch restart"
                }
                _ => "start zmeld watch anew (end one that runs), now and at each boot",
            };
            let remedy = format!("add the line [watch.{rule}] to {file}, then {run}");
            found.push(Finding::of_machine(&device.name, what, why, remedy));
        };
        let written = device.backed.unwrap_or_default().written_bytes;
        let backing = device.backing.iter();
        for backing in backing.filter(|_| written == 0 && view.wanted.watch.writeback.is_none()) {
            add(
                "writeback",
                "it has a backing device, and nothing writes pages back to it",
                format!("backing_dev {backing}; nothing written, {stored} stored"),
            );
        }
        if !device.recompression.is_empty() && view.wanted.watch.recompress.is_none() {
            let codecs = device.recompression.iter();
            let codecs: Vec<_> = codecs
                .map(|(at, codec)| format!("{codec} ({at})"))
                .collect();
            add(
                "recompress",
                "it has a codec for recompression, but no rule uses it",
                format!("recomp_algorithm {}; {stored} stored", codecs.join(", ")),
            );
        }
    }
    found
}

/// A writeback limit is used up; a guard has nothing that it may end; a rule names (without `*`) a
/// control group that is not there. Do: a new limit; other names.
pub(super) fn unused_rule(view: &View) -> Vec<Finding> {
    let used_up = |device: &Device| {
        let backing = device.backing.as_ref()?;
        let is_used_up = device.initialised && device.writeback_limit_bytes == Some(0);
        is_used_up.then(|| {
            Finding::of_machine(
                &device.name,
                "its writeback limit is used up: nothing is written back any more",
                format!(
                    "writeback_limit 0; {} are on {backing}, {} are stored",
                    bytes(device.backed.unwrap_or_default().held_bytes),
                    bytes(device.held.unwrap_or_default().stored_bytes)
                ),
                format!(
                    "echo PAGES > /sys/block/{}/writeback_limit (units of 4 KiB)",
                    device.name
                ),
            )
        })
    };
    let mut found = guarded_in_vain(view);
    found.extend(view.now.devices.iter().filter_map(used_up));
    found
}

/// Names in the guard's rule that are no group now, as `zmeld config check` has them.
fn guarded_in_vain(view: &View) -> Vec<Finding> {
    let gaps = view.outstanding.guard.iter();
    let gaps = gaps.filter(|gap| gap.severity > Severity::Notice);
    gaps.map(|gap| {
        Finding::of_machine(
            "watch.guard",
            gap.what.as_str(),
            format!("{}: {}", gap.about, gap.why).trim_end_matches(": "),
            match view.now.facts.groups {
                None => gap.remedy.clone(),
                Some(_) => format!(
                    "another name: {}; or remove it",
                    view.now.facts.list_groups()
                ),
            },
        )
    })
    .collect()
}

/// There are rules (`[watch...]`), and root's `zmeld watch` or `zmeld-guard` does not run. Do:
/// `zmeld enable`; `systemctl enable --now` of its unit.
pub(super) fn no_watch(view: &View) -> Vec<Finding> {
    let missing = |name: &str, unit: &str, rules: &str| {
        Finding::of_machine(
            name,
            format!("there are rules, but no {name} runs"),
            format!("rules: {rules}; no process is {name}"),
            match view.now.facts.services {
                _ if view.asked().is_named() => {
                    let file = view.asked().file();
                    format!("have {name} --config {file} started, and kept running").into()
                }
                Services::Systemd => {
                    let unit = format!("{unit}.service");
                    Remedy::run([match view.now.facts.units.contains(&unit) {
                        true => format!("systemctl enable --now {unit}"),
                        false => "zmeld enable".to_owned(),
                    }])
                }
                Services::OpenRc if view.has_service(unit) => Remedy::run([
                    format!("rc-update add {unit} default"),
                    format!("rc-service {unit} start"),
                ]),
                // A session of its own outlives the terminal.
                Services::OpenRc | Services::Unknown if view.now.facts.is_here => {
                    let command = format!("setsid {name} > /dev/null 2>&1 &");
                    let words = format!("sudo sh -c '{command}', and have it started at each boot");
                    Remedy::run([command]).said(words)
                }
                Services::OpenRc | Services::Unknown => {
                    format!("have {name} started at each boot, and kept running").into()
                }
            },
        )
    };
    let mut found = Vec::new();
    if view.outstanding.is_watched == Some(false) {
        let rules = view.wanted.watch.rules().join(", ");
        found.push(missing("zmeld watch", "zmeld-watch", &rules));
    }
    if view.outstanding.is_guarded == Some(false) {
        found.push(missing("zmeld-guard", "zmeld-guard", "guard"));
    }
    found
}
