//! Variants: the set-ups that are compared. Its tiers are written as in
//! `/etc/zmeld.toml` and set up, recorded and taken back by `zmeld_swap::setup`; the
//! only device made here is a disk that is slower than the one it stands on.
//!
//! Sizes may also be shares of the run's limit or of the workload's footprint:
//! `size = "50% of limit"`. Tiers are renamed to `lab-NAME`, so that what an
//! experiment that was killed left behind can be told from what somebody set up
//! for good.

mod size;
pub(crate) mod slow_disk;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zmeld_config::{Config, FindingId};
use zmeld_linux::Host;
use zmeld_swap::setup::event::Listener;
use zmeld_swap::setup::execute::{down, up, Removal};
use zmeld_swap::setup::journal::{Journal, Owner, State};
use zmeld_swap::setup::plan::{Options, Plan};
use zmeld_swap::setup::step::{Record, Step};
use zmeld_swap::setup::Error as SwapError;

use crate::error::Error;
use crate::limit::RunGroup;
pub use size::{size, RunSize, SizeBases};
use slow_disk::{AttachedDisk, SlowDisk};
use watch::RunningWatch;

/// One set-up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in tables.
    pub name: String,
    /// The tiers as in `/etc/zmeld.toml`; none: nothing may be swapped.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    tier: toml::Table,
    /// Runs without the case's limit, as what the others are held against: the
    /// difference is what the limit costs. It swaps nothing and takes part in no
    /// comparison.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub unlimited: bool,
    /// A disk made for the run; a tier uses it with `device = "slow-disk"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_disk: Option<SlowDisk>,
    /// `[watch]` as in `/etc/zmeld.toml`; its groups are the run's.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    watch: watch::Written,
}

/// A run that has yet to be measured: what is wrong with a variant is wrong with its sizes, too.
const STAND_IN: SizeBases = SizeBases {
    limit: 1 << 30,
    footprint: 1 << 30,
};

/// Stands for a disk that is not there yet.
const ANY_DISK: &str = "/dev/loop0";

/// Meant in every variant: an experiment's devices live for seconds, side by side on purpose.
const ACCEPTED: [FindingId; 6] = [
    FindingId::UnstableName,
    FindingId::LruInversion,
    FindingId::ReadAhead,
    FindingId::NoMemoryLimit,
    FindingId::ZramWithZswap,
    FindingId::SecondDevice,
];

/// A disk that is there for the variant, in a machine of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestDisk {
    /// `/dev/vda`.
    pub device: PathBuf,
    /// Whether it has yet to be slowed down to what the variant says.
    pub is_fast: bool,
}

/// How tiers of ours begin.
const PREFIX: &str = "lab-";
/// How long another zmeld may hold the journal.
const PATIENCE: Duration = Duration::from_secs(10);

impl Variant {
    /// One that runs without any limit, and swaps nothing.
    pub(crate) fn without_limit() -> Variant {
        Variant {
            name: "no limit".to_owned(),
            unlimited: true,
            ..Variant::default()
        }
    }

    /// Whether anything may be swapped out.
    pub fn swaps(&self) -> bool {
        !self.tier.is_empty()
    }

    /// Whether zswap stands in front of its swap.
    pub fn uses_zswap(&self) -> bool {
        self.has_kind("zswap")
    }

    pub fn has_kind(&self, kind: &str) -> bool {
        let mut tiers = self.tier.values();
        tiers.any(|tier| tier.get("kind").and_then(toml::Value::as_str) == Some(kind))
    }

    fn config(&self, bases: SizeBases, disk: &Path) -> Result<Config, Error> {
        let mut tiers = toml::Table::new();
        for (name, tier) in &self.tier {
            tiers.insert(
                format!("{PREFIX}{name}"),
                resolve(tier, bases, disk, &self.name)?,
            );
        }
        let accept = ACCEPTED
            .map(|warning| toml::Value::from(warning.name()))
            .to_vec();
        let table = toml::Table::from_iter([
            ("tier".to_owned(), toml::Value::Table(tiers)),
            ("accept".to_owned(), toml::Value::Array(accept)),
        ]);
        Config::from_part(&table.to_string()).map_err(|err| self.wrong(err.to_string()))
    }

