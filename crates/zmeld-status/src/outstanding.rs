//! What `zmeld up` would change, for who only looks: asked of the plan and
//! its comparison, so that a status finds what `up` would do, and nothing else.
//!
//! Only what has to be measured first is left out: `swappiness = "auto"` that never was.
//! No command is run, and an ordinary user may ask: what cannot be looked at counts as
//! it is written down.

use std::path::{Path, PathBuf};

use zmeld_linux::Host;

use crate::against::guarding;
use zmeld_config::{Config, Encryption, Finding, FindingId, Kind, Severity, Source, Swappiness};
use zmeld_observe::applied::Applied;
use zmeld_setup::execute::may_go_up;
use zmeld_setup::journal::State;
use zmeld_setup::plan::{Group, Plan, Planned};
use zmeld_setup::step::{Record, Step};
use zmeld_setup::{Error, ErrorKind};

/// What is asked for: by the file, see [`Config::completed`]; without tiers there, those of the
/// last `zmeld up` count.
fn asked(file: &Config, applied: Option<&Applied>) -> Config {
    let is_file = *file != Config::default();
    match applied.filter(|it| !is_file || it.config.says_of_tiers()) {
        Some(applied) => file.clone().completed(applied.config.clone()),
        None => file.clone(),
    }
}

/// What brings about what was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Way {
    /// `zmeld up`.
    #[default]
    Up,
    /// `zmeld up --take-over`: these areas are another tool's.
    TakeOver(String),
    /// Nothing as it is now: `zmeld up` refuses it. Why, with what would have to be done
    /// first, where the changes do not say it.
    Refused(Option<String>),
}

/// What is asked for, what is set up, and all that `zmeld up` would change.
#[derive(Debug, Clone, Default)]
pub struct Outstanding {
    /// What is asked for: by the file, and where that says nothing of tiers, by the last
    /// `zmeld up`.
    pub wanted: Config,
    /// What was set up.
    pub applied: Option<Applied>,
    /// What keeps the journal from being read; nothing is compared then.
    pub journal_problem: Option<String>,
    /// Each thing, in the order of the plan.
    pub changes: Vec<Finding>,
    /// What brings it about.
    pub way: Way,
    /// What `zmeld up --take-over` comes to, where a tier stands or would come beside
    /// another tool's compressed swap.
    pub take_over: Option<Way>,
    /// Whether a `zmeld watch` runs, where rules want one; none where they do not, or
    /// where that cannot be told.
    pub is_watched: Option<bool>,
    /// The same of the guard and `zmeld-guard`.
    pub is_guarded: Option<bool>,
    /// What `zmeld up` would carry out; none where nothing can be planned.
    pub plan: Option<Plan>,
    /// Tiers whose pages are to be encrypted, and the device that they are swapped to in
    /// plain.
    pub in_plain: Vec<(String, PathBuf)>,
    /// What is in vain in the guard's rule, as far as one can tell.
    pub guard: Vec<Finding>,
}

impl Outstanding {
    /// What is asked for alone: no machine is looked at.
    pub fn of(wanted: &Config) -> Outstanding {
        Outstanding {
            wanted: wanted.clone(),
            ..Outstanding::default()
        }
    }

