//! The published study of page migration (linux, full, on-demand on four nodes), reproduced: its figures and tables
//! as claims that are computed, compared and judged.
//!
//! Published values are quoted as they stand; nothing here is a result. The scenario with its free parameters is
//! `scenarios/study.toml`, and [`calibrate`] is how those were chosen.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::policy::PolicyName;
use crate::replicate::Replications;
use crate::scenario::{Scenario, ScenarioError, ScenarioText};
use crate::statistics::Interval;

/// The study's scenario.
pub const SCENARIO: &str = include_str!("../scenarios/study.toml");

/// The study's scenario as a source of variants.
///
/// # Errors
/// None that a test would not have found: the file is part of the program.
pub fn source() -> Result<ScenarioText, ScenarioError> {
    ScenarioText::new(SCENARIO.to_owned(), "study.toml".to_owned())
}

/// One point of the study: a load. Shares are in percent, so that points can be compared exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
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

const fn at_run_time(run_time_ms: u32) -> StudyPoint {
    StudyPoint {
        run_time_ms,
        ..BASE
    }
}

const fn at_size(size_kb: u32) -> StudyPoint {
    StudyPoint {
        run_time_ms: 10_000,
        size_kb,
        ..BASE
    }
}

const fn at_load(processes: u32) -> StudyPoint {
    StudyPoint { processes, ..BASE }
}

const fn at_shares(processes: u32, access_percent: u32, reuse_percent: u32) -> StudyPoint {
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
    /// What is set in the scenario for this point. A run time and a size that are drawn keep their shape.
    fn settings(&self) -> Vec<(String, toml::Value)> {
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

/// What of a point is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Time that on-demand saves over linux, percent.
    OnDemandGain,
    /// Time that full takes beyond linux's, percent.
    FullLoss,
}

/// How near is near enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tolerance {
    /// Percentage points.
    Points(f64),
    /// A fifth of the published value.
    Fifth,
}

impl Tolerance {
    /// The largest difference that agrees, in percentage points.
    pub fn of(self, published: f64) -> f64 {
        match self {
            Self::Points(points) => points,
            Self::Fifth => published.abs() / 5.0,
        }
    }
}

/// One published number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Claim {
    /// The figure or table it belongs to.
    pub figure: &'static str,
    /// The load.
    pub point: StudyPoint,
    /// What is compared.
    pub measure: Measure,
    /// The published value, percent.
    pub published: f64,
    /// How the text puts it, where it is less than a plain number.
    pub wording: &'static str,
    /// How near is near enough.
    pub tolerance: Tolerance,
}

const RUN_TIME: &str = "run time";
const SIZE: &str = "size";
const TABLE: &str = "table";
const LOAD: &str = "load";

const fn claim(
    figure: &'static str,
    point: StudyPoint,
    measure: Measure,
    published: f64,
    wording: &'static str,
) -> Claim {
    let tolerance = if published == 0.0 {
        Tolerance::Points(5.0)
    } else {
        Tolerance::Fifth
    };
    Claim {
        figure,
        point,
        measure,
        published,
        wording,
        tolerance,
    }
}

const fn cell(access_percent: u32, reuse_percent: u32, published: f64) -> Claim {
    Claim {
        figure: TABLE,
        point: at_shares(200, access_percent, reuse_percent),
        measure: Measure::OnDemandGain,
        published,
        wording: "",
        tolerance: Tolerance::Points(1.5),
    }
}