    fn wrong(&self, problem: String) -> Error {
        Error::recipe(&format!("variant {}", self.name), problem)
    }

    /// Checks its tiers and its rules: an experiment has only reclaim.
    pub(crate) fn sound(&self) -> Result<(), Error> {
        self.config(STAND_IN, Path::new(ANY_DISK))?;
        if let Some(key) = self.watch.keys().find(|key| *key != "reclaim") {
            return Err(self.wrong(format!(
                "a variant has no watch.{key}; it can have watch.reclaim"
            )));
        }
        let reclaim = self.watch.get("reclaim").and_then(toml::Value::as_table);
        if reclaim.is_some_and(|rule| rule.contains_key("groups")) {
            return Err(
                self.wrong("watch.reclaim.groups is the run's own group: leave it out".to_owned())
            );
        }
        let config = Config::from_part(&watch::config(&self.watch, "/").to_string());
        config.map_err(|err| self.wrong(err.to_string()))?;
        Ok(())
    }

    /// Starts what looks after a run in that group, where something does.
    pub fn start_watch(
        &self,
        group: &RunGroup,
        own: &Path,
        folder: &Path,
    ) -> Result<Option<RunningWatch>, Error> {
        let start = || watch::start(&self.watch, group, own, folder);
        (!self.watch.is_empty()).then(start).transpose()
    }

    /// Checks that this machine can have it: plans, changes nothing.
    pub fn check(&self, host: &Host, bases: SizeBases) -> Result<(), Error> {
        if !self.swaps() {
            return Ok(());
        }
        let disk = Path::new(ANY_DISK);
        let plan = Plan::new(host, &self.config(bases, disk)?, None, &just_that())?;
        Ok(plan.refuse()?)
    }

    /// Sets it up for runs in this group. `disk`: one that is there, used as the slow disk.
    pub fn apply(
        &self,
        host: &Host,
        bases: SizeBases,
        group: &RunGroup,
        disk: Option<&GuestDisk>,
        stop: &AtomicBool,
    ) -> Result<AppliedVariant, Error> {
        let mut applied = AppliedVariant {
            host: host.clone(),
            active: false,
            devices: Vec::new(),
            disk: None,
        };
        if !self.swaps() {
            return Ok(applied);
        }
        if let (Some(slow), Some(disk)) = (&self.slow_disk, disk) {
            if disk.is_fast {
                // It goes with the machine.
                slow.throttle(&disk.device, group)?;
            }
        } else if let Some(disk) = &self.slow_disk {
            let bytes = disk.bytes(&format!("variant {}", self.name), bases)?;
            applied.disk = Some(disk.attach(bytes, group)?);
        }
        let made = applied.disk.as_ref().map(|disk| disk.device.as_path());
        let there = disk.map(|disk| disk.device.as_path());
        let disk = there.or(made).unwrap_or(Path::new(""));
        let config = self.config(bases, disk)?;
        let mut journal = journal(host, stop)?;
        free(host)?;
        let plan = Plan::new(host, &config, Some(journal.state()), &just_that())?;
        applied.active = true;
        up(
            host,
            &mut journal,
            &plan,
            &AtomicBool::new(false),
            &mut |_| (),
        )?;
        applied.devices = devices(journal.records());
        Ok(applied)
    }
}

/// A variant is what its recipe says, and nothing that would suit the machine.
fn just_that() -> Options {
    Options {
        only_named: true,
        ..Options::default()
    }
}

fn devices(records: &[Record]) -> Vec<String> {
    records
        .iter()
        .filter(|record| matches!(record.step, Step::AddDevice(_)))
        .filter_map(|record| Some(record.outcome.as_ref()?.name.clone()))
        .collect()
}

/// The experiments' own journal: what `zmeld up` set up is written down elsewhere.
fn journal(host: &Host, stop: &AtomicBool) -> Result<Journal, Error> {
    let owner = Owner::Experiment;
    Ok(Journal::lock(host, owner, PATIENCE, stop, &mut |_| ())?)
}

