//! Changes that `zmeld up` would make, for read-only callers: taken from the plan and
//! its comparison, so that a status finds what `up` would do, and nothing else.
//!
//! Values that have to be measured first are left out: `swappiness = "auto"` that never was.
//! No command is run, and an ordinary user may ask: what cannot be looked at counts as
//! it is written down.

use std::path::{Path, PathBuf};

use zmeld_guard::note::LOCK as GUARD_LOCK;
use zmeld_linux::{shell, Host};

use crate::observe::applied::Applied;
use crate::run_folder::{is_locked, WATCH_LOCK};
use crate::setup::error::{Error, Refused};
use crate::setup::journal::State;
use crate::setup::plan::{in_plain, Plan, PlanPart};
use crate::setup::step::{Record, Step};
use crate::status::config_check::guarding;
use zmeld_config::{
    Config, EncryptionKind, Finding, FindingId, Remedy, Severity, Swappiness, Tier,
};

/// The configuration that was asked about, as a way out names it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The file that was named for it, which then counts alone; else the machine's own.
    named: Option<PathBuf>,
}

impl Asked {
    pub(crate) fn of(named: Option<&Path>) -> Asked {
        let named = named.map(Path::to_owned);
        Asked { named }
    }

    /// Whether a file was named, which has no drop-ins and is in force after no boot.
    pub(crate) fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// The file, for a shell.
    pub(crate) fn file(&self) -> String {
        let named = self.named.as_deref();
        shell::path(named.unwrap_or(Path::new("/etc/zmeld.toml")))
    }

    /// A command of zmeld's that reads it.
    pub(crate) fn command(&self, command: &str) -> String {
        match self.is_named() {
            true => format!("zmeld {command} --config {}", self.file()),
            false => format!("zmeld {command}"),
        }
    }

    /// How zmeld's tiers get the place of another tool's.
    pub(crate) fn take_over(&self) -> Remedy {
        let plan = self.command("plan --take-over");
        Remedy::run([self.command("up --take-over")]).and(&format!(
            " puts zmeld's in its place ({plan} says with what)"
        ))
    }
}

/// The requested configuration: by the file, see [`Config::completed`]; without tiers there,
/// those of the last `zmeld up` count.
fn wanted(file: &Config, applied: Option<&Applied>) -> Config {
    let is_file = *file != Config::default();
    match applied.filter(|it| !is_file || it.config.says_of_tiers()) {
        Some(applied) => file.clone().completed(applied.config.clone()),
        None => file.clone(),
    }
}

/// The requested configuration, the active set-up, and all that `zmeld up` would change.
#[derive(Debug, Clone, Default)]
pub struct Outstanding {
    /// The requested configuration: by the file, and where that says nothing of tiers, by the last
    /// `zmeld up`.
    pub wanted: Config,
    /// The active set-up.
    pub applied: Option<Applied>,
    /// The reason why the journal cannot be read; nothing is compared then.
    pub journal_problem: Option<String>,
    /// Each thing, in the order of the plan; without a way out of its own it is the remedy.
    pub changes: Vec<Finding>,
    /// The command that makes the changes, or that says why none can.
    pub remedy: Remedy,
    /// Whether the tiers are those of a file: else those of a `zmeld up --tier` count.
    pub is_by_file: bool,
    pub asked: Asked,
    /// Whether a `zmeld watch` runs, where rules want one; none where they do not, or
    /// where that cannot be told.
    pub is_watched: Option<bool>,
    /// The same of `zmeld-guard` and its rule.
    pub is_guarded: Option<bool>,
    /// The plan of `zmeld up`; none where nothing can be planned.
    pub plan: Option<Plan>,
    /// Devices that are to be encrypted and are swapped to as they are.
    pub in_plain: Vec<Finding>,
    /// Entries of the guard's rule without effect, as far as one can tell.
    pub guard: Vec<Finding>,
}

impl Outstanding {
    /// The requested configuration alone: no machine is looked at.
    pub fn of(wanted: &Config) -> Outstanding {
        Outstanding {
            wanted: wanted.clone(),
            remedy: Remedy::run(["zmeld up"]),
            is_by_file: wanted.says_of_tiers(),
            ..Outstanding::default()
        }
    }

    /// Compares a machine with its configuration, and that of the file that was named for it;
    /// nothing is compared where its journal or its file (none) cannot be read, or where nothing
    /// is asked for.
    pub fn read(host: &Host, file: Option<&Config>, named: Option<&Path>) -> Outstanding {
        Outstanding {
            asked: Asked::of(named),
            ..Outstanding::compared(host, file, &Asked::of(named))
        }
    }