    /// Compares a machine with its configuration; nothing is compared where its journal or
    /// its file (none) cannot be read, or where nothing is asked for.
    pub fn read(host: &Host, file: Option<&Config>) -> Outstanding {
        let host = &host.without_commands();
        let state = State::read(host).and_then(|state| {
            let state = state.filter(|state| !state.records.is_empty());
            let applied = state
                .as_ref()
                .map(|state| zmeld_setup::applied::applied(host, state));
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
        let wanted = asked(file.unwrap_or(&empty), applied.as_ref());
        if file.is_none() {
            return Outstanding {
                applied,
                ..Outstanding::of(&wanted)
            };
        }
        let rules = wanted.watch.has_rules();
        let is_watched = rules.then(|| runs(host, is_watch)).flatten();
        let is_guarded = wanted.watch.guard.is_some();
        let is_guarded = is_guarded.then(|| runs(host, is_guard)).flatten();
        let (not_planned, plan) = Plan::look(host, &wanted, state.as_ref(), false);
        let mut look = Look {
            host,
            wanted: &wanted,
            applied: applied.as_ref(),
            records: state.as_ref().map_or(&[][..], |state| &state.records),
            changes: Vec::new(),
            is_refused: false,
        };
        for (group, err) in &not_planned {
            look.not_planned(group, err);
        }
        match &plan {
            Ok(plan) => look.compare(plan),
            Err(err) if err.is_denied() => {}
            Err(err) => {
                let what = "it would set up nothing of what is asked for".to_owned();
                look.add("zmeld up", what, err.to_string());
            }
        }
        let plan = plan.ok();
        let is_beside = |plan: &&Plan| plan.problems.iter().any(is_of_another);
        let take_over = plan.as_ref().filter(is_beside);
        let take_over = take_over.map(|_| look.taking_over(state.as_ref()));
        let way = match plan.as_ref().filter(|_| !look.is_refused) {
            None => Way::Refused(None),
            // What changes nothing is not asked for.
            Some(_) if look.changes.is_empty() => Way::Up,
            Some(plan) => look.way(plan, take_over.as_ref()),
        };
        Outstanding {
            changes: look.changes,
            way,
            take_over,
            is_watched,
            is_guarded,
            in_plain: in_plain(host, &wanted),
            plan,
            guard: guarding(host, &wanted),
            wanted,
            journal_problem: None,
            applied,
        }
    }

    /// What a plan warns of that no trap is about: a codec that the kernel lacks, a file of
    /// another size.
    pub(crate) fn otherwise(&self) -> impl Iterator<Item = &Finding> {
        let plan = self.plan.iter();
        let problems = plan.flat_map(|plan| plan.problems.iter().map(move |it| (plan, it)));
        let is_one = |(plan, it): &(&Plan, &Finding)| {
            let key = it.about.strip_prefix("tier.");
            let Some((name, key)) = key.and_then(|key| key.split_once('.')) else {
                return false;
            };
            let kind = plan.config.tier(name).map(|tier| &tier.kind);
            let is_disk = matches!(kind, Some(Kind::Disk(_)));
            it.id.is_none() && (matches!(key, "codec" | "recompress") || key == "size" && is_disk)
        };
        problems.filter(is_one).map(|(_, it)| it)
    }
}

/// What `zmeld up` would refuse of a plan before it changes anything: traps, and pages
/// that do not fit back. What this user may not look at is refused by nobody here.
fn refusal(host: &Host, plan: &Plan) -> Option<String> {
    let err = may_go_up(host, plan, &mut |_| {}).err()?;
    (err.kind() == ErrorKind::Input).then(|| err.to_string())
}

/// Devices that are to be encrypted and are swapped to as they are.
fn in_plain(host: &Host, config: &Config) -> Vec<(String, PathBuf)> {
    let tiers = config.tiers.iter().filter_map(|tier| match &tier.kind {
        Kind::Disk(disk) if disk.encryption != Encryption::None => match &disk.source {
            Source::Device(location) => Some((tier.name.to_string(), location.path())),
            Source::File { .. } => None,
        },
        _ => None,
    });
    let is_on = |path: &Path| matches!(host.swap_on(path), Ok(Some(_)));
    tiers.filter(|(_, path)| is_on(path)).collect()
}

/// Whether it is about compressed swap of another tool.
fn is_of_another(problem: &Finding) -> bool {
    matches!(
        problem.id,
        Some(FindingId::SecondDevice | FindingId::ZramWithZswap)
    )
}

/// The areas that a plan switches off, which are another tool's.
fn others_of(plan: &Plan) -> String {
    let steps = plan.groups.iter().flat_map(|group| &group.steps);
    let others = steps.filter_map(|planned| match &planned.step {
        Step::SwapOff(off) => Some(off.path.display().to_string()),
        _ => None,
    });
    others.collect::<Vec<_>>().join(", ")
}

/// No more is read of how a program was started.
const LINE_MAX: usize = 4096;

/// Whether a process of root's is `zmeld watch` and acts by its rules: anybody may call
/// his own so. Where others' processes are hidden from this user, nobody can tell.
fn runs(host: &Host, is_it: fn(&[u8]) -> bool) -> Option<bool> {
    host.read("/proc/1/comm").ok()?;
    let names = host.list("/proc").ok()?;
    let mut processes = names.iter().filter(|name| name.parse::<u32>().is_ok());
    Some(processes.any(|pid| {
        // Who starts a program makes its line as long as he likes.
        let command = host.read_start(Path::new(&format!("/proc/{pid}/cmdline")), LINE_MAX);
        command.is_ok_and(|line| is_it(&line)) && is_of_root(host, pid)
    }))
}

/// Whether all of a process's user ids are root's: one that runs with the rights of another
/// is still its user's by the first.
fn is_of_root(host: &Host, pid: &str) -> bool {
    let status = host.read(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.is_some_and(|ids| ids.split_whitespace().eq(["0"; 4]))
}

fn is_watch(command: &[u8]) -> bool {
    is_program(command, b"zmeld", &[b"--once", b"--dry-run"])
        && command
            .split(|byte| *byte == 0)
            .any(|word| word == b"watch")
}

fn is_guard(command: &[u8]) -> bool {
    is_program(command, b"zmeld-guard", &[b"--dry-run"])
}

/// Whether a command is that program, without any of those words.
fn is_program(command: &[u8], name: &[u8], without: &[&[u8]]) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let path = words.next().unwrap_or_default();
    path.rsplit(|it| *it == b'/').next() == Some(name) && !words.any(|it| without.contains(&it))
}

struct Look<'a> {
    host: &'a Host,
    wanted: &'a Config,
    applied: Option<&'a Applied>,
    records: &'a [Record],
    changes: Vec<Finding>,
    is_refused: bool,
}

impl<'a> Look<'a> {
    fn add(&mut self, subject: impl Into<String>, what: String, evidence: impl Into<String>) {
        let change = Finding::of_machine(subject, what, evidence, "");
        self.changes.push(change);
    }

