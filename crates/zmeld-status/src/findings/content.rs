//! What the pages are like.

use zmeld_report::units::{bytes, percent};

use super::{Finding, View};
use zmeld_observe::{share, Driver};

/// From this share on, incompressible pages are worth a thought.
const INCOMPRESSIBLE_HIGH: f64 = 0.2;
/// From this share on, same-filled pages are.
const SAME_FILLED_HIGH: f64 = 0.3;
/// Below this ratio the saving is not worth the processor time: less than a third.
const RATIO_LOW: f64 = 1.5;

/// A ratio at which swapping to RAM hardly saves RAM.
pub(super) fn low_ratio(view: &View) -> Vec<Finding> {
    view.filled()
        .filter_map(|device| {
            let held = device.held?;
            let taken = held
                .memory_used_bytes
                .saturating_add(device.metadata_bytes(view.now.page_size));
            let stored = device.in_memory_bytes();
            let ratio = share(stored, taken);
            if ratio >= RATIO_LOW {
                return None;
            }
            let what = match ratio < 1.0 {
                true => "it takes more RAM than the pages in it would",
                false => "it hardly saves memory",
            };
            let stronger = ["zstd", "lz4hc", "deflate"].iter().find(|codec| {
                device.codec != **codec && device.codecs.iter().any(|offered| offered == *codec)
            });
            Some(Finding::of_machine(
                &device.name,
                what,
                format!(
                    "{} of pages take {}, the table of slots included: {ratio:.2}x with {}",
                    bytes(stored),
                    bytes(taken),
                    device.codec
                ),
                match stronger.filter(|codec| **codec == "zstd") {
                    Some(codec) => format!("codec = \"{codec}\" in its tier, then zmeld up"),
                    None => "zmeld scan says which codec would do better on this memory; where \
                             none does, use disk swap"
                        .to_owned(),
                },
            ))
        })
        .collect()
}

/// Many pages do not compress: they cost as much RAM in swap as outside.
pub(super) fn incompressible(view: &View) -> Vec<Finding> {
    view.filled()
        .filter_map(|device| {
            let pages = device.held?.incompressible_pages;
            let huge = pages.saturating_mul(view.now.page_size);
            let part = share(huge, device.in_memory_bytes());
            if part < INCOMPRESSIBLE_HIGH {
                return None;
            }
            let name = &device.name;
            Some(Finding::of_machine(
                name,
                "many of its pages do not compress, and cost as much RAM as before they were \
                 swapped out",
                format!(
                    "{} of {} ({})",
                    bytes(huge),
                    bytes(device.in_memory_bytes()),
                    percent(part)
                ),
                match (&device.backing, device.recompression.is_empty()) {
                    (Some(_), _) => format!("echo huge > /sys/block/{name}/writeback"),
                    (None, false) => format!("echo type=huge > /sys/block/{name}/recompress"),
                    (None, true) if device.can_write_back => {
                        "give its tier a writeback device, and [watch] a writeback rule for huge \
                         pages"
                            .to_owned()
                    }
                    (None, true) => "zmeld codecs says whether another codec compresses them; \
                                     encrypted and already compressed data never does"
                        .to_owned(),
                },
            ))
        })
        .collect()
}

/// Many pages repeat one word. Pages of zeros do not reach a device from Linux
/// 6.12 on, so there these are others.
pub(super) fn same_filled(view: &View) -> Vec<Finding> {
    view.now
        .devices
        .iter()
        .filter_map(|device| {
            let held = device.held?;
            if held.stored_bytes < super::JUDGED_FROM {
                return None;
            }
            let same = held.same_filled_pages.saturating_mul(view.now.page_size);
            let part = share(same, held.stored_bytes);
            if part < SAME_FILLED_HIGH {
                return None;
            }
            let is_swap =
                view.now.device(&device.name).is_some() && view.now.swap_on(device).is_some();
            let zeros = match is_swap && view.now.swap_keeps_zeros() {
                true => "; none of them are zeros, which this kernel keeps from the device",
                false => ", most of them probably zeros",
            };
            Some(Finding::of_machine(
                &device.name,
                "many of its pages repeat one word: they take no memory, and its ratio is better for it",
                format!(
                    "{} of {} ({}){zeros}",
                    bytes(same),
                    bytes(held.stored_bytes),
                    percent(part)
                ),
                match device.driver {
                    Driver::Zram | Driver::Zmeld => {
                        "nothing to do for the device; zmeld scan --groups 5 says whose pages \
                         they are, and a process may use less"
                    }
                },
            ))
        })
        .collect()
}
