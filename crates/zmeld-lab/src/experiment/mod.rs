//! Running a recipe: every variant of every case in turn, in an order drawn anew for
//! each block, until the intervals are narrow or the budget is spent.

mod in_vm;
mod judge;
mod lock;
pub mod result;
mod run;
pub(crate) use run::NEEDED_LEAST;
mod size;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use zmeld_linux::groups::Version;
use zmeld_linux::lock::FileLock;
use zmeld_linux::Host;

use crate::error::Error;
use crate::folder;
use crate::leftover::{leftovers, Leftover};
use crate::limit::{self, Hierarchy, RunGroup};
use crate::measure::counters::{memory, reclaim_daemons};
use crate::measure::HostFacts;
use crate::recipe::{Case, Recipe};
use crate::size::SizeSearch;
pub use crate::variant::TakingBack;
use crate::variant::{self, size, RunSize, SizeBases, Variant};
use crate::vm::host::BootImage;
use crate::vm::{GuestClock, World};
use crate::workload::Workload;
pub use lock::{running, Running};
use result::{CaseFacts, Experiment, Outcome, Run, SkippedVariant};
use run::MeasuredRun;

/// Settings of a run, besides its recipe.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Stop after so long, once every variant has one run that counts.
    pub budget: Option<Duration>,
    /// This program, which is launcher, supervisor, built-in workload and `zmeld watch` as well.
    pub program: PathBuf,
    /// The kernel's image for virtual machines; none: one that is installed.
    pub kernel: Option<PathBuf>,
}

#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something worth knowing that stops nothing.
    Note(&'a str),
    Begins {
        /// Of which variant and case, or with which limit.
        what: String,
        done: usize,
        /// At most so many in all, where that is known.
        of: Option<usize>,
        /// About how long the rest takes, where that is known.
        left: Option<Duration>,
    },
    /// A run has ended and was added: time to save.
    Ended(&'a Experiment),
    /// The same of a search.
    Tried(&'a SizeSearch),
}

/// Runs that are kept, and carried on with: an experiment, or a search for the least RAM.
pub trait Kept: Serialize + DeserializeOwned {
    /// The name and version of its schema.
    const SCHEMA: (&'static str, u32);

    /// How many runs there are.
    fn runs_made(&self) -> usize;

    /// Whether nothing is left to do.
    fn is_complete(&self) -> bool;

    /// Goes on with what is asked now, of which these are runs. Runs from then on follow the
    /// request, and nothing that the file said.
    ///
    /// # Errors
    /// A difference from the runs so far.
    fn go_on_with(&mut self, asked: Self) -> Result<(), Error>;

    /// Whether there are runs, the machine that they are of, and whether they were stopped.
    fn state(&mut self) -> (bool, &mut HostFacts, &mut bool);

    /// Makes the runs that are left, as far as it is not stopped.
    ///
    /// # Errors
    /// As [`Kept::make_runs`].
    fn carry_out(&mut self, lab: &mut Lab<'_>) -> Result<(), Error>;

    /// Says what the runs that there are come to.
    fn conclude(&mut self);

    /// Makes the runs that are left. Without any, it needs no root.
    ///
    /// # Errors
    /// A reason why runs are impossible or unsafe; a workload that fails without a limit. A run
    /// that is killed for want of memory is a result, not an error; what was done before an error
    /// was given to the listener.
    fn make_runs(
        &mut self,
        settings: &Settings,
        stop: &AtomicBool,
        listener: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), Error> {
        let mut result = Ok(());
        let mut is_stopped = false;
        if !self.is_complete() {
            let mut lab = Lab::open(settings, stop, listener)?;
            let (has_runs, machine, _) = self.state();
            lab.is_machine_of(has_runs, machine)?;
            result = self.carry_out(&mut lab);
            is_stopped = lab.stopped();
        }
        *self.state().2 = is_stopped;
        self.conclude();
        result
    }
}

/// Refuses to go on where these differ, by their keys in JSON.
pub(crate) fn same<T: Serialize>(what: &str, then: &T, now: &T) -> Result<(), Error> {
    let value = |of: &T| serde_json::to_value(of).map_err(|err| Error::Result(err.to_string()));
    let Some((place, then, now)) = difference(what.to_owned(), &value(then)?, &value(now)?) else {
        return Ok(());
    };
    Err(Error::Result(format!(
        "its runs are of another {place} ({then}, now {now}): give the same recipe, command and \
         options, or start again without --resume"
    )))
}

/// The first place where two values differ, and what is there.
fn difference(place: String, then: &Value, now: &Value) -> Option<(String, Value, Value)> {
    let below = |key: &str, then: Option<&Value>, now: Option<&Value>| {
        let place = format!("{place}.{key}");
        difference(
            place,
            then.unwrap_or(&Value::Null),
            now.unwrap_or(&Value::Null),
        )
    };
    match (then, now) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys = old.keys().chain(new.keys());
            keys.find_map(|key| below(key, old.get(key), new.get(key)))
        }
        (Value::Array(old), Value::Array(new)) => (0..old.len().max(new.len()))
            .find_map(|at| below(&(at + 1).to_string(), old.get(at), new.get(at))),
        _ => (then != now).then(|| (place.clone(), then.clone(), now.clone())),
    }
}

/// Memory that the machine keeps for everybody else.
const RESERVE_BYTES: u64 = 512 << 20;

/// This machine, prepared and locked for runs.
pub struct Lab<'a> {
    host: Host,
    hierarchy: Hierarchy,
    settings: &'a Settings,
    stop: &'a AtomicBool,
    // Its contents are harmless, should it stay.
    folder: TempDir,
    kswapd: Vec<u32>,
    /// A disk that variants use as their slow disk.
    pub(crate) disk: Option<variant::GuestDisk>,
    /// Files and environment of commands, if not this program's own.
    pub(crate) world: Option<World>,
    boot_images: BTreeMap<String, BootImage>,
    _lock: FileLock,
    listener: &'a mut dyn FnMut(Event<'_>),
}

