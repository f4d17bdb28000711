//! zswap.

use crate::config::{Kind, Trap, Zpool, Zswap};
use crate::error::Error;
use crate::machine::ZSWAP;
use crate::step::Step;
use crate::steps::SetValue;

use super::{Draft, Steps};

impl Draft<'_> {
    pub(super) fn zswap(&mut self, zswap: &Zswap, steps: &mut Steps<'_>) -> Result<(), Error> {
        if self.machine.zswap.is_none() {
            return Err(Error::KernelFeature {
                what: "this tier needs zswap".to_owned(),
                way_out: "use a zram tier, or boot a kernel that was built with it".to_owned(),
            });
        }
        let planned = |tier: &crate::config::Tier| matches!(tier.kind, Kind::Disk(_));
        let ram = |path: &str| path.starts_with("/dev/zram") || path.starts_with("/dev/zmeld");
        let on_disk = self.machine.swaps.iter().any(|swap| !ram(&swap.path));
        if !self.config.tiers.iter().any(planned) && !on_disk {
            return Err(Error::Refused {
                what: "zswap is a cache in front of swap on a disk, and there is none: add a disk \
                       tier, or use a zram tier"
                    .to_owned(),
            });
        }
        let switch = |on: bool| if on { "Y" } else { "N" }.to_owned();
        let pool = |pool: Zpool| match pool {
            Zpool::Zbud => "zbud",
            Zpool::Z3fold => "z3fold",
            Zpool::Zsmalloc => "zsmalloc",
        };
        // The codec first: the others hold for a pool that is made with it.
        let wanted = [
            (
                "compressor",
                zswap.compressor.clone(),
                "what pages are compressed with",
            ),
            (
                "zpool",
                zswap.zpool.map(|it| pool(it).to_owned()),
                "how compressed pages are kept",
            ),
            (
                "max_pool_percent",
                zswap.max_pool_percent.map(|it| it.to_string()),
                "how much of RAM they may take",
            ),
            (
                "accept_threshold_percent",
                zswap.accept_threshold_percent.map(|it| it.to_string()),
                "when pages are taken again after it was full",
            ),
            (
                "shrinker_enabled",
                zswap.shrinker.map(switch),
                "cold pages go to disk before it is full",
            ),
            (
                "same_filled_pages_enabled",
                zswap.same_filled.map(switch),
                "a page of one value is kept as that value",
            ),
            (
                "enabled",
                Some(switch(true)),
                "pages stay in RAM, compressed, before they go to disk",
            ),
        ];
        for (name, value, reason) in wanted {
            let Some(value) = value else { continue };
            let path = format!("{ZSWAP}/{name}");
            let Some(now) = self.host.read_optional(&path)? else {
                self.warn(
                    Trap::UnusedRule,
                    &format!("{}.{name}", steps.name),
                    format!(
                        "kernel {} has no choice of it; remove it",
                        self.machine.kernel
                    ),
                );
                continue;
            };
            steps.add_over(
                Step::SetValue(SetValue::new(path, value)),
                reason,
                Some(now),
            );
        }
        Ok(())
    }
}