    fn compared(host: &Host, file: Option<&Config>, asked: &Asked) -> Outstanding {
        let host = &host.without_commands();
        let state = State::read(host).and_then(|state| {
            let state = state.filter(|state| !state.records.is_empty());
            let applied = state
                .as_ref()
                .map(|state| crate::setup::applied::applied(host, state));
            Ok((state, applied.transpose()?))
        });
        let empty = Config::default();
        let (state, applied) = match state {
            Ok(found) => found,
            Err(err) => {
                return Outstanding {
                    journal_problem: Some(err.to_string()),
                    ..Outstanding::of(file.unwrap_or(&empty))
                }
            }
        };
        let wanted = wanted(file.unwrap_or(&empty), applied.as_ref());
        if file.is_none() {
            return Outstanding {
                applied,
                ..Outstanding::of(&wanted)
            };
        }
        let rules = wanted.watch.has_rules();
        let is_watched = rules.then(|| is_locked(host, WATCH_LOCK)).flatten();
        let guard = wanted.watch.guard.is_some();
        let is_guarded = guard.then(|| is_locked(host, GUARD_LOCK)).flatten();
        let (not_planned, plan) = Plan::look(host, &wanted, state.as_ref());
        let mut look = Comparison {
            host,
            wanted: &wanted,
            applied: applied.as_ref(),
            records: state.as_ref().map_or(&[][..], |state| &state.records),
            up: asked.command("up"),
            changes: Vec::new(),
            is_refused: false,
        };
        for (group, err) in &not_planned {
            look.not_planned(group, err);
        }
        match &plan {
            Ok(plan) => look.compare(plan),
            Err(err) if err.is_unseen(host) => {}
            Err(err) => {
                let what = "it would set up nothing of the configuration";
                look.add("zmeld up".to_owned(), what, err.to_string());
            }
        }
        let plan = plan.ok();
        let remedy = match made_anew(host, applied.as_ref(), asked) {
            Some(remedy) => remedy,
            None => remedy(plan.as_ref().filter(|_| !look.is_refused), asked),
        };
        Outstanding {
            changes: look.changes,
            remedy,
            is_by_file: file.is_some_and(Config::says_of_tiers),
            asked: Asked::default(),
            is_watched,
            is_guarded,
            in_plain: not_encrypted(host, &wanted, &not_planned, plan.as_ref(), asked),
            plan,
            guard: guarding(host, &wanted),
            wanted,
            journal_problem: None,
            applied,
        }
    }

    /// Warnings of a plan for which `accept` has no name: a codec that the kernel lacks, a file of
    /// another size.
    pub(crate) fn otherwise(&self) -> impl Iterator<Item = &Finding> {
        let problems = self.plan.iter().flat_map(|plan| &plan.problems);
        let disks = self.wanted.disks();
        let sizes: Vec<String> = disks.map(|it| format!("tier.{}.size", it.0.name)).collect();
        let is_codec = |key: &str| key.ends_with(".codec") || key.contains(".recompress");
        problems
            .filter(move |it| it.id.is_none() && (is_codec(&it.about) || sizes.contains(&it.about)))
    }
}

/// The command that carries out a plan. Whether pages fit back is known only then.
fn remedy(plan: Option<&Plan>, asked: &Asked) -> Remedy {
    let (says, up) = (asked.command("plan"), asked.command("up"));
    let refused = || format!("{says} says why {up} refuses it").into();
    let Some(plan) = plan else {
        return refused();
    };
    // Without tiers in the file zmeld up takes one that suits the machine.
    if plan.config.tiers.is_empty() && !plan.machine.compressed.is_empty() {
        return asked.take_over();
    }
    let errors = plan.problems.iter();
    let mut errors = errors.filter(|it| it.severity == Severity::Critical);
    let is_beside = |id| matches!(id, FindingId::SecondDevice | FindingId::ZramWithZswap);
    match errors.clone().all(|it| it.id.is_some_and(is_beside)) {
        false => refused(),
        true if errors.next().is_some() => asked.take_over(),
        true if plan.leaving.is_empty() => Remedy::run([up]),
        true => Remedy::run([up]).and(&format!(
            ", once {says} says that what is swapped out fits back"
        )),
    }
}

/// A device of zmeld's that somebody else made a swap area anew: it leaves that first.
fn made_anew(host: &Host, applied: Option<&Applied>, asked: &Asked) -> Option<Remedy> {
    let lost = applied?.tiers.iter().filter(|tier| tier.lost.is_some());
    let devices = lost.filter_map(|tier| Some(Path::new("/dev").join(tier.device.as_ref()?)));
    let on = devices.filter_map(|path| host.swap_on(&path).ok()?);
    let mut commands: Vec<String> = on
        .map(|area| format!("swapoff {}", shell::path(&area.path)))
        .collect();
    (!commands.is_empty()).then(|| {
        commands.push(asked.command("up"));
        Remedy::run(commands)
    })
}

