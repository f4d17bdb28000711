//! What a machine has against a configuration, for who checks it and sets nothing up.

use crate::config::{Config, Kind, Problem, Severity, Trap};
use crate::error::Error;
use crate::journal::State;
use crate::machine::Machine;
use crate::watch::targets::unmatched;
use crate::watch::{guard, reclaim};
use zmeld_linux::Host;

use super::{Group, Options, Plan};

/// What `zmeld up` would refuse on that machine, and what the plan would warn of,
/// beside what the configuration shows by itself. What only root may look at is left
/// out.
pub fn against(
    host: &Host,
    machine: &Machine,
    config: &Config,
    state: Option<&State>,
) -> Vec<Problem> {
    let mut problems = machine.lacks(config);
    let of_codec = !problems.is_empty();
    let by_file = config.check();
    let is_new = |found: &Problem| {
        let is_same = |said: &Problem| match found.trap {
            Some(_) => said.trap == found.trap && said.key == found.key,
            None => said == found,
        };
        // Nothing is measured for a check.
        let is_unmeasured = found.trap.is_none() && found.key == "tunables.swappiness";
        let is_error = found.severity == Severity::Error;
        is_error || !is_unmeasured && !by_file.iter().any(is_same)
    };
    let mut names: Vec<String> = config.tiers.iter().map(|it| it.name.to_string()).collect();
    loop {
        let options = Options {
            only: (names.len() < config.tiers.len()).then(|| names.clone()),
            ..Options::default()
        };
        match Plan::new(host, config, state, &options) {
            Ok(plan) => {
                problems.extend(plan.problems.into_iter().filter(is_new).map(refused));
                break;
            }
            // The rest is looked at all the same.
            Err(Error::Planned { group, source }) => {
                names.retain(|name| Group::of_tier(name) != group);
                let is_said = of_codec && is_about_codec(&source);
                if !is_said && !is_denied(&source) {
                    problems.push(refusal(group, &source));
                }
            }
            // What no tier is to blame for: a tunable that the kernel has not got.
            Err(err) => {
                if !is_denied(&err) {
                    problems.push(refusal("tunables".to_owned(), &err));
                }
                problems.extend(machine.kept_free(config).map(refused));
                break;
            }
        }
    }
    of_rules(host, config, &mut problems);
    problems
}

/// An error of the machine's alone says who refuses it; that of a trap has its way out.
fn refused(problem: Problem) -> Problem {
    match (problem.severity, problem.trap) {
        (Severity::Error, None) => Problem {
            what: format!("{}; {REFUSED}", problem.what),
            ..problem
        },
        _ => problem,
    }
}

const REFUSED: &str = "zmeld up refuses it here";

fn refusal(key: String, err: &Error) -> Problem {
    Problem {
        place: None,
        key,
        what: format!("{err}; {REFUSED}"),
        severity: Severity::Error,
        trap: None,
    }
}

/// What the machine has against the rules about groups.
fn of_rules(host: &Host, config: &Config, problems: &mut Vec<Problem>) {
    if let Some(rule) = &config.watch.reclaim {
        match reclaim::hierarchy(host) {
            Err(err) => problems.push(mind("watch.reclaim", err.to_string())),
            Ok(_) => {
                let unmatched = unmatched(host, reclaim::selection(rule)).into_iter();
                problems.extend(unmatched.map(|it| in_vain("watch.reclaim", &it, OF_RECLAIM)));
            }
        }
    }
    let Some(rule) = &config.watch.guard else {
        return;
    };
    // Without groups to end it makes room, for which it needs none.
    if let Err(err) = guard::hierarchy(host) {
        if !rule.end.is_empty() {
            problems.push(mind("watch.guard.end", err.to_string()));
        }
        return;
    }
    let Some(found) = guard::outlook(host, rule) else {
        return;
    };
    let is_of_end = |pattern: &String| rule.end.iter().any(|it| it.to_string() == *pattern);
    let (of_end, protections): (Vec<_>, Vec<_>) = found.unmatched.into_iter().partition(is_of_end);
    let protections = protections.iter();
    problems.extend(protections.map(|it| in_vain("watch.guard.protect", it, OF_PROTECT)));
    let is_accepted = config.accept.contains(&Trap::UnusedRule);
    if rule.end.is_empty() || found.can_end || is_accepted {
        let of_end = of_end.iter();
        problems.extend(of_end.map(|it| in_vain("watch.guard.end", it, OF_END)));
        return;
    }
    let what = match of_end.is_empty() {
        true => "all that it names is protected".to_owned(),
        false => format!("no control group is called {} here now", of_end.join(", ")),
    };
    problems.push(Problem {
        trap: Some(Trap::UnusedRule),
        ..mind(
            "watch.guard.end",
            format!("{what}, so that the guard could end nothing; systemd-cgls lists the groups"),
        )
    });
}

/// What comes of a pattern that names no group.
const OF_RECLAIM: &str = "so that the rule is not for it, and it protects nothing";
const OF_END: &str = "so that the guard cannot end it";
const OF_PROTECT: &str = "so that it protects nothing";

fn in_vain(key: &str, pattern: &str, so: &str) -> Problem {
    mind(
        key,
        format!("no control group is called {pattern} here now, {so}; systemd-cgls lists them"),
    )
}

fn mind(key: &str, what: String) -> Problem {
    Problem {
        place: None,
        key: key.to_owned(),
        what,
        severity: Severity::Warning,
        trap: None,
    }
}

fn inner(err: &Error) -> &Error {
    match err {
        Error::Planned { source, .. } | Error::Step { source, .. } => inner(source),
        err => err,
    }
}

fn is_about_codec(err: &Error) -> bool {
    matches!(inner(err), Error::NoCodec { .. })
}

/// Whether this user may not look, or no command was to be run for it.
pub(crate) fn is_denied(err: &Error) -> bool {
    inner(err).refused_with() == Some(std::io::ErrorKind::PermissionDenied)
}

/// Whether what a configuration shows by itself is not so on that machine: it has the
/// disk swap that the file does not speak of.
pub fn is_disproved(machine: &Machine, config: &Config, problem: &Problem) -> bool {
    if !machine.swaps.iter().any(|swap| !swap.is_in_ram()) {
        return false;
    }
    let is_zswap = |key: &str| {
        let name = key.strip_prefix("tier.").and_then(|name| config.tier(name));
        name.is_some_and(|tier| matches!(tier.kind, Kind::Zswap(_)))
    };
    match problem.trap {
        Some(Trap::UnusedRule) => is_zswap(&problem.key),
        Some(Trap::ReadAhead) => true,
        _ => false,
    }
}