/// Looked at under the journal's lock.
fn free(host: &Host) -> Result<(), Error> {
    let state = State::read(host)?;
    if state.is_none_or(|state| state.records.is_empty()) {
        return Ok(());
    }
    const WAY_OUT: &str =
        "swap is set up by zmeld up on this machine, and an experiment would have \
                           to take it down: run zmeld down first, and zmeld up afterwards";
    Err(Error::Unsafe(WAY_OUT.to_owned()))
}

/// How something is taken back that an experiment left.
pub struct TakingBack<'a> {
    /// Even where pages do not fit back.
    pub force: bool,
    /// Set when it is to stop; what is not taken back by then stays written down.
    pub stop: &'a AtomicBool,
    /// Receives the events.
    pub listener: &'a mut Listener<'a>,
    /// Is given, in words, what is not as it was before although it was taken back.
    pub left: &'a mut Vec<String>,
}

/// Takes back what an experiment that was killed swaps to.
pub(crate) fn take_back_swap(host: &Host, how: &mut TakingBack<'_>) -> Result<(), Error> {
    let mut journal = journal(host, how.stop)?;
    let removal = Removal {
        force: how.force,
        ..Removal::default()
    };
    let report = down(host, &mut journal, removal, how.stop, how.listener);
    let report = report.map_err(|err| match err {
        // The way out is said for what zmeld up did.
        SwapError::Interrupted { .. } => SwapError::Interrupted {
            after: "the rest of the experiment's swap is still there: zmeld down --experiment \
                    carries on"
                .to_owned(),
        },
        err => err,
    })?;
    how.left.extend(report.left);
    Ok(())
}

/// A benchmark's end is not forced: what does not fit back stays, and is taken back
/// later.
fn stays_on(err: SwapError) -> SwapError {
    const WAY_OUT: &str = "the experiment's swap stays on: raise the limit or end the program, \
                           then zmeld down --experiment takes it back";
    match err {
        SwapError::NoRoomInGroup { groups, .. } => SwapError::NoRoomInGroup {
            groups,
            way_out: WAY_OUT,
        },
        SwapError::GroupsUnseen => SwapError::Refused {
            what: format!("the memory controller's groups are not mounted here; {WAY_OUT}"),
        },
        err @ SwapError::NoRam { .. } => SwapError::Refused {
            what: format!("{err}; {WAY_OUT}"),
        },
        err => err,
    }
}

/// Refuses to begin where `zmeld up` has set swap up.
pub fn check_free(host: &Host, stop: &AtomicBool) -> Result<(), Error> {
    let _held = journal(host, stop)?;
    free(host)
}

/// A set-up that is in place; dropping it takes it back.
#[derive(Debug)]
pub struct AppliedVariant {
    host: Host,
    active: bool,
    /// The compressed devices that were made, `zram1`.
    pub devices: Vec<String>,
    disk: Option<AttachedDisk>,
}

