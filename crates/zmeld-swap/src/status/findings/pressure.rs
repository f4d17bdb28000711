//! How hard the machine is at it, and the settings that decide about that.

use std::path::Path;

use zmeld_config::advice::tunables;
use zmeld_report::units::{bytes, count};

use super::view::{is_experiment, View};
use crate::observe::{LimitedGroup, Pressure, Services};
use zmeld_config::{Finding, Remedy, Severity};
use zmeld_linux::command::Invocation;
use zmeld_linux::meminfo;

/// Percent of the last minute in which some task waited for memory.
const SOME_HIGH_PERCENT: f64 = 20.0;
/// Percent of the last minute in which all did.
const FULL_HIGH_PERCENT: f64 = 5.0;

/// The kernel killed processes lately because the machine had no memory left. Do: more or denser
/// swap.
pub(super) fn oom_kills(view: &View) -> Option<Finding> {
    killed(
        view,
        view.now.lately.oom_kills,
        "the kernel killed processes because the machine had no memory left",
        "dmesg | grep -i 'killed process' says which; zmeld scan says what compressed swap would \
         add",
    )
}

/// The kernel killed processes lately, for the machine or for a group that is gone; a notice: they
/// were killed since boot, at unknown times. Do: `dmesg` says which.
pub(super) fn unattributed_oom_kills(view: &View) -> Option<Finding> {
    let undated = view.now.lately.undated_oom_kills();
    if undated > 0 {
        let (kills, were) = (count(undated), if undated == 1 { " was" } else { "s were" });
        let found = Finding::of_machine(
            "memory",
            format!("{kills} program{were} killed for memory since boot, at unknown times"),
            match view.now.lately.experiment_kills_of_boot() {
                0 => String::new(),
                more => format!("{} more in experiments of zmeld bench", count(more)),
            },
            "dmesg | grep -i 'killed process' says when, as far back as its log goes; zmeld watch, \
             or root's zmeld status --check, notes the next ones",
        );
        return Some(Finding {
            severity: Severity::Notice,
            ..found
        });
    }
    killed(
        view,
        view.now.lately.unattributed_oom_kills,
        "the kernel killed processes, and it is not known whether the machine had no memory left \
         or a control group that is gone was at its limit",
        "dmesg | grep -i oom-kill says which, and why (constraint=CONSTRAINT_MEMCG: a group)",
    )
}

fn killed(view: &View, kills: u64, what: &str, remedy: &str) -> Option<Finding> {
    let counted = || format!("{} {}", count(kills), view.now.lately.words());
    (kills > 0).then(|| Finding::of_machine("memory", what, counted(), remedy))
}

/// The kernel killed processes lately because a control group was at its limit. Do: a higher limit.
pub(super) fn group_oom_kills(view: &View) -> Vec<Finding> {
    let lately = &view.now.lately;
    let kills = lately.group_oom_kills.iter();
    kills
        .filter(|(path, _)| !is_experiment(path))
        .map(|(path, kills)| {
            let group = view.now.groups.iter().find(|group| group.path == *path);
            let limit = group.and_then(|group| group.memory_max_bytes);
            Finding::of_machine(
                format!("cgroup {path}"),
                "the kernel killed processes at its limit, or at one below it; the machine was \
                 not out of memory",
                format!(
                    "{} {}; its own limit: {}",
                    count(*kills),
                    lately.words(),
                    limit.map_or("none".to_owned(), bytes)
                ),
                format!(
                    "{}; {} lists its programs",
                    view.raise_limit(path, false, limit),
                    programs_of(view, path)
                ),
            )
        })
        .collect()
}

fn is_high(pressure: &Pressure) -> bool {
    pressure.some.avg60_percent >= SOME_HIGH_PERCENT
        || pressure.full.avg60_percent >= FULL_HIGH_PERCENT
}

fn waited(pressure: &Pressure) -> String {
    let (some, full) = (pressure.some.avg60_percent, pressure.full.avg60_percent);
    format!("in the last minute some waited {some:.1} % of the time, all {full:.1} %")
}