impl Kept for Experiment {
    const SCHEMA: (&'static str, u32) = ("zmeld.bench", 2);

    fn runs_made(&self) -> usize {
        self.runs.len()
    }

    fn is_complete(&self) -> bool {
        let (blocks, variants) = (self.blocks(), self.recipe.variants.len());
        let is_over = |case: usize| {
            let mut taking = (0..variants).filter(|&it| self.takes_part(case, it));
            self.facts(&self.recipe.cases[case].name).is_some()
                && (self.is_enough(case)
                    || taking.all(|it| (0..blocks).all(|block| self.has(case, it, block))))
        };
        !self.runs.is_empty() && (0..self.recipe.cases.len()).all(is_over)
    }

    fn go_on_with(&mut self, asked: Experiment) -> Result<(), Error> {
        same("recipe", &self.recipe.compared(), &asked.recipe.compared())?;
        self.recipe = asked.recipe;
        self.full = asked.full;
        Ok(())
    }

    fn state(&mut self) -> (bool, &mut HostFacts, &mut bool) {
        let has_runs = !self.runs.is_empty();
        (has_runs, &mut self.machine, &mut self.interrupted)
    }

    fn carry_out(&mut self, lab: &mut Lab<'_>) -> Result<(), Error> {
        lab.carry_out(self)
    }

    fn conclude(&mut self) {
        self.judge();
    }
}

impl<'a> Lab<'a> {
    /// Looks whether experiments can be made here, and takes back what one that was killed left.
    pub(crate) fn open(
        settings: &'a Settings,
        stop: &'a AtomicBool,
        listener: &'a mut dyn FnMut(Event<'_>),
    ) -> Result<Lab<'a>, Error> {
        needs_root("an experiment limits memory and sets up swap")?;
        let hierarchy = limit::hierarchy()?;
        let host = Host::here();
        let lock = lock::take(&host)?;
        let mut left = Vec::new();
        let how = TakingBack {
            force: false,
            stop,
            listener: &mut |_| (),
            left: &mut left,
        };
        for found in cleared(&host, how)? {
            listener(Event::Note(&format!("took back {found}")));
        }
        for text in &left {
            listener(Event::Note(text));
        }
        variant::check_free(&host, stop)?;
        let folder = folder::create_in(&std::env::temp_dir(), "")?;
        Ok(Lab {
            host,
            hierarchy,
            settings,
            stop,
            folder,
            kswapd: reclaim_daemons(),
            disk: None,
            world: None,
            boot_images: BTreeMap::new(),
            _lock: lock,
            listener,
        })
    }
}

/// Leftovers of killed experiments on this machine, in words; none while one runs. Changes nothing.
pub fn left_behind(host: &Host) -> Result<Vec<String>, Error> {
    left(host, |_| true)
}

/// Leftovers of [`left_behind`] that would take part in swap set up now: no files, no groups.
pub fn left_set_up(host: &Host) -> Result<Vec<String>, Error> {
    left(host, Leftover::is_set_up)
}

