//! zswap.

use crate::setup::error::Error;
use crate::setup::step::Step;
use crate::setup::steps::SetValue;
use zmeld_config::{FindingId, Zswap};
use zmeld_linux::compressed::ZSWAP;
use zmeld_linux::crypto::{compressors, has_compressor, ZWORD};
use zmeld_linux::modules::{loadable, Loadable};

use super::parts::{Planner, Steps};

const COMPRESSOR: &str = "compressor";

pub(super) fn plan(
    zswap: &Zswap,
    draft: &mut Planner<'_>,
    steps: &mut Steps<'_>,
) -> Result<(), Error> {
    if draft.machine.zswap.is_none() {
        return Err(Error::feature(
            "this tier needs zswap",
            "use a zram tier where the kernel has zram, or boot one that was built with \
                      zswap",
        ));
    }
    // Without a disk tier what zmeld swaps to is taken away, but for a part of the tiers.
    let own = match draft.options.only {
        None => draft.own_areas(),
        Some(_) => Vec::new(),
    };
    let mut swaps = draft.machine.swaps.iter();
    let on_disk = swaps.any(|swap| !swap.is_in_ram() && !own.contains(&swap.path));
    let has_disk = draft.config.tiers.iter().any(|it| it.kind.is_on_disk());
    if !has_disk && !on_disk {
        return Err(Error::Refused {
            what: "zswap is a cache in front of swap on a disk, and there is none: add a disk \
                   tier beside it, or use a zram tier where the kernel has zram"
                .to_owned(),
        });
    }
    for parameter in zswap.parameters() {
        let name = parameter.name;
        let path = format!("{ZSWAP}/{name}");
        let Some(now) = draft.host.read_optional(&path)? else {
            draft.warn(
                FindingId::UnusedRule,
                &format!("{}.{name}", steps.name),
                format!(
                    "kernel {} has no choice of it; remove it",
                    draft.machine.kernel
                ),
            );
            continue;
        };
        if name == COMPRESSOR && now.trim() != parameter.value {
            draft.check_compressor(&parameter.value)?;
        }
        steps.add_over(
            Step::SetValue(SetValue::new(path, parameter.value)),
            parameter.purpose,
            Some(now),
        );
    }
    Ok(())
}

impl Planner<'_> {
    /// The kernel refuses one that it neither has nor can load.
    fn check_compressor(&self, wanted: &str) -> Result<(), Error> {
        let Some(known) = self.host.read_optional("/proc/crypto")? else {
            return Ok(());
        };
        if has_compressor(self.host, &self.machine.kernel, wanted)? {
            return Ok(());
        }
        let known = compressors(&known);
        let way_out = match known.is_empty() {
            _ if wanted.starts_with(ZWORD) && loadable(self.host) > Loadable::Nothing => {
                "install zword-dkms, or name another compressor".to_owned()
            }
            true => "leave compressor out".to_owned(),
            false => format!("set compressor to one of {}", known.join(", ")),
        };
        Err(Error::feature(
            format!("zswap would need {wanted}"),
            way_out,
        ))
    }
}
