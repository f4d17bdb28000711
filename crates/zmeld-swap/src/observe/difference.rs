//! Why the kernel's numbers of one tier differ: what `/proc/swaps` calls used, what
//! the device calls stored, what that is compressed, and what RAM it takes.

use serde::Serialize;
use zmeld_report::units;

use super::device::Device;
use super::observation::{Observation, Swap};

/// Two numbers of one tier, and what lies between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// The tier's name.
    pub tier: String,
    /// Name of the first number.
    pub from: &'static str,
    /// The first number.
    pub from_bytes: u64,
    /// Name of the second number.
    pub to: &'static str,
    /// The second number.
    pub to_bytes: u64,
    /// Reasons for it, with numbers; one sentence each.
    pub reasons: Vec<String>,
}

type Number = (&'static str, u64);

fn difference(
    tier: &str,
    (from, from_bytes): Number,
    (to, to_bytes): Number,
    reasons: Vec<String>,
) -> Difference {
    Difference {
        tier: tier.to_owned(),
        from,
        from_bytes,
        to,
        to_bytes,
        reasons,
    }
}

fn in_zswap(bytes: u64) -> String {
    let bytes = units::bytes(bytes);
    format!("zswap holds {bytes} of pages; each has a slot in swap that is not written")
}

/// A number of bytes in words; none for 0.
fn some(bytes: u64, what: &str) -> Option<String> {
    (bytes > 0).then(|| format!("{} {what}", units::bytes(bytes)))
}

impl Observation {
    /// The differences of all compressed tiers, in the order of the tiers.
    pub fn differences(&self) -> Vec<Difference> {
        let mut found = Vec::new();
        for swap in &self.swaps {
            if let Some(device) = self.device_of(swap) {
                found.extend(self.used_and_stored(swap, device));
            } else if let (Some(zswap), 1) = (self.zswap.as_ref(), self.swaps.len()) {
                // With several areas nobody knows whose pages zswap holds.
                if zswap.stored_bytes == 0 {
                    continue;
                }
                found.push(in_front(swap, zswap.stored_bytes));
            }
        }
        for device in &self.devices {
            found.extend(self.stored_and_compressed(device));
            found.extend(self.compressed_and_used(device));
        }
        found
    }

    fn used_and_stored(&self, swap: &Swap, device: &Device) -> Option<Difference> {
        let used = swap.area.used_bytes;
        let held = device.held?;
        // mkswap's header page is stored, and no slot.
        let stored = held.stored_bytes.saturating_sub(self.page_size);
        let mut reasons = Vec::new();
        if used > stored {
            let zswapped = self.zswap.as_ref().map_or(0, |zswap| zswap.stored_bytes);
            if zswapped > 0 {
                reasons.push(in_zswap(zswapped));
            }
            if self.swap_keeps_zeros() && used - stored > zswapped {
                let ever = self.activity.zero_out_pages.map(|pages| {
                    let bytes = pages.saturating_mul(self.page_size);
                    format!(" ({} since boot)", units::bytes(bytes))
                });
                reasons.push(format!(
                    "pages of zeros have a slot and are only noted, from Linux 6.12 on{}",
                    ever.unwrap_or_default()
                ));
            }
            let cached = "are in RAM as well (SwapCached); some of their slots are not written yet";
            reasons.extend(some(self.memory.swap_cached_bytes, cached));
            if reasons.is_empty() {
                let kept = "slots are taken before they are written, and processors keep some \
                            ready";
                reasons.push(kept.to_owned());
            }
        } else if stored > used {
            let freed = "slots were freed by swap, and their pages still stand in the device \
                         until they are written again";
            reasons.push(freed.to_owned());
            if device.io.missed_free_pages > 0 {
                reasons.push(format!(
                    "{} frees were missed because the slot was busy",
                    units::count(device.io.missed_free_pages)
                ));
            }
        } else {
            return None;
        }
        let from = ("used in /proc/swaps", used);
        let to = ("stored in the device", stored);
        Some(difference(&device.name, from, to, reasons))
    }

    fn stored_and_compressed(&self, device: &Device) -> Option<Difference> {
        let held = device.held.filter(|held| held.stored_bytes > 0)?;
        let same = held.same_filled_pages.saturating_mul(self.page_size);
        let huge = held.incompressible_pages.saturating_mul(self.page_size);
        let backed = device.backed.unwrap_or_default().held_bytes;
        let backing = device.backing.as_deref().unwrap_or("the backing device");
        let melded = device.melding.as_ref().map_or(0, |m| m.melded_bytes());
        let elsewhere = [same, backed, huge].into_iter();
        let rest = elsewhere.fold(held.stored_bytes, u64::saturating_sub);
        let objects = held.compressed_bytes.saturating_sub(huge);
        let codec = match device.codec.as_str() {
            "" => "the codec",
            codec => codec,
        };
        let included = match melded {
            0 => "",
            _ => ", melding included",
        };
        let compress = format!(
            "compress to {} with {codec}{included}",
            units::bytes(objects)
        );
        let reasons = [
            some(
                same,
                "are same-filled pages, kept as one word without memory",
            ),
            some(backed, &format!("were written back and are on {backing}")),
            some(melded, "of compressed pages are melded with their twins"),
            some(rest, &compress).filter(|_| objects > 0),
            some(huge, "do not compress and are kept as they are"),
        ];
        let reasons = reasons.into_iter().flatten().collect();
        let from = ("stored in the device", held.stored_bytes);
        let to = ("compressed", held.compressed_bytes);
        Some(difference(&device.name, from, to, reasons))
    }

    fn compressed_and_used(&self, device: &Device) -> Option<Difference> {
        let held = device.held.filter(|held| held.memory_used_bytes > 0)?;
        let metadata = device.metadata_bytes(self.page_size);
        let real = held.memory_used_bytes.saturating_add(metadata);
        let overhead = held.memory_used_bytes.saturating_sub(held.compressed_bytes);
        let reasons = vec![
            format!(
                "{} are allocator fragmentation; `echo 1 > /sys/block/{}/compact` recovers part \
                 of it",
                units::bytes(overhead),
                device.name
            ),
            format!(
                "{} are the table of slots, {} bytes a page of the disk size, which mm_stat \
                 does not count",
                units::bytes(metadata),
                device.slot_table(self.page_size).slot_bytes
            ),
        ];
        let from = ("compressed", held.compressed_bytes);
        let to = ("RAM taken with its table", real);
        Some(difference(&device.name, from, to, reasons))
    }
}

fn in_front(swap: &Swap, zswapped: u64) -> Difference {
    let used = swap.area.used_bytes;
    let from = ("used in /proc/swaps", used);
    let to = ("outside zswap", used.saturating_sub(zswapped));
    difference(&swap.area.name(), from, to, vec![in_zswap(zswapped)])
}