/// Every published number.
pub const CLAIMS: &[Claim] = &[
    claim(RUN_TIME, at_run_time(500), Measure::OnDemandGain, 10.8, ""),
    claim(
        RUN_TIME,
        at_run_time(3000),
        Measure::OnDemandGain,
        12.7,
        "the peak",
    ),
    claim(
        RUN_TIME,
        at_run_time(10_000),
        Measure::OnDemandGain,
        9.3,
        "in one place",
    ),
    claim(
        RUN_TIME,
        at_run_time(10_000),
        Measure::OnDemandGain,
        3.0,
        "for the same point in another place",
    ),
    claim(
        RUN_TIME,
        at_run_time(500),
        Measure::FullLoss,
        200.0,
        "almost 200",
    ),
    claim(RUN_TIME, at_run_time(1000), Measure::FullLoss, 146.0, ""),
    claim(RUN_TIME, at_run_time(2000), Measure::FullLoss, 74.0, ""),
    claim(RUN_TIME, at_run_time(3000), Measure::FullLoss, 48.0, ""),
    claim(RUN_TIME, at_run_time(4000), Measure::FullLoss, 33.0, ""),
    claim(RUN_TIME, at_run_time(5000), Measure::FullLoss, 24.0, ""),
    claim(
        RUN_TIME,
        at_run_time(100_000),
        Measure::FullLoss,
        0.0,
        "near 0",
    ),
    claim(SIZE, at_size(50), Measure::OnDemandGain, 9.3, ""),
    claim(SIZE, at_size(300), Measure::OnDemandGain, 13.6, ""),
    claim(SIZE, at_size(500), Measure::OnDemandGain, 13.6, "then flat"),
    cell(20, 20, 1.94),
    cell(20, 40, 3.69),
    cell(20, 60, 5.18),
    cell(80, 20, 7.12),
    cell(80, 40, 12.83),
    cell(80, 60, 17.5),
    claim(LOAD, at_load(10), Measure::FullLoss, 800.0, "almost 800"),
];

/// A published number beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedClaim {
    /// What was published.
    #[serde(flatten)]
    pub claim: Claim,
    /// Ours, percent, with its 95 % interval.
    pub ours: Interval,
    /// Whether ours is within the tolerance.
    pub agrees: bool,
}

/// A shape that the text describes, and whether it came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShapeFinding {
    /// What must hold.
    pub claim: String,
    /// The numbers on which the verdict stands.
    pub evidence: String,
    /// Whether it holds.
    pub holds: bool,
}

/// Ours at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeasuredPoint {
    /// The load.
    pub point: StudyPoint,
    /// Total time under linux, seconds.
    pub linux_s: Interval,
    /// Time that on-demand saves over linux, percent.
    pub on_demand_gain: Interval,
    /// The smallest such saving in any replication, percent.
    pub on_demand_worst: f64,
    /// Time that full takes beyond linux's, percent.
    pub full_loss: Interval,
    /// Moves of processes to another node under linux.
    pub node_moves: f64,
    /// Share of accesses under linux that were local.
    pub local_share: f64,
}

impl MeasuredPoint {
    fn of(point: StudyPoint, runs: &Replications) -> Self {
        let gain = |policy| {
            runs.gain(policy, PolicyName::Linux)
                .expect("the study runs this policy")
                .scaled(100.0)
        };
        let mean = |name| {
            let index = crate::replicate::metric(name).expect("a metric of this name exists");
            runs.mean(PolicyName::Linux, index)
                .expect("the study runs linux")
        };
        let full = gain(PolicyName::Full);
        Self {
            point,
            linux_s: mean("total_ms").scaled(0.001),
            on_demand_gain: gain(PolicyName::OnDemand),
            on_demand_worst: 100.0
                * runs
                    .worst_gain(PolicyName::OnDemand, PolicyName::Linux)
                    .unwrap_or(0.0),
            full_loss: Interval {
                value: -full.value,
                ..full
            },
            node_moves: mean("node_moves").value,
            local_share: mean("local_share").value,
        }
    }

    /// One of its two compared numbers.
    pub fn get_measure(&self, measure: Measure) -> Interval {
        match measure {
            Measure::OnDemandGain => self.on_demand_gain,
            Measure::FullLoss => self.full_loss,
        }
    }
}

/// How far the figures move when one free parameter moves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The parameter's dotted path.
    pub path: String,
    /// Its value in the study's scenario.
    pub value: String,
    /// The value tried instead.
    pub tried: String,
    /// For each of [`PROBES`]: by how many percentage points it moved.
    pub moved: Vec<f64>,
}

