//! What a machine has against a configuration, for who checks it and sets nothing up.

use crate::error::{Error, ErrorKind};
use crate::event::Event;
use crate::execute::may_go_up;
use crate::journal::State;
use zmeld_config::{Config, GroupPattern, Kind, Mechanism, Problem, ReclaimRule, Severity, Trap};
use zmeld_guard as guard;
use zmeld_linux::groups::{outlook, Outlook};
use zmeld_linux::Host;
use zmeld_observe::machine::Machine;
use zmeld_observe::DamonReclaim;
use zmeld_watch::reclaim;

use super::Plan;

/// What `zmeld up` would refuse on that machine, and what the plan would warn of,
/// beside what the configuration shows by itself. What only root may look at is left
/// out.
pub fn against(
    host: &Host,
    machine: &Machine,
    config: &Config,
    state: Option<&State>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
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
    let (not_planned, plan) = Plan::look(host, config, state, false);
    let is_whole = not_planned.is_empty();
    // The rest is looked at all the same.
    let seen = not_planned.into_iter().filter(|it| !is_denied(&it.1));
    problems.extend(seen.map(|(group, err)| refusal(group, &err)));
    match plan {
        Ok(plan) => {
            let of_room = is_whole.then(|| room_for(host, &plan));
            let of_room = of_room.into_iter().flatten();
            let of_room = of_room.filter(|it| it.severity == Severity::Error);
            problems.extend(of_room.map(refused));
            problems.extend(plan.problems.into_iter().filter(is_new).map(refused));
        }
        // What no tier is to blame for: a tunable that the kernel has not got.
        Err(err) => {
            if !is_denied(&err) {
                problems.push(refusal("tunables".to_owned(), &err));
            }
            problems.extend(machine.kept_free(config).map(refused));
        }
    }
    of_rules(host, config, &mut problems);
    problems
}

/// What the switching off of a plan that would be carried out meets: an error is what
/// `zmeld up` refuses for it.
pub fn room_for(host: &Host, plan: &Plan) -> Vec<Problem> {
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
            problems.push(Problem::new(Severity::Error, "", of_up(&err)))
        }
        Err((_, err)) => problems.push(mind(
            "",
            format!("whether what is swapped out fits back cannot be told: {err}"),
        )),
    }
    problems
}

/// What is refused, for who did not call `zmeld up`: whose option it is.
pub(crate) fn of_up(err: &Error) -> String {
    err.to_string().replace("say --force", "zmeld up --force")
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
    Problem::new(Severity::Error, key, format!("{err}; {REFUSED}"))
}

/// What the machine has against the rules about groups.
fn of_rules(host: &Host, config: &Config, problems: &mut Vec<Problem>) {
    let is_accepted = config.accept.contains(&Trap::UnusedRule);
    if let Some(rule) = &config.watch.reclaim {
        match lacks_for_reclaim(host, config) {
            Some(problem) => problems.push(problem),
            None if is_accepted => {}
            None => problems.extend(of_reclaim(host, rule)),
        }
    }
    if config.watch.reclaim.is_some() && !config.accept.contains(&Trap::TwoReclaimers) {
        let both = DamonReclaim::read(host).into_iter().map(|damon| {
            mind(
                "watch.reclaim",
                format!(
                    "{} of DAMON reclaims memory ahead of time, too; {}",
                    damon.name,
                    damon.way_out()
                ),
            )
            .of(Trap::TwoReclaimers)
        });
        problems.extend(both);
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
    let gaps = guarding(host, config).map(|found| found.gaps);
    let mut gaps = gaps.unwrap_or_default();
    if !is_accepted {
        let never: Vec<_> = rule
            .end
            .iter()
            .filter(|it| guard::is_never_ended(it))
            .collect();
        if !never.is_empty() && never.len() == rule.end.len() {
            // That is why.
            gaps.retain(|gap| gap.key != GUARD.key);
        }
        problems.extend(never.into_iter().map(|pattern| {
            mind(
                GUARD.key,
                format!(
                    "{pattern} is never ended: it is needed to get at the machine; remove it from \
                     end"
                ),
            )
            .of(Trap::UnusedRule)
        }));
    }
    problems.extend(gaps.iter().map(Gap::problem));
}

/// What the kernel lacks for `[watch.reclaim]`, where there is that rule.
pub fn lacks_for_reclaim(host: &Host, config: &Config) -> Option<Problem> {
    let rule = config.watch.reclaim.as_ref()?;
    let hierarchy = match reclaim::hierarchy(host) {
        Err(err) => return Some(mind("watch.reclaim", err.to_string())),
        Ok(hierarchy) => hierarchy,
    };
    let why = match rule.mechanism {
        _ if config.accept.contains(&Trap::UnusedRule) => None,
        Mechanism::LruGen => {
            reclaim::no_generations(host).map(|why| format!("{why}; or write mechanism = \"auto\""))
        }
        _ => reclaim::no_mechanism(host, &hierarchy).map(str::to_owned),
    };
    Some(
        mind(
            "watch.reclaim.mechanism",
            format!("nothing can be reclaimed: {}", why?),
        )
        .of(Trap::UnusedRule),
    )
}

/// Whom a rule for reclaim names in vain.
fn of_reclaim(host: &Host, rule: &ReclaimRule) -> Vec<Problem> {
    let found = outlook(host, reclaim::selection(rule)).unwrap_or_default();
    let gaps = RECLAIM.gaps(&rule.groups, &found);
    gaps.iter().map(Gap::problem).collect()
}

/// What a guard's rule comes to on a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guarding {
    /// The groups that it may end, each with what is below it.
    pub groups: Vec<String>,
    /// What is in vain in it; nothing where that is meant.
    pub gaps: Vec<Gap>,
}

