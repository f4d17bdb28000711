//! Checks a configuration against a machine without setting anything up.

use crate::observe::DamonReclaim;
use crate::setup::event::Event;
use crate::setup::execute::may_go_up;
use crate::setup::journal::State;
use crate::setup::plan::{ram, Plan, PlanPart};
use crate::setup::{Error, ErrorKind};
use crate::watch::reclaim;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::unsupported::{self, kept_free};
use zmeld_config::{
    Config, Finding, FindingId, GroupPattern, GuardRule, Percent, ReclaimRule, Severity,
};
use zmeld_guard as guard;
use zmeld_linux::fstab::Fstab;
use zmeld_linux::groups::{outlook, NoGroups, Outlook};
use zmeld_linux::Host;
use zmeld_report::units::bytes;

/// Refusals and warnings of `zmeld up` on that machine, beside those that the configuration shows
/// by itself. Checks that need root are left out.
pub fn config_check(
    host: &Host,
    machine: &Machine,
    config: &Config,
    state: Option<&State>,
) -> Vec<Finding> {
    let mut problems = Vec::new();
    // Nothing is measured for a check.
    let is_measured = |it: &Finding| it.id.is_some() || it.about != "tunables.swappiness";
    let (not_planned, plan) = Plan::look(host, config, state);
    let is_whole = not_planned.is_empty();
    // The rest is looked at all the same.
    for (group, err) in not_planned {
        let first = (!err.is_unseen(host)).then(|| refusal(&group, &err));
        let mut tiers = config.in_ram();
        let tier = tiers.find(|(tier, _)| PlanPart::of_tier(tier.name.as_str()) == group);
        let lacking = tier.map(|(tier, device)| ram::not_offered(host, machine, tier, device));
        let lacking = lacking.and_then(Result::ok).unwrap_or_default();
        let lacking = lacking.iter().map(|err| refusal(&group, err));
        for refused in first.into_iter().chain(lacking) {
            // Several codecs are set by one attribute.
            if !problems.contains(&refused) {
                problems.push(refused);
            }
        }
    }
    match plan {
        Ok(plan) => {
            let of_room = is_whole.then(|| room_for(host, &plan));
            let of_room = of_room.into_iter().flatten();
            let of_room = of_room.filter(|it| it.severity == Severity::Critical);
            problems.extend(of_room.map(refused));
            problems.extend(plan.problems.into_iter().filter(is_measured).map(refused));
            problems.extend(plan.skipped.iter().map(|it| {
                let what = format!("{}; zmeld up leaves it out here", it.reason);
                Finding::new(Severity::Notice, &it.group, what)
            }));
        }
        // An error of no tier: a tunable that the kernel lacks.
        Err(err) => {
            if !err.is_unseen(host) {
                problems.push(refusal("tunables", &err));
            }
            problems.extend(kept_free(machine, config).map(refused));
        }
    }
    problems.extend(late(host, config));
    problems.extend(of_rules(host, config));
    problems.extend(out_of_reach(machine, config));
    problems
}

/// What tiers ask for and the kernel's zram lacks, by files alone: no device is opened.
pub fn not_offered(host: &Host, config: &Config) -> Vec<Finding> {
    let Ok(machine) = Machine::read(host) else {
        return Vec::new();
    };
    let tiers = config.in_ram();
    let refused =
        tiers.filter_map(|(tier, device)| ram::not_offered(host, &machine, tier, device).ok());
    // Several codecs are set by one attribute.
    let told: BTreeSet<String> = refused.flatten().map(|err| err.to_string()).collect();
    let told = told.into_iter();
    let told = told.map(|err| mind("", format!("zmeld up refuses it here: {err}")));
    let lacking = unsupported::lacks(&machine, config.in_ram());
    told.chain(
        lacking
            .into_iter()
            .filter(|it| it.about.ends_with(".codec")),
    )
    .collect()
}

/// Shares of the guard's rule that come to more on this machine than it ever goes by.
fn out_of_reach(machine: &Machine, config: &Config) -> Vec<Finding> {
    let Some(rule) = &config.watch.guard else {
        return Vec::new();
    };
    let usual = GuardRule::default();
    let shares = [
        (
            "end_below",
            rule.end_below,
            usual.end_below,
            guard::END_BELOW_MAX,
        ),
        (
            "room_below",
            rule.room_below,
            usual.room_below,
            guard::ROOM_BELOW_MAX,
        ),
    ];
    let found = shares
        .into_iter()
        .filter(|(_, share, usual, most)| share != usual && share.of(machine.ram_bytes) > *most);
    let notice = |(key, share, _, most): (&str, Percent, _, u64)| {
        let what = format!(
            "{share} of the machine's RAM is {}, and the guard goes by {} at most",
            bytes(share.of(machine.ram_bytes)),
            bytes(most)
        );
        Finding::new(Severity::Notice, format!("watch.guard.{key}"), what)
    };
    found.map(notice).collect()
}

