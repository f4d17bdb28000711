//! What a machine has against a configuration, for who checks it and sets nothing up.

use crate::config::{Config, Kind, Problem, Severity, Trap};
use crate::error::Error;
use crate::journal::State;
use crate::machine::Machine;
use crate::watch::targets::unmatched;
use crate::watch::{guard, reclaim};
use zmeld_linux::Host;

use super::{Options, Plan};

/// What `zmeld up` would refuse on that machine, and what the plan would warn of,
/// beside what the configuration shows by itself. What only root may look at is left
/// out.
///
pub fn against(
    host: &Host,
    machine: &Machine,
    config: &Config,
    state: Option<&State>,
) -> Vec<Problem> {
    let mut problems = machine.lacks(config);
    let of_codec = problems.len();
    let by_machine = config.check();
    match Plan::new(host, config, state, &Options::default()) {
        Ok(plan) => {
            let of_machine = plan.problems.into_iter().filter(|found| {
                let is_said = |said: &Problem| said.trap == found.trap && said.key == found.key;
                let is_known = by_machine.iter().any(is_said) && found.severity != Severity::Error;
                found.trap.is_some() && !is_known
            });
            problems.extend(of_machine);
        }
        Err(err) if is_about_codec(&err) && of_codec > 0 => {}
        Err(err) if is_denied(&err) => {}
        Err(err) => {
            let (key, what) = match err {
                Error::Planned { group, source } => (group, source.to_string()),
                err => (String::new(), err.to_string()),
            };
            problems.push(Problem {
                place: None,
                key,
                what: format!("{what}; zmeld up refuses it here"),
                severity: Severity::Error,
                trap: None,
            });
        }
    }
    if let Some(rule) = &config.watch.reclaim {
        let unmatched = unmatched(host, reclaim::selection(rule)).into_iter();
        problems.extend(unmatched.map(|pattern| in_vain("watch.reclaim", &pattern)));
    }
    if let Some(rule) = &config.watch.guard {
        // What may be ended need not run yet; a protection that is mistyped protects nothing.
        let unmatched = unmatched(host, guard::selection(rule, &rule.protect)).into_iter();
        let is_of_end = |pattern: &String| rule.end.iter().any(|it| it.to_string() == *pattern);
        let protections = unmatched.filter(|pattern| !is_of_end(pattern));
        problems.extend(protections.map(|pattern| in_vain("watch.guard", &pattern)));
    }
    problems
}

/// A protection that is mistyped protects nothing.
fn in_vain(key: &str, pattern: &str) -> Problem {
    Problem {
        place: None,
        key: key.to_owned(),
        what: format!(
            "no control group is called {pattern} here now, so that the rule is not for it, and \
             it protects nothing; systemd-cgls lists them"
        ),
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
