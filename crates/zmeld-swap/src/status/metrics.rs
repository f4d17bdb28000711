//! An observation in Prometheus' text format (version 0.0.4).
//!
//! Names follow its conventions: a `zmeld_` prefix, the unit last, `_total` for
//! counters, ratios from 0 to 1. `FAMILIES` is the list; a family without a sample
//! on this machine is left out. `docs/status.md` and the Grafana dashboard in
//! `packaging/grafana` use these names.

use std::fmt::Write;

use crate::observe::reclaimed::ReclaimedGroup;
use crate::observe::{Device, Observation, TierState};
use crate::status::findings::{Finding, Severity};
use zmeld_config::Named;

struct Family {
    name: &'static str,
    /// A `gauge` goes up and down, a `counter` up until a reset.
    kind: &'static str,
    help: &'static str,
    samples: fn(&View) -> Vec<String>,
}

struct View<'a> {
    now: &'a Observation,
    tiers: Vec<TierState>,
    findings: &'a [Finding],
}

/// The rest of a metric's line: labels, whose values are other people's text, and the number.
fn sample(value: f64, labels: &[(&str, &str)]) -> String {
    let escape = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let pairs = labels.iter();
    let pairs: Vec<_> = pairs
        .map(|(name, text)| format!("{name}=\"{}\"", escape(text)))
        .collect();
    match pairs.is_empty() {
        true => format!(" {value}"),
        false => format!("{{{}}} {value}", pairs.join(",")),
    }
}

fn whole(value: Option<u64>) -> Vec<String> {
    value
        .map(|value| sample(value as f64, &[]))
        .into_iter()
        .collect()
}

fn per_tier(view: &View, value: impl Fn(&TierState) -> Option<f64>) -> Vec<String> {
    let of = |tier: &TierState| {
        let kind = tier.kind.name().replace(' ', "_");
        Some(sample(
            value(tier)?,
            &[("tier", &tier.name), ("kind", &kind)],
        ))
    };
    view.tiers.iter().filter_map(of).collect()
}

fn tier_bytes(view: &View, value: fn(&TierState) -> Option<u64>) -> Vec<String> {
    per_tier(view, |tier| value(tier).map(|bytes| bytes as f64))
}

fn per_device(view: &View, value: fn(&Device) -> Option<u64>) -> Vec<String> {
    let devices = view.now.devices.iter().filter(|device| device.initialised);
    let of = |it: &Device| Some(sample(value(it)? as f64, &[("device", &it.name)]));
    devices.filter_map(of).collect()
}

/// Of groups that are reclaimed from, those that gave most: anybody makes many.
const GROUPS_MAX: usize = 64;

fn per_group(view: &View, value: fn(&ReclaimedGroup) -> f64) -> Vec<String> {
    let groups = view.now.reclaim.iter().flat_map(|it| &it.groups);
    let of = |it: &ReclaimedGroup| sample(value(it), &[("cgroup", &it.group)]);
    groups.take(GROUPS_MAX).map(of).collect()
}

fn melding(device: &Device, counter: &str) -> Option<u64> {
    let melding = device.melding.as_ref()?;
    let told = melding.counters.contains_key(counter);
    told.then(|| melding.counter(counter))
}

fn stall(view: &View, value: fn(&crate::observe::Stall) -> f64) -> Vec<String> {
    let pressure = view.now.pressure.iter();
    let stalls = pressure.flat_map(|it| [("some", it.some), ("full", it.full)]);
    stalls
        .map(|(who, stall)| sample(value(&stall), &[("stalled", who)]))
        .collect()
}

macro_rules! families {
    ($($name:literal $kind:ident $help:literal => $samples:expr;)*) => {
        /// Every metric.
        const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            kind: stringify!($kind),
            help: $help,
            samples: $samples,
        },)*];
    };
}