impl AppliedVariant {
    /// The disk that was made, `loop0`.
    pub fn disk(&self) -> Option<String> {
        let name = self.disk.as_ref()?.device.file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    pub fn undo(mut self) -> Result<(), Error> {
        self.take_back()
    }

    fn take_back(&mut self) -> Result<(), Error> {
        if self.active {
            self.active = false;
            let mut journal = journal(&self.host, &AtomicBool::new(false))?;
            // An experiment that is stopped is to leave nothing: this runs to its end.
            let never = AtomicBool::new(false);
            let all = Removal::default();
            down(&self.host, &mut journal, all, &never, &mut |_| ()).map_err(stays_on)?;
        }
        self.disk = None;
        Ok(())
    }
}

impl Drop for AppliedVariant {
    fn drop(&mut self) {
        // An error was or will be said where it can be: by undo, or by the next experiment.
        let _ = self.take_back();
    }
}

/// Puts sizes and the disk's name into a table.
fn resolve(
    value: &toml::Value,
    bases: SizeBases,
    disk: &Path,
    variant: &str,
) -> Result<toml::Value, Error> {
    Ok(match value {
        toml::Value::String(text) if text == "slow-disk" => {
            toml::Value::String(disk.display().to_string())
        }
        toml::Value::String(text) if text.contains(" of ") => {
            let bytes = size(text, bases).ok_or_else(|| {
                let way_out = "write \"50% of limit\" or \"50% of footprint\"";
                let what = format!("{text:?} is no size; {way_out}");
                Error::recipe(&format!("variant {variant}"), what)
            })?;
            toml::Value::String(bytes.to_string())
        }
        toml::Value::Table(table) => {
            let mut resolved = toml::Table::new();
            for (key, value) in table {
                resolved.insert(key.clone(), resolve(value, bases, disk, variant)?);
            }
            toml::Value::Table(resolved)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use zmeld_linux::command::{Ending, Finished, Invocation};
    use zmeld_linux::host::{Access, Direct};
    use zmeld_swap::setup::step::DeviceRef;

    const BASES: SizeBases = SizeBases {
        limit: 100 << 20,
        footprint: 200 << 20,
    };

    /// A machine that notes what it is to run.
    #[derive(Default)]
    struct Noting(Mutex<Vec<String>>);

    impl Access for Noting {
        fn read(&self, path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
            Direct.read(path, limit)
        }

        fn write(&self, path: &Path, value: &[u8]) -> std::io::Result<()> {
            Direct.write(path, value)
        }

        fn run(&self, invocation: &Invocation, _: Option<&Ending>) -> std::io::Result<Finished> {
            self.0.lock().unwrap().push(invocation.to_string());
            Ok(Finished {
                code: Some(0),
                ..Finished::default()
            })
        }
    }

    /// An experiment was killed while it swapped to a disk.
    #[test]
    fn what_does_not_fit_back_is_taken_back_by_force_alone() {
        let state = State {
            schema: "zmeld.state/1".to_owned(),
            complete: true,
            records: vec![Record {
                group: "tier.lab-disk".to_owned(),
                step: Step::SwapOn(zmeld_swap::setup::steps::SwapOn {
                    device: DeviceRef::Path("/dev/loop9".into()),
                    priority: 5,
                    discard: zmeld_config::Discard::None,
                }),
                done: true,
                before: None,
                outcome: None,
                identity: None,
                run: 1,
            }],
            ..State::default()
        };
        let swaps = "Filename Type Size Used Priority\n/dev/loop9 partition 1048576 524288 5\n";
        let memory = "MemTotal: 8388608 kB\nMemFree: 1024 kB\nMemAvailable: 1024 kB\n";
        let (root, host) = Host::planted(&[("/proc/swaps", swaps), ("/proc/meminfo", memory)]);
        let state = serde_json::to_string(&state).unwrap();
        host.plant("/run/zmeld/experiment.json", state);
        let machine = Arc::new(Noting::default());
        let host = Host::with(root.path(), machine.clone());
        let ran = || machine.0.lock().unwrap().join("\n");
        let take_back = |force: bool| {
            let mut how = TakingBack {
                force,
                stop: &AtomicBool::new(false),
                listener: &mut |_| (),
                left: &mut Vec::new(),
            };
            take_back_swap(&host, &mut how)
        };
        let err = take_back(false).unwrap_err().to_string();
        assert!(err.contains("RAM"), "{err}");
        assert_eq!(ran(), "");
        // That the area stays on all the same is another matter.
        let _ = take_back(true);
        assert!(ran().contains("swapoff"), "{}", ran());
    }

    #[test]
    fn tiers_are_renamed_and_resolved() {
        let variant: Variant = toml::from_str(
            "name = \"two\"\n[tier.fast]\nkind = \"zram\"\ncodec = \"lz4\"\nsize = \"50% of limit\"\n\
             [tier.disk]\nkind = \"disk\"\ndevice = \"slow-disk\"\nformat = true\n[slow_disk]\nsize = \"64MiB\"\n",
        )
        .unwrap();
        let config = variant.config(BASES, Path::new("/dev/loop7")).unwrap();
        let text = config.to_toml(&Default::default());
        assert!(
            text.contains("[tier.lab-fast]") && text.contains("size = \"50MiB\""),
            "{text}"
        );
        assert!(text.contains("/dev/loop7"), "{text}");
        assert!(variant.swaps() && !variant.uses_zswap());
        let written = serde_json::to_string(&variant).unwrap();
        assert_eq!(serde_json::from_str::<Variant>(&written).unwrap(), variant);
    }
}
