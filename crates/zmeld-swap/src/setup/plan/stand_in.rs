//! zram in the place of zmeld's own driver, where the kernel cannot have that: a module
//! that was not built for it, or that it refuses. A machine that swaps to zram is better
//! off than one that does not swap.
//!
//! The tier keeps its size, limit, priority, discards, writeback, and its codecs, as far as
//! zram has them. Features of zmeld alone, or of some kernels' zram, are left out: melding,
//! zword, recompression.

use serde::Serialize;
use zmeld_config::advice::module::why_no_zmeld;
use zmeld_config::advice::ModulePresence;
use zmeld_linux::{modules, Host};

use crate::setup::journal::State;
use zmeld_config::advice::machine::Machine;
use zmeld_config::{
    Codec, Config, Finding, FindingId, MeldMode, RamDevice, RamDriver, Severity, Tier,
};
use zmeld_linux::crypto::ZWORD;

/// A tier that another driver's device stands in for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct StandIn {
    /// The tier.
    pub tier: String,
    /// The driver that was asked for.
    pub asked: &'static str,
    /// The driver that it has.
    pub has: &'static str,
    /// Why, a sentence.
    pub why: String,
    /// The way to what was asked for, before the next `zmeld up`.
    pub way_out: String,
}

impl StandIn {
    pub fn words(&self) -> String {
        format!(
            "a {} device stands in for {}: {}",
            self.has, self.asked, self.why
        )
    }

    /// The finding on the tier; `up`: the command that sets it up then.
    pub fn finding(&self, up: &str) -> Finding {
        let what = format!("a {} device stands in for {}", self.has, self.asked);
        let why = self.why.as_str();
        let way_out = format!("{}, then {up}", self.way_out);
        Finding {
            severity: Severity::Warning,
            ..Finding::of_machine(self.tier.as_str(), what, why, way_out).of(FindingId::StandIn)
        }
    }
}

pub(super) fn has_zram(machine: &Machine) -> bool {
    !matches!(
        machine.zram.presence,
        ModulePresence::Absent | ModulePresence::Impossible
    )
}

/// The configuration with zram's driver where zmeld's cannot be had, and for which tiers.
pub(super) fn with_stand_ins(
    host: &Host,
    config: &Config,
    machine: &Machine,
    state: Option<&State>,
) -> (Config, Vec<StandIn>) {
    let mut config = config.clone();
    let mut all = Vec::new();
    let Some((why, way_out)) = why_none(host, machine, state).filter(|_| has_zram(machine)) else {
        return (config, all);
    };
    for tier in &mut config.tiers {
        let Tier { name, kind, .. } = tier;
        match kind.ram_mut() {
            Some(device) if device.driver == RamDriver::Zmeld => replace(device),
            _ => continue,
        }
        all.push(StandIn {
            tier: name.to_string(),
            asked: RamDriver::Zmeld.name(),
            has: RamDriver::Zram.name(),
            why: why.clone(),
            way_out: way_out.clone(),
        });
    }
    (config, all)
}

/// Why zmeld's driver cannot be had, with the way to it; none where it can, as far as one
/// can tell.
fn why_none(host: &Host, machine: &Machine, state: Option<&State>) -> Option<(String, String)> {
    match machine.zmeld.presence {
        ModulePresence::Ready => None,
        ModulePresence::Impossible => {
            let (why, way_out) = match modules::are_disabled(host) {
                true => ("kernel.modules_disabled is 1", "boot without it"),
                false => ("this kernel loads no modules", "boot a kernel that does"),
            };
            Some((why.to_owned(), way_out.to_owned()))
        }
        ModulePresence::Absent => Some(why_no_zmeld(host, &machine.kernel)),
        ModulePresence::Module | ModulePresence::Unknown => {
            let said = state?.refused.as_ref()?;
            Some((
                format!("the kernel did not take zmeld.ko ({said})"),
                "when that is mended (docs/secure-boot.md): zmeld down".to_owned(),
            ))
        }
    }
}

/// Its settings as those of a zram device, whatever kernel's that is.
fn replace(device: &mut RamDevice) {
    device.driver = RamDriver::Zram;
    device.meld = MeldMode::Off;
    device.check_writes = None;
    device.recompress.clear();
    // Of the others those that this zram was built without are passed over; the plan does not
    // hang on whether there is a device yet that shows which.
    device.codec.retain(|codec| codec.name != ZWORD);
    for codec in &mut device.codec {
        *codec = Codec::new(&codec.name);
    }
    if let Some(writeback) = &mut device.writeback {
        writeback.compressed = false;
    }
}