/// Tiers that the boot does not wait for, though it is to: a file of theirs is not there yet.
fn late(host: &Host, config: &Config) -> Vec<Finding> {
    let fstab = Fstab::read(host.tree());
    let tiers = config.tiers.iter().filter(|tier| !tier.swap.optional);
    let late = tiers.filter_map(|tier| {
        let path = tier.kind.files().into_iter().find(|it| fstab.is_late(it))?;
        let what = format!(
            "{} is there only after swap is on at boot (a mount from the network or in RAM): the \
             boot does not wait for this tier; put the file elsewhere, or write optional = true",
            path.display()
        );
        Some(mind(&format!("tier.{}", tier.name), what))
    });
    late.collect()
}

/// Problems of switching areas off for a feasible plan: `zmeld up` refuses it for an error.
pub fn room_for(host: &Host, plan: &Plan) -> Vec<Finding> {
    if plan.refuse().is_err() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let found = may_go_up(host, plan, &mut |event| {
        if let Event::Note { text } = event {
            problems.push(mind("", text.to_owned()));
        }
    });
    match found.map_err(|err| (err.kind(), err)) {
        Ok(_) => {}
        Err((ErrorKind::Input, err)) => {
            problems.push(Finding::new(Severity::Critical, "", err.to_string()))
        }
        Err((_, err)) => problems.push(mind(
            "",
            format!("it is unknown whether swapped-out pages fit back: {err}"),
        )),
    }
    problems
}

/// An error of the machine's alone says who refuses it; that of a warning has its way out.
fn refused(problem: Finding) -> Finding {
    match (problem.severity, problem.id) {
        (Severity::Critical, None) => Finding {
            what: format!("{}; zmeld up refuses it here", problem.what),
            ..problem
        },
        _ => problem,
    }
}

fn refusal(group: &str, err: &Error) -> Finding {
    refused(Finding::new(
        Severity::Critical,
        err.key(group),
        err.to_string(),
    ))
}

/// Problems of the rules on this machine: groups and programs that it lacks.
pub fn of_rules(host: &Host, config: &Config) -> Vec<Finding> {
    let mut problems = Vec::new();
    let is_accepted = |id| config.accept.contains(&id);
    if let Some(rule) = &config.watch.reclaim {
        let lacks = reclaim::lacks(host);
        if lacks.is_none() && !is_accepted(FindingId::TwoReclaimers) {
            let both = DamonReclaim::read(host).into_iter().map(|damon| Finding {
                severity: Severity::Warning,
                ..damon.beside_reclaim()
            });
            problems.extend(both);
        }
        match lacks {
            _ if is_accepted(FindingId::UnusedRule) => {}
            Some(why) => {
                let what = format!("nothing can be reclaimed: {why}");
                problems.push(mind("watch.reclaim", what).of(FindingId::UnusedRule));
            }
            None => problems.extend(of_reclaim(host, rule)),
        }
    }
    problems.extend(guarding(host, config));
    let on_end = on_end(host, config).filter(|_| !is_accepted(FindingId::UnusedRule));
    problems.extend(on_end);
    problems
}

/// A program of `on_end` that nobody could run, as far as this user can see.
fn on_end(host: &Host, config: &Config) -> Option<Finding> {
    let program = config.watch.guard.as_ref()?.on_end.first()?;
    let why = match host.tree().metadata(Path::new(program)) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => {
            "there is no such program here; install it, or name another"
        }
        Err(_) => return None,
        Ok(found) if !found.is_file() => "it is no program; name one",
        Ok(found) if found.mode() & 0o001 == 0 => {
            "it runs as nobody, who may not execute it; chmod o+rx it, or name another"
        }
        Ok(_) => return None,
    };
    let problem = mind("watch.guard.on_end", format!("{program}: {why}"));
    Some(problem.of(FindingId::UnusedRule))
}

fn of_reclaim(host: &Host, rule: &ReclaimRule) -> Vec<Finding> {
    let found = outlook(host, reclaim::selection(rule));
    found.map_or(Vec::new(), |found| RECLAIM.gaps(&rule.groups, &found))
}

