//! What `zmeld up` set up, by the names that the kernel uses: the journal as those
//! read it who look at the machine and change nothing.

use std::path::PathBuf;

use crate::config::{Config, Kind};
use crate::error::Error;
use crate::journal::State;
use crate::plan::Group;
use crate::step::{added, path_of, Record, Step};
use crate::steps::{Area, SwapOn};
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
    /// What `vm.swappiness` was set to.
    pub swappiness: Option<u64>,
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
    /// What has become of its area where somebody else has its name by now.
    pub lost: Option<String>,
}

impl Applied {
    /// Reads the journal; none where nothing is set up.
    ///
    /// # Errors
    /// Those of [`State::read`].
    pub fn read(host: &Host) -> Result<Option<Applied>, Error> {
        let state = State::read(host)?.filter(|state| !state.records.is_empty());
        state.map(|state| Applied::new(host, state)).transpose()
    }

    fn new(host: &Host, state: State) -> Result<Applied, Error> {
        let mut tiers: Vec<AppliedTier> = Vec::new();
        // A run that was killed has not written down what it was asked for.
        let mut names: Vec<&str> = Vec::new();
        for record in &state.records {
            let name = record.group.strip_prefix("tier.");
            names.extend(name.filter(|name| !names.contains(name)));
        }
        for name in names {
            let group = Group::of_tier(name);
            let records: Vec<&Record> = state
                .records
                .iter()
                .filter(|record| record.group == group)
                .collect();
            let (mut area, mut lost) = (None, None);
            for record in &records {
                if let Step::SwapOn(step) = &record.step {
                    if record.done {
                        (area, lost) = area_of(host, &state.records, record, step)?;
                    }
                }
            }
            tiers.push(AppliedTier {
                name: name.to_owned(),
                area: area.map(|path| path.to_string_lossy().into_owned()),
                lost,
                device: added(host, &state.records, &group)?,
            });
        }
        let swappiness = state.records.iter().find_map(|record| match &record.step {
            Step::SetValue(set) if set.path.ends_with("vm/swappiness") => set.value.parse().ok(),
            _ => None,
        });
        Ok(Applied {
            config: state.config,
            complete: state.complete,
            tiers,
            swappiness,
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

    /// The tier that is zswap.
    pub fn zswap(&self) -> Option<&AppliedTier> {
        self.tiers.iter().find(|tier| {
            let tier = self.config.tier(&tier.name);
            tier.is_some_and(|tier| matches!(tier.kind, Kind::Zswap(_)))
        })
    }
}

/// The path of the area that a record switched on, and what has become of it where
/// that is another by now.
fn area_of(
    host: &Host,
    records: &[Record],
    record: &Record,
    step: &SwapOn,
) -> Result<(Option<PathBuf>, Option<String>), Error> {
    Ok(match step.area_seen(host, records, record)? {
        Area::Ours(swap) => (Some(swap.path), None),
        Area::Others(path, why) => (None, Some(format!("{}: {why}", path.display()))),
        Area::Off => match path_of(host, records, &record.group, &step.device)? {
            Some(path) => (Some(host.resolved(&path)), None),
            None => (
                None,
                Some("the device that was made for it is gone".to_owned()),
            ),
        },
    })
}