    fn ours(&self, group: &str) -> Vec<&'a Record> {
        let records = self.records.iter();
        records.filter(|record| record.group == group).collect()
    }

    /// What brings about what is asked for: asked of the plan, and of the room for what is
    /// swapped out.
    fn way(&self, plan: &Plan, take_over: Option<&Way>) -> Way {
        let Some(why) = refusal(self.host, plan) else {
            return Way::Up;
        };
        let errors = plan.problems.iter();
        let mut errors = errors.filter(|it| it.severity == Severity::Critical);
        match take_over {
            Some(way) if errors.any(is_of_another) => way.clone(),
            _ => Way::Refused(Some(why)),
        }
    }

    fn taking_over(&self, state: Option<&State>) -> Way {
        let (not_planned, plan) = Plan::look(self.host, self.wanted, state, true);
        let Some(plan) = plan.ok().filter(|_| not_planned.is_empty()) else {
            return Way::Refused(None);
        };
        match refusal(self.host, &plan) {
            None => Way::TakeOver(others_of(&plan)),
            Some(why) => Way::Refused(Some(format!("with --take-over, {why}"))),
        }
    }

    fn not_planned(&mut self, group: &str, err: &Error) {
        let is_set_up = !self.ours(group).is_empty();
        // Who may not look cannot tell what has become of it.
        match (is_set_up, err.is_denied()) {
            (true, true) => {}
            (_, true) => self.not_set_up(group, None),
            (_, false) => {
                self.is_refused = true;
                self.not_set_up(group, Some(err.to_string()));
            }
        }
    }

    fn not_set_up(&mut self, group: &str, why: Option<String>) {
        if let Some(why) = why.as_ref().filter(|_| self.stands(group)) {
            let what = "it is set up, and not as it is asked for, which cannot be here".to_owned();
            self.add(self.subject(group), what, why.as_str());
            return;
        }
        let why = why.unwrap_or_else(|| match self.applied {
            Some(_) => "the last zmeld up did not set it up".to_owned(),
            None => "zmeld has set nothing up since the machine booted".to_owned(),
        });
        let what = "it is asked for, and not set up".to_owned();
        self.add(tier_of(group), what, why);
    }

    fn compare(&mut self, plan: &Plan) {
        for group in &plan.groups {
            let name = &group.name;
            let mut removed = plan.removed.iter();
            let is_removed = removed.any(|&index| self.records[index].group == *name);
            if is_removed || group.steps.iter().any(|it| !it.done) {
                self.group(plan, group);
            }
        }
        let mut gone: Vec<&str> = Vec::new();
        for &index in &plan.removed {
            let group = self.records[index].group.as_str();
            let is_planned = plan.groups.iter().any(|it| it.name == group);
            if !is_planned && !gone.contains(&group) {
                gone.push(group);
            }
        }
        for group in gone {
            self.not_asked_for(group);
        }
    }

