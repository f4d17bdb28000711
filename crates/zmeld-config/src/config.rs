//! All that is wanted of a machine's swap.

use serde::{Deserialize, Serialize};

use crate::finding::FindingId;
use crate::settings::{Metrics, Tunables, Watch};
use crate::tier::{DiskSwap, Kind, RamDevice, Tier, Zswap};

/// All that is wanted of a machine's swap.
///
/// The default is empty: no tiers, nothing tuned, nothing watched.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `[tier.NAME]`; NAME is up to 32 letters, digits, `-`, `_`.
    #[serde(rename = "tier")]
    pub tiers: Vec<Tier>,
    /// Whether all tiers that it names are switched off: it asks for none, where one without tiers
    /// says nothing of them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_tiers: bool,
    /// The kernel's tunables that are to be set.
    pub tunables: Tunables,
    /// Settings of `zmeld watch`.
    pub watch: Watch,
    /// Export of figures to a monitoring system.
    pub metrics: Metrics,
    /// These [warnings](configuration.md#warnings) or [findings](findings.md) are not refused nor
    /// shown (`verify-mismatch`, `encode-errors`, `failed-writes`, `not-encrypted` always are).
    pub accept: Vec<FindingId>,
}

impl Config {
    /// Completes a configuration without tiers: it says nothing of tiers, so they
    /// stay those of `found` (what is set up, else what is recommended), with the warnings
    /// that are accepted for them. All else that it says counts; where it tunes nothing,
    /// the tunables of `found` come along. Rules and figures never do: they are those of
    /// the file that is read.
    pub fn completed(self, found: Config) -> Config {
        if self.says_of_tiers() {
            return self;
        }
        let tunables = match self.tunables == Tunables::default() {
            true => found.tunables,
            false => self.tunables,
        };
        let mut accept = self.accept;
        let meant = found.accept.into_iter();
        let more: Vec<FindingId> = meant.filter(|warning| !accept.contains(warning)).collect();
        accept.extend(more);
        Config {
            tiers: found.tiers,
            without_tiers: found.without_tiers,
            tunables,
            accept,
            ..self
        }
    }

    /// Whether it decides which tiers there are.
    pub fn says_of_tiers(&self) -> bool {
        !self.tiers.is_empty() || self.without_tiers
    }

    /// The tier of that name.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.name.as_str() == name)
    }

    /// The tiers in RAM.
    pub fn in_ram(&self) -> impl Iterator<Item = (&Tier, &RamDevice)> {
        let tiers = self.tiers.iter();
        tiers.filter_map(|tier| Some((tier, tier.kind.ram()?)))
    }

    /// The tiers on drives and in files.
    pub fn disks(&self) -> impl Iterator<Item = (&Tier, &DiskSwap)> {
        self.tiers.iter().filter_map(|tier| match &tier.kind {
            Kind::Disk(disk) => Some((tier, disk)),
            _ => None,
        })
    }

    /// The zswap tier: there is at most one.
    pub fn zswap(&self) -> Option<&Zswap> {
        self.tiers.iter().find_map(|tier| match &tier.kind {
            Kind::Zswap(zswap) => Some(zswap),
            _ => None,
        })
    }

    /// Every tier that is swapped to with the priority it gets, in their order.
    ///
    /// An area without a priority of its own gets the one that keeps the order
    /// of the tiers: 100 for the first area, and ten less for each after it,
    /// but always less than the area before it. zswap has none: it stands in
    /// front of all of them. -1 lets the kernel choose.
    pub fn areas(&self) -> Vec<(&Tier, i16)> {
        let mut next = 100;
        let areas = self.tiers.iter().filter(|it| !it.kind.kind().is_in_front());
        let areas = areas.map(|tier| {
            let priority = tier.swap.priority.map_or(next, |it| it.0);
            if priority >= 0 {
                next = next.min((priority - 10).max(0));
            }
            (tier, priority)
        });
        areas.collect()
    }
}