families! {
    "zmeld_memory_total_bytes" gauge "RAM that the kernel manages." =>
        |view| whole(Some(view.now.memory.total_bytes));
    "zmeld_memory_available_bytes" gauge "RAM that could be had without swapping." =>
        |view| whole(Some(view.now.memory.available_bytes));
    "zmeld_memory_programs_bytes" gauge "RAM that programs use, and what the kernel cannot give back." =>
        |view| whole(Some(view.now.accounting().programs_bytes));
    "zmeld_memory_compression_bytes" gauge "RAM that compressed pages and their tables take." =>
        |view| whole(Some(view.now.accounting().compression_bytes));
    "zmeld_memory_compressed_pages_bytes" gauge "Pages that compression holds in RAM, uncompressed." =>
        |view| whole(Some(view.now.accounting().compressed_pages_bytes));
    "zmeld_swap_cached_bytes" gauge "Pages that are in RAM and keep their place in swap." =>
        |view| whole(Some(view.now.memory.swap_cached_bytes));
    "zmeld_tier_size_bytes" gauge "How much can be written to the tier." =>
        |view| tier_bytes(view, |tier| Some(tier.size_bytes));
    "zmeld_tier_used_bytes" gauge "Used as /proc/swaps counts it." =>
        |view| tier_bytes(view, |tier| tier.used_bytes);
    "zmeld_tier_stored_bytes" gauge "Pages that the tier holds, uncompressed." =>
        |view| tier_bytes(view, |tier| tier.stored_bytes);
    "zmeld_tier_compressed_bytes" gauge "Their compressed size." =>
        |view| tier_bytes(view, |tier| tier.compressed_bytes);
    "zmeld_tier_memory_used_bytes" gauge "RAM that the compressed pages take, in whole pages." =>
        |view| tier_bytes(view, |tier| tier.memory_used_bytes);
    "zmeld_tier_metadata_bytes" gauge "RAM that the table of slots takes beside that." =>
        |view| tier_bytes(view, |tier| tier.metadata_bytes);
    "zmeld_tier_compression_ratio" gauge "Pages in RAM over the RAM that they take; absent below 16 MiB of pages." =>
        |view| per_tier(view, |tier| tier.ratio);
    "zmeld_tier_same_filled_bytes" gauge "Pages kept as one machine word." =>
        |view| tier_bytes(view, |tier| tier.same_filled_bytes);
    "zmeld_tier_incompressible_bytes" gauge "Pages kept as they are." =>
        |view| tier_bytes(view, |tier| tier.incompressible_bytes);
    "zmeld_tier_melded_bytes" gauge "Compressed bytes that melding saves now." =>
        |view| tier_bytes(view, |tier| tier.melded_bytes);
    "zmeld_tier_writeback_bytes" gauge "Pages on the backing device; for zswap, written to disk since boot." =>
        |view| tier_bytes(view, |tier| tier.writeback_bytes);
    "zmeld_tier_limit_bytes" gauge "The most RAM that the tier may take; absent without a limit." =>
        |view| tier_bytes(view, |tier| tier.limit_bytes);
    "zmeld_tier_priority" gauge "Its priority among swap areas." =>
        |view| per_tier(view, |tier| tier.priority.map(|priority| priority as f64));
    "zmeld_device_failed_reads_total" counter "Reads that failed." =>
        |view| per_device(view, |device| Some(device.io.failed_reads));
    "zmeld_device_failed_writes_total" counter "Writes that failed for want of memory or by the limit." =>
        |view| per_device(view, |device| Some(device.io.failed_writes));
    "zmeld_device_freed_pages_total" counter "Slots that swap or a discard gave back." =>
        |view| per_device(view, |device| Some(device.io.freed_pages));
    "zmeld_device_missed_free_pages_total" counter "Slots whose freeing was missed because they were busy." =>
        |view| per_device(view, |device| Some(device.io.missed_free_pages));
    "zmeld_device_memory_used_max_bytes" gauge "The most RAM that compressed pages took." =>
        |view| per_device(view, |device| Some(device.held?.memory_used_max_bytes));
    "zmeld_device_backing_read_bytes_total" counter "Read from the backing device." =>
        |view| per_device(view, |device| Some(device.backed?.read_bytes));
    "zmeld_device_backing_written_bytes_total" counter "Written to the backing device." =>
        |view| per_device(view, |device| Some(device.backed?.written_bytes));
    "zmeld_device_melded_pages" gauge "Pages that share another page's object now." =>
        |view| per_device(view, |device| melding(device, "pages_melded"));
    "zmeld_device_shared_objects" gauge "Objects that several pages use now." =>
        |view| per_device(view, |device| melding(device, "objects_shared"));
    "zmeld_device_meld_passes_total" counter "Melding passes." =>
        |view| per_device(view, |device| melding(device, "passes"));
    "zmeld_device_pass_melded_pages_total" counter "Pages that passes melded." =>
        |view| per_device(view, |device| melding(device, "passes_melded"));
    "zmeld_device_inline_probes_total" counter "Writes that looked for their twin." =>
        |view| per_device(view, |device| melding(device, "inline_probes"));
    "zmeld_device_inline_melded_pages_total" counter "Writes that found their twin." =>
        |view| per_device(view, |device| melding(device, "inline_melded"));
    "zmeld_device_mismatches_total" counter "Pages that did not have their fingerprint when read." =>
        |view| per_device(view, |device| melding(device, "mismatches"));
    "zmeld_device_encode_errors_total" counter "Pages that a codec encoded wrongly, kept as they are." =>
        |view| per_device(view, |device| melding(device, "encode_errors"));
    "zmeld_device_sampled_duplicate_ratio" gauge "Share of duplicates in the last sample, 0 to 1." =>
        |view| view.now.devices.iter().filter_map(|device| {
            let part = device.melding.as_ref()?.duplicates_sampled()?;
            Some(sample(part, &[("device", &device.name)]))
        }).collect();
    "zmeld_swap_in_pages_total" counter "Pages read from swap devices since boot." =>
        |view| whole(view.now.activity.swap_in_pages);
    "zmeld_swap_out_pages_total" counter "Pages written to swap devices since boot." =>
        |view| whole(view.now.activity.swap_out_pages);
    "zmeld_zswap_in_pages_total" counter "Pages that came back out of zswap since boot." =>
        |view| whole(view.now.activity.zswap_in_pages);
    "zmeld_zswap_out_pages_total" counter "Pages that went into zswap since boot." =>
        |view| whole(view.now.activity.zswap_out_pages);
    "zmeld_zero_out_pages_total" counter "Pages of zeros that swap only noted, since boot." =>
        |view| whole(view.now.activity.zero_out_pages);
    "zmeld_oom_kills_total" counter "Processes killed for want of memory since boot." =>
        |view| whole(view.now.activity.oom_kills);
    "zmeld_headroom_bytes" gauge "Memory that can still be allocated before the OOM killer runs, \
     at today's compression ratio." =>
        |view| whole(Some(view.now.headroom(&view.tiers).bytes));
    "zmeld_pressure_memory_ratio" gauge "Share of the last minute in which tasks waited for memory, 0 to 1." =>
        |view| stall(view, |stall| stall.avg60_percent / 100.0);
    "zmeld_pressure_memory_seconds_total" counter "Time in which tasks waited for memory since boot." =>
        |view| stall(view, |stall| stall.total_us as f64 / 1e6);
    "zmeld_oom_kills_lately" gauge "Processes killed in the last hour, or since the look before it, because the machine had no memory left." =>
        |view| whole(Some(view.now.lately.oom_kills));
    "zmeld_unattributed_oom_kills_lately" gauge "Processes killed in the last hour, or since the look before it, by the machine, or at the limit of a control group that is gone." =>
        |view| whole(Some(view.now.lately.unattributed_oom_kills));
    "zmeld_group_oom_kills_lately" gauge "Processes killed in the last hour, or since the look before it, at the limit of a control group." =>
        |view| view.now.lately.group_oom_kills.iter()
            .map(|(path, kills)| sample(*kills as f64, &[("cgroup", path)])).collect();
    "zmeld_reclaim_memory_bytes" gauge "RAM of a control group that zmeld watch reclaims from ahead of time." =>
        |view| per_group(view, |group| group.memory_bytes as f64);
    "zmeld_reclaimed_bytes_total" counter "Reclaimed ahead of time from a control group since zmeld watch began." =>
        |view| per_group(view, |group| group.reclaimed_bytes as f64);
    "zmeld_reclaim_came_back_bytes_total" counter "What came back to such a control group, whoever reclaimed it." =>
        |view| per_group(view, |group| group.came_back_bytes as f64);
    "zmeld_reclaim_stalled_seconds_total" counter "Time in which tasks of such a control group waited for memory." =>
        |view| per_group(view, |group| group.stalled_us as f64 / 1e6);
    "zmeld_guard_short" gauge "1 while zmeld-guard says that memory is short." =>
        |view| whole(view.now.guard.as_ref().map(|guard| u64::from(guard.is_short)));
    "zmeld_guard_ended_total" counter "Processes that zmeld-guard ended for want of memory since it began." =>
        |view| whole(view.now.guard.as_ref().map(|guard| guard.ended_total));
    "zmeld_guard_late_seconds_max" gauge "How much later than it should have the guard looked, at most." =>
        |view| view.now.guard.iter().map(|it| sample(it.late_us_max as f64 / 1e6, &[])).collect();
    "zmeld_finding" gauge "How often zmeld status finds this now; 0: not at all." =>
        |view| crate::status::findings::RULES.iter().flat_map(|rule| {
            let count = |severity: Severity| {
                let found = |found: &&Finding| found.id == Some(rule.id) && found.severity == severity;
                view.findings.iter().filter(found).count()
            };
            // The rule's own always, lesser ones where there are any.
            let mut told = vec![(rule.severity, count(rule.severity))];
            let lesser = Severity::ALL.iter().filter(|(_, severity)| *severity < rule.severity);
            told.extend(lesser.map(|it| (it.1, count(it.1))).filter(|(_, count)| *count > 0));
            told.into_iter().map(|(it, count)| {
                sample(count as f64, &[("id", rule.id.name()), ("severity", it.name())])
            })
        }).collect();
    "zmeld_findings" gauge "Findings of zmeld status, by severity." =>
        |view| Severity::ALL.iter().map(|(name, severity)| {
            let found = view.findings.iter().filter(|f| f.severity == *severity).count();
            sample(found as f64, &[("severity", name)])
        }).collect();
}

/// The text that a monitoring system reads.
pub fn render(now: &Observation, findings: &[Finding]) -> String {
    let view = View {
        now,
        tiers: now.tiers(),
        findings,
    };
    let mut text = String::new();
    for family in FAMILIES {
        let samples = (family.samples)(&view);
        if samples.is_empty() {
            continue;
        }
        let (name, kind) = (family.name, family.kind);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for sample in samples {
            let _ = writeln!(text, "{name}{sample}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        for family in FAMILIES {
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == "counter", "{}", family.name);
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(family.name.starts_with("zmeld_") && family.name.chars().all(plain));
            assert!(family.help.ends_with('.') && !family.help.contains('\n'));
            let same = FAMILIES.iter().filter(|other| other.name == family.name);
            assert_eq!(same.count(), 1, "{}", family.name);
        }
    }

    #[test]
    fn labels_hold_any_text() {
        let shown = sample(1.0, &[("tier", "a\"b\\c\nd")]);
        assert_eq!(shown, "{tier=\"a\\\"b\\\\c\\nd\"} 1");
    }
}
