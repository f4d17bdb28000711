//! What a rule looks at.

use zmeld_config::advice::SwapKinds;
use zmeld_config::Config;

use crate::observe::applied::Applied;
use crate::observe::{Device, Observation, Swap};
use crate::status::outstanding::{Asked, Outstanding};

pub(super) struct View<'a> {
    pub now: &'a Observation,
    pub wanted: &'a Config,
    pub applied: Option<&'a Applied>,
    pub outstanding: &'a Outstanding,
}

impl<'a> View<'a> {
    pub fn asked(&self) -> &'a Asked {
        &self.outstanding.asked
    }

    /// Whether the machine has a service of that name.
    pub fn has_service(&self, name: &str) -> bool {
        self.now.facts.units.iter().any(|unit| unit == name)
    }

    pub fn compressed(&self) -> impl Iterator<Item = (&'a Swap, &'a Device)> + '_ {
        self.now
            .swaps
            .iter()
            .filter_map(|swap| Some((swap, self.now.device_of(swap)?)))
    }

    pub fn is_own(&self, swap: &Swap) -> bool {
        let applied = self.applied;
        applied.is_some_and(|applied| applied.tier_on(&swap.area.shown()).is_some())
    }

    pub fn disks(&self) -> impl Iterator<Item = &'a Swap> + '_ {
        self.now
            .swaps
            .iter()
            .filter(|swap| self.now.device_of(swap).is_none() && swap.stand.ram_below().is_none())
    }

    pub fn kinds(&self) -> SwapKinds {
        SwapKinds {
            in_ram: self.compressed().next().is_some(),
            on_disk: self.disks().next().is_some(),
            on_spinning_disk: self.disks().any(|disk| disk.stand.is_spinning()),
        }
    }
}

/// Whether a group is, or is in, one of zmeld's own experiments, which reach their
/// limits on purpose.
pub(super) fn is_experiment(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with("zmeld-lab-"))
}