    /// A group of which a step is not in place.
    fn group(&mut self, plan: &Plan, group: &Group) {
        let name = &group.name;
        let ours = self.ours(name);
        // Somebody else may have set a value that the plan makes fit.
        let is_open = |it: &&Planned| !it.done && !self.is_left_out(&it.step);
        let open: Vec<&Planned> = group.steps.iter().filter(is_open).collect();
        if ours.is_empty() && Group::is_tier(name) {
            if !open.is_empty() {
                self.not_set_up(name, None);
            }
            return;
        }
        if let Some(why) = self.gone(name) {
            let what = "it was set up and is not swapped to any more".to_owned();
            self.add(tier_of(name), what, why);
            return;
        }
        let told = self.changes.len();
        // What a device that is made anew has again is not told.
        let removed = plan.removed.iter().map(|&index| &self.records[index]);
        let removed: Vec<&Record> = removed.filter(|it| it.group == *name).collect();
        let is_anew = removed.iter().any(|it| !it.step.is_live());
        let is_remade = |step: &Step| is_anew && removed.iter().any(|it| it.step == *step);
        let (remade, changed): (Vec<&Planned>, Vec<&Planned>) =
            open.iter().partition(|it| is_remade(&it.step));
        for planned in changed {
            self.would(name, &planned.step);
        }
        for record in ours {
            let is_planned = |it: &Planned| it.step.sets() == record.step.sets();
            if !group.steps.iter().any(is_planned) {
                self.would_take_back(record);
            }
        }
        if told == self.changes.len() && !remade.is_empty() {
            let steps: Vec<String> = remade.iter().map(|it| it.step.words()).collect();
            let what = "zmeld up would make it anew".to_owned();
            self.add(self.subject(name), what, steps.join(", "));
        }
    }

    /// A value that the plan makes fit, where the configuration leaves it out.
    fn is_left_out(&self, step: &Step) -> bool {
        let is_read_ahead =
            matches!(step, Step::SetValue(set) if set.path.ends_with("vm/page-cluster"));
        is_read_ahead && self.wanted.tunables.page_cluster.is_none()
    }

    fn value(&self, path: &str) -> Option<String> {
        self.host.read_optional(path).ok().flatten()
    }

    /// Why a tier's area is not there any more, where it was.
    fn gone(&self, group: &str) -> Option<String> {
        self.applied?.tier(tier_of(group))?.lost.clone()
    }

    /// Whether a tier is set up, and still there.
    fn stands(&self, group: &str) -> bool {
        !self.ours(group).is_empty() && self.gone(group).is_none()
    }

    fn subject(&self, group: &str) -> String {
        let device = self.device(group).map(str::to_owned);
        device.unwrap_or_else(|| tier_of(group).to_owned())
    }

    fn device(&self, group: &str) -> Option<&'a str> {
        let tier = self.applied?.tier(tier_of(group))?;
        tier.device.as_deref()
    }

    fn would(&mut self, group: &str, step: &Step) {
        let is = match step {
            Step::SetValue(set) => self.value(&set.path),
            Step::SetAttribute(set) => self
                .device(group)
                .and_then(|device| set.in_effect(self.host, device)),
            _ => None,
        };
        // Two sizes may round alike.
        let words = match &is {
            Some(is) if step.words().ends_with(is) => step.describe(),
            _ => step.words(),
        };
        let what = format!("zmeld up would {words}");
        let evidence = is.map(|is| format!("in effect {is}")).unwrap_or_default();
        self.add(self.subject_of(group, step), what, evidence);
    }

    /// What was done, and nobody asks for any more.
    fn would_take_back(&mut self, record: &Record) {
        if let Step::SetValue(set) = &record.step {
            // Measured anew, it may be the same.
            let is_measured = set.path.ends_with("vm/swappiness")
                && self.wanted.tunables.swappiness == Some(Swappiness::Auto);
            let now = self.value(&set.path);
            // What somebody else changed is left, and what was so before stays.
            if is_measured || now.as_ref() != Some(&set.value) || now == record.before {
                return;
            }
        }
        let group = record.group.as_str();
        let what = format!("zmeld up would take back: {}", record.step.words());
        let evidence = "an earlier zmeld up did that";
        self.add(self.subject_of(group, &record.step), what, evidence);
    }

    /// The tunable, zswap or the device that a step is about.
    fn subject_of(&self, group: &str, step: &Step) -> String {
        match step {
            Step::SetValue(set) => set.subject(),
            _ => self.subject(group),
        }
    }

    /// A group of earlier runs that is not planned.
    fn not_asked_for(&mut self, group: &str) {
        if Group::is_tier(group) {
            let what = "it is set up, and not asked for any more".to_owned();
            let subject = tier_of(group);
            let evidence = format!("zmeld up set it up as {}", self.subject(group));
            self.add(subject, what, evidence);
            return;
        }
        for record in self.ours(group) {
            self.would_take_back(record);
        }
    }
}

/// A tier's name, or that of another part of the plan.
fn tier_of(group: &str) -> &str {
    group.strip_prefix("tier.").unwrap_or(group)
}