fn not_encrypted(
    host: &Host,
    config: &Config,
    not_planned: &Refused,
    plan: Option<&Plan>,
    asked: &Asked,
) -> Vec<Finding> {
    let refused = |tier: &Tier| {
        let group = PlanPart::of_tier(tier.name.as_str());
        let mut errors = not_planned.iter().filter(|it| it.0 == group);
        let mut skipped = plan.iter().flat_map(|it| &it.skipped);
        let reason = skipped.find(|it| it.group == group);
        let reason = reason.map(|it| it.reason.clone());
        errors.next().map(|it| it.1.to_string()).or(reason)
    };
    let found = config.disks().filter_map(|(tier, disk)| {
        let Some(location) = &disk.device else {
            return None;
        };
        let path = location.path();
        let is_on = matches!(host.swap_on(&path), Ok(Some(_)));
        let shown = path.display();
        (disk.encryption != EncryptionKind::None && is_on).then(|| {
            Finding::of_machine(
                tier.name.as_str(),
                "its pages are written in plain, and should be encrypted",
                format!("{shown} is swapped to without encryption"),
                encrypted_instead(&path, refused(tier), asked),
            )
        })
    });
    found.collect()
}

/// Has what is swapped to as it is encrypted, where the plan refuses it for that alone: nothing
/// would be swapped to else.
fn encrypted_instead(path: &Path, refused: Option<String>, asked: &Asked) -> Remedy {
    let plain = in_plain(path).to_string();
    let up = asked.command("up");
    if let Some(other) = refused.filter(|it| *it != plain) {
        return format!("leave it on until {up} can encrypt it: {other}").into();
    }
    let area = shell::path(path);
    let commands = [
        format!("swapoff {area}"),
        format!("wipefs --all {area}"),
        up,
    ];
    let words = commands.join(", ");
    let words = format!("take {area} out of what switches it on (/etc/fstab), then {words}");
    Remedy::run(commands).said(words)
}

struct Comparison<'a> {
    host: &'a Host,
    wanted: &'a Config,
    applied: Option<&'a Applied>,
    records: &'a [Record],
    up: String,
    changes: Vec<Finding>,
    is_refused: bool,
}

impl<'a> Comparison<'a> {
    fn add(&mut self, subject: String, what: impl Into<String>, why: String) {
        self.push(subject, what, why, String::new());
    }

    fn push(&mut self, subject: String, what: impl Into<String>, why: String, remedy: String) {
        let change = Finding::of_machine(subject, what, why, remedy);
        self.changes.push(change);
    }

    fn is_ours(&self, group: &str) -> bool {
        let mut groups = self
            .records
            .iter()
            .map(|record| PlanPart::current(&record.group));
        groups.any(|it| it == group)
    }

    fn not_planned(&mut self, group: &str, err: &Error) {
        // Without permission, its state is unknown.
        if err.is_unseen(self.host) {
            if !self.is_ours(group) {
                self.not_set_up(group);
            }
            return;
        }
        self.is_refused = true;
        let what = match self.is_ours(group) && self.gone(group).is_none() {
            true => "it is not set up as configured, which is impossible here",
            false => "it is configured but not set up",
        };
        self.add(self.subject(group), what, err.to_string());
    }

    fn not_set_up(&mut self, group: &str) {
        let why = match self.applied {
            Some(_) => "the last zmeld up did not set it up",
            None => "zmeld has nothing set up now",
        };
        let what = "it is configured but not set up";
        // The obstacle to its setup may well be there still.
        let tier = self.wanted.tier(tier_of(group));
        let remedy = match tier.is_some_and(|tier| tier.swap.optional) {
            true => format!(
                "{} tries again, and says why where it leaves it out",
                self.up
            ),
            false => String::new(),
        };
        self.push(tier_of(group).to_owned(), what, why.to_owned(), remedy);
    }