fn left(host: &Host, is_meant: fn(&Leftover) -> bool) -> Result<Vec<String>, Error> {
    let left = leftovers(host);
    // Looked at last: one may have begun meanwhile, and have begun to set up.
    if matches!(running(), Running::Yes(_)) {
        return Ok(Vec::new());
    }
    let left = left?.into_iter().filter(is_meant);
    Ok(left.map(|it| it.to_string()).collect())
}

/// Takes back what [`left_behind`] names.
///
/// # Errors
/// A leftover that could not be taken back, a stop, or a running experiment.
pub fn take_back_left_behind(host: &Host, how: TakingBack<'_>) -> Result<Vec<String>, Error> {
    needs_root("taking back what an experiment left changes the machine's swap")?;
    let _lock = lock::take(&Host::here())?;
    cleared(host, how)
}

fn needs_root(why: &str) -> Result<(), Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::Missing(format!(
        "{why}, which needs root: run it with sudo"
    )))
}

/// With the lock held: whatever there is of experiments is of one that is gone.
fn cleared(host: &Host, mut how: TakingBack<'_>) -> Result<Vec<String>, Error> {
    let left = leftovers(host)?;
    for it in &left {
        it.clear(host, &mut how)?;
    }
    // Outputs, and what machines booted from.
    for folder in folder::left_in(&std::env::temp_dir(), "") {
        // It harms nobody, and the next experiment tries again.
        let _ = std::fs::remove_dir_all(folder);
    }
    Ok(left.iter().map(Leftover::to_string).collect())
}

