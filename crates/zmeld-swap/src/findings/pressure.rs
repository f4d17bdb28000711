//! How hard the machine is at it, and the settings that decide about that.

use zmeld_report::units::count;

use super::{Found, View};

/// Percent of the last minute in which some task waited for memory.
const SOME_HIGH_PERCENT: f64 = 20.0;
/// Percent of the last minute in which all did.
const FULL_HIGH_PERCENT: f64 = 5.0;
/// Below this swappiness, compressed RAM is used too late.
const SWAPPINESS_LOW: u64 = 60;
/// Above this swappiness, a spinning disk is used too soon.
const SWAPPINESS_HIGH_FOR_DISK: u64 = 60;

/// Processes were killed for want of memory.
pub(super) fn oom_kills(view: &View) -> Vec<Found> {
    let kills = view.now.activity.oom_kills.unwrap_or(0);
    if kills == 0 {
        return Vec::new();
    }
    vec![Found::new(
        "memory",
        "the kernel killed processes because there was no memory left",
        format!("oom_kill {} since boot", count(kills)),
        "dmesg | grep -i 'killed process' says which; zmeld scan says what compressed swap \
         would add",
    )]
}

/// Tasks wait for memory more than they should.
pub(super) fn high(view: &View) -> Vec<Found> {
    let Some(pressure) = view.now.pressure else {
        return Vec::new();
    };
    let (some, full) = (pressure.some.avg60_percent, pressure.full.avg60_percent);
    if some < SOME_HIGH_PERCENT && full < FULL_HIGH_PERCENT {
        return Vec::new();
    }
    vec![Found::new(
        "memory",
        "tasks wait for memory: the machine is short of it",
        format!("in the last minute some waited {some:.1} % of the time, all {full:.1} %"),
        "zmeld top shows which tier is busy; zmeld plan what would help",
    )]
}

/// Swappiness that does not fit the kind of swap.
pub(super) fn swappiness(view: &View) -> Vec<Found> {
    let Some(value) = view.now.tunables.swappiness else {
        return Vec::new();
    };
    let has_compressed = view.compressed().next().is_some();
    let spinning = view.disks().find(|disk| {
        let drive = disk.stand.layers.last();
        drive.is_some_and(|drive| drive.rotational)
    });
    // Swap in RAM reads random pages several times as fast as a file system on a
    // drive: with k times, 200 k / (k + 1).
    if has_compressed && spinning.is_none() && value < SWAPPINESS_LOW {
        return vec![Found::new(
            "vm.swappiness",
            "it is low for swap in RAM: caches are dropped, and read from disk again, before \
             cold pages are compressed",
            format!("vm.swappiness {value}; with swap k times as fast as files, 200 k/(k+1)"),
            "sysctl vm.swappiness=150",
        )];
    }
    match spinning {
        Some(disk) if !has_compressed && value > SWAPPINESS_HIGH_FOR_DISK => vec![Found::new(
            "vm.swappiness",
            "it is high for swap on a spinning disk, which reads random pages no faster than \
             files",
            format!(
                "vm.swappiness {value}; {} is on a spinning disk",
                disk.area.path
            ),
            "sysctl vm.swappiness=60",
        )],
        _ => Vec::new(),
    }
}

/// Reading neighbours ahead pays on disks; from RAM each page costs decompressing.
pub(super) fn read_ahead(view: &View) -> Vec<Found> {
    let Some(value) = view.now.tunables.page_cluster.filter(|value| *value > 0) else {
        return Vec::new();
    };
    if view.compressed().next().is_none() || view.disks().next().is_some() {
        return Vec::new();
    }
    vec![Found::new(
        "vm.page-cluster",
        "pages are read ahead from swap in RAM: neighbours are decompressed that nobody asked \
         for",
        format!(
            "vm.page-cluster {value}: {} pages at once; all swap is in RAM",
            1u64 << value.min(20)
        ),
        "sysctl vm.page-cluster=0",
    )]
}