/// In the last minute some task, of the machine or of a group at its limit, waited for memory 20 %
/// of the time, or all tasks 5 %. Do: `zmeld plan`; a higher limit.
pub(super) fn high(view: &View) -> Vec<Finding> {
    let waits = |group| group_waits(view, group);
    let mut found: Vec<Finding> = view.now.groups.iter().filter_map(waits).collect();
    let memory = &view.now.memory;
    let has_memory = meminfo::is_enough(memory.available_bytes, memory.total_bytes);
    let Some(pressure) = view.now.pressure.filter(is_high) else {
        return found;
    };
    if !has_memory {
        found.push(Finding::of_machine(
            "memory",
            "tasks wait for memory: the machine is short of it",
            waited(&pressure),
            "zmeld top shows which tier is busy; zmeld plan what would help",
        ));
        return found;
    }
    let mut groups = view.now.groups.iter();
    if !found.is_empty() || groups.any(|it| is_experiment(&it.path)) {
        return found;
    }
    // Those of version 1 do not tell whether their own tasks wait, and one may be gone.
    let groups = view.now.groups.iter();
    let silent = groups.filter(|it| it.pressure.is_none());
    let what = "it is at its own memory limit, and tasks wait";
    found.extend(silent.filter_map(|it| at_limit(view, it, what, &pressure)));
    if found.is_empty() {
        let facts = &view.now.facts;
        let list = match facts.services {
            Services::Systemd => "systemd-cgtop --order=memory shows what groups use".to_owned(),
            _ => facts.list_groups(),
        };
        let file = facts
            .groups
            .as_ref()
            .map(|(version, _)| version.limit_file());
        found.push(Finding::of_machine(
            "memory",
            "tasks wait at the limit of a control group; the machine is not short of memory",
            format!(
                "{}; {} of {} are available",
                waited(&pressure),
                bytes(memory.available_bytes),
                bytes(memory.total_bytes)
            ),
            match file {
                Some(file) => format!("raise its limit ({file}); {list}"),
                None => format!("raise its limit; {list}"),
            },
        ));
    }
    found
}

/// The command that lists a group's programs here.
fn programs_of(view: &View, path: &str) -> String {
    let facts = &view.now.facts;
    let file = facts.limit_file(path, false);
    let folder = file.as_deref().and_then(Path::parent);
    let list = folder.map(|it| Invocation::new("cat").arg(it.join("cgroup.procs")));
    match (facts.services, list) {
        (Services::Systemd, _) | (_, None) => Invocation::new("systemd-cgls").arg(path),
        (_, Some(list)) => list,
    }
    .to_string()
}

fn group_waits(view: &View, group: &LimitedGroup) -> Option<Finding> {
    let pressure = group.pressure.filter(is_high)?;
    at_limit(
        view,
        group,
        "its tasks wait at its own memory limit",
        &pressure,
    )
}

/// A group at its limit, where that much is waited.
fn at_limit(view: &View, group: &LimitedGroup, what: &str, pressure: &Pressure) -> Option<Finding> {
    if is_experiment(&group.path) || !group.is_at_limit(0) {
        return None;
    }
    Some(Finding::of_machine(
        format!("cgroup {}", group.path),
        what,
        format!(
            "{}; it uses {} of {}, and the machine has {} available",
            waited(pressure),
            bytes(group.memory_bytes?),
            bytes(group.memory_max_bytes?),
            bytes(view.now.memory.available_bytes)
        ),
        format!(
            "{}; or give it less to do",
            view.raise_limit(&group.path, false, group.memory_max_bytes)
        ),
    ))
}

/// It is out of [its bounds](setup.md#swappiness). Do: the value that the finding names, in the
/// file that sets it.
pub(super) fn swappiness(view: &View) -> Option<Finding> {
    let found = tunables::swappiness(view.kinds(), view.now.tunables.swappiness?)?;
    Some(tuned(view, found))
}

/// A tunable goes with the tiers: without any of zmeld's, the machine's own file sets it.
fn tuned(view: &View, found: tunables::Unfit) -> Finding {
    let (key, fits) = found.fits;
    let name = &found.finding.about;
    // Not each machine has sysctl(8).
    let now = format!("echo {fits} > /proc/sys/{}", name.replace('.', "/"));
    let remedy = match view.wanted.tiers.is_empty() {
        true => Remedy::run([now]).and(&format!(
            ", and {name} = {fits} in a file of /etc/sysctl.d for the next boots"
        )),
        false => view.set_up("tunables", &[(key, fits.to_string())]),
    };
    found.finding.clone().with(remedy)
}

/// `vm.page-cluster` above 0, all swap in RAM. Do: 0, in the file that sets it, else by `zmeld up`.
pub(super) fn read_ahead(view: &View) -> Option<Finding> {
    let found = tunables::read_ahead(view.kinds(), view.now.tunables.page_cluster?)?;
    let mut own = view.compressed().filter(|(swap, _)| view.is_own(swap));
    if own.next().is_some() && view.wanted.tunables.page_cluster.is_none() {
        return Some(found.finding.with(view.outstanding.remedy.clone()));
    }
    Some(tuned(view, found))
}
