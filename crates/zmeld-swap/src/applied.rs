//! What `zmeld up` set up, by the names that the kernel uses: the journal as those
//! read it who look at the machine and change nothing.

use crate::config::{Config, Kind};
use crate::error::Error;
use crate::journal::State;
use crate::plan::Group;
use crate::step::{added, path_of, Record, Step};
use crate::steps::Area;
use zmeld_linux::Host;

/// What was set up since the machine booted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// What was asked for.
    pub config: Config,
    /// Whether the last run came to its end.
    pub complete: bool,
    /// The tiers of which a step was begun, in the order in which that was done.
    pub tiers: Vec<AppliedTier>,
}

/// A tier that was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedTier {
    /// Its name in the configuration.
    pub name: String,
    /// The RAM device that was made for it: `zram1`.
    pub device: Option<String>,
    /// Its swap area, as `/proc/swaps` names it; none for zswap, and where it was
    /// not switched on.
    pub area: Option<String>,
    /// What has become of its area where it is not swapped to any more.
    pub lost: Option<String>,
}

impl Applied {
    /// Reads the journal; none where nothing is set up.
    ///
    /// # Errors
    /// Those of [`State::read`].
    pub fn read(host: &Host) -> Result<Option<Applied>, Error> {
        let state = State::read(host)?.filter(|state| !state.records.is_empty());
        state.map(|state| Applied::new(host, &state)).transpose()
    }

    pub(crate) fn new(host: &Host, state: &State) -> Result<Applied, Error> {
        // A run that was killed has not written down what it was asked for.
        let groups = Group::recorded(&state.records).into_iter();
        let tiers = groups.filter_map(|group| Some(group.name.strip_prefix("tier.")?.to_owned()));
        let tiers = tiers.map(|name| AppliedTier::new(host, &state.records, name));
        Ok(Applied {
            config: state.config.clone(),
            complete: state.complete,
            tiers: tiers.collect::<Result<_, _>>()?,
        })
    }

    /// The tier of that name, if it is set up.
    pub fn tier(&self, name: &str) -> Option<&AppliedTier> {
        self.tiers.iter().find(|tier| tier.name == name)
    }

    /// The tier whose swap area has that path.
    pub fn tier_on(&self, path: &str) -> Option<&AppliedTier> {
        self.tiers
            .iter()
            .find(|tier| tier.area.as_deref() == Some(path))
    }

    /// Paths of the swap areas.
    pub fn areas(self) -> Vec<String> {
        let tiers = self.tiers.into_iter();
        tiers.filter_map(|tier| tier.area).collect()
    }

    /// The tier that is zswap.
    pub fn zswap(&self) -> Option<&AppliedTier> {
        self.tiers.iter().find(|tier| {
            let tier = self.config.tier(&tier.name);
            tier.is_some_and(|tier| matches!(tier.kind, Kind::Zswap(_)))
        })
    }
}

impl AppliedTier {
    fn new(host: &Host, records: &[Record], name: String) -> Result<AppliedTier, Error> {
        let group = Group::of_tier(&name);
        let mut tier = AppliedTier {
            device: added(host, records, &group)?,
            name,
            area: None,
            lost: None,
        };
        for record in records.iter().filter(|it| it.group == group && it.done) {
            let Step::SwapOn(step) = &record.step else {
                continue;
            };
            let area = match step.area_seen(host, records, record)? {
                Area::Ours(swap) => Some(swap.path),
                Area::Others(path, why) => {
                    tier.lost = Some(format!("{}: {why}", path.display()));
                    None
                }
                Area::Off => {
                    let path = path_of(host, records, &group, &step.device)?;
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
}