/// A point at which sensitivity is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SensitivityProbe {
    /// A short name for a table's heading.
    pub name: &'static str,
    /// The load.
    pub point: StudyPoint,
    /// What is looked at.
    pub measure: Measure,
}

const fn probe(name: &'static str, point: StudyPoint, measure: Measure) -> SensitivityProbe {
    SensitivityProbe {
        name,
        point,
        measure,
    }
}

/// Where sensitivity is measured: points of each figure.
pub const PROBES: &[SensitivityProbe] = &[
    probe("gain 500 ms", at_run_time(500), Measure::OnDemandGain),
    probe("gain 3 s", at_run_time(3000), Measure::OnDemandGain),
    probe("gain 10 s", at_run_time(10_000), Measure::OnDemandGain),
    probe("gain 300 KB", at_size(300), Measure::OnDemandGain),
    probe("table 80/60", at_shares(200, 80, 60), Measure::OnDemandGain),
    probe("gain 10 proc.", at_load(10), Measure::OnDemandGain),
    probe("full 500 ms", at_run_time(500), Measure::FullLoss),
    probe("full 3 s", at_run_time(3000), Measure::FullLoss),
    probe("full 10 proc.", at_load(10), Measure::FullLoss),
];

/// The study, reproduced.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reproduction {
    /// Replications of each point.
    pub replications: u64,
    /// The seed.
    pub seed: u64,
    /// Every point.
    pub points: Vec<MeasuredPoint>,
    /// Every published number beside ours.
    pub claims: Vec<JudgedClaim>,
    /// Every shape.
    pub shapes: Vec<ShapeFinding>,
    /// How far figures move with the free parameters; empty if not asked for.
    pub sensitivity: Vec<Sensitivity>,
    /// Replications of each of those points.
    pub sensitivity_replications: u64,
}

