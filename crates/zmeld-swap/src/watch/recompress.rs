//! `[watch.recompress]`: pages are compressed again, with the device's denser codecs.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use zmeld_report::units::bytes;

use crate::observe::{Device, MmStat};
use crate::watch::action::{path, stat, ActionResult, Pieces};
use crate::watch::error::Error;
use crate::watch::rule::{idle_after, Plan, WatchRule};
use zmeld_config::{name_of, RecompressRule};
use zmeld_linux::Host;

pub(super) fn rule(rule: RecompressRule) -> WatchRule {
    WatchRule {
        name: "recompress",
        every: rule.every,
        idle_after: idle_after(rule.pages, rule.idle_after),
        plan: Box::new(move |device, part, _| plan(&rule, device, part)),
    }
}

fn plan(rule: &RecompressRule, device: &Device, part: Option<u64>) -> Option<Plan> {
    let (rule, codecs) = (rule.clone(), device.recompression.clone());
    if codecs.is_empty() {
        return None;
    }
    let most = rule
        .max_pages
        .map_or(u64::MAX, |most| most.0.saturating_sub(part.unwrap_or(0)));
    let names: Vec<_> = codecs.values().map(String::as_str).collect();
    let held = device.held.unwrap_or_default();
    Some(Plan {
        what: format!(
            "recompress {} pages with {}",
            name_of(&rule.pages),
            names.join(", ")
        ),
        why: format!(
            "{} are compressed to {}",
            bytes(device.in_memory_bytes()),
            bytes(held.compressed_bytes)
        ),
        act: Box::new(move |host, device, stop| {
            recompress(host, device, &rule, &codecs, most, stop)
        }),
    })
}

fn recompress(
    host: &Host,
    device: &str,
    rule: &RecompressRule,
    codecs: &BTreeMap<u8, String>,
    pages_max: u64,
    stop: &AtomicBool,
) -> Result<ActionResult, Error> {
    let before = stat(host, device, "mm_stat", MmStat::parse)?;
    let mut pieces = Pieces::new(host, pages_max, stop);
    let (mut after, mut is_over) = (before, false);
    for (priority, codec) in codecs {
        // Kernels before 7.1 know no priority here and pass it over.
        let pages = name_of(&rule.pages);
        let mut request = format!("type={pages} algo={codec} priority={priority}");
        if rule.threshold.0 > 0 {
            request += &format!(" threshold={}", rule.threshold.0);
        }
        // Until nothing more comes of it.
        while !is_over && !pieces.is_all() {
            // Kernels before 6.10 pass that over and take all.
            let request = format!("{request} max_pages={}", pieces.next());
            host.write(path(device, "recompress"), &request)?;
            let now = stat(host, device, "mm_stat", MmStat::parse)?;
            let is_more = now.compressed_bytes != after.compressed_bytes;
            after = now;
            if !is_more {
                break;
            }
            is_over = pieces.is_over();
        }
    }
    let text = format!(
        "compressed {} -> {}, RAM {} -> {}",
        bytes(before.compressed_bytes),
        bytes(after.compressed_bytes),
        bytes(before.memory_used_bytes),
        bytes(after.memory_used_bytes)
    );
    Ok(match is_over && !pieces.is_all() {
        true => ActionResult::Stopped(text, pieces.asked),
        false => ActionResult::Done(text),
    })
}
