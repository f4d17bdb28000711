//! The loads of the study's figures.

use serde::Serialize;

/// One point of the study: a load. Shares are in percent, so that points can be compared exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema)]
pub struct StudyPoint {
    /// Processes.
    pub processes: u32,
    /// Mean run time in milliseconds.
    pub run_time_ms: u32,
    /// Size in KB.
    pub size_kb: u32,
    /// Share of run time in memory accesses, percent.
    pub access_percent: u32,
    /// Share of accesses to places accessed before, percent.
    pub reuse_percent: u32,
}

const BASE: StudyPoint = StudyPoint {
    processes: 50,
    run_time_ms: 500,
    size_kb: 50,
    access_percent: 60,
    reuse_percent: 40,
};

pub(super) const fn at_run_time(run_time_ms: u32) -> StudyPoint {
    StudyPoint {
        run_time_ms,
        ..BASE
    }
}

pub(super) const fn at_size(size_kb: u32) -> StudyPoint {
    StudyPoint {
        run_time_ms: 10_000,
        size_kb,
        ..BASE
    }
}

pub(super) const fn at_load(processes: u32) -> StudyPoint {
    StudyPoint { processes, ..BASE }
}

pub(super) const fn at_shares(
    processes: u32,
    access_percent: u32,
    reuse_percent: u32,
) -> StudyPoint {
    StudyPoint {
        processes,
        access_percent,
        reuse_percent,
        ..BASE
    }
}

/// The run times of the first figure, in milliseconds.
pub const RUN_TIMES_MS: [u32; 17] = [
    500, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000, 11_000, 12_000, 13_000,
    14_000, 15_000, 100_000,
];
/// The sizes of the second figure, in KB.
pub const SIZES_KB: [u32; 6] = [50, 100, 200, 300, 400, 500];
/// The loads of the third figure, in processes.
pub const LOADS: [u32; 12] = [10, 20, 30, 40, 60, 100, 150, 200, 300, 400, 600, 750];
/// Access shares, in percent.
pub const ACCESS_PERCENT: [u32; 4] = [20, 40, 60, 80];
/// Reuse shares, in percent.
pub const REUSE_PERCENT: [u32; 3] = [20, 40, 60];

impl StudyPoint {
    /// Scenario settings of this point. A run time and a size that are drawn keep their shape.
    pub(super) fn settings(&self) -> Vec<(String, toml::Value)> {
        let float = |value: u32| toml::Value::Float(f64::from(value));
        let share = |percent: u32| toml::Value::Float(f64::from(percent) / 100.0);
        vec![
            (
                "workload.processes".into(),
                toml::Value::Integer(i64::from(self.processes)),
            ),
            ("workload.run_time_ms.mean".into(), float(self.run_time_ms)),
            ("workload.size_kb".into(), float(self.size_kb)),
            ("workload.access_share".into(), share(self.access_percent)),
            ("workload.reuse_share".into(), share(self.reuse_percent)),
        ]
    }
}

/// Every point of every figure, each once.
pub fn points() -> Vec<StudyPoint> {
    let mut points: Vec<StudyPoint> = Vec::new();
    points.extend(RUN_TIMES_MS.map(at_run_time));
    points.extend(SIZES_KB.map(at_size));
    for processes in [200, 400] {
        for access in ACCESS_PERCENT {
            points.extend(REUSE_PERCENT.map(|reuse| at_shares(processes, access, reuse)));
        }
    }
    points.extend(LOADS.map(at_load));
    let mut known = std::collections::HashSet::new();
    points.retain(|point| known.insert(*point));
    points
}
