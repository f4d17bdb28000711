//! The published numbers, quoted as they stand; nothing here is a result.

use serde::Serialize;

use self::Measure::{FullLoss, OnDemandGain};
use super::points::{at_load, at_run_time, at_shares, at_size, StudyPoint};
use zmeld_report::statistics::mean::Interval;

/// Quantity compared at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Time that on-demand saves over no-balancing, percent.
    OnDemandGain,
    /// Time that full takes beyond no-balancing's, percent.
    FullLoss,
}

/// How near is near enough.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Claim {
    /// The figure or table it belongs to.
    pub figure: &'static str,
    /// The load.
    pub point: StudyPoint,
    /// Quantity compared.
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
const TABLE: &str = "access shares";
const LOAD: &str = "load";
const ELSEWHERE: &str = "for the same point in another place";

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
    let point = at_shares(200, access_percent, reuse_percent);
    Claim {
        tolerance: Tolerance::Points(1.5),
        ..claim(TABLE, point, OnDemandGain, published, "")
    }
}

/// Every published number.
pub const CLAIMS: &[Claim] = &[
    claim(RUN_TIME, at_run_time(500), OnDemandGain, 10.8, ""),
    claim(RUN_TIME, at_run_time(3000), OnDemandGain, 12.7, "the peak"),
    claim(
        RUN_TIME,
        at_run_time(10_000),
        OnDemandGain,
        9.3,
        "in one place",
    ),
    claim(RUN_TIME, at_run_time(10_000), OnDemandGain, 3.0, ELSEWHERE),
    claim(RUN_TIME, at_run_time(500), FullLoss, 200.0, "almost 200"),
    claim(RUN_TIME, at_run_time(1000), FullLoss, 146.0, ""),
    claim(RUN_TIME, at_run_time(2000), FullLoss, 74.0, ""),
    claim(RUN_TIME, at_run_time(3000), FullLoss, 48.0, ""),
    claim(RUN_TIME, at_run_time(4000), FullLoss, 33.0, ""),
    claim(RUN_TIME, at_run_time(5000), FullLoss, 24.0, ""),
    claim(RUN_TIME, at_run_time(100_000), FullLoss, 0.0, "near 0"),
    claim(SIZE, at_size(50), OnDemandGain, 9.3, ""),
    claim(SIZE, at_size(300), OnDemandGain, 13.6, ""),
    claim(SIZE, at_size(500), OnDemandGain, 13.6, "then flat"),
    cell(20, 20, 1.94),
    cell(20, 40, 3.69),
    cell(20, 60, 5.18),
    cell(80, 20, 7.12),
    cell(80, 40, 12.83),
    cell(80, 60, 17.5),
    claim(LOAD, at_load(10), FullLoss, 800.0, "almost 800"),
];

/// A published number beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct JudgedClaim {
    /// The published claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// Ours, percent, with its 95 % interval.
    pub ours: Interval,
    /// Whether ours is within the tolerance.
    pub agrees: bool,
    /// Whether its whole interval says the same.
    pub is_decided: bool,
}

/// Whether ours, with its whole interval, is within the bound of what was published, or beyond it.
pub(super) fn is_decided(claim: &Claim, ours: Interval) -> bool {
    let bound = claim.tolerance.of(claim.published);
    let apart = (ours.value - claim.published).abs();
    (apart - bound).abs() >= ours.half_width
}
