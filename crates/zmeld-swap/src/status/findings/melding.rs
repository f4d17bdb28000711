//! Identical pages, and pages that are not what they were.

use zmeld_report::units::{count, percent, plural};

use super::view::View;
use crate::observe::{Device, ENCODE_ERRORS, MISMATCHES};
use zmeld_config::advice::meld::WORTH;
use zmeld_config::{Finding, Remedy};

/// Pages that a device, or zswap's codec, counts as wrong.
fn wrong(name: &str, pages: u64, what: &str, how: &str, remedy: String) -> Option<Finding> {
    let why = format!("{} page{} {how}", count(pages), plural(pages));
    (pages > 0).then(|| Finding::of_machine(name, what, why, remedy))
}

/// A zmeld device read pages that did not match their fingerprint. Do: stop using it, test the RAM.
pub(super) fn mismatch(_: &View, device: &Device) -> Option<Finding> {
    wrong(
        &device.name,
        device.melding.as_ref()?.counter(MISMATCHES),
        "pages were corrupt when they were read; the reads failed",
        "did not match the fingerprint",
        format!(
            "swapoff /dev/{0} (or umount it), then test the RAM (memtest86+) before using it again",
            device.name
        ),
    )
}

/// A codec encoded pages wrongly; [nothing is lost](kernel-module.md#checking-pages). Do: another
/// codec, a newer module; test the RAM.
pub(super) fn encode_errors(view: &View) -> Vec<Finding> {
    let of = |name: &str, pages: u64, module: &str, anew: String| {
        wrong(
            name,
            pages,
            "a codec encoded pages wrongly; its output was not used",
            "did not decode to the original bytes",
            format!(
                "leave check_writes on; dmesg names the codec: choose another one, or a newer \
                 {module}, {anew}; if that does not end it, test the RAM (memtest86+)"
            ),
        )
    };
    let of_device = |it: &Device| {
        let pages = it.melding.as_ref()?.counter(ENCODE_ERRORS);
        let anew = format!(
            "then swapoff /dev/{} (or umount it) and set it up anew",
            it.name
        );
        of(&it.name, pages, "zmeld.ko", anew)
    };
    let in_zswap = view
        .now
        .zswap
        .as_ref()
        .and_then(|it| it.counters.get(ENCODE_ERRORS));
    let anew = "with a restart".to_owned();
    let found = in_zswap.and_then(|pages| of("zword", *pages, "zword.ko", anew));
    let devices = view.now.devices.iter().filter_map(of_device);
    devices.chain(found).collect()
}

/// At least 5 % of a sample repeat, and nothing is melded. Do: `zmeld meld`.
pub(super) fn unused(_: &View, device: &Device) -> Option<Finding> {
    let melding = device.melding.as_ref()?;
    let part = melding.duplicates_sampled()?;
    let idle = melding.mode == "off" || melding.counter("pages_melded") == 0;
    if part < WORTH || !idle {
        return None;
    }
    Some(Finding::of_machine(
        &device.name,
        "a sample found duplicate pages, which are not melded",
        format!(
            "{} of the sampled pages; meld_mode {}",
            percent(part),
            melding.mode
        ),
        match melding.mode.as_str() {
            "off" => Remedy::run([
                format!("echo manual > /sys/block/{}/meld_mode", device.name),
                format!("zmeld meld {}", device.name),
            ]),
            _ => Remedy::run([format!("zmeld meld {}", device.name)]),
        },
    ))
}
