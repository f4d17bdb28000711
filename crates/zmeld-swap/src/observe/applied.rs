//! Tiers set up by `zmeld up`, by the kernel's names.

use zmeld_config::{Config, Kind};

/// The setup since the machine booted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    pub config: Config,
    /// Whether the last run came to its end.
    pub complete: bool,
    /// The tiers of which a step was begun, in the order in which that was done; twice for
    /// one while a device of it is there beside the one that takes its place.
    pub tiers: Vec<AppliedTier>,
}

/// A tier that was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedTier {
    pub name: String,
    /// The RAM device that was made for it: `zram1`.
    pub device: Option<String>,
    /// Its swap area, as `/proc/swaps` names it; none for zswap, and where it was
    /// not switched on.
    pub area: Option<String>,
    /// Reason why its area is not swapped to any more.
    pub lost: Option<String>,
}

impl Applied {
    /// The tier of that name, if it is set up, as what is swapped to and newest has it.
    pub fn tier(&self, name: &str) -> Option<&AppliedTier> {
        let ours = self.tiers.iter().filter(|tier| tier.name == name);
        ours.max_by_key(|tier| tier.area.is_some() && tier.lost.is_none())
    }

    /// The tier that the RAM device of that name was made for.
    pub fn tier_of(&self, device: &str) -> Option<&AppliedTier> {
        let mut tiers = self.tiers.iter();
        tiers.find(|tier| tier.device.as_deref() == Some(device))
    }

    /// The tier whose swap area has that path.
    pub fn tier_on(&self, path: &str) -> Option<&AppliedTier> {
        self.tiers
            .iter()
            .find(|tier| tier.area.as_deref() == Some(path))
    }

    pub fn zswap(&self) -> Option<&AppliedTier> {
        let of = |tier: &&AppliedTier| Some(&self.config.tier(&tier.name)?.kind);
        let is_zswap = |tier: &&AppliedTier| matches!(of(tier), Some(Kind::Zswap(_)));
        self.tiers.iter().find(is_zswap)
    }
}
