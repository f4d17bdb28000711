//! Shapes of the figures by the text, and whether they come out.

use serde::Serialize;

use super::measure::MeasuredPoint;
use super::points::{
    at_load, at_run_time, at_shares, at_size, points, StudyPoint, ACCESS_PERCENT, LOADS,
    REUSE_PERCENT, RUN_TIMES_MS, SIZES_KB,
};

/// A shape that the text describes, and whether it came out.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ShapeFinding {
    /// The shape.
    pub claim: String,
    /// The numbers on which the verdict stands.
    pub evidence: String,
    /// Whether it holds.
    pub holds: bool,
}

/// All of them, in the order of the text.
pub(super) fn shapes<'m>(find: &dyn Fn(StudyPoint) -> &'m MeasuredPoint) -> Vec<ShapeFinding> {
    let mut shapes = Shapes {
        find,
        found: Vec::new(),
    };
    shapes.never_worse();
    for (processes, step_least) in [(200, 27.0), (400, 30.0)] {
        shapes.access_shares(processes, step_least);
    }
    shapes.more_processes();
    shapes.gains();
    shapes.losses();
    shapes.losses_by_load();
    shapes.worst_of_three();
    shapes.few_processes();
    shapes.found
}

struct Shapes<'f, 'm> {
    find: &'f dyn Fn(StudyPoint) -> &'m MeasuredPoint,
    found: Vec<ShapeFinding>,
}

fn list(values: &[f64]) -> String {
    let texts: Vec<String> = values.iter().map(|v| format!("{v:.1}")).collect();
    texts.join(", ")
}

fn smallest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

impl<'m> Shapes<'_, 'm> {
    fn add(&mut self, claim: &str, holds: bool, evidence: String) {
        self.found.push(ShapeFinding {
            claim: claim.into(),
            evidence,
            holds,
        });
    }

    fn gain(&self, point: StudyPoint) -> f64 {
        (self.find)(point).on_demand_gain.value
    }

    fn loss(&self, point: StudyPoint) -> f64 {
        (self.find)(point).full_loss.value
    }

    fn every(&self) -> Vec<&'m MeasuredPoint> {
        points().into_iter().map(self.find).collect()
    }

    fn never_worse(&mut self) {
        let every = self.every();
        let least = smallest(every.iter().map(|m| m.on_demand_gain.low()));
        let worst = smallest(every.iter().map(|m| m.on_demand_worst));
        self.add(
            "on-demand is never worse than no-balancing",
            least >= 0.0,
            format!("smallest gain at any point, lower end: {least:.2} %; worst single replication: {worst:.2} %"),
        );
    }

    fn access_shares(&mut self, processes: u32, step_least: f64) {
        let cell = |a, r| self.gain(at_shares(processes, a, r));
        let step = |from: f64, to: f64| 100.0 * (to / from - 1.0);
        let mut steps = Vec::new();
        for r in REUSE_PERCENT {
            let pairs = ACCESS_PERCENT.windows(2);
            steps.extend(pairs.map(|a| step(cell(a[0], r), cell(a[1], r))));
        }
        for a in ACCESS_PERCENT {
            let pairs = REUSE_PERCENT.windows(2);
            steps.extend(pairs.map(|r| step(cell(a, r[0]), cell(a, r[1]))));
        }
        let smallest = smallest(steps.into_iter());
        self.add(
            &format!("{processes} processes: the gain grows with both access shares"),
            smallest > 0.0,
            format!("smallest step: {smallest:+.1} % of the gain before it"),
        );
        self.add(
            &format!("{processes} processes: 20 points more of either share raise the gain by at least {step_least} %"),
            smallest >= step_least,
            format!("smallest step: {smallest:+.1} %"),
        );
    }

    fn more_processes(&mut self) {
        let of = |processes, a, r| self.gain(at_shares(processes, a, r));
        let cells = ACCESS_PERCENT.iter();
        let ratios: Vec<f64> = cells
            .flat_map(|&a| REUSE_PERCENT.map(|r| of(400, a, r) / of(200, a, r)))
            .collect();
        self.add(
            "with 400 processes the gains are smaller than with 200",
            ratios.iter().all(|&share| share < 1.0),
            format!("gains of 400 over those of 200: {}", list(&ratios)),
        );
    }

    /// The gain of on-demand by run time and by size.
    fn gains(&mut self) {
        let times = RUN_TIMES_MS.map(|t| self.gain(at_run_time(t)));
        // The last one, 100 s, stands far off the others.
        let (first, last) = (times[0], times[times.len() - 2]);
        let peak = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.add(
            "the gain rises from 500 ms to a peak and then decays with run time",
            peak > first && peak > last,
            format!("500 ms {first:.1}, peak {peak:.1}, 15 s {last:.1}"),
        );
        let sizes = SIZES_KB.map(|s| self.gain(at_size(s)));
        self.add(
            "the gain rises with size from 50 to 300 KB, then is flat",
            sizes[3] > sizes[0] && (sizes[5] - sizes[3]).abs() <= sizes[3] / 5.0,
            format!("gains by size: {}", list(&sizes)),
        );
    }

    /// The loss of full by run time and by size.
    fn losses(&mut self) {
        let losses = RUN_TIMES_MS.map(|t| self.loss(at_run_time(t)));
        self.add(
            "full closes in on no-balancing as run time grows",
            losses.windows(2).take(5).all(|pair| pair[1] < pair[0]),
            format!("losses from 500 ms to 5 s: {}", list(&losses[..6])),
        );
        let by_size = SIZES_KB.map(|s| self.loss(at_size(s)));
        self.add(
            "full gets worse with size",
            by_size.windows(2).all(|pair| pair[1] > pair[0]),
            format!("losses by size: {}", list(&by_size)),
        );
    }

    fn losses_by_load(&mut self) {
        let by_load = LOADS.map(|n| self.loss(at_load(n)));
        // Each step down, as far as the intervals can tell.
        let falls = |pair: &[u32]| {
            let fewer = (self.find)(at_load(pair[0])).full_loss;
            let more = (self.find)(at_load(pair[1])).full_loss;
            more.value < fewer.value + fewer.half_width + more.half_width
        };
        let last = by_load[by_load.len() - 1];
        let holds = LOADS[4..].windows(2).all(falls) && last < by_load[0].min(by_load[4]);
        self.add(
            "full gets closer to no-balancing as load grows",
            holds,
            format!(
                "losses by load, {} to {} processes: {}",
                LOADS[0],
                LOADS[LOADS.len() - 1],
                list(&by_load)
            ),
        );
    }

    fn worst_of_three(&mut self) {
        let every = self.every();
        let short = every.iter().filter(|m| m.point.run_time_ms <= 5000);
        let losses: Vec<f64> = short.map(|m| m.full_loss.value).collect();
        self.add(
            "full is the worst of the three for run times up to 5 s",
            losses.iter().all(|&loss| loss > 0.0),
            format!("smallest loss there: {:.1} %", smallest(losses.into_iter())),
        );
    }

    fn few_processes(&mut self) {
        let (ten, sixty) = (self.gain(at_load(10)), self.gain(at_load(60)));
        self.add(
            "on-demand gains more at 10 processes than at 60",
            ten > sixty,
            format!("10: {ten:.1} %, 60: {sixty:.1} %"),
        );
    }
}
