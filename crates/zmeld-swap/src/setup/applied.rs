//! Tiers set up by `zmeld up`, by the kernel's names: the journal for readers that change nothing.

use crate::observe::applied::{Applied, AppliedTier};
use crate::setup::context::{added, path_of};
use crate::setup::error::Error;
use crate::setup::journal::State;
use crate::setup::plan::PlanPart;
use crate::setup::step::{Record, Step};
use crate::setup::steps::Area;
use zmeld_linux::Host;

/// Reads the journal; none where nothing is set up.
pub fn read(host: &Host) -> Result<Option<Applied>, Error> {
    let state = State::read(host)?.filter(|state| !state.records.is_empty());
    state.map(|state| applied(host, &state)).transpose()
}

/// [`read`] of what was read of its journal.
pub fn applied(host: &Host, state: &State) -> Result<Applied, Error> {
    // A run that was killed has not written down what it was asked for.
    let parts = PlanPart::recorded(&state.records).into_iter();
    let tiers = parts.filter(|part| PlanPart::is_tier(&part.name));
    let tiers = tiers.map(|part| applied_tier(host, &state.records, &part.name));
    Ok(Applied {
        config: state.config.clone(),
        complete: state.complete,
        tiers: tiers.collect::<Result<_, _>>()?,
    })
}

fn applied_tier(host: &Host, records: &[Record], part: &str) -> Result<AppliedTier, Error> {
    let mut tier = AppliedTier {
        device: added(host, records, part)?,
        name: PlanPart::current(part).replacen("tier.", "", 1),
        area: None,
        lost: None,
    };
    for record in records.iter().filter(|it| it.group == part && it.done) {
        let Step::SwapOn(step) = &record.step else {
            continue;
        };
        let area = match step.area(host, records, record)? {
            Area::Ours(swap) => Some(swap.path),
            Area::Others(path, why) => {
                tier.lost = Some(format!("{}: {why}", path.display()));
                None
            }
            Area::Off => {
                let path = path_of(host, records, part, &step.device)?;
                let path = path.map(|path| host.resolved(&path));
                tier.lost = Some(match &path {
                    Some(path) => format!("{} is not in /proc/swaps", path.display()),
                    None => "the device that was made for it is gone".to_owned(),
                });
                path
            }
        };
        tier.area = area.map(|path| path.to_string_lossy().into_owned());
    }
    Ok(tier)
}
