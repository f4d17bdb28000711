//! How hard the machine is at it, and the settings that decide about that.

use zmeld_report::units::{bytes, count};

use super::{is_experiment, Finding, Severity, View};
use zmeld_linux::command::Invocation;
use zmeld_observe::{share, tunables, Group, Pressure};

/// Percent of the last minute in which some task waited for memory.
const SOME_HIGH_PERCENT: f64 = 20.0;
/// Percent of the last minute in which all did.
const FULL_HIGH_PERCENT: f64 = 5.0;
/// From this share of RAM on that can be had, the machine is not short of it.
const AVAILABLE_ENOUGH: f64 = 0.2;
/// From this share of its limit on, a group waits for its own memory.
const AT_LIMIT: f64 = 0.9;

/// Processes were killed lately because the machine had no memory left.
pub(super) fn oom_kills(view: &View) -> Vec<Finding> {
    let lately = &view.now.lately;
    let mut found = Vec::new();
    if lately.oom_kills > 0 {
        found.push(Finding::of_machine(
            "memory",
            "the kernel killed processes because the machine had no memory left",
            format!("{} {}", count(lately.oom_kills), lately.words()),
            "dmesg | grep -i 'killed process' says which; zmeld scan says what compressed \
             swap would add",
        ));
    }
    if lately.unattributed_oom_kills > 0 {
        let kills = Finding::of_machine(
            "memory",
            "the kernel killed processes: by the machine, or at limits of control groups that \
             are gone",
            format!(
                "{} {}",
                count(lately.unattributed_oom_kills),
                lately.words()
            ),
            "dmesg | grep -i oom-kill says which, and why (constraint=CONSTRAINT_MEMCG: a group)",
        );
        found.push(Finding {
            severity: Severity::Warning,
            ..kills
        });
    }
    found
}

/// Processes were killed lately at a control group's own limit.
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
                    "raise its memory.max (systemd: MemoryMax=) or its swap (MemorySwapMax=); {} \
                     shows what is in it",
                    Invocation::new("systemd-cgls").arg(path)
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

/// Tasks wait for memory more than they should: the machine's, or that of a control
/// group that is at its limit while the machine has memory.
pub(super) fn high(view: &View) -> Vec<Finding> {
    let mut found: Vec<Finding> = view.now.groups.iter().filter_map(group_waits).collect();
    let memory = &view.now.memory;
    let has_memory = share(memory.available_bytes, memory.total_bytes) >= AVAILABLE_ENOUGH;
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
    } else if found.is_empty() && !view.now.groups.iter().any(|it| is_experiment(&it.path)) {
        // No group says that its own do: those of version 1 do not tell, and one may be gone.
        found.push(Finding::of_machine(
            "memory",
            "tasks wait for memory, and the machine is not short of it: a control group was at \
             its own limit",
            format!(
                "{}; {} of {} can be had",
                waited(&pressure),
                bytes(memory.available_bytes),
                bytes(memory.total_bytes)
            ),
            "raise its limit (systemd: MemoryMax=); systemd-cgtop --order=memory shows what \
             groups use",
        ));
    }
    found
}

fn group_waits(group: &Group) -> Option<Finding> {
    let pressure = group.pressure.filter(is_high)?;
    if is_experiment(&group.path) {
        return None;
    }
    let limit = group.memory_max_bytes?;
    let used = group.memory_bytes?;
    (share(used, limit) >= AT_LIMIT).then(|| {
        Finding::of_machine(
            format!("cgroup {}", group.path),
            "its tasks wait for memory: it is at its own limit",
            format!(
                "{}; it uses {} of {}",
                waited(&pressure),
                bytes(used),
                bytes(limit)
            ),
            "raise its memory.max (systemd: MemoryMax=), or give it less to do",
        )
    })
}

/// Swappiness that does not fit the kind of swap.
pub(super) fn swappiness(view: &View) -> Option<Finding> {
    tunables::swappiness(view.kinds(), view.now.tunables.swappiness?)
}

/// Reading neighbours ahead where all swap is in RAM.
pub(super) fn read_ahead(view: &View) -> Option<Finding> {
    let mut found = tunables::read_ahead(view.kinds(), view.now.tunables.page_cluster?)?;
    let mut own = view.compressed().filter(|(swap, _)| view.is_own(swap));
    if own.next().is_some() && view.wanted.tunables.page_cluster.is_none() {
        found = found.with(view.outstanding.remedy.clone());
    }
    Some(found)
}