    fn compare(&mut self, plan: &Plan) {
        let planned = plan.groups.iter().map(|group| group.name.as_str());
        let mut names: Vec<&str> = planned.collect();
        let planned = names.len();
        for done in &plan.undone {
            let name = PlanPart::current(&done.group);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for &at in plan.removed.iter().chain(&plan.replaced) {
            let old = &self.records[at];
            let made = old.outcome.as_ref();
            if let Some(made) = made.filter(|_| PlanPart::current(&old.group) != old.group) {
                let what = "its tier has another device, or is gone: zmeld up would take it back";
                self.add(made.name.clone(), what, String::new());
            }
        }
        for (at, name) in names.into_iter().enumerate() {
            let (open, undone) = self.of_group(plan, name);
            let is_tier = PlanPart::is_tier(name);
            if open.is_empty() && undone.is_empty() {
                continue;
            } else if is_tier && !self.is_ours(name) {
                self.not_set_up(name);
            } else if let Some(why) = self.gone(name) {
                let what = "it was set up but is no longer active";
                self.add(tier_of(name).to_owned(), what, why);
            } else if is_tier && at >= planned {
                let what = format!(
                    "it is active as {}, but no longer in the configuration",
                    self.subject(name)
                );
                self.add(tier_of(name).to_owned(), what, String::new());
            } else {
                let what = self.difference(name, &open, &undone);
                self.add(self.subject(name), what, String::new());
            }
        }
    }

    /// The steps of a group that would be done, and those that would be taken back.
    fn of_group<'p>(&'p self, plan: &'p Plan, name: &str) -> (Vec<&'p Step>, Vec<&'p Step>) {
        let tunables = &self.wanted.tunables;
        let is_told = |step: &&Step| match step {
            // Somebody else may have set a value that the plan makes fit.
            Step::SetValue(set) if set.path.ends_with("vm/page-cluster") => {
                tunables.page_cluster.is_some()
            }
            // Measured anew, it may be the same.
            Step::SetValue(set) if set.path.ends_with("vm/swappiness") => {
                tunables.swappiness != Some(Swappiness::Auto)
            }
            _ => true,
        };
        let group = plan.groups.iter().filter(|group| group.name == name);
        let steps = group.flat_map(|group| &group.steps);
        let open = steps.filter(|it| it.is_open());
        let removed = plan.removed.iter().chain(&plan.replaced);
        let removed = removed.map(|&index| &self.records[index]);
        let removed = removed.filter(|it| it.group == name && it.is_change());
        let undone = removed.map(|record| &record.step);
        (
            open.map(|planned| &planned.step).filter(is_told).collect(),
            undone.filter(is_told).collect(),
        )
    }

    /// Changes to a group; settings that a device made anew has again are left out.
    fn difference(&self, name: &str, open: &[&Step], undone: &[&Step]) -> String {
        let again = |step: &&&Step| {
            let is_anew = matches!(step, Step::SwapOff(_));
            !undone.contains(step) || is_anew || self.other_priority(name, step).is_some()
        };
        // A setting that the device has already.
        let is_so = |step: &&&Step| match (step, self.device(name)) {
            (Step::SetAttribute(set), Some(device)) => {
                set.in_effect(self.host, device).as_deref() == Some(set.value.as_str())
            }
            _ => false,
        };
        let mut would: Vec<String> = open
            .iter()
            .filter(again)
            .filter(|step| !is_so(step))
            .map(|step| self.words(name, step))
            .collect();
        let is_replaced = |step: &Step| open.iter().any(|it| it.replaces(step));
        let back = undone.iter().filter(|step| !is_replaced(step));
        would.extend(back.map(|step| format!("take back: {}", step.words())));
        if would.is_empty() {
            would.push("make it anew".to_owned());
        }
        format!("zmeld up would {}", would.join("; "))
    }

    /// A step in words, and the value in effect instead.
    fn words(&self, group: &str, step: &Step) -> String {
        let is = match step {
            Step::SetValue(set) => self.host.read_optional(&set.path).ok().flatten(),
            Step::SetAttribute(set) => self
                .device(group)
                .and_then(|device| set.in_effect(self.host, device)),
            step => self.other_priority(group, step),
        };
        let Some(is) = is else { return step.words() };
        // Two sizes may round alike.
        let words = match step.words().ends_with(&is) {
            true => step.describe(),
            false => step.words(),
        };
        format!("{words} (in effect {is})")
    }

    /// The priority of a tier's area, where it is another than a step would give it.
    fn other_priority(&self, group: &str, step: &Step) -> Option<String> {
        let Step::SwapOn(on) = step else { return None };
        let area = self.applied?.tier(tier_of(group))?.area.as_ref()?;
        let is = self.host.swap_on(Path::new(area)).ok()??.priority;
        (on.priority >= 0 && is != i32::from(on.priority)).then(|| is.to_string())
    }

    /// Why a tier's area is not there any more, where it was.
    fn gone(&self, group: &str) -> Option<String> {
        self.applied?.tier(tier_of(group))?.lost.clone()
    }

    fn subject(&self, group: &str) -> String {
        self.device(group).unwrap_or(tier_of(group)).to_owned()
    }

    fn device(&self, group: &str) -> Option<&'a str> {
        let tier = self.applied?.tier(tier_of(group))?;
        tier.device.as_deref()
    }
}

/// A tier's name, or that of another part of the plan.
fn tier_of(group: &str) -> &str {
    group.strip_prefix("tier.").unwrap_or(group)
}
