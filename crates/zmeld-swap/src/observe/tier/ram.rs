//! zram and zmeld devices, swapped to or not.

use zmeld_config::advice::size::tenths;
use zmeld_config::advice::TierKind;
use zmeld_config::{Kind, MeldMode, RamDevice, RamDriver, Size};
use zmeld_linux::headroom::Sum;

use super::inputs::Inputs;
use super::state::{judged, ObservedKind, TierState};
use crate::observe::device::{Device, Melding};
use crate::observe::observation::{Observation, Swap};

/// An area, where it is a device in RAM.
pub(super) fn area(of: &Observation, swap: &Swap) -> Option<TierState> {
    let device = of.device_of(swap)?;
    Some(TierState {
        kind: match device.driver {
            RamDriver::Zram => ObservedKind::Zram,
            RamDriver::Zmeld => ObservedKind::Zmeld,
        },
        used_bytes: Some(swap.area.used_bytes),
        priority: Some(swap.area.priority),
        ..state(of, device)
    })
}

/// Devices that are set up and not swapped to.
pub(super) fn unused(of: &Observation) -> Vec<TierState> {
    let devices = of.devices.iter();
    let unused = devices.filter(|it| it.initialised && of.swap_on(it).is_none());
    unused.map(|device| state(of, device)).collect()
}

/// Adds its room; false where its ratio is not known yet.
pub(super) fn add_room(tier: &TierState, sum: &mut Sum) -> bool {
    let Some(in_use) = tier.used_bytes else {
        return true;
    };
    let used = tier.memory_used_bytes.unwrap_or(0);
    let left = tier.limit_bytes.map(|limit| limit.saturating_sub(used));
    let ratio = judged_ratio(tier);
    if let Some(ratio) = ratio {
        sum.compressed(tier.size_bytes.saturating_sub(in_use), ratio, left);
    }
    ratio.is_some()
}

pub(super) fn recommended(inputs: &mut Inputs<'_>) -> Result<Kind, String> {
    let sizing = inputs
        .advised
        .sizing
        .as_ref()
        .ok_or("a device needs a size")?;
    let mut say =
        |key: &str, text: String| inputs.comments.insert(format!("tier.fast.{key}"), text);
    if sizing.measured {
        let mut why = format!(
            "pages of this machine get {} times smaller",
            tenths(sizing.ratio)
        );
        let codecs = &inputs.machine.feature(inputs.advised.kind.name()).codecs;
        if inputs.choice.codec.is_none() && !codecs.iter().any(|codec| codec == "zstd") {
            why += match codecs.is_empty() {
                true => "",
                false => ": the best of this kernel's, which has no zstd",
            };
        }
        say("codec", why);
    }
    let size = inputs.choice.size.unwrap_or_else(|| {
        say("size", sizing.why());
        Size::percent(sizing.size_percent)
    });
    let why = sizing.limit_why;
    say(
        "memory_limit",
        format!("{why}; what compresses worse does not fill RAM"),
    );
    let (driver, meld) = match inputs.advised.kind {
        TierKind::Zmeld => (RamDriver::Zmeld, MeldMode::Auto),
        _ => (RamDriver::Zram, MeldMode::Off),
    };
    let codec = inputs
        .advised
        .codec
        .as_ref()
        .and_then(|codec| codec.parse().ok());
    Ok(Kind::Ram(RamDevice {
        driver,
        size,
        memory_limit: Some(Size::percent(sizing.memory_limit_percent)),
        codec: codec.into_iter().collect(),
        meld,
        ..RamDevice::default()
    }))
}

fn state(of: &Observation, device: &Device) -> TierState {
    let held = device.held;
    let pages = |pages: u64| pages.saturating_mul(of.page_size);
    TierState {
        name: device.name.clone(),
        codec: Some(device.codec.clone()).filter(|codec| !codec.is_empty()),
        size_bytes: device.size_bytes,
        stored_bytes: held.map(|held| held.stored_bytes),
        compressed_bytes: held.map(|held| held.compressed_bytes),
        memory_used_bytes: held.map(|held| held.memory_used_bytes),
        metadata_bytes: Some(device.metadata_bytes(of.page_size)),
        ratio: held.and_then(|held| judged(device.in_memory_bytes(), held.memory_used_bytes)),
        same_filled_bytes: held.map(|held| pages(held.same_filled_pages)),
        incompressible_bytes: held.map(|held| pages(held.incompressible_pages)),
        melded_bytes: device
            .melding
            .as_ref()
            .filter(|melding| melding.is_told())
            .map(Melding::melded_bytes),
        writeback_bytes: device
            .backing
            .as_ref()
            .and(device.backed.map(|backed| backed.held_bytes)),
        limit_bytes: held.map(|held| held.limit_bytes).filter(|&limit| limit > 0),
        ..TierState::default()
    }
}

/// The ratio of its pages, where it holds enough of them to judge by.
fn judged_ratio(tier: &TierState) -> Option<f64> {
    let elsewhere = [tier.same_filled_bytes, tier.writeback_bytes];
    let elsewhere = elsewhere.into_iter().flatten();
    let elsewhere = elsewhere.fold(0, u64::saturating_add);
    let pages = tier.stored_bytes?.saturating_sub(elsewhere);
    judged(pages, tier.memory_used_bytes?)
}