/// What the guard's rule names and the machine has not got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The key.
    pub key: &'static str,
    /// What is not there.
    pub why: String,
    /// What comes of it.
    pub so: &'static str,
    /// It is the form of names (`*`), of which there may be some at another time.
    pub is_form: bool,
}

impl Gap {
    fn of(key: &'static str, pattern: &str, so: &'static str) -> Gap {
        Gap {
            key,
            why: format!("no control group is called {pattern} here now"),
            so,
            is_form: pattern.contains('*'),
        }
    }

    /// The same as a check says it.
    pub fn problem(&self) -> Problem {
        let (severity, trap) = match self.is_form {
            true => (Severity::Notice, None),
            false => (Severity::Warning, Some(Trap::UnusedRule)),
        };
        Problem {
            severity,
            trap,
            ..mind(
                self.key,
                format!(
                    "{}, so that {}; systemd-cgls lists the groups",
                    self.why, self.so
                ),
            )
        }
    }
}

/// What the guard's rule comes to; none where there is none, or nobody can tell.
pub fn guarding(host: &Host, config: &Config) -> Option<Guarding> {
    let rule = config.watch.guard.as_ref()?;
    let found = guard::outlook(host, rule)?;
    let gaps = match config.accept.contains(&Trap::UnusedRule) {
        true => Vec::new(),
        false => GUARD.gaps(&rule.end, &found),
    };
    let groups = found.groups;
    Some(Guarding { groups, gaps })
}

/// What comes of names that no group has, in a rule about groups.
struct Names {
    /// The key of those that it is for.
    key: &'static str,
    /// What comes of one of them,
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
    /// What is in vain in a rule for `named`.
    fn gaps(&self, named: &[GroupPattern], found: &Outlook) -> Vec<Gap> {
        let is_named = |pattern: &&String| named.iter().any(|it| it.to_string() == **pattern);
        let (missing, protections): (Vec<_>, Vec<_>) = found.unmatched.iter().partition(is_named);
        let protections = protections.into_iter();
        let mut gaps: Vec<Gap> = protections
            .map(|it| Gap::of(self.protect, it, "it protects nothing"))
            .collect();
        if named.is_empty() || found.is_for_root || !found.groups.is_empty() {
            let missing = missing.into_iter();
            gaps.extend(missing.map(|it| Gap::of(self.key, it, self.so)));
            return gaps;
        }
        let missing: Vec<&str> = missing.into_iter().map(String::as_str).collect();
        let why = match missing.is_empty() {
            true => "all that it names is protected".to_owned(),
            false => format!("no control group is called {} here now", missing.join(", ")),
        };
        gaps.push(Gap {
            key: self.key,
            why,
            so: self.so_none,
            is_form: false,
        });
        gaps
    }
}

fn mind(key: &str, what: String) -> Problem {
    Problem::new(Severity::Warning, key, what)
}

fn inner(err: &Error) -> &Error {
    match err {
        Error::Step { source, .. } => inner(source),
        err => err,
    }
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
        Some(Trap::ReadAhead | Trap::Swappiness) => true,
        _ => false,
    }
}
