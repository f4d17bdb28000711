//! Configuration that a machine cannot give.

use zmeld_report::units::bytes;

use crate::advice::machine::Machine;
use crate::codec::Codec;
use crate::config::Config;
use crate::finding::{Finding, Severity};
use crate::tier::{RamDevice, Tier};

/// One part in so many of RAM is too much to be kept free.
const MIN_FREE_PART: u64 = 8;
/// From one part in so many on, it is warned of.
const MIN_FREE_PART_USUAL: u64 = 20;

/// Memory that is kept free is taken from all programs: a machine whose RAM is
/// kept free ends them. The kernel takes any number.
pub fn kept_free(machine: &Machine, config: &Config) -> Option<Finding> {
    let wanted = config.tunables.min_free?.0;
    let severity = match machine.ram_bytes {
        0 => return None,
        ram if wanted >= ram / MIN_FREE_PART => Severity::Critical,
        ram if wanted >= ram / MIN_FREE_PART_USUAL => Severity::Warning,
        _ => return None,
    };
    let share = 100.0 * wanted as f64 / machine.ram_bytes as f64;
    Some(Finding::new(
        severity,
        "tunables.min_free",
        format!(
            "{} are {share:.0} % of RAM ({}), which no program could use any more; write at \
             most \"{}MiB\"",
            bytes(wanted),
            bytes(machine.ram_bytes),
            ((machine.ram_bytes - 1) / MIN_FREE_PART_USUAL) >> 20,
        ),
    ))
}

/// The codecs that tiers ask for and the kernel has not got, as far as one can tell.
pub fn lacks<'t>(
    machine: &Machine,
    tiers: impl Iterator<Item = (&'t Tier, &'t RamDevice)>,
) -> Vec<Finding> {
    let mut problems = Vec::new();
    for (tier, device) in tiers {
        let driver = device.driver;
        let is_missing = |codec: &&Codec| machine.offers(driver, &codec.name) == Some(false);
        let first: Vec<&Codec> = device.codec.iter().collect();
        let again = device.recompress.iter();
        let again = again.filter(is_missing);
        let missing = again.map(|it| ("recompress", it.name.clone(), "leaves it out"));
        let names: Vec<&str> = first.iter().map(|it| it.name.as_str()).collect();
        let default = (!first.is_empty() && first.iter().all(is_missing)).then(|| {
            let instead = "takes the kernel's default instead";
            ("codec", names.join(", no "), instead)
        });
        let there = match &machine.feature(driver).codecs[..] {
            [] => String::new(),
            there => format!("; it has {}", there.join(", ")),
        };
        for (key, none, so) in default.into_iter().chain(missing) {
            problems.push(Finding::new(
                Severity::Warning,
                format!("tier.{}.{key}", tier.name),
                format!(
                    "this kernel's {} has no {none}, and zmeld up {so}{there}",
                    driver.name()
                ),
            ));
        }
    }
    problems
}