impl Reproduction {
    /// A point's results.
    pub fn at(&self, point: StudyPoint) -> Option<&MeasuredPoint> {
        self.points.iter().find(|measured| measured.point == point)
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

/// What is being done, for a progress display: steps done and steps in all, in units of one simulated point.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

const POLICIES: [PolicyName; 3] = [PolicyName::Linux, PolicyName::Full, PolicyName::OnDemand];

fn measure(
    source: &ScenarioText,
    changes: &[(String, toml::Value)],
    point: StudyPoint,
    seed: u64,
    replications: u64,
) -> Result<MeasuredPoint, ScenarioError> {
    let mut settings = point.settings();
    settings.extend(changes.iter().cloned());
    let scenario = source.with(&settings)?;
    Ok(MeasuredPoint::of(
        point,
        &Replications::run(&scenario.case, &POLICIES, seed, replications),
    ))
}

/// Runs the whole study.
///
/// # Errors
/// A scenario that cannot be used; with the built-in one, only changes made by the caller can cause that.
pub fn reproduce(
    source: &ScenarioText,
    replications: Option<u64>,
    sensitivity_replications: u64,
    progress: Progress<'_>,
) -> Result<Reproduction, ScenarioError> {
    let scenario = source.scenario()?;
    let (seed, replications) = (scenario.seed, replications.unwrap_or(scenario.replications));
    let all = points();
    let variants = if sensitivity_replications > 0 {
        variants(source, &scenario)
    } else {
        Vec::new()
    };
    let mut probes: Vec<StudyPoint> = Vec::new();
    for probe in PROBES {
        if !probes.contains(&probe.point) {
            probes.push(probe.point);
        }
    }
    let steps = all.len()
        + if variants.is_empty() {
            0
        } else {
            (variants.len() + 1) * probes.len()
        };
    let mut done = 0;
    let mut step = || {
        done += 1;
        progress(done, steps);
    };
    let mut measured = Vec::with_capacity(all.len());
    for point in all {
        measured.push(measure(source, &[], point, seed, replications)?);
        step();
    }
    let mut probe_all = |changes: &[(String, toml::Value)]| -> Result<Vec<f64>, ScenarioError> {
        let mut results = HashMap::new();
        for &point in &probes {
            results.insert(
                point,
                measure(source, changes, point, seed, sensitivity_replications)?,
            );
            step();
        }
        Ok(PROBES
            .iter()
            .map(|probe| results[&probe.point].get_measure(probe.measure).value)
            .collect())
    };
    let mut sensitivity = Vec::new();
    if !variants.is_empty() {
        let base = probe_all(&[])?;
        for (path, value, tried) in variants {
            let results = probe_all(&[(path.clone(), tried.clone())])?;
            let moved = results
                .iter()
                .zip(&base)
                .map(|(new, old)| new - old)
                .collect();
            sensitivity.push(Sensitivity {
                path,
                value: shown(&value),
                tried: shown(&tried),
                moved,
            });
        }
    }
    let find = |point: StudyPoint| {
        measured
            .iter()
            .find(|m| m.point == point)
            .expect("every claim's point is run")
    };
    let claims = CLAIMS
        .iter()
        .map(|&claim| {
            let ours = find(claim.point).get_measure(claim.measure);
            let agrees =
                (ours.value - claim.published).abs() <= claim.tolerance.of(claim.published);
            JudgedClaim {
                claim,
                ours,
                agrees,
            }
        })
        .collect();
    let shapes = shapes(&find);
    Ok(Reproduction {
        replications,
        seed,
        claims,
        shapes,
        points: measured,
        sensitivity,
        sensitivity_replications,
    })
}

fn shown(value: &toml::Value) -> String {
    match value {
        toml::Value::Float(value) => format!("{value}"),
        toml::Value::Array(rows) => match rows.first() {
            Some(toml::Value::Array(first)) => {
                first
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
                    + " ..."
            }
            _ => value.to_string(),
        },
        toml::Value::Table(table) => table
            .values()
            .map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
            .collect::<Vec<_>>()
            .join(" "),
        _ => value.to_string().trim_matches('"').to_owned(),
    }
}

/// The variants of each free parameter: half and one and a half times a number (or, where that is out of its range,
/// the value next to it in its grid), and every other choice of what is no number.
fn variants(source: &ScenarioText, scenario: &Scenario) -> Vec<(String, toml::Value, toml::Value)> {
    let mut all = Vec::new();
    for free in &scenario.free {
        let Some(value) = source.value(&free.path) else {
            continue;
        };
        let number =
            |value: &toml::Value| value.as_float().or(value.as_integer().map(|i| i as f64));
        let tried: Vec<toml::Value> = match number(value) {
            Some(now) => {
                let possible = |value: &toml::Value| {
                    source.with(&[(free.path.clone(), value.clone())]).is_ok()
                };
                let side = |factor: f64| {
                    let moved = Some(toml::Value::Float(now * factor)).filter(&possible);
                    let further = |v: &&toml::Value| {
                        number(v).is_some_and(|v| (v - now) * (factor - 1.0) > 0.0)
                    };
                    let distance =
                        |v: &toml::Value| number(v).map_or(f64::INFINITY, |v| (v - now).abs());
                    let nearest = || {
                        let others = free.grid.iter().filter(further);
                        others
                            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
                            .cloned()
                    };
                    moved.or_else(nearest)
                };
                [side(0.5), side(1.5)].into_iter().flatten().collect()
            }
            None => free
                .grid
                .iter()
                .filter(|other| *other != value)
                .cloned()
                .collect(),
        };
        all.extend(
            tried
                .into_iter()
                .map(|tried| (free.path.clone(), value.clone(), tried)),
        );
    }
    all
}

fn shapes<'m>(find: &dyn Fn(StudyPoint) -> &'m MeasuredPoint) -> Vec<ShapeFinding> {
    let gain = |point| find(point).on_demand_gain.value;
    let loss = |point| find(point).full_loss.value;
    let list = |values: &[f64]| {
        values
            .iter()
            .map(|v| format!("{v:.1}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut shapes = Vec::new();
    let mut shape = |claim: &str, holds: bool, evidence: String| {
        shapes.push(ShapeFinding {
            claim: claim.into(),
            evidence,
            holds,
        });
    };

    let every: Vec<&MeasuredPoint> = points().into_iter().map(find).collect();
    let least = every
        .iter()
        .map(|m| m.on_demand_gain.low())
        .fold(f64::INFINITY, f64::min);
    let worst = every
        .iter()
        .map(|m| m.on_demand_worst)
        .fold(f64::INFINITY, f64::min);
    shape(
        "on-demand is never worse than linux",
        least >= 0.0,
        format!("smallest gain at any point, lower end: {least:.2} %; worst single replication: {worst:.2} %"),
    );

    for (processes, step_least) in [(200, 27.0), (400, 30.0)] {
        let cells = |a, r| gain(at_shares(processes, a, r));
        let mut steps = Vec::new();
        for r in REUSE_PERCENT {
            steps.extend(
                ACCESS_PERCENT
                    .windows(2)
                    .map(|a| 100.0 * (cells(a[1], r) / cells(a[0], r) - 1.0)),
            );
        }
        for a in ACCESS_PERCENT {
            steps.extend(
                REUSE_PERCENT
                    .windows(2)
                    .map(|r| 100.0 * (cells(a, r[1]) / cells(a, r[0]) - 1.0)),
            );
        }
        let smallest = steps.iter().copied().fold(f64::INFINITY, f64::min);
        shape(
            &format!("{processes} processes: the gain grows with both access shares"),
            smallest > 0.0,
            format!("smallest step: {smallest:+.1} % of the gain before it"),
        );
        shape(
            &format!("{processes} processes: 20 points more of either share raise the gain by at least {step_least} %"),
            smallest >= step_least,
            format!("smallest step: {smallest:+.1} %"),
        );
    }
    let smaller = ACCESS_PERCENT
        .iter()
        .flat_map(|&a| {
            REUSE_PERCENT.map(|r| gain(at_shares(400, a, r)) / gain(at_shares(200, a, r)))
        })
        .collect::<Vec<f64>>();
    shape(
        "with 400 processes the gains are smaller than with 200",
        smaller.iter().all(|&share| share < 1.0),
        format!("gains of 400 over those of 200: {}", list(&smaller)),
    );

    let times: Vec<f64> = RUN_TIMES_MS.iter().map(|&t| gain(at_run_time(t))).collect();
    let (first, last) = (times[0], times[times.len() - 2]);
    let peak = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    shape(
        "the gain rises from 500 ms to a peak and then decays with run time",
        peak > first && peak > last,
        format!("500 ms {first:.1}, peak {peak:.1}, 15 s {last:.1}"),
    );
    let sizes: Vec<f64> = SIZES_KB.iter().map(|&s| gain(at_size(s))).collect();
    shape(
        "the gain rises with size from 50 to 300 KB, then is flat",
        sizes[3] > sizes[0] && (sizes[5] - sizes[3]).abs() <= sizes[3] / 5.0,
        format!("gains by size: {}", list(&sizes)),
    );
    let losses: Vec<f64> = RUN_TIMES_MS.iter().map(|&t| loss(at_run_time(t))).collect();
    shape(
        "full closes in on linux as run time grows",
        losses.windows(2).take(5).all(|pair| pair[1] < pair[0]),
        format!("losses from 500 ms to 5 s: {}", list(&losses[..6])),
    );
    let by_size: Vec<f64> = SIZES_KB.iter().map(|&s| loss(at_size(s))).collect();
    shape(
        "full gets worse with size",
        by_size.windows(2).all(|pair| pair[1] > pair[0]),
        format!("losses by size: {}", list(&by_size)),
    );
    let by_load: Vec<f64> = LOADS.iter().map(|&n| loss(at_load(n))).collect();
    shape(
        "full gets closer to linux as load grows",
        LOADS[4..].windows(2).all(|pair| {
            // Each step down, as far as the intervals can tell.
            let (fewer, more) = (
                find(at_load(pair[0])).full_loss,
                find(at_load(pair[1])).full_loss,
            );
            more.value < fewer.value + fewer.half_width + more.half_width
        }) && by_load[by_load.len() - 1] < by_load[0].min(by_load[4]),
        format!(
            "losses by load, {} to {} processes: {}",
            LOADS[0],
            LOADS[LOADS.len() - 1],
            list(&by_load)
        ),
    );
    let worst_of_three = every
        .iter()
        .filter(|m| m.point.run_time_ms <= 5000)
        .all(|m| m.full_loss.value > 0.0);
    let least_loss = every
        .iter()
        .filter(|m| m.point.run_time_ms <= 5000)
        .map(|m| m.full_loss.value);
    shape(
        "full is the worst of the three for run times up to 5 s",
        worst_of_three,
        format!(
            "smallest loss there: {:.1} %",
            least_loss.fold(f64::INFINITY, f64::min)
        ),
    );
    let (ten, sixty) = (gain(at_load(10)), gain(at_load(60)));
    shape(
        "on-demand gains more at 10 processes than at 60",
        ten > sixty,
        format!("10: {ten:.1} %, 60: {sixty:.1} %"),
    );
    shapes
}

/// One step of a calibration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalibrationStep {
    /// The settings tried, beyond the scenario's own.
    pub settings: Vec<(String, String)>,
    /// Sum over the claims of the squared difference in units of the tolerance (each at most 25, so that a claim
    /// that cannot be met does not rule).
    pub misfit: f64,
    /// Claims within their tolerance.
    pub agree: usize,
    /// Whether it is the best so far.
    pub best: bool,
}

/// Searches the free parameters for the set that agrees with all published numbers best: from the scenario's own values,
/// one or two parameters at a time are set to another value of their grid, and what lowers the misfit is kept. Of the two
/// contradictory values for one point, both count.
///
/// # Errors
/// A scenario that cannot be used.
pub fn calibrate(
    source: &ScenarioText,
    steps: usize,
    seed: u64,
    replications: u64,
    report: &mut dyn FnMut(&CalibrationStep),
) -> Result<Vec<(String, toml::Value)>, ScenarioError> {
    let scenario = source.scenario()?;
    let free: Vec<_> = scenario
        .free
        .iter()
        .filter(|free| free.grid.len() > 1)
        .collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut best: Vec<(String, toml::Value)> = Vec::new();
    let mut least = f64::INFINITY;
    for step in 0..steps {
        let mut settings = best.clone();
        if step > 0 && !free.is_empty() {
            for _ in 0..rng.random_range(1..=2) {
                let free = free[rng.random_range(0..free.len())];
                let value = free.grid[rng.random_range(0..free.grid.len())].clone();
                settings.retain(|(path, _)| *path != free.path);
                settings.push((free.path.clone(), value));
            }
        }
        let mut results: HashMap<StudyPoint, MeasuredPoint> = HashMap::new();
        let (mut misfit, mut agree) = (0.0, 0);
        for claim in CLAIMS {
            let measured = match results.get(&claim.point) {
                Some(measured) => *measured,
                None => {
                    let measured =
                        measure(source, &settings, claim.point, scenario.seed, replications)?;
                    results.insert(claim.point, measured);
                    measured
                }
            };
            let off = measured.get_measure(claim.measure).value - claim.published;
            let units = off / claim.tolerance.of(claim.published);
            misfit += (units * units).min(25.0);
            agree += usize::from(units.abs() <= 1.0);
        }
        let is_best = misfit < least;
        if is_best {
            least = misfit;
            best.clone_from(&settings);
        }
        let settings = settings
            .iter()
            .map(|(path, value)| (path.clone(), shown(value)))
            .collect();
        report(&CalibrationStep {
            settings,
            misfit,
            agree,
            best: is_best,
        });
    }
    Ok(best)
}