impl Lab<'_> {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Notes this machine, unless runs were made on another kernel.
    fn is_machine_of(&self, has_runs: bool, machine: &mut HostFacts) -> Result<(), Error> {
        let now = HostFacts::here(match self.hierarchy.version {
            Version::One => 1,
            Version::Two => 2,
        });
        if has_runs {
            same("kernel", &machine.kernel, &now.kernel)?;
        }
        *machine = now;
        Ok(())
    }

    /// Finds the facts of each case. Cases that this machine cannot have are left out, unless
    /// that is all of them. Ends early where it is stopped.
    fn look_at_cases(&mut self, experiment: &mut Experiment, recipe: &Recipe) -> Result<(), Error> {
        for case in &recipe.cases {
            if self.stopped() {
                return Ok(());
            }
            match self.facts(experiment, recipe, case) {
                // Another case may have what it needs.
                Err(Error::Missing(what)) if recipe.cases.len() > 1 => {
                    self.leave_case_out(experiment, case, what);
                }
                other => other?,
            }
        }
        // Stopped while the last of them was looked at, there may be none.
        if self.stopped() {
            return Ok(());
        }
        let left_out = experiment.cases.iter().map(|it| it.left_out.as_deref());
        all_left_out(left_out)
    }

    fn carry_out(&mut self, experiment: &mut Experiment) -> Result<(), Error> {
        let recipe = experiment.recipe.clone();
        self.others_swap(&recipe)?;
        self.look_at_cases(experiment, &recipe)?;
        if self.stopped() {
            return Ok(());
        }
        let begin = Instant::now();
        for block in 0..experiment.blocks() {
            for (case, variant) in experiment.block(block) {
                let over = self
                    .settings
                    .budget
                    .is_some_and(|budget| begin.elapsed() >= budget);
                let has_enough = block > recipe.warm_ups;
                if self.stopped() || over && has_enough {
                    experiment.budget_spent |= over;
                    return Ok(());
                }
                if experiment.has(case, variant, block) || experiment.is_enough(case) {
                    continue;
                }
                let (case, variant) = (&recipe.cases[case], &recipe.variants[variant]);
                self.tell(
                    format!("{} ({})", variant.name, case.name),
                    experiment.progress(),
                );
                let facts = experiment.facts(&case.name).cloned().ok_or_else(|| {
                    Error::Result(format!("case {} was not looked at", case.name))
                })?;
                let begin = Instant::now();
                let made = match &case.machine {
                    Some(_) => self.in_machine(experiment, case, variant, &facts, block),
                    None => self.run_once(&recipe, case, variant, &facts, block),
                };
                let mut run = match made {
                    Ok(run) => run,
                    // Planning looks at what can be seen without changing anything: that a module is not there shows
                    // when it is loaded. That a disk cannot be slowed down, when it is made.
                    Err(err) if err.is_missing() => {
                        self.leave_out(experiment, &case.name, &variant.name, err.to_string());
                        continue;
                    }
                    Err(err) => return Err(err),
                };
                if run.outcome == Outcome::Stopped {
                    return Ok(());
                }
                run.took_s = begin.elapsed().as_secs_f64();
                experiment.runs.push(run);
                experiment.judge();
                (self.listener)(Event::Ended(experiment));
            }
        }
        Ok(())
    }

    /// Says which run begins, how many were made, of how many, and the seconds that are left.
    fn tell(&mut self, what: String, (done, of, left): (usize, Option<usize>, Option<f64>)) {
        let left = left.map(Duration::from_secs_f64);
        (self.listener)(Event::Begins {
            what,
            done,
            of,
            left,
        });
    }

    fn leave_case_out(&mut self, experiment: &mut Experiment, case: &Case, why: String) {
        (self.listener)(Event::Note(&format!(
            "case \"{}\" is left out: {why}",
            case.name
        )));
        experiment.cases.push(CaseFacts {
            left_out: Some(why),
            ..CaseFacts::new(case, 0)
        });
    }

    fn leave_out(&mut self, experiment: &mut Experiment, case: &str, variant: &str, why: String) {
        let note = format!("variant {variant} is left out: {why}");
        (self.listener)(Event::Note(&note));
        let mut cases = experiment.cases.iter_mut();
        if let Some(facts) = cases.find(|facts| facts.case == case) {
            let variant = variant.to_owned();
            facts.skipped.push(SkippedVariant { variant, why });
        }
    }

    /// Measures what a case needs, and which variants this machine can have.
    fn facts(
        &mut self,
        experiment: &mut Experiment,
        recipe: &Recipe,
        case: &Case,
    ) -> Result<(), Error> {
        if experiment.facts(&case.name).is_some() {
            return Ok(());
        }
        if let Workload::Command(command) = &case.workload {
            if let (Some(package), false) = (&command.package, command.is_there()) {
                return Err(run::not_installed(&command.command[0], package));
            }
        }
        let ram = experiment.machine.ram_bytes;
        let boot_image = match case.machine.is_some() {
            true => Some(self.boot_image(case)?.bytes()),
            false => None,
        };
        let is_relative =
            |limit: &String| matches!(RunSize::parse(limit), Some(RunSize::OfFootprint(_)));
        let relative = boot_image.is_none() && case.limit.as_ref().is_none_or(is_relative);
        // Counted instructions turn minutes into hours.
        let counted = case
            .machine
            .as_ref()
            .filter(|it| it.clock == GuestClock::Instructions);
        let counted = counted.and_then(|machine| machine.ram_bytes().ok());
        let footprint = match (relative, case.workload.expected_bytes().or(counted)) {
            (false, Some(bytes)) => bytes,
            (_, expected) => {
                self.fits(case, expected.unwrap_or(0))?;
                self.tell(format!("footprint ({})", case.name), experiment.progress());
                let Some(measured) = self.without_limit(recipe, case)? else {
                    return Ok(());
                };
                measured.needed_bytes()
            }
        };
        let whole = SizeBases {
            limit: ram,
            footprint,
        };
        let limit = match &case.limit {
            None => None,
            Some(text) => Some(
                size(text, whole)
                    .ok_or_else(|| Error::recipe(&recipe.name, format!("{text:?} is no limit")))?,
            ),
        };
        // Swapped pages compress to at most their own size.
        let needs = boot_image.unwrap_or(footprint.max(limit.unwrap_or(0)));
        self.fits(case, needs)?;
        let bases = SizeBases {
            limit: limit.unwrap_or(ram),
            footprint,
        };
        experiment.cases.push(CaseFacts {
            footprint_measured: relative
                || (case.workload.expected_bytes().is_none() && counted.is_none()),
            limit_bytes: limit,
            ..CaseFacts::new(case, footprint)
        });
        for variant in &recipe.variants {
            // Another kernel: what it lacks shows there.
            let lacks = self.lacks(variant, bases)?;
            if let Some(why) = lacks.filter(|_| case.machine.is_none()) {
                self.leave_out(experiment, &case.name, &variant.name, why);
            }
        }
        Ok(())
    }

    fn lacks(&self, variant: &Variant, bases: SizeBases) -> Result<Option<String>, Error> {
        match variant.check(&self.host, bases) {
            Ok(()) => Ok(None),
            Err(err @ Error::Recipe(_)) => Err(err),
            Err(Error::Swap(err)) => Ok(Some(err.without_remedy())),
            Err(err) => Ok(Some(err.to_string())),
        }
    }

    /// Refuses what the machine has no memory for.
    fn fits(&self, case: &Case, needs: u64) -> Result<(), Error> {
        let available = memory().available_bytes;
        if available >= needs.saturating_add(RESERVE_BYTES) {
            return Ok(());
        }
        let bytes = zmeld_report::units::bytes;
        Err(Error::Unsafe(format!(
            "\"{}\" needs {}; the machine has {} available and keeps {} for other programs: \
             choose a smaller \
             workload",
            case.name,
            bytes(needs),
            bytes(available),
            bytes(RESERVE_BYTES)
        )))
    }

    /// A run without a limit, by which limits are set; none: stopped.
    fn without_limit(
        &mut self,
        recipe: &Recipe,
        case: &Case,
    ) -> Result<Option<MeasuredRun>, Error> {
        let group = RunGroup::create(&self.hierarchy, "footprint")?;
        let measured = self.supervised(case, recipe.run_max_s, &group, None, &[])?;
        match &measured.run.outcome {
            Outcome::Finished => Ok(Some(measured)),
            Outcome::Stopped => Ok(None),
            outcome => Err(failed(case, outcome)),
        }
    }

    /// Swap that somebody else uses would take part.
    fn others_swap(&mut self, recipe: &Recipe) -> Result<(), Error> {
        let areas = self.host.swaps()?;
        let here = recipe.cases.iter().any(|case| case.machine.is_none());
        if areas.is_empty() || !here || !recipe.variants.iter().any(Variant::swaps) {
            return Ok(());
        }
        let names: Vec<String> = areas
            .iter()
            .map(|area| area.path.display().to_string())
            .collect();
        if areas.iter().any(|area| area.priority >= 100) {
            return Err(Error::Unsafe(format!(
                "{} is swapped to with a priority of 100 or more, so that pages would go there and not to the \
                 variants: give it a lower priority (swapoff, swapon --priority 10) while the experiment runs",
                names.join(", ")
            )));
        }
        (self.listener)(Event::Note(&format!(
            "{} is swapped to already, with a lower priority than the variants: what does not fit into one goes there",
            names.join(", ")
        )));
        Ok(())
    }

    pub(crate) fn run_once(
        &mut self,
        recipe: &Recipe,
        case: &Case,
        variant: &Variant,
        facts: &CaseFacts,
        block: usize,
    ) -> Result<Run, Error> {
        let bases = SizeBases {
            limit: facts.limit_bytes.unwrap_or(memory().total_bytes),
            footprint: facts.footprint_bytes,
        };
        let group = RunGroup::create(&self.hierarchy, "run")?;
        let applied = variant.apply(&self.host, bases, &group, self.disk.as_ref(), self.stop)?;
        // So it is dropped first, on whichever path: pages of what still runs in it would
        // have to fit below its limit when its swap goes.
        let group = group;
        let limit = facts.limit_bytes.filter(|_| !variant.unlimited);
        if let Some(limit) = limit {
            group.limit(limit, variant.swaps())?;
        }
        let budget = limit.filter(|_| case.counts_store);
        let mut devices = applied.devices.clone();
        let disk = self.disk.as_ref().and_then(|disk| disk.device.file_name());
        devices.extend(disk.map(|name| name.to_string_lossy().into_owned()));
        devices.extend(applied.disk());
        let watch = variant.start_watch(&group, &self.settings.program, self.folder.path())?;
        let mut measured = self.supervised(case, recipe.run_max_s, &group, budget, &devices)?;
        if let Some(watch) = watch {
            let figures = &mut measured.run.figures;
            figures.insert("watch_cpu_s".to_owned(), watch.end()?);
        }
        drop(group);
        applied.undo()?;
        Ok(measured.into_run(recipe, case, &variant.name, block))
    }
}

fn all_left_out<'a>(why: impl Iterator<Item = Option<&'a str>>) -> Result<(), Error> {
    match why.collect::<Option<Vec<&str>>>() {
        Some(why) => Err(Error::Missing(why.join("; "))),
        None => Ok(()),
    }
}

/// A workload that does not do its job without a limit.
fn failed(case: &Case, outcome: &Outcome) -> Error {
    Error::Workload(match outcome {
        Outcome::Failed(why) => format!("without any limit: {why}"),
        other => format!("{}: {other:?} without any limit", case.workload.describe()),
    })
}