/// Names in a rule that no control group has, each by itself where there are groups. They are in
/// vain, unless they are forms of names (`*`), of which there may be some at another time.
fn in_vain(key: &str, names: &[&String], so: &str, no_groups: Option<NoGroups>) -> Vec<Finding> {
    let at_once = no_groups.map_or(1, |_| names.len().max(1));
    let found = names.chunks(at_once).map(|names| {
        let is_form = names.iter().all(|name| name.contains('*'));
        Finding {
            severity: match is_form {
                true => Severity::Notice,
                false => Severity::Warning,
            },
            id: (!is_form).then_some(FindingId::UnusedRule),
            ..no_group(key, names, so, no_groups)
        }
    });
    found.collect()
}

fn no_group(key: &str, names: &[&String], so: &str, no_groups: Option<NoGroups>) -> Finding {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    let why = match no_groups {
        _ if names.is_empty() => "all that it names is protected".to_owned(),
        Some(no_groups) => no_groups.why().to_owned(),
        None => format!("no control group is called {} here now", names.join(", ")),
    };
    let remedy = match no_groups {
        _ if names.is_empty() => "name a group that is not protected, or remove it",
        None => {
            "check the name (systemd-cgls lists the control groups that are there; a program is \
             none); one that comes later needs no change"
        }
        Some(no_groups) => no_groups.remedy(),
    };
    let found = Finding::of_machine(key, so, why, remedy);
    Finding {
        severity: Severity::Warning,
        ..found.of(FindingId::UnusedRule)
    }
}

/// Entries of the guard's rule without effect on that machine; none where that is accepted, or
/// unknown.
pub fn guarding(host: &Host, config: &Config) -> Vec<Finding> {
    let rule = config.watch.guard.as_ref();
    let rule = rule.filter(|_| !config.accept.contains(&FindingId::UnusedRule));
    let Some(rule) = rule else { return Vec::new() };
    let Some(found) = guard::outlook(host, rule) else {
        return Vec::new();
    };
    let mut gaps = GUARD.gaps(&rule.end, &found);
    let never = rule.end.iter().filter(|it| guard::is_never_ended(it));
    let never: Vec<_> = never.collect();
    if !never.is_empty() && never.len() == rule.end.len() {
        // That is why.
        gaps.retain(|gap| gap.about != GUARD.key);
    }
    let goes_by_users = found
        .no_groups
        .filter(|_| gaps.iter().all(|gap| gap.about != GUARD.key));
    if let Some(no_groups) = goes_by_users {
        let what = format!("{}: the guard goes by users", no_groups.why());
        gaps.push(Finding::new(Severity::Notice, "watch.guard", what));
    }
    gaps.extend(never.into_iter().map(|pattern| {
        let what = format!(
            "{pattern} is never ended: it is needed to get at the machine; remove it from end"
        );
        mind(GUARD.key, what).of(FindingId::UnusedRule)
    }));
    gaps
}

/// Messages for names in a rule that no group has.
struct Names {
    /// The key of those that it is for.
    key: &'static str,
    /// The effect of one of them,
    so: &'static str,
    /// and of all of them.
    so_none: &'static str,
    /// The key of those that it is not for.
    protect: &'static str,
}

const RECLAIM: Names = Names {
    key: "watch.reclaim.groups",
    so: "the rule is not for it",
    so_none: "nothing can be reclaimed",
    protect: "watch.reclaim.protect",
};
const GUARD: Names = Names {
    key: "watch.guard.end",
    so: "the guard cannot end it",
    so_none: "the guard could end nothing",
    protect: "watch.guard.protect",
};

impl Names {
    /// Entries in vain in a rule for `named`.
    fn gaps(&self, named: &[GroupPattern], found: &Outlook) -> Vec<Finding> {
        let is_named = |pattern: &&String| named.iter().any(|it| it.to_string() == **pattern);
        let (missing, protections): (Vec<_>, Vec<_>) = found.unmatched.iter().partition(is_named);
        let no_groups = found.no_groups;
        let mut gaps = in_vain(self.protect, &protections, "it protects nothing", no_groups);
        if named.is_empty() || found.is_for_root || !found.groups.is_empty() {
            gaps.extend(in_vain(self.key, &missing, self.so, no_groups));
        } else {
            gaps.push(no_group(self.key, &missing, self.so_none, no_groups));
        }
        gaps
    }
}

fn mind(key: &str, what: String) -> Finding {
    Finding::new(Severity::Warning, key, what)
}
